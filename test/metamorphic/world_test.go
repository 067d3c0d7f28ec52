package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
	"lancesql/lance/table"
	"lancesql/lsm"
)

const root = "t.lance"

// contents is the rows of a table by key.
type contents map[rowkey.Key]arrowx.Row

// world is one history.
type world struct {
	rng    *rand.Rand
	design *design
	store  objstore.Store
	keys   *pkstore.Store
	table  *lsm.Table
	enc    *rowkey.Encoder
	zones  lsm.ZoneMapOptions
	batch  int
	plant  lsm.Planted

	published bool // reclusterings are recorded as stable partitions

	journal []lsm.JournalPart // what the caller's journal keeps
	next    uint64
	visible uint64
	now     contents
	views   map[uint64]contents

	counts counts
}

// counts says how often something was reached, over histories.
type counts map[string]int

func newWorld(ctx context.Context, seed uint64, plant lsm.Planted) (*world, error) {
	rng := rand.New(rand.NewPCG(seed, 7))
	keys, err := pkstore.Open()
	if err != nil {
		return nil, err
	}
	w := &world{rng: rng, design: newDesign(rng), store: objstore.NewMem(), keys: keys, plant: plant, counts: counts{},
		now: contents{}, views: map[uint64]contents{}, batch: 3 + rng.IntN(8)}
	w.published = rng.IntN(4) == 0
	w.zones = lsm.ZoneMapOptions{RowsPerZone: 1 + rng.Uint64N(6), EveryRows: int64(rng.IntN(3))*5 - 1, Off: rng.IntN(8) == 0}
	if w.enc, err = lsm.KeyEncoder(w.design.schema, w.design.keys); err != nil {
		return nil, err
	}
	if err := lsm.CreateSharded(ctx, w.options(), root, w.design.schema, nil, w.design.sharded); err != nil {
		return nil, err
	}
	return w, w.open(ctx)
}

func (w *world) options() lsm.Options {
	return lsm.Options{Store: w.store, Keys: w.keys, Indexes: w.design.indexes(), ZoneMaps: w.zones, BatchRows: w.batch, MemTableRows: 20,
		RowsPerFragment: 12, Floor: w.visible, Journal: w.journal, Planted: w.plant}
}

func (w *world) open(ctx context.Context) (err error) {
	clear(w.views) // Why: views older than an opening cannot be served
	w.table, err = lsm.Open(ctx, w.options(), root)
	return err
}

func (w *world) close(ctx context.Context) error {
	return errors.Join(w.table.Close(ctx), w.keys.Close())
}

func (w *world) hooks() lsm.Hooks {
	low := func() uint64 {
		s := w.visible
		for v := range w.views {
			s = min(s, v)
		}
		return s
	}
	return lsm.Hooks{LowWater: low, Advance: func() uint64 { w.visible++; return w.visible }}
}

// step does one random thing and returns its name.
func (w *world) step(ctx context.Context) (string, error) {
	kinds := []struct {
		name   string
		weight int
		do     func(context.Context) error
	}{
		{"commit", 40, w.commit},
		{"flush", 12, func(ctx context.Context) error { return w.table.Flush(ctx) }},
		{"freeze", 4, func(context.Context) error { return w.table.Freeze() }},
		{"merge", 14, func(ctx context.Context) error { return w.table.Merge(ctx, w.hooks()) }},
		{"compact", 6, w.compact},
		{"recluster", 3, w.recluster},
		{"outside append", 4, w.outsideAppend},
		{"outside delete", 4, w.outsideDelete},
		{"outside compact", 4, w.outsideCompact},
		{"view", 4, func(context.Context) error { w.views[w.visible] = maps.Clone(w.now); return nil }},
		{"release", 4, func(context.Context) error { clear(w.views); return nil }},
		{"reopen", 2, w.reopen},
		{"cleanup", 2, func(ctx context.Context) error { return w.table.Cleanup(ctx, w.hooks().LowWater()) }},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := w.rng.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			w.counts[k.name]++
			return k.name, k.do(ctx)
		}
	}
	return "", nil
}

func (w *world) commit(ctx context.Context) error {
	next := maps.Clone(w.now)
	ops := make(map[rowkey.Key]lsm.Op)
	for range 1 + w.rng.IntN(8) {
		row := w.design.row(w.rng)
		k, err := w.enc.Row(row, w.design.keys)
		if err != nil {
			return err
		}
		if w.rng.IntN(4) == 0 {
			ops[k] = lsm.Op{Key: k}
			delete(next, k)
			continue
		}
		ops[k] = lsm.Op{Key: k, Row: row}
		next[k] = row
	}
	list := make([]lsm.Op, 0, len(ops))
	for _, k := range slices.Sorted(maps.Keys(ops)) {
		list = append(list, ops[k])
	}
	w.now = next
	if err := w.write(ctx, list); err != nil {
		return err
	}
	return w.table.FreezeIfFull()
}

// write commits by way of the journal.
func (w *world) write(ctx context.Context, list []lsm.Op) error {
	st, err := w.table.Stage(ctx, list)
	if err != nil {
		return err
	}
	defer st.Release()
	if st.Empty() {
		return nil
	}
	parts, err := st.Parts()
	if err != nil {
		return err
	}
	w.next++
	for _, p := range parts {
		w.journal = append(w.journal, lsm.JournalPart{Journal: w.next, Shard: p.Shard, Body: p.Body})
	}
	w.table.Logged(st, w.next)
	if err := w.table.Apply(st, w.visible+1); err != nil {
		return err
	}
	w.visible++
	return nil
}

func (w *world) compact(ctx context.Context) error {
	done, err := w.table.Compact(ctx, w.hooks(), lsm.Compaction{Small: w.rng.IntN(2) == 0, Groups: w.rng.IntN(3), RemapFrom: w.rng.IntN(4), CatchUp: w.rng.IntN(2) == 0})
	w.counts["fragments compacted"] += done.FragmentsRemoved
	w.counts["segments remapped"] += done.Remapped
	w.counts["history trimmed"] += done.Trimmed
	return err
}

func (w *world) recluster(ctx context.Context) error {
	var by []int // columns that it takes
	for _, i := range w.rng.Perm(len(w.design.columns)) {
		if w.design.columns[i].tuple1 && len(by) < 2 {
			by = append(by, i)
		}
	}
	o := lsm.Recluster{Columns: by, Buckets: 1 + w.rng.IntN(4), Publish: w.published}
	done, err := w.table.Recluster(ctx, w.hooks(), o)
	w.counts["fragments reclustered"] += done.FragmentsRemoved
	if done.FragmentsRemoved > 0 && o.Publish {
		w.counts["stable partitions"]++
	}
	return err
}

func (w *world) reopen(ctx context.Context) error {
	if err := w.table.Close(ctx); err != nil {
		return err
	}
	return w.open(ctx)
}

// outsideAppend adds keys that nobody has, as another Lance writer would, and has them adopted.
func (w *world) outsideAppend(ctx context.Context) error {
	ds, err := table.Open(ctx, w.store, root)
	if err != nil {
		return err
	}
	next := maps.Clone(w.now)
	var rows []arrowx.Row
	for range 1 + w.rng.IntN(5) {
		row := w.design.row(w.rng)
		row[0] = int32(1000 + w.rng.IntN(1_000_000))
		for i, at := range w.design.stored { // the key may be indexed
			if at >= len(w.design.columns) {
				row[at] = w.design.prefix(i, row[w.design.indexed[i]])
			}
		}
		k, err := w.enc.Row(row, w.design.keys)
		if err != nil {
			return err
		}
		if _, taken := next[k]; !taken {
			next[k] = row
			rows = append(rows, row)
		}
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, w.design.schema, rows)
	if err != nil {
		return err
	}
	defer rec.Release()
	f, err := ds.NewFragmentWriter(ctx)
	if err != nil {
		return err
	}
	if err := f.Write(rec); err != nil {
		return err
	}
	frag, err := f.Finish(ctx)
	if err != nil {
		return err
	}
	if _, err := ds.Commit(ctx, table.Append{Fragments: []*table.Fragment{frag}}); err != nil {
		return err
	}
	w.now = next
	return w.adopt(ctx)
}

// outsideDelete removes rows that only the base has, as another Lance writer would.
func (w *world) outsideDelete(ctx context.Context) error {
	snap, err := w.table.Snapshot(w.visible)
	if err != nil {
		return err
	}
	defer snap.Release()
	next := maps.Clone(w.now)
	filter := w.design.filter(w.rng, 1)
	for k, row := range w.now {
		loc, ok, err := snap.Locate(ctx, k)
		if err != nil {
			return err
		}
		if ok && loc.Source == 0 && evaluates(filter, row) {
			delete(next, k)
		}
	}
	ds, err := table.Open(ctx, w.store, root)
	if err != nil {
		return err
	}
	if _, _, err := ds.DeleteWhere(ctx, filter); err != nil {
		return fmt.Errorf("delete %#v: %w", filter, err)
	}
	w.now = next
	return w.adopt(ctx)
}

func (w *world) outsideCompact(ctx context.Context) error {
	ds, err := table.Open(ctx, w.store, root)
	if err != nil {
		return err
	}
	if _, _, err := ds.Compact(ctx, table.CompactOptions{FragmentRows: 1000, DeferRemap: w.rng.IntN(4) > 0}); err != nil {
		return err
	}
	return w.adopt(ctx)
}

// adopt takes an outside commit in, at once or with the next merge.
func (w *world) adopt(ctx context.Context) error {
	if w.rng.IntN(3) == 0 {
		return w.table.Merge(ctx, w.hooks())
	}
	_, err := w.table.Adopt(ctx, w.hooks())
	return err
}

// read drains a scan; keys may not come twice. Columns are all of them.
func (w *world) read(ctx context.Context, snap *lsm.Snapshot, spec lsm.ScanSpec, own *lsm.Overlay) (found []arrowx.Row, err error) {
	r, err := snap.Scan(ctx, spec, own)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range int(rec.NumRows()) {
			found = append(found, arrowx.RowOf(rec, i))
		}
		rec.Release()
	}
}
