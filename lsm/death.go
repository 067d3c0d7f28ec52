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
	settled map[uint32][]settledRun // by fragment
	n       int

	followed bool
	late     []deathRecord // recorded since follow
}

// settledRun is settled deaths: offsets of one fragment that one generation replaced.
type settledRun struct {
	killer SourceID
	rows   *roaring.Bitmap
}

// deathRecord is a death with the row that died.
type deathRecord struct {
	at rowaddr.Addr
	death
}

// NewDeathLog returns an empty log.
func NewDeathLog() *DeathLog {
	return &DeathLog{young: make(map[uint64]map[uint16]death), settled: make(map[uint32][]settledRun)}
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
	if d.followed {
		d.late = append(d.late, deathRecord{a, death{seq: seq, killer: killer}})
	}
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
	runs := d.settled[a.Fragment()]
	i := slices.IndexFunc(runs, func(r settledRun) bool { return r.killer == killer })
	if i < 0 {
		i, runs = len(runs), append(runs, settledRun{killer: killer, rows: roaring.New()})
		d.settled[a.Fragment()] = runs
	}
	runs[i].rows.Add(a.Offset())
}

// lookup finds the death of a row. The caller holds mu.
func (d *DeathLog) lookup(a rowaddr.Addr) (death, bool) {
	if rec, ok := d.young[uint64(a)>>16][uint16(a)]; ok {
		return rec, true
	}
	for _, r := range d.settled[a.Fragment()] {
		if r.rows.Contains(a.Offset()) {
			return death{killer: r.killer}, true
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
	for _, runs := range d.settled {
		for _, r := range runs {
			n += int64(r.rows.GetSizeInBytes()) + bitmapBytes
		}
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
	for _, r := range d.settled[first.Fragment()] {
		it := r.rows.Iterator()
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
	for frag, runs := range d.settled {
		for _, r := range runs {
			it := r.rows.Iterator()
			for it.HasNext() {
				visit(rowaddr.New(frag, it.Next()), death{killer: r.killer})
			}
		}
	}
}

// records returns all records by ascending address.
func (d *DeathLog) records() []deathRecord {
	var list []deathRecord
	d.each(func(at rowaddr.Addr, rec death) { list = append(list, deathRecord{at, rec}) })
	sortRecords(list)
	return list
}

func sortRecords(list []deathRecord) {
	slices.SortFunc(list, func(a, b deathRecord) int { return cmp.Compare(a.at, b.at) })
}

// follow begins to note what Kill records; unfollow ends that and returns it, by ascending address. There is one follower at a
// time: whoever holds the commit token.
func (d *DeathLog) follow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed, d.late = true, nil
}

func (d *DeathLog) unfollow() []deathRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	late := d.late
	d.followed, d.late = false, nil
	sortRecords(late)
	return late
}

// carrying takes deaths along to a new base: almost all of them while commits go on, and those that came meanwhile by last,
// under the latch, so that commits do not wait for the rest. end must be called.
type carrying struct {
	to   *DeathLog
	from []carriedLog
}

// carriedLog is a log of which some deaths go along, and where their rows lie now.
type carriedLog struct {
	log    *DeathLog
	wanted func(death) bool
	place  relocation
}

// add takes along the deaths of a log so far.
func (c *carrying) add(log *DeathLog, wanted func(death) bool, place relocation) {
	l := carriedLog{log: log, wanted: wanted, place: place}
	c.from = append(c.from, l)
	log.follow()
	c.move(l, log.records())
}

// last takes along what the logs have recorded since. No commit may be under way.
func (c *carrying) last() {
	for _, l := range c.from {
		c.move(l, l.log.unfollow())
	}
	c.from = nil
}

// end gives up what was not taken along.
func (c *carrying) end() {
	for _, l := range c.from {
		l.log.unfollow()
	}
}

func (c *carrying) move(l carriedLog, list []deathRecord) {
	list = slices.DeleteFunc(list, func(r deathRecord) bool { return !l.wanted(r.death) })
	at := make([]rowaddr.Addr, len(list))
	for i, r := range list {
		at[i] = r.at
	}
	l.place(at, func(i int, to rowaddr.Addr) {
		if !c.to.Known(to) { // Why: a death may be recorded between follow and records
			c.to.Kill(to, list[i].seq, list[i].killer)
		}
	})
}
