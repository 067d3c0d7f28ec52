package fragreuse

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/btree"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

const root = "t.lance"

// bench is one table that pylance and we work on.
type bench struct {
	t   testing.TB
	dir string
	st  objstore.Store
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t testing.TB) *bench {
	t.Helper()
	dir := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, dir)
	require.NoError(t, err)
	cmd := exec.Command(oracle.Python(t), "-B", filepath.Join(oracle.Root(t), "testdata", "oracle", "fragreuse.py"), filepath.Join(dir, root))
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "LANCE_LOG=error")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &bench{t: t, dir: dir, st: st, in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

type args map[string]any

// ask sends a request to pylance and returns its error.
func (b *bench) ask(op string, a args, answer any) error {
	b.t.Helper()
	request := args{"op": op}
	for k, v := range a {
		request[k] = v
	}
	line, err := json.Marshal(request)
	require.NoError(b.t, err)
	_, err = b.in.Write(append(line, '\n'))
	require.NoError(b.t, err)
	text, err := b.out.ReadBytes('\n')
	require.NoError(b.t, err)
	var reply struct {
		Answer json.RawMessage `json:"answer"`
		Error  string          `json:"error"`
	}
	require.NoError(b.t, json.Unmarshal(text, &reply), "%s", text)
	if reply.Error != "" {
		return errors.New(reply.Error)
	}
	if answer != nil {
		require.NoError(b.t, json.Unmarshal(reply.Answer, answer))
	}
	return nil
}

// do is ask of what must succeed.
func (b *bench) do(op string, a args) {
	b.t.Helper()
	require.NoError(b.t, b.ask(op, a, nil), "%s %v", op, a)
}

func (b *bench) open() *table.Dataset {
	b.t.Helper()
	d, err := table.Open(context.Background(), b.st, root)
	require.NoError(b.t, err)
	return d
}

// question is one filter on a column, in the three forms it is asked in.
type question struct {
	column string
	field  int
	query  indexes.Query
	expr   predicate.Expr
	sql    string
}

func compare(column string, field int, op predicate.Op, v any, q indexes.Query, sql string) question {
	return question{column, field, q, predicate.Compare{Column: field, Op: op, Value: v}, sql}
}

func questions() []question {
	list := []question{
		{"c", 1, indexes.IsNull{}, predicate.IsNull{Column: 1}, "c IS NULL"},
		compare("id", 0, predicate.Lt, int64(17), indexes.Range{High: indexes.Bound{Value: int64(17), Exclusive: true}}, "id < 17"),
		compare("id", 0, predicate.Ge, int64(33), indexes.Range{Low: indexes.Bound{Value: int64(33)}}, "id >= 33"),
		compare("s", 2, predicate.Eq, "s3", indexes.Equals("s3"), "s = 's3'"),
		compare("s", 2, predicate.Ge, "s8", indexes.Range{Low: indexes.Bound{Value: "s8"}}, "s >= 's8'"),
	}
	for _, v := range []int64{0, 5, 12, 31, 45} {
		list = append(list, compare("id", 0, predicate.Eq, v, indexes.Equals(v), "id = "+itoa(v)))
	}
	for _, v := range []int32{0, 2, 4, 9} {
		list = append(list, compare("c", 1, predicate.Eq, v, indexes.Equals(v), "c = "+itoa(int64(v))))
	}
	return list
}

func itoa(v int64) string { b, _ := json.Marshal(v); return string(b) }

// scanned is the live rows that satisfy a filter, with their ids.
func (b *bench) scanned(d *table.Dataset, e predicate.Expr) (addrs []rowaddr.Addr, ids []int64) {
	b.t.Helper()
	r, err := d.Rows(context.Background(), table.ScanOptions{Columns: []string{"id"}, Filter: e, RowAddress: true})
	require.NoError(b.t, err)
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(ids)
			return addrs, ids
		}
		require.NoError(b.t, err)
		for i := range int(rec.NumRows()) {
			ids = append(ids, rec.Column(0).(*array.Int64).Value(i))
			addrs = append(addrs, rowaddr.Addr(rec.Column(1).(*array.Uint64).Value(i)))
		}
		rec.Release()
	}
}

// segments opens the BTREE and BITMAP segments of a column, translated. minSteps is the least a segment must need.
func (b *bench) segments(d *table.Dataset, h *fragreuse.History, q question, typ arrow.DataType) []indexes.Segment {
	b.t.Helper()
	ctx := context.Background()
	entries, err := d.Indexes()
	require.NoError(b.t, err)
	var out []indexes.Segment
	for _, e := range entries {
		if len(e.Fields) != 1 || int(e.Fields[0]) != q.field {
			continue
		}
		info, ok := indexes.KindOf(e.DetailsType)
		require.True(b.t, ok && info.Readable(e.Version), e.DetailsType)
		if !info.Remappable {
			continue
		}
		t, err := h.Segment(ctx, e.UUID, e.Fragments)
		require.NoError(b.t, err)
		dir := store.NewDir(b.st, indexes.SegmentDir(root, e.UUID), nil)
		var s indexes.Segment
		if info.Kind == indexes.BTree {
			s, err = btree.Open(ctx, dir, btree.OpenOptions{Fragments: t.Sources()})
		} else {
			s, err = bitmap.Open(ctx, dir, bitmap.Spec{Version: e.Version, Fragments: t.Sources(), Type: typ})
		}
		require.NoError(b.t, err)
		out = append(out, fragreuse.Wrap(s, t))
	}
	return out
}

// checked is what a check saw: how much of it was proof.
type checked struct{ answers, rows, translated int }

// check compares our answers by index, intersected with the live rows, with a scan of the fragments that the segments
// cover; and lets pylance answer by index and by scan. covers is the least number of live rows an index must cover.
func (b *bench) check(covers map[string]uint64) (seen checked) {
	b.t.Helper()
	ctx := context.Background()
	d := b.open()
	h, err := fragreuse.Open(ctx, d, fragreuse.Options{})
	require.NoError(b.t, err)
	live, _ := b.scanned(d, nil)
	alive := rowaddr.NewTreemap()
	alive.AddMany(live)
	types := map[string]arrow.DataType{"id": arrow.PrimitiveTypes.Int64, "c": arrow.PrimitiveTypes.Int32, "s": arrow.BinaryTypes.String}
	var sqls []string
	var want [][]int64
	for _, q := range questions() {
		wantAddrs, wantIDs := b.scanned(d, q.expr)
		sqls, want = append(sqls, q.sql), append(want, wantIDs)
		got, covered := rowaddr.NewTreemap(), roaring.New()
		for _, s := range b.segments(d, h, q, types[q.column]) {
			r, err := s.Search(ctx, q.query)
			require.NoError(b.t, err)
			require.True(b.t, r.Exact)
			require.False(b.t, covered.Intersects(r.Fragments), "segments of one index are disjoint")
			covered.Or(r.Fragments)
			got.Or(r.Addrs)
			require.NoError(b.t, s.Close())
		}
		got.And(alive)
		inside := slices.DeleteFunc(wantAddrs, func(a rowaddr.Addr) bool { return !covered.Contains(a.Fragment()) })
		require.True(b.t, slices.Equal(inside, slices.Collect(got.All())), "%s: by index %v, by scan %v", q.sql, slices.Collect(got.All()), inside)
		seen.answers++
		seen.rows += len(inside)
		var rows uint64
		for _, f := range d.Fragments() {
			if covered.Contains(uint32(f.ID)) {
				rows += f.LiveRows()
			}
		}
		require.GreaterOrEqual(b.t, rows, covers[q.column], "live rows the index on %s covers", q.column)
	}
	var answers []struct {
		Index   string  `json:"index"`
		ByIndex []int64 `json:"by_index"`
		ByScan  []int64 `json:"by_scan"`
	}
	require.NoError(b.t, b.ask("query", args{"filters": sqls}, &answers))
	for i, a := range answers {
		require.True(b.t, slices.Equal(want[i], a.ByScan), "%s: their scan", sqls[i])
		require.True(b.t, slices.Equal(want[i], a.ByIndex), "%s: their index %q gives %v, a scan %v", sqls[i], a.Index, a.ByIndex, want[i])
		if covers[questions()[i].column] > 0 {
			require.NotEmpty(b.t, a.Index, "%s: their plan", sqls[i])
		}
	}
	seen.translated = b.sameTranslation(d, h)
	return seen
}

// sameTranslation compares our translation of single addresses with pylance's: those of all sources and some more.
func (b *bench) sameTranslation(d *table.Dataset, h *fragreuse.History) int {
	b.t.Helper()
	var list []rowaddr.Addr
	if h != nil {
		for _, s := range h.Reuse().Steps {
			for _, f := range s.Sources {
				for o := range min(f.PhysicalRows+2, 400) {
					list = append(list, rowaddr.New(f.ID, o))
				}
			}
		}
	}
	for _, f := range d.Fragments() {
		list = append(list, rowaddr.New(uint32(f.ID), uint32(f.PhysicalRows-1)))
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var theirs []*uint64
	require.NoError(b.t, b.ask("remap", args{"addrs": list}, &theirs))
	if h == nil || h.Reuse().IndexVersion > 0 { // pylance 14.0.2 answers nothing for a tagged history
		require.Nil(b.t, theirs)
		return 0
	}
	ours := slices.Clone(list)
	require.NoError(b.t, h.Translate(context.Background(), ours))
	for i, a := range ours {
		if theirs[i] == nil {
			require.Equal(b.t, fragreuse.Gone, a, "%s", list[i])
			continue
		}
		require.Equal(b.t, rowaddr.Addr(*theirs[i]), a, "%s", list[i])
	}
	return len(list)
}

type description struct {
	Version   uint64
	Fragments []uint32
	Rows      uint64
	Indexes   map[string]struct {
		Rows   uint64
		Covers []uint32
	}
}

func (b *bench) describe() description {
	b.t.Helper()
	var d description
	require.NoError(b.t, b.ask("describe", nil, &d))
	return d
}
