package engine

import (
	"slices"
	"sync"

	"lancesql/internal/arrowx"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// writers are the running transactions by the tables they have written to.
type writers struct {
	mu      sync.Mutex
	byTable map[TableID][]*overlay
}

func (w *writers) add(id TableID, o *overlay) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byTable == nil {
		w.byTable = make(map[TableID][]*overlay)
	}
	w.byTable[id] = append(w.byTable[id], o)
}

func (w *writers) remove(id TableID, o *overlay) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.DeleteFunc(w.byTable[id], func(x *overlay) bool { return x == o })
	if len(left) == 0 {
		delete(w.byTable, id)
		return
	}
	w.byTable[id] = left
}

// besides are the transactions other than o's that have written to the table.
func (w *writers) besides(id TableID, o *overlay) []*overlay {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.byTable[id]), func(x *overlay) bool { return x == o })
}

// uncommitted are the rows that other transactions have inserted and not committed, of those a scan may return.
func (t *Txn) uncommitted(tbl *TableEntry, spec lsm.ScanSpec) map[rowkey.Key]arrowx.Row {
	others := t.e.writers.besides(tbl.ID, &t.overlay)
	if len(others) == 0 {
		return nil
	}
	keys := make(map[rowkey.Key]struct{}, len(spec.Keys))
	for _, k := range spec.Keys {
		keys[k] = struct{}{}
	}
	wanted := func(k rowkey.Key) bool {
		if r := spec.Range; r != nil && (k < r.Lo || r.Hi != "" && k >= r.Hi) {
			return false
		}
		_, ok := keys[k]
		return ok || spec.Keys == nil
	}
	rows := make(map[rowkey.Key]arrowx.Row)
	for _, o := range others {
		o.inserted(tbl.ID, wanted, rows)
	}
	return rows
}

// withUncommitted adds rows of other transactions to own ones, which hide them.
func withUncommitted(own *lsm.Overlay, others map[rowkey.Key]arrowx.Row) *lsm.Overlay {
	if len(others) == 0 {
		return own
	}
	all := make(map[rowkey.Key]arrowx.Row, len(others))
	for k, row := range others {
		all[k] = row
	}
	if own != nil {
		for i, k := range own.Keys {
			all[k] = own.Rows[i]
		}
	}
	out := &lsm.Overlay{Keys: make([]rowkey.Key, 0, len(all)), Rows: make([]arrowx.Row, 0, len(all))}
	for k := range all {
		out.Keys = append(out.Keys, k)
	}
	slices.Sort(out.Keys)
	for _, k := range out.Keys {
		out.Rows = append(out.Rows, all[k])
	}
	return out
}
