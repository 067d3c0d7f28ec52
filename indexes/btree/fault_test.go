package btree_test

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
)

// TestBuildFaults fails and crashes the store at every operation of a build: the caller hears of it, and what is left
// behind is a whole segment or none that can be opened and asked.
func TestBuildFaults(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int64
	write := func(inner objstore.Store, p faultstore.Plan) error {
		_, err := btree.Build(t.Context(), store.NewDir(faultstore.New(inner, p), "x", nil), typ,
			batches(btree.Batch{Values: cellsOf(t, typ, nil, int64(1), int64(2)), IDs: counting(0, 3)}), btree.Options{})
		return err
	}
	for name, plan := range map[string]func(n int64) faultstore.Plan{
		"fail":  func(n int64) faultstore.Plan { return faultstore.FailAt(n, nil) },
		"crash": func(n int64) faultstore.Plan { return faultstore.CrashAt(n, false) },
		"after": func(n int64) faultstore.Plan { return faultstore.CrashAt(n, true) },
	} {
		hit := 0
		for n := int64(1); ; n++ {
			require.Less(t, n, int64(1000))
			inner := objstore.NewMem()
			p := plan(n)
			p.CountWrites = true
			if err := write(inner, p); err == nil {
				break
			}
			hit++
			x, err := btree.Open(t.Context(), store.NewDir(inner, "x", nil), btree.OpenOptions{})
			if err == nil {
				var r indexes.Result
				if r, err = x.Search(t.Context(), indexes.NotNull{}); err == nil {
					n, _ := r.Addrs.Count()
					require.EqualValues(t, 2, n)
				}
			}
			require.True(t, err == nil || errors.Is(err, errs.ErrNotFound), "%s at %d: %v", name, n, err)
		}
		require.Greater(t, hit, 10, name)
	}
}

// TestReadFaults fails the store at every read: the error comes through, and the same Index answers afterwards.
func TestReadFaults(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int64
	inner := objstore.NewMem()
	_, err := btree.Build(t.Context(), store.NewDir(inner, "x", nil), typ,
		batches(btree.Batch{Values: cellsOf(t, typ, nil, int64(1), int64(2), int64(2)), IDs: counting(0, 4)}), btree.Options{PageRows: 2})
	require.NoError(t, err)
	hit := 0
	for n := int64(1); ; n++ {
		require.Less(t, n, int64(1000))
		p := faultstore.FailAt(n, nil)
		p.CountReads = true
		x, err := btree.Open(t.Context(), store.NewDir(faultstore.New(inner, p), "x", nil), btree.OpenOptions{})
		if err != nil {
			require.ErrorIs(t, err, faultstore.ErrInjected)
			hit++
			continue
		}
		_, err = x.Search(t.Context(), indexes.Equals(int64(2)))
		if err != nil {
			require.ErrorIs(t, err, faultstore.ErrInjected)
			hit++
		}
		r, again := x.Search(t.Context(), indexes.Equals(int64(2)))
		require.NoError(t, again)
		count, _ := r.Addrs.Count()
		require.EqualValues(t, 2, count)
		if err == nil {
			break
		}
	}
	require.Greater(t, hit, 3)
}
