package lsm

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
)

// Version is an immutable state of a table: a base version and, by shard ordinal, the generations on top of it,
// ascending; the last one of each shard is its active MemTable. refs and chained are guarded by Table.mu.
type Version struct {
	base    *base
	set     *shardSet
	gens    [][]*generation
	floor   uint64 // the Version serves views at or above it (I6)
	refs    int
	chained bool
}

func (v *Version) active(shard int) *generation { return v.gens[shard][len(v.gens[shard])-1] }

// all visits the generations, shard by shard, ascending.
func (v *Version) all() iter.Seq[*generation] {
	return func(yield func(*generation) bool) {
		for _, gens := range v.gens {
			for _, g := range gens {
				if !yield(g) {
					return
				}
			}
		}
	}
}

// generation returns a source that is not the base, nil if the Version does not name it.
func (v *Version) generation(id SourceID) *generation {
	if id.shard() >= len(v.gens) {
		return nil
	}
	for _, g := range v.gens[id.shard()] {
		if g.id == id {
			return g
		}
	}
	return nil
}

// deaths returns the death log of a source, nil if the Version does not name it.
func (v *Version) deaths(id SourceID) *DeathLog {
	if id == 0 {
		return v.base.deaths
	}
	if g := v.generation(id); g != nil {
		return g.deaths
	}
	return nil
}

// replaced returns the Version with other generations in one shard, not yet published.
func (v *Version) replaced(shard int, gens []*generation) *Version {
	n := &Version{base: v.base, set: v.set, gens: slices.Clone(v.gens), floor: v.floor}
	n.gens[shard] = gens
	return n
}

// locate finds the row of the key at s, newest source first: the first hit decides. A tombstone is returned
// as a hit, because the tombstone row itself is what a later write replaces.
func (v *Version) locate(k rowkey.Key, s uint64) (loc Location, tombstone, ok bool, err error) {
	ordinal, _, exists, err := v.set.of(k)
	if err != nil {
		return Location{}, false, false, err
	}
	if exists {
		if loc, tombstone, ok, err = locateIn(v.gens[ordinal], k, s); ok || err != nil {
			return loc, tombstone, ok, err
		}
	}
	for _, m := range v.set.manual {
		if loc, tombstone, ok, err = locateIn(v.gens[m], k, s); ok || err != nil {
			return loc, tombstone, ok, err
		}
	}
	a, n, err := v.base.find(k)
	if err != nil || n == 0 {
		return Location{}, false, false, err
	}
	return Location{Addr: a}, false, true, nil
}

// locateIn finds the row of the key at s in the generations of one shard.
func locateIn(gens []*generation, k rowkey.Key, s uint64) (loc Location, tombstone, ok bool, err error) {
	for i := len(gens) - 1; i >= 0; i-- {
		g := gens[i]
		row, dead, hit, err := g.find(k, s)
		if err != nil {
			return Location{}, false, false, err
		}
		if hit {
			return Location{Source: g.id, Addr: rowaddr.Addr(row)}, dead, true, nil
		}
	}
	return Location{}, false, false, nil
}

// publishLocked makes v the newest Version. Predecessors whose views v can serve leave the chain.
func (t *Table) publishLocked(v *Version) {
	t.retainLocked(v)
	if n := len(t.chain); n > 0 && t.chain[n-1].floor == v.floor {
		t.unchainLocked(n - 1)
	}
	v.chained = true
	t.chain = append(t.chain, v)
	t.set = v.set
}

// retainLocked takes the references of a Version that is about to be published.
func (t *Table) retainLocked(v *Version) {
	t.alive[v] = struct{}{}
	v.base.keys.refs++
	for g := range v.all() {
		g.refs++
		if g.mem != nil {
			g.mem.Retain()
		}
	}
}

// unchainLocked removes chain[i]; it is freed when its last snapshot is released.
func (t *Table) unchainLocked(i int) {
	v := t.chain[i]
	t.chain = append(t.chain[:i:i], t.chain[i+1:]...)
	v.chained = false
	t.freeLocked(v)
}

func (t *Table) freeLocked(v *Version) {
	if v.chained || v.refs > 0 {
		return
	}
	if _, ok := t.alive[v]; !ok {
		return
	}
	delete(t.alive, v)
	if v.base.keys.refs--; v.base.keys.refs == 0 {
		t.drop(v.base.keys.Drop())
	}
	for g := range v.all() {
		if g.mem != nil {
			g.mem.Release()
		}
		if g.refs--; g.refs == 0 {
			t.drop(g.keys.Drop())
		}
	}
}

func (t *Table) drop(err error) {
	if err != nil {
		t.o.Log.Warn("free key space", "table", t.root, "error", err)
	}
}

// prune drops Versions no present or future view needs.
func (t *Table) prune(lowWater uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.chain) > 1 && t.chain[1].floor <= lowWater {
		t.unchainLocked(0)
	}
}

// newest returns the newest Version with a reference.
func (t *Table) newest() (*Version, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
	}
	v := t.chain[len(t.chain)-1]
	v.refs++
	return v, nil
}

func (t *Table) release(v *Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.refs--
	t.freeLocked(v)
}

// Snapshot is a table at one CommitSeq. Release must be called; a released snapshot must not be used.
type Snapshot struct {
	t *Table
	v *Version
	s uint64
}

// Snapshot returns the table at s, which the caller keeps registered. errs.ErrSchemaChanged if no Version
// may serve s any more.
func (t *Table) Snapshot(s uint64) (*Snapshot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
	}
	for i := len(t.chain) - 1; i >= 0; i-- {
		if v := t.chain[i]; v.floor <= s {
			v.refs++
			return &Snapshot{t: t, v: v, s: s}, nil
		}
	}
	return nil, fmt.Errorf("table %s at %d: %w", t.root, s, errs.ErrSchemaChanged)
}

// Release gives the snapshot back. It is idempotent.
func (s *Snapshot) Release() {
	if s.v != nil {
		s.t.release(s.v)
		s.v = nil
	}
}

// Unchanged reports whether the newest row of the key at the snapshot is the same physical row as at the older
// CommitSeq s. If the snapshot's Version cannot tell, the answer is false.
func (s *Snapshot) Unchanged(_ context.Context, k rowkey.Key, older uint64) (bool, error) {
	if s.v.floor > older {
		return false, nil
	}
	now, _, okNow, err := s.v.locate(k, s.s)
	if err != nil {
		return false, err
	}
	then, _, okThen, err := s.v.locate(k, older)
	if err != nil {
		return false, err
	}
	return okNow == okThen && now == then, nil
}
