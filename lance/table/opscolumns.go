package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/schema"
)

// NewColumn is a column to add.
type NewColumn struct {
	Field arrow.Field
	// Compute gives the values for the rows of rec, which is borrowed; nil: NULL everywhere, and the field must be
	// nullable. Rows come in physical order, deleted ones included: their values are stored and never read.
	Compute func(rec arrow.RecordBatch) (arrow.Array, error)
}

// AddColumns adds columns at the end of the schema. The batches that Compute sees have the columns reads, nil: all.
// Columns of NULL cost no data. Over a concurrent commit that touched rows, values are computed anew.
func (d *Dataset) AddColumns(ctx context.Context, columns []NewColumn, reads []string) (*Dataset, error) {
	next, err := d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) {
		fields, err := on.newFields(columns)
		if err != nil {
			return nil, err
		}
		next := &schema.Schema{Fields: append(slices.Clone(on.state.schema.Fields), fields...), Metadata: on.state.schema.Metadata}
		var compute []computedColumn
		for i, c := range columns {
			if c.Compute != nil {
				compute = append(compute, computedColumn{fields[i], c.Compute})
			} else if !c.Field.Nullable {
				return nil, fmt.Errorf("column %q is not nullable and has no values: %w", c.Field.Name, errs.ErrInvalid)
			}
		}
		return on.mergeColumns(ctx, next, compute, reads)
	})
	if err != nil {
		return nil, fmt.Errorf("add columns to %s: %w", d.root, err)
	}
	return next, nil
}

// newFields gives the new columns ids.
func (d *Dataset) newFields(columns []NewColumn) ([]*schema.Field, error) {
	list := make([]arrow.Field, len(columns))
	for i, c := range columns {
		if c.Field.Type == nil {
			return nil, fmt.Errorf("column %q without a type: %w", c.Field.Name, errs.ErrInvalid)
		}
		if d.state.schema.FieldByName(c.Field.Name) != nil {
			return nil, fmt.Errorf("column %q: %w", c.Field.Name, errs.ErrExists)
		}
		list[i] = c.Field
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no columns to add: %w", errs.ErrInvalid)
	}
	return schemaFields(list, d.NextFieldID())
}

// schemaFields makes fields of Arrow fields, with ids from first.
func schemaFields(list []arrow.Field, first int32) ([]*schema.Field, error) {
	s, err := schema.FromArrow(arrow.NewSchema(list, nil))
	if err != nil {
		return nil, err
	}
	s.Walk(func(f *schema.Field) { f.ID += first })
	return s.Fields, nil
}

// computedColumn is a field of the new schema and where its values come from.
type computedColumn struct {
	field   *schema.Field
	compute func(rec arrow.RecordBatch) (arrow.Array, error)
}

// mergeColumns commits a schema whose fields in compute get a data file in every fragment.
func (d *Dataset) mergeColumns(ctx context.Context, next *schema.Schema, compute []computedColumn, reads []string) (*Dataset, error) {
	op := Merge{Schema: next, Fragments: d.state.fragments}
	if len(compute) == 0 {
		return d.CommitRebasing(ctx, op)
	}
	fields := make([]*schema.Field, len(compute))
	for i, c := range compute {
		fields[i] = c.field
	}
	ids, err := d.columnIDs(reads)
	if err != nil {
		return nil, err
	}
	w, err := d.rowWriter(fields, 0)
	if err != nil {
		return nil, err
	}
	w.max = fragmentRowsMax + 1 // one file per fragment, closed by us
	op.Fragments = make([]*Fragment, len(d.state.fragments))
	for i, f := range d.state.fragments {
		if err := d.computeFragment(ctx, w, f, ids, compute); err != nil {
			w.abort(ctx)
			return nil, fmt.Errorf("fragment %d: %w", f.ID, err)
		}
		g := *f
		g.Files = append(slices.Clone(f.Files), w.done[i].Files[0])
		op.Fragments[i] = &g
	}
	return d.commitOrDrop(ctx, op, w)
}

// computeFragment writes the columns of one fragment as one file.
func (d *Dataset) computeFragment(ctx context.Context, w *rowWriter, f *Fragment, ids []int32, compute []computedColumn) error {
	out, err := schema.ArrowSchema(w.fields.Fields, nil)
	if err != nil {
		return err
	}
	r, err := d.ScanFragment(ctx, f, ids, 0, f.PhysicalRows, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		_, rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return w.close(ctx)
		}
		if err != nil {
			return err
		}
		next, err := computeBatch(out, rec, compute)
		rec.Release()
		if err != nil {
			return err
		}
		err = w.write(ctx, next)
		next.Release()
		if err != nil {
			return err
		}
	}
}

func computeBatch(out *arrow.Schema, rec arrow.RecordBatch, compute []computedColumn) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, len(compute))
	defer func() { release(cols) }()
	for i, c := range compute {
		var err error
		if cols[i], err = computed(c.compute, rec, out.Field(i).Type); err != nil {
			return nil, fmt.Errorf("column %q: %w", c.field.Name, err)
		}
	}
	return array.NewRecordBatch(out, cols, rec.NumRows()), nil
}

// DropColumns takes top-level columns out of the schema; their data stays in the files until these are rewritten. Indexes
// on them are dropped. At least one column must stay, and a primary key cannot go (errs.ErrInvalid).
func (d *Dataset) DropColumns(ctx context.Context, columns ...string) (*Dataset, error) {
	return d.projecting(ctx, "drop columns of", func(on *Dataset) ([]*schema.Field, error) {
		if _, err := on.columnIDs(columns); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(slices.Clone(on.state.schema.Fields), func(f *schema.Field) bool { return slices.Contains(columns, f.Name) }), nil
	})
}

// RenameColumn gives a top-level column another name. Its data, indexes and key marks stay.
func (d *Dataset) RenameColumn(ctx context.Context, from, to string) (*Dataset, error) {
	return d.projecting(ctx, "rename a column of", func(on *Dataset) ([]*schema.Field, error) {
		if on.state.schema.FieldByName(to) != nil {
			return nil, fmt.Errorf("column %q: %w", to, errs.ErrExists)
		}
		return on.withField(from, func(f *schema.Field) error { f.Name = to; return nil })
	})
}

// SetNullable allows or forbids NULL in a top-level column. Forbidding it is errs.ErrInvalid if there is one; rows added
// meanwhile make it look again.
func (d *Dataset) SetNullable(ctx context.Context, column string, nullable bool) (*Dataset, error) {
	return d.projecting(ctx, "alter a column of", func(on *Dataset) ([]*schema.Field, error) {
		if !nullable {
			if err := on.checkNoNull(ctx, column); err != nil {
				return nil, err
			}
		}
		return on.withField(column, func(f *schema.Field) error { f.Nullable = nullable; return nil })
	})
}

func (d *Dataset) checkNoNull(ctx context.Context, column string) error {
	at := slices.IndexFunc(d.state.schema.Fields, func(f *schema.Field) bool { return f.Name == column })
	if at < 0 {
		return fmt.Errorf("no column %q in version %d: %w", column, d.Version(), errs.ErrInvalid)
	}
	r, err := d.Rows(ctx, ScanOptions{NoColumns: true, Filter: predicate.IsNull{Column: at}, Limit: 1})
	if err != nil {
		return err
	}
	defer r.Close()
	rec, err := r.Next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	rec.Release()
	return fmt.Errorf("column %q has NULLs: %w", column, errs.ErrInvalid)
}

// CastColumn changes the type of a top-level column to a wider one (Widens). Its values are rewritten under a new field id.
// An index on the column must be dropped first (errs.ErrInvalid), and it must not be part of the primary key.
func (d *Dataset) CastColumn(ctx context.Context, column string, to arrow.DataType) (*Dataset, error) {
	next, err := d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) { return on.castColumn(ctx, column, to) })
	if err != nil {
		return nil, fmt.Errorf("alter a column of %s: %w", d.root, err)
	}
	return next, nil
}

func (d *Dataset) castColumn(ctx context.Context, column string, to arrow.DataType) (*Dataset, error) {
	old := d.state.schema.FieldByName(column)
	if old == nil {
		return nil, fmt.Errorf("no column %q in version %d: %w", column, d.Version(), errs.ErrInvalid)
	}
	from, err := old.DataType()
	if err != nil {
		return nil, err
	}
	if to != nil && arrow.TypeEqual(from, to) {
		return d, nil
	}
	if to == nil || !Widens(from, to) {
		return nil, fmt.Errorf("column %q of type %s to %s: %w", column, from, to, errs.ErrInvalid)
	}
	for _, e := range d.state.indices {
		if slices.Contains(e.Fields, old.ID) {
			return nil, fmt.Errorf("column %q has the index %q, which a cast would invalidate: %w", column, e.Name, errs.ErrInvalid)
		}
	}
	made, err := schemaFields([]arrow.Field{{Name: column, Type: to, Nullable: old.Nullable}}, d.NextFieldID())
	if err != nil {
		return nil, err
	}
	field := *old
	field.ID, field.LogicalType = made[0].ID, made[0].LogicalType
	fields := slices.Clone(d.state.schema.Fields)
	fields[slices.Index(fields, old)] = &field
	next := &schema.Schema{Fields: fields, Metadata: d.state.schema.Metadata}
	cast := func(rec arrow.RecordBatch) (arrow.Array, error) { return widen(d.env.alloc, rec.Column(0), to) }
	return d.mergeColumns(ctx, next, []computedColumn{{&field, cast}}, []string{column})
}

// withField returns the fields with a changed copy of one.
func (d *Dataset) withField(name string, change func(f *schema.Field) error) ([]*schema.Field, error) {
	fields := slices.Clone(d.state.schema.Fields)
	at := slices.IndexFunc(fields, func(f *schema.Field) bool { return f.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("no column %q in version %d: %w", name, d.Version(), errs.ErrInvalid)
	}
	f := *fields[at]
	fields[at] = &f
	return fields, change(&f)
}

// projecting commits the fields that next makes of a version.
func (d *Dataset) projecting(ctx context.Context, what string, next func(on *Dataset) ([]*schema.Field, error)) (*Dataset, error) {
	made, err := d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) {
		fields, err := next(on)
		if err != nil {
			return nil, err
		}
		return on.CommitRebasing(ctx, Project{Schema: &schema.Schema{Fields: fields, Metadata: on.state.schema.Metadata}})
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, d.root, err)
	}
	return made, nil
}
