package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/lsm"
)

// TestOneBadCommitDoesNotFailItsGroup: transactions that share a sync have outcomes of their own.
func TestOneBadCommitDoesNotFailItsGroup(t *testing.T) {
	e := newWorld(t)
	ot, err := e.openTable(t.Context(), testTable(e))
	require.NoError(t, err)
	request := func(row arrowx.Row) *commitRequest {
		k, err := ot.key(row)
		require.NoError(t, err)
		return &commitRequest{tables: []tableWrites{{entry: ot.entry, ops: []lsm.Op{{Key: k, Row: row}}}}}
	}
	bad := testRow(2, "b")
	bad[1] = 12 // not a string
	group := []*commitRequest{request(testRow(1, "a")), request(bad), request(testRow(3, "c"))}
	e.commitEach(t.Context(), group, func() {})
	require.NoError(t, group[0].err)
	require.Error(t, group[1].err)
	require.NoError(t, group[2].err)
	require.NoError(t, e.Failed())
	require.Equal(t, contents{1: "a", 3: "c"}, mustDump(t, e))
}
