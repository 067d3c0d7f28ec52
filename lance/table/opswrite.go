package table

import (
	"context"
	"errors"
	"fmt"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/schema"
)

// recomputeAttemptsMax bounds how often an operation is computed anew because of concurrent commits. Each time somebody
// else made progress.
const recomputeAttemptsMax = 20

// WriteOptions says how rows are laid out.
type WriteOptions struct {
	FragmentRows uint64 // rows of a fragment at most; 0: 1,048,576
}

// Append adds the rows of a reader, which it closes. Columns are matched by name; nullable columns of the table may be
// missing. Nothing is committed for a reader without rows: d is returned. Concurrent commits are passed over; one that
// leaves no place for the rows is a *ConflictError. errs.ErrInvalid if the rows do not fit the schema.
func (d *Dataset) Append(ctx context.Context, rows arrowx.BatchReader, o WriteOptions) (*Dataset, error) {
	defer rows.Close()
	next, err := d.appendRows(ctx, rows, o)
	if err != nil {
		return nil, fmt.Errorf("append to %s: %w", d.root, err)
	}
	return next, nil
}

func (d *Dataset) appendRows(ctx context.Context, rows arrowx.BatchReader, o WriteOptions) (*Dataset, error) {
	p, err := planInput(d.state.schema, rows.Schema(), true)
	if err != nil {
		return nil, err
	}
	w, err := d.rowWriter(p.fields, o.FragmentRows)
	if err != nil {
		return nil, err
	}
	list, err := w.all(ctx, rows, p)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return d, nil
	}
	return d.commitOrDrop(ctx, Append{Fragments: list}, w)
}

// all writes all rows; after an error nothing is left.
func (w *rowWriter) all(ctx context.Context, rows arrowx.BatchReader, p *inputPlan) ([]*Fragment, error) {
	err := w.copyRows(ctx, rows, p)
	if err == nil {
		var list []*Fragment
		if list, err = w.finish(ctx); err == nil {
			return list, nil
		}
	}
	w.abort(ctx)
	return nil, err
}

// commitOrDrop commits op and, when it is certain that nobody names what w wrote, drops that. An outcome that is unclear
// leaves the files to clean-up.
func (d *Dataset) commitOrDrop(ctx context.Context, op Operation, w *rowWriter) (*Dataset, error) {
	next, err := d.CommitRebasing(ctx, op)
	for _, refused := range []error{errs.ErrConflict, ErrIncompatible, errs.ErrInvalid, errs.ErrUnsupported, errs.ErrLimit} {
		if errors.Is(err, refused) {
			w.abort(ctx)
			break
		}
	}
	return next, err
}

// Overwrite replaces schema and rows by those of a reader, which it closes. Indexes are dropped; configuration and
// table metadata stay. Of two concurrent overwrites the later stands.
func (d *Dataset) Overwrite(ctx context.Context, rows arrowx.BatchReader, o WriteOptions) (*Dataset, error) {
	defer rows.Close()
	next, err := d.overwriteRows(ctx, rows, o)
	if err != nil {
		return nil, fmt.Errorf("overwrite %s: %w", d.root, err)
	}
	return next, nil
}

func (d *Dataset) overwriteRows(ctx context.Context, rows arrowx.BatchReader, o WriteOptions) (*Dataset, error) {
	s, err := schema.FromArrow(rows.Schema())
	if err != nil {
		return nil, err
	}
	p, err := planInput(s, rows.Schema(), true)
	if err != nil {
		return nil, err
	}
	w, err := d.rowWriter(s.Fields, o.FragmentRows)
	if err != nil {
		return nil, err
	}
	list, err := w.all(ctx, rows, p)
	if err != nil {
		return nil, err
	}
	op := Overwrite{Schema: s, Fragments: list}
	return d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) { return on.CommitRebasing(ctx, op) })
}

// recomputing runs an attempt on d and, after a retryable conflict, on the newest version.
func (d *Dataset) recomputing(ctx context.Context, attempt func(ctx context.Context, on *Dataset) (*Dataset, error)) (*Dataset, error) {
	on := d
	for n := 1; ; n++ {
		next, err := attempt(ctx, on)
		if n == recomputeAttemptsMax || !errors.Is(err, errs.ErrConflict) {
			return next, err
		}
		if d.env.conflict != nil {
			d.env.conflict(err)
		}
		if on, err = on.Latest(ctx); err != nil {
			return nil, err
		}
	}
}
