package faultstore

import (
	"context"
	"fmt"

	"lancesql/internal/objstore"
)

// writer is a Writer with faults.
type writer struct {
	store  *Store
	inner  objstore.Writer
	name   string
	failed error // the first failed Write; the object cannot be committed after it
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	var n int
	err := w.store.run(context.Background(), Op{Kind: Write, Name: w.name, Bytes: len(p)}, func() (err error) {
		n, err = w.inner.Write(p)
		return err
	})
	if err != nil && w.failed == nil {
		w.failed = err
	}
	return n, err
}

// Commit implements objstore.Writer. Whatever it returns, the writer has ended; a Commit that did not reach
// the inner writer aborts that, unless the store has crashed: then nobody is left to tidy up.
func (w *writer) Commit(ctx context.Context) error {
	performed := false
	err := w.store.run(ctx, Op{Kind: Commit, Name: w.name}, func() error {
		if w.failed != nil {
			return fmt.Errorf("commit %q after a failed write: %w", w.name, w.failed)
		}
		performed = true
		return w.inner.Commit(ctx)
	})
	if !performed && !w.store.Crashed() {
		_ = w.inner.Abort() // the error at hand is the one that counts
	}
	return err
}

// Abort implements objstore.Writer.
func (w *writer) Abort() error {
	return w.store.run(context.Background(), Op{Kind: Abort, Name: w.name}, w.inner.Abort)
}
