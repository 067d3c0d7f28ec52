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
	a := e.Alter()
	require.ErrorIs(t, a.ChangeOptions("db", func(DatabaseOptions) (DatabaseOptions, error) { return nil, refused }), refused)
	require.ErrorIs(t, a.ChangeOptions("none", func(DatabaseOptions) (DatabaseOptions, error) { return nil, nil }), errs.ErrNotFound)
	require.NoError(t, a.ChangeOptions("DB", func(o DatabaseOptions) (DatabaseOptions, error) {
		require.Equal(t, DatabaseOptions{"a": "1"}, o)
		return DatabaseOptions{"a": "", "b": "2"}, nil
	}))
	require.Equal(t, DatabaseOptions{"a": "1"}, e.Catalog().Database("db").Options)
	require.NoError(t, a.Commit(ctx))
	require.Equal(t, DatabaseOptions{"b": "2"}, e.Catalog().Database("db").Options)

	old, err := e.CreateTable(ctx, "db", "t", TableDef{Schema: ddlSchema(), Shape: []byte("x"), AutoColumn: -1})
	require.NoError(t, err)
	a = e.Alter()
	require.ErrorIs(t, a.ChangeShape("db", "none", func(*TableEntry) ([]byte, error) { return nil, nil }), errs.ErrNotFound)
	require.ErrorIs(t, a.ChangeShape("db", "t", func(*TableEntry) ([]byte, error) { return make([]byte, shapeBytesMax+1), nil }), errs.ErrLimit)
	require.NoError(t, a.ChangeShape("db", "t", func(t *TableEntry) ([]byte, error) { return append(t.Shape[:1:1], 'y'), nil }))
	require.NoError(t, a.Commit(ctx))
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

// Names that change in turn: in the end each table lies where its name says, or goes there at the next open.
func TestAlterationSwapsNames(t *testing.T) {
	ctx := context.Background()
	store := objstore.NewMem()
	e, err := Open(ctx, Config{Workers: NoWorkers}, Components{Store: store})
	require.NoError(t, err)
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	ids := map[string]TableID{}
	for _, name := range []string{"a", "b", "c"} {
		x, err := e.CreateTable(ctx, "db", name, TableDef{Schema: ddlSchema(), AutoColumn: -1})
		require.NoError(t, err)
		ids[name] = x.ID
	}
	a := e.Alter()
	require.ErrorIs(t, a.RenameTable("db", "a", "b"), errs.ErrExists)
	require.ErrorIs(t, a.RenameTable("db", "none", "d"), errs.ErrNotFound)
	for _, r := range [][2]string{{"a", "x"}, {"b", "a"}, {"c", "b"}, {"x", "c"}} {
		require.NoError(t, a.RenameTable("db", r[0], r[1]))
	}
	require.Equal(t, ids["a"], e.Catalog().Database("db").Table("a").ID, "nobody else sees it")
	require.NoError(t, a.Commit(ctx))
	for name, was := range map[string]string{"a": "b", "b": "c", "c": "a"} {
		x := e.Catalog().Database("db").Table(name)
		require.Equal(t, ids[was], x.ID)
		require.Equal(t, "db/"+name+".lance", x.Path)
	}

	a = e.Alter()
	require.NoError(t, a.DropTable(ctx, "db", "a"))
	_, err = a.CreateTable(ctx, "db", "a", TableDef{Schema: ddlSchema(), AutoColumn: -1})
	require.NoError(t, err)
	require.NoError(t, a.Abort(ctx))
	require.NoError(t, a.Commit(ctx), "it has ended")
	require.Equal(t, ids["b"], e.Catalog().Database("db").Table("a").ID)
	require.Len(t, e.Catalog().Database("db").Tables(), 3)

	// Somebody changes a table that is being renamed, without its lock.
	a = e.Alter()
	require.NoError(t, a.RenameTable("db", "a", "z"))
	b := e.Alter()
	require.NoError(t, b.ChangeShape("db", "a", func(*TableEntry) ([]byte, error) { return []byte("new"), nil }))
	require.NoError(t, b.Commit(ctx))
	require.ErrorIs(t, a.Commit(ctx), errs.ErrSchemaChanged)

	// Changes of the same table by two, each of which sees the other's.
	a, b = e.Alter(), e.Alter()
	more := func(text string) func(*TableEntry) ([]byte, error) {
		return func(t *TableEntry) ([]byte, error) { return append(t.Shape[:len(t.Shape):len(t.Shape)], text...), nil }
	}
	require.NoError(t, a.ChangeShape("db", "a", more(" 1")))
	require.NoError(t, b.ChangeShape("db", "a", more(" 2")))
	require.NoError(t, a.Commit(ctx))
	require.NoError(t, b.Commit(ctx))
	require.Equal(t, "new 1 2", string(e.Catalog().Database("db").Table("a").Shape))
	require.NoError(t, e.Close(ctx))
}
