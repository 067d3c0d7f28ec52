package lsm

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// PrimaryIndex is the name of the index over the primary key, which every merge extends: a BTREE over the only column of the
// key, or an index of kind KEY over the tuples of several.
const PrimaryIndex = "PRIMARY"

// segmentsMax is how many segments an index has at most.
const segmentsMax = 8

// IndexDef is a secondary index: the BTREE over one column, which may hold the tuples of several.
type IndexDef struct {
	Name   string
	Column int // physical position
}

// columnIndex is an index of one base version. Immutable.
type columnIndex struct {
	name    string
	kind    indexes.Kind   // BTree, or Key: over the tuples of several columns
	columns []int          // physical positions
	fields  []int32        // their ids
	typ     arrow.DataType // of the values
	segs    []segmentUse
	covered *roaring.Bitmap // fragments that segs answer for
	entries []uuid.UUID     // every segment of that name, used or not
}

// indexSegment is one opened segment. refs counts the base versions that use it and is guarded by Table.mu.
type indexSegment struct {
	entry  table.IndexEntry
	x      *btree.Index
	tuples bool // its values are tuples of several columns
	refs   int
}

// segmentUse is a segment with the fragments of one base version that it answers for. moved leads its rows through the
// rewrites since it was made; nil if there were none.
type segmentUse struct {
	*indexSegment
	frags *roaring.Bitmap
	moved *fragreuse.Translation
}

// place turns the ids of a segment's rows into addresses of the base version, in place, and says which of them count: those
// that are still there, in fragments that the segment answers for. Whether they are alive is another question.
func (u segmentUse) place(ctx context.Context, ids []uint64) (keep []bool, err error) {
	keep = make([]bool, len(ids))
	for i := range keep {
		keep[i] = true
	}
	if u.moved != nil {
		if err := u.moved.IDs(ctx)(ids, keep); err != nil {
			return nil, fmt.Errorf("index segment %s: %w", u.entry.UUID, err)
		}
	}
	for i, id := range ids {
		keep[i] = keep[i] && u.frags.Contains(rowaddr.Addr(id).Fragment())
	}
	return keep, nil
}

// newColumnIndex returns an index over columns, without segments yet. ids are those of the physical columns.
func (t *Table) newColumnIndex(name string, columns []int, ids []int32) (*columnIndex, error) {
	ci := &columnIndex{name: name, kind: indexes.BTree, columns: columns, covered: roaring.New()}
	types := make([]arrow.DataType, len(columns))
	for i, c := range columns {
		types[i], ci.fields = t.physical.Field(c).Type, append(ci.fields, ids[c])
	}
	if len(columns) > 1 {
		ci.kind = indexes.Key
	}
	var err error
	ci.typ, err = btree.PKType(types)
	return ci, err
}

// holds reports whether a segment of an entry can answer for the index.
func (ci *columnIndex) holds(e table.IndexEntry) bool {
	info, known := indexes.KindOf(e.DetailsType)
	return known && info.Kind == ci.kind && info.Readable(e.Version) && slices.Equal(e.Fields, ci.fields) && e.BaseID == nil && e.Fragments != nil
}

// openIndex opens the segments of an index that a base version names, those of prev (may be nil) without reading them
// again. Any readable segment of its kind over the columns serves; a fragment belongs to the first one that covers it.
func (t *Table) openIndex(ctx context.Context, b *base, prev *columnIndex, name string, columns []int) (*columnIndex, error) {
	ci, err := t.newColumnIndex(name, columns, b.fieldIDs)
	if err != nil {
		return nil, err
	}
	entries, err := b.ds.Indexes()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(entries, func(x, y table.IndexEntry) int { return boolOrder(y.Name == name, x.Name == name) })
	live := roaring.New()
	for _, f := range b.frags {
		live.Add(uint32(f.ID))
	}
	history, err := fragreuse.Open(ctx, b.ds, fragreuse.Options{})
	if err != nil {
		// Why not fatal: without the history no segment says which rows it has, so all rows are read.
		t.o.Log.Warn("indexes cannot be used", "table", t.root, "error", err)
		return ci, nil
	}
	for _, e := range entries {
		if e.Name == name {
			ci.entries = append(ci.entries, e.UUID)
		}
		if !ci.holds(e) {
			continue
		}
		moved, err := history.Segment(ctx, e.UUID, e.Fragments)
		if err != nil {
			t.o.Log.Warn("index segment cannot be used", "table", t.root, "index", name, "segment", e.UUID.String(), "error", err)
			continue
		}
		mine := roaring.AndNot(roaring.And(moved.Coverage(), live), ci.covered)
		if moved.Steps() == 0 || t.o.Planted.SkipMoves {
			moved = nil
		}
		if mine.IsEmpty() {
			continue
		}
		seg := prev.segment(e.UUID)
		if seg == nil {
			x, err := btree.Open(ctx, store.NewDir(t.o.Store, indexes.SegmentDir(t.root, e.UUID), t.o.Alloc), btree.OpenOptions{Cache: t.o.Pages})
			if err != nil {
				// Why not fatal: the fragments are read instead, so answers stay right.
				t.o.Log.Warn("index segment cannot be used", "table", t.root, "index", name, "segment", e.UUID.String(), "error", err)
				continue
			}
			seg = &indexSegment{entry: e, x: x, tuples: ci.kind == indexes.Key}
		}
		ci.covered.Or(mine)
		ci.segs = append(ci.segs, segmentUse{indexSegment: seg, frags: mine, moved: moved})
	}
	return ci, nil
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

func (ci *columnIndex) segment(id uuid.UUID) *indexSegment {
	if ci == nil {
		return nil
	}
	for _, u := range ci.segs {
		if u.entry.UUID == id {
			return u.indexSegment
		}
	}
	return nil
}

// openIndexes opens the primary index and the secondary ones.
func (t *Table) openIndexes(ctx context.Context, b, prev *base) error {
	var old *columnIndex
	if prev != nil {
		old = prev.pk
	}
	var err error
	if t.keyless() {
		b.pk = &columnIndex{covered: roaring.New()}
	} else if b.pk, err = t.openIndex(ctx, b, old, PrimaryIndex, t.keyCols); err != nil {
		return err
	}
	for i, d := range t.o.Indexes {
		var old *columnIndex
		if prev != nil {
			old = prev.secondary[i]
		}
		ci, err := t.openIndex(ctx, b, old, d.Name, []int{d.Column})
		if err != nil {
			return err
		}
		b.secondary = append(b.secondary, ci)
	}
	return nil
}

// segments visits every segment use of a base version.
func (b *base) segments(visit func(segmentUse)) {
	for _, u := range b.pk.segs {
		visit(u)
	}
	for _, ci := range b.secondary {
		for _, u := range ci.segs {
			visit(u)
		}
	}
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
				if at := rowaddr.Addr(h.Row); b.alive(at) && !b.pk.covered.Contains(at.Fragment()) {
					out[i] = append(out[i], at)
				}
			}
		}
	}
	if len(b.pk.segs) == 0 {
		return out, nil
	}
	sorted, err := btree.KeysOfTuples(b.pk.typ, b.pk.kind == indexes.Key, keys)
	if err != nil {
		return nil, err
	}
	var hits []btree.Hit
	for _, u := range b.pk.segs {
		if hits, err = u.x.Lookup(ctx, sorted, hits[:0]); err != nil {
			return nil, fmt.Errorf("look up primary keys: %w", err)
		}
		ids := make([]uint64, len(hits))
		for i, h := range hits {
			ids[i] = h.ID
		}
		keep, err := u.place(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, h := range hits {
			if at := rowaddr.Addr(ids[i]); keep[i] && b.alive(at) {
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
	for _, u := range b.pk.segs {
		out = append(out, segmentRange{ctx: ctx, u: u})
	}
	return out
}

// answersFor reports whether a row found in a source of ranges counts: each fragment has one source.
func (b *base) answersFor(r keyRanger, at rowaddr.Addr) bool {
	if _, ok := r.(segmentRange); ok {
		return true // it has looked
	}
	return !b.pk.covered.Contains(at.Fragment())
}

// segmentRange is a segment as a source of ordered keys.
type segmentRange struct {
	ctx context.Context //nolint:containedctx // of one step of a scan
	u   segmentUse
}

// Range implements keyRanger.
func (r segmentRange) Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	return r.u.x.Tuples(r.ctx, r.u.tuples, lo, hi, r.placed(visit))
}

// Backward implements keyRanger.
func (r segmentRange) Backward(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	return r.u.x.TuplesBackward(r.ctx, r.u.tuples, lo, hi, r.placed(visit))
}

// placed gives visit the rows where they are now.
func (r segmentRange) placed(visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) func(rowkey.Key, uint64) (bool, error) {
	return func(k rowkey.Key, id uint64) (bool, error) {
		ids := []uint64{id}
		keep, err := r.u.place(r.ctx, ids)
		if err != nil {
			return false, err
		}
		if !keep[0] {
			return true, nil
		}
		return visit(k, ids[0], false)
	}
}
