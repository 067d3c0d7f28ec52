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

func TestCoveredLeavesOutTheUndecodable(t *testing.T) {
	ctx := context.Background()
	st, _, _ := filled(t, 3)
	require.NoError(t, st.Delete(ctx, wal.EntryName(dir, 1)))
	require.NoError(t, st.PutIfAbsent(ctx, wal.EntryName(dir, 1), []byte("damaged")))
	var got []wal.Position
	require.NoError(t, wal.Covered(ctx, st, dir, 2, 0, func(e wal.Entry) error {
		got = append(got, e.Position)
		return nil
	}))
	require.Equal(t, []wal.Position{2}, got)
}
