package wal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/wal"
)

func TestBitReversedVectors(t *testing.T) {
	for n, head := range map[uint64]string{1: "1", 2: "01", 3: "11", 5: "101", 0: "0"} {
		require.Equal(t, head+strings.Repeat("0", 64-len(head)), wal.BitReversed(n))
	}
	require.Equal(t, strings.Repeat("0", 63)+"1", wal.BitReversed(1<<63))
}

func TestParseBitReversed(t *testing.T) {
	for _, n := range []uint64{0, 1, 2, 5, 1 << 40, ^uint64(0)} {
		got, ok := wal.ParseBitReversed(wal.BitReversed(n) + ".arrow")
		require.True(t, ok)
		require.Equal(t, n, got)
	}
	for _, s := range []string{"", "1", strings.Repeat("0", 63) + "2", strings.Repeat("0", 65), strings.Repeat("+", 64), "." + strings.Repeat("1", 64)} {
		_, ok := wal.ParseBitReversed(s)
		require.False(t, ok, s)
	}
}

func TestEntryName(t *testing.T) {
	require.Equal(t, "t/_mem_wal/s/wal/101"+strings.Repeat("0", 61)+".arrow", wal.EntryName("t/_mem_wal/s", 5))
}
