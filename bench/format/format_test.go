package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
)

// TestRun measures every case with few rows: both sides read and write them all.
func TestRun(t *testing.T) {
	python := oracle.Python(t)
	name := filepath.Join(t.TempDir(), "result.json")
	var out strings.Builder
	c, err := parse([]string{"--python", python, "--rows", "3000", "--rounds", "2", "--take", "20", "--json", name})
	require.NoError(t, err)
	require.NoError(t, run(context.Background(), c, &out))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(text, &r))
	require.GreaterOrEqual(t, len(r.Results), 3*len(cases())-1) // what we do not write is absent
	for _, x := range r.Results {
		require.Positive(t, x.Ours.Best)
		require.Positive(t, x.Reference.Best)
		require.Contains(t, out.String(), x.Case)
	}
}

func TestSide(t *testing.T) {
	var s side
	for _, v := range []float64{3, 1, 2} {
		s.add(answer{Seconds: v, CPU: 2 * v, Size: 9})
	}
	s.finish()
	require.Equal(t, []float64{1, 2, 2}, []float64{s.Best, s.Median, s.CPU})
	require.InDelta(t, 4, result{Ours: side{Best: 1}, Reference: side{Best: 4}}.ratio(), 0)
}

func TestParse(t *testing.T) {
	for _, bad := range [][]string{{"--rows", "0"}, {"x"}, {"--nothing"}} {
		_, err := parse(bad)
		require.Error(t, err)
	}
}

func TestPick(t *testing.T) {
	require.Equal(t, []uint64{0, 1, 2}, pick(3, 10))
	require.Len(t, pick(1000, 10), 10)
}
