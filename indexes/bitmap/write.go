package bitmap

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// FileName is the only file of a segment.
const FileName = "bitmap_page_lookup.lance"

const (
	columnKeys    = "keys"
	columnBitmaps = "bitmaps"
	metaStats     = "lance:index_stats" // {"num_bitmaps":N}, N with the row of NULL

	// writeBytes is how many bytes of bitmaps make a batch, as in the reference.
	writeBytes = 32 << 20
)

func fileSchema(t arrow.DataType) *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: columnKeys, Type: t, Nullable: true}, {Name: columnBitmaps, Type: arrow.BinaryTypes.Binary, Nullable: true}}, nil)
}

// rowWriter writes rows of an index file, which come ascending.
type rowWriter struct {
	out   *store.Writer
	typ   arrow.DataType
	build *array.RecordBuilder
	held  int // bytes of bitmaps in build
	rows  uint64
	done  bool
}

func (b *Builder) create(ctx context.Context, name string) (*rowWriter, error) {
	s := fileSchema(b.typ)
	out, err := b.dir.Create(ctx, name, s)
	if err != nil {
		return nil, err
	}
	return &rowWriter{out: out, typ: b.typ, build: array.NewRecordBuilder(b.options.Memory, s)}, nil
}

func (w *rowWriter) write(r row) error {
	set, err := r.set.Encode()
	if err != nil {
		return err
	}
	if len(set) > bitmapBytesMax {
		return fmt.Errorf("the rows of one value take %d bytes: %w", len(set), errs.ErrLimit)
	}
	var cell any
	if !r.isNull {
		cell = cellOf(w.typ, r.key)
	}
	if err := arrowx.Append(w.build.Field(0), cell); err != nil {
		return err
	}
	w.build.Field(1).(*array.BinaryBuilder).Append(set)
	w.rows++
	if w.held += len(set) + len(r.key); w.held >= writeBytes {
		return w.flush()
	}
	return nil
}

func (w *rowWriter) flush() error {
	rec := w.build.NewRecordBatch()
	defer rec.Release()
	w.held = 0
	if rec.NumRows() == 0 {
		return nil
	}
	return w.out.Write(rec)
}

func (w *rowWriter) finish(ctx context.Context) (Written, error) {
	if err := w.flush(); err != nil {
		return Written{}, err
	}
	if w.rows > math.MaxUint32 {
		return Written{}, fmt.Errorf("%d distinct values: %w", w.rows, errs.ErrLimit)
	}
	w.out.SetMetadata(metaStats, fmt.Sprintf(`{"num_bitmaps":%d}`, w.rows))
	info, err := w.out.Finish(ctx)
	if err != nil {
		return Written{}, err
	}
	w.done = true
	w.build.Release()
	return Written{File: info, Keys: w.rows}, nil
}

// abort gives the file up; a no-op after finish.
func (w *rowWriter) abort() {
	if !w.done {
		w.done = true
		w.build.Release()
		w.out.Abort()
	}
}
