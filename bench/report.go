package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// report is the whole result.
type report struct {
	Server      string   `json:"server"`
	Rows        int      `json:"rows"`
	Connections int      `json:"connections"`
	Seed        uint64   `json:"seed"`
	Seconds     float64  `json:"seconds"`
	Workloads   []result `json:"workloads"`
}

// result is one workload. Times are milliseconds per operation: a transaction, a statement or a batch, as the workload says.
type result struct {
	Name          string  `json:"name"`
	Operations    int     `json:"operations"`
	Rows          int     `json:"rows"`
	Retries       int     `json:"retries"`
	Seconds       float64 `json:"seconds"`
	OpsPerSecond  float64 `json:"operations_per_second"`
	RowsPerSecond float64 `json:"rows_per_second"`
	P50           float64 `json:"p50_ms"`
	P99           float64 `json:"p99_ms"`
	Max           float64 `json:"max_ms"`
}

// summarise makes a result of the durations of all operations.
func summarise(name string, took []time.Duration, rows, retries int, elapsed time.Duration) result {
	r := result{Name: name, Operations: len(took), Rows: rows, Retries: retries, Seconds: elapsed.Seconds()}
	if len(took) == 0 || elapsed <= 0 {
		return r
	}
	slices.Sort(took)
	r.P50, r.P99, r.Max = milliseconds(percentile(took, 50)), milliseconds(percentile(took, 99)), milliseconds(took[len(took)-1])
	r.OpsPerSecond = float64(len(took)) / elapsed.Seconds()
	r.RowsPerSecond = float64(rows) / elapsed.Seconds()
	return r
}

// percentile is the smallest value that p percent of the sorted values do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)*p+99)/100-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// text is the table for people.
func (r report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "server %s, %d rows, %d connections, seed %d\n", r.Server, r.Rows, r.Connections, r.Seed)
	fmt.Fprintf(&b, "%-12s %10s %12s %12s %10s %10s %10s %8s\n", "workload", "ops", "ops/s", "rows/s", "p50 ms", "p99 ms", "max ms", "retries")
	for _, w := range r.Workloads {
		fmt.Fprintf(&b, "%-12s %10d %12.1f %12.0f %10.3f %10.3f %10.3f %8d\n",
			w.Name, w.Operations, w.OpsPerSecond, w.RowsPerSecond, w.P50, w.P99, w.Max, w.Retries)
	}
	return b.String()
}

func (r report) writeJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
