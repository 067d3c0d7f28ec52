package table

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

const batchRowsDefault = 8192

// FragmentReader is a pull of the physical rows of one fragment.
type FragmentReader interface {
	// Next returns the next rows and the physical offset of the first; io.EOF at the end. The caller releases rec.
	Next() (firstOffset uint64, rec arrow.RecordBatch, err error)
	// Close is idempotent and must be called.
	Close() error
}

// ScanFragment reads the physical rows [from, to) of fragment f of this version, deleted ones included, in batches
// of at most batchRows (0: 8192). fieldIDs are top-level fields in output order; none gives batches without columns
// that only count rows. to beyond the fragment is cut.
func (d *Dataset) ScanFragment(ctx context.Context, f *Fragment, fieldIDs []int32, from, to uint64, batchRows int) (FragmentReader, error) {
	if batchRows <= 0 {
		batchRows = batchRowsDefault
	}
	to = min(to, f.PhysicalRows)
	if from > to {
		return nil, fmt.Errorf("scan fragment %d from %d to %d: %w", f.ID, from, to, errs.ErrInvalid)
	}
	p, err := d.plan(f, fieldIDs)
	if err != nil {
		return nil, fmt.Errorf("scan fragment %d: %w", f.ID, err)
	}
	s := &fragmentScan{d: d, f: f, plan: p, at: from, to: to, batch: uint64(batchRows), ctx: ctx}
	for i := range p.parts {
		part := &p.parts[i]
		r, err := d.reader(ctx, f, &f.Files[part.file])
		if err == nil {
			var rows arrowx.BatchReader
			if rows, err = r.Scan(ctx, part.fields, part.cols, from, to, batchRows); err == nil {
				s.inputs = append(s.inputs, &partInput{rows: rows})
			}
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("scan fragment %d: %w", f.ID, err)
		}
	}
	return s, nil
}

// fragmentScan joins the columns of the fragment's data files row by row.
type fragmentScan struct {
	ctx    context.Context // of the call that made the scan, which is one operation of the caller
	d      *Dataset
	f      *Fragment
	plan   *columnPlan
	inputs []*partInput
	at, to uint64
	batch  uint64
	closed bool
}

// partInput is a reader of one file and the rest of the batch it gave last.
type partInput struct {
	rows arrowx.BatchReader
	rest arrow.RecordBatch // nil or not empty
}

// Next implements FragmentReader.
func (s *fragmentScan) Next() (uint64, arrow.RecordBatch, error) {
	if s.closed {
		return 0, nil, fmt.Errorf("scan fragment %d: %w", s.f.ID, errs.ErrClosed)
	}
	if err := s.ctx.Err(); err != nil {
		return 0, nil, err
	}
	if s.at == s.to {
		return 0, nil, io.EOF
	}
	n := min(s.batch, s.to-s.at)
	for _, in := range s.inputs {
		if err := in.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				err = errs.Corrupt(s.d.state.object, -1, "a data file ends at row %d of %d", s.at, s.f.PhysicalRows)
			}
			return 0, nil, fmt.Errorf("scan fragment %d: %w", s.f.ID, err)
		}
		n = min(n, uint64(in.rest.NumRows()))
	}
	cols := make([]arrow.Array, s.plan.schema.NumFields())
	for i, in := range s.inputs {
		in.take(int64(n), s.plan.parts[i].out, cols)
	}
	for _, i := range s.plan.nulls {
		cols[i] = arrowx.Nulls(s.d.env.alloc, s.plan.schema.Field(i).Type, int(n))
	}
	rec := array.NewRecordBatch(s.plan.schema, cols, int64(n))
	release(cols)
	first := s.at
	s.at += n
	return first, rec, nil
}

// fill makes rest not empty, or returns io.EOF.
func (p *partInput) fill() error {
	for p.rest == nil {
		rec, err := p.rows.Next()
		if err != nil {
			return err
		}
		if rec.NumRows() == 0 {
			rec.Release()
			continue
		}
		p.rest = rec
	}
	return nil
}

// take moves the first n rows into cols at the output positions.
func (p *partInput) take(n int64, out []int, cols []arrow.Array) {
	rec := p.rest
	for k, i := range out {
		c := rec.Column(k)
		if n == rec.NumRows() {
			c.Retain()
		} else {
			c = array.NewSlice(c, 0, n)
		}
		cols[i] = c
	}
	p.rest = nil
	if n < rec.NumRows() {
		p.rest = rec.NewSlice(n, rec.NumRows())
	}
	rec.Release()
}

// Close implements FragmentReader.
func (s *fragmentScan) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	for _, in := range s.inputs {
		if in.rest != nil {
			in.rest.Release()
			in.rest = nil
		}
		_ = in.rows.Close() // only read
	}
	return nil
}

func release(cols []arrow.Array) {
	for _, c := range cols {
		if c != nil {
			c.Release()
		}
	}
}

// TakeFragment reads the rows at the given physical offsets (ascending, distinct) of fragment f, deleted or not.
// fieldIDs as in ScanFragment. The caller releases the batch.
func (d *Dataset) TakeFragment(ctx context.Context, f *Fragment, fieldIDs []int32, offsets []uint32) (arrow.RecordBatch, error) {
	p, err := d.planOf(f, fieldIDs)
	if err != nil {
		return nil, fmt.Errorf("take from fragment %d: %w", f.ID, err)
	}
	rows := make([]uint64, len(offsets))
	for i, o := range offsets {
		if uint64(o) >= f.PhysicalRows || i > 0 && offsets[i-1] >= o {
			return nil, fmt.Errorf("take from fragment %d: offset %d of %d rows, or not ascending: %w", f.ID, o, f.PhysicalRows, errs.ErrInvalid)
		}
		rows[i] = uint64(o)
	}
	cols := make([]arrow.Array, p.schema.NumFields())
	defer func() { release(cols) }()
	for i := range p.parts {
		part := &p.parts[i]
		r, err := d.reader(ctx, f, &f.Files[part.file])
		if err != nil {
			return nil, fmt.Errorf("take from fragment %d: %w", f.ID, err)
		}
		rec, err := r.Take(ctx, part.fields, part.cols, rows)
		if err != nil {
			return nil, fmt.Errorf("take from fragment %d: %w", f.ID, err)
		}
		for k, at := range part.out {
			cols[at] = rec.Column(k)
			cols[at].Retain()
		}
		rec.Release()
	}
	for _, i := range p.nulls {
		cols[i] = arrowx.Nulls(d.env.alloc, p.schema.Field(i).Type, len(rows))
	}
	return array.NewRecordBatch(p.schema, cols, int64(len(rows))), nil
}

// FieldIDs returns the ids of the top-level fields in schema order: what a scan of all columns asks for.
func (d *Dataset) FieldIDs() []int32 {
	ids := make([]int32, len(d.state.schema.Fields))
	for i, f := range d.state.schema.Fields {
		ids[i] = f.ID
	}
	return ids
}
