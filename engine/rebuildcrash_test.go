package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore/faultfs"
	"lancesql/lsm"
)

// widerDef is testDef with one more column and a unique index on v.
func widerDef() TableDef {
	s := testSchema()
	fields := append(s.Fields(), arrow.Field{Name: "extra", Type: arrow.BinaryTypes.String, Nullable: true})
	return TableDef{Schema: arrow.NewSchema(fields, nil), Shape: []byte(`{"wider":true}`), AutoColumn: -1,
		Indexes: []IndexDef{{Name: "uv", Column: 1, Unique: true, Parts: []int{1}}}}
}

// rebuildRun makes a table of ten rows, some of them merged, and rebuilds it wider. done says that Commit returned nil.
func rebuildRun(ctx context.Context, d disk) (created, done bool, err error) {
	e, err := d.open(ctx, planted{})
	if err != nil {
		return false, false, err
	}
	defer func() { _ = e.Close(ctx) }()
	if err := createTestTable(ctx, e); err != nil {
		return false, false, err
	}
	for id := range int64(10) {
		if err := (write{put: contents{id: fmt.Sprint("v", id)}}).run(ctx, e); err != nil {
			return false, false, err
		}
		if id == 6 {
			if err := e.FlushTables(ctx, nil); err != nil {
				return false, false, err
			}
		}
	}
	a := e.Alter()
	r, err := a.Rebuild(ctx, testTable(e), widerDef())
	if err != nil {
		return true, false, err
	}
	for id := range int64(10) {
		if err := r.Insert(ctx, append(testRow(id, fmt.Sprint("v", id)), "new")); err != nil {
			_ = r.Abort(ctx)
			return true, false, err
		}
	}
	if err := r.Commit(ctx); err != nil {
		return true, false, err
	}
	if err := a.Commit(ctx); err != nil {
		return true, false, err
	}
	return true, true, nil
}

// verifyRebuild opens what a crash left: the old table whole or the new one whole, in its own place, and nothing else.
func verifyRebuild(ctx context.Context, d disk, created, done bool) error {
	e, err := d.open(ctx, planted{})
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	defer func() { _ = e.Close(ctx) }()
	tbl := testTable(e)
	if tbl == nil {
		if created {
			return fmt.Errorf("the table is gone")
		}
		return nil
	}
	if !created {
		return nil
	}
	for _, other := range e.Catalog().Database("db").Tables() {
		if other.ID != tbl.ID {
			return fmt.Errorf("table %q is left", other.Name)
		}
	}
	if tbl.Path != "db/t.lance" {
		return fmt.Errorf("the table lies at %s", tbl.Path)
	}
	wide := tbl.Schema.NumFields() == 4
	if done && !wide {
		return fmt.Errorf("an acknowledged rebuild is undone")
	}
	got, err := dumpOf(ctx, e, "t")
	if err != nil {
		return err
	}
	if len(got) != 10 || got[3] != "v3" {
		return fmt.Errorf("rows %v", got)
	}
	if !wide {
		return nil
	}
	txn := e.Begin(TxnOptions{})
	defer txn.Rollback()
	err = txn.Insert(ctx, tbl, arrowx.Row{int64(77), "v3", nil, nil})
	if err == nil {
		return fmt.Errorf("the unique index lacks a row")
	}
	rows := 0
	r, err := txn.Scan(ctx, tbl, Consistent, lsm.ScanSpec{Columns: []int{3}})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		rows += int(b.NumRows())
		b.Release()
	}
	if rows != 10 {
		return fmt.Errorf("%d rows of the new column", rows)
	}
	return nil
}

// A crash at every operation of a rebuild (every third in the plain run), with none, half and all of the unsynced data kept.
func TestCrashInRebuild(t *testing.T) {
	step := int64(3)
	switch {
	case soak():
		step = 1
	case testing.Short():
		step = 17
	}
	ctx := context.Background()
	for n := step; ; n += step {
		fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{CrashAt: n})
		d, err := diskOn(fs)
		created, done := false, false
		if err == nil {
			created, done, err = rebuildRun(ctx, d)
		}
		for i, percent := range []int{0, 50, 100} {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(i)))
			clone, cerr := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percent, Rand: rng})
			require.NoError(t, cerr)
			again, cerr := diskOn(clone)
			require.NoError(t, cerr)
			require.NoError(t, verifyRebuild(ctx, again, created, done), "operation %d, %d %% of unsynced data", n, percent)
		}
		if err == nil {
			require.True(t, done)
			t.Logf("%d operations", n)
			return
		}
	}
}
