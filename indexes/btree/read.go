package btree

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
)

const (
	// groupRows is how many rows of neighbouring pages are read at once.
	groupRows = 64 << 10
	// tableBytesMax bounds the table of pages in memory.
	tableBytesMax = 1 << 30
)

// OpenOptions of a segment. The zero value is the default.
type OpenOptions struct {
	// Fragments is the coverage that the segment's entry records; Search keeps only addresses in it. nil: not known,
	// every address is kept.
	Fragments *roaring.Bitmap
	// Cache keeps pages, shared with others; nil: one of its own of the default size.
	Cache *store.Cache
	// DataSize and LookupSize are the recorded sizes of the files in bytes, 0 if not recorded.
	DataSize, LookupSize uint64
}

// Index is an opened segment. It implements indexes.Segment. The table of pages is read when it is first needed.
type Index struct {
	dir       store.Dir
	typ       arrow.DataType
	data      *store.Reader
	both, ids store.Columns
	rows      uint64
	lookup    uint64 // size of the table file, 0 if not recorded
	cover     *roaring.Bitmap
	cache     *store.Cache
	owner     store.Owner

	counters counters

	mu    sync.Mutex
	table *pageTable // under mu; nil until loaded, then immutable
}

var _ indexes.Segment = (*Index)(nil)

// Counters say what look-ups of an Index have done since it was opened.
type Counters struct {
	PagesRead   uint64 // decoded from the file
	PagesCached uint64 // found in the cache
	RowsRead    uint64 // rows decoded, ids without their values among them
}

type counters struct{ pagesRead, pagesCached, rowsRead atomic.Uint64 }

// Open opens the segment in dir. It reads the metadata of the data file. errs.ErrNotFound if there is none,
// errs.ErrUnsupported for types without an order, errs.ErrCorruption for files of another shape.
func Open(ctx context.Context, dir store.Dir, o OpenOptions) (*Index, error) {
	x, err := open(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("open BTREE %s: %w", dir.Path(), err)
	}
	return x, nil
}

func open(ctx context.Context, dir store.Dir, o OpenOptions) (*Index, error) {
	x := &Index{dir: dir, lookup: o.LookupSize, cover: o.Fragments, cache: o.Cache}
	var err error
	if x.data, err = dir.Open(ctx, DataFile, o.DataSize); err != nil {
		return nil, err
	}
	if x.both, err = x.data.Columns(columnValues, columnIDs); err != nil {
		return nil, err
	}
	if x.ids, err = x.data.Columns(columnIDs); err != nil {
		return nil, err
	}
	if x.typ, err = x.both.Type(0); err != nil {
		return nil, err
	}
	if _, err := newColumn(x.typ); err != nil {
		return nil, err
	}
	if err := x.data.Require(x.ids, 0, arrow.PrimitiveTypes.Uint64); err != nil {
		return nil, err
	}
	x.rows = x.data.Rows()
	if x.cache == nil {
		x.cache = store.NewCache(0)
	}
	x.owner = x.cache.NewOwner()
	return x, nil
}

// Type returns the type of the values.
func (x *Index) Type() arrow.DataType { return x.typ }

// Rows returns the number of rows of the segment, NULLs included, dead ones too.
func (x *Index) Rows() uint64 { return x.rows }

// Nulls returns how many rows are NULL.
func (x *Index) Nulls(ctx context.Context) (uint64, error) {
	t, err := x.pages(ctx)
	if err != nil {
		return 0, err
	}
	return t.nulls, nil
}

// Coverage implements indexes.Segment; nil if it is not known.
func (x *Index) Coverage() *roaring.Bitmap { return x.cover }

// Counters returns the counters so far.
func (x *Index) Counters() Counters {
	return Counters{x.counters.pagesRead.Load(), x.counters.pagesCached.Load(), x.counters.rowsRead.Load()}
}

// Close implements indexes.Segment.
func (x *Index) Close() error {
	x.cache.Drop(x.owner)
	return nil
}

// pageTable is the table of pages. Pages before nullMins begin with NULL, those before nullMaxs hold nothing else: their
// bounds are not in mins and maxs.
type pageTable struct {
	pageRows           uint64
	count              int
	mins, maxs         column
	nullMins, nullMaxs int
	nulls              uint64 // over all pages; they are the first rows
}

// pages returns the table, reading it on first use.
// Why: reading happens under the mutex; whoever else needs the index needs the table first as well.
func (x *Index) pages(ctx context.Context) (*pageTable, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.table != nil {
		return x.table, nil
	}
	t, err := x.readTable(ctx)
	if err != nil {
		return nil, fmt.Errorf("pages of BTREE %s: %w", x.dir.Path(), err)
	}
	x.table = t
	return t, nil
}

func (x *Index) readTable(ctx context.Context) (*pageTable, error) {
	r, err := x.dir.Open(ctx, LookupFile, x.lookup)
	if err != nil {
		return nil, err
	}
	if text, ok := r.Metadata(keyRangePartitioned); ok && text != "false" {
		return nil, fmt.Errorf("%s: %s is %q: %w", r.Object(), keyRangePartitioned, text, errs.ErrUnsupported)
	}
	t := &pageTable{}
	if t.pageRows, err = r.Number(keyBatchSize, PageRowsDefault, 1, pageRowsMax); err != nil {
		return nil, err
	}
	want := x.rows / t.pageRows
	if x.rows%t.pageRows > 0 {
		want++
	}
	if r.Rows() != want || want >= 1<<32 {
		return nil, errs.Corrupt(r.Object(), -1, "%d pages for %d rows of %d a page", r.Rows(), x.rows, t.pageRows)
	}
	t.count = int(want)
	cols, err := r.Columns(columnMin, columnMax, columnNullCount, columnPageIndex)
	if err != nil {
		return nil, err
	}
	for i, typ := range []arrow.DataType{x.typ, x.typ, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint32} {
		if err := r.Require(cols, i, typ); err != nil {
			return nil, err
		}
	}
	if t.mins, err = newColumn(x.typ); err != nil {
		return nil, err
	}
	t.maxs.wide = t.mins.wide
	page := uint64(0)
	err = r.Read(ctx, cols, 0, r.Rows(), groupRows, func(rec arrow.RecordBatch) error {
		err := t.add(r.Object(), rec, page, x.rows)
		page += uint64(rec.NumRows())
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := t.check(r.Object()); err != nil {
		return nil, err
	}
	t.maxs.index()
	return t, nil
}

// add takes rows of the table. NULL bounds come first, since the values are in order.
func (t *pageTable) add(object string, rec arrow.RecordBatch, first, rows uint64) error {
	var err error
	if t.nullMins, err = addBounds(object, &t.mins, rec.Column(0), t.nullMins); err != nil {
		return err
	}
	if t.nullMaxs, err = addBounds(object, &t.maxs, rec.Column(1), t.nullMaxs); err != nil {
		return err
	}
	nulls, index := rec.Column(2).(*array.Uint32), rec.Column(3).(*array.Uint32)
	if nulls.NullN()+index.NullN() > 0 {
		return errs.Corrupt(object, -1, "NULL in the table of pages")
	}
	for i := range int(rec.NumRows()) {
		page := first + uint64(i)
		if uint64(index.Value(i)) != page {
			return errs.Corrupt(object, -1, "page %d at place %d", index.Value(i), page)
		}
		if uint64(nulls.Value(i)) > min(t.pageRows, rows-page*t.pageRows) {
			return errs.Corrupt(object, -1, "page %d has %d NULLs", page, nulls.Value(i))
		}
		t.nulls += uint64(nulls.Value(i))
	}
	if have := t.mins.bytes() + t.maxs.bytes(); have > tableBytesMax {
		return fmt.Errorf("%s: bounds of %d bytes, at most %d: %w", object, have, tableBytesMax, errs.ErrLimit)
	}
	return nil
}

// addBounds appends one column of bounds to those before, of which nulls are NULL.
func addBounds(object string, c *column, a arrow.Array, nulls int) (int, error) {
	n := a.NullN()
	for i := range n {
		if a.IsValid(i) || c.len() > 0 {
			return 0, errs.Corrupt(object, -1, "a page begins or ends with NULL after one that does not")
		}
	}
	return nulls + n, c.encode(a, n, a.Len())
}

// check is I1 and I2 as far as the table shows: bounds ascend, and NULLs fill the first pages.
func (t *pageTable) check(object string) error {
	if t.nullMaxs > t.nullMins || t.nullMins > t.nullMaxs+1 {
		return errs.Corrupt(object, -1, "%d pages begin with NULL, %d end with it", t.nullMins, t.nullMaxs)
	}
	full := (t.nulls + t.pageRows - 1) / t.pageRows
	if uint64(t.nullMins) != full {
		return errs.Corrupt(object, -1, "%d NULLs, %d pages begin with one", t.nulls, t.nullMins)
	}
	for p := t.nullMaxs; p < t.count; p++ {
		high := t.maxs.key(p - t.nullMaxs)
		if p >= t.nullMins && t.mins.compare(p-t.nullMins, high) > 0 {
			return errs.Corrupt(object, -1, "page %d: first value above the last", p)
		}
		if p+1 < t.count && t.mins.compare(p+1-t.nullMins, high) < 0 {
			return errs.Corrupt(object, -1, "page %d: first value below the last of page %d", p+1, p)
		}
	}
	return nil
}

// firstFrom returns the first page from page p on that ends at or above k (or above it, if after).
func (t *pageTable) firstFrom(p int, k key, after bool) int {
	at := max(0, p-t.nullMaxs)
	if after {
		return t.nullMaxs + t.maxs.upper(at, k)
	}
	return t.nullMaxs + t.maxs.lower(at, k)
}

// beginsAbove reports whether page p begins above k (or at it, if not after): no row of it is below the end of a range.
func (t *pageTable) beginsAbove(p int, k key, after bool) bool {
	if p < t.nullMins {
		return false
	}
	order := t.mins.compare(p-t.nullMins, k)
	return order > 0 || order == 0 && !after
}

// page is a decoded page: nulls NULLs, then values; ids are of all rows. Immutable.
type page struct {
	nulls     int
	values    column
	ids       []uint64
	ascending bool // rows of equal value have ascending ids
}

func (p *page) bytes() int64 { return p.values.bytes() + int64(8*cap(p.ids)) + 128 }

// span returns the rows of page p.
func (x *Index) span(t *pageTable, p int) (from, to uint64) {
	from = uint64(p) * t.pageRows
	return from, min(x.rows, from+t.pageRows)
}

// load returns pages [from, to), from the cache or by as few reads as there are gaps in it.
func (x *Index) load(ctx context.Context, t *pageTable, from, to int) ([]*page, error) {
	out := make([]*page, to-from)
	for p := from; p < to; {
		if v, ok := x.cache.Get(x.owner, uint64(p)); ok {
			x.counters.pagesCached.Add(1)
			out[p-from] = v.(*page)
			p++
			continue
		}
		end := p + 1
		for end < to {
			if _, ok := x.cache.Get(x.owner, uint64(end)); ok {
				break
			}
			end++
		}
		if err := x.read(ctx, t, p, end, out[p-from:end-from]); err != nil {
			return nil, err
		}
		p = end
	}
	return out, nil
}

// read decodes pages [from, to) from the file and caches them.
func (x *Index) read(ctx context.Context, t *pageTable, from, to int, out []*page) error {
	first, _ := x.span(t, from)
	_, last := x.span(t, to-1)
	at := first
	var current *page
	err := x.data.Read(ctx, x.both, first, last, int(t.pageRows), func(rec arrow.RecordBatch) error {
		// Batches end where pages do, unless a page has a gigabyte of values.
		for done, n := int64(0), rec.NumRows(); done < n; {
			in := (at - first) % t.pageRows
			if in == 0 {
				if err := x.finishPage(current); err != nil {
					return err
				}
				current = &page{values: column{wide: t.mins.wide}}
				out[(at-first)/t.pageRows] = current
			}
			upTo := min(n, done+int64(t.pageRows-in))
			if err := current.add(x.data.Object(), rec, int(done), int(upTo)); err != nil {
				return err
			}
			at += uint64(upTo - done)
			done = upTo
		}
		return nil
	})
	if err == nil && at != last {
		err = errs.Corrupt(x.data.Object(), -1, "%d rows of %d", at-first, last-first)
	}
	if err == nil {
		err = x.finishPage(current)
	}
	if err != nil {
		return err
	}
	for i, p := range out {
		if err := t.verify(x.data.Object(), from+i, p); err != nil {
			return err
		}
		x.cache.Put(x.owner, uint64(from+i), p, p.bytes())
	}
	x.counters.pagesRead.Add(uint64(len(out)))
	x.counters.rowsRead.Add(last - first)
	return nil
}

// add appends rows [from, to) of a batch of the file to a page.
func (p *page) add(object string, rec arrow.RecordBatch, from, to int) error {
	a, ids := rec.Column(0), rec.Column(1).(*array.Uint64)
	if ids.NullN() > 0 {
		return errs.Corrupt(object, -1, "row without an id")
	}
	values := from
	for a.NullN() > 0 && values < to && a.IsNull(values) {
		values++
	}
	for i := values; i < to && a.NullN() > 0; i++ {
		if a.IsNull(i) {
			return errs.Corrupt(object, -1, "NULL after a value")
		}
	}
	if values > from && p.values.len() > 0 {
		return errs.Corrupt(object, -1, "NULL after a value")
	}
	if p.ids == nil {
		p.ids = make([]uint64, 0, to-from)
		if p.values.wide {
			p.values.ends = make([]uint32, 0, to-values)
		} else {
			p.values.fixed = make([]uint64, 0, to-values)
		}
	}
	p.nulls += values - from
	p.ids = append(p.ids, ids.Uint64Values()[from:to]...)
	if values == to {
		return nil
	}
	return p.values.encode(a, values, to)
}

// finishPage checks the order inside a page (I1).
func (x *Index) finishPage(p *page) error {
	if p == nil {
		return nil
	}
	p.ascending = true
	p.values.index()
	for i := 1; i < p.values.len(); i++ {
		switch order := p.values.compare(i, p.values.key(i-1)); {
		case order < 0:
			return errs.Corrupt(x.data.Object(), -1, "value below its predecessor, %d rows into a page", p.nulls+i)
		case order == 0 && p.ids[p.nulls+i] <= p.ids[p.nulls+i-1]:
			p.ascending = false
		}
	}
	return nil
}

// verify compares a page with its row of the table (I2).
func (t *pageTable) verify(object string, number int, p *page) error {
	n := p.values.len()
	ok := (number < t.nullMins) == (p.nulls > 0) && (number < t.nullMaxs) == (n == 0)
	if ok && number >= t.nullMins {
		ok = p.values.compareKeys(t.mins.key(number-t.nullMins), p.values.key(0)) == 0
	}
	if ok && n > 0 {
		ok = p.values.compareKeys(t.maxs.key(number-t.nullMaxs), p.values.key(n-1)) == 0
	}
	if !ok {
		return errs.Corrupt(object, -1, "page %d does not have the bounds that the table of pages says", number)
	}
	return nil
}
