package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheckAppends: the checker finds what it is for.
func TestCheckAppends(t *testing.T) {
	tx := func(id int, committed bool, writes map[int]int, reads map[int]string) *Appended {
		return &Appended{ID: id, Committed: committed, Writes: writes, Reads: reads}
	}
	one := map[int]int{0: 1}
	both := map[int]int{0: 1, 1: 1}
	require.NoError(t, CheckAppends([]*Appended{tx(1, true, one, nil), tx(2, true, nil, map[int]string{0: "1 "})}, []string{"1 "}))
	require.ErrorContains(t, CheckAppends([]*Appended{tx(1, false, one, nil)}, []string{"1 "}), "not committed")
	require.ErrorContains(t, CheckAppends([]*Appended{tx(1, true, one, nil)}, []string{""}), "0 are there")
	require.ErrorContains(t, CheckAppends([]*Appended{tx(1, false, one, nil), tx(2, true, nil, map[int]string{0: "1 "})}, []string{""}), "G1a")
	require.ErrorContains(t, CheckAppends([]*Appended{tx(1, true, map[int]int{0: 2}, nil), tx(2, true, nil, map[int]string{0: "1 "})}, []string{"1 1 "}), "G1b")
	require.ErrorContains(t, CheckAppends([]*Appended{tx(1, true, both, nil), tx(2, true, both, nil)}, []string{"1 2 ", "2 1 "}), "G0")
	require.ErrorContains(t, CheckAppends([]*Appended{tx(1, true, map[int]int{0: 1}, map[int]string{1: "2 "}), tx(2, true, map[int]int{1: 1}, map[int]string{0: "1 "})},
		[]string{"1 ", "2 "}), "G1c")
}
