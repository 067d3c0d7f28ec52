package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// overlay is a transaction's own writes, by table and key, each operation under the mark at which it was made.
//
// Invariant: the operations of one key are in ascending mark order; log lists every operation in mark order,
// so that a rollback truncates from the end. Only the transaction changes it, and reads it without mu; others read its
// uncommitted insertions under mu (see inserted).
type overlay struct {
	mu      sync.Mutex
	writers *writers      // where others find the overlay by the tables it writes to; nil: nobody looks
	next    Mark          // mark of the next operation; marks start at 1
	bytes   int64         // what the operations hold, estimated
	limit   int64         // most bytes; 0 = none
	account *atomic.Int64 // the engine's sum of all overlays; nil: none
	tables  map[TableID]*tableOverlay
	log     []overlayRef
}

type tableOverlay struct {
	entry   *TableEntry
	keys    map[rowkey.Key][]overlayOp
	dropped bool // the table is no more: nothing of it is committed

	fresh  []rowkey.Key                // keys written since unique was brought up to date
	unique map[rowkey.Key][]rowkey.Key // value of a unique index -> keys written with it, some of them no more
}

// overlayOp is one write; a nil row deletes the key. found is what was stored under the key, if the writer has looked
// since it holds the key's lock. absent is set if it has and nothing was.
type overlayOp struct {
	mark   Mark
	row    arrowx.Row
	found  lsm.Place
	absent bool
}

type overlayRef struct {
	table *tableOverlay
	key   rowkey.Key
}

// mark is the position after the last write.
func (o *overlay) mark() Mark { return o.next }

// write adds an operation, whose mark it sets; errs.ErrLimit if the transaction holds too much then, and nothing is added.
func (o *overlay) write(t *TableEntry, k rowkey.Key, op overlayOp) error {
	size := operationBytes(k, op.row)
	if o.limit > 0 && o.bytes+size > o.limit {
		return fmt.Errorf("transaction holds %d MiB of changes, the most it may: %w", o.limit>>20, errs.ErrLimit)
	}
	o.charge(size)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tables == nil {
		o.tables = make(map[TableID]*tableOverlay)
	}
	to := o.tables[t.ID]
	if to == nil {
		to = &tableOverlay{entry: t, keys: make(map[rowkey.Key][]overlayOp)}
		o.tables[t.ID] = to
		o.writers.add(t.ID, o)
	}
	o.next++
	op.mark = o.next
	to.keys[k] = append(to.keys[k], op)
	if len(t.Indexes) > 0 {
		to.fresh = append(to.fresh, k)
	}
	o.log = append(o.log, overlayRef{table: to, key: k})
	return nil
}

// operationBytes estimates the memory of one operation with its places in map and log.
func operationBytes(k rowkey.Key, row arrowx.Row) int64 {
	const fixed = 224 // bytes: map entry, slice of operations, log entry
	n := int64(fixed + len(k) + 24*len(row))
	for _, cell := range row {
		switch v := cell.(type) {
		case string:
			n += int64(len(v))
		case []byte:
			n += int64(len(v))
		}
	}
	return n
}

// newest returns the last write of the key made at or before mark.
func (o *overlay) newest(id TableID, k rowkey.Key, upTo Mark) (overlayOp, bool) {
	to := o.tables[id]
	if to == nil {
		return overlayOp{}, false
	}
	return newestOp(to.keys[k], upTo)
}

func newestOp(ops []overlayOp, upTo Mark) (overlayOp, bool) {
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].mark <= upTo {
			return ops[i], true
		}
	}
	return overlayOp{}, false
}

// rollbackTo undoes every write made after m.
func (o *overlay) rollbackTo(m Mark) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.next > m {
		ref := o.log[len(o.log)-1]
		o.log = o.log[:len(o.log)-1]
		ops := ref.table.keys[ref.key]
		o.charge(-operationBytes(ref.key, ops[len(ops)-1].row))
		if len(ops) == 1 {
			delete(ref.table.keys, ref.key)
		} else {
			ref.table.keys[ref.key] = ops[:len(ops)-1]
		}
		o.next--
	}
}

// charge changes what the operations hold.
func (o *overlay) charge(n int64) {
	o.bytes += n
	if o.account != nil {
		o.account.Add(n)
	}
}

func (o *overlay) clear() {
	o.charge(-o.bytes)
	for id := range o.tables {
		o.writers.remove(id, o)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tables, o.log = nil, nil
}

// inserted lists the rows that the transaction has put where none was, and that no other one sees yet, by key. Others call it.
func (o *overlay) inserted(id TableID, wanted func(rowkey.Key) bool, into map[rowkey.Key]arrowx.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := o.tables[id]
	if to == nil || to.dropped {
		return
	}
	for k, ops := range to.keys {
		if last := ops[len(ops)-1]; ops[0].absent && last.row != nil && wanted(k) {
			into[k] = last.row
		}
	}
}

// dirty lists the tables with at least one write.
func (o *overlay) dirty() []*tableOverlay {
	var out []*tableOverlay
	for _, t := range o.tables {
		if len(t.keys) > 0 && !t.dropped {
			out = append(out, t)
		}
	}
	return out
}

// visible returns the keys written at or before upTo, ascending, each with its newest row (nil = deleted).
func (t *tableOverlay) visible(upTo Mark) ([]rowkey.Key, []arrowx.Row) {
	keys := make([]rowkey.Key, 0, len(t.keys))
	for k, ops := range t.keys {
		if _, ok := newestOp(ops, upTo); ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	rows := make([]arrowx.Row, len(keys))
	for i, k := range keys {
		op, _ := newestOp(t.keys[k], upTo)
		rows[i] = op.row
	}
	return keys, rows
}

// ops returns the last write of each key, ascending.
func (t *tableOverlay) ops() []lsm.Op {
	out := make([]lsm.Op, 0, len(t.keys))
	for k, ops := range t.keys {
		last := ops[len(ops)-1]
		out = append(out, lsm.Op{Key: k, Row: last.row, Found: last.found})
	}
	slices.SortFunc(out, func(a, b lsm.Op) int { return cmp.Compare(a.Key, b.Key) })
	return out
}
