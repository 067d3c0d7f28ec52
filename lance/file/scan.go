package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/encoding"
	"lancesql/lance/schema"
)

// projection is a set of wanted fields resolved to physical columns.
type projection struct {
	schema *arrow.Schema
	fields []*fieldReader
}

// fieldReader reads one top-level field.
type fieldReader struct {
	typ    arrow.DataType
	cur    *cursor
	nested *nested // of a nested type instead of cur
}

// cursors returns the cursors of all columns of the field.
func (f *fieldReader) cursors() []*cursor {
	if f.nested != nil {
		return f.nested.leaves
	}
	return []*cursor{f.cur}
}

// project resolves fields to columns of the file.
func (r *Reader) project(ctx context.Context, fields []*schema.Field, cols map[int32]int32) (*projection, error) {
	sc, err := r.arrowSchema(fields)
	if err != nil {
		return nil, err
	}
	p := &projection{schema: sc, fields: make([]*fieldReader, 0, len(fields))}
	window := max(minWindowBytes, min(windowBytes, totalWindowBytes/max(1, len(fields))))
	for i, f := range fields {
		fr, err := r.projectField(ctx, f, sc.Field(i).Type, cols, window)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		p.fields = append(p.fields, fr)
	}
	return p, nil
}

// arrowSchema returns the Arrow schema of the fields; that of the newest call is kept, since point reads ask for the same again.
func (r *Reader) arrowSchema(fields []*schema.Field) (*arrow.Schema, error) {
	if last := r.newest.Load(); last != nil && slices.Equal(last.fields, fields) {
		return last.schema, nil
	}
	sc, err := schema.ArrowSchema(fields, nil)
	if err == nil {
		r.newest.Store(&projected{slices.Clone(fields), sc})
	}
	return sc, err
}

func (r *Reader) projectField(ctx context.Context, f *schema.Field, dt arrow.DataType, cols map[int32]int32, window int) (*fieldReader, error) {
	if cols == nil {
		cols = r.byID
	}
	if !f.OwnsColumn() {
		n, err := r.projectNested(ctx, f, dt, cols, window)
		return &fieldReader{typ: dt, nested: n}, err
	}
	cur, err := r.leafCursor(ctx, f, dt, cols)
	if err != nil {
		return nil, err
	}
	cur.window = window
	return &fieldReader{typ: dt, cur: cur}, nil
}

func (p *projection) close() {
	for _, f := range p.fields {
		for _, c := range f.cursors() {
			c.close()
		}
	}
}

// batch collects the arrays of one batch. read is called once for each column, from several goroutines if the batch is
// large; cost is what a cell costs, 1 for a scan.
func (p *projection) batch(rows, cost int, read func(f *fieldReader, dst *encoding.Vector) error) (arrow.RecordBatch, error) {
	arrays := make([]arrow.Array, len(p.fields))
	defer func() {
		for _, a := range arrays {
			if a != nil {
				a.Release()
			}
		}
	}()
	failed := make([]error, len(p.fields))
	work := func(i int) { arrays[i], failed[i] = p.fields[i].array(rows, read) }
	if len(p.fields) > 1 && rows >= parallelCells/(cost*len(p.fields)) {
		forEach(len(p.fields), work)
	} else {
		for i := range p.fields {
			if work(i); failed[i] != nil {
				break
			}
		}
	}
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return array.NewRecordBatch(p.schema, arrays, int64(rows)), nil
}

// array reads the rows of the field for one batch.
func (f *fieldReader) array(rows int, read func(f *fieldReader, dst *encoding.Vector) error) (arrow.Array, error) {
	if f.nested != nil {
		return f.nested.array(rows, read)
	}
	vec := encoding.NewVector(f.cur.typ, f.cur.r.mem)
	vec.Reserve(rows)
	err := read(f, vec)
	if err == nil && vec.Len() != rows {
		err = errs.Corrupt(f.cur.r.src.Name(), -1, "column %d gave %d of %d rows", f.cur.col.index, vec.Len(), rows)
	}
	var a arrow.Array
	if err == nil {
		a, err = vec.NewArray(f.typ)
	}
	if err != nil {
		vec.Release()
		return nil, err
	}
	return a, nil
}

// scanner is the BatchReader of a range of rows.
type scanner struct {
	ctx   context.Context // Why: a pull of batches has no context parameter; the scan lives inside the caller's request
	proj  *projection
	at    uint64
	to    uint64
	batch int
	err   error
}

// Scan reads rows [from, to) in batches of batchRows; the last one may be shorter, and so may a batch with more than
// 1 GiB in one column. fields are the wanted top-level
// fields in output order, possibly none (batches then carry only a row count); cols maps the id of each field that owns
// a column to its physical column, nil = as the file's own schema says. The schema of the batches has the field
// metadata but no schema metadata. errs.ErrInvalid for rows outside the file or fields without a column.
// Spec: file format, "Scanning and taking rows".
func (r *Reader) Scan(ctx context.Context, fields []*schema.Field, cols map[int32]int32, from, to uint64, batchRows int) (arrowx.BatchReader, error) {
	if from > to || to > r.rows || batchRows <= 0 {
		return nil, fmt.Errorf("scan rows %d..%d of %d in batches of %d: %w", from, to, r.rows, batchRows, errs.ErrInvalid)
	}
	p, err := r.project(ctx, fields, cols)
	if err != nil {
		return nil, err
	}
	for _, f := range p.fields {
		for _, c := range f.cursors() {
			c.end = to * c.items
		}
	}
	return &scanner{ctx: ctx, proj: p, at: from, to: to, batch: batchRows}, nil
}

// Schema implements arrowx.BatchReader.
func (s *scanner) Schema() *arrow.Schema { return s.proj.schema }

// Next implements arrowx.BatchReader.
func (s *scanner) Next() (arrow.RecordBatch, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.at == s.to {
		return nil, io.EOF
	}
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	from, upTo := s.at, min(s.to, s.at+uint64(s.batch))
	rec, err := s.read(from, upTo)
	for errors.Is(err, errs.ErrLimit) && upTo-from > 1 {
		// Why: few stored bytes can stand for very wide rows; cursors can start again at an earlier row.
		upTo = from + (upTo-from)/2
		rec, err = s.read(from, upTo)
	}
	if err != nil {
		s.err = err // cursors are in an undefined state now
		return nil, err
	}
	s.at = upTo
	return rec, nil
}

func (s *scanner) read(from, upTo uint64) (arrow.RecordBatch, error) {
	return s.proj.batch(int(upTo-from), 1, func(f *fieldReader, dst *encoding.Vector) error {
		return f.cur.readRows(s.ctx, dst, from, upTo)
	})
}

// Close implements arrowx.BatchReader.
func (s *scanner) Close() error {
	s.proj.close()
	if s.err == nil {
		s.err = fmt.Errorf("scan: %w", errs.ErrClosed)
	}
	return nil
}

// Take reads the given rows (ascending, distinct), and of the file only the chunks they lie in. fields and cols as in
// Scan. errs.ErrInvalid for rows outside the file or out of order.
// Spec: file format, "Scanning and taking rows".
func (r *Reader) Take(ctx context.Context, fields []*schema.Field, cols map[int32]int32, rows []uint64) (arrow.RecordBatch, error) {
	for i, row := range rows {
		if row >= r.rows || i > 0 && row <= rows[i-1] {
			return nil, fmt.Errorf("take row %d of %d, after %d others: %w", row, r.rows, i, errs.ErrInvalid)
		}
	}
	p, err := r.project(ctx, fields, cols)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.batch(len(rows), takenCell, func(f *fieldReader, dst *encoding.Vector) error {
		return f.cur.take(ctx, dst, rows)
	})
}

// take appends single rows, run by run.
func (c *cursor) take(ctx context.Context, dst *encoding.Vector, rows []uint64) error {
	for i := 0; i < len(rows); {
		end := i + 1
		for end < len(rows) && rows[end] == rows[end-1]+1 {
			end++
		}
		c.want = rows[i:]
		if c.items > 1 { // each row is a run
			c.want, c.end = nil, (rows[end-1]+1)*c.items
		}
		if err := c.readRows(ctx, dst, rows[i], rows[end-1]+1); err != nil {
			return err
		}
		i = end
	}
	return nil
}
