package btree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
)

// Files and names of a segment.
const (
	DataFile   = "page_data.lance"
	LookupFile = "page_lookup.lance"

	columnValues, columnIDs                                = "values", "ids"
	columnMin, columnMax, columnNullCount, columnPageIndex = "min", "max", "null_count", "page_idx"
	keyBatchSize, keyRangePartitioned                      = "batch_size", "range_partitioned"
)

const (
	// PageRowsDefault is what the reference writes for an index of a table.
	PageRowsDefault = 4096
	// pageRowsMax bounds what is read and written.
	pageRowsMax = 1 << 20
	// chunkRows is how many rows are handed on at a time by streams of this package.
	chunkRows = 4096
)

// Batch is some rows of an index: a value each and the id of its row, an address or an offset.
type Batch struct {
	Values arrow.Array
	IDs    []uint64
}

// Stream is a pull of batches. It returns io.EOF at the end. The taker releases Values; IDs are valid until the next
// call. Empty batches are allowed.
type Stream func(ctx context.Context) (Batch, error)

// Options of a segment to write. The zero value is the default.
type Options struct {
	PageRows  int              // rows of a page; 0: PageRowsDefault
	Allocator memory.Allocator // of temporary arrays; nil: the Go allocator
	byID      bool             // rows of equal value must have ascending ids (I5)
}

func (o Options) withDefaults() (Options, error) {
	if o.PageRows == 0 {
		o.PageRows = PageRowsDefault
	}
	if o.PageRows < 1 || o.PageRows > pageRowsMax {
		return o, fmt.Errorf("pages of %d rows: %w", o.PageRows, errs.ErrInvalid)
	}
	if o.Allocator == nil {
		o.Allocator = memory.DefaultAllocator
	}
	return o, nil
}

// Summary says what was written.
type Summary struct {
	Rows, Nulls uint64
	Files       []store.Info
}

// Build writes a segment over values of type t into dir. rows yields them in the order of the index (I1), NULLs first,
// errs.ErrInvalid if it does not. No rows at all make an empty segment. errs.ErrUnsupported for types without an order.
// Memory: one batch, two values a page, and the file writer's buffers of 8 MiB a column.
// Spec: indexes, "BTREE".
func Build(ctx context.Context, dir store.Dir, t arrow.DataType, rows Stream, o Options) (Summary, error) {
	sum, err := build(ctx, dir, t, rows, o)
	if err != nil {
		return Summary{}, fmt.Errorf("build BTREE in %s: %w", dir.Path(), err)
	}
	return sum, nil
}

func build(ctx context.Context, dir store.Dir, t arrow.DataType, rows Stream, o Options) (Summary, error) {
	w, err := newWriter(ctx, dir, t, o)
	if err != nil {
		return Summary{}, err
	}
	for {
		b, err := rows(ctx)
		if errors.Is(err, io.EOF) {
			return w.finish(ctx)
		}
		if err == nil {
			err = ctx.Err()
			if err == nil {
				err = w.add(b)
			}
			if b.Values != nil {
				b.Values.Release()
			}
		}
		if err != nil {
			w.data.Abort()
			return Summary{}, err
		}
	}
}

// writer writes the data file and collects the table of pages.
type writer struct {
	dir     store.Dir
	o       Options
	typ     arrow.DataType
	data    *store.Writer
	schema  *arrow.Schema
	rows    uint64
	nulls   uint64
	last    column // at most one: the last value written
	lastID  uint64
	scratch column

	// The table of pages. Pages of the first nullMins begin with a NULL, those of the first nullMaxs have nothing else.
	mins, maxs         column
	nullMins, nullMaxs int
	pageNulls          []uint32
}

func newWriter(ctx context.Context, dir store.Dir, t arrow.DataType, o Options) (*writer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	empty, err := newColumn(t)
	if err != nil {
		return nil, err
	}
	w := &writer{dir: dir, o: o, typ: t, last: empty, scratch: empty, mins: empty, maxs: empty}
	w.schema = arrow.NewSchema([]arrow.Field{{Name: columnValues, Type: t, Nullable: true},
		{Name: columnIDs, Type: arrow.PrimitiveTypes.Uint64}}, nil)
	w.data, err = dir.Create(ctx, DataFile, w.schema)
	return w, err
}

// add writes a batch.
func (w *writer) add(b Batch) error {
	if b.Values == nil || b.Values.Len() == 0 {
		return nil
	}
	n, nulls := b.Values.Len(), b.Values.NullN()
	if len(b.IDs) != n || !arrow.TypeEqual(b.Values.DataType(), w.typ) {
		return fmt.Errorf("%d ids for %d values of type %s, the index is over %s: %w", len(b.IDs), n, b.Values.DataType(), w.typ, errs.ErrInvalid)
	}
	for i := range nulls {
		if b.Values.IsValid(i) {
			return fmt.Errorf("row %d: NULL after a value: %w", w.rows+uint64(i), errs.ErrInvalid)
		}
	}
	if nulls > 0 && w.rows > w.nulls {
		return fmt.Errorf("row %d: NULL after a value: %w", w.rows, errs.ErrInvalid)
	}
	w.scratch.reset()
	if err := w.scratch.encode(b.Values, nulls, n); err != nil {
		return err
	}
	if err := w.checkOrder(b.IDs, nulls); err != nil {
		return err
	}
	ids := idArray(w.o.Allocator, b.IDs)
	defer ids.Release()
	rec := array.NewRecordBatch(w.schema, []arrow.Array{b.Values, ids}, int64(n))
	defer rec.Release()
	if err := w.data.Write(rec); err != nil {
		return err
	}
	return w.notePages(n, nulls, b.IDs[n-1])
}

// checkOrder establishes I1 and, where asked for, I5.
func (w *writer) checkOrder(ids []uint64, nulls int) error {
	c := &w.scratch
	for i := range c.len() {
		order := 1
		var before uint64
		switch {
		case i > 0:
			order, before = c.compare(i, c.key(i-1)), ids[nulls+i-1]
		case w.last.len() > 0:
			order, before = c.compare(0, w.last.key(0)), w.lastID
		}
		if order < 0 {
			return fmt.Errorf("row %d: value below its predecessor: %w", w.rows+uint64(nulls+i), errs.ErrInvalid)
		}
		if w.o.byID && order == 0 && ids[nulls+i] <= before {
			return fmt.Errorf("row %d: id %d after id %d of an equal value: %w", w.rows+uint64(nulls+i), ids[nulls+i], before, errs.ErrInvalid)
		}
	}
	return nil
}

// notePages keeps the bounds of the pages that the n rows in scratch begin or end. It establishes I2.
func (w *writer) notePages(n, nulls int, lastID uint64) error {
	pageRows := uint64(w.o.PageRows)
	for at := 0; at < n; {
		inPage := w.rows % pageRows
		if inPage == 0 {
			if uint64(len(w.pageNulls)) >= math.MaxUint32 {
				return fmt.Errorf("more than %d pages: %w", uint32(math.MaxUint32), errs.ErrLimit)
			}
			w.pageNulls = append(w.pageNulls, 0)
			if at < nulls {
				w.nullMins++
			} else if err := w.mins.add(w.scratch.key(at - nulls)); err != nil {
				return err
			}
		}
		end := min(n, at+int(pageRows-inPage))
		here := max(0, min(nulls, end)-at)
		w.pageNulls[len(w.pageNulls)-1] += uint32(here)
		w.nulls += uint64(here)
		w.rows += uint64(end - at)
		if w.rows%pageRows == 0 {
			if end <= nulls {
				w.nullMaxs++
			} else if err := w.maxs.add(w.scratch.key(end - 1 - nulls)); err != nil {
				return err
			}
		}
		at = end
	}
	if k := w.scratch.len(); k > 0 {
		w.last.reset()
		w.lastID = lastID
		return w.last.add(w.scratch.key(k - 1))
	}
	return nil
}

// finish completes both files, the table of pages last.
func (w *writer) finish(ctx context.Context) (Summary, error) {
	if w.rows%uint64(w.o.PageRows) != 0 {
		if w.last.len() == 0 {
			w.nullMaxs++
		} else if err := w.maxs.add(w.last.key(0)); err != nil {
			w.data.Abort()
			return Summary{}, err
		}
	}
	info, err := w.data.Finish(ctx)
	if err != nil {
		return Summary{}, err
	}
	table, err := w.writeTable(ctx)
	if err != nil {
		return Summary{}, err
	}
	return Summary{Rows: w.rows, Nulls: w.nulls, Files: []store.Info{info, table}}, nil
}

func (w *writer) writeTable(ctx context.Context) (store.Info, error) {
	md := arrow.NewMetadata([]string{keyBatchSize, keyRangePartitioned}, []string{strconv.Itoa(w.o.PageRows), "false"})
	sc := arrow.NewSchema([]arrow.Field{{Name: columnMin, Type: w.typ, Nullable: true}, {Name: columnMax, Type: w.typ, Nullable: true},
		{Name: columnNullCount, Type: arrow.PrimitiveTypes.Uint32}, {Name: columnPageIndex, Type: arrow.PrimitiveTypes.Uint32}}, &md)
	out, err := w.dir.Create(ctx, LookupFile, sc)
	if err != nil {
		return store.Info{}, err
	}
	if pages := len(w.pageNulls); pages > 0 {
		rec, err := w.tableBatch(sc, pages)
		if err == nil {
			err = out.Write(rec)
			rec.Release()
		}
		if err != nil {
			out.Abort()
			return store.Info{}, err
		}
	}
	return out.Finish(ctx)
}

func (w *writer) tableBatch(sc *arrow.Schema, pages int) (arrow.RecordBatch, error) {
	mem := w.o.Allocator
	lows, err := w.mins.arrow(mem, w.typ, w.nullMins)
	if err != nil {
		return nil, err
	}
	defer lows.Release()
	highs, err := w.maxs.arrow(mem, w.typ, w.nullMaxs)
	if err != nil {
		return nil, err
	}
	defer highs.Release()
	numbers := make([]uint32, pages)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	nulls, index := uint32Array(mem, w.pageNulls), uint32Array(mem, numbers)
	defer nulls.Release()
	defer index.Release()
	return array.NewRecordBatch(sc, []arrow.Array{lows, highs, nulls, index}, int64(pages)), nil
}

func idArray(mem memory.Allocator, ids []uint64) arrow.Array {
	b := array.NewUint64Builder(mem)
	defer b.Release()
	b.AppendValues(ids, nil)
	return b.NewArray()
}

func uint32Array(mem memory.Allocator, v []uint32) arrow.Array {
	b := array.NewUint32Builder(mem)
	defer b.Release()
	b.AppendValues(v, nil)
	return b.NewArray()
}
