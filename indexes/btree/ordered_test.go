package btree_test

import (
	"context"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
)

// Every range of a sidecar with repeated keys, over pages that split the rows of a key.
func TestTuplesInOrder(t *testing.T) {
	ctx := context.Background()
	enc, err := rowkey.NewEncoder([]arrow.DataType{arrow.PrimitiveTypes.Int64})
	require.NoError(t, err)
	tuple := func(v int64) rowkey.Key {
		k, err := enc.Tuple(v)
		require.NoError(t, err)
		return k
	}
	type row struct {
		key rowkey.Key
		id  uint64
	}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	var ids []uint64
	for i := range 23 {
		b.Append(int64(i/3) - 4)
		ids = append(ids, uint64(i))
	}
	values := b.NewArray()
	done := false
	dir := store.NewDir(objstore.NewMem(), "x", nil)
	_, err = btree.Build(ctx, dir, arrow.PrimitiveTypes.Int64, func(context.Context) (btree.Batch, error) {
		if done {
			return btree.Batch{}, io.EOF
		}
		done = true
		return btree.Batch{Values: values, IDs: ids}, nil
	}, btree.Options{PageRows: 4})
	require.NoError(t, err)
	x, err := btree.Open(ctx, dir, btree.OpenOptions{})
	require.NoError(t, err)
	for lo := int64(-6); lo < 6; lo++ {
		for hi := lo; hi < 7; hi++ {
			var want, got []row
			for v := lo; v < hi; v++ {
				for i := 22; i >= 0; i-- {
					if int64(i/3)-4 == v {
						want = append(want, row{tuple(v), uint64(i)})
					}
				}
			}
			require.NoError(t, x.Tuples(ctx, false, tuple(lo), tuple(hi), func(k rowkey.Key, id uint64) (bool, error) {
				got = append(got, row{k, id})
				return true, nil
			}))
			require.Equal(t, want, got, "[%d,%d)", lo, hi)
			var down, backward []row
			for v := hi - 1; v >= lo; v-- {
				for i := 22; i >= 0; i-- {
					if int64(i/3)-4 == v {
						down = append(down, row{tuple(v), uint64(i)})
					}
				}
			}
			require.NoError(t, x.TuplesBackward(ctx, false, tuple(lo), tuple(hi), func(k rowkey.Key, id uint64) (bool, error) {
				backward = append(backward, row{k, id})
				return true, nil
			}))
			require.Equal(t, down, backward, "[%d,%d) backward", lo, hi)
			counted, err := x.CountTuples(ctx, false, tuple(lo), tuple(hi))
			require.NoError(t, err)
			require.Equal(t, uint64(len(want)), counted, "[%d,%d)", lo, hi)
		}
	}
	n := 0
	require.NoError(t, x.Tuples(ctx, false, "", "", func(rowkey.Key, uint64) (bool, error) { n++; return n < 5, nil }))
	require.Equal(t, 5, n)
	n = 0
	require.NoError(t, x.TuplesBackward(ctx, false, "", "", func(_ rowkey.Key, id uint64) (bool, error) {
		require.Equal(t, uint64(22-n), id)
		n++
		return n < 5, nil
	}))
	require.Equal(t, 5, n)
}
