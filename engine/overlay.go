package engine

import (
	"slices"

	"lancesql/internal/arrowx"
	"lancesql/internal/rowkey"
)

// overlay is a transaction's own writes, by table and key, each operation under the mark at which it was made.
//
// Invariant: the operations of one key are in ascending mark order; log lists every operation in mark order,
// so that a rollback truncates from the end.
type overlay struct {
	next   Mark // mark of the next operation; marks start at 1
	tables map[TableID]*tableOverlay
	log    []overlayRef
}

type tableOverlay struct {
	entry *TableEntry
	keys  map[rowkey.Key][]overlayOp
}

// overlayOp is one write; a nil row deletes the key.
type overlayOp struct {
	mark Mark
	row  arrowx.Row
}

type overlayRef struct {
	table *tableOverlay
	key   rowkey.Key
}

// mark is the position after the last write.
func (o *overlay) mark() Mark { return o.next }

func (o *overlay) write(t *TableEntry, k rowkey.Key, row arrowx.Row) {
	if o.tables == nil {
		o.tables = make(map[TableID]*tableOverlay)
	}
	to := o.tables[t.ID]
	if to == nil {
		to = &tableOverlay{entry: t, keys: make(map[rowkey.Key][]overlayOp)}
		o.tables[t.ID] = to
	}
	o.next++
	to.keys[k] = append(to.keys[k], overlayOp{mark: o.next, row: row})
	o.log = append(o.log, overlayRef{table: to, key: k})
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
	for o.next > m {
		ref := o.log[len(o.log)-1]
		o.log = o.log[:len(o.log)-1]
		ops := ref.table.keys[ref.key]
		if len(ops) == 1 {
			delete(ref.table.keys, ref.key)
		} else {
			ref.table.keys[ref.key] = ops[:len(ops)-1]
		}
		o.next--
	}
}

func (o *overlay) clear() { *o = overlay{next: o.next} }

// dirty lists the tables with at least one write.
func (o *overlay) dirty() []*tableOverlay {
	var out []*tableOverlay
	for _, t := range o.tables {
		if len(t.keys) > 0 {
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
