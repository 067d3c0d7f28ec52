package arrowx

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// RowOf returns row i of rec as cells that own their bytes. i must be in range.
func RowOf(rec arrow.RecordBatch, i int) Row {
	row := make(Row, rec.NumCols())
	for c := range row {
		row[c] = Value(rec.Column(c), i)
	}
	return row
}

// FromRows builds a batch of rows, which may be empty; each row has one cell per field of schema. Nullability
// is not enforced: a tombstone leaves every column but the key NULL. The caller releases the batch.
// errs.ErrInvalid for a row of the wrong length or a cell of the wrong Go type, errs.ErrUnsupported for a
// column type without a Go form.
func FromRows(mem memory.Allocator, schema *arrow.Schema, rows []Row) (arrow.RecordBatch, error) {
	n := schema.NumFields()
	for r, row := range rows {
		if len(row) != n {
			return nil, fmt.Errorf("row %d has %d cells, the schema %d fields: %w", r, len(row), n, errs.ErrInvalid)
		}
	}
	cols := make([]arrow.Array, 0, n)
	defer func() { releaseAll(cols) }()
	for c := range n {
		f := schema.Field(c)
		if !Supported(f.Type) {
			return nil, fmt.Errorf("column %q of type %s: %w", f.Name, f.Type, errs.ErrUnsupported)
		}
		if col := column(f.Type, rows, c); col != nil {
			cols = append(cols, col)
			continue
		}
		b := array.NewBuilder(mem, f.Type)
		b.Reserve(len(rows))
		for r, row := range rows {
			if err := Append(b, row[c]); err != nil {
				b.Release()
				return nil, fmt.Errorf("row %d, column %q: %w", r, f.Name, err)
			}
		}
		cols = append(cols, b.NewArray())
		b.Release()
	}
	return array.NewRecordBatch(schema, cols, int64(len(rows))), nil
}

// Project returns a batch of columns cols of rec (positions, any order, repeats allowed) under schema, whose
// fields have the types of these columns. Nothing is copied. With no columns only the row count remains.
func Project(rec arrow.RecordBatch, schema *arrow.Schema, cols []int) (arrow.RecordBatch, error) {
	if schema.NumFields() != len(cols) {
		return nil, fmt.Errorf("project %d columns onto %d fields: %w", len(cols), schema.NumFields(), errs.ErrInvalid)
	}
	out := make([]arrow.Array, len(cols))
	for i, c := range cols {
		if c < 0 || c >= int(rec.NumCols()) {
			return nil, fmt.Errorf("project column %d of %d: %w", c, rec.NumCols(), errs.ErrInvalid)
		}
		out[i] = rec.Column(c)
		if !arrow.TypeEqual(out[i].DataType(), schema.Field(i).Type) {
			return nil, fmt.Errorf("project column %d of type %s onto field %q of type %s: %w",
				c, out[i].DataType(), schema.Field(i).Name, schema.Field(i).Type, errs.ErrInvalid)
		}
	}
	return array.NewRecordBatch(schema, out, rec.NumRows()), nil
}

// Nulls returns an array of n NULLs of type t. The caller releases it.
func Nulls(mem memory.Allocator, t arrow.DataType, n int) arrow.Array {
	return array.MakeArrayOfNull(mem, t, n)
}

func releaseAll(cols []arrow.Array) {
	for _, c := range cols {
		c.Release()
	}
}
