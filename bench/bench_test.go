package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	c, err := parse([]string{"--workload", "scan,oltp_rw", "--seconds", "10", "--rows", "5"})
	require.NoError(t, err)
	require.Equal(t, []string{"scan", "oltp_rw"}, c.workloads)
	require.Equal(t, 2*time.Second, c.warmUp)
	for _, bad := range [][]string{{"--workload", "nothing"}, {"--rows", "0"}, {"extra"}, {"--seconds", "-1"}} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}

func TestSummarise(t *testing.T) {
	var took []time.Duration
	for i := 200; i >= 1; i-- {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	r := summarise("w", took, 400, 3, 2*time.Second)
	require.Equal(t, result{Name: "w", Operations: 200, Rows: 400, Retries: 3, Seconds: 2, OpsPerSecond: 100, RowsPerSecond: 200, P50: 100, P99: 198, Max: 200}, r)
	require.Equal(t, result{Name: "w", Seconds: 1}, summarise("w", nil, 0, 0, time.Second))
	require.Contains(t, report{Workloads: []result{r}}.text(), "100.000    198.000    200.000")
}

func TestSeeded(t *testing.T) {
	batch := func(seed uint64) (string, []any) { return insertBatch(rand.New(rand.NewPCG(seed, 0)), "t", 7, 3) }
	text, a := batch(1)
	require.Equal(t, 12, strings.Count(text, "?"))
	_, b := batch(1)
	_, c := batch(2)
	require.Equal(t, a, b)
	require.NotEqual(t, a, c)
}

// TestOwnIDs: two connections never delete and insert the same row.
func TestOwnIDs(t *testing.T) {
	for _, rows := range []int{8, 9, 10, 100, 1003} {
		owner := map[int]int{}
		s := &session{config: config{rows: rows, connections: 8}}
		for id := range 8 {
			w := &worker{session: s, id: id, rand: rand.New(rand.NewPCG(1, uint64(id)))}
			for range 1000 {
				k := w.ownID()
				require.True(t, k >= 1 && k <= rows, "%d of %d", k, rows)
				if first, ok := owner[k]; ok {
					require.Equal(t, first, id, "row %d of %d", k, rows)
				}
				owner[k] = id
			}
		}
	}
}
