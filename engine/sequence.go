package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/engine/journal"
	"lancesql/internal/arrowx"
	"lancesql/lsm"
)

// Sequence is a table's AUTO_INCREMENT counter or its hidden row id counter. Values are handed out outside
// transactions and never taken back; gaps are expected.
//
// loading is held over I/O and taken before mu: a commit that notes the value must not wait for a scan.
type Sequence struct {
	loading sync.Mutex

	mu     sync.Mutex
	loaded bool // the stored rows have been looked at, or the value was set
	known  bool // next comes from the journal
	next   uint64
}

// recover sets the value a journal record holds.
func (s *Sequence) recover(v uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.known = v, true
}

// current returns the next value; ok is false while nobody has used the sequence.
func (s *Sequence) current() (v uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, s.loaded
}

// Peek returns the value Next would hand out.
func (s *Sequence) Peek() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Next hands out a value. given = 0 asks for a new one; otherwise given is returned and the counter is moved
// past it if it is behind.
func (s *Sequence) Next(given uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if given == 0 {
		given = s.next
	}
	if given >= s.next {
		s.next = given
		if given != ^uint64(0) {
			s.next++
		}
	}
	return given
}

// Set makes v the next value, whether higher or lower.
func (s *Sequence) Set(v uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = v
}

// AutoIncrement returns the counter of the table's AUTO_INCREMENT column. At first use it goes on where the journal
// says, or at the table's declared start if it was never used, and in any case after the greatest stored value.
func (e *Engine) AutoIncrement(ctx context.Context, tbl *TableEntry) (*Sequence, error) {
	s := e.counters.of(tbl.ID, journal.AutoIncrement)
	return s, s.load(ctx, e, tbl, tbl.AutoColumn, max(tbl.NextAuto, 1))
}

// NextRowID hands out the next hidden row id of a table without a primary key of its own.
func (t *Txn) NextRowID(ctx context.Context, tbl *TableEntry) (int64, error) {
	ot, err := t.e.openTable(ctx, tbl)
	if err != nil {
		return 0, err
	}
	s := t.e.counters.of(tbl.ID, journal.RowID)
	if err := s.load(ctx, t.e, tbl, ot.keyCols[0], 1); err != nil {
		return 0, err
	}
	return int64(s.Next(0)), nil
}

// load finds the greatest value of the column once.
func (s *Sequence) load(ctx context.Context, e *Engine, tbl *TableEntry, column int, start uint64) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if _, loaded := s.current(); loaded {
		return nil
	}
	greatest, err := e.greatest(ctx, tbl, column)
	if err != nil {
		return fmt.Errorf("find greatest value: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		s.next = max(start, s.next)
	}
	if greatest >= s.next && greatest != ^uint64(0) {
		s.next = greatest + 1
	}
	s.loaded = true
	return nil
}

// greatest returns the greatest positive value of an integer or float column, 0 if there is none.
func (e *Engine) greatest(ctx context.Context, tbl *TableEntry, column int) (uint64, error) {
	t := e.Begin(TxnOptions{ReadOnly: true})
	defer t.Rollback()
	r, err := t.Scan(ctx, tbl, Current, lsm.ScanSpec{Columns: []int{column}})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var top uint64
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return top, nil
		}
		if err != nil {
			return 0, err
		}
		top = max(top, greatestOf(rec.Column(0)))
		rec.Release()
	}
}

func greatestOf(a arrow.Array) uint64 {
	var top uint64
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		top = max(top, positive(arrowx.Value(a, i)))
	}
	return top
}

func positive(v any) uint64 {
	switch v := v.(type) {
	case int8:
		return uint64(max(v, 0))
	case int16:
		return uint64(max(v, 0))
	case int32:
		return uint64(max(v, 0))
	case int64:
		return uint64(max(v, 0))
	case uint8:
		return uint64(v)
	case uint16:
		return uint64(v)
	case uint32:
		return uint64(v)
	case uint64:
		return v
	case float32:
		return uint64(max(v, 0))
	case float64:
		return uint64(max(v, 0))
	}
	return 0
}

// TableStats is a cheap, inexact size of a table.
type TableStats struct {
	Rows  uint64 // estimate: base rows plus pending rows, pending deletes not subtracted
	Bytes uint64 // data file bytes of the base plus MemTable bytes
}

// Stats estimates the size of a table.
func (e *Engine) Stats(ctx context.Context, tbl *TableEntry) (TableStats, error) {
	ot, err := e.openTable(ctx, tbl)
	if err != nil {
		return TableStats{}, err
	}
	rows, bytes := ot.table.Size()
	return TableStats{Rows: rows, Bytes: bytes}, nil
}
