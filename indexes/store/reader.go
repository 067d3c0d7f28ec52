package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// Reader reads one index file of any version of the format. It is safe for concurrent use and needs no Close.
type Reader struct {
	object string
	r      *file.Reader
}

// Object returns the file's name in the store, for errors.
func (r *Reader) Object() string { return r.object }

// Rows returns the number of rows.
func (r *Reader) Rows() uint64 { return r.r.Rows() }

// Metadata returns an entry of the schema's metadata.
func (r *Reader) Metadata(key string) (value string, ok bool) {
	value, ok = r.r.Schema().Metadata[key]
	return value, ok
}

// Number returns an entry of the schema's metadata that is a decimal number between low and high, or missing if the
// file does not have it. errs.ErrCorruption for anything else.
func (r *Reader) Number(key string, missing, low, high uint64) (uint64, error) {
	text, ok := r.Metadata(key)
	if !ok {
		return missing, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, errs.Corrupt(r.object, -1, "metadata %s is %q, not a number from %d to %d", key, text, low, high)
	}
	return n, nil
}

// Columns is a choice of columns of a file, in the order asked for.
type Columns struct{ fields []*schema.Field }

// Columns finds columns by name. errs.ErrCorruption if one is missing.
func (r *Reader) Columns(names ...string) (Columns, error) {
	var c Columns
	for _, name := range names {
		f := r.r.Schema().FieldByName(name)
		if f == nil {
			return Columns{}, errs.Corrupt(r.object, -1, "no column %q", name)
		}
		c.fields = append(c.fields, f)
	}
	return c, nil
}

// Has reports whether the file has a column of that name.
func (r *Reader) Has(name string) bool { return r.r.Schema().FieldByName(name) != nil }

// Type returns the Arrow type of column i of a choice. errs.ErrUnsupported for types without one.
func (c Columns) Type(i int) (arrow.DataType, error) { return c.fields[i].DataType() }

// Require checks that column i of a choice has the type t (errs.ErrCorruption).
func (r *Reader) Require(c Columns, i int, t arrow.DataType) error {
	have, err := c.Type(i)
	if err != nil {
		return fmt.Errorf("%s: %w", r.object, err)
	}
	if !arrow.TypeEqual(have, t) {
		return errs.Corrupt(r.object, -1, "column %q is %s, not %s", c.fields[i].Name, have, t)
	}
	return nil
}

// Scan reads rows [from, to) in batches of at most batchRows; see file.Reader.
func (r *Reader) Scan(ctx context.Context, c Columns, from, to uint64, batchRows int) (arrowx.BatchReader, error) {
	return r.r.Scan(ctx, c.fields, nil, from, to, batchRows)
}

// Read hands the batches of rows [from, to) to visit, which borrows them. No batch holds more than batchRows.
func (r *Reader) Read(ctx context.Context, c Columns, from, to uint64, batchRows int, visit func(rec arrow.RecordBatch) error) error {
	scan, err := r.Scan(ctx, c, from, to, batchRows)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.object, err)
	}
	defer scan.Close()
	for {
		rec, err := scan.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", r.object, err)
		}
		err = visit(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

// Buffer reads a global buffer; limit bounds it in bytes. errs.ErrInvalid for a number the file does not have,
// errs.ErrLimit beyond the limit. The caller owns the bytes.
func (r *Reader) Buffer(ctx context.Context, number uint32, limit uint64) ([]byte, error) {
	return r.r.Buffer(ctx, number, limit)
}
