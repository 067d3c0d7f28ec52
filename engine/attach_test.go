package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
	"lancesql/lance/schema"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// foreignSchema is a table without a key: n Int32.
func foreignSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}}, nil)
}

// plantDataset makes a dataset that somebody else could have made, with rows 1, 1 and 2.
func plantDataset(ctx context.Context, st objstore.Store, path string, s *arrow.Schema, o table.CreateOptions) error {
	ls, err := schema.FromArrow(s)
	if err != nil {
		return err
	}
	ds, err := table.Create(ctx, st, path, ls, o)
	if err != nil {
		return err
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, []arrowx.Row{{int32(1)}, {int32(1)}, {int32(2)}})
	if err != nil {
		return err
	}
	defer rec.Release()
	_, err = ds.Append(ctx, table.Records(s, rec), table.WriteOptions{})
	return err
}

func anyShape(*arrow.Schema) ([]byte, error) { return []byte(`{}`), nil }

// numbers is the rows of a table without a key.
type numbers map[int32]int

func readNumbers(ctx context.Context, txn *Txn, tbl *TableEntry) (numbers, error) {
	r, err := txn.Scan(ctx, tbl, Consistent, lsm.ScanSpec{Columns: []int{0}})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := numbers{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range int(rec.NumRows()) {
			out[arrowx.RowOf(rec, i)[0].(int32)]++
		}
		rec.Release()
	}
}

func numbersOf(ctx context.Context, e *Engine, tbl *TableEntry) (numbers, error) {
	txn := e.Begin(TxnOptions{ReadOnly: true})
	defer txn.Rollback()
	return readNumbers(ctx, txn, tbl)
}

func appendNumbers(ctx context.Context, e *Engine, tbl *TableEntry, list ...int32) error {
	txn := e.Begin(TxnOptions{})
	defer txn.Rollback()
	for _, n := range list {
		if err := txn.Insert(ctx, tbl, arrowx.Row{n}); err != nil {
			return err
		}
	}
	return txn.Commit(ctx)
}

// A transaction sees its own rows of a table without a key, equal ones too, and takes them back to a mark; it changes none.
func TestAppendOnlyTransactions(t *testing.T) {
	ctx := t.Context()
	st := objstore.NewMem()
	e := mustOpen(t, st)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	require.NoError(t, plantDataset(ctx, st, "in/x.lance", foreignSchema(), table.CreateOptions{}))
	tbl, err := e.Attach(ctx, "db", "t", "in/x.lance", anyShape)
	require.NoError(t, err)
	require.Equal(t, "db/t.lance", tbl.Path)

	txn := e.Begin(TxnOptions{})
	txn.BeginStatement()
	require.NoError(t, txn.Insert(ctx, tbl, arrowx.Row{int32(1)}))
	require.NoError(t, txn.Insert(ctx, tbl, arrowx.Row{int32(7)}))
	mark := txn.Mark()
	require.NoError(t, txn.Insert(ctx, tbl, arrowx.Row{int32(7)}))
	txn.BeginStatement()
	got, err := readNumbers(ctx, txn, tbl)
	require.NoError(t, err)
	require.Equal(t, numbers{1: 3, 2: 1, 7: 2}, got)
	txn.RollbackTo(mark)
	got, err = readNumbers(ctx, txn, tbl)
	require.NoError(t, err)
	require.Equal(t, numbers{1: 3, 2: 1, 7: 1}, got)
	require.ErrorIs(t, txn.Update(ctx, tbl, arrowx.Row{int32(1)}, arrowx.Row{int32(2)}), errs.ErrUnsupported)
	require.ErrorIs(t, txn.Delete(ctx, tbl, arrowx.Row{int32(1)}), errs.ErrUnsupported)
	require.ErrorIs(t, txn.Insert(ctx, tbl, arrowx.Row{}), errs.ErrInvalid)
	require.NoError(t, txn.Commit(ctx))

	// Many writers at once: every row counts.
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			var err error
			for range 20 {
				err = errors.Join(err, appendNumbers(ctx, e, tbl, 5, 5))
			}
			done <- err
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	work(e)
	want := numbers{1: 3, 2: 1, 7: 1, 5: 320}
	for range 2 {
		got, err = numbersOf(ctx, e, tbl)
		require.NoError(t, err)
		require.Equal(t, want, got)
		rows, err := e.CheckTable(ctx, tbl, true, func(what string) { t.Error(what) })
		require.NoError(t, err)
		require.EqualValues(t, 325, rows)
		require.NoError(t, e.FlushTables(ctx, nil))
	}
	ds, err := table.Open(ctx, st, tbl.Path)
	require.NoError(t, err)
	require.EqualValues(t, 325, ds.CountRows(), "all is in the base, once")
	_, err = e.Optimize(ctx, tbl.ID)
	require.NoError(t, err)
	got, err = numbersOf(ctx, e, tbl)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A reader beside the server follows an attached table without a key, and may attach none.
func TestFollowAppendOnly(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	w := writerOn(t, dir)
	require.NoError(t, w.CreateDatabase(ctx, "db", nil))
	require.NoError(t, plantDataset(ctx, w.store, "in/x.lance", foreignSchema(), table.CreateOptions{}))
	tbl, err := w.Attach(ctx, "db", "t", "in/x.lance", anyShape)
	require.NoError(t, err)
	clk := clock.NewManual(time.Unix(1_700_000_000, 0))
	r := besides(t, dir, smallConfig(), clk)
	want := numbers{1: 2, 2: 1}
	for n := range int32(6) {
		require.NoError(t, appendNumbers(ctx, w, tbl, 1, n, n))
		want[1]++
		want[n] += 2
		if n%3 == 2 {
			require.NoError(t, w.FlushTables(ctx, nil))
		} else {
			ot, err := w.openTable(ctx, tbl)
			require.NoError(t, err)
			require.NoError(t, ot.table.WriteBehind(ctx))
		}
		clk.Advance(time.Minute)
		got, err := numbersOf(ctx, r, testTable(r))
		require.NoError(t, err)
		require.Equal(t, want, got, "step %d", n)
	}
	_, err = r.Attach(ctx, "db", "u", "in/x.lance", anyShape)
	require.ErrorIs(t, err, errs.ErrReadOnly)
	require.NoError(t, w.Close(ctx))
}

// What cannot be written later is refused before anything is.
func TestAttachRefuses(t *testing.T) {
	ctx := t.Context()
	st := objstore.NewMem()
	e := mustOpen(t, st)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	attach := func(path string) error {
		_, err := e.Attach(ctx, "db", "t", path, anyShape)
		return err
	}
	require.NoError(t, plantDataset(ctx, st, "in/tomb.lance", foreignSchema(), table.CreateOptions{}))
	versions := func(path string) uint64 {
		ds, err := table.Open(ctx, st, path)
		require.NoError(t, err)
		require.Nil(t, ds.MemWAL())
		return ds.Version()
	}
	before := versions("in/tomb.lance")
	_, err := e.Attach(ctx, "db", "t", "in/tomb.lance", func(*arrow.Schema) ([]byte, error) { return nil, errs.ErrLimit })
	require.ErrorIs(t, err, errs.ErrLimit)
	require.Equal(t, before, versions("in/tomb.lance"))

	require.ErrorIs(t, attach("in/none.lance"), errs.ErrNotFound)
	require.NoError(t, st.PutIfAbsent(ctx, "in/file.lance/readme", []byte("x")))
	require.ErrorIs(t, attach("in/file.lance"), errs.ErrNotFound)
	for _, path := range []string{"", "/in/x.lance", "in", "in/x", "in/x.lance/", "in/../x.lance", "a/b/c.lance", "in/x y.lance", "_lancesql/x.lance", ".dropped/x.lance"} {
		require.ErrorIs(t, attach(path), errs.ErrInvalid, path)
	}

	// Shards that no version has an entry for: nobody knows which of their generations the base holds.
	require.NoError(t, plantDataset(ctx, st, "in/shards.lance", foreignSchema(), table.CreateOptions{}))
	require.NoError(t, st.PutIfAbsent(ctx, "in/shards.lance/_mem_wal/aa48498d-ac91-59e2-8452-69f46010ace2/manifest/x", []byte("x")))
	require.ErrorIs(t, attach("in/shards.lance"), errs.ErrUnsupported)

	// A sharding we do not know.
	m := &table.MemWAL{NumShards: 1, Specs: []table.ShardingSpec{{ID: 1, Fields: []table.ShardingField{{FieldID: "f", Transform: "year", ResultType: "int32", SourceIDs: []int32{0}}}}}}
	require.NoError(t, plantDataset(ctx, st, "in/year.lance", foreignSchema(), table.CreateOptions{MemWAL: m}))
	require.ErrorIs(t, attach("in/year.lance"), errs.ErrUnsupported)
	require.Empty(t, e.Catalog().Database("db").Tables())
}

// Data files of every version that is written here go on in the same version, generations too.
func TestAttachKeepsTheDataVersion(t *testing.T) {
	ctx := t.Context()
	for _, version := range []string{"2.0", "2.1", "2.2"} {
		st := objstore.NewMem()
		e := mustOpen(t, st)
		require.NoError(t, e.CreateDatabase(ctx, "db", nil))
		require.NoError(t, plantDataset(ctx, st, "db/t.lance", foreignSchema(), table.CreateOptions{DataVersion: version}))
		tbl, err := e.Attach(ctx, "db", "t", "db/t.lance", anyShape)
		require.NoError(t, err)
		require.NoError(t, appendNumbers(ctx, e, tbl, 3, 3))
		require.NoError(t, e.FlushTables(ctx, nil))
		require.NoError(t, appendNumbers(ctx, e, tbl, 4))
		got, err := numbersOf(ctx, e, tbl)
		require.NoError(t, err)
		require.Equal(t, numbers{1: 2, 2: 1, 3: 2, 4: 1}, got)
		ds, err := table.Open(ctx, st, tbl.Path)
		require.NoError(t, err)
		v, err := ds.DataVersion()
		require.NoError(t, err)
		require.Equal(t, version, v.String())
		require.Len(t, ds.Fragments(), 2)
		for _, f := range ds.Fragments() {
			for _, file := range f.Files {
				require.Equal(t, ds.Fragments()[0].Files[0].Minor, file.Minor)
			}
		}
		require.NoError(t, e.Close(context.Background()))
	}
}

// attachRun attaches a dataset and appends twice, once before a merge. rows is what was acknowledged, and what could be.
type attachRun struct {
	attached bool
	sure     numbers
	maybe    numbers // of the transaction whose end is not known
}

func (a *attachRun) run(ctx context.Context, d disk) error {
	e, err := d.open(ctx, planted{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close(ctx) }()
	if err := e.CreateDatabase(ctx, "db", nil); err != nil {
		return err
	}
	tbl, err := e.Attach(ctx, "db", "t", "in/x.lance", anyShape)
	if err != nil {
		return err
	}
	a.attached = true
	for _, list := range [][]int32{{1, 7}, {7}} {
		a.maybe = maps.Clone(a.sure)
		for _, n := range list {
			a.maybe[n]++
		}
		if err := appendNumbers(ctx, e, tbl, list...); err != nil {
			return err
		}
		a.sure = a.maybe
		if err := e.FlushTables(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// verify opens what a crash left: every row exactly once, and a dataset that is not attached yet can be.
func (a *attachRun) verify(ctx context.Context, d disk) error {
	e, err := d.open(ctx, planted{})
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	defer func() { _ = e.Close(ctx) }()
	if e.Catalog().Database("db") == nil {
		if err := e.CreateDatabase(ctx, "db", nil); err != nil {
			return err
		}
	}
	tbl := testTable(e)
	if tbl == nil {
		if a.attached {
			return errors.New("an attached table is gone")
		}
		if tbl, err = e.Attach(ctx, "db", "t", "in/x.lance", anyShape); err != nil {
			return fmt.Errorf("attach again: %w", err)
		}
	}
	if tbl.Path != "db/t.lance" {
		return fmt.Errorf("the table lies at %s", tbl.Path)
	}
	got, err := numbersOf(ctx, e, tbl)
	if err != nil {
		return err
	}
	if !maps.Equal(got, a.sure) && !maps.Equal(got, a.maybe) {
		return fmt.Errorf("rows %v, acknowledged %v", got, a.sure)
	}
	if err := appendNumbers(ctx, e, tbl, 9); err != nil {
		return err
	}
	if err := e.FlushTables(ctx, nil); err != nil {
		return err
	}
	ds, err := table.Open(ctx, d.store, tbl.Path)
	if err != nil {
		return err
	}
	total := 1
	for _, n := range got {
		total += n
	}
	if ds.CountRows() != uint64(total) {
		return fmt.Errorf("the base has %d rows of %d", ds.CountRows(), total)
	}
	return e.DropTable(ctx, "db", "t")
}

// A crash at every operation of an attachment and what follows, with none, half and all of the
// unsynced data kept.
func TestCrashInAttach(t *testing.T) {
	ctx := t.Context()
	step := int64(1)
	if testing.Short() {
		step = 17
	}
	for n := step; ; n += step {
		fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
		d, err := diskOn(fs)
		require.NoError(t, err)
		require.NoError(t, plantDataset(ctx, d.store, "in/x.lance", foreignSchema(), table.CreateOptions{}))
		fs.Reset(faultfs.Plan{CrashAt: n})
		a := &attachRun{sure: numbers{1: 2, 2: 1}, maybe: numbers{1: 2, 2: 1}}
		err = a.run(ctx, d)
		for i, percent := range []int{0, 50, 100} {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(i)))
			clone, cerr := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percent, Rand: rng})
			require.NoError(t, cerr)
			left, cerr := diskOn(clone)
			require.NoError(t, cerr)
			require.NoError(t, a.verify(ctx, left), "operation %d, %d %% of unsynced data", n, percent)
		}
		if err == nil {
			t.Logf("%d operations", n)
			return
		}
	}
}
