package arrowx

import "github.com/apache/arrow-go/v18/arrow"

// Row is one row of a table in schema order, nil for NULL. The Go type of a cell is fixed by the column's
// Arrow type: bool; int8…int64; uint8…uint64; float32; float64; string (Utf8, LargeUtf8); []byte (Binary,
// LargeBinary, FixedSizeBinary, and FixedSizeList of Float32 as little-endian bytes); arrow.Date32; arrow.Time64; arrow.Timestamp; arrow.Duration;
// decimal128.Num; decimal256.Num. A Row handed over is never changed by either side.
type Row []any

// BatchReader is a pull of record batches. Next returns io.EOF at the end; the caller releases each batch.
// Close is idempotent and must be called.
type BatchReader interface {
	Schema() *arrow.Schema
	Next() (arrow.RecordBatch, error)
	Close() error
}
