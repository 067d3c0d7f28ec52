package objstore

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/sync/semaphore"
)

// Gate is a Store whose changes can be held up while reads go on.
type Gate struct {
	Store
	open *semaphore.Weighted // 1 for a change that runs, all for a hold
}

// NewGate returns s behind a gate, which is open.
func NewGate(s Store) *Gate { return &Gate{Store: s, open: semaphore.NewWeighted(math.MaxInt64)} }

// Hold waits until no change runs and lets none begin before release is called, once: those wait, or end with the error of
// their context, unless that is Unheld. What is written to an object that was created before stays invisible until its Commit.
func (g *Gate) Hold(ctx context.Context) (release func(), err error) {
	if err := g.open.Acquire(ctx, math.MaxInt64); err != nil {
		return nil, fmt.Errorf("hold up changes of files: %w", err)
	}
	return func() { g.open.Release(math.MaxInt64) }, nil
}

// unheldKey is the key of the context value that Unheld sets.
type unheldKey struct{}

// Unheld returns a context whose changes no hold keeps up: those without which nobody could write meanwhile. They must only add
// objects, each of which may be there or not in what is copied, and remove such as nothing names.
func Unheld(ctx context.Context) context.Context {
	return context.WithValue(ctx, unheldKey{}, true)
}

// change runs f as soon as no hold is in force.
func (g *Gate) change(ctx context.Context, f func() error) error {
	if ctx.Value(unheldKey{}) != nil {
		return f()
	}
	if err := g.open.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("changes of files are held up: %w", err)
	}
	defer g.open.Release(1)
	return f()
}

// PutIfAbsent implements Store.
func (g *Gate) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return g.change(ctx, func() error { return g.Store.PutIfAbsent(ctx, name, data) })
}

// Put implements Store.
func (g *Gate) Put(ctx context.Context, name string, data []byte) error {
	return g.change(ctx, func() error { return g.Store.Put(ctx, name, data) })
}

// Create implements Store.
func (g *Gate) Create(ctx context.Context, name string) (w Writer, err error) {
	err = g.change(ctx, func() error {
		w, err = g.Store.Create(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return gatedWriter{w, g}, nil
}

// Delete implements Store.
func (g *Gate) Delete(ctx context.Context, name string) error {
	return g.change(ctx, func() error { return g.Store.Delete(ctx, name) })
}

// RemoveAll implements Store.
func (g *Gate) RemoveAll(ctx context.Context, dir string) error {
	return g.change(ctx, func() error { return g.Store.RemoveAll(ctx, dir) })
}

// Rename implements Store.
func (g *Gate) Rename(ctx context.Context, from, to string) error {
	return g.change(ctx, func() error { return g.Store.Rename(ctx, from, to) })
}

// MakeDir implements Store.
func (g *Gate) MakeDir(ctx context.Context, dir string) error {
	return g.change(ctx, func() error { return g.Store.MakeDir(ctx, dir) })
}

// SweepTemp removes the unfinished objects of a process that died, where the store leaves any.
func (g *Gate) SweepTemp(ctx context.Context, dir string) (n int, err error) {
	st, ok := g.Store.(interface {
		SweepTemp(ctx context.Context, dir string) (int, error)
	})
	if !ok {
		return 0, nil
	}
	err = g.change(ctx, func() error {
		n, err = st.SweepTemp(ctx, dir)
		return err
	})
	return n, err
}

// gatedWriter makes its object visible while no hold is in force.
type gatedWriter struct {
	Writer
	gate *Gate
}

// Commit implements Writer.
func (w gatedWriter) Commit(ctx context.Context) error {
	return w.gate.change(ctx, func() error { return w.Writer.Commit(ctx) })
}
