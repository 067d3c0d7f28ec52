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
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// segmentBuilder makes the segment that a merge adds to an index.
type segmentBuilder struct {
	t    *Table
	ci   *columnIndex
	next uint32 // id the commit will give to the first new fragment
	bare func(counts func(rowaddr.Addr) bool, frags *roaring.Bitmap) (btree.Stream, error)
	cur  *btree.Sorter
	runs []segmentRun
}

// segmentRun is the sorted keys of some new fragments, not yet named by anything.
type segmentRun struct {
	sorter *btree.Sorter
	frags  []uint32
}

// segmentBuilders returns a builder for each index of a base version, that of the primary key first.
func (t *Table) segmentBuilders(ctx context.Context, b *base) ([]*segmentBuilder, error) {
	next := uint32(b.ds.NextFragmentID())
	var list []*segmentBuilder
	if !t.keyless() {
		pk := &segmentBuilder{t: t, ci: b.pk, next: next}
		pk.bare = func(counts func(rowaddr.Addr) bool, _ *roaring.Bitmap) (btree.Stream, error) {
			return pk.memoryStream(b, counts), nil
		}
		list = append(list, pk)
	}
	for _, ci := range b.secondary {
		s := &segmentBuilder{t: t, ci: ci, next: next}
		s.bare = func(counts func(rowaddr.Addr) bool, frags *roaring.Bitmap) (btree.Stream, error) {
			return s.columnStream(ctx, b, counts, frags)
		}
		list = append(list, s)
	}
	for _, s := range list {
		if err := s.fresh(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *segmentBuilder) fresh() (err error) {
	s.cur, err = btree.NewSorter(s.ci.typ, 0, s.t.o.Alloc)
	return err
}

// add takes the values of rows first, first+1, … of new fragment number nth.
func (s *segmentBuilder) add(nth int, first uint64, rec arrow.RecordBatch) error {
	ids := make([]uint64, rec.NumRows())
	for i := range ids {
		ids[i] = uint64(rowaddr.New(s.next+uint32(nth), uint32(first)+uint32(i)))
	}
	values, err := btree.PKValues(s.t.o.Alloc, rec, s.ci.columns)
	if err != nil {
		return fmt.Errorf("values of index %s: %w", s.ci.name, err)
	}
	defer values.Release()
	return s.cur.Add(btree.Batch{Values: values, IDs: ids})
}

// endFragment says that new fragment number nth is complete.
func (s *segmentBuilder) endFragment(nth int) error {
	s.runs = append(s.runs, segmentRun{sorter: s.cur, frags: []uint32{s.next + uint32(nth)}})
	return s.fresh()
}

// finish writes one segment over the new fragments, the fragments of b that no segment covers, and the smaller segments
// of b, so that each key is rewritten a logarithmic number of times, and adds it to op. dead is the rows of b that op
// deletes.
func (s *segmentBuilder) finish(ctx context.Context, b *base, dead map[uint32]*roaring.Bitmap, op *table.Update) error {
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
		if !s.ci.covered.Contains(uint32(f.ID)) && !slices.Contains(op.RemovedFragmentIDs, f.ID) {
			bare.Add(uint32(f.ID))
			rows += f.LiveRows()
		}
	}
	if !bare.IsEmpty() {
		cover.Or(bare)
		rest, err := s.bare(func(at rowaddr.Addr) bool { return bare.Contains(at.Fragment()) && stays(at) }, bare)
		if err != nil {
			return err
		}
		streams = append(streams, rest)
	}
	if len(streams) == 0 {
		// Only deletes: the coverage stays.
		if len(s.ci.segs) > 0 {
			op.CaughtUp = append(op.CaughtUp, s.ci.name)
		}
		return nil
	}
	for _, u := range s.joined(rows) {
		frags := u.frags.Clone()
		for _, id := range op.RemovedFragmentIDs {
			frags.Remove(uint32(id))
		}
		cover.Or(frags)
		streams = append(streams, u.x.Stream(func(ids []uint64, keep []bool) error {
			there, err := u.place(ctx, ids)
			if err != nil {
				return err
			}
			for i, id := range ids {
				at := rowaddr.Addr(id)
				keep[i] = there[i] && frags.Contains(at.Fragment()) && stays(at)
			}
			return nil
		}))
		op.ReplacedIndexes = append(op.ReplacedIndexes, u.entry.UUID)
	}
	for _, id := range s.ci.entries {
		if s.ci.segment(id) == nil {
			op.ReplacedIndexes = append(op.ReplacedIndexes, id) // of use to nobody any more
		}
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("name an index segment: %w", err)
	}
	dir := store.NewDir(s.t.o.Store, indexes.SegmentDir(s.t.root, id), s.t.o.Alloc)
	sum, err := btree.Merge(ctx, dir, s.ci.typ, streams, btree.Options{Allocator: s.t.o.Alloc})
	if err != nil {
		return fmt.Errorf("segment of index %s: %w", s.ci.name, err)
	}
	var files []table.IndexFile
	for _, f := range sum.Files {
		files = append(files, table.IndexFile{Path: f.Name, Size: f.Size})
	}
	entry, err := indexes.NewEntry(s.ci.kind, id, s.ci.name, s.ci.fields, cover, nil, files)
	if err != nil {
		return err
	}
	op.NewIndexes = append(op.NewIndexes, entry)
	op.CaughtUp = append(op.CaughtUp, s.ci.name)
	return nil
}

// joined picks the segments of the index that a new one of so many rows replaces.
func (s *segmentBuilder) joined(rows uint64) []segmentUse {
	var own []segmentUse
	for _, u := range s.ci.segs {
		if u.entry.Name == s.ci.name {
			own = append(own, u)
		}
	}
	sort.SliceStable(own, func(i, j int) bool { return own[i].x.Rows() < own[j].x.Rows() })
	n := 0
	for n < len(own) && (own[n].x.Rows() <= 2*rows || len(own)-n >= segmentsMax) {
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

// columnStream sorts the values of the indexed column in fragments that no segment covers.
func (s *segmentBuilder) columnStream(ctx context.Context, b *base, counts func(rowaddr.Addr) bool, frags *roaring.Bitmap) (btree.Stream, error) {
	sorter, err := btree.NewSorter(s.ci.typ, 0, s.t.o.Alloc)
	if err != nil {
		return nil, err
	}
	for _, f := range b.frags {
		if !frags.Contains(uint32(f.ID)) {
			continue
		}
		err := eachBatch(ctx, b.ds, f, s.ci.fields, s.t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
			ids, kept := make([]uint64, 0, rec.NumRows()), make([]int, 0, rec.NumRows())
			for i := range int(rec.NumRows()) {
				if at := rowaddr.New(uint32(f.ID), uint32(first)+uint32(i)); counts(at) {
					ids, kept = append(ids, uint64(at)), append(kept, i)
				}
			}
			values, err := arrowx.TakeArray(s.t.o.Alloc, rec.Column(0), kept)
			if err != nil {
				return err
			}
			defer values.Release()
			return sorter.Add(btree.Batch{Values: values, IDs: ids})
		})
		if err != nil {
			return nil, fmt.Errorf("index fragment %d: %w", f.ID, err)
		}
	}
	return sorter.Stream(), nil
}

// keyValues turns keys into an array of the primary index's values.
func (t *Table) keyValues(keys []rowkey.Key) (arrow.Array, error) {
	if len(t.keyCols) > 1 {
		b := array.NewBinaryBuilder(t.o.Alloc, arrow.BinaryTypes.Binary)
		defer b.Release()
		b.Reserve(len(keys))
		for _, k := range keys {
			b.AppendString(string(k))
		}
		return b.NewArray(), nil
	}
	b := array.NewBuilder(t.o.Alloc, t.physical.Field(t.keyCols[0]).Type)
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
func (t *Table) discardSegments(ctx context.Context, list []table.IndexEntry) {
	var err error
	for _, e := range list {
		err = errors.Join(err, t.o.Store.RemoveAll(context.WithoutCancel(ctx), indexes.SegmentDir(t.root, e.UUID)))
	}
	if err != nil {
		t.o.Log.Warn("remove index segments that no version names", "table", t.root, "error", err)
	}
}
