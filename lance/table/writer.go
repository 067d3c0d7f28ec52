package table

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// FragmentWriter streams the rows of one new fragment into one data file. It is not safe for concurrent use.
// Exactly one of Finish and Abort ends it; Abort after Finish is a no-op.
type FragmentWriter struct {
	object  objstore.Writer
	file    *file.Writer
	name    string
	version file.Version
	rows    uint64
	done    bool
}

// NewFragmentWriter starts a data file with all columns of the version's schema. Its name is random. Nothing is
// visible until Finish.
func (d *Dataset) NewFragmentWriter(ctx context.Context) (*FragmentWriter, error) {
	v, err := d.DataVersion()
	if err != nil {
		return nil, fmt.Errorf("write fragment: %w", err)
	}
	return d.env.newFragmentWriter(ctx, d.root, d.state.schema, v)
}

func (e *env) newFragmentWriter(ctx context.Context, root string, s *schema.Schema, v file.Version) (*FragmentWriter, error) {
	w := &FragmentWriter{name: dataFileName(e.newUUID()), version: v}
	var err error
	if w.object, err = e.st.Create(ctx, join(root, dataDir, w.name)); err != nil {
		return nil, fmt.Errorf("write fragment: %w", err)
	}
	if w.file, err = file.NewWriter(w.object, s, file.WriterOptions{Version: v}); err != nil {
		_ = w.object.Abort()
		return nil, fmt.Errorf("write fragment: %w", err)
	}
	return w, nil
}

// Write appends the rows of rec: the schema's top-level columns in order. rec is borrowed. An error spoils the writer;
// call Abort.
func (w *FragmentWriter) Write(rec arrow.RecordBatch) error {
	if w.done {
		return fmt.Errorf("write fragment: %w", errs.ErrClosed)
	}
	if w.rows+uint64(rec.NumRows()) > fragmentRowsMax {
		return fmt.Errorf("write fragment: more than %d rows: %w", fragmentRowsMax, errs.ErrLimit)
	}
	if err := w.file.Write(rec); err != nil {
		return fmt.Errorf("write fragment: %w", err)
	}
	w.rows += uint64(rec.NumRows())
	return nil
}

// Rows is the number of rows written so far.
func (w *FragmentWriter) Rows() uint64 { return w.rows }

// Finish makes the data file durable and returns the fragment, id 0, to be named by an operation. A fragment without
// rows is errs.ErrInvalid and leaves nothing behind.
func (w *FragmentWriter) Finish(ctx context.Context) (*Fragment, error) {
	if w.done {
		return nil, fmt.Errorf("write fragment: %w", errs.ErrClosed)
	}
	if w.rows == 0 {
		w.Abort()
		return nil, fmt.Errorf("write fragment: no rows: %w", errs.ErrInvalid)
	}
	sum, err := w.file.Finish()
	if err == nil && sum.Rows != w.rows {
		err = fmt.Errorf("%d rows written, the file has %d: %w", w.rows, sum.Rows, errs.ErrInvalid)
	}
	if err == nil {
		err = w.object.Commit(ctx) // Durable: before any manifest names it
	}
	if err != nil {
		w.Abort()
		return nil, fmt.Errorf("write fragment: %w", err)
	}
	w.done = true
	return &Fragment{PhysicalRows: w.rows, Files: []DataFile{{
		Path: w.name, Fields: sum.FieldIDs, Columns: sum.ColumnIndices,
		Major: w.version.Major, Minor: w.version.Minor, Size: sum.Size,
	}}}, nil
}

// Abort drops what was written.
func (w *FragmentWriter) Abort() {
	if !w.done {
		w.done = true
		_ = w.object.Abort()
	}
}
