package wal

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Conform maps a batch of an entry (borrowed) to the shard's schema: physical columns, then `_tombstone`.
// Columns match by the `lance:field_id` of their metadata where both sides have one, else by name. A missing
// `_tombstone` is all false, another missing column is NULL, an unknown one is dropped. The caller releases the
// result. errs.ErrInvalid for a missing key column (keyCols) and for a column of another type.
// Spec: MemWAL, "Recovery".
func Conform(rec arrow.RecordBatch, schema *arrow.Schema, keyCols []int) (arrow.RecordBatch, error) {
	n := int(rec.NumRows())
	cols := make([]arrow.Array, 0, schema.NumFields())
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	for i, f := range schema.Fields() {
		from := matchColumn(rec.Schema(), f)
		switch {
		case from >= 0:
			c := rec.Column(from)
			if !arrow.TypeEqual(c.DataType(), f.Type) {
				return nil, fmt.Errorf("WAL column %q is %s, not %s: %w", f.Name, c.DataType(), f.Type, errs.ErrInvalid)
			}
			c.Retain()
			cols = append(cols, c)
		case f.Name == tombstoneName && i == schema.NumFields()-1:
			cols = append(cols, allFalse(n))
		case slices.Contains(keyCols, i):
			return nil, fmt.Errorf("WAL batch without key column %q: %w", f.Name, errs.ErrInvalid)
		default:
			cols = append(cols, arrowx.Nulls(memory.DefaultAllocator, f.Type, n))
		}
	}
	return array.NewRecordBatch(schema, cols, int64(n)), nil
}

// matchColumn returns the column of s that is f, -1 if none.
func matchColumn(s *arrow.Schema, f arrow.Field) int {
	id, hasID := f.Metadata.GetValue(metaFieldID)
	byName := -1
	for i, c := range s.Fields() {
		other, has := c.Metadata.GetValue(metaFieldID)
		switch {
		case has && hasID && other == id:
			return i
		case (!has || !hasID) && c.Name == f.Name && byName < 0:
			byName = i
		}
	}
	return byName
}

func allFalse(n int) arrow.Array {
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(make([]bool, n), nil)
	return b.NewArray()
}
