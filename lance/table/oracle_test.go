package table

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
)

// local opens a store in a fresh directory; the table lies at <dir>/db/t.lance.
func local(t *testing.T) (dir string, st objstore.Store) {
	t.Helper()
	oracle.Python(t)
	dir = t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, dir)
	require.NoError(t, err)
	return dir, st
}

// opsAnswer is what table_ops.py says.
type opsAnswer struct {
	Version uint64   `json:"version"`
	Count   uint64   `json:"count"`
	Indices []string `json:"indices"`
}

func pythonOps(t *testing.T, dir string, ops ...string) opsAnswer {
	t.Helper()
	var a opsAnswer
	out := oracle.RunPython(t, "table_ops.py", append([]string{filepath.Join(dir, testRoot)}, ops...)...)
	require.NoError(t, json.Unmarshal(out, &a), "%s", out)
	return a
}

// requireSame compares our scan with the reference's, and counts over all versions.
func requireSame(t *testing.T, dir string, d *Dataset) oracle.Table {
	t.Helper()
	ctx := context.Background()
	dump := oracle.DumpPython(t, filepath.Join(dir, "db"), "t")
	ours := scan(t, d, d.FieldIDs()...)
	theirs := []string{}
	for _, row := range dump.Lance.Rows {
		line := ""
		for _, cell := range row {
			if cell == nil {
				line += "<nil> "
			} else {
				line += *cell + " "
			}
		}
		theirs = append(theirs, line)
	}
	require.Equal(t, theirs, joined(t, d, len(ours)))
	require.Equal(t, dump.Lance.Rows, dump.LanceDB.Rows)
	require.Equal(t, uint64(dump.Lance.Count), d.CountRows())
	require.Equal(t, dump.Fragments, len(d.Fragments()))
	for _, v := range dump.Versions {
		old, err := d.At(ctx, v.Version)
		require.NoError(t, err)
		require.Equal(t, uint64(v.Count), old.CountRows(), "version %d", v.Version)
		require.Len(t, scan(t, old, 0), v.Count)
		tx, err := old.Transaction(ctx)
		require.NoError(t, err)
		require.NotEqual(t, KindUnknown, tx.Op.Kind(), "version %d", v.Version)
		require.Less(t, tx.ReadVersion, v.Version)
	}
	return dump
}

// joined is scan with a space after each cell.
func joined(t *testing.T, d *Dataset, n int) []string {
	t.Helper()
	cols := make([][]string, len(d.FieldIDs()))
	for i, id := range d.FieldIDs() {
		cols[i] = scan(t, d, id)
	}
	out := make([]string, n)
	for i := range out {
		for _, c := range cols {
			out[i] += c[i] + " "
		}
	}
	return out
}

// ourTable goes through create, append, update, delete and the MemWAL entry.
func ourTable(t *testing.T, st objstore.Store) *Dataset {
	t.Helper()
	d := create(t, st, CreateOptions{MemWAL: testMemWAL(), TableMetadata: map[string]string{"lancesql:table": "{}"}})
	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 0, 50)), fragment(t, d, rowsOf(t, "a", 50, 9000), rowsOf(t, "a", 9000, 9050))}})
	d = commit(t, d, Update{
		UpdatedFragments: []*Fragment{deleteRows(t, d, 0, 3, 5, 49)}, NewFragments: []*Fragment{fragment(t, d, rowsOf(t, "u", 3, 5))},
		FieldsForPreservingFragBitmap: []uint32{0, 1}, Merged: []MergedGeneration{{Shard: uuid.New(), Generation: 1}},
	})
	many := roaring.New()
	many.AddRange(100, 7000)
	df, err := d.WriteDeletions(context.Background(), 1, many)
	require.NoError(t, err)
	d = commit(t, d, Delete{Updated: []*Fragment{d.Fragment(1).WithDeletion(df), deleteRows(t, d, 0, 0, 1, 3, 5, 49)}, Predicate: "id < 2"})
	d = commit(t, d, UpdateConfig{TableMetadata: &MapUpdate{Set: map[string]string{"x": "y"}}})
	return d
}

func TestOracleReadsOurTable(t *testing.T) {
	dir, st := local(t)
	d := ourTable(t, st)
	dump := requireSame(t, dir, d)
	require.Len(t, dump.Versions, 5)
	require.Equal(t, "int64", dump.Lance.Schema[0].Type)
	require.False(t, dump.Lance.Schema[0].Nullable)
	require.Equal(t, "utf8", dump.Lance.Schema[1].Type)
}

// A generation is a table like any other for a reader that knows nothing of shards.
func TestOracleReadsGeneration(t *testing.T) {
	dir, st := local(t)
	batches := []arrow.RecordBatch{rowsOf(t, "a", 0, 40), rowsOf(t, "b", 5, 9)}
	d, err := CreateGeneration(context.Background(), st, testRoot, testSchema(t), batches, roaring.BitmapOf(5, 6, 7, 8))
	require.NoError(t, err)
	dump := requireSame(t, dir, d)
	require.Equal(t, 40, dump.Lance.Count)
	require.Equal(t, "b8", *dump.Lance.Rows[39][1])
}

func TestNodeReadsOurTable(t *testing.T) {
	dir, st := local(t)
	d := ourTable(t, st)
	dump := oracle.DumpNode(t, filepath.Join(dir, "db"), "t")
	require.Equal(t, d.CountRows(), uint64(dump.Count))
	require.Len(t, dump.Rows, dump.Count)
}

// Every operation of ours in a row, read by all readers at every version, and continued by the reference.
func TestOracleReadsOurOperations(t *testing.T) {
	ctx := context.Background()
	for _, version := range []string{"2.1", "2.2"} {
		t.Run(version, func(t *testing.T) {
			dir, st := local(t)
			d := create(t, st, CreateOptions{DataVersion: version})
			var err error
			must := func(next *Dataset, failed error) {
				t.Helper()
				require.NoError(t, failed)
				d = next
			}
			changes := func(next *Dataset, _ Changed, failed error) { t.Helper(); must(next, failed) }
			s := arrowSchema(t, d)
			must(d.Append(ctx, Records(s, rowsOf(t, "a", 0, 60)), WriteOptions{FragmentRows: 20}))
			changes(d.DeleteWhere(ctx, idBelow(7)))
			changes(d.UpdateWhere(ctx, idIs(30), []Assignment{{Column: "name", Value: "thirty"}}))
			changes(d.MergeInsert(ctx, Records(s, rowsOf(t, "m", 55, 65)), MergeOptions{}))
			must(d.AddColumns(ctx, []NewColumn{
				{Field: arrow.Field{Name: "twice", Type: arrow.PrimitiveTypes.Int64}, Compute: times(2)},
				{Field: arrow.Field{Name: "none", Type: arrow.PrimitiveTypes.Int32, Nullable: true}},
			}, nil))
			must(d.CastColumn(ctx, "name", arrow.BinaryTypes.LargeString))
			must(d.RenameColumn(ctx, "name", "label"))
			must(d.CommitRebasing(ctx, ReserveFragments{Count: 3}))
			next, _, err := d.Compact(ctx, CompactOptions{FragmentRows: 25})
			must(next, err)
			requireSame(t, dir, d)
			must(d.DropColumns(ctx, "none"))
			must(d.SetNullable(ctx, "twice", true))
			must(d.CommitRebasing(ctx, Restore{Version: 3}))
			must(d.CommitRebasing(ctx, UpdateConfig{TableMetadata: upsertOf(map[string]string{"k": "v"})}))
			requireSame(t, dir, d)
			dump := oracle.DumpNode(t, filepath.Join(dir, "db"), "t")
			require.Equal(t, d.CountRows(), uint64(dump.Count))
			pythonOps(t, dir, "append:100:110", "update:id = 105", "index:by_id", "delete:id < 12", "compact")
			must(d.Latest(ctx))
			requireSame(t, dir, d)
			changes(d.DeleteWhere(ctx, idIs(105)))
			must(d.Overwrite(ctx, Records(s, rowsOf(t, "o", 0, 5)), WriteOptions{}))
			requireSame(t, dir, d)
		})
	}
}

// The reference commits on our versions, and we on its, in turns; its index and our MemWAL entry survive.
func TestOracleTakesTurns(t *testing.T) {
	dir, st := local(t)
	ctx := context.Background()
	d := ourTable(t, st)
	memwal := d.MemWAL()
	a := pythonOps(t, dir, "append:20000:20010", "delete:id = 20003 or id = 60", "index:by_id", "update:id = 20005")
	require.Equal(t, []string{MemWALName, "by_id"}, a.Indices)
	d, err := d.Latest(ctx)
	require.NoError(t, err)
	require.Equal(t, a.Version, d.Version())
	require.Equal(t, a.Count, d.CountRows())
	require.Equal(t, memwal.Merged, d.MemWAL().Merged)
	catchup := []IndexCatchup{{Index: "by_id", CaughtUp: memwal.Merged}} // the new index covers all fragments of its read version
	require.Equal(t, catchup, d.MemWAL().Catchup)
	requireSame(t, dir, d)

	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "go", 30000, 30020))}})
	entries, err := d.Indexes()
	require.NoError(t, err)
	require.Len(t, entries, 2)
	last := d.NewFragments()[0].ID
	d = commit(t, d, Update{
		UpdatedFragments: []*Fragment{deleteRows(t, d, last, 7)}, NewFragments: []*Fragment{fragment(t, d, rowsOf(t, "up", 30007, 30008))},
		FieldsForPreservingFragBitmap: []uint32{0, 1}, Merged: []MergedGeneration{{Shard: memwal.Merged[0].Shard, Generation: 9}},
	})
	require.Equal(t, catchup, d.MemWAL().Catchup, "carried, never raised by us")
	// A query that may use the index sees rows inside and outside its fragments, and none that are deleted.
	a = pythonOps(t, dir, "delete:id = 30008 or id = 20005 or id = 60", "tag:here", "compact")
	require.Equal(t, []string{MemWALName, "by_id"}, a.Indices)
	latest, err := d.Latest(ctx)
	require.NoError(t, err)
	require.Equal(t, d.CountRows()-2, latest.CountRows())
	require.Equal(t, uint64(9), latest.MemWAL().MergedUpTo(memwal.Merged[0].Shard))
	requireSame(t, dir, latest)

	removed, err := Cleanup(ctx, st, testRoot, keepNone)
	require.NoError(t, err)
	require.NotEmpty(t, removed)
	require.Len(t, requireSame(t, dir, reopen(t, st)).Versions, 2, "the newest and the tagged version")
}

// Tables that the reference made, in each way we read.
func TestOracleMadeTables(t *testing.T) {
	for _, kind := range []string{"create", "v1", "stable"} {
		t.Run(kind, func(t *testing.T) {
			dir, st := local(t)
			pythonOps(t, dir, kind+":0:10", "append:10:20", "delete:id < 3", "update:id = 5", "index:by_id", "addnull:z", "append:30:31")
			d := reopen(t, st)
			require.Equal(t, kind == "stable", d.StableRowIDs())

			d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 1, union(t, d, 1, 9)...)}})
			wide := rowsOf(t, "go", 40, 45)
			f := fragment(t, d, withNulls(t, d, wide))
			commit(t, d, Append{Fragments: []*Fragment{f}})
			pythonOps(t, dir, "append:50:52", "delete:id = 41", "add:twice", "update:id = 44", "compact", "append:60:61")
			d, err := d.Latest(context.Background())
			require.NoError(t, err)
			requireSame(t, dir, d)
		})
	}
}

// Both sides commit at once; nobody's rows are lost and nobody gives up.
func TestOracleCommitsBesideUs(t *testing.T) {
	dir, st := local(t)
	ctx := context.Background()
	const ours = 25
	d := create(t, st, CreateOptions{})
	done := make(chan error, 1)
	go func() {
		for i := range ours {
			next, err := d.CommitRebasing(ctx, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "go", 10*i, 10*i+10))}})
			if err != nil {
				done <- err
				return
			}
			if i%5 == 0 { // mostly commit from a version the other side has passed
				d = next
			}
		}
		done <- nil
	}()
	ops := []string{}
	for i := range 15 {
		ops = append(ops, fmt.Sprintf("append:%d:%d", 1000+i, 1001+i))
	}
	pythonOps(t, dir, ops...)
	require.NoError(t, <-done)
	d = reopen(t, st)
	require.Equal(t, uint64(10*ours+15), d.CountRows())
	requireSame(t, dir, d)
}
