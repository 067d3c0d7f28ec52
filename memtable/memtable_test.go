package memtable_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/memtable"
)

func schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
}

func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

func store(t testing.TB) *pkstore.Store {
	st, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func batch(t testing.TB, mem memory.Allocator, rows ...arrowx.Row) arrow.RecordBatch {
	rec, err := arrowx.FromRows(mem, schema(), rows)
	require.NoError(t, err)
	return rec
}

func row(id int64, text any, tomb bool) arrowx.Row { return arrowx.Row{id, text, tomb} }

func key(id int64) rowkey.Key { return rowkey.Key(rowkey.AppendInt64(nil, id)) }

// read returns the rows of chunks, checks that they are consecutive from first, and releases them.
func read(t testing.TB, chunks []memtable.Chunk, first uint32) []arrowx.Row {
	out := []arrowx.Row{}
	for _, c := range chunks {
		require.Equal(t, first+uint32(len(out)), c.First)
		for i := range int(c.Batch.NumRows()) {
			out = append(out, arrowx.RowOf(c.Batch, i))
		}
		c.Batch.Release()
	}
	return out
}

func newTable(t testing.TB, mem memory.Allocator, st *pkstore.Store) *memtable.MemTable {
	m, err := memtable.NewWithAllocator(mem, 3, schema(), []int{0}, st.New())
	require.NoError(t, err)
	return m
}

func TestAgainstModel(t *testing.T) {
	st := store(t)
	for seed := range uint64(10) {
		mem, rng := checked(t), rand.New(rand.NewPCG(seed, 5))
		m := newTable(t, mem, st)
		require.Equal(t, uint64(3), m.Generation())
		var rows []arrowx.Row
		born := map[uint64]uint32{}
		seq := uint64(0)
		small := rng.IntN(2) == 0
		for range 1 + rng.IntN(120) {
			seq += uint64(rng.IntN(3))
			n := rng.IntN(4)
			if !small && rng.IntN(4) == 0 {
				n = rng.IntN(3000)
			}
			add := make([]arrowx.Row, n)
			for i := range add {
				tomb := rng.IntN(4) == 0
				add[i] = row(rng.Int64N(20), fmt.Sprint(len(rows)+i), tomb)
				if tomb {
					add[i][1] = nil
				}
			}
			rec := batch(t, mem, add...)
			first, err := m.Append(rec, seq)
			rec.Release()
			require.NoError(t, err)
			require.EqualValues(t, len(rows), first)
			rows = append(rows, add...)
			born[seq] = uint32(len(rows))
		}
		require.EqualValues(t, len(rows), m.Rows())
		chunks := m.Batches(m.Rows())
		require.LessOrEqual(t, len(chunks), 14+len(rows)/4096*2, "coalesced")
		require.Equal(t, len(rows), len(read(t, chunks, 0)))
		for range 20 {
			from, upTo := uint32(rng.IntN(len(rows)+2)), uint32(rng.IntN(len(rows)+5))
			lo := min(from, uint32(len(rows)))
			hi := max(lo, min(upTo, uint32(len(rows))))
			require.Equal(t, append([]arrowx.Row{}, rows[lo:hi]...), read(t, m.Slice(from, upTo), from))
		}
		last := uint32(0)
		for s := uint64(0); s <= seq+1; s++ {
			if n, ok := born[s]; ok {
				last = n
			}
			require.Equal(t, last, m.Births().At(s), "seed %d seq %d", seed, s)
		}
		for r := range rows {
			at, ok := m.Births().Of(uint32(r))
			require.True(t, ok)
			require.Greater(t, m.Births().At(at), uint32(r))
			require.True(t, at == 0 || m.Births().At(at-1) <= uint32(r))
		}
		for id := range int64(21) {
			var want []pkstore.Hit
			for i := len(rows) - 1; i >= 0; i-- {
				if rows[i][0] == id {
					want = append(want, pkstore.Hit{Row: uint64(i), Tombstone: rows[i][2].(bool)})
				}
			}
			hits, err := m.Space().Rows(key(id))
			require.NoError(t, err)
			require.Equal(t, want, hits)
		}
		if len(rows) > 0 {
			var pos []uint32
			want := []arrowx.Row{}
			for range rng.IntN(30) {
				p := rng.IntN(len(rows))
				pos, want = append(pos, uint32(p)), append(want, rows[p])
			}
			rec, err := m.Take(mem, pos)
			require.NoError(t, err)
			got := []arrowx.Row{}
			for i := range int(rec.NumRows()) {
				got = append(got, arrowx.RowOf(rec, i))
			}
			rec.Release()
			require.Equal(t, want, got)
		}
		m.Release()
	}
}

func TestReadersSurviveCoalescingAndRelease(t *testing.T) {
	mem := checked(t)
	m := newTable(t, mem, store(t))
	add := func(id int64) {
		rec := batch(t, mem, row(id, "x", false))
		defer rec.Release()
		_, err := m.Append(rec, uint64(id))
		require.NoError(t, err)
	}
	add(0)
	before := m.Batches(1)
	add(1) // replaces the first batch by a joined one
	both := m.Batches(2)
	space := m.Space()
	m.Release()
	require.Equal(t, []arrowx.Row{row(0, "x", false)}, read(t, before, 0))
	require.Equal(t, []arrowx.Row{row(0, "x", false), row(1, "x", false)}, read(t, both, 0))

	require.Nil(t, m.Batches(2))
	require.Zero(t, m.Rows())
	require.Zero(t, m.Bytes())
	require.False(t, m.TryRetain())
	hits, err := space.Rows(key(0)) // the key entries live on in the generation
	require.NoError(t, err)
	require.Len(t, hits, 1)
	require.NoError(t, space.Drop())
	rec := batch(t, mem, row(2, "x", false))
	defer rec.Release()
	_, err = m.Append(rec, 9)
	require.ErrorIs(t, err, errs.ErrClosed)
	_, err = m.Take(mem, nil)
	require.ErrorIs(t, err, errs.ErrClosed)
}

func TestReferences(t *testing.T) {
	m := newTable(t, memory.DefaultAllocator, store(t))
	m.Retain()
	m.Release()
	require.True(t, m.TryRetain())
	m.Release()
	rec := batch(t, memory.DefaultAllocator, row(1, nil, true))
	defer rec.Release()
	_, err := m.Append(rec, 1)
	require.NoError(t, err)
	m.Release()
	require.Zero(t, m.Rows())
}

// One appender, many readers: every prefix a reader is told of is complete, and every key in it is found.
func TestConcurrentReaders(t *testing.T) {
	m := newTable(t, memory.DefaultAllocator, store(t))
	const groups = 600
	done := make(chan struct{})
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(r), 6))
			for {
				select {
				case <-done:
					return
				default:
				}
				seq := m.Births().Last()
				upTo := m.Births().At(seq)
				n := uint32(0)
				for _, c := range m.Batches(upTo) {
					if c.First != n {
						t.Errorf("chunk at %d, want %d", c.First, n)
					}
					for i := range int(c.Batch.NumRows()) {
						if v := arrowx.Value(c.Batch.Column(1), i); v != fmt.Sprint(n) {
							t.Errorf("row %d reads %v", n, v)
						}
						n++
					}
					c.Batch.Release()
				}
				if n != upTo {
					t.Errorf("%d rows at %d, want %d", n, seq, upTo)
				}
				if upTo > 0 {
					p := uint32(rng.IntN(int(upTo)))
					got, _, ok, err := m.Space().Newest(key(int64(p%50)), uint64(p)+1)
					if err != nil || !ok || got != uint64(p) {
						t.Errorf("row %d of key %d: %d %v %v", p, p%50, got, ok, err)
					}
					rec, err := m.Take(memory.DefaultAllocator, []uint32{p})
					if err != nil || arrowx.Value(rec.Column(1), 0) != fmt.Sprint(p) {
						t.Errorf("take %d: %v", p, err)
					}
				}
				_ = m.Bytes()
			}
		}()
	}
	n := 0
	for g := range groups {
		rows := make([]arrowx.Row, 1+g%3)
		for i := range rows {
			rows[i] = row(int64(n%50), fmt.Sprint(n), false)
			n++
		}
		rec := batch(t, memory.DefaultAllocator, rows...)
		_, err := m.Append(rec, uint64(g+1))
		rec.Release()
		require.NoError(t, err)
	}
	close(done)
	wg.Wait()
	m.Release()
}

func TestAppendRefuses(t *testing.T) {
	mem := checked(t)
	st := store(t)
	m := newTable(t, mem, st)
	defer m.Release()
	good := batch(t, mem, row(1, "a", false))
	defer good.Release()
	_, err := m.Append(good, 5)
	require.NoError(t, err)
	_, err = m.Append(good, 4)
	require.ErrorIs(t, err, errs.ErrInvalid)
	nullTomb := batch(t, mem, arrowx.Row{int64(1), "a", nil})
	defer nullTomb.Release()
	_, err = m.Append(nullTomb, 6)
	require.ErrorIs(t, err, errs.ErrInvalid)
	narrow, err := arrowx.Project(good, arrow.NewSchema(schema().Fields()[:2], nil), []int{0, 1})
	require.NoError(t, err)
	defer narrow.Release()
	_, err = m.Append(narrow, 6)
	require.ErrorIs(t, err, errs.ErrInvalid)
	swapped, err := arrowx.Project(good, arrow.NewSchema([]arrow.Field{schema().Field(1), schema().Field(0), schema().Field(2)}, nil), []int{1, 0, 2})
	require.NoError(t, err)
	defer swapped.Release()
	_, err = m.Append(swapped, 6)
	require.ErrorIs(t, err, errs.ErrInvalid)

	require.NoError(t, m.Space().Drop()) // stands for a broken store: the rows must not appear
	_, err = m.Append(good, 7)
	require.ErrorIs(t, err, errs.ErrClosed)
	require.EqualValues(t, 1, m.Rows())
	require.EqualValues(t, 5, m.Births().Last())
}

func TestNewRefuses(t *testing.T) {
	sp := store(t).New()
	for name, f := range map[string]func() error{
		"no tombstone": func() error {
			_, err := memtable.New(1, arrow.NewSchema(schema().Fields()[:2], nil), []int{0}, sp)
			return err
		},
		"no columns":   func() error { _, err := memtable.New(1, arrow.NewSchema(nil, nil), nil, sp); return err },
		"no space":     func() error { _, err := memtable.New(1, schema(), []int{0}, nil); return err },
		"key outside":  func() error { _, err := memtable.New(1, schema(), []int{3}, sp); return err },
		"key tomb":     func() error { _, err := memtable.New(1, schema(), []int{2}, sp); return err },
		"key negative": func() error { _, err := memtable.New(1, schema(), []int{-1}, sp); return err },
	} {
		require.ErrorIs(t, f(), errs.ErrInvalid, name)
	}
	s := arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64}, schema().Field(2)}, nil)
	_, err := memtable.New(1, s, []int{0}, sp)
	require.ErrorIs(t, err, errs.ErrUnsupported)
}

func TestWithoutKey(t *testing.T) {
	m, err := memtable.New(1, schema(), nil, nil)
	require.NoError(t, err)
	rec := batch(t, memory.DefaultAllocator, row(1, "a", false), row(1, "a", false))
	defer rec.Release()
	_, err = m.Append(rec, 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, m.Rows())
	require.Nil(t, m.Space())
	m.Release()
}

func TestBytesFollowTheRows(t *testing.T) {
	mem := checked(t)
	m := newTable(t, mem, store(t))
	defer m.Release()
	long := make([]arrowx.Row, 4000)
	for i := range long {
		long[i] = row(int64(i), "0123456789", false)
	}
	whole := batch(t, mem, long...)
	one := whole.NewSlice(10, 11) // shares 60 kB
	for s := range 3 {
		_, err := m.Append(one, uint64(s))
		require.NoError(t, err)
	}
	require.Less(t, m.Bytes(), int64(1000))
	small := m.Bytes()
	_, err := m.Append(whole, 9)
	require.NoError(t, err)
	one.Release()
	whole.Release()
	perRow := (m.Bytes() - small) / 4000
	require.Greater(t, perRow, int64(8+4+10))
	require.Less(t, perRow, int64(200))
	require.Equal(t, 4, m.Appends())
}

func BenchmarkAppendOneRow(b *testing.B) {
	m := newTable(b, memory.DefaultAllocator, store(b))
	rec := batch(b, memory.DefaultAllocator, row(1, "0123456789", false))
	for i := 0; b.Loop(); i++ {
		if _, err := m.Append(rec, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
}
