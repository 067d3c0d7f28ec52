package indexes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/indexes"
)

func TestKinds(t *testing.T) {
	info, ok := indexes.KindOf("/lance.table.BTreeIndexDetails")
	require.True(t, ok)
	require.Equal(t, indexes.BTree, info.Kind)
	require.True(t, info.Readable(0))
	require.True(t, info.Readable(1))
	require.False(t, info.Readable(2))
	require.False(t, info.Readable(-1))
	info, ok = indexes.KindOf("type.googleapis.com/lance.index.pb.bloomfilterindexdetails")
	require.True(t, ok)
	require.Equal(t, indexes.Bloom, info.Kind)
	for _, url := range []string{"", "/lance.index.pb.VectorIndexDetails", "IndexDetails", "."} {
		_, ok = indexes.KindOf(url)
		require.False(t, ok, url)
	}
	info, _ = indexes.InfoOf(indexes.NGram)
	require.False(t, info.Readable(0))
	require.Equal(t, "ZONEMAP", indexes.ZoneMap.String())
	require.Equal(t, "UNKNOWN", indexes.Unknown.String())
}
