package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lsm"
)

// pair is a row of the shared table: id and name.
type pair [2]any

// shared is a table (id int64 primary key, name utf8) that lancedb and we write in turns, without a server between.
type shared struct {
	t     *testing.T
	root  string
	store objstore.Store
	keys  *pkstore.Store
	table *lsm.Table
	seq   uint64
}

func openShared(t *testing.T, root string) *shared {
	t.Helper()
	st, err := objstore.OpenDisk(root)
	require.NoError(t, err)
	keys, err := pkstore.Open()
	require.NoError(t, err)
	s := &shared{t: t, root: root, store: st, keys: keys}
	t.Cleanup(func() { require.NoError(t, errors.Join(keys.Close(), st.Close())) })
	return s
}

func (s *shared) open() {
	s.t.Helper()
	var err error
	s.table, err = lsm.Open(s.t.Context(), lsm.Options{Store: s.store, Keys: s.keys}, "t.lance")
	require.NoError(s.t, err)
}

func (s *shared) hooks() lsm.Hooks {
	return lsm.Hooks{LowWater: func() uint64 { return s.seq }, Advance: func() uint64 { s.seq++; return s.seq }}
}

// put commits rows as one WAL entry; a nil name deletes.
func (s *shared) put(rows ...pair) {
	s.t.Helper()
	sc := s.table.Schema()
	enc, err := lsm.KeyEncoder(sc, []int{0})
	require.NoError(s.t, err)
	var ops []lsm.Op
	for _, r := range rows {
		row := arrowx.Row{int64(r[0].(int)), r[1]}
		k, err := enc.Row(row, []int{0})
		require.NoError(s.t, err)
		op := lsm.Op{Key: k}
		if r[1] != nil {
			op.Row = row
		}
		ops = append(ops, op)
	}
	st, err := s.table.Stage(s.t.Context(), ops)
	require.NoError(s.t, err)
	defer st.Release()
	require.NoError(s.t, s.table.Append(s.t.Context(), st))
	s.seq++
	require.NoError(s.t, s.table.Apply(st, s.seq))
}

func (s *shared) flush() {
	s.t.Helper()
	require.NoError(s.t, errors.Join(s.table.Freeze(), s.table.Flush(s.t.Context())))
}

func (s *shared) merge() {
	s.t.Helper()
	require.NoError(s.t, s.table.Merge(s.t.Context(), s.hooks()))
}

// rows is what we read.
func (s *shared) rows() []pair {
	s.t.Helper()
	snap, err := s.table.Snapshot(s.seq)
	require.NoError(s.t, err)
	defer snap.Release()
	r, err := snap.Scan(s.t.Context(), lsm.ScanSpec{Columns: []int{0, 1}}, nil)
	require.NoError(s.t, err)
	defer r.Close()
	out := []pair{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.SortFunc(out, func(a, b pair) int { return a[0].(int) - b[0].(int) })
			return out
		}
		require.NoError(s.t, err)
		for i := range int(rec.NumRows()) {
			row := arrowx.RowOf(rec, i)
			out = append(out, pair{int(row[0].(int64)), row[1]})
		}
		rec.Release()
	}
}

// seen is what a reader of lancedb sees.
type seen struct {
	Base, LSM []pair
	Points    [][]string
}

func (s *shared) lancedb(ids ...int) seen {
	s.t.Helper()
	args := []string{s.root}
	for _, id := range ids {
		args = append(args, fmt.Sprint(id))
	}
	var out seen
	require.NoError(s.t, json.Unmarshal(oracle.RunNode(s.t, "lsm_reader.mjs", args...), &out))
	for _, list := range [][]pair{out.Base, out.LSM} {
		for i, p := range list {
			list[i] = pair{int(p[0].(float64)), p[1]} // JSON has no integers
		}
	}
	return out
}

// TestInteropTheirLog: rows that lancedb left in its WAL alone are replayed, read, flushed and merged by us, and lancedb
// goes on with the table afterwards.
func TestInteropTheirLog(t *testing.T) {
	root := t.TempDir()
	oracle.RunNode(t, "lsm_writer.mjs", "create", root, "1")
	s := openShared(t, root)
	s.open()
	want := []pair{{1, "ref 1"}, {2, "ref 2"}}
	require.Equal(t, want, s.rows(), "replayed")
	s.put(pair{2, "ours"}, pair{10, "ours"})
	want = []pair{{1, "ref 1"}, {2, "ours"}, {10, "ours"}}
	require.Equal(t, want, s.rows())
	s.flush()
	require.Equal(t, want, s.rows(), "flushed")
	require.Equal(t, seen{Base: []pair{}, LSM: want, Points: [][]string{{"ref 1"}, {"ours"}, {}}}, s.lancedb(1, 2, 3))
	s.merge()
	require.Equal(t, want, s.rows(), "merged")
	require.Equal(t, want, s.lancedb().Base)
	s.put(pair{1, nil})
	require.NoError(t, s.table.Close(t.Context()))

	var rows []pair
	require.NoError(t, json.Unmarshal(oracle.RunNode(t, "lsm_writer.mjs", "replay", root, "20"), &rows))
	require.Equal(t, []pair{{2.0, "ours"}, {10.0, "ours"}, {20.0, "ref 20"}, {21.0, "ref 21"}}, rows, "lancedb goes on")
	s.open()
	require.Equal(t, []pair{{2, "ours"}, {10, "ours"}, {20, "ref 20"}, {21, "ref 21"}}, s.rows(), "a generation of theirs")
	s.flush()
	s.merge()
	require.Equal(t, s.rows(), s.lancedb().Base)
	require.NoError(t, s.table.Close(t.Context()))
}

// TestInteropOurStages: at every stage of our rows a reader of lancedb sees the base table and the flushed generations,
// nothing else, by scans and by look-ups, which go through our sidecars.
func TestInteropOurStages(t *testing.T) {
	oracle.NodeModules(t)
	root := t.TempDir()
	s := openShared(t, root)
	key := arrow.NewMetadata([]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"}, []string{"true", "1"})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	require.NoError(t, lsm.Create(t.Context(), lsm.Options{Store: s.store, Keys: s.keys}, "t.lance", schema, nil))
	s.open()
	var first []pair
	for i := range 10 {
		first = append(first, pair{i, fmt.Sprint("base ", i)})
	}
	s.put(first...)
	require.Equal(t, seen{Base: []pair{}, LSM: []pair{}, Points: [][]string{{}}}, s.lancedb(1), "in the WAL only: nothing")
	s.flush()
	require.Equal(t, seen{Base: []pair{}, LSM: first, Points: [][]string{{"base 1"}, {}}}, s.lancedb(1, 50), "flushed")
	s.merge()
	require.Equal(t, seen{Base: first, LSM: first, Points: [][]string{{"base 1"}, {}}}, s.lancedb(1, 50), "merged")

	s.put(pair{3, nil}, pair{5, "one"}, pair{12, "one"})
	s.put(pair{5, "two"})
	s.flush()
	s.put(pair{6, "three"}, pair{12, nil})
	s.flush()
	s.put(pair{7, "not flushed"}, pair{99, "not flushed"})
	pending := slices.Clone(first)
	pending[5], pending[6] = pair{5, "two"}, pair{6, "three"}
	pending = slices.Delete(pending, 3, 4)
	got := s.lancedb(3, 5, 6, 7, 12, 99)
	require.Equal(t, first, got.Base)
	require.Equal(t, pending, got.LSM)
	require.Equal(t, [][]string{{}, {"two"}, {"three"}, {"base 7"}, {}, {}}, got.Points)
	s.merge()
	got = s.lancedb(3, 5, 7, 12)
	require.Equal(t, pending, got.Base)
	require.Equal(t, pending, got.LSM)
	require.Equal(t, [][]string{{}, {"two"}, {"base 7"}, {}}, got.Points)
	s.flush()
	s.merge()
	require.Equal(t, s.rows(), s.lancedb().Base, "after a drain all of it")
	require.NoError(t, s.table.Close(t.Context()))
}
