package wal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/wal"
)

var defaultMem = memory.DefaultAllocator

func filled(t testing.TB, n int64) (*objstore.Mem, *shard, *wal.Log) {
	st, sh := objstore.NewMem(), &shard{}
	l := sh.claim(st, 1)
	for id := range n {
		_, err := add(t, l, id+1)
		require.NoError(t, err)
	}
	return st, sh, l
}

func TestReadNamesDamagedEntry(t *testing.T) {
	ctx := context.Background()
	for name, damage := range map[string]func([]byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"torn":  func(b []byte) []byte { return b[:len(b)/2] },
		"flip":  func(b []byte) []byte { b[len(b)-100] ^= 4; return b },
	} {
		for _, p := range []wal.Position{2, 3} { // 3 is the last
			st, _, _ := filled(t, 3)
			object := wal.EntryName(dir, p)
			data, err := st.ReadAll(ctx, object, 1<<20)
			require.NoError(t, err)
			require.NoError(t, st.Delete(ctx, object))
			require.NoError(t, st.PutIfAbsent(ctx, object, damage(append([]byte{}, data...))))
			seen := 0
			tail, err := wal.Read(ctx, st, dir, 1, 0, func(wal.Entry) error { seen++; return nil })
			require.ErrorIs(t, err, errs.ErrCorruption, name)
			require.ErrorContains(t, err, object)
			require.EqualValues(t, p-1, tail)
			require.EqualValues(t, p-1, seen)
		}
	}
}

func TestReadFindsHole(t *testing.T) {
	ctx := context.Background()
	st, _, _ := filled(t, 4)
	require.NoError(t, st.Delete(ctx, wal.EntryName(dir, 2)))
	tail, err := wal.Read(ctx, st, dir, 1, 0, func(wal.Entry) error { return nil })
	require.ErrorIs(t, err, errs.ErrCorruption)
	require.ErrorContains(t, err, wal.EntryName(dir, 2))
	require.EqualValues(t, 1, tail)
	_, tail = replay(t, st, 3)
	require.EqualValues(t, 4, tail)
}

func TestReadLimitVisitErrorAndContext(t *testing.T) {
	st, _, _ := filled(t, 2)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := wal.Read(ctx, st, dir, 1, 100, func(wal.Entry) error { return nil })
	require.ErrorIs(t, err, errs.ErrLimit)
	boom := errors.New("boom")
	tail, err := wal.Read(ctx, st, dir, 1, 0, func(e wal.Entry) error {
		if e.Position == 2 {
			return boom
		}
		return nil
	})
	require.ErrorIs(t, err, boom)
	require.EqualValues(t, 1, tail)
	cancel()
	_, err = wal.Read(ctx, st, dir, 1, 0, func(wal.Entry) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// Entries appended while the replay runs are read as well.
func TestReadFollowsTheTip(t *testing.T) {
	st, _, l := filled(t, 2)
	n := 0
	tail, err := wal.Read(context.Background(), st, dir, 1, 0, func(wal.Entry) error {
		if n++; n < 5 {
			_, err := add(t, l, int64(n))
			return err
		}
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 6, tail)
}

func TestRemoveKeepsSentinels(t *testing.T) {
	ctx := context.Background()
	st, sh, l := filled(t, 2)
	b := sh.claim(st, 1)
	_, err := b.Fence(ctx)
	require.NoError(t, err)
	for id := int64(3); id < 6; id++ {
		_, err := add(t, b, id)
		require.NoError(t, err)
	}
	for _, name := range []string{"readme.txt", "101.arrow"} {
		require.NoError(t, st.PutIfAbsent(ctx, dir+"/wal/"+name, []byte("not ours")))
	}
	for range 2 {
		require.NoError(t, wal.Remove(ctx, st, dir, 5))
		left := map[string]bool{}
		require.NoError(t, st.List(ctx, dir+"/wal", func(i objstore.Info) error { left[i.Name] = true; return nil }))
		require.Equal(t, map[string]bool{wal.EntryName(dir, 3): true, wal.EntryName(dir, 6): true,
			dir + "/wal/readme.txt": true, dir + "/wal/101.arrow": true}, left)
	}
	_, err = add(t, l, 99) // the stalled writer still meets the sentinel
	require.ErrorIs(t, err, errs.ErrFenced)
	ids, tail := replay(t, st, 6)
	require.Equal(t, []int64{5}, ids)
	require.EqualValues(t, 6, tail)
	require.NoError(t, wal.Remove(ctx, objstore.NewMem(), dir, 9), "no log, nothing to do")
}

func TestRemoveKeepsTheUndecodable(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(ctx, wal.EntryName(dir, 1), []byte("a damaged sentinel?")))
	require.NoError(t, wal.Remove(ctx, st, dir, 1))
	_, err := st.Stat(ctx, wal.EntryName(dir, 1))
	require.NoError(t, err)
}
