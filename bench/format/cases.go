package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/file"
)

// benchCase is one column. The names are known to reference.py.
type benchCase struct {
	name  string
	share int // rows are the --rows divided by it
}

// cases are the columns, one per common encoding.
func cases() []benchCase {
	return []benchCase{
		{"int64", 1}, {"float64", 1}, {"int64 bit-packed", 1}, {"int64 half null", 1}, {"bool", 1},
		{"int32 sequential", 1}, {"decimal128 nullable", 1}, {"strings nullable", 1}, {"strings long", 20},
		{"strings dictionary", 1}, {"strings FSST", 2}, {"strings plain", 1}, {"vectors float32[128]", 20}, {"lists of int32", 4},
	}
}

// bench runs cases against a reference.
type bench struct {
	ref   *reference
	dir   string
	batch int
	take  int // rows of one take
	// rounds of each measurement; the two sides take turns.
	rounds int
	mem    *arrowx.Recycler
}

// run measures one case: scan, take and write.
func (b *bench) run(ctx context.Context, c benchCase, rows int) ([]result, error) {
	rows = max(1, rows/c.share)
	base := filepath.Join(b.dir, strings.NewReplacer(" ", "_", "[", "_", "]", "").Replace(c.name))
	truth, path := base+".arrow", base+".lance"
	made, err := b.ref.ask(request{Op: "make", Case: c.name, Rows: rows, Batch: b.batch, Truth: truth, Path: path})
	if err != nil {
		return nil, err
	}
	var out []result
	for _, m := range []func(context.Context, string, string, int) (result, error){b.scan, b.random, b.write} {
		r, err := m(ctx, truth, path, rows)
		if errors.Is(err, errs.ErrUnsupported) {
			continue // the table shows it by its absence
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", c.name, err)
		}
		r.Case, r.Bytes = c.name, made.Bytes
		if r.Operation == "take" {
			r.Bytes = made.Bytes * int64(r.Rows) / int64(rows)
		}
		out = append(out, r)
	}
	return out, errors.Join(os.Remove(truth), os.Remove(path))
}

// turns measures both sides alternately.
func (b *bench) turns(operation string, rows int, ours, theirs func() (answer, error)) (result, error) {
	r := result{Operation: operation, Rows: rows}
	for range b.rounds {
		a, err := theirs()
		if err != nil {
			return r, err
		}
		o, err := timed(ours)
		if err != nil {
			return r, fmt.Errorf("%s: %w", operation, err)
		}
		if o.Rows != rows || a.Rows != rows { // I1
			return r, fmt.Errorf("%s: %d rows by us, %d by the reference, want %d", operation, o.Rows, a.Rows, rows)
		}
		r.Ours.add(o)
		r.Reference.add(a)
	}
	r.Ours.finish()
	r.Reference.finish()
	return r, nil
}

func (b *bench) scan(ctx context.Context, _, path string, rows int) (result, error) {
	return b.turns("scan", rows, func() (answer, error) { return scan(ctx, path, b.batch, b.mem) },
		func() (answer, error) { return b.ref.ask(request{Op: "scan", Path: path, Batch: b.batch}) })
}

func (b *bench) random(ctx context.Context, _, path string, rows int) (result, error) {
	src, err := openDisk(path)
	if err != nil {
		return result{}, err
	}
	defer src.f.Close()
	r, err := file.Open(ctx, src, file.ReaderOptions{Allocator: b.mem})
	if err != nil {
		return result{}, err
	}
	picked := pick(rows, b.take)
	return b.turns("take", len(picked), func() (answer, error) { return take(ctx, r, picked) },
		func() (answer, error) { return b.ref.ask(request{Op: "take", Path: path, Rows: picked}) })
}

func (b *bench) write(_ context.Context, truth, path string, rows int) (result, error) {
	recs, err := readTruth(truth)
	if err != nil {
		return result{}, err
	}
	ours, theirs := path+".ours", path+".reference"
	r, err := b.turns("write", rows, func() (answer, error) { return write(ours, recs, b.batch) },
		func() (answer, error) {
			return b.ref.ask(request{Op: "write", Truth: truth, Path: theirs, Batch: b.batch})
		})
	return r, errors.Join(err, os.RemoveAll(ours), os.RemoveAll(theirs))
}

// pick chooses up to n distinct rows below rows, ascending.
func pick(rows, n int) []uint64 {
	rng := rand.New(rand.NewPCG(uint64(rows), uint64(n)))
	chosen := map[uint64]bool{}
	for len(chosen) < min(n, rows) {
		chosen[rng.Uint64N(uint64(rows))] = true
	}
	out := make([]uint64, 0, len(chosen))
	for v := range chosen {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}
