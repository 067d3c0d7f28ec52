package arrowx

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// Value returns cell i of a as described at Row.
func Value(a arrow.Array, i int) any { return nil }

// Append appends the cell v to b.
func Append(b array.Builder, v any) error { return errs.ErrUnsupported }

// RowOf returns row i of rec.
func RowOf(rec arrow.RecordBatch, i int) Row { return nil }

// FromRows builds a batch of rows.
func FromRows(mem memory.Allocator, schema *arrow.Schema, rows []Row) (arrow.RecordBatch, error) {
	return nil, errs.ErrUnsupported
}

// Take gathers rows by index.
func Take(mem memory.Allocator, rec arrow.RecordBatch, indices []int) (arrow.RecordBatch, error) {
	return nil, errs.ErrUnsupported
}

// Filter keeps rows whose keep flag is set.
func Filter(mem memory.Allocator, rec arrow.RecordBatch, keep []bool) (arrow.RecordBatch, error) {
	return nil, errs.ErrUnsupported
}

// FilterByMask keeps the rows whose bit is set.
func FilterByMask(mem memory.Allocator, rec arrow.RecordBatch, m *Mask) (arrow.RecordBatch, error) {
	return nil, errs.ErrUnsupported
}

// Concat joins batches.
func Concat(mem memory.Allocator, recs []arrow.RecordBatch) (arrow.RecordBatch, error) {
	return nil, errs.ErrUnsupported
}

// Project makes a batch of some columns of rec, without copying.
func Project(rec arrow.RecordBatch, schema *arrow.Schema, cols []int) (arrow.RecordBatch, error) {
	return nil, errs.ErrUnsupported
}

// Bytes is the logical size of rec in bytes.
func Bytes(rec arrow.RecordBatch) int64 { return 0 }

// Validate checks that the buffers of a can be read without leaving them.
func Validate(a arrow.Array) error { return errs.ErrUnsupported }
