package table

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/schema"
)

// Changed is what an operation did to rows.
type Changed struct {
	Deleted, Updated, Inserted uint64
}

// DeleteWhere deletes the rows for which where is true. Its column numbers are positions in Schema().Fields of the
// version it is evaluated on: after a concurrent change of the schema the call fails with errs.ErrSchemaChanged. Without
// such rows nothing is committed and d is returned.
func (d *Dataset) DeleteWhere(ctx context.Context, where predicate.Expr) (*Dataset, Changed, error) {
	var done Changed
	next, err := d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) {
		if err := on.sameColumns(d); err != nil {
			return nil, err
		}
		c := newChange(on)
		if err := c.each(ctx, where, []int32{}, nil); err != nil {
			return nil, err
		}
		done = Changed{Deleted: c.count}
		if c.count == 0 {
			return on, nil
		}
		return c.commit(ctx, func(updated []*Fragment, removed []uint64) Operation {
			return Delete{Updated: updated, DeletedIDs: removed}
		})
	})
	if err != nil {
		return nil, Changed{}, fmt.Errorf("delete from %s: %w", d.root, err)
	}
	return next, done, nil
}

// Assignment is one column of an update.
type Assignment struct {
	Column string
	Value  any // a cell as described at arrowx.Row, nil for NULL
	// Compute, if set, gives the new values instead, one per row of rec, which has all columns and is borrowed.
	Compute func(rec arrow.RecordBatch) (arrow.Array, error)
}

// UpdateWhere changes columns of the rows for which where is true, as in DeleteWhere. The rows move to new fragments.
func (d *Dataset) UpdateWhere(ctx context.Context, where predicate.Expr, set []Assignment) (*Dataset, Changed, error) {
	var done Changed
	next, err := d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) {
		if err := on.sameColumns(d); err != nil {
			return nil, err
		}
		u, err := on.newUpdate(set)
		if err != nil {
			return nil, err
		}
		next, n, err := u.run(ctx, where)
		done = Changed{Updated: n}
		return next, err
	})
	if err != nil {
		return nil, Changed{}, fmt.Errorf("update of %s: %w", d.root, err)
	}
	return next, done, nil
}

// sameColumns: column numbers of an expression mean the same in both versions.
func (d *Dataset) sameColumns(of *Dataset) error {
	a, b := d.state.schema.Fields, of.state.schema.Fields
	same := len(a) == len(b)
	for i := 0; same && i < len(a); i++ {
		same = a[i].ID == b[i].ID && a[i].LogicalType == b[i].LogicalType
	}
	if !same {
		return fmt.Errorf("version %d has other columns than version %d: %w", d.Version(), of.Version(), errs.ErrSchemaChanged)
	}
	return nil
}

// rowUpdate is one attempt of UpdateWhere.
type rowUpdate struct {
	d    *Dataset
	set  map[int]Assignment // by column position
	ids  []uint32           // fields whose values change
	rows *rowWriter
}

func (d *Dataset) newUpdate(set []Assignment) (*rowUpdate, error) {
	u := &rowUpdate{d: d, set: make(map[int]Assignment, len(set))}
	for _, a := range set {
		at := -1
		for i, f := range d.state.schema.Fields {
			if f.Name == a.Column {
				at = i
			}
		}
		if _, twice := u.set[at]; at < 0 || twice {
			return nil, fmt.Errorf("no column %q, or named twice: %w", a.Column, errs.ErrInvalid)
		}
		u.set[at] = a
		d.state.schema.Fields[at].Walk(func(f *schema.Field) { u.ids = append(u.ids, uint32(f.ID)) })
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("nothing to set: %w", errs.ErrInvalid)
	}
	var err error
	u.rows, err = d.rowWriter(d.state.schema.Fields, 0)
	return u, err
}

func (u *rowUpdate) run(ctx context.Context, where predicate.Expr) (*Dataset, uint64, error) {
	c := newChange(u.d)
	err := c.each(ctx, where, u.d.FieldIDs(), func(rec arrow.RecordBatch) error {
		next, err := u.assign(rec)
		if err != nil {
			return err
		}
		defer next.Release()
		return u.rows.write(ctx, next)
	})
	var fresh []*Fragment
	if err == nil {
		fresh, err = u.rows.finish(ctx)
	}
	if err != nil || c.count == 0 {
		u.rows.abort(ctx)
		return u.d, 0, err
	}
	next, err := c.commitRows(ctx, u.rows, func(updated []*Fragment, removed []uint64) Operation {
		return Update{UpdatedFragments: updated, RemovedFragmentIDs: removed, NewFragments: fresh, FieldsForPreservingFragBitmap: u.ids}
	})
	return next, c.count, err
}

// assign returns rec with the assigned columns replaced.
func (u *rowUpdate) assign(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, rec.NumCols())
	defer func() { release(cols) }()
	for i := range cols {
		a, ok := u.set[i]
		if !ok {
			cols[i] = rec.Column(i)
			cols[i].Retain()
			continue
		}
		col, err := a.values(u.d, rec, rec.Schema().Field(i).Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", a.Column, err)
		}
		cols[i] = col
	}
	return array.NewRecordBatch(rec.Schema(), cols, rec.NumRows()), nil
}

func (a *Assignment) values(d *Dataset, rec arrow.RecordBatch, t arrow.DataType) (arrow.Array, error) {
	if a.Compute != nil {
		return computed(a.Compute, rec, t)
	}
	if a.Value == nil {
		return arrowx.Nulls(d.env.alloc, t, int(rec.NumRows())), nil
	}
	b := array.NewBuilder(d.env.alloc, t)
	defer b.Release()
	for range rec.NumRows() {
		if err := arrowx.Append(b, a.Value); err != nil {
			return nil, err
		}
	}
	return b.NewArray(), nil
}

// computed calls compute and checks what it gives.
func computed(compute func(arrow.RecordBatch) (arrow.Array, error), rec arrow.RecordBatch, t arrow.DataType) (arrow.Array, error) {
	a, err := compute(rec)
	if err != nil {
		return nil, err
	}
	if a == nil || a.Len() != int(rec.NumRows()) || !arrow.TypeEqual(a.DataType(), t) {
		if a != nil {
			a.Release()
		}
		return nil, fmt.Errorf("the computed column is not %d values of type %s: %w", rec.NumRows(), t, errs.ErrInvalid)
	}
	return a, nil
}

// change collects the rows an operation takes away, fragment by fragment.
type change struct {
	d     *Dataset
	gone  map[uint64]*roaring.Bitmap // by fragment, without the rows deleted before
	count uint64
}

func newChange(d *Dataset) *change { return &change{d: d, gone: make(map[uint64]*roaring.Bitmap)} }

// each visits the live rows for which where is true with the given columns, and marks them as taken away. visit may be
// nil; its batch is borrowed.
func (c *change) each(ctx context.Context, where predicate.Expr, ids []int32, visit func(rec arrow.RecordBatch) error) error {
	if where == nil {
		return fmt.Errorf("no condition: %w", errs.ErrInvalid)
	}
	r, err := c.d.liveScan(ctx, c.d.state.fragments, ids, ScanOptions{Filter: where, RowAddress: true})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = c.take(rec, visit)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

// take marks the rows of rec, whose last column are addresses, and visits them without that column.
func (c *change) take(rec arrow.RecordBatch, visit func(rec arrow.RecordBatch) error) error {
	last := int(rec.NumCols()) - 1
	if err := c.mark(rec.Column(last)); err != nil || visit == nil {
		return err
	}
	s := arrow.NewSchema(rec.Schema().Fields()[:last], nil)
	rows := array.NewRecordBatch(s, rec.Columns()[:last], rec.NumRows())
	defer rows.Release()
	return visit(rows)
}

func (c *change) mark(addresses arrow.Array) error {
	a, ok := addresses.(*array.Uint64)
	if !ok {
		return fmt.Errorf("addresses of type %s: %w", addresses.DataType(), errs.ErrInvalid)
	}
	for _, v := range a.Uint64Values() {
		set := c.gone[v>>32]
		if set == nil {
			set = roaring.New()
			c.gone[v>>32] = set
		}
		set.Add(uint32(v))
	}
	c.count += uint64(a.Len())
	return nil
}

// states writes the deletion files and returns the fragments in their new state, and those of which nothing is left.
func (c *change) states(ctx context.Context) (updated []*Fragment, removed []uint64, err error) {
	for _, f := range c.d.state.fragments {
		set := c.gone[f.ID]
		if set == nil {
			continue
		}
		before, err := c.d.Deletions(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		if before != nil {
			set = roaring.Or(set, before)
		}
		if set.GetCardinality() == f.PhysicalRows {
			removed = append(removed, f.ID)
			continue
		}
		df, err := c.d.WriteDeletions(ctx, f.ID, set)
		if err != nil {
			return nil, nil, err
		}
		updated = append(updated, f.WithDeletion(df))
	}
	return updated, removed, nil
}

// commit commits the operation that op makes of the new states. Deletion files of a lost attempt are left to clean-up.
func (c *change) commit(ctx context.Context, op func(updated []*Fragment, removed []uint64) Operation) (*Dataset, error) {
	updated, removed, err := c.states(ctx)
	if err != nil {
		return nil, err
	}
	return c.d.CommitRebasing(ctx, op(updated, removed))
}

// commitRows is commit for an operation that names what w wrote.
func (c *change) commitRows(ctx context.Context, w *rowWriter, op func(updated []*Fragment, removed []uint64) Operation) (*Dataset, error) {
	updated, removed, err := c.states(ctx)
	if err != nil {
		w.abort(ctx)
		return nil, err
	}
	return c.d.commitOrDrop(ctx, op(updated, removed), w)
}
