package fragreuse

import (
	"context"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/lance/table"
)

// Deleted is the label of a source row that was deleted before the rewrite.
const Deleted = -1

// RowMapWriter streams the row map of a stable partition. Exactly one of Finish and Abort ends it. It is not safe for
// concurrent use. It holds the counts in memory: four bytes for each destination and 65,536 rows.
type RowMapWriter struct {
	id  uuid.UUID
	w   *store.Writer
	sc  *arrow.Schema
	c   counts
	now []uint32 // rows sent so far
	mem memory.Allocator
}

// NewRowMapWriter starts the row map id, a random UUID, below root, the table's directory. It has so many destinations,
// 1 to 65,536 (errs.ErrLimit). Nothing is visible before Finish.
// Spec: Fragment Reuse Index, "Row Map File Schema".
func NewRowMapWriter(ctx context.Context, root store.Dir, id uuid.UUID, destinations int) (*RowMapWriter, error) {
	return newRowMapWriter(ctx, root, id, destinations, blockRowsDefault)
}

func newRowMapWriter(ctx context.Context, root store.Dir, id uuid.UUID, destinations int, blockRows uint64) (*RowMapWriter, error) {
	switch {
	case id == uuid.Nil:
		return nil, fmt.Errorf("row map without an id: %w", errs.ErrInvalid)
	case destinations < 1 || destinations > table.PartitionDestinationsMax:
		return nil, fmt.Errorf("stable partition into %d fragments: %w", destinations, errs.ErrLimit)
	}
	sc := arrow.NewSchema([]arrow.Field{{Name: labelColumn, Type: arrow.PrimitiveTypes.Uint16, Nullable: true}}, nil)
	w, err := root.Create(ctx, (&table.ReusePartition{MapID: id}).Object(), sc)
	if err != nil {
		return nil, fmt.Errorf("write row map %s: %w", id, err)
	}
	return &RowMapWriter{
		id: id, w: w, sc: sc, mem: memory.DefaultAllocator, now: make([]uint32, destinations),
		c: counts{destinations: destinations, blockRows: blockRows},
	}, nil
}

// Append adds the labels of the next source rows, in source order: the place of the row's destination in the list of
// destinations, or Deleted. errs.ErrInvalid for another label; errs.ErrLimit if a destination or the counts get too large.
func (w *RowMapWriter) Append(labels []int32) error {
	b := array.NewUint16Builder(w.mem)
	defer b.Release()
	b.Reserve(len(labels))
	for _, l := range labels {
		switch {
		case l == Deleted:
			b.UnsafeAppendBoolToBitmap(false)
		case l < 0 || int(l) >= w.c.destinations:
			return fmt.Errorf("label %d of row %d, there are %d destinations: %w", l, w.c.rows, w.c.destinations, errs.ErrInvalid)
		case w.now[l] == unsent-1:
			return fmt.Errorf("more than %d rows in destination %d: %w", uint32(unsent-1), l, errs.ErrLimit)
		default:
			b.UnsafeAppend(uint16(l))
			w.now[l]++
		}
		w.c.rows++
		if w.c.rows%w.c.blockRows == 0 {
			w.c.grid = append(w.c.grid, w.now...)
		}
	}
	if 4*len(w.c.grid) > countsBytesMax {
		return fmt.Errorf("counts of %d bytes: %w", 4*len(w.c.grid), errs.ErrLimit)
	}
	a := b.NewArray()
	defer a.Release()
	rec := array.NewRecordBatch(w.sc, []arrow.Array{a}, int64(a.Len()))
	defer rec.Release()
	return w.w.Write(rec)
}

// Finish makes the row map durable. It returns what names it in a Rewrite and how many rows went to each destination.
func (w *RowMapWriter) Finish(ctx context.Context) (*table.ReusePartition, []uint32, error) {
	if w.c.rows%w.c.blockRows != 0 {
		w.c.grid = append(w.c.grid, w.now...)
	}
	n, err := w.w.AddBuffer(w.c.encode())
	if err != nil {
		w.Abort()
		return nil, nil, fmt.Errorf("write row map %s: %w", w.id, err)
	}
	w.w.SetMetadata(countsKey, strconv.FormatUint(uint64(n), 10))
	info, err := w.w.Finish(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("write row map %s: %w", w.id, err)
	}
	return &table.ReusePartition{MapID: w.id, Size: info.Size}, w.now, nil
}

// Abort gives the row map up. It is a no-op after Finish.
func (w *RowMapWriter) Abort() { w.w.Abort() }
