package lsm

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// Op is one write: the new row of a key (all physical columns), or nil to delete it.
type Op struct {
	Key rowkey.Key
	Row arrowx.Row
}

// Staged is one commit on its way: the batch to log and append, and for each row the row it replaces. It
// holds the table's latch shared until Release, so nothing it located can move (I4).
type Staged struct {
	t     *Table
	v     *Version
	rec   arrow.RecordBatch // nil when nothing is left to write
	preds []predecessor
}

type predecessor struct {
	loc Location
	ok  bool
}

// Empty reports whether the commit changes nothing.
func (s *Staged) Empty() bool { return s.rec == nil }

// Rows is the number of rows to be written.
func (s *Staged) Rows() int { return len(s.preds) }

// Stage prepares ops, which have distinct keys and whose rows nobody else may write meanwhile (the caller
// holds their locks). A delete of a key that does not exist is dropped.
func (t *Table) Stage(ctx context.Context, ops []Op) (*Staged, error) {
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
	rows := make([]arrowx.Row, 0, len(ops))
	var dying []Location    // of the rows that deletes remove
	var graves []arrowx.Row // the delete rows, in the same order
	for _, op := range ops {
		// Why: everything applied so far counts, whatever views exist; commits of one table are staged one
		// after the other.
		loc, dead, ok, err := s.v.locate(op.Key, ^uint64(0))
		if err != nil {
			return err
		}
		if op.Row == nil && (!ok || dead) {
			continue
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
		rows = append(rows, row)
		s.preds = append(s.preds, predecessor{loc: loc, ok: ok})
	}
	if len(rows) == 0 {
		return nil
	}
	if err := s.fillTombstones(ctx, dying, graves); err != nil {
		return err
	}
	var err error
	s.rec, err = arrowx.FromRows(s.t.o.Alloc, s.t.memSchema, rows)
	return err
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

// Append writes the staged rows as one WAL entry; they are durable when it returns nil.
func (t *Table) Append(ctx context.Context, s *Staged) error {
	batches := []arrow.RecordBatch{s.rec}
	_, err := t.log.Append(ctx, t.memSchema, s.v.active().number, batches)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unflushedWAL += arrowx.Bytes(s.rec)
	return nil
}

// Apply makes the staged rows part of the table at seq: births in the active MemTable, deaths where the
// replaced rows live. Readers see neither until the caller publishes seq.
func (t *Table) Apply(s *Staged, seq uint64) error {
	g := s.v.active()
	if _, err := g.mem.Append(s.rec, seq); err != nil {
		return err
	}
	for _, p := range s.preds {
		if p.ok {
			s.v.deaths(p.loc.Source).Kill(p.loc.Addr, seq, g.number)
		}
	}
	return nil
}

// Release ends the commit, applied or not. It is idempotent.
func (s *Staged) Release() {
	if s.v == nil {
		return
	}
	if s.rec != nil {
		s.rec.Release()
	}
	s.t.release(s.v)
	s.v = nil
	s.t.latch.RUnlock()
}
