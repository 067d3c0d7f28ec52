package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"lancesql/engine"
	"lancesql/engine/sched"
	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/pkstore"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// effect is what an outside commit does to a key that nothing of ours holds; nil = the row is gone.
type effect map[int64]*cell

// outside commits to a base table as another Lance writer would, lets our own commits go on, and has it adopted in one
// way or another. Of equal keys ours win, wherever they are.
func (w *world) outside(ctx context.Context) error {
	w.disarm()
	name := w.pick()
	if w.rng.IntN(2) == 0 {
		if err := w.e.FlushTables(ctx, []engine.TableID{w.table(name).ID}); err != nil {
			return fmt.Errorf("drain before an outside commit: %w", err)
		}
		w.drained(name)
	}
	st, err := w.raw()
	if err != nil {
		return err
	}
	ds, err := table.Open(ctx, st, w.table(name).Path)
	if err != nil {
		return err
	}
	var changed effect
	kind := []string{"append", "append", "delete", "update", "compact", "config", "index", "overwrite"}[w.rng.IntN(8)]
	w.note("outside "+kind, "%s", name)
	overwritten := kind == "overwrite"
	switch kind {
	case "append":
		changed, err = w.outsideAppend(ctx, ds, name)
	case "delete":
		changed, err = w.outsideDelete(ctx, ds, name)
	case "update":
		changed, err = w.outsideUpdate(ctx, ds, name)
	case "compact":
		_, _, err = ds.Compact(ctx, table.CompactOptions{FragmentRows: 1000, DeferRemap: w.rng.IntN(2) == 0})
	case "config":
		_, err = ds.Commit(ctx, table.UpdateConfig{Config: &table.MapUpdate{Set: map[string]string{"x": fmt.Sprint(w.serial)}}})
	case "index":
		err = outsideIndex(ctx, st, ds, fmt.Sprint("theirs", w.serial))
	case "overwrite":
		if w.slow != nil { // Why: what it holds would be gone or not by the moment of its commit
			w.slow.txn.Rollback()
			w.slow = nil
		}
		changed, err = w.outsideOverwrite(ctx, ds, name)
	}
	if err != nil {
		return fmt.Errorf("outside %s: %w", kind, err)
	}
	w.between = map[int64]bool{}
	defer func() { w.between = nil }()
	if !overwritten || w.rng.IntN(2) == 0 {
		for range w.rng.IntN(3) {
			if err := w.transaction(ctx, []string{name}); err != nil {
				return err
			}
		}
		if w.rng.IntN(3) == 0 {
			if err := errors.Join(w.e.Freeze(ctx, w.table(name)), w.e.RunUpkeep(ctx, w.table(name), sched.Flush)); err != nil {
				return fmt.Errorf("flush beside an outside commit: %w", err)
			}
		}
	}
	w.now = w.now.clone()
	if overwritten {
		w.now[name] = rows{}
		w.drained(name)
	}
	for id, c := range changed {
		switch {
		case !overwritten && w.between[id]:
		case c == nil:
			delete(w.now[name], id)
		default:
			w.now[name][id] = *c
		}
	}
	return w.takeIn(ctx, name)
}

// takeIn brings an outside commit into the engine.
func (w *world) takeIn(ctx context.Context, name string) error {
	switch w.rng.IntN(6) {
	case 0, 1:
		w.note("adopt", "%s", name)
		return w.after(ctx, "adopt", w.e.RunUpkeep(ctx, w.table(name), sched.Adopt))
	case 2:
		w.note("merge", "%s", name)
		w.firm[name] = map[int64]bool{}
		return w.after(ctx, "merge", w.e.RunUpkeep(ctx, w.table(name), sched.Merge))
	case 3:
		w.forgetFirm()
		if err := w.e.FlushTables(ctx, []engine.TableID{w.table(name).ID}); err != nil {
			return err
		}
		w.drained(name)
		return w.checkBase(ctx, name)
	case 4:
		return w.restart(ctx)
	default:
		w.fs.Crash()
		return w.crash(ctx)
	}
}

// keyIn picks a key of the table that pleases; false if none does.
func (w *world) keyIn(name string, pleases func(id int64) bool) (int64, bool) {
	n := keysOf(name)
	for i, first := int64(0), w.rng.Int64N(n); i < n; i++ {
		if id := (first + i) % n; pleases(id) && !w.held(name, id) {
			return id, true
		}
	}
	return 0, false
}

// held says whether the slow writer has locked a key: outsiders know no locks, and who wins is not the histories' business.
func (w *world) held(name string, id int64) bool {
	return w.slow != nil && (w.slow.keys[name][id] || w.slow.also[name][id])
}

// foreign is a row of somebody else; it never clashes in the unique index.
func (w *world) foreign() cell {
	w.serial++
	return cell{v: fmt.Sprint("theirs ", w.serial)}
}

func recordOf(st *table.Dataset, list map[int64]cell) (arrowx.BatchReader, error) {
	all := make([]arrowx.Row, 0, len(list))
	for _, id := range sorted(list) {
		all = append(all, list[id].row(id))
	}
	s, err := st.Schema().Arrow()
	if err != nil {
		return nil, err
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, all)
	if err != nil {
		return nil, err
	}
	return table.Records(s, rec), nil // not released: the reader borrows it
}

// outsideAppend brings a key that is new, or one that only our generations have: then ours win.
func (w *world) outsideAppend(ctx context.Context, ds *table.Dataset, name string) (effect, error) {
	inBase, err := baseKeys(ctx, ds)
	if err != nil {
		return nil, err
	}
	changed, list := effect{}, map[int64]cell{}
	id, ok := w.keyIn(name, func(id int64) bool { _, is := w.now[name][id]; return !is && !w.loose[name][id] && !inBase[id] })
	if ok {
		c := w.foreign()
		changed[id], list[id] = &c, c
	}
	if id, ok := w.keyIn(name, func(id int64) bool { return w.firm[name][id] && !inBase[id] }); ok {
		list[id] = w.foreign()
		w.count["outside append of our key"]++
	}
	if len(list) == 0 {
		return nil, nil
	}
	r, err := recordOf(ds, list)
	if err != nil {
		return nil, err
	}
	_, err = ds.Append(ctx, r, table.WriteOptions{})
	return changed, err
}

func baseKeys(ctx context.Context, ds *table.Dataset) (map[int64]bool, error) {
	r, err := ds.Rows(ctx, table.ScanOptions{Columns: []string{"id", "v", "n"}})
	if err != nil {
		return nil, err
	}
	all, err := collect(r)
	out := map[int64]bool{}
	for id := range all {
		out[id] = true
	}
	return out, err
}

// inBaseOnly picks a key whose row is in the base table and nowhere else.
func (w *world) inBaseOnly(name string) (int64, bool) {
	return w.keyIn(name, func(id int64) bool { _, is := w.now[name][id]; return is && !w.loose[name][id] })
}

func (w *world) outsideDelete(ctx context.Context, ds *table.Dataset, name string) (effect, error) {
	id, ok := w.inBaseOnly(name)
	if !ok {
		return nil, nil
	}
	_, _, err := ds.DeleteWhere(ctx, predicate.Compare{Column: colID, Op: predicate.Eq, Value: id})
	return effect{id: nil}, err
}

func (w *world) outsideUpdate(ctx context.Context, ds *table.Dataset, name string) (effect, error) {
	id, ok := w.inBaseOnly(name)
	if !ok {
		return nil, nil
	}
	c := w.now[name][id]
	c.v = w.foreign().v
	_, _, err := ds.UpdateWhere(ctx, predicate.Compare{Column: colID, Op: predicate.Eq, Value: id}, []table.Assignment{{Column: "v", Value: c.v}})
	return effect{id: &c}, err
}

func (w *world) outsideOverwrite(ctx context.Context, ds *table.Dataset, name string) (effect, error) {
	changed, list := effect{}, map[int64]cell{}
	for range 1 + w.rng.IntN(3) {
		c := w.foreign()
		id := w.rng.Int64N(keysOf(name))
		changed[id], list[id] = &c, c
	}
	r, err := recordOf(ds, list)
	if err != nil {
		return nil, err
	}
	_, err = ds.Overwrite(ctx, r, table.WriteOptions{})
	return changed, err
}

// outsideIndex adds a BTREE over column n, as another writer would.
func outsideIndex(ctx context.Context, st objstore.Store, ds *table.Dataset, name string) error {
	s, err := ds.Schema().Arrow()
	if err != nil {
		return err
	}
	typ := s.Field(colN).Type
	sorter, err := btree.NewSorter(typ, 0, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	cover := roaring.New()
	for _, f := range ds.Fragments() {
		cover.Add(uint32(f.ID))
		r, err := ds.ScanFragment(ctx, f, []int32{ds.Schema().FieldByName("n").ID}, 0, f.PhysicalRows, 0)
		if err != nil {
			return err
		}
		for {
			first, rec, err := r.Next()
			if err != nil {
				break // the end: the disk is sound here
			}
			ids := make([]uint64, rec.NumRows())
			for i := range ids {
				ids[i] = uint64(rowaddr.New(uint32(f.ID), uint32(first)+uint32(i)))
			}
			err = sorter.Add(btree.Batch{Values: rec.Column(0), IDs: ids})
			rec.Release()
			if err != nil {
				_ = r.Close()
				return err
			}
		}
		_ = r.Close()
	}
	if cover.IsEmpty() {
		return nil
	}
	id := uuid.New()
	sum, err := btree.Build(ctx, store.NewDir(st, indexes.SegmentDir(ds.Root(), id), memory.DefaultAllocator), typ, sorter.Stream(), btree.Options{})
	if err != nil {
		return err
	}
	var files []table.IndexFile
	for _, f := range sum.Files {
		files = append(files, table.IndexFile{Path: f.Name, Size: f.Size})
	}
	entry, err := indexes.NewEntry(indexes.BTree, id, name, []int32{ds.Schema().FieldByName("n").ID}, cover, nil, files)
	if err != nil {
		return err
	}
	entry.DatasetVersion = ds.Version()
	_, err = ds.Commit(ctx, table.CreateIndex{New: []table.IndexEntry{entry}})
	return err
}

// stalledWriter is another writer of a table that claimed its shards once and sleeps since then.
type stalledWriter struct {
	name  string
	table *lsm.Table
	keys  *pkstore.Store
	next  uint64
	dirty bool  // it has rows that it did not flush
	mine  int64 // a key of a shard that it claimed
}

func (s *stalledWriter) close(ctx context.Context) {
	_ = s.table.Close(ctx)
	_ = s.keys.Close()
}

// write commits rows as a writer without a journal does: a WAL entry for each.
func (s *stalledWriter) write(ctx context.Context, w *world, list map[int64]cell) error {
	for _, id := range sorted(list) {
		if err := s.put(ctx, lsm.Op{Key: w.key(id), Row: list[id].row(id)}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stalledWriter) put(ctx context.Context, op lsm.Op) error {
	st, err := s.table.Stage(ctx, []lsm.Op{op})
	if err != nil {
		return err
	}
	defer st.Release()
	if err := s.table.Append(ctx, st); err != nil {
		return err
	}
	s.next++
	s.dirty = true
	return s.table.Apply(st, s.next)
}

// claim is another writer taking over the shards of a table, as a lancedb process would.
func (w *world) claim(ctx context.Context, name string) (*stalledWriter, error) {
	st, err := w.raw()
	if err != nil {
		return nil, err
	}
	keys, err := pkstore.Open()
	if err != nil {
		return nil, err
	}
	var list []lsm.IndexDef
	for _, d := range w.table(name).Indexes {
		list = append(list, lsm.IndexDef{Name: d.Name, Column: d.Column})
	}
	t, err := lsm.Open(ctx, lsm.Options{Store: st, Keys: keys, Indexes: list, MemTableRows: 8, Clock: w.clock}, w.table(name).Path)
	if err != nil {
		return nil, errors.Join(err, keys.Close())
	}
	return &stalledWriter{name: name, table: t, keys: keys}, nil
}

// secondClaimant: another writer claims a table's shards, writes, and stops without a word. Of what it wrote, keys that we
// wrote after that, or had not yet put into WAL entries, are ours.
func (w *world) secondClaimant(ctx context.Context) error {
	w.disarm()
	name := w.pick()
	w.note("second claimant", "%s", name)
	w.clock.Advance(3 * time.Minute) // the pause between two reopenings
	if err := w.e.RunUpkeep(ctx, w.table(name), sched.WriteBehind); err != nil {
		return err
	}
	w.between = map[int64]bool{}
	defer func() { w.between = nil }()
	if w.rng.IntN(2) == 0 {
		if err := w.transaction(ctx, []string{name}); err != nil { // in the journal only
			return err
		}
	}
	s, err := w.claim(ctx, name)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	theirs := map[int64]cell{}
	for range 1 + w.rng.IntN(3) {
		if id, ok := w.keyIn(name, func(int64) bool { return true }); ok {
			theirs[id] = w.foreign()
			s.mine = id
		}
	}
	if err := s.write(ctx, w, theirs); err != nil {
		s.close(ctx)
		return fmt.Errorf("the new owner of the shard: %w", err)
	}
	w.stalled = append(w.stalled, s)
	if w.rng.IntN(3) == 0 {
		w.note("second claimant flushes", "")
		if err := errors.Join(s.table.Freeze(), s.table.Flush(ctx)); err != nil {
			return fmt.Errorf("flush of the new owner: %w", err)
		}
		s.dirty = false
	}
	if name == "plain" && w.rng.IntN(2) == 0 { // of the others any transaction may bring their rows into sight
		if err := w.transaction(ctx, []string{name}); err != nil {
			return err
		}
	}
	// Why one of their keys: an engine looks at a shard's manifest when it writes to it.
	if err := w.put(ctx, name, sorted(theirs)[0]); err != nil {
		return err
	}
	if err := w.e.RunUpkeep(ctx, w.table(name), sched.WriteBehind); err != nil {
		return fmt.Errorf("take back: %w", err)
	}
	w.now = w.now.clone()
	for id, c := range theirs {
		if !w.between[id] {
			w.now[name][id] = c
		}
		w.firm[name][id], w.loose[name][id] = true, true
	}
	return nil
}

// wake lets a stalled writer go on: nothing it tries may land.
func (w *world) wake(ctx context.Context) error {
	if len(w.stalled) == 0 {
		return nil
	}
	w.disarm()
	i := w.rng.IntN(len(w.stalled))
	s := w.stalled[i]
	w.stalled = slices.Delete(w.stalled, i, i+1)
	defer s.close(ctx)
	w.note("stalled writer wakes", "%s", s.name)
	tries := []func() error{
		func() error { return s.write(ctx, w, map[int64]cell{s.mine: w.foreign()}) },
	}
	if s.dirty {
		tries = append(tries, func() error { return errors.Join(s.table.Freeze(), s.table.Flush(ctx)) })
	}
	for _, k := range w.rng.Perm(len(tries)) {
		if err := tries[k](); !errors.Is(err, errs.ErrFenced) && !errors.Is(err, errs.ErrPoisoned) {
			return wrongf("a stalled writer of %s was not refused: %v", s.name, err)
		}
	}
	w.note("stalled merger", "%s", s.name)
	w.firm[s.name] = map[int64]bool{}
	// Whatever it comes to: generations may be merged by anybody, once.
	_ = s.table.Merge(ctx, lsm.Hooks{LowWater: func() uint64 { return s.next }, Advance: func() uint64 { s.next++; return s.next }})
	return nil
}
