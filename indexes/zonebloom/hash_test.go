package zonebloom

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// The vectors of the fact sheet.
func TestHashVectors(t *testing.T) {
	i64, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	for _, c := range []struct {
		typ  arrow.DataType
		v    any
		hash uint64
	}{
		{i64, int64(0), 0x34c96acdcadb1bbb}, {i64, int64(1), 0x9f29cb17a2a49995}, {i64, int64(2), 0xeac73e4044e82db0},
		{i64, int64(4), 0x2ba609fa0797d28b}, {text, "abc", 0x44bc2cf5ad770999}, {text, "", 0xef46db3751d8e999},
	} {
		hashes, known, err := hashesOf(c.typ, c.v)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, []uint64{c.hash}, hashes, "%v", c.v)
	}
	_, known, err := hashesOf(arrow.PrimitiveTypes.Float32, float32(math.NaN()))
	require.NoError(t, err)
	require.False(t, known)
	zeros, _, err := hashesOf(arrow.PrimitiveTypes.Float64, 0.0)
	require.NoError(t, err)
	require.Len(t, zeros, 2)
	_, _, err = hashesOf(i64, int32(1))
	require.Error(t, err)
}
