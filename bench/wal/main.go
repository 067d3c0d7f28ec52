package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lancesql/internal/clock"
)

// settings are the flags.
type settings struct {
	dir     string
	seconds float64
	rows    int
	json    string
}

// figures is what a run prints, and writes as JSON.
type figures struct {
	Commits       []commitFigures `json:"commits"`
	Bulk          bulkFigures     `json:"bulk"`
	Recovery      recoveryFigures `json:"recovery"`
	PointReads    []readFigures   `json:"point_reads"`
	Amplification float64         `json:"write_amplification"`
}

type commitFigures struct {
	Writers     int     `json:"writers"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	Floor       float64 `json:"floor_p50_us"`
	Ratio       float64 `json:"x_floor"`
	RowsPerSync float64 `json:"rows_per_sync"`
	PerSecond   float64 `json:"commits_per_second"`
}

type bulkFigures struct {
	Rows   int     `json:"rows"`
	MB     float64 `json:"mb"`
	Commit float64 `json:"commit_mb_per_second"`
	Flush  float64 `json:"flush_mb_per_second"`
	Merge  float64 `json:"merge_mb_per_second"`
}

type recoveryFigures struct {
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	Per     float64 `json:"seconds_per_100000_rows"`
}

type readFigures struct {
	Generations int     `json:"generations"`
	P50         float64 `json:"p50_us"`
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", "", "directory on the disk to measure; a temporary one unless given")
	flag.Float64Var(&s.seconds, "seconds", 3, "time of each commit measurement")
	flag.IntVar(&s.rows, "rows", 100_000, "rows of the flush, merge and recovery measurements")
	flag.StringVar(&s.json, "json", "", "file for the figures as JSON")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-wal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp(s.dir, "bench-wal-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var f figures
	fmt.Println("writers  p50 us  p99 us  floor us  x floor  rows/sync  commits/s")
	for _, n := range []int{1, 8, 64} {
		c, err := measureCommits(ctx, filepath.Join(dir, fmt.Sprint("commits", n)), n, time.Duration(s.seconds*float64(time.Second)))
		if err != nil {
			return fmt.Errorf("commits of %d writers: %w", n, err)
		}
		f.Commits = append(f.Commits, c)
		fmt.Printf("%7d %7.0f %7.0f %9.0f %8.2f %10.1f %10.0f\n", c.Writers, c.P50, c.P99, c.Floor, c.Ratio, c.RowsPerSync, c.PerSecond)
	}
	if f.Bulk, f.Amplification, err = measureBulk(ctx, filepath.Join(dir, "bulk"), s.rows); err != nil {
		return fmt.Errorf("flush and merge: %w", err)
	}
	fmt.Printf("%d rows, %.1f MB: commit %.1f MB/s, flush %.1f MB/s, merge %.1f MB/s; %.2f bytes written for each byte of rows\n",
		f.Bulk.Rows, f.Bulk.MB, f.Bulk.Commit, f.Bulk.Flush, f.Bulk.Merge, f.Amplification)
	if f.Recovery, err = measureRecovery(ctx, filepath.Join(dir, "recovery"), s.rows); err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	fmt.Printf("recovery of %d rows in the log: %.2f s, %.2f s for 100,000\n", f.Recovery.Rows, f.Recovery.Seconds, f.Recovery.Per)
	if f.PointReads, err = measureReads(ctx, filepath.Join(dir, "reads")); err != nil {
		return fmt.Errorf("point reads: %w", err)
	}
	fmt.Print("point read of a base row, p50:")
	for _, r := range f.PointReads {
		fmt.Printf("  %d generations %.1f us", r.Generations, r.P50)
	}
	fmt.Println()
	if s.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.json, append(text, '\n'), 0o644)
}

// stopwatch measures with the clock that the engine uses.
type stopwatch struct{ began time.Time }

func start() stopwatch { return stopwatch{clock.System().Now()} }

func (s stopwatch) elapsed() time.Duration { return clock.System().Now().Sub(s.began) }

// percentile sorts d; microseconds.
func percentile(d []time.Duration, percent int) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return float64(d[min(len(d)-1, len(d)*percent/100)].Nanoseconds()) / 1000
}
