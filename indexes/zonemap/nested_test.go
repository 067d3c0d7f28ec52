package zonemap_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/zonemap"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// Nested columns have no bounds, but which parents are NULL is known. Lance 14.0.2 wrote the file: a list in every odd row,
// with a NULL inside, which counts for nothing. Ours does not write them: version 2.0 files hold no lists.
func TestNestedColumns(t *testing.T) {
	ctx := context.Background()
	list := arrow.ListOf(arrow.PrimitiveTypes.Int64)
	s := openGolden(t, "zonemap_l.lance", list, 0)
	require.Equal(t, 9, s.Zones())
	for q, odd := range map[indexes.Query]bool{indexes.IsNull{}: false, indexes.NotNull{}: true} {
		res, err := s.Search(ctx, q)
		require.NoError(t, err)
		require.True(t, res.Exact)
		for i := range 100 {
			if goldenLive(i) {
				require.Equal(t, (i%2 == 1) == odd, res.Addrs.Contains(rowaddr.New(uint32(i/50), uint32(i%50))), "row %d", i)
			}
		}
	}
	for i := range s.Zones() {
		require.True(t, s.At(i).Unknown)
	}
	b, err := zonemap.NewBuilder(list, zonemap.Options{})
	require.NoError(t, err)
	_, err = zonemap.Write(ctx, memDir(), []zonemap.Part{{Stats: b.Finish()}}, zonemap.WriteOptions{})
	require.ErrorIs(t, err, errs.ErrUnsupported)
}

// A column of nothing but NULLs of no type.
func TestNullColumn(t *testing.T) {
	a := array.NewNull(40)
	b, err := zonemap.NewBuilder(a.DataType(), zonemap.Options{RowsPerZone: 10})
	require.NoError(t, err)
	require.NoError(t, b.Append(a, 0))
	s := segment(t, a.DataType(), []zonemap.Part{{Fragment: 2, Stats: b.Finish()}}, 0)
	require.Equal(t, 4, s.Zones())
	nulls, err := s.Search(context.Background(), indexes.IsNull{})
	require.NoError(t, err)
	n, _ := nulls.Addrs.Count()
	require.EqualValues(t, 40, n)
	others, err := s.Search(context.Background(), indexes.NotNull{})
	require.NoError(t, err)
	require.True(t, others.Addrs.IsEmpty() && others.Exact)
}
