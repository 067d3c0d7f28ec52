package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/engine"
	"lancesql/internal/arrowx"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
	"lancesql/internal/objstore/faultstore"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// cell is a row of a simulated table but for its key; has says whether column n is not NULL.
type cell struct {
	v   string
	n   int32
	has bool
}

// rows is a table by key, state all tables by name.
type (
	rows  map[int64]cell
	state map[string]rows
)

func (s state) clone() state {
	out := state{}
	for t, r := range s {
		out[t] = maps.Clone(r)
	}
	return out
}

func (s state) equal(o state) bool {
	return maps.EqualFunc(s, o, func(a, b rows) bool { return maps.Equal(a, b) })
}

// The tables: one shard, hash shards with a secondary and a unique index, one shard for each key.
var tableNames = [...]string{"plain", "hashed", "single"}

// keysOf is how many keys of a table the histories use.
func keysOf(table string) int64 {
	if table == "single" {
		return 4
	}
	return 24
}

// Places of the columns, and of the unique index of the hashed table.
const (
	colID, colV, colN = 0, 1, 2
	uniqueIndex       = "u"
)

func simSchema() *arrow.Schema {
	key := arrow.NewMetadata(
		[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"},
		[]string{"true", "1"})
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key},
		{Name: "v", Type: arrow.BinaryTypes.String},
		{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil)
}

// simDef is a table's definition; rebuilt tables change how they are spread.
func simDef(table string, rebuilt int) engine.TableDef {
	d := engine.TableDef{Schema: simSchema(), Shape: []byte(`{}`), AutoColumn: -1}
	switch {
	case table == "hashed":
		d.Sharding = lsm.Sharding{Column: "id", Buckets: 2 + rebuilt%3}
		d.Indexes = []engine.IndexDef{{Name: "by_v", Column: colV, Parts: []int{colV}}, {Name: uniqueIndex, Column: colN, Unique: true, Parts: []int{colN}}}
	case table == "single":
		d.Sharding = lsm.Sharding{Column: "id", Identity: true}
	case rebuilt%2 == 1:
		d.Indexes = []engine.IndexDef{{Name: "by_n", Column: colN, Parts: []int{colN}}}
	}
	return d
}

func (c cell) row(id int64) arrowx.Row {
	if !c.has {
		return arrowx.Row{id, c.v, nil}
	}
	return arrowx.Row{id, c.v, c.n}
}

func cellOf(row arrowx.Row) cell {
	c := cell{v: row[colV].(string)}
	if row[colN] != nil {
		c.n, c.has = row[colN].(int32), true
	}
	return c
}

// view is a transaction that was opened to read and what it must see for ever.
type view struct {
	txn  *engine.Txn
	want state
}

// world is one history.
type world struct {
	rng     *rand.Rand
	clock   *clock.Manual
	planted engine.Planted
	count   map[string]int

	fs    *faultfs.FS
	store *faultstore.Store
	e     *engine.Engine
	enc   *rowkey.Encoder

	now   state
	maybe []state // what a crash may have left instead of now
	serial,
	rebuilt int
	views   []view
	slow    *slowWriter
	stalled []*stalledWriter

	// What is known of where the newest rows of keys lie: firm keys are in no base table yet, keys that are not loose are in
	// the base table only. Of the others it is not known.
	firm, loose map[string]map[int64]bool
	between     map[int64]bool // keys written while an outsider's commit waits to be adopted; nil = nobody asks
	armed       bool           // a crash comes by itself
	refused     touched        // keys of the newest transaction whose rows the unique index refused
	trace       []string
}

func newWorld(seed uint64, p engine.Planted, count map[string]int) (*world, error) {
	ctx := context.Background()
	w := &world{rng: rand.New(rand.NewPCG(seed, 11)), clock: clock.NewManual(time.Unix(1_000_000, 0)), planted: p, count: count,
		fs: faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{}), now: state{}}
	w.forget()
	var err error
	if w.enc, err = lsm.KeyEncoder(simSchema(), []int{colID}); err != nil {
		return nil, err
	}
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	if err := w.e.CreateDatabase(ctx, "db", nil); err != nil {
		return nil, err
	}
	for _, t := range tableNames {
		w.now[t] = rows{}
		if _, err := w.e.CreateTable(ctx, "db", t, simDef(t, 0)); err != nil {
			return nil, err
		}
	}
	return w, w.check(ctx) // which opens the tables: one that is opened later has seen what others did before
}

// forget gives up what is known about places.
func (w *world) forget() {
	w.firm, w.loose = map[string]map[int64]bool{}, map[string]map[int64]bool{}
	for _, t := range tableNames {
		w.firm[t], w.loose[t] = map[int64]bool{}, map[int64]bool{}
	}
}

// raw is another handle of the store, without faults: an outsider's.
func (w *world) raw() (objstore.Store, error) { return objstore.OpenLocal(w.fs, "/data") }

func (w *world) open(ctx context.Context) error {
	st, err := w.raw()
	if err != nil {
		return err
	}
	journal, err := logfile.Open(w.fs, "/data/_lancesql/journal")
	if err != nil {
		return err
	}
	w.store = faultstore.New(st, faultstore.Plan{})
	w.e, err = engine.OpenPlanted(ctx, engine.Config{
		MemTableRows: 8, MergeAfterGenerations: 2, Workers: engine.NoWorkers, ManifestRetention: engine.NoRetention,
		JournalSegmentBytes: 64 << 10, JournalBytes: 1 << 20, FrozenSoft: 100, FrozenHard: 100, GenerationsSoft: 100, GenerationsHard: 100,
		LockWaitTimeout: time.Millisecond,
	}, engine.Components{Store: w.store, Journal: journal, Clock: w.clock}, w.planted)
	return err
}

func (w *world) table(name string) *engine.TableEntry {
	if d := w.e.Catalog().Database("db"); d != nil {
		return d.Table(name)
	}
	return nil
}

func (w *world) pick() string { return tableNames[w.rng.IntN(len(tableNames))] }

func (w *world) note(kind, format string, args ...any) {
	w.count[kind]++
	w.trace = append(w.trace, kind+" "+fmt.Sprintf(format, args...))
}

func (w *world) key(id int64) rowkey.Key {
	k, err := w.enc.Row(arrowx.Row{id, nil, nil}, []int{colID})
	if err != nil {
		panic(err) // an int64 always has a key
	}
	return k
}

// mismatch is what no fault excuses: tables and maps differ.
type mismatch struct{ text string }

func (m *mismatch) Error() string { return m.text }

func wrongf(format string, args ...any) error { return &mismatch{fmt.Sprintf(format, args...)} }

// collect reads all of a scan.
func collect(r arrowx.BatchReader) (rows, error) {
	defer r.Close()
	out := rows{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range int(rec.NumRows()) {
			row := arrowx.RowOf(rec, i)
			id := row[colID].(int64)
			if _, twice := out[id]; twice {
				rec.Release()
				return nil, wrongf("key %d came twice", id)
			}
			out[id] = cellOf(row)
		}
		rec.Release()
	}
}

func (w *world) scan(ctx context.Context, t *engine.Txn, table string, spec lsm.ScanSpec) (rows, error) {
	spec.Columns = []int{colID, colV, colN}
	r, err := t.Scan(ctx, w.table(table), engine.Consistent, spec)
	if err != nil {
		return nil, err
	}
	return collect(r)
}

// readAll reads all tables in one view.
func (w *world) readAll(ctx context.Context, t *engine.Txn) (state, error) {
	got := state{}
	for _, name := range tableNames {
		if w.table(name) == nil {
			return nil, fmt.Errorf("table %s is gone", name)
		}
		r, err := w.scan(ctx, t, name, lsm.ScanSpec{})
		if err != nil {
			return nil, err
		}
		got[name] = r
	}
	return got, nil
}

// check compares all tables and views with the maps (I1).
func (w *world) check(ctx context.Context) error {
	w.store.Reset(faultstore.Plan{})
	t := w.e.Begin(engine.TxnOptions{})
	defer t.Rollback()
	t.BeginStatement()
	got, err := w.readAll(ctx, t)
	if err != nil {
		return w.failed(ctx, "read", err)
	}
	if !got.equal(w.now) {
		return wrongf("while serving: %s", difference(got, w.now))
	}
	for _, name := range tableNames {
		if err := w.checkIndexes(ctx, t, name); err != nil {
			return w.failed(ctx, "read by index", err)
		}
	}
	keep := w.views[:0]
	for _, v := range w.views {
		got, err := w.readAll(ctx, v.txn)
		switch {
		case errors.Is(err, errs.ErrSchemaChanged):
			w.note("view lost", "")
			v.txn.Rollback()
			continue
		case err != nil:
			return w.failed(ctx, "read of a view", err)
		case !got.equal(v.want):
			return wrongf("in a view: %s", difference(got, v.want))
		}
		keep = append(keep, v)
	}
	w.views = keep
	return nil
}

// checkIndexes compares scans by the table's indexes, which leave out NULL.
func (w *world) checkIndexes(ctx context.Context, t *engine.Txn, name string) error {
	for i, d := range w.table(name).Indexes {
		got, err := w.scan(ctx, t, name, lsm.ScanSpec{Index: &lsm.IndexRange{Index: i}})
		if err != nil {
			return err
		}
		want := maps.Clone(w.now[name])
		maps.DeleteFunc(want, func(_ int64, c cell) bool { return d.Column == colN && !c.has })
		if text := difference(state{name: got}, state{name: want}); text != "" {
			return wrongf("by index %s: %s", d.Name, text)
		}
	}
	return nil
}

// difference tells what is wrong.
func difference(got, want state) string {
	var out []string
	for _, t := range tableNames {
		for _, id := range slices.Sorted(maps.Keys(union(got[t], want[t]))) {
			g, isThere := got[t][id]
			x, shouldBe := want[t][id]
			if g != x || isThere != shouldBe {
				out = append(out, fmt.Sprintf("%s[%d] is %v %+v, should be %v %+v", t, id, isThere, g, shouldBe, x))
			}
		}
	}
	return strings.Join(out, "; ")
}

// sorted is the keys of m in order: a history must not depend on the order of a map.
func sorted[V any](m map[int64]V) []int64 { return slices.Sorted(maps.Keys(m)) }

func union(a, b rows) rows {
	out := maps.Clone(a)
	if out == nil {
		out = rows{}
	}
	maps.Copy(out, b)
	return out
}

// failed takes an error for the crash or the fault that was planned, if there was one.
func (w *world) failed(ctx context.Context, what string, err error) error {
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
	case w.fs.Crashed():
		return w.crash(ctx)
	case w.e.Failed() != nil:
		w.note("stopped by a fault", "%s", what)
		w.fs.Crash()
		return w.crash(ctx)
	case errors.Is(err, faultstore.ErrInjected):
		w.note("refused by a fault", "%s", what)
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// drop ends everything that belongs to a running engine.
func (w *world) drop() {
	for _, v := range w.views {
		v.txn.Rollback()
	}
	w.views = nil
	if w.slow != nil {
		w.slow.txn.Rollback()
		w.slow = nil
	}
}

// crash reopens what a crash left, as often as the recovery itself does not crash (I2).
func (w *world) crash(ctx context.Context) error {
	w.note("crash", "")
	w.drop()
	for _, s := range w.stalled {
		s.close(ctx)
	}
	w.stalled = nil // Why: they live on the disk that died
	for {
		if w.e != nil {
			_ = w.e.Close(ctx)
			w.e = nil
		}
		clone, err := w.fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: []int{0, 50, 100}[w.rng.IntN(3)], Rand: w.rng})
		if err != nil {
			return err
		}
		plan := faultfs.Plan{}
		if w.rng.IntN(3) == 0 {
			plan.CrashAt = 1 + int64(w.rng.IntN(40))
		}
		w.fs, w.armed = faultfs.New(clone, plan), plan.CrashAt > 0
		if err = w.open(ctx); err == nil {
			err = w.settle(ctx)
		}
		if err == nil || !w.fs.Crashed() {
			return err
		}
		w.note("crash in recovery", "")
	}
}

// settle finds out which of the allowed states a recovery brought; from then on it is the only one.
func (w *world) settle(ctx context.Context) error {
	w.forgetFirm()
	t := w.e.Begin(engine.TxnOptions{})
	defer t.Rollback()
	t.BeginStatement()
	got, err := w.readAll(ctx, t)
	if err != nil {
		return fmt.Errorf("read after recovery: %w", err)
	}
	for _, s := range append(w.maybe, w.now) {
		if got.equal(s) {
			w.now, w.maybe = s, nil
			return nil
		}
	}
	text := difference(got, w.now)
	for _, s := range w.maybe {
		text += "\n or: " + difference(got, s)
	}
	return wrongf("after recovery: %s", text)
}

// forgetFirm is called when merges may have happened.
func (w *world) forgetFirm() {
	for t := range w.firm {
		w.firm[t] = map[int64]bool{}
	}
}

// drained is called when a table was drained.
func (w *world) drained(table string) {
	w.firm[table], w.loose[table] = map[int64]bool{}, map[int64]bool{}
}
