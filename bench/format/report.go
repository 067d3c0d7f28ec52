package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// report is the whole result.
type report struct {
	Rows    int      `json:"rows"`
	Batch   int      `json:"batch"`
	Rounds  int      `json:"rounds"`
	Procs   int      `json:"gomaxprocs"`
	Results []result `json:"results"`
}

// result is one operation on one column.
type result struct {
	Case      string `json:"case"`
	Operation string `json:"operation"` // scan, take, write
	Rows      int    `json:"rows"`
	Bytes     int64  `json:"bytes"` // of these rows in Arrow form
	Ours      side   `json:"ours"`
	Reference side   `json:"reference"`
}

// side is what one implementation needed, in seconds.
type side struct {
	Best   float64 `json:"best"`
	Median float64 `json:"median"`
	CPU    float64 `json:"cpu"` // least processor time of all threads in a round
	Size   int64   `json:"size,omitempty"`
	all    []float64
}

func (s *side) add(a answer) {
	if len(s.all) == 0 || a.CPU < s.CPU {
		s.CPU = a.CPU
	}
	s.all = append(s.all, a.Seconds)
	s.Size = a.Size
}

func (s *side) finish() {
	if len(s.all) > 0 {
		slices.Sort(s.all)
		s.Best, s.Median = s.all[0], s.all[len(s.all)/2]
	}
}

// ratio is how many times as fast as the reference we are.
func (r result) ratio() float64 { return r.Reference.Best / r.Ours.Best }

// text is the table for people.
func (r report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows, batches of %d, best of %d rounds, GOMAXPROCS %d, LANCE_CPU_THREADS 1\n", r.Rows, r.Batch, r.Rounds, r.Procs)
	fmt.Fprintf(&b, "%-22s %-6s %12s %12s %10s %10s %7s %8s\n", "column", "", "rows/s", "pylance", "MB/s", "pylance", "ratio", "by CPU")
	for _, x := range r.Results {
		rows, bytes := float64(x.Rows), float64(x.Bytes)/1e6
		fmt.Fprintf(&b, "%-22s %-6s %12.0f %12.0f %10.0f %10.0f %7.2f %8.2f\n", x.Case, x.Operation, rows/x.Ours.Best, rows/x.Reference.Best,
			bytes/x.Ours.Best, bytes/x.Reference.Best, x.ratio(), x.Reference.CPU/max(x.Ours.CPU, 1e-9))
	}
	return b.String()
}

// save writes the report as JSON.
func (r report) save(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	return nil
}
