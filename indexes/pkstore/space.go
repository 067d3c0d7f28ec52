package pkstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

const (
	spaceLen = 8 // space id, big endian
	rowLen   = 8 // complement of the row position, big endian
)

// tombstoneValue marks the entry of a tombstone row; other rows have an empty value.
const tombstoneValue = 1

// Space is the key space of one MemTable. All methods are safe for concurrent use.
type Space struct {
	s       *Store
	id      uint64
	dropped atomic.Bool
}

// Hit is one row of a key.
type Hit struct {
	Row       uint64
	Tombstone bool
}

// appendEntry appends the stored form of (k, row).
func (sp *Space) appendEntry(dst []byte, k rowkey.Key, row uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, sp.id)
	dst = append(dst, k...)
	return binary.BigEndian.AppendUint64(dst, ^row)
}

// parse splits a stored entry; the key aliases b.
func parse(b []byte) (key []byte, row uint64, err error) {
	if len(b) < spaceLen+rowLen {
		return nil, 0, errs.Corrupt("<key store>", -1, "entry of %d bytes", len(b))
	}
	return b[spaceLen : len(b)-rowLen], ^binary.BigEndian.Uint64(b[len(b)-rowLen:]), nil
}

func (sp *Space) enter() error {
	if sp.dropped.Load() {
		return fmt.Errorf("key space %d: %w", sp.id, errs.ErrClosed)
	}
	return sp.s.enter()
}

// Put adds one entry per key, all or none; tombstone nil means all false. rows[i] is the position of the row
// with keys[i]; the same (key, row) again replaces its flag. errs.ErrInvalid when the lengths differ,
// errs.ErrClosed after Drop or Close.
func (sp *Space) Put(keys []rowkey.Key, rows []uint64, tombstone []bool) (err error) {
	if len(rows) != len(keys) || tombstone != nil && len(tombstone) != len(keys) {
		return fmt.Errorf("put %d keys with %d rows and %d flags: %w", len(keys), len(rows), len(tombstone), errs.ErrInvalid)
	}
	if err := sp.enter(); err != nil {
		return err
	}
	defer sp.s.leave(&err)
	size := 0
	for _, k := range keys {
		size += len(k) + spaceLen + rowLen + 4
	}
	b := sp.s.db.NewBatchWithSize(size + 16)
	defer func() { _ = b.Close() }()
	for i := range keys {
		var value []byte
		if tombstone != nil && tombstone[i] {
			value = []byte{tombstoneValue}
		}
		op := b.SetDeferred(spaceLen+len(keys[i])+rowLen, len(value))
		sp.appendEntry(op.Key[:0], keys[i], rows[i])
		copy(op.Value, value)
		if err := op.Finish(); err != nil {
			return fmt.Errorf("key space %d: %w", sp.id, err)
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("key space %d: %w", sp.id, err)
	}
	return nil
}

// bounds returns the stored bounds of all entries of the space.
func (sp *Space) bounds() (lower, upper []byte) {
	return binary.BigEndian.AppendUint64(nil, sp.id), binary.BigEndian.AppendUint64(nil, sp.id+1)
}

// iter opens an iterator over the entries with lower <= entry < upper (nil = end of the space).
func (sp *Space) iter(lower, upper []byte) (*pebble.Iterator, error) {
	if upper == nil {
		_, upper = sp.bounds()
	}
	it, err := sp.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper, KeyTypes: pebble.IterKeyTypePointsOnly})
	if err != nil {
		return nil, fmt.Errorf("key space %d: %w", sp.id, err)
	}
	return it, nil
}

// Newest returns the greatest row of k below below, and whether it is a tombstone; ok is false without one.
func (sp *Space) Newest(k rowkey.Key, below uint64) (row uint64, tombstone, ok bool, err error) {
	if below == 0 {
		return 0, false, false, nil
	}
	if err := sp.enter(); err != nil {
		return 0, false, false, err
	}
	defer sp.s.leave(&err)
	lower := sp.appendEntry(make([]byte, 0, spaceLen+len(k)+rowLen), k, below-1)
	upper := append(sp.appendEntry(make([]byte, 0, len(lower)+1), k, 0), 0) // just above the oldest row
	it, err := sp.iter(lower, upper)
	if err != nil {
		return 0, false, false, err
	}
	defer func() { _ = it.Close() }()
	return seek(it, lower, k)
}

// seek returns the first entry at or above from if it belongs to k.
func seek(it *pebble.Iterator, from []byte, k rowkey.Key) (row uint64, tombstone, ok bool, err error) {
	if !it.SeekGE(from) {
		return 0, false, false, it.Error()
	}
	key, row, err := parse(it.Key())
	if err != nil || string(key) != string(k) {
		return 0, false, false, err
	}
	return row, len(it.Value()) > 0, true, nil
}

// NewestOf looks many keys up with one iterator: visit gets the position i of each key that has a row below
// below, with the greatest such row. Keys in ascending order cost far less than in random order.
func (sp *Space) NewestOf(keys []rowkey.Key, below uint64, visit func(i int, h Hit) error) (err error) {
	if below == 0 || len(keys) == 0 {
		return nil
	}
	if err := sp.enter(); err != nil {
		return err
	}
	defer sp.s.leave(&err)
	lower, upper := sp.bounds()
	it, err := sp.iter(lower, upper)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	var from []byte
	for i, k := range keys {
		from = sp.appendEntry(from[:0], k, below-1)
		row, tombstone, ok, err := seek(it, from, k)
		if err != nil {
			return err
		}
		if ok {
			if err := visit(i, Hit{Row: row, Tombstone: tombstone}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rows returns all rows of k, descending; none is an empty slice.
func (sp *Space) Rows(k rowkey.Key) ([]Hit, error) {
	var hits []Hit
	err := sp.scan(k, func(key []byte, row uint64, tombstone bool) (bool, error) {
		if string(key) != string(k) {
			return false, nil
		}
		hits = append(hits, Hit{Row: row, Tombstone: tombstone})
		return true, nil
	})
	return hits, err
}

// Range visits the entries with lo <= key < hi ("" = open on that side), keys ascending, rows of a key
// descending, until visit returns false or an error. It sees the space as of the call. The bounds need not be
// whole keys. visit may call methods of the space.
func (sp *Space) Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (more bool, err error)) error {
	var last rowkey.Key // Why: rows of one key share one string
	return sp.scan(lo, func(key []byte, row uint64, tombstone bool) (bool, error) {
		if string(key) < string(lo) { // lo continues a stored key, whose row bytes happen to sort above it
			return true, nil
		}
		if hi != "" && string(key) >= string(hi) {
			return false, nil
		}
		if string(key) != string(last) || last == "" {
			last = rowkey.Key(key)
		}
		return visit(last, row, tombstone)
	})
}

// Backward is Range with keys descending. Rows of a key are descending as well.
func (sp *Space) Backward(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (more bool, err error)) (err error) {
	if err := sp.enter(); err != nil {
		return err
	}
	defer sp.s.leave(&err)
	lower, upper := sp.bounds()
	it, err := sp.iter(append(slices.Clip(lower), lo...), upper)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	var last rowkey.Key
	var rows []Hit // of last, ascending
	flush := func() (bool, error) {
		for _, h := range slices.Backward(rows) {
			if more, err := visit(last, h.Row, h.Tombstone); err != nil || !more {
				return false, err
			}
		}
		rows = rows[:0]
		return true, nil
	}
	ok, err := lastBelow(it, lower, hi)
	for ; ok && err == nil; ok = it.Prev() {
		key, row, err := parse(it.Key())
		if err != nil {
			return err
		}
		if string(key) < string(lo) { // as in Range
			break
		}
		if string(key) != string(last) || len(rows) == 0 {
			if more, err := flush(); err != nil || !more {
				return err
			}
			last = rowkey.Key(key)
		}
		rows = append(rows, Hit{Row: row, Tombstone: len(it.Value()) > 0})
	}
	if err := errors.Join(err, it.Error()); err != nil {
		return err
	}
	_, err = flush()
	return err
}

// lastBelow moves to the last entry of a key below hi ("" = of all). A key that hi continues may have its entries above hi.
func lastBelow(it *pebble.Iterator, space []byte, hi rowkey.Key) (ok bool, err error) {
	if hi == "" {
		return it.Last(), nil
	}
	at := append(slices.Clip(space), hi...)
	for ok = it.SeekGE(at); ok; ok = it.Next() {
		key, _, err := parse(it.Key())
		if err != nil {
			return false, err
		}
		if string(key) >= string(hi) {
			return it.Prev(), nil
		}
	}
	if err := it.Error(); err != nil {
		return false, err
	}
	return it.Last(), nil
}

// scan visits the entries at or above from; key aliases the iterator.
func (sp *Space) scan(from rowkey.Key, visit func(key []byte, row uint64, tombstone bool) (bool, error)) (err error) {
	if err := sp.enter(); err != nil {
		return err
	}
	defer sp.s.leave(&err)
	lower, upper := sp.bounds()
	it, err := sp.iter(append(slices.Clip(lower), from...), upper)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for ok := it.First(); ok; ok = it.Next() {
		key, row, err := parse(it.Key())
		if err != nil {
			return err
		}
		if more, err := visit(key, row, len(it.Value()) > 0); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// Drop frees everything in the space, which must not be used any more. Calls in progress end normally; a
// second Drop does nothing, and after Close there is nothing left to free.
func (sp *Space) Drop() (err error) {
	if sp.dropped.Swap(true) {
		return nil
	}
	if sp.s.enter() != nil {
		return nil
	}
	defer sp.s.leave(&err)
	lower, upper := sp.bounds()
	if err := sp.s.db.DeleteRange(lower, upper, pebble.NoSync); err != nil {
		return fmt.Errorf("drop key space %d: %w", sp.id, err)
	}
	return nil
}
