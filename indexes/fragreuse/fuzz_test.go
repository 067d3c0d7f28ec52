package fragreuse

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// expected says whether an error of a decoder is one of those it promises.
func expected(err error) bool {
	return errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrLimit)
}

func FuzzSurvivors(f *testing.F) {
	f.Add(unhex(f, survivorsVector), uint32(4), uint32(1), uint32(4), uint32(1))
	wide := []rowaddr.Addr{}
	for i := range uint32(70000) {
		if i%3 != 0 || i < 20000 {
			wide = append(wide, rowaddr.New(0, i))
		}
	}
	f.Add(treemap(f, append(wide, rowaddr.New(1, 1<<20))...), uint32(70000), uint32(70000-len(wide)), uint32(1<<20+1), uint32(1<<20))
	f.Add(treemap(f), uint32(0), uint32(0), uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, rows0, deleted0, rows1, deleted1 uint32) {
		sources := []table.ReuseDigest{{ID: 0, PhysicalRows: rows0, DeletedRows: min(deleted0, rows0)}, {ID: 1, PhysicalRows: rows1, DeletedRows: min(deleted1, rows1)}}
		list, err := decodeSurvivors("x", b, sources)
		if err != nil {
			require.True(t, expected(err), "%v", err)
			return
		}
		for i := range list {
			next := uint32(0) // ranks count up by one
			for o := range min(sources[i].PhysicalRows, 1<<17) {
				if n, ok := list[i].rank(o); ok {
					require.Equal(t, next, n)
					next++
				}
			}
			require.LessOrEqual(t, next, sources[i].LiveRows())
			_, ok := list[i].rank(sources[i].PhysicalRows)
			require.False(t, ok)
		}
	})
}

func FuzzCounts(f *testing.F) {
	good := counts{destinations: 2, blockRows: 4, rows: 7, grid: []uint32{1, 2, 3, 3}}
	f.Add(good.encode(), uint32(3), uint32(3))
	f.Add((&counts{destinations: 2, blockRows: 1}).encode(), uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, first, second uint32) {
		c, err := decodeCounts("x", b, []table.ReuseDigest{{ID: 1, PhysicalRows: first}, {ID: 2, PhysicalRows: second}})
		if err != nil {
			require.True(t, expected(err), "%v", err)
			return
		}
		require.Equal(t, b, c.encode())
		require.LessOrEqual(t, uint64(first)+uint64(second), c.rows)
	})
}

// FuzzRowMap reads damaged files.
func FuzzRowMap(f *testing.F) {
	ctx := context.Background()
	step := table.ReuseStep{
		Sources:      []table.ReuseDigest{{ID: 5, PhysicalRows: 4, DeletedRows: 1}, {ID: 6, PhysicalRows: 3}},
		Destinations: []table.ReuseDigest{{ID: 8, PhysicalRows: 3}, {ID: 7, PhysicalRows: 3}},
	}
	st := objstore.NewMem()
	p := writeMap(f, store.NewDir(st, "", nil), 2, 4, 0, 1, Deleted, 1, 0, 1, 0)
	good, err := st.ReadAll(ctx, p.Object(), 1<<20)
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		st := objstore.NewMem()
		require.NoError(t, st.PutIfAbsent(ctx, p.Object(), b))
		q := *p
		q.Size = uint64(len(b))
		m, err := OpenRowMap(ctx, store.NewDir(st, "", nil), &q, step, store.NewCache(0))
		if err != nil {
			require.True(t, expected(err), "%v", err)
			return
		}
		seen := map[rowaddr.Addr]bool{}
		for k := range m.counts.blocks() {
			blk, err := m.block(ctx, k)
			if err != nil {
				require.True(t, expected(err), "%v", err)
				return
			}
			for i := range blk.labels {
				if a := m.addr(blk, uint32(i)); a != Gone {
					require.False(t, seen[a])
					seen[a] = true
				}
			}
		}
		require.Len(t, seen, 6)
	})
}

// TestRowMapDamage: what the digests contradict is refused, whatever part of the file says it.
func TestRowMapDamage(t *testing.T) {
	ctx := context.Background()
	digest := func(id, rows uint32) table.ReuseDigest { return table.ReuseDigest{ID: id, PhysicalRows: rows} }
	step := func(destinations ...table.ReuseDigest) table.ReuseStep {
		return table.ReuseStep{Sources: []table.ReuseDigest{{ID: 1, PhysicalRows: 7, DeletedRows: 1}}, Destinations: destinations}
	}
	good := step(digest(2, 3), digest(3, 3))
	open := func(dir store.Dir, p *table.ReusePartition, s table.ReuseStep) error {
		m, err := OpenRowMap(ctx, dir, p, s, store.NewCache(0))
		if err != nil {
			return err
		}
		for k := range m.counts.blocks() {
			if _, err := m.block(ctx, k); err != nil {
				return err
			}
		}
		return nil
	}
	dir := memDir()
	p := writeMap(t, dir, 2, 4, 0, 1, Deleted, 1, 0, 1, 0)
	require.NoError(t, open(dir, p, good))
	other := *p
	other.Size++
	require.ErrorIs(t, open(dir, &other, good), errs.ErrCorruption)
	other = *p
	other.MapID[0]++
	require.ErrorIs(t, open(dir, &other, good), errs.ErrNotFound)
	for _, s := range []table.ReuseStep{
		step(digest(2, 4), digest(3, 2)), step(digest(2, 6)), step(digest(2, 3), digest(3, 3), digest(4, 0)),
		{Sources: []table.ReuseDigest{digest(1, 6)}, Destinations: good.Destinations},
	} {
		require.ErrorIs(t, open(dir, p, s), errs.ErrCorruption)
	}
	// Counts and labels that do not agree.
	for name, change := range map[string]func(w *RowMapWriter){
		"block count": func(w *RowMapWriter) { w.c.grid[0], w.c.grid[1] = 2, 1 },
		"falls":       func(w *RowMapWriter) { w.c.grid[0] = 4 },
		"block rows":  func(w *RowMapWriter) { w.c.blockRows = 2 },
		"no rows":     func(w *RowMapWriter) { w.c.rows = 4 },
		"nothing":     func(w *RowMapWriter) { w.c.grid = nil },
	} {
		dir := memDir()
		w, err := newRowMapWriter(ctx, dir, p.MapID, 2, 4)
		require.NoError(t, err)
		require.NoError(t, w.Append([]int32{0, 1, Deleted, 1, 0, 1, 0}))
		change(w)
		q, _, err := w.Finish(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, open(dir, q, good), errs.ErrCorruption, name)
	}
	raw := (&counts{destinations: 2, blockRows: 4, rows: 7, grid: []uint32{1, 2, 3, 3}}).encode()
	for at, want := range map[int]error{0: errs.ErrCorruption, 4: errs.ErrUnsupported, 8: errs.ErrUnsupported, 12: errs.ErrCorruption, 16: errs.ErrCorruption, 27: errs.ErrCorruption} {
		bad := append([]byte(nil), raw...)
		bad[at]++
		_, err := decodeCounts("x", bad, good.Destinations)
		require.ErrorIs(t, err, want, "byte %d", at)
	}
	for _, bad := range [][]byte{nil, raw[:countsHeader-1], raw[:len(raw)-1], append(raw[:len(raw):len(raw)], 0)} {
		_, err := decodeCounts("x", bad, good.Destinations)
		require.ErrorIs(t, err, errs.ErrCorruption)
	}
	huge := append([]byte(nil), raw...)
	binary.LittleEndian.PutUint64(huge[20:], 1<<63)
	_, err := decodeCounts("x", huge, good.Destinations)
	require.ErrorIs(t, err, errs.ErrCorruption)
}

// TestPartitionLimit: 65,536 destinations are the most, and all labels of them are used.
func TestPartitionLimit(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{0, -1, table.PartitionDestinationsMax + 1} {
		_, err := NewRowMapWriter(ctx, memDir(), [16]byte{1}, n)
		require.ErrorIs(t, err, errs.ErrLimit)
	}
	const n = table.PartitionDestinationsMax
	dir := memDir()
	labels := make([]int32, 2*n+3)
	for i := range labels {
		labels[i] = int32((i * 7) % n)
	}
	labels[5] = Deleted
	p := writeMap(t, dir, n, blockRowsDefault, labels...)
	to := make([]uint64, 0, 3*n)
	sent := make([]uint64, n)
	for _, l := range labels {
		if l != Deleted {
			sent[l]++
		}
	}
	for d := range n {
		to = append(to, uint64(100+d), sent[d], 0)
	}
	content := contentOf(partition(p, digests(1, uint64(len(labels)), 1), digests(to...)))
	h := New(decode(t, content), Options{Maps: In(dir)})
	tr, err := h.For(ctx, bitmap(1))
	require.NoError(t, err)
	require.Equal(t, uint64(n), tr.Coverage().GetCardinality())
	list := make([]rowaddr.Addr, len(labels))
	next := make([]uint32, n)
	want := make([]rowaddr.Addr, len(labels))
	for i := range list {
		list[i], want[i] = rowaddr.New(1, uint32(i)), Gone
		if l := labels[i]; l != Deleted {
			want[i] = rowaddr.New(uint32(100+l), next[l])
			next[l]++
		}
	}
	kept, err := tr.Each(ctx, list)
	require.NoError(t, err)
	require.Equal(t, len(labels)-1, kept)
	require.Equal(t, want, list)

	w, err := NewRowMapWriter(ctx, memDir(), [16]byte{1}, 3)
	require.NoError(t, err)
	for _, l := range []int32{3, -2, 1 << 16} {
		require.ErrorIs(t, w.Append([]int32{l}), errs.ErrInvalid)
	}
	w.Abort()
}

// TestEmptySources: a partition of nothing has a header and no counts.
func TestEmptySources(t *testing.T) {
	ctx := context.Background()
	dir := memDir()
	p := writeMap(t, dir, 1, blockRowsDefault)
	h := New(decode(t, contentOf(partition(p, digests(1, 0, 0), digests(2, 0, 0)))), Options{Maps: In(dir)})
	tr, err := h.For(ctx, bitmap(1))
	require.NoError(t, err)
	list := addrs(t, "1:0")
	_, err = tr.Each(ctx, list)
	require.NoError(t, err)
	require.Equal(t, "-", spell(list))
	// All rows deleted.
	p = writeMap(t, dir, 1, blockRowsDefault, Deleted, Deleted)
	h = New(decode(t, contentOf(partition(p, digests(1, 2, 2), digests(2, 0, 0)))), Options{Maps: In(dir)})
	requireTranslates(t, h, "1:0 1:1 1:2", "- - -")
}
