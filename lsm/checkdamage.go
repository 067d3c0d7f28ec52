package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/inspect"
	"lancesql/lance/pb"
	"lancesql/wal"
)

// WALState is what a recovery tool needs to know of one shard.
type WALState struct {
	Shard    uuid.UUID
	Evidence uint64 // greatest journal number in an entry that a replay reaches, or that is covered
	Tip      uint64 // last entry there is, or that is covered
	Damage   *WALDamage
}

// WALDamage says where a replay of a shard stops although more entries are there.
type WALDamage struct {
	Position uint64
	Object   string
	Err      error       // errs.ErrCorruption
	Lost     []LostEntry // from Position on, ascending; the one at Position is among them unless it is missing
}

// LostEntry is an entry at or behind damage.
type LostEntry struct {
	Position, Generation, Journal uint64
	Object                        string
	Rows                          int64 // -1: unreadable
	Sentinel                      bool
}

// SurveyWAL reads the WAL of every shard of the table at root, without changing anything. The table may not be in use.
func SurveyWAL(ctx context.Context, st objstore.Store, root string) ([]WALState, error) {
	ids, err := shardIDs(ctx, st, root)
	if err != nil {
		return nil, err
	}
	var out []WALState
	for _, id := range ids {
		m, err := newShardDir(st, root, id).latest(ctx)
		if errors.Is(err, errs.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s, err := surveyShard(ctx, st, newShardDir(st, root, id), m)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func surveyShard(ctx context.Context, st objstore.Store, dir shardDir, m *pb.ShardManifest) (WALState, error) {
	s := WALState{Shard: dir.id}
	r := inspect.NewReport("", "")
	list := shardView{st: st, r: r, path: dir.path}.listWAL(ctx)
	if err := r.Err(); err != nil {
		return s, err
	}
	next := m.ReplayAfterWalEntryPosition + 1
	s.Tip = m.ReplayAfterWalEntryPosition
	for _, o := range list {
		s.Tip = max(s.Tip, o.position)
		b, err := st.ReadAll(ctx, o.name, walReplayBytesMax)
		if err != nil && !errors.Is(err, errs.ErrLimit) {
			return s, err
		}
		var e wal.Entry
		if err == nil {
			e, err = wal.DecodeEntry(o.name, b)
		}
		lost := LostEntry{Position: o.position, Object: o.name, Rows: -1}
		if err == nil {
			lost.Generation, lost.Journal, lost.Sentinel, lost.Rows = e.Generation, e.Journal, e.Sentinel, 0
			for _, rec := range e.Batches {
				lost.Rows += rec.NumRows()
			}
			e.Release()
		}
		if o.position >= next && s.Damage == nil {
			switch {
			case o.position > next:
				name := wal.EntryName(dir.path, wal.Position(next))
				s.Damage = &WALDamage{Position: next, Object: name, Err: errs.Corrupt(name, -1, "WAL entry %d is missing but entry %d exists", next, o.position)}
			case err != nil:
				s.Damage = &WALDamage{Position: o.position, Object: o.name, Err: err}
			}
			next = o.position + 1
		}
		if s.Damage != nil && o.position >= s.Damage.Position {
			s.Damage.Lost = append(s.Damage.Lost, lost)
			continue
		}
		s.Evidence = max(s.Evidence, lost.Journal)
	}
	return s, nil
}

// Reaches notes damage if the WAL does not reach a position that it is known to have reached.
func (s *WALState) Reaches(root string, end uint64) {
	if s.Damage != nil || s.Tip >= end {
		return
	}
	dir := newShardDir(nil, root, s.Shard).path
	s.Damage = &WALDamage{Position: s.Tip + 1, Object: wal.EntryName(dir, wal.Position(s.Tip+1)), Err: walShort(dir, s.Tip, end)}
}

// walShort is the error of a WAL that ends at tip although it is known to have reached end.
func walShort(dir string, tip, end uint64) error {
	return errs.Corrupt(wal.EntryName(dir, wal.Position(tip+1)), -1, "WAL entries %d to %d are missing: their commits would be lost. A copy of a directory that is written "+
		"to meanwhile looks like this (take it under LOCK INSTANCE FOR BACKUP); lancesql recover --truncate-at-damage goes on without them", tip+1, end)
}

// ForgetWALTail makes the newest manifest of a shard say that no entry behind last was ever seen, after a recovery tool
// has set those aside.
func ForgetWALTail(ctx context.Context, st objstore.Store, root string, shard uuid.UUID, last uint64) error {
	dir := newShardDir(st, root, shard)
	m, err := dir.latest(ctx)
	if errors.Is(err, errs.ErrNotFound) {
		return nil
	}
	if err != nil || m.WalEntryPositionLastSeen <= last {
		return err
	}
	_, err = dir.update(ctx, m.WriterEpoch, func(m *pb.ShardManifest) error {
		m.WalEntryPositionLastSeen = max(last, m.ReplayAfterWalEntryPosition)
		return nil
	})
	if err != nil {
		return fmt.Errorf("shard %s: %w", shard, err)
	}
	return nil
}

// replayStopped adds to damage met in a replay what it means.
func replayStopped(err error) error {
	if !errors.Is(err, errs.ErrCorruption) {
		return err
	}
	return fmt.Errorf("%w; this entry and those behind it would be lost: lancesql recover tells their rows, --truncate-at-damage sets them aside", err)
}
