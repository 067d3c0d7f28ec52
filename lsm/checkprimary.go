package lsm

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// primaryCheck compares index segments over the primary key with the keys of the fragments they cover: a key that a
// segment lacks would not be found, and could be inserted again.
type primaryCheck struct {
	c        *tableCheck
	h        keyHasher
	segments []primarySegment
	summed   bool // want was filled by a pass over the keys
}

type primarySegment struct {
	segmentUse
	want uint64 // sum over live rows of its fragments
	rows int
}

// open opens the segments as an opening of the table does: each fragment belongs to the first that covers it.
func (p *primaryCheck) open(fieldIDs []int32) error {
	c := p.c
	ci, err := c.t.newColumnIndex(PrimaryIndex, c.t.keyCols, fieldIDs)
	if err != nil {
		return err
	}
	entries, err := c.ds.Indexes()
	if err != nil {
		return c.problem(c.root, err)
	}
	slices.SortStableFunc(entries, func(x, y table.IndexEntry) int { return boolOrder(y.Name == PrimaryIndex, x.Name == PrimaryIndex) })
	free := roaring.New()
	for _, f := range c.ds.Fragments() {
		free.Add(uint32(f.ID))
	}
	history, err := fragreuse.Open(c.ctx, c.ds, fragreuse.Options{})
	if err != nil {
		return c.problem(c.root, err)
	}
	for _, e := range entries {
		if !ci.holds(e) {
			continue
		}
		moved, err := history.Segment(c.ctx, e.UUID, e.Fragments)
		if err != nil {
			if err := c.problem(indexes.SegmentDir(c.root, e.UUID), err); err != nil {
				return err
			}
			continue
		}
		mine := roaring.And(moved.Coverage(), free)
		if mine.IsEmpty() {
			continue
		}
		if moved.Steps() == 0 {
			moved = nil
		}
		dir := indexes.SegmentDir(c.root, e.UUID)
		x, err := btree.Open(c.ctx, store.NewDir(c.st, dir, c.t.o.Alloc), btree.OpenOptions{})
		if err != nil {
			if err := c.problem(dir, err); err != nil {
				return err
			}
			continue
		}
		free.AndNot(mine)
		p.segments = append(p.segments, primarySegment{segmentUse: segmentUse{indexSegment: &indexSegment{entry: e, x: x, tuples: ci.kind == indexes.Key}, frags: mine, moved: moved}})
	}
	return nil
}

func (p *primaryCheck) add(k rowkey.Key, at rowaddr.Addr) {
	for i := range p.segments {
		if s := &p.segments[i]; s.frags.Contains(at.Fragment()) {
			s.want += p.h.of(k, uint64(at)).mixed()
			s.rows++
			return
		}
	}
}

// compare reads the segments and gives a finding for one that is not what the rows say.
func (p *primaryCheck) compare() error {
	c := p.c
	deleted := make(map[uint32]*roaring.Bitmap)
	physical := make(map[uint32]uint64)
	for _, f := range c.ds.Fragments() {
		dv, err := c.ds.Deletions(c.ctx, f)
		if err != nil {
			return nil // reported with the fragment
		}
		deleted[uint32(f.ID)], physical[uint32(f.ID)] = dv, f.PhysicalRows
	}
	for _, s := range p.segments {
		c.o.Progress(c.root + ": primary index")
		dir := indexes.SegmentDir(c.root, s.entry.UUID)
		have, n, falls := uint64(0), 0, false
		var last rowkey.Key
		err := s.x.Tuples(c.ctx, s.tuples, "", "", func(k rowkey.Key, id uint64) (bool, error) {
			falls = falls || k < last
			last = k
			ids := []uint64{id}
			keep, err := s.place(c.ctx, ids)
			if err != nil {
				return false, err
			}
			at := rowaddr.Addr(ids[0])
			if keep[0] && uint64(at.Offset()) < physical[at.Fragment()] {
				if dv := deleted[at.Fragment()]; dv == nil || !dv.Contains(at.Offset()) {
					have += p.h.of(k, uint64(at)).mixed()
					n++
				}
			}
			return true, c.ctx.Err()
		})
		switch {
		case err != nil:
			if err := c.problem(dir, err); err != nil {
				return err
			}
		case falls:
			c.add(Error, dir, "the keys of index %s are not in order: look-ups miss rows", s.entry.Name)
		case n != s.rows || have != s.want:
			c.add(Error, dir, "index %s does not hold the keys of the fragments it covers (%d entries, %d rows): look-ups miss rows", s.entry.Name, n, s.rows)
		}
	}
	return nil
}

func (p *primaryCheck) close() {
	for _, s := range p.segments {
		_ = s.x.Close() // only read
	}
}
