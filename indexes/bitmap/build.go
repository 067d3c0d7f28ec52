package bitmap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/rowaddr"
)

const (
	memoryMaxDefault = 256 << 20
	// entryBytes is about what a key costs beside its bytes and addresses.
	entryBytes = 160
	// pendingMax is how many offsets a key collects before they go into its bitmap.
	pendingMax = 256
)

// Options configures a Builder. The zero value is the default.
type Options struct {
	MemoryMax int64 // bytes held before a run is spilled; 0: 256 MiB
	// Scratch is the store that the index's directory lies in; nil: nothing is spilled, more is errs.ErrLimit.
	Scratch objstore.Store
	Memory  memory.Allocator // nil: the Go allocator
}

// Builder makes one segment. Exactly one of Finish and Abort ends it. It is not safe for concurrent use.
type Builder struct {
	typ     arrow.DataType
	dir     store.Dir
	options Options
	keys    map[string]*entry
	nulls   *entry
	used    int64
	runs    []string
	scratch []byte
}

// entry is the rows of one key.
type entry struct {
	set      *rowaddr.Treemap
	fragment uint32
	pending  []uint32 // of fragment, not in set yet
}

// Written is what the index entry must say about a segment; its details are empty.
type Written struct {
	File    store.Info
	Version int32
	Keys    uint64 // distinct values, NULL included
}

// NewBuilder starts a segment over a column of type t in dir. errs.ErrUnsupported for types without cells.
func NewBuilder(dir store.Dir, t arrow.DataType, o Options) (*Builder, error) {
	if !Supported(t) {
		return nil, fmt.Errorf("bitmap index of type %s: %w", t, errs.ErrUnsupported)
	}
	if o.MemoryMax <= 0 {
		o.MemoryMax = memoryMaxDefault
	}
	if o.Memory == nil {
		o.Memory = memory.DefaultAllocator
	}
	return &Builder{typ: t, dir: dir, options: o, keys: make(map[string]*entry)}, nil
}

// Append adds cells of a, whose rows are at addrs, in any order; ascending ones are fastest. a is borrowed.
// errs.ErrInvalid if it is of another type. An error spoils the builder.
func (b *Builder) Append(ctx context.Context, a arrow.Array, addrs []rowaddr.Addr) error {
	if !arrow.TypeEqual(a.DataType(), b.typ) || len(addrs) != a.Len() {
		return fmt.Errorf("%d cells of %s at %d addresses for a bitmap index of %s: %w", a.Len(), a.DataType(), len(addrs), b.typ, errs.ErrInvalid)
	}
	key, err := appender(a)
	if err != nil {
		return err
	}
	var last *entry // rows of one value often follow each other
	lastKey := []byte(nil)
	for i, addr := range addrs {
		if a.IsNull(i) {
			if b.nulls == nil {
				b.nulls = b.newEntry(0)
			}
			b.add(b.nulls, addr)
			continue
		}
		b.scratch = key(b.scratch[:0], i)
		if last == nil || string(b.scratch) != string(lastKey) {
			if last = b.keys[string(b.scratch)]; last == nil {
				last = b.newEntry(len(b.scratch))
				b.keys[string(b.scratch)] = last
			}
			lastKey = append(lastKey[:0], b.scratch...)
		}
		b.add(last, addr)
		if b.used > b.options.MemoryMax {
			if err := b.spill(ctx); err != nil {
				return fmt.Errorf("build bitmap index: %w", err)
			}
			last = nil
		}
	}
	return nil
}

func (b *Builder) newEntry(keyBytes int) *entry {
	b.used += entryBytes + int64(keyBytes)
	return &entry{set: rowaddr.NewTreemap()}
}

// add adds an address; memory is counted at four bytes for each, which bitmaps seldom exceed.
func (b *Builder) add(e *entry, a rowaddr.Addr) {
	if a.Fragment() != e.fragment || len(e.pending) == pendingMax {
		e.flush()
		e.fragment = a.Fragment()
	}
	e.pending = append(e.pending, a.Offset())
	b.used += 4
}

// flush moves what is pending into the set.
func (e *entry) flush() {
	if len(e.pending) > 0 {
		bm := roaring.New()
		bm.AddMany(e.pending)
		e.set.AddOffsets(e.fragment, bm)
		e.pending = e.pending[:0]
	}
}

// AddSegment adds the rows of another segment of the same type. translate gives the addresses their rows have now; it
// may change and return its argument; nil: they stay. Rows of fragments the new segment does not cover must be gone then.
func (b *Builder) AddSegment(ctx context.Context, s *Segment, translate func(*rowaddr.Treemap) (*rowaddr.Treemap, error)) error {
	if !arrow.TypeEqual(s.typ, b.typ) {
		return fmt.Errorf("a segment of %s for a bitmap index of %s: %w", s.typ, b.typ, errs.ErrInvalid)
	}
	return s.each(ctx, func(key []byte, isNull bool, set *rowaddr.Treemap) error {
		if translate != nil {
			var err error
			if set, err = translate(set); err != nil {
				return err
			}
		}
		if set.IsEmpty() {
			return nil
		}
		e := b.nulls
		if !isNull {
			e = b.keys[string(key)]
		}
		if e == nil {
			e = b.newEntry(len(key))
			if isNull {
				b.nulls = e
			} else {
				b.keys[string(key)] = e
			}
		}
		e.set.Or(set)
		b.used += sizeOf(set)
		if b.used > b.options.MemoryMax {
			return b.spill(ctx)
		}
		return nil
	})
}

func sizeOf(set *rowaddr.Treemap) int64 {
	var n int64
	for _, f := range set.Fragments() {
		n += 64
		if offsets, whole := set.Offsets(f); !whole {
			n += int64(offsets.GetSizeInBytes())
		}
	}
	return n
}

// row is a row of an index file.
type row struct {
	key    string
	isNull bool
	set    *rowaddr.Treemap
}

func compareRows(a, b row) int {
	switch {
	case a.isNull && b.isNull:
		return 0
	case a.isNull:
		return -1
	case b.isNull:
		return 1
	}
	return strings.Compare(a.key, b.key)
}

// drain returns what is in memory, ascending, and forgets it.
func (b *Builder) drain() []row {
	var rows []row
	if b.nulls != nil {
		b.nulls.flush()
		rows = append(rows, row{isNull: true, set: b.nulls.set})
	}
	for k, e := range b.keys {
		e.flush()
		rows = append(rows, row{key: k, set: e.set})
	}
	slices.SortFunc(rows, compareRows)
	b.keys, b.nulls, b.used = make(map[string]*entry), nil, 0
	return rows
}

// spill writes what is in memory as a run.
func (b *Builder) spill(ctx context.Context) error {
	if b.options.Scratch == nil {
		return fmt.Errorf("%d distinct values take more than %d bytes: %w", len(b.keys), b.options.MemoryMax, errs.ErrLimit)
	}
	name := fmt.Sprintf("run-%d.lance", len(b.runs))
	w, err := b.create(ctx, name)
	if err != nil {
		return err
	}
	defer w.abort()
	for _, r := range b.drain() {
		if err := w.write(r); err != nil {
			return err
		}
	}
	if _, err := w.finish(ctx); err != nil {
		return err
	}
	b.runs = append(b.runs, name)
	return nil
}

// Finish writes the segment.
// Spec: indexes, "BITMAP".
func (b *Builder) Finish(ctx context.Context) (Written, error) {
	w, err := b.create(ctx, FileName)
	if err != nil {
		return Written{}, fmt.Errorf("build bitmap index: %w", err)
	}
	defer w.abort()
	if len(b.runs) == 0 {
		for _, r := range b.drain() {
			if err := w.write(r); err != nil {
				return Written{}, fmt.Errorf("build bitmap index: %w", err)
			}
		}
	} else if err := b.mergeRuns(ctx, w); err != nil {
		return Written{}, fmt.Errorf("build bitmap index: %w", err)
	}
	out, err := w.finish(ctx)
	if err != nil {
		return Written{}, fmt.Errorf("build bitmap index: %w", err)
	}
	if err := b.removeRuns(ctx); err != nil {
		return Written{}, fmt.Errorf("build bitmap index: %w", err)
	}
	return out, nil
}

// Abort removes what was spilled.
func (b *Builder) Abort(ctx context.Context) error {
	b.keys, b.nulls = nil, nil
	return b.removeRuns(ctx)
}

func (b *Builder) removeRuns(ctx context.Context) error {
	var err error
	for _, name := range b.runs {
		err = errors.Join(err, b.options.Scratch.Delete(ctx, b.dir.Object(name)))
	}
	b.runs = nil
	return err
}
