package btree

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// PKDir is the directory of the sidecar, below that of its generation. Its files are DataFile and LookupFile; its ids are
// physical row offsets, in the order of the rows, and it has all rows: superseded ones and tombstones too.
// Spec: MemWAL, "_pk_index".
const PKDir = "_pk_index"

// pkPageRows is what the reference writes and therefore expects.
const pkPageRows = 8192

// PKType returns the type of the sidecar's values for a primary key of the given column types, in key order: the type of
// the only column, or Binary for tuples. errs.ErrUnsupported for columns that the sidecar cannot hold.
func PKType(columns []arrow.DataType) (arrow.DataType, error) {
	if _, err := rowkey.NewEncoder(columns); err != nil {
		return nil, err
	}
	if len(columns) == 1 {
		return columns[0], nil
	}
	return arrow.BinaryTypes.Binary, nil
}

// PKValues returns the sidecar's values of the rows of rec; cols are its key columns in key order. The caller releases
// the array. mem allocates tuples, nil: the Go allocator.
// Spec: MemWAL, "Composite tuple encoding".
func PKValues(mem memory.Allocator, rec arrow.RecordBatch, cols []int) (arrow.Array, error) {
	types := make([]arrow.DataType, len(cols))
	for i, c := range cols {
		if c < 0 || c >= int(rec.NumCols()) {
			return nil, fmt.Errorf("key column %d of a batch of %d: %w", c, rec.NumCols(), errs.ErrInvalid)
		}
		types[i] = rec.Column(c).DataType()
	}
	e, err := rowkey.NewEncoder(types)
	if err != nil {
		return nil, err
	}
	if len(cols) == 1 {
		a := rec.Column(cols[0])
		a.Retain()
		return a, nil
	}
	keys, err := e.Batch(rec, cols)
	if err != nil {
		return nil, err
	}
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	b := array.NewBinaryBuilder(mem, arrow.BinaryTypes.Binary)
	defer b.Release()
	b.Reserve(len(keys))
	for _, k := range keys {
		b.AppendString(string(k))
	}
	return b.NewArray(), nil
}

// BuildPK writes the sidecar of a generation into dir, whose last segment is PKDir. t is PKType of the key; rows yields
// all rows of the generation by (value, offset), errs.ErrInvalid if it does not. A Sorter that was given the rows in
// their order streams them so.
// Spec: MemWAL, "_pk_index".
func BuildPK(ctx context.Context, dir store.Dir, t arrow.DataType, rows Stream) (Summary, error) {
	return Build(ctx, dir, t, rows, Options{PageRows: pkPageRows, byID: true})
}

// PK is the opened sidecar of a generation. It is safe for concurrent use.
type PK struct{ x *Index }

// OpenPK opens the sidecar in dir. rows is the number of physical rows of the generation: a sidecar of another size is
// errs.ErrCorruption. t is PKType of the key; another type is errs.ErrCorruption too. cache keeps pages, nil: one of its
// own.
func OpenPK(ctx context.Context, dir store.Dir, t arrow.DataType, rows uint64, cache *store.Cache) (*PK, error) {
	x, err := Open(ctx, dir, OpenOptions{Cache: cache})
	if err != nil {
		return nil, err
	}
	if x.rows != rows {
		return nil, errs.Corrupt(x.data.Object(), -1, "%d rows, the generation has %d", x.rows, rows)
	}
	if !arrow.TypeEqual(x.typ, t) {
		return nil, errs.Corrupt(x.data.Object(), -1, "values of type %s, the key has %s", x.typ, t)
	}
	return &PK{x}, nil
}

// Index returns the sidecar as an index, whose ids are offsets: for Stream, Counters and Close.
func (p *PK) Index() *Index { return p.x }

// Close gives the cached pages back.
func (p *PK) Close() error { return p.x.Close() }

// Last appends, for each key that has rows before bound, the greatest offset below bound to hits, by ascending key. A
// bound of the generation's number of rows, or more, finds the newest row of each key.
// Spec: MemWAL, "Point lookup".
func (p *PK) Last(ctx context.Context, keys *Keys, bound uint64, hits []Hit) ([]Hit, error) {
	var bad error
	last := -1 // the key whose hit is at the end of hits
	err := p.x.walk(ctx, keys, func(i int, pg *page, from, to int) bool {
		ids := pg.ids[pg.nulls+from : pg.nulls+to]
		best, found := lastBelow(ids, bound, pg.ascending)
		if found && best >= p.x.rows {
			bad = errs.Corrupt(p.x.data.Object(), -1, "offset %d of %d rows", best, p.x.rows)
			return false
		}
		switch row := keys.row(i); {
		case !found:
		case last == i:
			h := &hits[len(hits)-1]
			h.ID = max(h.ID, best)
		default:
			last = i
			hits = append(hits, Hit{row, best})
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return hits, err
}

// lastBelow returns the greatest of ids, which are those of one key, below bound.
func lastBelow(ids []uint64, bound uint64, ascending bool) (best uint64, found bool) {
	if ascending {
		if n := lowerFixed(ids, 0, bound); n > 0 {
			return ids[n-1], true
		}
		return 0, false
	}
	// Why: other writers need not keep I5.
	for _, id := range ids {
		if id < bound && (!found || id > best) {
			best, found = id, true
		}
	}
	return best, found
}

// Rows appends all offsets of each key to hits, by ascending key, in the order of the sidecar.
func (p *PK) Rows(ctx context.Context, keys *Keys, hits []Hit) ([]Hit, error) {
	return p.x.Lookup(ctx, keys, hits)
}
