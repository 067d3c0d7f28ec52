package bitmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
)

const (
	keysMax        = 1 << 28 // rows of a file
	keyBytesMax    = 1 << 30 // bytes of all keys in memory
	bitmapBytesMax = 1 << 30 // of one key
	readRows       = 8192
)

// Spec says what the index entry knows about a segment.
type Spec struct {
	Version   int32           // index_version: 0 or 1, which differ only in tables with stable row ids
	Fragments *roaring.Bitmap // fragment_bitmap, not nil
	Type      arrow.DataType  // of the indexed column
	Size      uint64          // bytes of the file, 0: not known
	Cache     *store.Cache    // keeps bitmaps that were read; nil: none are
}

// Segment is one opened BITMAP segment. It is safe for concurrent use. It implements indexes.Segment.
type Segment struct {
	typ      arrow.DataType
	coverage *roaring.Bitmap
	r        *store.Reader
	bitmaps  store.Columns
	both     store.Columns
	size     uint64
	cache    *store.Cache
	owner    store.Owner

	keys     arrow.Array // NULL first, then ascending
	rank     []uint32    // file row of key i; nil: i. Other writers may leave keys in another order
	nulls    int         // keys that are NULL: 0 or 1
	from, to int         // keys [from, to) are ordinary; NaNs lie before and behind
}

// Open reads the keys of a segment. errs.ErrUnsupported for versions above 1 and types without cells, errs.ErrNotFound
// without the file, errs.ErrLimit for more keys than memory should hold, errs.ErrCorruption if it is damaged.
// Spec: indexes, "BITMAP".
func Open(ctx context.Context, dir store.Dir, spec Spec) (*Segment, error) {
	if spec.Version < 0 || spec.Version > 1 || !Supported(spec.Type) {
		return nil, fmt.Errorf("bitmap index of version %d over %s: %w", spec.Version, spec.Type, errs.ErrUnsupported)
	}
	if spec.Fragments == nil {
		return nil, fmt.Errorf("bitmap index without its fragments: %w", errs.ErrInvalid)
	}
	r, err := dir.Open(ctx, FileName, spec.Size)
	if err != nil {
		return nil, fmt.Errorf("open bitmap index: %w", err)
	}
	s := &Segment{typ: spec.Type, coverage: spec.Fragments, r: r, size: spec.Size, cache: spec.Cache}
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("open bitmap index: %w", err)
	}
	if s.cache != nil {
		s.owner = s.cache.NewOwner()
	}
	return s, nil
}

func (s *Segment) load(ctx context.Context) error {
	keys, err := s.r.Columns(columnKeys)
	if err != nil {
		return err
	}
	if s.bitmaps, err = s.r.Columns(columnBitmaps); err != nil {
		return err
	}
	if s.both, err = s.r.Columns(columnKeys, columnBitmaps); err != nil {
		return err
	}
	if err := errors.Join(s.r.Require(keys, 0, s.typ), s.r.Require(s.bitmaps, 0, arrow.BinaryTypes.Binary)); err != nil {
		return err
	}
	if s.r.Rows() > keysMax {
		return fmt.Errorf("%s: %d distinct values: %w", s.r.Object(), s.r.Rows(), errs.ErrLimit)
	}
	var parts []arrow.Array
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	var held int64
	if err := s.r.Read(ctx, keys, 0, s.r.Rows(), readRows, func(rec arrow.RecordBatch) error {
		if held += arrowx.Bytes(rec); held > keyBytesMax {
			return fmt.Errorf("%s: keys of more than %d bytes: %w", s.r.Object(), int64(keyBytesMax), errs.ErrLimit)
		}
		rec.Column(0).Retain()
		parts = append(parts, rec.Column(0))
		return nil
	}); err != nil {
		return err
	}
	if len(parts) == 0 {
		s.keys = arrowx.Nulls(memory.DefaultAllocator, s.typ, 0)
		return nil
	}
	if s.keys, err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
		return err
	}
	return s.order()
}

// order finds the order of the keys and where NULL and NaN lie.
func (s *Segment) order() error {
	key, err := appender(s.keys)
	if err != nil {
		return err
	}
	n := s.keys.Len()
	compare := func(i, j int, a, b []byte) int {
		x, y := s.keys.IsNull(i), s.keys.IsNull(j)
		if x || y {
			return int(truth(y)) - int(truth(x))
		}
		return slices.Compare(key(a[:0], i), key(b[:0], j))
	}
	a, b := make([]byte, 0, 64), make([]byte, 0, 64)
	for i := 1; i < n && s.rank == nil; i++ {
		if compare(i-1, i, a, b) > 0 {
			s.rank = make([]uint32, n)
		}
	}
	if s.rank != nil {
		index := make([]int, n)
		for i := range index {
			index[i] = i
		}
		slices.SortStableFunc(index, func(i, j int) int { return compare(i, j, a, b) })
		for i, at := range index {
			s.rank[i] = uint32(at)
		}
		sorted, err := arrowx.TakeArray(memory.DefaultAllocator, s.keys, index)
		if err != nil {
			return err
		}
		s.keys.Release()
		s.keys = sorted
	}
	for s.nulls < n && s.keys.IsNull(s.nulls) {
		s.nulls++
	}
	if s.nulls > 1 || s.keys.NullN() != s.nulls {
		return errs.Corrupt(s.r.Object(), -1, "NULL is a key %d times", s.keys.NullN())
	}
	for s.from = s.nulls; s.from < n && isNaN(s.keys, s.from); s.from++ {
	}
	for s.to = n; s.to > s.from && isNaN(s.keys, s.to-1); s.to-- {
	}
	return nil
}

func truth(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

func isNaN(a arrow.Array, i int) bool {
	switch a := a.(type) {
	case *array.Float32:
		return a.Value(i) != a.Value(i)
	case *array.Float64:
		return a.Value(i) != a.Value(i)
	}
	return false
}

// Coverage implements indexes.Segment.
func (s *Segment) Coverage() *roaring.Bitmap { return s.coverage }

// Close implements indexes.Segment.
func (s *Segment) Close() error {
	if s.cache != nil {
		s.cache.Drop(s.owner)
	}
	return nil
}

// Keys returns the number of distinct values, NULL included. NaNs of different bits and the two zeros count apart.
func (s *Segment) Keys() int { return s.keys.Len() }

// Bytes estimates the memory the keys take.
func (s *Segment) Bytes() int64 {
	var n int64
	for _, b := range s.keys.Data().Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	return n + 4*int64(len(s.rank))
}

// Search implements indexes.Segment; every answer is exact.
func (s *Segment) Search(ctx context.Context, q indexes.Query) (indexes.Result, error) {
	r, err := indexes.RangesOf(q)
	if err != nil {
		return indexes.Result{}, err
	}
	return s.SearchRanges(ctx, r)
}

// SearchRanges is Search for any set of cells, NULL among them or not: what predicate.Bounds makes of a filter.
// errs.ErrInvalid if the bounds are not of the column's Go type.
func (s *Segment) SearchRanges(ctx context.Context, r predicate.Ranges) (indexes.Result, error) {
	runs, err := s.find(r)
	if err != nil {
		return indexes.Result{}, err
	}
	u := union{}
	for _, run := range runs {
		if err := s.read(ctx, run[0], run[1], &u); err != nil {
			return indexes.Result{}, fmt.Errorf("search bitmap index: %w", err)
		}
	}
	addrs := u.join()
	addrs.Retain(s.coverage)
	return indexes.Result{Addrs: addrs, Exact: true, Fragments: s.coverage}, nil
}

// find returns the runs [from, to) of keys in r, ascending and apart.
func (s *Segment) find(r predicate.Ranges) ([][2]int, error) {
	var runs [][2]int
	add := func(from, to int) {
		if last := len(runs) - 1; last >= 0 && runs[last][1] >= from {
			runs[last][1] = max(runs[last][1], to)
		} else if from < to {
			runs = append(runs, [2]int{from, to})
		}
	}
	if r.Null {
		add(0, s.nulls)
	}
	nans := holdsNaN(r, s.typ)
	if nans {
		add(s.nulls, s.from)
	}
	for _, iv := range r.Intervals {
		from, to := s.from, s.to
		var err error
		if iv.Low != nil {
			if from, err = s.seek(iv.Low, iv.LowOpen); err != nil {
				return nil, err
			}
		}
		if iv.High != nil {
			if to, err = s.seek(iv.High, !iv.HighOpen); err != nil {
				return nil, err
			}
		}
		if from < to {
			add(from, to)
		}
	}
	if nans {
		add(s.to, s.keys.Len())
	}
	return runs, nil
}

// holdsNaN reports whether NaN of a float column is in r.
func holdsNaN(r predicate.Ranges, t arrow.DataType) bool {
	switch t.ID() {
	case arrow.FLOAT32:
		return r.Contains(float32(math.NaN()))
	case arrow.FLOAT64:
		return r.Contains(math.NaN())
	}
	return false
}

// seek returns the first ordinary key that is v or above it, with above: that is above v.
func (s *Segment) seek(v any, above bool) (int, error) {
	bad := false
	i := sort.Search(s.to-s.from, func(i int) bool {
		c, ok := predicate.CompareCells(arrowx.Value(s.keys, s.from+i), v)
		bad = bad || !ok
		return c > 0 || c == 0 && !above
	})
	if bad || s.to == s.from && !s.fits(v) {
		return 0, fmt.Errorf("a %T looked for in a bitmap index of %s: %w", v, s.typ, errs.ErrInvalid)
	}
	return s.from + i, nil
}

// fits reports whether v is a cell of the column.
func (s *Segment) fits(v any) bool {
	b := array.NewBuilder(memory.DefaultAllocator, s.typ)
	defer b.Release()
	return arrowx.Append(b, v) == nil
}

// read joins the bitmaps of keys [from, to).
func (s *Segment) read(ctx context.Context, from, to int, u *union) error {
	for i := from; i < to; {
		if set, ok := s.cached(i); ok {
			u.add(set)
			i++
			continue
		}
		// Neighbours that are not cached are read together.
		n := 1
		for s.rank == nil && i+n < to && n < readRows {
			if _, ok := s.cached(i + n); ok {
				break
			}
			n++
		}
		if err := s.readFile(ctx, i, n, u); err != nil {
			return err
		}
		i += n
	}
	return nil
}

func (s *Segment) fileRow(i int) uint64 {
	if s.rank != nil {
		return uint64(s.rank[i])
	}
	return uint64(i)
}

func (s *Segment) cached(i int) (*rowaddr.Treemap, bool) {
	if s.cache == nil {
		return nil, false
	}
	v, ok := s.cache.Get(s.owner, s.fileRow(i))
	if !ok {
		return nil, false
	}
	return v.(*rowaddr.Treemap), true
}

// readFile joins the bitmaps of keys [i, i+n), which follow each other in the file.
func (s *Segment) readFile(ctx context.Context, i, n int, u *union) error {
	at := s.fileRow(i)
	return s.r.Read(ctx, s.bitmaps, at, at+uint64(n), 256, func(rec arrow.RecordBatch) error {
		for k := range int(rec.NumRows()) {
			column := rec.Column(0).(*array.Binary)
			set, err := decodeSet(s.r.Object(), column, k)
			if err != nil {
				return err
			}
			if s.cache != nil {
				s.cache.Put(s.owner, at, set, int64(column.ValueLen(k))+128)
			}
			u.add(set)
			at++
		}
		return nil
	})
}

// decodeSet reads row i of a bitmaps column.
func decodeSet(object string, a *array.Binary, i int) (*rowaddr.Treemap, error) {
	if a.IsNull(i) {
		return nil, errs.Corrupt(object, -1, "a key without its bitmap")
	}
	return rowaddr.DecodeTreemap(object, a.Value(i))
}

// each calls visit for every row of the file, in the file's order; visit owns set.
func (s *Segment) each(ctx context.Context, visit func(key []byte, isNull bool, set *rowaddr.Treemap) error) error {
	c, err := newCursor(ctx, s.r, s.both, s.size)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		err := c.step()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit([]byte(c.next.key), c.next.isNull, c.next.set); err != nil {
			return err
		}
	}
}

var _ indexes.Segment = (*Segment)(nil)
