package file

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/schema"
)

// Source is the file to read. ReadAt fills p completely or fails; it must be safe for concurrent use.
type Source interface {
	ReadAt(ctx context.Context, p []byte, off int64) error
	Size() int64  // bytes
	Name() string // for error messages
}

// ReaderOptions configures a Reader. The zero value is the default.
type ReaderOptions struct {
	Allocator memory.Allocator // nil: the Go allocator
}

// Reader reads one data file.
type Reader struct{}

// Open reads the metadata of a file. errs.ErrCorruption, errs.ErrUnsupported for versions it does not know.
func Open(ctx context.Context, src Source, o ReaderOptions) (*Reader, error) {
	return nil, fmt.Errorf("open lance file %s: %w", src.Name(), errs.ErrUnsupported)
}

// Rows returns the number of rows.
func (r *Reader) Rows() uint64 { return 0 }

// Version returns the version of the file.
func (r *Reader) Version() Version { return Version{} }

// Schema returns the schema stored in the file; the manifest's schema takes precedence over it.
func (r *Reader) Schema() *schema.Schema { return nil }

// Scan reads rows [from, to) in batches of batchRows (the last one may be shorter). fields are the wanted top-level
// fields in output order; cols maps the id of each of their leaves to its physical column, nil = as in the file.
func (r *Reader) Scan(ctx context.Context, fields []*schema.Field, cols map[int32]int32, from, to uint64, batchRows int) (arrowx.BatchReader, error) {
	return nil, errs.ErrUnsupported
}

// Take reads the given rows (ascending, distinct) and only the chunks they lie in. fields and cols as in Scan.
func (r *Reader) Take(ctx context.Context, fields []*schema.Field, cols map[int32]int32, rows []uint64) (arrow.RecordBatch, error) {
	return nil, errs.ErrUnsupported
}
