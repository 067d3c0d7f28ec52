package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// Records makes a reader of batches that are in memory: what Append, Overwrite and MergeInsert take. The batches are
// borrowed until the reader has been read or closed; all have schema s.
func Records(s *arrow.Schema, batches ...arrow.RecordBatch) arrowx.BatchReader {
	return &records{schema: s, rest: batches}
}

type records struct {
	schema *arrow.Schema
	rest   []arrow.RecordBatch
}

func (r *records) Schema() *arrow.Schema { return r.schema }

func (r *records) Next() (arrow.RecordBatch, error) {
	if len(r.rest) == 0 {
		return nil, io.EOF
	}
	rec := r.rest[0]
	r.rest = r.rest[1:]
	rec.Retain()
	return rec, nil
}

func (r *records) Close() error {
	r.rest = nil
	return nil
}

// emptyBatch is a batch of no rows.
func emptyBatch(mem memory.Allocator, s *arrow.Schema) arrow.RecordBatch {
	cols := make([]arrow.Array, s.NumFields())
	for i := range cols {
		cols[i] = arrowx.Nulls(mem, s.Field(i).Type, 0)
	}
	defer release(cols)
	return array.NewRecordBatch(s, cols, 0)
}

// inputPlan maps columns of given batches to fields of a table, by name.
type inputPlan struct {
	in     *arrow.Schema
	fields []*schema.Field // fields with values in the input, in schema order
	from   []int           // input column of each
	out    *arrow.Schema   // of fields
}

// planInput matches an input to a schema: each input column is a field of the same type; fields the input does not have
// must be nullable when all must be given values (errs.ErrInvalid). Order does not matter.
func planInput(s *schema.Schema, in *arrow.Schema, all bool) (*inputPlan, error) {
	bad := func(format string, args ...any) (*inputPlan, error) {
		return nil, fmt.Errorf(format+": %w", append(args, errs.ErrInvalid)...)
	}
	p := &inputPlan{in: in}
	for i, f := range in.Fields() {
		if s.FieldByName(f.Name) == nil {
			return bad("the table has no column %q", f.Name)
		}
		if slices.ContainsFunc(in.Fields()[:i], func(g arrow.Field) bool { return g.Name == f.Name }) {
			return bad("column %q twice", f.Name)
		}
	}
	for _, f := range s.Fields {
		at := in.FieldIndices(f.Name)
		if len(at) == 0 {
			if all && !f.Nullable {
				return bad("column %q is not nullable and not given", f.Name)
			}
			continue
		}
		want, err := f.DataType()
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		if have := in.Field(at[0]).Type; !arrow.TypeEqual(want, have) {
			return bad("column %q has type %s, not %s", f.Name, want, have)
		}
		p.fields, p.from = append(p.fields, f), append(p.from, at[0])
	}
	if len(p.fields) == 0 {
		return bad("no columns")
	}
	var err error
	p.out, err = schema.ArrowSchema(p.fields, nil)
	return p, err
}

// project returns the mapped columns of rec, which is borrowed.
func (p *inputPlan) project(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	named := func(a, b arrow.Field) bool { return a.Name == b.Name }
	if !slices.EqualFunc(rec.Schema().Fields(), p.in.Fields(), named) {
		return nil, fmt.Errorf("a batch has another schema than its reader: %w", errs.ErrInvalid)
	}
	return arrowx.Project(rec, p.out, p.from)
}

// fragmentRowsDefault is how many rows a fragment gets unless told otherwise; the reference's number.
const fragmentRowsDefault = 1 << 20

// rowWriter spreads rows over new fragments. It is used once: write…, then finish or abort.
type rowWriter struct {
	env     *env
	root    string
	fields  *schema.Schema
	version file.Version
	max     uint64 // rows of a fragment

	current *FragmentWriter // nil between fragments
	done    []*Fragment
	rows    uint64
}

// rowWriter starts a writer of the given fields of d. rows is the size of a fragment, 0: the default.
func (d *Dataset) rowWriter(fields []*schema.Field, rows uint64) (*rowWriter, error) {
	v, err := d.DataVersion()
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		rows = fragmentRowsDefault
	}
	return &rowWriter{env: d.env, root: d.root, fields: &schema.Schema{Fields: fields}, version: v, max: min(rows, fragmentRowsMax)}, nil
}

// write appends rec, which has exactly the writer's fields and is borrowed.
func (w *rowWriter) write(ctx context.Context, rec arrow.RecordBatch) error {
	for at := int64(0); at < rec.NumRows(); {
		if w.current == nil {
			var err error
			if w.current, err = w.env.newFragmentWriter(ctx, w.root, w.fields, w.version); err != nil {
				return err
			}
		}
		n := min(rec.NumRows()-at, int64(w.max-w.current.Rows()))
		part := rec.NewSlice(at, at+n)
		err := w.current.Write(part)
		part.Release()
		if err != nil {
			return err
		}
		at += n
		w.rows += uint64(n)
		if w.current.Rows() == w.max {
			if err := w.close(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *rowWriter) close(ctx context.Context) error {
	if w.current == nil {
		return fmt.Errorf("a fragment without rows: %w", errs.ErrInvalid)
	}
	f, err := w.current.Finish(ctx)
	if err != nil {
		return err
	}
	w.current = nil
	w.done = append(w.done, f)
	return nil
}

// finish returns the fragments, none if there were no rows.
func (w *rowWriter) finish(ctx context.Context) ([]*Fragment, error) {
	if w.current != nil {
		if err := w.close(ctx); err != nil {
			return nil, err
		}
	}
	return w.done, nil
}

// abort drops everything that was written: nobody names it. Best effort, clean-up finds the rest.
func (w *rowWriter) abort(ctx context.Context) {
	if w.current != nil {
		w.current.Abort()
	}
	for _, f := range w.done {
		for _, df := range f.Files {
			_ = w.env.st.Delete(context.WithoutCancel(ctx), join(w.root, dataDir, df.Path))
		}
	}
	w.done = nil
}

// copyRows writes all rows of a reader. It does not close the reader.
func (w *rowWriter) copyRows(ctx context.Context, rows arrowx.BatchReader, p *inputPlan) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		mapped, err := p.project(rec)
		rec.Release()
		if err != nil {
			return err
		}
		err = w.write(ctx, mapped)
		mapped.Release()
		if err != nil {
			return err
		}
	}
}
