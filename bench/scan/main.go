package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"lancesql/internal/clock"
)

// settings are the flags.
type settings struct {
	dir  string
	rows int
	json string
}

// figures is what a run prints, and writes as JSON.
type figures struct {
	Rows      int           `json:"rows"`
	Load      float64       `json:"load_rows_per_second"`
	Full      readFigures   `json:"full_scan"`
	Ranges    []readFigures `json:"ranges"`
	Recluster float64       `json:"recluster_rows_per_second"`
	Points    []pointFigure `json:"points"`
	Upkeep    upkeepFigures `json:"upkeep"`
}

type readFigures struct {
	Name    string  `json:"name"`
	Rows    int     `json:"rows"`
	MB      float64 `json:"mb"`
	Seconds float64 `json:"seconds"`
	Bytes   float64 `json:"bytes_of_full_scan_percent"`
	Faster  float64 `json:"x_faster"`
	Plan    string  `json:"plan"`
}

type pointFigure struct {
	Name string  `json:"name"`
	P50  float64 `json:"p50_us"`
	Of   float64 `json:"x_memtable"`
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", "", "directory on the disk to measure; a temporary one unless given")
	flag.IntVar(&s.rows, "rows", 5_000_000, "rows of the table")
	flag.StringVar(&s.json, "json", "", "file for the figures as JSON")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-scan:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp(s.dir, "bench-scan-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := open(ctx, dir, s.rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.e.Close(ctx)) }()
	f := figures{Rows: s.rows}
	watch := start()
	if err := b.load(ctx); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	f.Load = float64(s.rows) / watch.elapsed().Seconds()
	fmt.Printf("%d rows loaded, flushed and merged at %.0f rows/s\n", s.rows, f.Load)
	if f.Full, err = b.full(ctx); err != nil {
		return fmt.Errorf("full scan: %w", err)
	}
	fmt.Printf("full scan: %.1f MB, %.3f s\n%-44s %8s %8s %9s %8s %8s\n", f.Full.MB, f.Full.Seconds, "range", "rows", "MB", "seconds", "% bytes", "x faster")
	ranges := func(names ...string) error {
		for _, name := range names {
			r, err := b.one(ctx, name, f.Full)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			f.Ranges = append(f.Ranges, r)
			fmt.Printf("%-44s %8d %8.2f %9.4f %8.2f %8.1f\n    %s\n", r.Name, r.Rows, r.MB, r.Seconds, r.Bytes, r.Faster, r.Plan)
		}
		return nil
	}
	if err := ranges(clustered, unclustered); err != nil {
		return err
	}
	if f.Points, err = b.points(ctx); err != nil {
		return fmt.Errorf("point reads: %w", err)
	}
	for _, p := range f.Points {
		fmt.Printf("%-44s p50 %8.1f us, %.2f x a row in memory\n", p.Name, p.P50, p.Of)
	}
	if err := upkeep(ctx, b, dir, &f.Upkeep); err != nil {
		return err
	}
	watch = start()
	if err := b.recluster(ctx); err != nil {
		return fmt.Errorf("recluster: %w", err)
	}
	f.Recluster = float64(s.rows) / watch.elapsed().Seconds()
	fmt.Printf("reclustered, with all indexes and zone maps, at %.0f rows/s\n", f.Recluster)
	if err := ranges(reclustered); err != nil {
		return err
	}
	if s.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.json, append(text, '\n'), 0o644)
}

// upkeep measures what indexes and zone maps cost.
func upkeep(ctx context.Context, b *bench, dir string, u *upkeepFigures) (err error) {
	if u.Build, err = b.build(ctx); err != nil {
		return fmt.Errorf("index build: %w", err)
	}
	fmt.Printf("BTREE segment of %d values sorted and written at %.0f rows/s\n", b.rows, u.Build)
	if u.Compact, u.Remap, err = remapCost(ctx, dir, min(b.rows, remapRows)); err != nil {
		return fmt.Errorf("remap: %w", err)
	}
	fmt.Printf("compacted at %.0f rows/s, index segments remapped at %.0f rows/s\n", u.Compact, u.Remap)
	if u.Zones, err = zoneCost(ctx, dir, b.rows/4); err != nil {
		return fmt.Errorf("zone maps: %w", err)
	}
	fmt.Printf("zone maps of all columns: %.1f %% of the processor time of loading, flushing and merging\n", u.Zones)
	return nil
}

// stopwatch measures with the clock that the engine uses.
type stopwatch struct{ began time.Time }

func start() stopwatch { return stopwatch{clock.System().Now()} }

func (s stopwatch) elapsed() time.Duration { return clock.System().Now().Sub(s.began) }

// median sorts d; microseconds.
func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds()) / 1000
}
