package lsm

import (
	"context"
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
)

// adopt takes in base versions that somebody else committed (an append, a delete, a compaction, an index).
// This milestone rebuilds the base's key index and deaths from scratch with commits held off; the Version gets a
// fresh Floor, so views older than the adoption go on reading the old base version.
func (t *Table) adopt(ctx context.Context, h Hooks) error {
	v, err := t.newest()
	if err != nil {
		return err
	}
	defer t.release(v)
	latest, err := v.base.ds.Latest(ctx)
	if err != nil {
		return err
	}
	if latest.Version() == v.base.ds.Version() {
		return nil
	}
	s, err := latest.Schema().Arrow()
	if err != nil {
		return err
	}
	if !s.Equal(t.physical) || latest.MemWAL() == nil {
		return fmt.Errorf("version %d of %s has another schema: %w", latest.Version(), t.root, errs.ErrSchemaChanged)
	}
	t.o.Log.Info("adopting outside commits", "table", t.root, "from", v.base.ds.Version(), "to", latest.Version())
	nb, err := t.loadBase(ctx, latest)
	if err != nil {
		return err
	}
	t.latch.Lock()
	defer t.latch.Unlock()
	cur, err := t.newest() // Why: a freeze may have added a generation since
	if err != nil {
		return err
	}
	defer t.release(cur)
	all := make([][]*generation, len(cur.gens))
	var covered []*generation
	for o, gens := range cur.gens {
		merged := latest.MemWAL().MergedUpTo(cur.set.list[o].dir.id)
		for len(gens) > 1 && gens[0].number <= merged {
			covered = append(covered, gens[0])
			gens = gens[1:]
		}
		if gens[0].number <= merged {
			return fmt.Errorf("generation %d of %s was merged by somebody else before it was flushed: %w", gens[0].number, t.root, errs.ErrFenced)
		}
		for _, g := range gens {
			if err := killBase(nb, g); err != nil {
				return err
			}
		}
		all[o] = slices.Clone(gens)
	}
	floor := h.Advance()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publishLocked(&Version{base: nb, set: cur.set, gens: all, floor: floor})
	for _, g := range covered {
		t.retired = append(t.retired, retired{sh: g.sh, number: g.number, dir: g.dir, state: g.genState, since: t.o.Clock.Now()})
	}
	return nil
}

// killBase records the deaths of base rows whose keys g holds; a row an older generation killed stays so.
func killBase(b *base, g *generation) error {
	var last rowkey.Key
	return g.keys.Range("", "", func(k rowkey.Key, _ uint64, _ bool) (bool, error) {
		if k == last {
			return true, nil
		}
		last = k
		hits, err := b.keys.Rows(k)
		if err != nil {
			return false, err
		}
		for _, h := range hits {
			// Why all of them: an outside append may have brought the key a second time.
			if a := rowaddr.Addr(h.Row); b.alive(a) && !b.deaths.Known(a) {
				b.deaths.Kill(a, 0, g.id)
			}
		}
		return true, nil
	})
}
