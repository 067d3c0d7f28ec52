package lsm

import (
	"cmp"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/arrowx"
	"lancesql/internal/invariant"
	"lancesql/lance/rowaddr"
)

// death says when a row died and who replaced it.
type death struct {
	seq    uint64   // CommitSeq of the replacing commit, 0 = settled: before every view there is
	killer SourceID // generation of the replacing row
}

// DeathLog records which rows of one source have died (I1). Addresses of a generation are plain offsets
// (fragment 0). One appender, in commit order; any number of readers.
//
// A death is young while a view may be older than it: an entry of a hash, about 40 bytes. Settle moves those that
// every view sees into bitmaps by killer, about two bits to two bytes a row.
type DeathLog struct {
	mu      sync.RWMutex
	young   map[uint64]map[uint16]death // by address >> 16
	nYoung  int
	settled map[settledKey]*roaring.Bitmap // offsets
	n       int
}

// settledKey is a run of settled deaths: rows of one fragment that one generation replaced.
type settledKey struct {
	frag   uint32
	killer SourceID
}

// NewDeathLog returns an empty log.
func NewDeathLog() *DeathLog {
	return &DeathLog{young: make(map[uint64]map[uint16]death), settled: make(map[settledKey]*roaring.Bitmap)}
}

// Kill records a death. A row dies once: a second death is a broken invariant and is ignored in production.
func (d *DeathLog) Kill(a rowaddr.Addr, seq uint64, killer SourceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, dead := d.lookup(a); dead {
		_ = invariant.Check(false, "row %v dies twice: source %d, then %d", a, old.killer, killer)
		return
	}
	d.n++
	if seq == 0 {
		d.settle(a, killer)
		return
	}
	c := d.young[uint64(a)>>16]
	if c == nil {
		c = make(map[uint16]death)
		d.young[uint64(a)>>16] = c
	}
	c[uint16(a)] = death{seq: seq, killer: killer}
	d.nYoung++
}

func (d *DeathLog) settle(a rowaddr.Addr, killer SourceID) {
	k := settledKey{a.Fragment(), killer}
	bm := d.settled[k]
	if bm == nil {
		bm = roaring.New()
		d.settled[k] = bm
	}
	bm.Add(a.Offset())
}

// lookup finds the death of a row. The caller holds mu.
func (d *DeathLog) lookup(a rowaddr.Addr) (death, bool) {
	if rec, ok := d.young[uint64(a)>>16][uint16(a)]; ok {
		return rec, true
	}
	for k, bm := range d.settled {
		if k.frag == a.Fragment() && bm.Contains(a.Offset()) {
			return death{killer: k.killer}, true
		}
	}
	return death{}, false
}

// Dead reports whether the row was dead at CommitSeq s.
func (d *DeathLog) Dead(a rowaddr.Addr, s uint64) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rec, ok := d.lookup(a)
	return ok && rec.seq <= s
}

// Known reports whether the row has died at any time.
func (d *DeathLog) Known(a rowaddr.Addr) bool { return d.Dead(a, ^uint64(0)) }

// Len is the number of deaths recorded.
func (d *DeathLog) Len() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.n
}

// Bytes estimates the memory held.
func (d *DeathLog) Bytes() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	const youngBytes, bitmapBytes = 40, 64
	n := int64(d.nYoung) * youngBytes
	for _, bm := range d.settled {
		n += int64(bm.GetSizeInBytes()) + bitmapBytes
	}
	return n
}

// Settle says that no view older than lowWater is left or will come.
func (d *DeathLog) Settle(lowWater uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for chunk, c := range d.young {
		for off, rec := range c {
			if rec.seq <= lowWater {
				d.settle(rowaddr.Addr(chunk<<16|uint64(off)), rec.killer)
				delete(c, off)
				d.nYoung--
			}
		}
		if len(c) == 0 {
			delete(d.young, chunk)
		}
	}
}

// clearDead clears the bits of rows first…first+mask.Len()-1, which are of one fragment, that were dead at s.
func (d *DeathLog) clearDead(mask *arrowx.Mask, first rowaddr.Addr, s uint64) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.n == 0 {
		return
	}
	d.clearSettled(mask, first)
	from, to := uint64(first), uint64(first)+uint64(mask.Len())
	for chunk := from >> 16; chunk<<16 < to && d.nYoung > 0; chunk++ {
		c := d.young[chunk]
		if len(c) == 0 {
			continue
		}
		lo, hi := max(from, chunk<<16), min(to, (chunk+1)<<16)
		if uint64(len(c)) <= hi-lo {
			for off, rec := range c {
				if a := chunk<<16 | uint64(off); a >= lo && a < hi && rec.seq <= s {
					mask.Clear(int(a - from))
				}
			}
			continue
		}
		for a := lo; a < hi; a++ {
			if rec, ok := c[uint16(a)]; ok && rec.seq <= s {
				mask.Clear(int(a - from))
			}
		}
	}
}

func (d *DeathLog) clearSettled(mask *arrowx.Mask, first rowaddr.Addr) {
	end := first.Offset() + uint32(mask.Len())
	for k, bm := range d.settled {
		if k.frag != first.Fragment() {
			continue
		}
		it := bm.Iterator()
		it.AdvanceIfNeeded(first.Offset())
		for it.HasNext() {
			off := it.Next()
			if off >= end {
				break
			}
			mask.Clear(int(off - first.Offset()))
		}
	}
}

// each visits every record in no particular order. visit must not call back into the log.
func (d *DeathLog) each(visit func(a rowaddr.Addr, rec death)) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for chunk, c := range d.young {
		for off, rec := range c {
			visit(rowaddr.Addr(chunk<<16|uint64(off)), rec)
		}
	}
	for k, bm := range d.settled {
		it := bm.Iterator()
		for it.HasNext() {
			visit(rowaddr.New(k.frag, it.Next()), death{killer: k.killer})
		}
	}
}

// sorted returns all records by ascending address.
func (d *DeathLog) sorted() ([]rowaddr.Addr, []death) {
	type record struct {
		at rowaddr.Addr
		death
	}
	var list []record
	d.each(func(at rowaddr.Addr, rec death) { list = append(list, record{at, rec}) })
	slices.SortFunc(list, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	at, deaths := make([]rowaddr.Addr, len(list)), make([]death, len(list))
	for i, r := range list {
		at[i], deaths[i] = r.at, r.death
	}
	return at, deaths
}
