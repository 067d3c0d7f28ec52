package memtable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/memtable"
)

func TestBirths(t *testing.T) {
	var b memtable.Births
	require.Zero(t, b.At(9))
	require.Zero(t, b.Last())
	_, ok := b.Of(0)
	require.False(t, ok)
	b.Add(5, 2)
	b.Add(5, 3)
	b.Add(8, 3) // a group without rows here
	b.Add(9, 10)
	for seq, rows := range map[uint64]uint32{0: 0, 4: 0, 5: 3, 7: 3, 8: 3, 9: 10, 99: 10} {
		require.Equal(t, rows, b.At(seq), seq)
	}
	require.EqualValues(t, 9, b.Last())
	for row, seq := range map[uint32]uint64{0: 5, 2: 5, 3: 9, 9: 9} {
		got, ok := b.Of(row)
		require.True(t, ok)
		require.Equal(t, seq, got, row)
	}
	_, ok = b.Of(10)
	require.False(t, ok)
	b.Add(1, 1) // never falls
	require.EqualValues(t, 9, b.Last())
	require.EqualValues(t, 10, b.At(9))
}

func TestBirthsSettle(t *testing.T) {
	var b memtable.Births
	for seq := uint64(1); seq <= 10; seq++ {
		b.Add(seq, uint32(seq)*3)
	}
	b.Settle(0)
	b.Settle(6)
	for seq := uint64(6); seq <= 12; seq++ {
		require.EqualValues(t, min(seq, 10)*3, b.At(seq))
	}
	require.EqualValues(t, 10, b.Last())
	b.Add(11, 40)
	require.EqualValues(t, 40, b.At(11))
	b.Settle(100)
	require.EqualValues(t, 40, b.At(100))
}
