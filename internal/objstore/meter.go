package objstore

import (
	"context"
	"sync/atomic"
)

// Meter counts what was read from a store on behalf of one caller: every ReadAt and ReadAll that succeeded, and their
// bytes. The zero value is ready; it is safe for concurrent use.
type Meter struct{ reads, bytes atomic.Int64 }

// Reads is the number of reads.
func (m *Meter) Reads() int64 { return m.reads.Load() }

// Bytes is how many bytes they gave.
func (m *Meter) Bytes() int64 { return m.bytes.Load() }

func (m *Meter) add(bytes int) {
	m.reads.Add(1)
	m.bytes.Add(int64(bytes))
}

// meterKey is the key of the context value that holds a Meter.
type meterKey struct{}

// WithMeter returns a context whose reads from a Metered store m counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Metered returns s with its reads counted by the Meter of the context they are made with.
func Metered(s Store) Store {
	if m, ok := s.(metered); ok {
		return m
	}
	return metered{s}
}

type metered struct{ Store }

// ReadAt implements Store.
func (m metered) ReadAt(ctx context.Context, name string, p []byte, off int64) error {
	err := m.Store.ReadAt(ctx, name, p, off)
	if meter, ok := ctx.Value(meterKey{}).(*Meter); ok && err == nil {
		meter.add(len(p))
	}
	return err
}

// ReadAll implements Store.
func (m metered) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	b, err := m.Store.ReadAll(ctx, name, limit)
	if meter, ok := ctx.Value(meterKey{}).(*Meter); ok && err == nil {
		meter.add(len(b))
	}
	return b, err
}

// SweepTemp removes the unfinished objects of a process that died, where the store leaves any.
func (m metered) SweepTemp(ctx context.Context, dir string) (int, error) {
	st, ok := m.Store.(interface {
		SweepTemp(ctx context.Context, dir string) (int, error)
	})
	if !ok {
		return 0, nil
	}
	return st.SweepTemp(ctx, dir)
}
