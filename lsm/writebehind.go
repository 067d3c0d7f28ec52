package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"lancesql/internal/errs"
	"lancesql/wal"
)

// entryBytesWanted is where an entry written behind ends; a single larger body goes alone.
const entryBytesWanted = 8 << 20

// Part is what one commit writes into one shard.
type Part struct {
	Shard uuid.UUID
	Rows  int
	Body  []byte // record-batch messages as wal.BodyEncoder makes them
}

// JournalPart is a Part that a record of the caller's journal holds.
type JournalPart struct {
	Journal uint64
	Shard   uuid.UUID
	Body    []byte
}

// Parts returns the staged writes by shard, in order of ordinal; nil if there are none. The bodies must not be
// changed. errs.ErrLimit if a part is more than a WAL entry may hold.
func (s *Staged) Parts() ([]Part, error) {
	out := make([]Part, 0, len(s.parts))
	for _, p := range s.parts {
		if p.body == nil {
			body, err := s.t.bodies.Encode(p.rec)
			if err != nil {
				return nil, err
			}
			if len(body) > walReplayBytesMax-entryBytesWanted {
				return nil, fmt.Errorf("commit of %d bytes in one shard: %w", len(body), errs.ErrLimit)
			}
			p.body = body
		}
		out = append(out, Part{Shard: p.sh.dir.id, Rows: len(p.preds), Body: p.body})
	}
	return out, nil
}

// Logged says that the staged parts are durable in record j of the caller's journal, so that entries may be
// written behind it. It is called in ascending j, after Parts and before Apply.
func (t *Table) Logged(s *Staged, j uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range s.parts {
		p.sh.behind = append(p.sh.behind, logged{journal: j, generation: s.v.active(p.sh.ordinal).number, body: p.body})
		p.sh.behindBytes += int64(len(p.body))
		p.sh.unflushed += int64(len(p.body))
	}
}

// WriteBehind appends everything logged before the call as WAL entries, shards in parallel, oldest records first.
// errs.ErrFenced, errs.ErrPoisoned: the shard is no longer this writer's, reopen the table with Unlogged.
// errs.ErrNoSpace: try again later; nothing is lost.
func (t *Table) WriteBehind(ctx context.Context) error {
	v, err := t.newest()
	if err != nil {
		return err
	}
	defer t.release(v)
	return eachShard(v.set.list, func(sh *shard) error { return t.writeBehind(ctx, sh) })
}

// shardsAtOnce is how many shards of a table are worked on at a time.
const shardsAtOnce = 8

// eachShard runs do for every shard, a few at a time, to the end, and joins the errors.
func eachShard(list []*shard, do func(*shard) error) error {
	if len(list) == 1 {
		return do(list[0])
	}
	results := make([]error, len(list))
	var g errgroup.Group
	g.SetLimit(shardsAtOnce)
	for i, sh := range list {
		g.Go(func() error {
			results[i] = do(sh)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(results...)
}

func (t *Table) writeBehind(ctx context.Context, sh *shard) error {
	sh.writing.Lock()
	defer sh.writing.Unlock()
	t.mu.Lock()
	pending := slices.Clone(sh.behind)
	t.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	if t.o.BeforeLog != nil {
		// Why: an entry must never hold what the journal could still lose, or a later record would reuse the number.
		if err := t.o.BeforeLog(ctx); err != nil {
			return err
		}
	}
	for len(pending) > 0 {
		n := cutEntry(pending)
		if err := t.putEntry(ctx, sh, pending[:n]); err != nil {
			return fmt.Errorf("write behind %s: %w", sh.dir.path, err)
		}
		pending = pending[n:]
	}
	return nil
}

// cutEntry says how many of the bodies the next entry takes: an entry never spans two generations.
func cutEntry(pending []logged) int {
	n, size := 0, 0
	for n < len(pending) && pending[n].generation == pending[0].generation && (n == 0 || size+len(pending[n].body) <= entryBytesWanted) {
		size += len(pending[n].body)
		n++
	}
	return n
}

func (t *Table) putEntry(ctx context.Context, sh *shard, some []logged) error {
	d := wal.Draft{Generation: some[0].generation, Journal: some[len(some)-1].journal}
	size := int64(0)
	for _, l := range some {
		d.Bodies = append(d.Bodies, l.body)
		size += int64(len(l.body))
	}
	at, err := sh.log.Put(ctx, t.memSchema, d)
	if err != nil {
		return err
	}
	// Durable: the records are in an entry of the shard.
	t.mu.Lock()
	defer t.mu.Unlock()
	sh.behind = sh.behind[len(some):]
	if len(sh.behind) == 0 {
		sh.behind = nil
	}
	sh.behindBytes -= size
	sh.present(mark{at: at, journal: d.Journal}, d.Generation)
	return nil
}

// present notes an entry that is there. The caller holds Table.mu or is the only one who knows the shard.
func (sh *shard) present(m mark, generation uint64) {
	sh.marks = append(sh.marks, m)
	sh.evidence = max(sh.evidence, m.journal)
	sh.tip = max(sh.tip, m.at)
	if generation != 0 {
		sh.ends[generation] = m.at
	}
}

// Behind returns the smallest journal number logged and not yet in an entry and the bytes that wait; ok is false if
// nothing waits.
func (t *Table) Behind() (first uint64, bytes int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sh := range t.shardsLocked() {
		if len(sh.behind) == 0 {
			continue
		}
		if j := sh.behind[0].journal; !ok || j < first {
			first, ok = j, true
		}
		bytes += sh.behindBytes
	}
	return first, bytes, ok
}

// Evidence returns the greatest journal number in any WAL entry of the table, 0 if none. Records logged from now on
// must have greater ones: a recovery takes everything up to it for written.
func (t *Table) Evidence() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	greatest := uint64(0)
	for _, sh := range t.shardsLocked() {
		greatest = max(greatest, sh.evidence)
	}
	return greatest
}

// WALEnds returns, by shard, the position of the last WAL entry with rows that was there: see Options.WALEnds.
func (t *Table) WALEnds() map[uuid.UUID]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	ends := make(map[uuid.UUID]uint64)
	for _, sh := range t.shardsLocked() {
		if end := max(sh.tip, sh.cursor); end > 0 {
			ends[sh.dir.id] = uint64(end)
		}
	}
	return ends
}

// Unlogged returns what is logged and in no entry, in ascending order: the Journal of the Options with which a table
// is reopened after another writer claimed one of its shards.
func (t *Table) Unlogged() []JournalPart {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []JournalPart
	for _, sh := range t.shardsLocked() {
		for _, l := range sh.behind {
			out = append(out, JournalPart{Journal: l.journal, Shard: sh.dir.id, Body: l.body})
		}
	}
	slices.SortStableFunc(out, func(a, b JournalPart) int { return int(int64(a.Journal) - int64(b.Journal)) })
	return out
}

// shardsLocked returns the shards, also of a closed table. The caller holds mu.
func (t *Table) shardsLocked() []*shard { return t.set.list }

// RemoveWAL deletes the entries behind the replay cursors whose journal number is below start, the first record
// the journal still keeps: until then they are the evidence that their records are written. Entries without a number
// go at once, fence sentinels never. Spec: MemWAL, "Garbage collection".
func (t *Table) RemoveWAL(ctx context.Context, start uint64) error {
	t.mu.Lock()
	list := t.shardsLocked()
	t.mu.Unlock()
	return eachShard(list, func(sh *shard) error { return t.removeWAL(ctx, sh, start) })
}

func (t *Table) removeWAL(ctx context.Context, sh *shard, start uint64) error {
	t.mu.Lock()
	var gone []wal.Position
	for _, m := range sh.marks {
		if m.at <= sh.cursor && m.journal < start || m.at <= sh.cursor && m.journal == 0 {
			gone = append(gone, m.at)
		}
	}
	t.mu.Unlock()
	for i, p := range gone {
		if err := t.o.Store.Delete(ctx, wal.EntryName(sh.dir.path, p)); err != nil {
			t.forget(sh, gone[:i])
			return fmt.Errorf("remove WAL entry %d of %s: %w", p, sh.dir.path, err)
		}
	}
	t.forget(sh, gone)
	return nil
}

// forget removes the marks of deleted entries; both lists ascend.
func (t *Table) forget(sh *shard, gone []wal.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh.marks = slices.DeleteFunc(sh.marks, func(m mark) bool {
		_, found := slices.BinarySearch(gone, m.at)
		return found
	})
}

// Append writes the staged rows as one WAL entry of their shard, without a journal; they are durable when it
// returns nil. errs.ErrUnsupported if they touch several shards.
func (t *Table) Append(ctx context.Context, s *Staged) error {
	if len(s.parts) > 1 {
		return fmt.Errorf("commit over %d shards without a journal: %w", len(s.parts), errs.ErrUnsupported)
	}
	if _, err := s.Parts(); err != nil {
		return err
	}
	p := s.parts[0]
	p.sh.writing.Lock()
	defer p.sh.writing.Unlock()
	number := s.v.active(p.sh.ordinal).number
	at, err := p.sh.log.Put(ctx, t.memSchema, wal.Draft{Generation: number, Bodies: [][]byte{p.body}})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p.sh.unflushed += int64(len(p.body))
	p.sh.present(mark{at: at}, number)
	return nil
}
