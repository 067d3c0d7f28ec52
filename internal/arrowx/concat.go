package arrowx

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// Concat joins batches of equal column types, in order, into fresh buffers under the schema of the first.
// A single batch is copied as well, which frees it from buffers it shares. errs.ErrInvalid without batches or
// when the column types differ.
func Concat(mem memory.Allocator, recs []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(recs) == 0 {
		return nil, fmt.Errorf("concat of no batches: %w", errs.ErrInvalid)
	}
	schema, rows := recs[0].Schema(), int64(0)
	for _, r := range recs {
		if r.NumCols() != recs[0].NumCols() {
			return nil, fmt.Errorf("concat of %d and %d columns: %w", recs[0].NumCols(), r.NumCols(), errs.ErrInvalid)
		}
		rows += r.NumRows()
	}
	cols := make([]arrow.Array, 0, schema.NumFields())
	defer func() { releaseAll(cols) }()
	parts := make([]arrow.Array, len(recs))
	for c := range schema.NumFields() {
		for i, r := range recs {
			parts[i] = r.Column(c)
			if !arrow.TypeEqual(parts[i].DataType(), parts[0].DataType()) {
				return nil, fmt.Errorf("concat column %q of types %s and %s: %w",
					schema.Field(c).Name, parts[0].DataType(), parts[i].DataType(), errs.ErrInvalid)
			}
		}
		col, err := array.Concatenate(parts, mem)
		if err != nil {
			return nil, fmt.Errorf("concat column %q: %w", schema.Field(c).Name, err)
		}
		cols = append(cols, col)
	}
	return array.NewRecordBatch(schema, cols, rows), nil
}
