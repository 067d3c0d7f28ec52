package lsm

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// Adopt takes in base versions that somebody else committed (an append, a delete, an update, a compaction, an index,
// a merge of our generations, an overwrite) and reports whether there were any. Work is proportional to what changed;
// commits are held off for the last step only. The Version gets a fresh Floor: views older than the adoption go on
// reading the version they began with. Rows committed here win over rows of the same key that an outsider added.
//
// errs.ErrSchemaChanged: the newest version has other columns or another key; the table must be reopened.
// errs.ErrFenced: somebody else merged rows of ours that were not flushed yet.
//
// While a merge or a clean-up runs nothing is done: a merge adopts by itself, and waiting would only hold a worker up.
func (t *Table) Adopt(ctx context.Context, h Hooks) (bool, error) {
	if !t.mergeMu.TryLock() {
		return false, nil
	}
	defer t.mergeMu.Unlock()
	return t.adopt(ctx, h)
}

// adopt is Adopt under mergeMu, the table's commit token.
func (t *Table) adopt(ctx context.Context, h Hooks) (bool, error) {
	v, err := t.newest()
	if err != nil {
		return false, err
	}
	defer func() { t.release(v) }()
	latest, err := v.base.ds.Latest(ctx)
	if err != nil {
		return false, err
	}
	if latest.Version() == v.base.ds.Version() {
		return false, nil
	}
	s, err := latest.Schema().Arrow()
	if err != nil {
		return false, err
	}
	if !s.Equal(t.physical) {
		return false, fmt.Errorf("version %d of %s has other columns: %w", latest.Version(), t.root, errs.ErrSchemaChanged)
	}
	t.o.Log.Info("adopting outside commits", "table", t.root, "from", v.base.ds.Version(), "to", latest.Version())
	if latest.MemWAL() == nil {
		if latest, err = t.overwritten(ctx, latest, v.base.ds.MemWAL()); err != nil {
			return false, err
		}
		t.release(v)
		if v, err = t.newest(); err != nil {
			return false, err
		}
	}
	t.adoptions++
	a, err := t.newAdoption(ctx, v, latest)
	if err != nil {
		return false, err
	}
	if err := a.read(ctx); err != nil {
		return false, err
	}
	return true, a.publish(ctx, h)
}

// overwritten gives a table whose MemWAL entry an outside overwrite dropped a new one. What was committed before the
// overwrite was adopted is gone with it: everything is flushed, and the new entry calls it merged.
func (t *Table) overwritten(ctx context.Context, latest *table.Dataset, old *table.MemWAL) (*table.Dataset, error) {
	t.o.Log.Warn("table was overwritten by another writer", "table", t.root, "version", latest.Version())
	if err := t.Freeze(); err != nil {
		return nil, err
	}
	if err := t.Flush(ctx); err != nil {
		return nil, err
	}
	v, err := t.newest()
	if err != nil {
		return nil, err
	}
	defer t.release(v)
	m := old.Clone()
	m.Catchup = nil
	tops := make(map[uuid.UUID]uint64)
	for o, gens := range v.gens {
		for _, g := range gens[:len(gens)-1] {
			if g.mem == nil {
				tops[v.set.list[o].dir.id] = g.number
			}
		}
	}
	for i := range m.Merged {
		m.Merged[i].Generation = max(m.Merged[i].Generation, tops[m.Merged[i].Shard])
		delete(tops, m.Merged[i].Shard)
	}
	for _, sh := range v.set.list {
		if top, ok := tops[sh.dir.id]; ok {
			m.Merged = append(m.Merged, table.MergedGeneration{Shard: sh.dir.id, Generation: top})
		}
	}
	return latest.Commit(ctx, table.CreateIndex{New: []table.IndexEntry{{Name: table.MemWALName, MemWAL: m}}})
}

// adoption is one newer base version being taken in.
type adoption struct {
	t      *Table
	v      *Version // what it is computed from
	base   *base
	fresh  *roaring.Bitmap     // fragments whose keys the old base does not know
	merged []uint64            // by shard: generations up to it are in the new base
	marks  map[SourceID]uint32 // rows of each generation already looked at
	twice  int                 // keys an outsider brought a second time
}

func (t *Table) newAdoption(ctx context.Context, v *Version, latest *table.Dataset) (*adoption, error) {
	old := v.base
	keys := old.keys
	fresh, comparable := changedFragments(old, latest)
	if !comparable {
		// Why: a fragment id now means other rows, so the entries of the old key space would lie about it.
		keys = &keySpace{Space: t.o.Keys.New()}
	}
	b, err := t.openBase(ctx, latest, old, keys)
	if err != nil {
		return nil, err
	}
	a := &adoption{t: t, v: v, base: b, fresh: fresh, marks: make(map[SourceID]uint32)}
	for o := range v.gens {
		a.merged = append(a.merged, latest.MemWAL().MergedUpTo(v.set.list[o].dir.id))
	}
	return a, nil
}

// changedFragments returns the fragments of latest that the old base does not have. comparable is false if an id
// common to both names other files: then every fragment counts as changed.
func changedFragments(old *base, latest *table.Dataset) (fresh *roaring.Bitmap, comparable bool) {
	fresh, comparable = roaring.New(), true
	for _, f := range latest.Fragments() {
		have := old.byID[uint32(f.ID)]
		if have == nil {
			fresh.Add(uint32(f.ID))
			continue
		}
		// Why the first file: columns may be added in further files; the key columns of a row never change place.
		if have.PhysicalRows != f.PhysicalRows || have.Files[0].Path != f.Files[0].Path {
			comparable = false
		}
	}
	if !comparable {
		for _, f := range latest.Fragments() {
			fresh.Add(uint32(f.ID))
		}
	}
	return fresh, comparable
}

// pending reports whether a generation is not in the new base.
func (a *adoption) pending(g *generation) bool {
	return g.sh.ordinal >= len(a.merged) || g.number > a.merged[g.sh.ordinal]
}

// read indexes the keys of the fresh fragments and records which of their rows the pending generations replace.
func (a *adoption) read(ctx context.Context) error {
	for g := range a.v.all() {
		if a.pending(g) {
			a.marks[g.id] = g.births.At(^uint64(0))
		}
	}
	for _, f := range a.base.frags {
		id := uint32(f.ID)
		fresh := a.fresh.Contains(id)
		// An index that covered the fragment may have been dropped.
		load := !a.base.pk.covered.Contains(id) && (fresh || a.v.base.pk.covered.Contains(id))
		if !fresh && !load {
			continue
		}
		err := a.t.eachKey(ctx, a.base.ds, f, a.base.fieldIDs, false, func(first uint64, keys []rowkey.Key, _ *array.Boolean) error {
			if load {
				if err := a.base.index(id, first, keys); err != nil {
					return err
				}
			}
			if !fresh {
				return nil
			}
			return a.killed(ctx, id, uint32(first), keys)
		})
		if err != nil {
			return fmt.Errorf("adopt fragment %d: %w", f.ID, err)
		}
	}
	return nil
}

// killed records which rows of a run of a fresh fragment are replaced: by the oldest pending generation that has the
// key, since that one's merge deletes the row.
func (a *adoption) killed(ctx context.Context, frag, first uint32, keys []rowkey.Key) error {
	var live []rowkey.Key
	var at []rowaddr.Addr
	for i, k := range keys {
		if addr := rowaddr.New(frag, first+uint32(i)); a.base.alive(addr) {
			live, at = append(live, k), append(at, addr)
		}
	}
	out := make([]found, len(live))
	oldestFirst := func(gens []*generation) []*generation { return gens }
	rest, err := a.v.locateAbove(ctx, live, func(g *generation) uint64 { return uint64(a.marks[g.id]) }, oldestFirst, out)
	if err != nil {
		return err
	}
	for i, f := range out {
		if f.ok {
			a.base.deaths.Kill(at[i], 0, f.loc.Source)
		}
	}
	left := make([]rowkey.Key, len(rest))
	for n, i := range rest {
		left[n] = live[i]
	}
	rows, err := a.base.rowsOf(ctx, left)
	for _, r := range rows {
		if len(r) > 1 {
			a.twice++
		}
	}
	return err
}

// publish brings the deaths up to date with commits held off and swaps the Version.
func (a *adoption) publish(ctx context.Context, h Hooks) error {
	t := a.t
	t.latch.Lock()
	defer t.latch.Unlock()
	cur, err := t.newest() // Why: commits, freezes and flushes went on
	if err != nil {
		return err
	}
	defer t.release(cur)
	gens := make([][]*generation, len(cur.gens))
	var covered []*generation
	for o, all := range cur.gens {
		for len(all) > 0 && !a.pending(all[0]) {
			covered = append(covered, all[0])
			all = all[1:]
		}
		if len(all) == 0 {
			return fmt.Errorf("generations of %s were merged by somebody else before they were flushed: %w", t.root, errs.ErrFenced)
		}
		gens[o] = slices.Clone(all)
	}
	a.carry(cur)
	for g := range cur.all() {
		if a.pending(g) && g.births.At(^uint64(0)) > a.marks[g.id] {
			if err := a.base.killBy(ctx, g, a.marks[g.id]); err != nil {
				return err
			}
		}
	}
	if a.twice > 0 {
		t.o.Log.Warn("another writer brought keys a second time; writes of them are refused", "table", t.root, "keys", a.twice)
	}
	floor := h.Advance()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.twice += a.twice
	t.publishLocked(&Version{base: a.base, set: cur.set, gens: gens, floor: floor})
	for _, g := range covered {
		t.retired = append(t.retired, retired{sh: g.sh, number: g.number, dir: g.dir, state: g.genState, since: t.o.Clock.Now()})
	}
	return nil
}

// carry copies the deaths of rows that lie where they did, up to the last commit.
func (a *adoption) carry(cur *Version) {
	cur.base.deaths.each(func(at rowaddr.Addr, d death) {
		g := cur.generation(d.killer)
		if g == nil || !a.pending(g) || a.fresh.Contains(at.Fragment()) || !a.base.alive(at) {
			return
		}
		a.base.deaths.Kill(at, d.seq, d.killer)
	})
}

// killBy records the deaths of rows whose keys g has at or above a row.
func (b *base) killBy(ctx context.Context, g *generation, from uint32) error {
	var keys []rowkey.Key
	err := g.keys.ordered(ctx).Range("", "", func(k rowkey.Key, row uint64, _ bool) (bool, error) {
		if row >= uint64(from) {
			keys = append(keys, k)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return b.killKeys(ctx, keys, g.id)
}

// killKeys records the death of the rows of keys that nothing has replaced yet.
func (b *base) killKeys(ctx context.Context, keys []rowkey.Key, killer SourceID) error {
	if len(keys) == 0 || len(b.frags) == 0 {
		return nil
	}
	rows, err := b.rowsOf(ctx, keys)
	for _, list := range rows {
		for _, at := range list {
			// Why all of them: an outside append may have brought the key a second time.
			if !b.deaths.Known(at) {
				b.deaths.Kill(at, 0, killer)
			}
		}
	}
	return err
}

// Twice says how many keys outside commits have brought a second time since the table was opened.
func (t *Table) Twice() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.twice
}
