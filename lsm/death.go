package lsm

import (
	"sync"

	"lancesql/internal/arrowx"
	"lancesql/internal/invariant"
	"lancesql/lance/rowaddr"
)

// death says when a row died and who replaced it.
type death struct {
	seq    uint64   // CommitSeq of the replacing commit, 0 = settled before this process opened the table
	killer SourceID // generation of the replacing row
}

// DeathLog records which rows of one source have died (I1). Addresses of a generation are plain offsets
// (fragment 0). One appender, in commit order; any number of readers.
type DeathLog struct {
	mu     sync.RWMutex
	chunks map[uint64]map[uint16]death // by address >> 16
	n      int
}

// NewDeathLog returns an empty log.
func NewDeathLog() *DeathLog { return &DeathLog{chunks: make(map[uint64]map[uint16]death)} }

// Kill records a death. A row dies once: a second death is a broken invariant and is ignored in production.
func (d *DeathLog) Kill(a rowaddr.Addr, seq uint64, killer SourceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.chunks[uint64(a)>>16]
	if c == nil {
		c = make(map[uint16]death)
		d.chunks[uint64(a)>>16] = c
	}
	if old, dead := c[uint16(a)]; dead {
		invariant.Check(false, "row %v dies twice: generation %d, then %d", a, old.killer, killer)
		return
	}
	c[uint16(a)] = death{seq: seq, killer: killer}
	d.n++
}

// Dead reports whether the row was dead at CommitSeq s.
func (d *DeathLog) Dead(a rowaddr.Addr, s uint64) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rec, ok := d.chunks[uint64(a)>>16][uint16(a)]
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

// clearDead clears the bits of rows first…first+mask.Len()-1 that were dead at s.
func (d *DeathLog) clearDead(mask *arrowx.Mask, first rowaddr.Addr, s uint64) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.n == 0 {
		return
	}
	from, to := uint64(first), uint64(first)+uint64(mask.Len())
	for chunk := from >> 16; chunk<<16 < to; chunk++ {
		c := d.chunks[chunk]
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

// each visits every record in no particular order. visit must not call back into the log.
func (d *DeathLog) each(visit func(a rowaddr.Addr, rec death)) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for chunk, c := range d.chunks {
		for off, rec := range c {
			visit(rowaddr.Addr(chunk<<16|uint64(off)), rec)
		}
	}
}
