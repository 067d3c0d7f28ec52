package engine

import (
	"context"
	"errors"
	"io"
	"maps"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/logfile"
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
		JournalSegmentBytes: 64 << 10, JournalBytes: 1 << 20, FrozenSoft: 100, FrozenHard: 100, GenerationsSoft: 100, GenerationsHard: 100,
	}
}

func openOn(ctx context.Context, store objstore.Store) (*Engine, error) {
	return Open(ctx, smallConfig(), Components{Store: store})
}

// disk is where an engine keeps everything: store and journal on one filesystem.
type disk struct {
	store   objstore.Store
	journal *logfile.Dir
}

func diskOn(fs vfs.FS) (d disk, err error) {
	if d.store, err = objstore.OpenLocal(fs, "/data"); err != nil {
		return d, err
	}
	d.journal, err = logfile.Open(fs, "/data/_lancesql/journal")
	return d, err
}

func (d disk) open(ctx context.Context, p planted) (*Engine, error) {
	return openWith(ctx, smallConfig(), Components{Store: d.store, Journal: d.journal}, p)
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
	_, err := e.CreateTable(ctx, "db", "t", testDef())
	return err
}

func testDef() TableDef { return TableDef{Schema: testSchema(), Shape: []byte(`{}`), AutoColumn: -1} }

// shardedDef spreads the rows over two shards.
func shardedDef() TableDef {
	def := testDef()
	def.Sharding = lsm.Sharding{Column: "id", Buckets: 2}
	return def
}

func testTable(e *Engine) *TableEntry { return namedTable(e, "t") }

func namedTable(e *Engine, name string) *TableEntry {
	d := e.Catalog().Database("db")
	if d == nil {
		return nil
	}
	return d.Table(name)
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
func (w write) run(ctx context.Context, e *Engine) error { return w.runOn(ctx, e, "t") }

// runOn commits w on each of the tables, as one transaction.
func (w write) runOn(ctx context.Context, e *Engine, tables ...string) error {
	t := e.Begin(TxnOptions{})
	defer t.Rollback()
	t.BeginStatement()
	for _, name := range tables {
		if err := w.put1(ctx, t, namedTable(e, name)); err != nil {
			return err
		}
	}
	return t.Commit(ctx)
}

func (w write) put1(ctx context.Context, t *Txn, tbl *TableEntry) error {
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
	return nil
}

// read scans table t and checks the n column on the way.
func read(ctx context.Context, t *Txn, kind ReadKind, spec lsm.ScanSpec) (contents, error) {
	return readFrom(ctx, t, testTable(t.e), kind, spec)
}

func readFrom(ctx context.Context, t *Txn, tbl *TableEntry, kind ReadKind, spec lsm.ScanSpec) (contents, error) {
	if spec.Columns == nil {
		spec.Columns = []int{0, 1, 2}
	}
	r, err := t.Scan(ctx, tbl, kind, spec)
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

func dump(ctx context.Context, e *Engine) (contents, error) { return dumpOf(ctx, e, "t") }

func dumpOf(ctx context.Context, e *Engine, table string) (contents, error) {
	t := e.Begin(TxnOptions{})
	defer t.Rollback()
	t.BeginStatement()
	return readFrom(ctx, t, namedTable(e, table), Consistent, lsm.ScanSpec{})
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
