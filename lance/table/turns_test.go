package table

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
)

// TestTurns lets this package and pylance change one table in turns, at random. After each step both, and a model, agree
// on rows, schema, filters, tags, versions and indexes, and pylance validates the table.
func TestTurns(t *testing.T) {
	const steps = 200
	seeds := uint64(3)
	if os.Getenv("LANCESQL_SOAK") != "" {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			u := newTurns(t, seed)
			for step := range steps {
				u.step(step)
			}
			t.Logf("steps: %v", u.did)
		})
	}
}

// turns is one run.
type turns struct {
	t    *testing.T
	r    *rand.Rand
	st   objstore.Store
	py   *pylance
	d    *Dataset
	m    *model
	past map[uint64]*model // by version
	next int64             // id of the next row
	name int               // number of the next name
	did  map[string]int
	what string // the step under way, for failures
}

func newTurns(t *testing.T, seed uint64) *turns {
	dir := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, dir)
	require.NoError(t, err)
	u := &turns{t: t, r: rand.New(rand.NewPCG(seed, 7)), st: st, py: startPylance(t, filepath.Join(dir, testRoot)), m: newModel(),
		past: make(map[uint64]*model), did: make(map[string]int)}
	version := []string{"2.2", "2.1"}[u.r.IntN(2)]
	first := u.fresh(20)
	if seed%2 == 0 {
		d := create(t, st, CreateOptions{DataVersion: version})
		u.past[1] = &model{columns: u.m.columns[:2]}
		u.d, err = d.Overwrite(context.Background(), Records(u.m.schema(), u.batch(first)), WriteOptions{FragmentRows: 8})
		require.NoError(t, err)
	} else {
		u.python("create", fields{"schema": u.pySchema(), "rows": u.pyRows(first), "data_version": version, "v1": seed%4 == 3})
		u.d = reopen(t, st)
	}
	u.accept(first)
	u.check()
	return u
}

// fresh are n new rows.
func (u *turns) fresh(n int) []arrowx.Row {
	rows := make([]arrowx.Row, n)
	for i := range rows {
		rows[i] = u.m.randomRow(u.r, u.next)
		u.next++
	}
	return rows
}

func (u *turns) accept(rows []arrowx.Row) {
	for _, row := range rows {
		u.m.rows[row[0].(int64)] = row
	}
}

func (u *turns) batch(rows []arrowx.Row) arrow.RecordBatch {
	return batch(u.t, u.m.schema(), rows...)
}

func (u *turns) records(rows []arrowx.Row) arrowx.BatchReader {
	return Records(u.m.schema(), u.batch(rows))
}

func (u *turns) pySchema() [][3]any {
	out := [][3]any{}
	for _, c := range u.m.columns {
		out = append(out, [3]any{c.name, c.kind, c.nullable})
	}
	return out
}

// pyRows are rows as JSON has them.
func (u *turns) pyRows(rows []arrowx.Row) [][]any {
	out := make([][]any, len(rows))
	for i, row := range rows {
		out[i] = row
	}
	return out
}

func (u *turns) python(op string, f fields) {
	u.t.Helper()
	require.NoError(u.t, u.py.call(op, f, nil), u.what)
}

// ours takes over the result of one of our calls.
func (u *turns) ours(d *Dataset, err error) {
	u.t.Helper()
	require.NoError(u.t, err, u.what)
	u.d = d
}

func (u *turns) changed(d *Dataset, _ Changed, err error) {
	u.t.Helper()
	u.ours(d, err)
}

// step makes one change on one side.
func (u *turns) step(n int) {
	before, at := u.m.clone(), u.d.Version()
	go_ := u.r.IntN(2) == 0
	ops := u.operations()
	total := 0
	for _, o := range ops {
		total += o.weight
	}
	pick := u.r.IntN(total)
	for _, o := range ops {
		if pick -= o.weight; pick >= 0 {
			continue
		}
		side := "pylance"
		if go_ {
			side = "go"
		}
		u.what = fmt.Sprintf("step %d: %s by %s on version %d", n, o.name, side, at)
		if o.run(go_) {
			u.did[o.name]++
		}
		break
	}
	latest, err := u.d.Latest(context.Background())
	require.NoError(u.t, err, u.what)
	u.d = latest
	for v := at + 1; v < u.d.Version(); v++ {
		u.past[v] = before // e.g. the reservation before a compaction
	}
	u.check()
}

type turn struct {
	name   string
	weight int
	run    func(ours bool) bool // false: there was nothing to do
}

func (u *turns) operations() []turn {
	return []turn{
		{"append", 5, u.append}, {"delete", 4, u.delete}, {"update", 4, u.update}, {"merge", 4, u.merge},
		{"add column", 2, u.addColumn}, {"drop column", 2, u.dropColumn}, {"rename column", 2, u.renameColumn}, {"cast", 1, u.cast},
		{"compact", 3, u.compact}, {"index", 3, u.index}, {"drop index", 1, u.dropIndex}, {"extend indexes", 2, u.extend},
		{"tag", 2, u.tag}, {"untag", 1, u.untag}, {"clean-up", 1, u.cleanup}, {"restore", 1, u.restore}, {"overwrite", 1, u.overwrite},
	}
}

func (u *turns) append(ours bool) bool {
	rows := u.fresh(1 + u.r.IntN(20))
	if per := 1 + u.r.IntN(12); ours {
		u.ours(u.d.Append(ctxOf(u.t), u.records(rows), WriteOptions{FragmentRows: uint64(per)}))
	} else {
		u.python("append", fields{"rows": u.pyRows(rows), "fragment_rows": per})
	}
	u.accept(rows)
	return true
}

func (u *turns) delete(ours bool) bool {
	c := u.m.few(u.r)
	u.what += " where " + c.sql
	if ours {
		u.changed(u.d.DeleteWhere(ctxOf(u.t), c.expr))
	} else {
		u.python("delete", fields{"where": c.sql})
	}
	for _, id := range u.m.kept(c) {
		delete(u.m.rows, id)
	}
	return true
}

func (u *turns) update(ours bool) bool {
	c := u.m.few(u.r)
	at := 1 + u.r.IntN(len(u.m.columns)-1)
	col := u.m.columns[at]
	var value func(id int64) any
	sql, set := "", Assignment{Column: col.name}
	if cell := randomCell(u.r, col); col.kind == "int64" && u.r.IntN(2) == 0 {
		value, sql, set.Compute = func(id int64) any { return 2 * id }, "id * 2", times(2)
	} else {
		value, set.Value = func(int64) any { return cell }, cell
		if sql = literal(cell); cell == nil {
			sql = "NULL"
		}
	}
	u.what += fmt.Sprintf(" set %s = %s where %s", col.name, sql, c.sql)
	if ours {
		u.changed(u.d.UpdateWhere(ctxOf(u.t), c.expr, []Assignment{set}))
	} else {
		u.python("update", fields{"where": c.sql, "set": map[string]string{col.name: sql}})
	}
	for _, id := range u.m.kept(c) {
		row := slices.Clone(u.m.rows[id])
		row[at] = value(id)
		u.m.rows[id] = row
	}
	return true
}

func (u *turns) merge(ours bool) bool {
	rows := u.fresh(u.r.IntN(8))
	ids := u.m.ids()
	u.r.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	bySource := u.r.IntN(6) == 0
	n := u.r.IntN(8)
	if bySource {
		n = len(ids) - len(ids)/4
	}
	for _, id := range ids[:min(n, len(ids))] {
		rows = append(rows, u.m.randomRow(u.r, id))
	}
	matched, notMatched := u.r.IntN(4) > 0, u.r.IntN(4) > 0
	if len(rows) == 0 || !matched && !notMatched && !bySource {
		return false
	}
	u.what += fmt.Sprintf(" of %d rows: matched %t, not matched %t, by source %t", len(rows), matched, notMatched, bySource)
	if ours {
		u.changed(u.d.MergeInsert(ctxOf(u.t), u.records(rows), MergeOptions{On: []string{"id"}, KeepMatched: !matched, SkipNotMatched: !notMatched, DeleteNotInSource: bySource}))
	} else {
		u.python("merge", fields{"rows": u.pyRows(rows), "matched": matched, "not_matched": notMatched, "by_source": bySource})
	}
	source := make(map[int64]bool)
	for _, row := range rows {
		id := row[0].(int64)
		source[id] = true
		if _, there := u.m.rows[id]; there && matched || !there && notMatched {
			u.m.rows[id] = row
		}
	}
	if bySource {
		maps.DeleteFunc(u.m.rows, func(id int64, _ arrowx.Row) bool { return !source[id] })
	}
	return true
}

func (u *turns) newName(prefix string) string {
	u.name++
	return fmt.Sprint(prefix, u.name)
}

func (u *turns) addColumn(ours bool) bool {
	if len(u.m.columns) > 6 {
		return false
	}
	c := modelColumn{u.newName("c"), []string{"int32", "int64", "utf8", "float64"}[u.r.IntN(4)], true}
	value := func(int64) any { return nil }
	col := NewColumn{Field: arrow.Field{Name: c.name, Type: kindType(c.kind), Nullable: true}}
	f := fields{"name": c.name, "type": c.kind, "sql": nil}
	if c.kind == "int64" { // computed from a column without NULL, the reference makes it required
		c.nullable, col.Field.Nullable, col.Compute, f["sql"] = false, false, times(3), "id * 3"
		value = func(id int64) any { return 3 * id }
	}
	u.what += " " + c.name + " " + c.kind
	if ours {
		u.ours(u.d.AddColumns(ctxOf(u.t), []NewColumn{col}, []string{"id"}))
	} else {
		u.python("add", f)
	}
	u.m.addColumn(c, value)
	return true
}

func (u *turns) dropColumn(ours bool) bool {
	if len(u.m.columns) < 3 {
		return false
	}
	at := 1 + u.r.IntN(len(u.m.columns)-1)
	name := u.m.columns[at].name
	u.what += " " + name
	if ours {
		u.ours(u.d.DropColumns(ctxOf(u.t), name))
	} else {
		u.python("drop", fields{"names": []string{name}})
	}
	u.m.dropColumn(at)
	return true
}

func (u *turns) renameColumn(ours bool) bool {
	at := 1 + u.r.IntN(len(u.m.columns)-1)
	name, to := u.m.columns[at].name, u.newName("r")
	u.what += " " + name + " to " + to
	if ours {
		u.ours(u.d.RenameColumn(ctxOf(u.t), name, to))
	} else {
		u.python("rename", fields{"name": name, "to": to})
	}
	u.m.columns = slices.Clone(u.m.columns)
	u.m.columns[at].name = to
	return true
}

// indexed lists the columns that have an index.
func (u *turns) indexed() map[string]bool {
	entries, err := u.d.Indexes()
	require.NoError(u.t, err)
	out := make(map[string]bool)
	for _, e := range entries {
		for _, id := range e.Fields {
			out[u.d.Schema().FieldByID(id).Name] = true
		}
	}
	return out
}

func (u *turns) cast(ours bool) bool {
	indexed := u.indexed()
	for at, c := range u.m.columns[1:] {
		kind := map[string]string{"int32": "int64", "utf8": "large_utf8"}[c.kind]
		if kind == "" || indexed[c.name] {
			continue
		}
		u.what += " " + c.name + " to " + kind
		if ours {
			u.ours(u.d.CastColumn(ctxOf(u.t), c.name, kindType(kind)))
		} else {
			u.python("cast", fields{"name": c.name, "type": kind})
		}
		u.m.castColumn(at+1, kind)
		return true
	}
	return false
}

func (u *turns) compact(ours bool) bool {
	rows := 5 + u.r.IntN(60)
	if ours {
		next, _, err := u.d.Compact(ctxOf(u.t), CompactOptions{FragmentRows: uint64(rows), KeepIndexed: u.r.IntN(4) == 0})
		u.ours(next, err)
	} else {
		u.python("compact", fields{"fragment_rows": rows})
	}
	return true
}

// index makes or replaces an index; only the reference can.
func (u *turns) index(bool) bool {
	c := u.m.columns[u.r.IntN(len(u.m.columns))]
	kind := []string{"BTREE", "BITMAP"}[u.r.IntN(2)]
	u.what += fmt.Sprintf(": %s on %s", kind, c.name)
	u.python("index", fields{"column": c.name, "type": kind, "name": "i_" + c.name})
	return true
}

func (u *turns) indexName() string {
	names := indexNames(u.t, u.d)
	if len(names) == 0 {
		return ""
	}
	return names[u.r.IntN(len(names))]
}

func (u *turns) dropIndex(ours bool) bool {
	name := u.indexName()
	if name == "" {
		return false
	}
	u.what += " " + name
	if !ours {
		u.python("drop_index", fields{"name": name})
		return true
	}
	entries, err := u.d.Indexes()
	require.NoError(u.t, err)
	var op CreateIndex
	for _, e := range entries {
		if e.Name == name {
			op.Removed = append(op.Removed, e.UUID)
		}
	}
	u.ours(u.d.CommitRebasing(ctxOf(u.t), op))
	return true
}

// extend lets the reference index what was appended, moved or compacted since.
func (u *turns) extend(bool) bool {
	if u.indexName() == "" {
		return false
	}
	u.python("extend_indexes", nil)
	return true
}

func (u *turns) versions() []uint64 {
	list, err := u.d.Versions(ctxOf(u.t))
	require.NoError(u.t, err)
	out := make([]uint64, len(list))
	for i, v := range list {
		out[i] = v.Version
	}
	return out
}

func (u *turns) tag(ours bool) bool {
	versions := u.versions()
	name, of := u.newName("t"), versions[u.r.IntN(len(versions))]
	if ours {
		require.NoError(u.t, u.d.CreateTag(ctxOf(u.t), name, of))
	} else {
		u.python("tag", fields{"name": name, "of": of})
	}
	return true
}

func (u *turns) untag(ours bool) bool {
	tags := mustTags(u.t, u.d)
	if len(tags) == 0 {
		return false
	}
	if name := tags[u.r.IntN(len(tags))].Name; ours {
		require.NoError(u.t, u.d.DeleteTag(ctxOf(u.t), name))
	} else {
		u.python("untag", fields{"name": name})
	}
	return true
}

func (u *turns) cleanup(ours bool) bool {
	if ours {
		_, err := u.d.CleanupOlderThan(ctxOf(u.t), 0)
		require.NoError(u.t, err, u.what)
	} else {
		u.python("cleanup", nil)
	}
	return true
}

func (u *turns) restore(ours bool) bool {
	versions := u.versions()
	v := versions[u.r.IntN(len(versions))]
	u.what += fmt.Sprintf(" of version %d", v)
	if ours {
		u.ours(u.d.CommitRebasing(ctxOf(u.t), Restore{Version: v}))
	} else {
		u.python("restore", fields{"version": v})
	}
	u.m = u.past[v].clone()
	return true
}

func (u *turns) overwrite(ours bool) bool {
	fresh := newModel()
	u.m.columns, u.m.rows = fresh.columns, fresh.rows
	rows := u.fresh(10 + u.r.IntN(20))
	if ours {
		u.ours(u.d.Overwrite(ctxOf(u.t), u.records(rows), WriteOptions{FragmentRows: 10}))
	} else {
		u.python("create", fields{"schema": u.pySchema(), "rows": u.pyRows(rows), "mode": "overwrite"})
	}
	u.accept(rows)
	return true
}

// check compares the three views.
func (u *turns) check() {
	u.t.Helper()
	t := u.t
	u.past[u.d.Version()] = u.m.clone()
	filters := []condition{u.m.condition(u.r), u.m.condition(u.r), u.m.condition(u.r)}
	sql := []string{}
	for _, c := range filters {
		sql = append(sql, c.sql)
	}
	var v view
	require.NoError(t, u.py.call("look", fields{"filters": sql}, &v), u.what)
	require.Equal(t, v.Version, u.d.Version(), u.what)
	require.Equal(t, v.Schema, u.pySchema(), u.what)
	ours := u.scan(u.d, ScanOptions{})
	theirs := []string{}
	for _, row := range v.Rows {
		theirs = append(theirs, joinCells(row))
	}
	require.Equal(t, theirs, ours, u.what)
	slices.Sort(ours)
	require.Equal(t, u.m.lines(), ours, u.what)
	for i, c := range filters {
		want := []string{}
		for _, id := range u.m.kept(c) {
			want = append(want, joinCells(text(arrowx.Row{id})))
		}
		got := u.scan(u.d, ScanOptions{Columns: []string{"id"}, Filter: c.expr})
		answered := []string{}
		for _, cell := range v.Filtered[i] {
			answered = append(answered, joinCells([]*string{cell}))
		}
		require.ElementsMatchf(t, want, got, "%s: where %s", u.what, c.sql)
		require.ElementsMatchf(t, want, answered, "%s: pylance where %s", u.what, c.sql)
	}
	names := indexNames(t, u.d)
	slices.Sort(names)
	require.Equal(t, v.Indexes, slices.Compact(names), u.what)
	require.Equal(t, v.Fragments, fragmentIDs(u.d), u.what)
	require.Equal(t, v.Versions, u.versions(), u.what)
	tags := make(map[string]uint64)
	for _, tag := range mustTags(t, u.d) {
		tags[tag.Name] = tag.Version
	}
	require.Equal(t, v.Tags, tags, u.what)
	u.checkPast(v.Versions)
	u.checkTake()
}

// checkPast reads one older version.
func (u *turns) checkPast(versions []uint64) {
	v := versions[u.r.IntN(len(versions))]
	old, err := u.d.At(ctxOf(u.t), v)
	require.NoError(u.t, err, u.what)
	got := u.scan(old, ScanOptions{})
	slices.Sort(got)
	require.Equal(u.t, u.past[v].lines(), got, "%s: version %d", u.what, v)
}

// checkTake reads a few rows by position.
func (u *turns) checkTake() {
	all := u.scan(u.d, ScanOptions{})
	positions := []uint64{}
	for range min(5, len(all)) {
		positions = append(positions, uint64(u.r.IntN(len(all))))
	}
	rec, err := u.d.Take(ctxOf(u.t), nil, positions)
	require.NoError(u.t, err, u.what)
	defer rec.Release()
	for i, p := range positions {
		require.Equal(u.t, all[p], joinCells(text(arrowx.RowOf(rec, i))), u.what)
	}
}

func (u *turns) scan(d *Dataset, o ScanOptions) []string {
	r, err := d.Rows(ctxOf(u.t), o)
	require.NoError(u.t, err, u.what)
	defer r.Close()
	out := []string{}
	for rec := range batches(u.t, r) {
		for i := range int(rec.NumRows()) {
			out = append(out, joinCells(text(arrowx.RowOf(rec, i))))
		}
	}
	return out
}
