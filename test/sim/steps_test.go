package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lancesql/engine"
	"lancesql/engine/sched"
	"lancesql/internal/errs"
	"lancesql/internal/objstore/faultfs"
	"lancesql/internal/objstore/faultstore"
	"lancesql/lance/table"
)

// step does one random thing, then compares.
func (w *world) step(ctx context.Context) error {
	var err error
	switch n := w.rng.IntN(200); {
	case n < 62:
		err = w.transaction(ctx, w.anyTables())
	case n < 70:
		err = w.slowStep(ctx)
	case n < 76:
		err = w.openView(ctx)
	case n < 80:
		w.note("view released", "")
		if len(w.views) > 0 {
			w.views[0].txn.Rollback()
			w.views = w.views[1:]
		}
	case n < 96:
		err = w.jobs(ctx)
	case n < 128:
		err = w.upkeep(ctx)
	case n < 133:
		err = w.freshness(ctx)
	case n < 137:
		err = w.flushTables(ctx)
	case n < 151:
		err = w.outside(ctx)
	case n < 156:
		err = w.secondClaimant(ctx)
	case n < 162:
		err = w.wake(ctx)
	case n < 166:
		err = w.rebuild(ctx)
	case n < 170:
		err = w.scratch(ctx)
	case n < 180:
		err = w.faulty(ctx)
	case n < 184:
		err = w.diskFault(ctx)
	case n < 188:
		err = w.restart(ctx)
	case n < 194 && !w.armed:
		w.armed = true
		w.note("crash armed", "")
		w.fs.Reset(faultfs.Plan{CrashAt: 1 + int64(w.rng.IntN(60))})
	default:
		w.fs.Crash()
		err = w.crash(ctx)
	}
	if err == nil {
		// Why here: what fails after it took effect tells nobody, and the next step may call a planned crash off.
		err = w.after(ctx, "step", nil)
	}
	if err != nil {
		return err
	}
	return w.check(ctx)
}

// disarm gives up a planned crash: what comes next must not be halved.
func (w *world) disarm() {
	if w.armed {
		w.armed = false
		w.fs.Reset(faultfs.Plan{})
	}
}

func (w *world) anyTables() []string {
	i := w.rng.IntN(len(tableNames))
	list := []string{tableNames[i]}
	if w.rng.IntN(2) == 0 {
		list = append(list, tableNames[(i+1)%len(tableNames)])
		if w.rng.IntN(3) == 0 {
			list = append(list, tableNames[(i+2)%len(tableNames)])
		}
	}
	return list
}

// draw is a new row; now and then with a value that another row has in the unique index.
func (w *world) draw(in state, table string) cell {
	w.serial++
	c := cell{v: fmt.Sprint("v", w.serial), n: int32(w.serial), has: true}
	switch {
	case w.serial%5 == 0:
		c.n, c.has = 0, false
	case table != "hashed":
		c.n = int32(w.serial % 17)
	case w.rng.IntN(8) == 0:
		for _, id := range sorted(in[table]) {
			if other := in[table][id]; other.has {
				c.n, c.has = other.n, true
			}
		}
	}
	return c
}

// touched are the keys that a transaction wrote, by table.
type touched map[string]map[int64]bool

func (t touched) add(table string, id int64) {
	if t[table] == nil {
		t[table] = map[int64]bool{}
	}
	t[table][id] = true
}

// statements makes n random changes in the transaction and in s, which it returns changed. A row that somebody else holds
// is errs.ErrLockTimeout; the transaction must be rolled back then.
func (w *world) statements(ctx context.Context, t *engine.Txn, s state, tables []string, n int, keys touched) (state, error) {
	s = s.clone()
	w.refused = touched{}
	for range n {
		table := tables[w.rng.IntN(len(tables))]
		id := w.rng.Int64N(keysOf(table))
		t.BeginStatement()
		if w.rng.IntN(4) == 0 {
			old, isThere := s[table][id]
			row, found, err := t.Get(ctx, w.table(table), w.key(id), []int{colID, colV, colN})
			if err != nil {
				return s, err
			}
			// Why only then: without its lock a row may be changed by the slow writer.
			if found != isThere || found && cellOf(row) != old {
				return s, wrongf("point read of %s[%d]: %v %v, should be %v %+v", table, id, found, row, isThere, old)
			}
			if !found {
				continue
			}
			if err := t.Delete(ctx, w.table(table), row); err != nil {
				return s, err
			}
			delete(s[table], id)
			keys.add(table, id)
			continue
		}
		c := w.draw(s, table)
		clash := false
		if table == "hashed" && c.has {
			for other, o := range s[table] {
				clash = clash || other != id && o.has && o.n == c.n
			}
		}
		err := t.Insert(ctx, w.table(table), c.row(id))
		var dup *engine.DuplicateKeyError
		if errors.As(err, &dup) && dup.Index == "" {
			if cellOf(dup.Existing) != s[table][id] {
				return s, wrongf("existing row of %s[%d]: %v, should be %+v", table, id, dup.Existing, s[table][id])
			}
			dup = nil
			if err = t.Update(ctx, w.table(table), s[table][id].row(id), c.row(id)); err != nil {
				errors.As(err, &dup)
			}
		}
		switch {
		case dup != nil && clash && dup.Index == uniqueIndex:
			w.count["duplicate refused"]++
			w.refused.add(table, id) // its lock stays until the transaction ends, as that of the row with the value
			w.refused.add(table, dup.Existing[colID].(int64))
			continue
		case err != nil:
			return s, err
		case clash:
			return s, wrongf("%s[%d] with a value of the unique index that is taken", table, id)
		}
		s[table][id] = c
		keys.add(table, id)
	}
	return s, nil
}

// transaction runs and ends one transaction over the tables, with savepoints.
func (w *world) transaction(ctx context.Context, tables []string) error {
	kind := "transaction"
	if len(tables) > 1 {
		kind = "transaction over tables"
	}
	w.note(kind, "%v", tables)
	opts := engine.TxnOptions{}
	if w.rng.IntN(3) == 0 {
		opts.Isolation = engine.ReadCommitted
	}
	t := w.e.Begin(opts)
	defer t.Rollback()
	keys := touched{}
	next, err := w.statements(ctx, t, w.now, tables, 1+w.rng.IntN(4), keys)
	if err == nil && w.rng.IntN(3) == 0 {
		w.note("savepoint", "")
		t.Savepoint("s")
		if _, err = w.statements(ctx, t, next, tables, 1+w.rng.IntN(3), touched{}); err == nil {
			err = t.RollbackToSavepoint("s")
		}
		if err == nil {
			next, err = w.statements(ctx, t, next, tables, w.rng.IntN(3), keys)
		}
	}
	if err != nil {
		if errors.Is(err, errs.ErrLockTimeout) && w.slow != nil {
			w.count["lock timeout"]++
			return nil
		}
		return w.failed(ctx, "statement", err)
	}
	if w.rng.IntN(8) == 0 {
		w.note("rollback", "")
		t.Rollback()
		return nil
	}
	return w.commit(ctx, t, next, keys)
}

// put commits one row.
func (w *world) put(ctx context.Context, table string, id int64) error {
	t := w.e.Begin(engine.TxnOptions{})
	defer t.Rollback()
	w.serial++
	c := cell{v: fmt.Sprint("v", w.serial)}
	next := w.now.clone()
	next[table][id] = c
	var err error
	if old, is := w.now[table][id]; is {
		err = t.Update(ctx, w.table(table), old.row(id), c.row(id))
	} else {
		err = t.Insert(ctx, w.table(table), c.row(id))
		var dup *engine.DuplicateKeyError
		if errors.As(err, &dup) { // of another writer, whose rows this very statement brought into sight
			err = t.Update(ctx, w.table(table), dup.Existing, c.row(id))
		}
	}
	if err != nil {
		return w.failed(ctx, "put", err)
	}
	return w.commit(ctx, t, next, touched{table: {id: true}})
}

// commit ends t, which makes the tables next.
func (w *world) commit(ctx context.Context, t *engine.Txn, next state, keys touched) error {
	if err := t.Commit(ctx); err != nil {
		w.maybe = append(w.maybe, next)
		for table, ids := range keys {
			for id := range ids {
				w.loose[table][id] = true // if recovery finds that it happened
			}
		}
		err = w.failed(ctx, "commit", err)
		w.maybe = nil
		return err
	}
	before := w.now
	w.now = next
	for table, ids := range keys {
		for id := range ids {
			_, was := before[table][id]
			if _, is := next[table][id]; !was && !is {
				continue // a row that came and went within the transaction leaves nothing behind
			}
			w.firm[table][id], w.loose[table][id] = true, true
			if w.between != nil {
				w.between[id] = true
			}
		}
	}
	return nil
}

// slowWriter is a transaction that stays open over steps of others.
type slowWriter struct {
	txn  *engine.Txn
	keys touched
	also touched // keys that it holds without having written them
	put  state   // all rows as it saw them at its end
}

// slowStep begins such a transaction, or ends it.
func (w *world) slowStep(ctx context.Context) error {
	if w.slow != nil {
		return w.endSlow(ctx)
	}
	w.note("slow writer", "")
	t := w.e.Begin(engine.TxnOptions{})
	keys := touched{}
	next, err := w.statements(ctx, t, w.now, w.anyTables(), 1+w.rng.IntN(3), keys)
	if err != nil {
		t.Rollback()
		return w.failed(ctx, "statement", err)
	}
	w.slow = &slowWriter{txn: t, keys: keys, also: w.refused, put: next}
	return nil
}

func (w *world) endSlow(ctx context.Context) error {
	s := w.slow
	w.slow = nil
	defer s.txn.Rollback()
	if w.rng.IntN(2) == 0 {
		w.note("slow rollback", "")
		s.txn.Rollback()
		return nil
	}
	w.note("slow commit", "")
	next := w.now.clone()
	for table, ids := range s.keys {
		for id := range ids {
			delete(next[table], id)
			if c, ok := s.put[table][id]; ok {
				next[table][id] = c
			}
		}
	}
	return w.commit(ctx, s.txn, next, s.keys)
}

func (w *world) openView(ctx context.Context) error {
	if len(w.views) >= 3 {
		return nil
	}
	w.note("view", "")
	t := w.e.Begin(engine.TxnOptions{ReadOnly: true})
	t.TakeView()
	t.BeginStatement()
	w.views = append(w.views, view{t, w.now})
	if _, err := w.readAll(ctx, t); err != nil {
		return w.failed(ctx, "read of a new view", err)
	}
	return nil
}

// jobs runs some of the background jobs that are due.
func (w *world) jobs(ctx context.Context) error {
	n := 1 + w.rng.IntN(8)
	w.note("jobs", "%d", n)
	for range n {
		w.e.RunJob()
	}
	w.forgetFirm()
	return w.after(ctx, "jobs", nil)
}

// after looks whether what was done ended in a crash.
func (w *world) after(ctx context.Context, what string, err error) error {
	if err != nil || w.fs.Crashed() || w.e.Failed() != nil {
		return w.failed(ctx, what, err)
	}
	return nil
}

func (w *world) upkeep(ctx context.Context) error {
	table := w.pick()
	entry := w.table(table)
	if n := w.rng.IntN(7); n < 2 {
		w.note("freeze", "%s", table)
		return w.after(ctx, "freeze", w.e.Freeze(ctx, entry))
	}
	kind := []sched.Kind{sched.WriteBehind, sched.Flush, sched.Trim, sched.Merge, sched.Cleanup, sched.Flush, sched.Merge}[w.rng.IntN(7)]
	w.note(kind.String(), "%s", table)
	if kind == sched.Merge {
		w.firm[table] = map[int64]bool{}
	}
	return w.after(ctx, kind.String(), w.e.RunUpkeep(ctx, entry, kind))
}

func (w *world) freshness(ctx context.Context) error {
	w.clock.Advance(time.Duration(20+w.rng.IntN(60)) * time.Second)
	if w.e.RunFreshness(ctx) {
		w.note("freshness drain", "")
	}
	w.forgetFirm()
	return w.after(ctx, "freshness", nil)
}

// flushTables drains a table and compares the base, as another reader sees it.
func (w *world) flushTables(ctx context.Context) error {
	table := w.pick()
	w.note("flush tables", "%s", table)
	w.forgetFirm()
	if err := w.e.FlushTables(ctx, []engine.TableID{w.table(table).ID}); err != nil {
		return w.failed(ctx, "flush tables", err)
	}
	w.drained(table)
	return w.checkBase(ctx, table)
}

func (w *world) checkBase(ctx context.Context, name string) error {
	st, err := w.raw()
	if err != nil {
		return w.failed(ctx, "open the store", err)
	}
	ds, err := table.Open(ctx, st, w.table(name).Path)
	if err != nil {
		return w.failed(ctx, "open the base", err)
	}
	r, err := ds.Rows(ctx, table.ScanOptions{Columns: []string{"id", "v", "n"}})
	if err != nil {
		return w.failed(ctx, "scan the base", err)
	}
	got, err := collect(r)
	if err != nil {
		return w.failed(ctx, "scan the base", err)
	}
	if text := difference(state{name: got}, state{name: w.now[name]}); text != "" {
		return wrongf("base of %s after it was drained: %s", name, text)
	}
	return nil
}

// rebuild puts a new table with the same rows in the place of one, as ALTER TABLE does.
func (w *world) rebuild(ctx context.Context) error {
	w.drop()
	name := w.pick()
	w.rebuilt++
	w.note("rebuild", "%s", name)
	a := w.e.Alter()
	r, err := a.Rebuild(ctx, w.table(name), simDef(name, w.rebuilt))
	if err != nil {
		return w.failed(ctx, "rebuild", err)
	}
	for _, id := range sorted(w.now[name]) {
		if err := r.Insert(ctx, w.now[name][id].row(id)); err != nil {
			_ = r.Abort(ctx)
			return w.failed(ctx, "insert into a rebuilt table", err)
		}
	}
	if w.rng.IntN(4) == 0 {
		w.note("rebuild given up", "")
		return w.after(ctx, "abort", r.Abort(ctx))
	}
	for _, s := range w.stalled {
		s.close(ctx)
	}
	w.stalled = nil
	w.forgetFirm()
	err = r.Commit(ctx)
	if err == nil {
		err = a.Commit(ctx)
	}
	if err != nil {
		return w.failed(ctx, "commit of a rebuilt table", err)
	}
	w.drained(name)
	return nil
}

// scratch makes a table, writes to it together with another, and drops it.
func (w *world) scratch(ctx context.Context) error {
	w.note("create and drop", "")
	if w.table("scratch") == nil {
		if _, err := w.e.CreateTable(ctx, "db", "scratch", simDef("plain", 0)); err != nil {
			return w.failed(ctx, "create", err)
		}
	}
	t := w.e.Begin(engine.TxnOptions{})
	defer t.Rollback()
	keys := touched{}
	next, err := w.statements(ctx, t, w.now, []string{"plain"}, 2, keys)
	if err == nil {
		err = t.Insert(ctx, w.table("scratch"), w.draw(next, "plain").row(int64(w.serial)))
	}
	if errors.Is(err, errs.ErrLockTimeout) && w.slow != nil {
		t.Rollback()
	} else if err != nil {
		return w.failed(ctx, "write", err)
	} else if err := w.commit(ctx, t, next, keys); err != nil {
		return err
	}
	if w.table("scratch") == nil {
		return nil // a crash came between
	}
	return w.after(ctx, "drop", w.e.DropTable(ctx, "db", "scratch"))
}

// faulty does something while one of the store's next operations fails, is late, or fails although it took effect.
func (w *world) faulty(ctx context.Context) error {
	f := faultstore.Fault{At: 1 + int64(w.rng.IntN(14))}
	switch w.rng.IntN(5) {
	case 0, 1:
		f.Action = faultstore.Fail
	case 2, 3:
		f.Action = faultstore.Ambiguous
	default:
		f.Action, f.Wait = faultstore.Delay, 3*time.Second
	}
	w.note([]string{faultstore.Fail: "store fails", faultstore.Ambiguous: "store is ambiguous", faultstore.Delay: "store is slow"}[f.Action], "at %d", f.At)
	w.store.Reset(faultstore.Plan{Faults: []faultstore.Fault{f}, CountReads: w.rng.IntN(4) == 0, Sleep: func(_ context.Context, d time.Duration) error {
		w.clock.Advance(d)
		return nil
	}})
	return w.anything(ctx)
}

// anything is what may meet a fault.
func (w *world) anything(ctx context.Context) error {
	switch w.rng.IntN(8) {
	case 0, 1:
		return w.transaction(ctx, w.anyTables())
	case 2:
		return w.flushTables(ctx)
	case 3:
		return w.jobs(ctx)
	case 4:
		return w.freshness(ctx)
	case 5:
		return w.rebuild(ctx)
	case 6:
		return w.scratch(ctx)
	default:
		return w.upkeep(ctx)
	}
}

// diskFault does something while a call of the filesystem fails, syncs included; then the process dies.
func (w *world) diskFault(ctx context.Context) error {
	w.armed = false
	w.note("disk fails", "")
	w.fs.Reset(faultfs.Plan{FailAt: 1 + int64(w.rng.IntN(16))})
	err := w.anything(ctx)
	var wrong *mismatch
	if errors.As(err, &wrong) {
		return err
	}
	w.fs.Crash()
	return w.crash(ctx)
}

// restart closes the engine and opens it again.
func (w *world) restart(ctx context.Context) error {
	w.note("restart", "")
	w.drop()
	err := w.e.Close(ctx)
	if err == nil {
		err = w.open(ctx)
	}
	if err != nil {
		if w.fs.Crashed() {
			return w.crash(ctx)
		}
		return fmt.Errorf("restart: %w", err)
	}
	w.forgetFirm()
	return nil
}
