package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine/lock"
	"lancesql/internal/errs"
	"lancesql/lsm"
	"lancesql/wal"
)

// walLost makes a data directory whose table t lost the last of its WAL files, after the journal was shortened.
func walLost(t *testing.T) (dir string, entries []string) {
	t.Helper()
	dir = t.TempDir()
	ctx := t.Context()
	e, err := Open(ctx, Config{DataDir: dir}, Components{})
	require.NoError(t, err)
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	for _, name := range []string{"t", "u"} {
		_, err = e.CreateTable(ctx, "db", name, testDef())
		require.NoError(t, err)
	}
	for id := range int64(4) {
		require.NoError(t, put(id, "v").runOn(ctx, e, "t", "u"))
		require.NoError(t, e.writeBehind(ctx, namedTable(e, "t").ID)) // an entry each
	}
	require.NoError(t, e.Close(ctx))
	entries, err = filepath.Glob(filepath.Join(dir, filepath.FromSlash(namedTable(e, "t").Path), "_mem_wal", "*", "wal", "*.arrow"))
	require.NoError(t, err)
	require.Len(t, entries, 4)
	var last string
	var tip uint64
	for _, name := range entries {
		if p, _ := wal.ParseBitReversed(strings.TrimSuffix(filepath.Base(name), ".arrow")); p > tip {
			last, tip = name, p
		}
	}
	require.NoError(t, os.Remove(last))
	return dir, entries
}

// A WAL that ends before the place where the journal saw it end is refused, told by check, and cut only by recover.
func TestShortWALIsRefused(t *testing.T) {
	dir, _ := walLost(t)
	ctx := t.Context()
	for range 3 { // Why again: an opening that fails must not make up for what is missing
		e, err := Open(ctx, Config{DataDir: dir}, Components{})
		require.NoError(t, err)
		_, err = dumpOf(ctx, e, "t")
		require.ErrorIs(t, err, errs.ErrCorruption)
		require.ErrorContains(t, err, "LOCK INSTANCE FOR BACKUP")
		require.Equal(t, "v", dumped(t, e, "u")[3], "other tables are served")
		require.NoError(t, put(9, "v").runOn(ctx, e, "u"))
		require.NoError(t, e.Close(ctx))
	}
	var found []string
	_, err := Check(ctx, dir, CheckOptions{}, func(f CheckFinding) {
		if f.Severity == lsm.Error {
			found = append(found, f.What)
		}
	})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Contains(t, found[0], "are missing: their commits are lost")

	_, err = Recover(ctx, Config{DataDir: dir}, Components{}, RecoverOptions{})
	require.ErrorIs(t, err, errs.ErrCorruption)
	_, err = Recover(ctx, Config{DataDir: dir}, Components{}, RecoverOptions{TruncateAtDamage: true})
	require.NoError(t, err)
	e, err := Open(ctx, Config{DataDir: dir}, Components{})
	require.NoError(t, err)
	require.Equal(t, contents{0: "v", 1: "v", 2: "v"}, dumped(t, e, "t"))
	require.NoError(t, e.Close(ctx))
}

// A shard that is gone altogether is noticed as well.
func TestLostShardIsRefused(t *testing.T) {
	dir, entries := walLost(t)
	ctx := t.Context()
	require.NoError(t, os.RemoveAll(filepath.Dir(filepath.Dir(entries[0]))))
	e, err := Open(ctx, Config{DataDir: dir}, Components{})
	require.NoError(t, err)
	_, err = dumpOf(ctx, e, "t")
	require.ErrorIs(t, err, errs.ErrCorruption)
	require.NoError(t, e.Close(ctx))
	_, err = Recover(ctx, Config{DataDir: dir}, Components{}, RecoverOptions{TruncateAtDamage: true})
	require.NoError(t, err)
	e, err = Open(ctx, Config{DataDir: dir}, Components{})
	require.NoError(t, err)
	require.Empty(t, dumped(t, e, "t"))
	require.NoError(t, e.Close(ctx))
}

func dumped(t *testing.T, e *Engine, table string) contents {
	t.Helper()
	got, err := dumpOf(t.Context(), e, table)
	require.NoError(t, err)
	return got
}

// fileTimes is size and time of every file of a directory but those of the journal.
func fileTimes(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, journalDir) {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			out[path] = info.ModTime().String()
		}
		return err
	}))
	return out
}

// While a session holds the instance rows are written and read, no file changes but the journal's, and what waits goes on
// afterwards.
func TestLockInstance(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	e, err := Open(ctx, Config{DataDir: dir, MemTableRows: 50, JournalSegmentBytes: 256 << 10, WriteBehindDelay: time.Millisecond}, Components{})
	require.NoError(t, err)
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	for _, name := range []string{"t", "u"} {
		_, err = e.CreateTable(ctx, "db", name, testDef())
		require.NoError(t, err)
	}
	require.NoError(t, put(0, "v").runOn(ctx, e, "t", "u"))
	a, b := e.NewSession(1), e.NewSession(2)
	require.NoError(t, a.LockInstance(ctx, time.Second))
	require.NoError(t, a.LockInstance(ctx, time.Second))
	require.NoError(t, b.LockInstance(ctx, time.Second), "several sessions may have it")
	before := fileTimes(t, dir)
	for id := range int64(120) {
		require.NoError(t, put(id, strings.Repeat("w", 100)).runOn(ctx, e, "t", "u"))
	}
	require.Equal(t, strings.Repeat("w", 100), dumped(t, e, "u")[119])
	flushed := make(chan error, 1)
	go func() { flushed <- e.FlushTables(ctx, nil) }()
	time.Sleep(300 * time.Millisecond) // Why: long enough for everything that would be done behind
	require.Equal(t, before, fileTimes(t, dir))
	c := e.NewSession(3)
	require.ErrorIs(t, c.InstanceShared(ctx, 10*time.Millisecond), errs.ErrLockTimeout)
	require.ErrorIs(t, a.InstanceShared(ctx, 10*time.Millisecond), errs.ErrConflict)
	a.UnlockInstance()
	a.UnlockInstance()
	require.Equal(t, before, fileTimes(t, dir), "the other session still has it")

	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	there, err := Open(ctx, Config{DataDir: copied}, Components{})
	require.NoError(t, err)
	require.Len(t, dumped(t, there, "t"), 120)
	require.NoError(t, there.Close(ctx))

	b.Close()
	require.NoError(t, <-flushed)
	require.NoError(t, c.InstanceShared(ctx, 10*time.Second))
	require.ErrorIs(t, a.LockInstance(ctx, 10*time.Millisecond), errs.ErrLockTimeout, "a statement that defines a table runs")
	c.Release(lock.Statement)
	require.NoError(t, a.LockInstance(ctx, time.Second))
	require.NoError(t, put(7, "last").runOn(ctx, e, "t"))
	require.NoError(t, e.Close(context.Background()), "the engine closes in spite of it")
	e, err = Open(ctx, Config{DataDir: dir}, Components{})
	require.NoError(t, err)
	require.Equal(t, "last", dumped(t, e, "t")[7])
	require.NoError(t, e.Close(ctx))
}

// While files are held a row may be the first of its shard: the shard is made all the same, and nobody waits.
func TestLockInstanceNewShards(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	e, err := Open(ctx, Config{DataDir: dir}, Components{})
	require.NoError(t, err)
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	def := testDef()
	def.Sharding = lsm.Sharding{Column: "id", Buckets: 16}
	_, err = e.CreateTable(ctx, "db", "t", def)
	require.NoError(t, err)
	s := e.NewSession(1)
	require.NoError(t, s.LockInstance(ctx, time.Second))
	for id := range int64(64) {
		require.NoError(t, put(id, "v").runOn(ctx, e, "t"))
	}
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	there, err := Open(ctx, Config{DataDir: copied}, Components{})
	require.NoError(t, err)
	require.Len(t, dumped(t, there, "t"), 64)
	require.NoError(t, there.Close(ctx))
	s.Close()
	require.NoError(t, e.FlushTables(ctx, nil))
	require.Len(t, dumped(t, e, "t"), 64)
	require.NoError(t, e.Close(ctx))
}
