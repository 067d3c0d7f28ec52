package file

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/lance/schema"
)

// WriterOptions configures a Writer. The zero value is the default.
type WriterOptions struct {
	Version      Version // zero: V22
	MaxPageBytes int     // unencoded bytes of one column that make a page; zero: 8 MiB
}

// Summary is what a manifest must know about a finished file.
type Summary struct {
	Rows          uint64
	Size          uint64  // bytes of the whole file
	FieldIDs      []int32 // ids of the fields that own a column
	ColumnIndices []int32 // physical column of each of them
}

// Writer streams one data file. It is not safe for concurrent use.
type Writer struct{}

// NewWriter starts a file with the columns of s.
func NewWriter(w io.Writer, s *schema.Schema, o WriterOptions) (*Writer, error) {
	return nil, fmt.Errorf("write lance file: %w", errs.ErrUnsupported)
}

// Write appends the rows of rec, whose columns are those of the schema in order. rec is borrowed.
func (w *Writer) Write(rec arrow.RecordBatch) error { return errs.ErrUnsupported }

// Finish writes what is buffered and the file's metadata. The Writer cannot be used afterwards.
func (w *Writer) Finish() (Summary, error) { return Summary{}, errs.ErrUnsupported }
