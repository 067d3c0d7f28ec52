package engine

import (
	"context"
	"errors"
	"io"
	"maps"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// testSchema is id Int64 (primary key), v Utf8, n Int32 nullable.
func testSchema() *arrow.Schema {
	key := arrow.NewMetadata(
		[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"},
		[]string{"true", "1"})
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key},
		{Name: "v", Type: arrow.BinaryTypes.String},
		{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil)
}

func testRow(id int64, v string) arrowx.Row {
	if id%3 == 0 {
		return arrowx.Row{id, v, nil}
	}
	return arrowx.Row{id, v, int32(id * 2)}
}

// contents is what a table holds, by id.
type contents map[int64]string

// smallConfig makes flushes and merges happen after a handful of rows and runs jobs only when asked.
func smallConfig() Config {
	return Config{
		MemTableRows: 8, MergeAfterGenerations: 2, Workers: NoWorkers, ManifestRetention: NoRetention,
		FrozenSoft: 100, FrozenHard: 100, GenerationsSoft: 100, GenerationsHard: 100,
	}
}

func openOn(ctx context.Context, store objstore.Store) (*Engine, error) {
	return Open(ctx, smallConfig(), Components{Store: store})
}

func mustOpen(t *testing.T, store objstore.Store) *Engine {
	t.Helper()
	e, err := openOn(t.Context(), store)
	require.NoError(t, err)
	return e
}

func createTestTable(ctx context.Context, e *Engine) error {
	if err := e.CreateDatabase(ctx, "db", nil); err != nil {
		return err
	}
	_, err := e.CreateTable(ctx, "db", "t", TableDef{Schema: testSchema(), Shape: []byte(`{}`), AutoColumn: -1})
	return err
}

func testTable(e *Engine) *TableEntry {
	d := e.Catalog().Database("db")
	if d == nil {
		return nil
	}
	return d.Table("t")
}

// write is one transaction: rows to put and ids to delete.
type write struct {
	put  contents
	drop []int64
}

// apply returns the contents after w.
func (c contents) apply(w write) contents {
	out := maps.Clone(c)
	for _, id := range w.drop {
		delete(out, id)
	}
	maps.Copy(out, w.put)
	return out
}

// run commits w: an existing id is updated, a new one inserted.
func (w write) run(ctx context.Context, e *Engine) error {
	t := e.Begin(TxnOptions{})
	defer t.Rollback()
	t.BeginStatement()
	tbl := testTable(e)
	for _, id := range w.drop {
		if err := t.Delete(ctx, tbl, testRow(id, "")); err != nil {
			return err
		}
	}
	for id, v := range w.put {
		err := t.Insert(ctx, tbl, testRow(id, v))
		var dup *DuplicateKeyError
		if errors.As(err, &dup) {
			err = t.Update(ctx, tbl, dup.Existing, testRow(id, v))
		}
		if err != nil {
			return err
		}
	}
	return t.Commit(ctx)
}

// read scans the table and checks the n column on the way.
func read(ctx context.Context, t *Txn, kind ReadKind, spec lsm.ScanSpec) (contents, error) {
	if spec.Columns == nil {
		spec.Columns = []int{0, 1, 2}
	}
	r, err := t.Scan(ctx, testTable(t.e), kind, spec)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := contents{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range int(rec.NumRows()) {
			row := arrowx.RowOf(rec, i)
			id := row[0].(int64)
			if _, twice := out[id]; twice {
				rec.Release()
				return nil, errors.New("a key came twice")
			}
			out[id] = row[1].(string)
			if want := testRow(id, "")[2]; row[2] != want {
				rec.Release()
				return nil, errors.New("column n is wrong")
			}
		}
		rec.Release()
	}
}

func dump(ctx context.Context, e *Engine) (contents, error) {
	t := e.Begin(TxnOptions{})
	defer t.Rollback()
	t.BeginStatement()
	return read(ctx, t, Consistent, lsm.ScanSpec{})
}

func mustDump(t *testing.T, e *Engine) contents {
	t.Helper()
	c, err := dump(t.Context(), e)
	require.NoError(t, err)
	return c
}

// work runs all background jobs that are due.
func work(e *Engine) {
	for e.jobs.RunOne() {
		continue
	}
}
