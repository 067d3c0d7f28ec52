package faultstore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"lancesql/internal/objstore"
)

// traceOpsMax bounds the trace; the oldest operations are forgotten first.
const traceOpsMax = 4096

// Store is a Store with faults. Safe for concurrent use.
type Store struct {
	inner objstore.Store // immutable

	mu      sync.Mutex
	plan    Plan  // under mu
	count   int64 // under mu
	crashed bool  // under mu
	trace   []Op  // under mu
}

// New wraps inner. The plan is in force at once.
func New(inner objstore.Store, p Plan) *Store { return &Store{inner: inner, plan: p} }

// Reset puts another plan in force, numbers from 1 again, forgets the trace and ends a crash.
func (s *Store) Reset(p Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.count, s.crashed, s.trace = p, 0, false, nil
}

// Count returns how many operations were numbered.
func (s *Store) Count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Crash makes every operation from now on return ErrCrashed.
func (s *Store) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashed = true
}

// Crashed reports whether the store has crashed.
func (s *Store) Crashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
}

// Trace returns the latest numbered operations, oldest first.
func (s *Store) Trace() []Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Op(nil), s.trace...)
}

// TraceString returns the trace, one operation a line, for failure messages.
func (s *Store) TraceString() string {
	var b strings.Builder
	for _, op := range s.Trace() {
		fmt.Fprintln(&b, op)
	}
	return b.String()
}

// begin numbers an operation and returns what happens to it.
func (s *Store) begin(op Op) (Fault, *Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crashed {
		return Fault{}, nil, ErrCrashed
	}
	plan := s.plan
	if !plan.numbered(op) {
		return Fault{}, &plan, nil
	}
	s.count++
	op.Number = s.count
	if len(s.trace) >= traceOpsMax {
		s.trace = append(s.trace[:0], s.trace[traceOpsMax/2:]...)
	}
	s.trace = append(s.trace, op)
	f := plan.fault(op.Number)
	s.crashed = f.Action == CrashBefore || f.Action == CrashAfter
	return f, &plan, nil
}

// run performs an operation on the inner store as the plan says.
func (s *Store) run(ctx context.Context, op Op, perform func() error) error {
	f, plan, err := s.begin(op)
	if err != nil {
		return fmt.Errorf("%s %q: %w", op.Kind, op.Name, err)
	}
	switch f.Action {
	case Fail:
		return fmt.Errorf("%s %q: %w", op.Kind, op.Name, f.Err)
	case CrashBefore:
		return fmt.Errorf("%s %q: %w", op.Kind, op.Name, ErrCrashed)
	case Delay:
		if err := plan.wait(ctx, f.Wait); err != nil {
			return fmt.Errorf("%s %q: %w", op.Kind, op.Name, err)
		}
	}
	err = perform()
	switch {
	case s.Crashed(): // I2: nobody is left to hear the result
		return fmt.Errorf("%s %q: %w", op.Kind, op.Name, ErrCrashed)
	case f.Action == Ambiguous:
		return fmt.Errorf("%s %q: %w", op.Kind, op.Name, f.Err)
	}
	return err
}

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return s.run(ctx, Op{Kind: PutIfAbsent, Name: name, Bytes: len(data)}, func() error {
		return s.inner.PutIfAbsent(ctx, name, data)
	})
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	return s.run(ctx, Op{Kind: Put, Name: name, Bytes: len(data)}, func() error {
		return s.inner.Put(ctx, name, data)
	})
}

// Create implements objstore.Store. After an ambiguous Create the writer is lost to the caller, like a
// temporary of a process that died.
func (s *Store) Create(ctx context.Context, name string) (objstore.Writer, error) {
	var w objstore.Writer
	err := s.run(ctx, Op{Kind: Create, Name: name}, func() (err error) {
		w, err = s.inner.Create(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &writer{store: s, inner: w, name: name}, nil
}

// ReadAt implements objstore.Store.
func (s *Store) ReadAt(ctx context.Context, name string, p []byte, off int64) error {
	return s.run(ctx, Op{Kind: ReadAt, Name: name, Bytes: len(p)}, func() error {
		return s.inner.ReadAt(ctx, name, p, off)
	})
}

// ReadAll implements objstore.Store.
func (s *Store) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	var data []byte
	err := s.run(ctx, Op{Kind: ReadAll, Name: name}, func() (err error) {
		data, err = s.inner.ReadAll(ctx, name, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Stat implements objstore.Store.
func (s *Store) Stat(ctx context.Context, name string) (objstore.Info, error) {
	var info objstore.Info
	err := s.run(ctx, Op{Kind: Stat, Name: name}, func() (err error) {
		info, err = s.inner.Stat(ctx, name)
		return err
	})
	if err != nil {
		return objstore.Info{}, err
	}
	return info, nil
}

// List implements objstore.Store. A fault other than Ambiguous hits before the first visit.
func (s *Store) List(ctx context.Context, dir string, visit func(objstore.Info) error) error {
	return s.run(ctx, Op{Kind: List, Name: dir}, func() error {
		return s.inner.List(ctx, dir, visit)
	})
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.run(ctx, Op{Kind: Delete, Name: name}, func() error { return s.inner.Delete(ctx, name) })
}

// RemoveAll implements objstore.Store.
func (s *Store) RemoveAll(ctx context.Context, dir string) error {
	return s.run(ctx, Op{Kind: RemoveAll, Name: dir}, func() error { return s.inner.RemoveAll(ctx, dir) })
}

// Rename implements objstore.Store.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	return s.run(ctx, Op{Kind: Rename, Name: from, Target: to}, func() error {
		return s.inner.Rename(ctx, from, to)
	})
}

// SyncDir implements objstore.Store.
func (s *Store) SyncDir(ctx context.Context, dir string) error {
	return s.run(ctx, Op{Kind: SyncDir, Name: dir}, func() error { return s.inner.SyncDir(ctx, dir) })
}

// MakeDir implements objstore.Store.
func (s *Store) MakeDir(ctx context.Context, dir string) error {
	return s.run(ctx, Op{Kind: MakeDir, Name: dir}, func() error { return s.inner.MakeDir(ctx, dir) })
}
