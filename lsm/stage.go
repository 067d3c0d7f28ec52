package lsm

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// Op is one write: the new row of a key (all physical columns), or nil to delete it. Found may say what the key's newest
// row was when its lock was taken. In a table without a key every Op is a new row, and Key and Found mean nothing.
type Op struct {
	Key   rowkey.Key
	Row   arrowx.Row
	Found Place
}

// Staged is one commit on its way: for each shard the batch to log and append, and for each row the row it
// replaces. It holds the table's latch shared until Release, so nothing it located can move (I4).
type Staged struct {
	t     *Table
	v     *Version
	parts []*stagedPart // ascending ordinal; none when nothing is left to write
}

// stagedPart is what a commit writes into one shard. rows are dropped once rec is built.
type stagedPart struct {
	sh    *shard
	rows  []arrowx.Row
	preds []predecessor // by row
	rec   arrow.RecordBatch
	body  []byte // rec as it is logged; nil until needed
}

type predecessor struct {
	loc Location
	ok  bool
}

// Empty reports whether the commit changes nothing.
func (s *Staged) Empty() bool { return len(s.parts) == 0 }

// Rows is the number of rows to be written.
func (s *Staged) Rows() int {
	n := 0
	for _, p := range s.parts {
		n += len(p.preds)
	}
	return n
}

// Stage prepares ops, which have distinct keys and whose rows nobody else may write meanwhile (the caller
// holds their locks). A delete of a key that does not exist is dropped. A shard that the table lacks is claimed first.
func (t *Table) Stage(ctx context.Context, ops []Op) (*Staged, error) {
	if err := t.ensureShards(ctx, ops); err != nil {
		return nil, err
	}
	t.latch.RLock()
	s := &Staged{t: t}
	v, err := t.newest()
	if err != nil {
		t.latch.RUnlock()
		return nil, err
	}
	s.v = v
	if err := s.build(ctx, ops); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

func (s *Staged) build(ctx context.Context, ops []Op) error {
	width := s.t.physical.NumFields()
	parts := make(map[int]*stagedPart)
	var dying []Location    // of the rows that deletes remove
	var graves []arrowx.Row // the delete rows, in the same order
	stored, err := s.find(ctx, ops)
	if err != nil {
		return err
	}
	for i, op := range ops {
		loc, ok := stored[i].loc, stored[i].ok
		if op.Row == nil && s.t.keyless() {
			return fmt.Errorf("delete from a table without a key: %w", errs.ErrUnsupported)
		}
		if op.Row == nil && (!ok || stored[i].tombstone) {
			continue
		}
		if stored[i].twice {
			return fmt.Errorf("the table holds the key more than once, another writer added it again: %w", errs.ErrAmbiguousKey)
		}
		row := make(arrowx.Row, width+1)
		if op.Row == nil {
			row[width] = true
			dying, graves = append(dying, loc), append(graves, row)
		} else {
			if len(op.Row) != width {
				return fmt.Errorf("row has %d cells, table has %d columns: %w", len(op.Row), width, errs.ErrInvalid)
			}
			copy(row, op.Row)
			row[width] = false
		}
		p, err := s.part(parts, op, loc, ok)
		if err != nil {
			return err
		}
		p.rows = append(p.rows, row)
		p.preds = append(p.preds, predecessor{loc: loc, ok: ok})
	}
	if err := s.fillTombstones(ctx, dying, graves); err != nil {
		return err
	}
	for _, o := range slices.Sorted(maps.Keys(parts)) {
		p := parts[o]
		var err error
		if p.rec, err = arrowx.FromRows(s.t.o.Alloc, s.t.memSchema, p.rows); err != nil {
			return err
		}
		p.rows = nil
		s.parts = append(s.parts, p)
	}
	return nil
}

// find returns the newest row of each op's key. What the ops know already counts if nothing has moved since: only the
// holder of a key's lock writes the key, and rows move only with a new Version.
func (s *Staged) find(ctx context.Context, ops []Op) ([]found, error) {
	stored := make([]found, len(ops))
	if s.t.keyless() {
		return stored, nil
	}
	var keys []rowkey.Key
	var at []int
	for i, op := range ops {
		if op.Found.v == s.v {
			stored[i] = op.Found.f
			continue
		}
		keys, at = append(keys, op.Key), append(at, i)
	}
	if len(keys) == 0 {
		return stored, nil
	}
	// Why at the greatest number: everything applied so far counts, whatever views exist; the writer holds the key's
	// lock until its commit is applied.
	rest, err := s.v.locate(ctx, keys, ^uint64(0))
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		stored[i] = rest[n]
	}
	return stored, nil
}

// part returns the part of the shard that takes the write: the one the key's newest row lies in, if that is a
// generation, so that a shard made by hand keeps its keys; otherwise the one the sharding says.
func (s *Staged) part(parts map[int]*stagedPart, op Op, loc Location, found bool) (*stagedPart, error) {
	o, id, ok, err := s.v.set.ofWrite(op)
	if err != nil {
		return nil, err
	}
	if found && loc.Source != 0 {
		o, ok = loc.Source.shard(), true
	}
	if !ok {
		return nil, fmt.Errorf("shard %s is not claimed: %w", id, errs.ErrClosed)
	}
	p := parts[o]
	if p == nil {
		p = &stagedPart{sh: s.v.set.list[o]}
		parts[o] = p
	}
	return p, nil
}

// fillTombstones gives delete rows the key columns of the rows they delete; the other columns stay null.
func (s *Staged) fillTombstones(ctx context.Context, dying []Location, graves []arrowx.Row) error {
	if len(dying) == 0 {
		return nil
	}
	// Why in one fetch: a delete of many base rows reads each chunk of a key column once.
	keys, err := s.t.fetch(ctx, s.v, dying, s.t.keyCols)
	if err != nil {
		return err
	}
	defer keys.Release()
	for i, row := range graves {
		for k, c := range s.t.keyCols {
			row[c] = arrowx.Value(keys.Column(k), i)
		}
	}
	return nil
}

// Apply makes the staged rows part of the table at seq: births in the active MemTables, deaths where the
// replaced rows live. Readers see neither until the caller publishes seq.
func (t *Table) Apply(s *Staged, seq uint64) error {
	for _, part := range s.parts {
		g := s.v.active(part.sh.ordinal)
		first, err := g.mem.Append(part.rec, seq)
		if err == nil {
			err = t.indexRows(g, part.rec, first)
		}
		if err != nil {
			return err
		}
		for _, p := range part.preds {
			if p.ok {
				s.v.deaths(p.loc.Source).Kill(p.loc.Addr, seq, g.id)
			}
		}
	}
	return nil
}

// Release ends the commit, applied or not. It is idempotent.
func (s *Staged) Release() {
	if s.v == nil {
		return
	}
	for _, p := range s.parts {
		p.rec.Release()
	}
	s.t.release(s.v)
	s.v = nil
	s.t.latch.RUnlock()
}
