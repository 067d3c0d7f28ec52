package table

import (
	"context"
	"errors"
	"io"
	"iter"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/lance/schema"
)

const testRoot = "db/t.lance"

// testSchema is id int64 (primary key), name utf8.
func testSchema(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.MetadataFrom(map[string]string{schema.KeyPrimaryKey: "true", schema.KeyPrimaryKeyPosition: "1"})},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil))
	require.NoError(t, err)
	return s
}

// testMemWAL is the details of an unsharded table.
func testMemWAL() *MemWAL {
	return &MemWAL{NumShards: 1, Specs: []ShardingSpec{{ID: 1, Fields: []ShardingField{{FieldID: "bucket", Transform: "unsharded", ResultType: "int32"}}}}}
}

func create(t testing.TB, st objstore.Store, o CreateOptions) *Dataset {
	t.Helper()
	d, err := Create(context.Background(), st, testRoot, testSchema(t), o)
	require.NoError(t, err)
	return d
}

// fakeFragment names a data file that does not exist: enough for everything but reading rows.
func fakeFragment(rows uint64) *Fragment {
	return &Fragment{PhysicalRows: rows, Files: []DataFile{{
		Path: dataFileName(uuid.New()), Fields: []int32{0, 1}, Columns: []int32{0, 1}, Major: 2, Minor: 2, Size: 100,
	}}}
}

func commit(t testing.TB, d *Dataset, op Operation) *Dataset {
	t.Helper()
	next, err := d.Commit(context.Background(), op)
	require.NoError(t, err)
	return next
}

// deleteRows returns fragment id of d with exactly the given offsets deleted.
func deleteRows(t testing.TB, d *Dataset, id uint64, offsets ...uint32) *Fragment {
	t.Helper()
	df, err := d.WriteDeletions(context.Background(), id, roaring.BitmapOf(offsets...))
	require.NoError(t, err)
	return d.Fragment(id).WithDeletion(df)
}

func fragmentIDs(d *Dataset) []uint64 {
	ids := []uint64{}
	for _, f := range d.Fragments() {
		ids = append(ids, f.ID)
	}
	return ids
}

// reopen opens the newest version with fresh caches.
func reopen(t testing.TB, st objstore.Store) *Dataset {
	t.Helper()
	d, err := Open(context.Background(), st, testRoot)
	require.NoError(t, err)
	return d
}

func ctxOf(t testing.TB) context.Context { return t.Context() }

// batches yields the batches of a reader and releases them.
func batches(t testing.TB, r arrowx.BatchReader) iter.Seq[arrow.RecordBatch] {
	return func(yield func(arrow.RecordBatch) bool) {
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			require.NoError(t, err)
			more := yield(rec)
			rec.Release()
			if !more {
				return
			}
		}
	}
}
