package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// PrimaryIndex is the name of the BTREE index over a primary key of one column, which every merge extends.
const PrimaryIndex = "PRIMARY"

// primarySegments is how many segments the primary index has at most.
const primarySegments = 8

// pkSegment is one opened segment of an index over the primary key. refs counts the base versions that use it and is
// guarded by Table.mu.
type pkSegment struct {
	entry table.IndexEntry
	x     *btree.Index
	refs  int
}

// pkUse is a segment with the fragments of one base version that it answers for.
type pkUse struct {
	*pkSegment
	frags *roaring.Bitmap
}

// primaryField returns the field id of a primary key that a BTREE can index; ok is false for others, whose base
// keys are all kept in memory.
func (b *base) primaryField(t *Table) (id int32, ok bool) {
	if len(t.keyCols) != 1 || !btree.Supported(t.physical.Field(t.keyCols[0]).Type) {
		return 0, false
	}
	return b.fieldIDs[t.keyCols[0]], true
}

// openSegments opens the segments of the primary key that a base version names, those of prev without reading them
// again. A fragment belongs to the first segment that covers it; what none covers is left to the keys in memory.
func (t *Table) openSegments(ctx context.Context, b, prev *base) error {
	b.indexed = roaring.New()
	field, ok := b.primaryField(t)
	if !ok {
		return nil
	}
	entries, err := b.ds.Indexes()
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(x, y table.IndexEntry) int { return boolOrder(y.Name == PrimaryIndex, x.Name == PrimaryIndex) })
	live := roaring.New()
	for _, f := range b.frags {
		live.Add(uint32(f.ID))
	}
	for _, e := range entries {
		if e.Name == PrimaryIndex {
			b.primary = append(b.primary, e.UUID)
		}
		info, known := indexes.KindOf(e.DetailsType)
		if !known || info.Kind != indexes.BTree || !info.Readable(e.Version) || !slices.Equal(e.Fields, []int32{field}) || e.BaseID != nil || e.Fragments == nil {
			continue
		}
		mine := roaring.AndNot(roaring.And(e.Fragments, live), b.indexed)
		if mine.IsEmpty() {
			continue
		}
		seg := prev.segment(e.UUID)
		if seg == nil {
			x, err := btree.Open(ctx, store.NewDir(t.o.Store, indexes.SegmentDir(t.root, e.UUID), t.o.Alloc), btree.OpenOptions{Cache: t.o.Pages})
			if err != nil {
				// Why not fatal: the fragments' keys are read instead, so answers stay right.
				t.o.Log.Warn("index segment over the primary key cannot be used", "table", t.root, "segment", e.UUID.String(), "error", err)
				continue
			}
			seg = &pkSegment{entry: e, x: x}
		}
		b.indexed.Or(mine)
		b.segs = append(b.segs, pkUse{pkSegment: seg, frags: mine})
	}
	return nil
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (b *base) segment(id uuid.UUID) *pkSegment {
	if b == nil {
		return nil
	}
	for _, u := range b.segs {
		if u.entry.UUID == id {
			return u.pkSegment
		}
	}
	return nil
}

// rowsOf appends to out[i] the live base rows of keys[i]: one, or more if an outsider brought the key again.
func (b *base) rowsOf(ctx context.Context, keys []rowkey.Key) ([][]rowaddr.Addr, error) {
	out := make([][]rowaddr.Addr, len(keys))
	if b.bare {
		for i, k := range keys {
			hits, err := b.keys.Rows(k)
			if err != nil {
				return nil, err
			}
			for _, h := range hits {
				if at := rowaddr.Addr(h.Row); b.alive(at) && !b.indexed.Contains(at.Fragment()) {
					out[i] = append(out[i], at)
				}
			}
		}
	}
	if len(b.segs) == 0 {
		return out, nil
	}
	sorted, err := btree.KeysOfTuples(b.segs[0].x.Type(), false, keys)
	if err != nil {
		return nil, err
	}
	var hits []btree.Hit
	for _, u := range b.segs {
		if hits, err = u.x.Lookup(ctx, sorted, hits[:0]); err != nil {
			return nil, fmt.Errorf("look up primary keys: %w", err)
		}
		for _, h := range hits {
			if at := rowaddr.Addr(h.ID); u.frags.Contains(at.Fragment()) && b.alive(at) {
				out[h.Row] = append(out[h.Row], at)
			}
		}
	}
	return out, nil
}

// newestOf picks the row of a key among its live base rows: one that no commit has replaced, if there is one.
func (b *base) newestOf(rows []rowaddr.Addr) rowaddr.Addr {
	for _, at := range rows {
		if !b.deaths.Known(at) {
			return at
		}
	}
	return rows[0]
}

// ranges returns the base's key sources for a scan by key range, each in key order.
func (b *base) ranges(ctx context.Context) []keyRanger {
	var out []keyRanger
	if b.bare {
		out = append(out, b.keys)
	}
	for _, u := range b.segs {
		out = append(out, segmentRange{ctx: ctx, u: u})
	}
	return out
}

// answersFor reports whether a row found in a source of ranges counts: each fragment has one source.
func (b *base) answersFor(r keyRanger, at rowaddr.Addr) bool {
	if u, ok := r.(segmentRange); ok {
		return u.u.frags.Contains(at.Fragment())
	}
	return !b.indexed.Contains(at.Fragment())
}

// segmentRange is a segment as a source of ordered keys.
type segmentRange struct {
	ctx context.Context //nolint:containedctx // of one step of a scan
	u   pkUse
}

// Range implements keyRanger.
func (r segmentRange) Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	return r.u.x.Tuples(r.ctx, false, lo, hi, func(k rowkey.Key, id uint64) (bool, error) { return visit(k, id, false) })
}

// segmentBuilder makes the segment that a merge adds to the primary index.
type segmentBuilder struct {
	t     *Table
	field int32
	next  uint32 // id the commit will give to the first new fragment
	cur   *btree.Sorter
	runs  []segmentRun
}

// segmentRun is the sorted keys of some new fragments, not yet named by anything.
type segmentRun struct {
	sorter *btree.Sorter
	frags  []uint32
}

// newSegmentBuilder returns nil for a table whose key cannot be indexed.
func (t *Table) newSegmentBuilder(b *base) (*segmentBuilder, error) {
	field, ok := b.primaryField(t)
	if !ok {
		return nil, nil
	}
	s := &segmentBuilder{t: t, field: field, next: uint32(b.ds.NextFragmentID())}
	return s, s.fresh()
}

func (s *segmentBuilder) fresh() (err error) {
	s.cur, err = btree.NewSorter(s.keyType(), 0, s.t.o.Alloc)
	return err
}

func (s *segmentBuilder) keyType() arrow.DataType { return s.t.physical.Field(s.t.keyCols[0]).Type }

// add takes the keys of rows first, first+1, … of new fragment number nth. A nil builder takes nothing.
func (s *segmentBuilder) add(nth int, first uint64, rec arrow.RecordBatch) error {
	if s == nil {
		return nil
	}
	ids := make([]uint64, rec.NumRows())
	for i := range ids {
		ids[i] = uint64(rowaddr.New(s.next+uint32(nth), uint32(first)+uint32(i)))
	}
	return s.cur.Add(btree.Batch{Values: rec.Column(s.t.keyCols[0]), IDs: ids})
}

// endFragment says that new fragment number nth is complete.
func (s *segmentBuilder) endFragment(nth int) error {
	if s == nil {
		return nil
	}
	s.runs = append(s.runs, segmentRun{sorter: s.cur, frags: []uint32{s.next + uint32(nth)}})
	return s.fresh()
}

// finish writes one segment over the new fragments, the fragments of b that no segment covers, and the smaller segments
// of b, so that each key is rewritten a logarithmic number of times, and adds it to op. dead is the rows of b that op
// deletes.
func (s *segmentBuilder) finish(ctx context.Context, b *base, dead map[uint32]*roaring.Bitmap, op *table.Update) error {
	if s == nil {
		return nil
	}
	cover := roaring.New()
	var streams []btree.Stream
	rows := uint64(0)
	for _, r := range s.runs {
		cover.AddMany(r.frags)
		rows += uint64(r.sorter.Rows())
		streams = append(streams, r.sorter.Stream())
	}
	stays := func(at rowaddr.Addr) bool {
		d := dead[at.Fragment()]
		return b.alive(at) && (d == nil || !d.Contains(at.Offset()))
	}
	bare := roaring.New()
	for _, f := range b.frags {
		if !b.indexed.Contains(uint32(f.ID)) && !slices.Contains(op.RemovedFragmentIDs, f.ID) {
			bare.Add(uint32(f.ID))
			rows += f.LiveRows()
		}
	}
	if !bare.IsEmpty() {
		cover.Or(bare)
		streams = append(streams, s.memoryStream(b, func(at rowaddr.Addr) bool { return bare.Contains(at.Fragment()) && stays(at) }))
	}
	if len(streams) == 0 {
		// Only deletes: the coverage stays.
		if len(b.segs) > 0 {
			op.CaughtUp = append(op.CaughtUp, PrimaryIndex)
		}
		return nil
	}
	for _, u := range s.joined(b, rows) {
		frags := u.frags.Clone()
		for _, id := range op.RemovedFragmentIDs {
			frags.Remove(uint32(id))
		}
		cover.Or(frags)
		streams = append(streams, u.x.Stream(func(ids []uint64, keep []bool) error {
			for i, id := range ids {
				at := rowaddr.Addr(id)
				keep[i] = frags.Contains(at.Fragment()) && stays(at)
			}
			return nil
		}))
		op.ReplacedIndexes = append(op.ReplacedIndexes, u.entry.UUID)
	}
	for _, id := range b.primary {
		if b.segment(id) == nil {
			op.ReplacedIndexes = append(op.ReplacedIndexes, id) // of use to nobody any more
		}
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("name an index segment: %w", err)
	}
	dir := store.NewDir(s.t.o.Store, indexes.SegmentDir(s.t.root, id), s.t.o.Alloc)
	sum, err := btree.Merge(ctx, dir, s.keyType(), streams, btree.Options{Allocator: s.t.o.Alloc})
	if err != nil {
		return fmt.Errorf("primary index segment: %w", err)
	}
	var files []table.IndexFile
	for _, f := range sum.Files {
		files = append(files, table.IndexFile{Path: f.Name, Size: f.Size})
	}
	entry, err := indexes.NewEntry(indexes.BTree, id, PrimaryIndex, s.field, cover, nil, files)
	if err != nil {
		return err
	}
	op.NewIndexes = append(op.NewIndexes, entry)
	op.CaughtUp = append(op.CaughtUp, PrimaryIndex)
	return nil
}

// joined picks the segments of the primary index that a new one of so many rows replaces.
func (s *segmentBuilder) joined(b *base, rows uint64) []pkUse {
	var own []pkUse
	for _, u := range b.segs {
		if u.entry.Name == PrimaryIndex {
			own = append(own, u)
		}
	}
	sort.SliceStable(own, func(i, j int) bool { return own[i].x.Rows() < own[j].x.Rows() })
	n := 0
	for n < len(own) && (own[n].x.Rows() <= 2*rows || len(own)-n >= primarySegments) {
		rows += own[n].x.Rows()
		n++
	}
	return own[:n]
}

// memoryStream yields the keys in memory of rows that count, in order.
func (s *segmentBuilder) memoryStream(b *base, counts func(rowaddr.Addr) bool) btree.Stream {
	var lo rowkey.Key
	done := false
	return func(context.Context) (btree.Batch, error) {
		if done {
			return btree.Batch{}, io.EOF
		}
		var keys []rowkey.Key
		var ids []uint64
		done = true
		err := b.keys.Range(lo, "", func(k rowkey.Key, row uint64, _ bool) (bool, error) {
			if len(keys) > 0 && len(keys) >= s.t.o.BatchRows && k != keys[len(keys)-1] {
				lo, done = k, false
				return false, nil
			}
			if counts(rowaddr.Addr(row)) {
				keys, ids = append(keys, k), append(ids, row)
			}
			return true, nil
		})
		if err != nil {
			return btree.Batch{}, err
		}
		values, err := s.t.keyValues(keys)
		return btree.Batch{Values: values, IDs: ids}, err
	}
}

// keyValues turns keys of one column back into an array of its type.
func (t *Table) keyValues(keys []rowkey.Key) (arrow.Array, error) {
	typ := t.physical.Field(t.keyCols[0]).Type
	b := array.NewBuilder(t.o.Alloc, typ)
	defer b.Release()
	b.Reserve(len(keys))
	for _, k := range keys {
		v, err := t.encoder.Cell(k, 0)
		if err != nil {
			return nil, err
		}
		if err := appendCell(b, v); err != nil {
			return nil, err
		}
	}
	return b.NewArray(), nil
}

// appendCell appends a decoded key cell to a builder of its column's type.
func appendCell(b array.Builder, v any) error {
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(v.(int64)))
	case *array.Int16Builder:
		b.Append(int16(v.(int64)))
	case *array.Int32Builder:
		b.Append(int32(v.(int64)))
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.(int64)))
	case *array.Date64Builder:
		b.Append(arrow.Date64(v.(int64)))
	case *array.Uint8Builder:
		b.Append(uint8(v.(uint64)))
	case *array.Uint16Builder:
		b.Append(uint16(v.(uint64)))
	case *array.Uint32Builder:
		b.Append(uint32(v.(uint64)))
	case *array.Uint64Builder:
		b.Append(v.(uint64))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.StringBuilder:
		b.BinaryBuilder.Append(v.([]byte))
	case *array.LargeStringBuilder:
		b.BinaryBuilder.Append(v.([]byte))
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	case *array.FixedSizeBinaryBuilder:
		b.Append(v.([]byte))
	default:
		return fmt.Errorf("key column of type %s: %w", b.Type(), errs.ErrUnsupported)
	}
	return nil
}

// discardSegments removes the files of segments that no commit named; what remains is swept with the old versions.
func (t *Table) discardSegments(ctx context.Context, op table.Update) {
	var err error
	for _, e := range op.NewIndexes {
		err = errors.Join(err, t.o.Store.RemoveAll(context.WithoutCancel(ctx), indexes.SegmentDir(t.root, e.UUID)))
	}
	if err != nil {
		t.o.Log.Warn("remove index segments of a merge that failed", "table", t.root, "error", err)
	}
}
