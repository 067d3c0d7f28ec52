package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func TestChangeOptionsAndShape(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMem()
	e, err := Open(ctx, Config{Workers: NoWorkers}, Components{Store: store})
	require.NoError(t, err)
	require.NoError(t, e.CreateDatabase(ctx, "db", map[string]string{"a": "1"}))

	refused := errors.New("refused")
	require.ErrorIs(t, e.ChangeOptions(ctx, "db", func(DatabaseOptions) (DatabaseOptions, error) { return nil, refused }), refused)
	require.ErrorIs(t, e.ChangeOptions(ctx, "none", func(DatabaseOptions) (DatabaseOptions, error) { return nil, nil }), errs.ErrNotFound)
	require.NoError(t, e.ChangeOptions(ctx, "DB", func(o DatabaseOptions) (DatabaseOptions, error) {
		require.Equal(t, DatabaseOptions{"a": "1"}, o)
		return DatabaseOptions{"a": "", "b": "2"}, nil
	}))
	require.Equal(t, DatabaseOptions{"b": "2"}, e.Catalog().Database("db").Options)

	old, err := e.CreateTable(ctx, "db", "t", TableDef{Schema: ddlSchema(), Shape: []byte("x"), AutoColumn: -1})
	require.NoError(t, err)
	require.ErrorIs(t, e.ChangeShape(ctx, "db", "none", func(*TableEntry) ([]byte, error) { return nil, nil }), errs.ErrNotFound)
	require.ErrorIs(t, e.ChangeShape(ctx, "db", "t", func(*TableEntry) ([]byte, error) { return make([]byte, shapeBytesMax+1), nil }), errs.ErrLimit)
	require.NoError(t, e.ChangeShape(ctx, "db", "t", func(t *TableEntry) ([]byte, error) { return append(t.Shape[:1:1], 'y'), nil }))
	require.Equal(t, "x", string(old.Shape), "an entry is immutable")
	require.NoError(t, e.Close(ctx))

	e, err = Open(ctx, Config{Workers: NoWorkers}, Components{Store: store})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	require.Equal(t, DatabaseOptions{"b": "2"}, e.Catalog().Database("db").Options)
	fresh := e.Catalog().Database("db").Table("t")
	require.Equal(t, "xy", string(fresh.Shape))
	require.Equal(t, old.ID, fresh.ID)
	require.True(t, old.Schema.Equal(fresh.Schema))
}

func TestStatementStart(t *testing.T) {
	ctx := context.Background()
	e, err := Open(ctx, Config{Workers: NoWorkers}, Components{Store: objstore.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	x := e.Begin(TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	require.Equal(t, x.Mark(), x.StatementStart())
	x.SetStatementStart(x.Mark() + 5)
	require.Equal(t, x.Mark(), x.StatementStart(), "nothing lies ahead")
}
