package lsm

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
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

// found is where the newest row of a key lies.
type found struct {
	loc       Location
	ok        bool // there is a row
	tombstone bool // and it says that the key is deleted
	twice     bool // the base has several live rows of the key
}

// locate finds the row of each key at s, newest source first: the first hit decides. A tombstone is returned
// as a hit, because the tombstone row itself is what a later write replaces.
func (v *Version) locate(ctx context.Context, keys []rowkey.Key, s uint64) ([]found, error) {
	out := make([]found, len(keys))
	rest, err := v.locateAbove(ctx, keys, func(g *generation) uint64 { return uint64(g.births.At(s)) }, newestFirst, out)
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 || len(v.base.frags) == 0 {
		return out, nil
	}
	missing := keys
	if len(rest) < len(keys) {
		missing = make([]rowkey.Key, len(rest))
		for n, i := range rest {
			missing[n] = keys[i]
		}
	}
	rows, err := v.base.rowsOf(ctx, missing)
	if err != nil {
		return nil, err
	}
	for n, i := range rest {
		if len(rows[n]) > 0 {
			out[i] = found{loc: Location{Addr: v.base.newestOf(rows[n])}, ok: true, twice: len(rows[n]) > 1}
		}
	}
	return out, nil
}

// locateOne is locate for a single key.
func (v *Version) locateOne(ctx context.Context, k rowkey.Key, s uint64) (found, error) {
	list, err := v.locate(ctx, []rowkey.Key{k}, s)
	if err != nil {
		return found{}, err
	}
	return list[0], nil
}

// locateAbove is search over the sources above the base: for each key the shard it belongs to, then those made by
// hand. order says in which order the generations of a shard are visited.
func (v *Version) locateAbove(ctx context.Context, keys []rowkey.Key, below func(*generation) uint64,
	order func([]*generation) []*generation, out []found) (left []int, err error) {
	byShard := make([][]int, len(v.gens))
	for i, k := range keys {
		o, _, ok, err := v.set.of(k)
		switch {
		case err != nil:
			return nil, err
		case ok:
			byShard[o] = append(byShard[o], i)
		default:
			left = append(left, i)
		}
	}
	for o, idx := range byShard {
		if len(idx) == 0 {
			continue
		}
		rest, err := search(ctx, order(v.gens[o]), keys, idx, below, out)
		if err != nil {
			return nil, err
		}
		left = append(left, rest...)
	}
	slices.Sort(left) // neighbours in the caller's order are neighbours in the base
	for _, o := range v.set.manual {
		if left, err = search(ctx, order(v.gens[o]), keys, left, below, out); err != nil {
			return nil, err
		}
	}
	return left, nil
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
	v.base.segments(func(u segmentUse) { u.refs++ })
	for g := range v.all() {
		g.refs++
		g.eachKeys(func(k *genKeysRef) { k.refs++ })
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
	v.base.segments(func(u segmentUse) {
		if u.refs--; u.refs == 0 {
			t.drop(u.x.Close())
		}
	})
	for g := range v.all() {
		if g.mem != nil {
			g.mem.Release()
		}
		g.refs--
		g.eachKeys(func(k *genKeysRef) {
			if k.refs--; k.refs == 0 {
				t.drop(k.close())
			}
		})
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

// Settle says that no view older than lowWater is left or will come: Versions, births and deaths that only such views
// tell apart are given up.
func (t *Table) Settle(lowWater uint64) {
	t.prune(lowWater)
	v, err := t.newest()
	if err != nil {
		return
	}
	defer t.release(v)
	v.base.deaths.Settle(lowWater)
	for g := range v.all() {
		g.deaths.Settle(lowWater)
		if g.mem != nil {
			g.mem.Settle(lowWater)
		} else {
			g.births.Settle(lowWater)
		}
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
//
// errs.ErrUnsupported in a table without a key.
func (s *Snapshot) Unchanged(ctx context.Context, k rowkey.Key, older uint64) (bool, error) {
	if err := s.t.requireKey(); err != nil {
		return false, err
	}
	if s.v.floor > older {
		return false, nil
	}
	now, err := s.v.locateOne(ctx, k, s.s)
	if err != nil {
		return false, err
	}
	then, err := s.v.locateOne(ctx, k, older)
	if err != nil {
		return false, err
	}
	return now.ok == then.ok && now.loc == then.loc, nil
}
