package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
)

// fullFS is a filesystem on which files whose path contains a text cannot be made.
type fullFS struct {
	vfs.FS
	full atomic.Pointer[string]
}

func (f *fullFS) fill(where string) { f.full.Store(&where) }
func (f *fullFS) free()             { f.full.Store(nil) }

func (f *fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if where := f.full.Load(); where != nil && strings.Contains(name, *where) {
		return nil, &errNoSpace{name}
	}
	return f.FS.Create(name, c)
}

type errNoSpace struct{ name string }

func (e *errNoSpace) Error() string { return "create " + e.name + ": no space left on device" }
func (e *errNoSpace) Unwrap() error { return syscall.ENOSPC }

// worldOn opens an engine with the test table on the filesystem.
func worldOn(t *testing.T, fs vfs.FS, change func(*Config)) *Engine {
	t.Helper()
	e := openWorld(t, fs, change)
	if testTable(e) == nil {
		require.NoError(t, createTestTable(t.Context(), e))
		_, err := e.CreateTable(t.Context(), "db", "u", testDef())
		require.NoError(t, err)
	}
	return e
}

func openWorld(t *testing.T, fs vfs.FS, change func(*Config)) *Engine {
	t.Helper()
	d, err := diskOn(fs)
	require.NoError(t, err)
	cfg := smallConfig()
	if change != nil {
		change(&cfg)
	}
	e, err := Open(t.Context(), cfg, Components{Store: d.store, Journal: d.journal})
	require.NoError(t, err)
	return e
}

func put(id int64, v string) write { return write{put: contents{id: v}} }

func TestFailedSyncStopsWrites(t *testing.T) {
	fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
	e := worldOn(t, fs, nil)
	ctx := t.Context()
	require.NoError(t, put(1, "a").runOn(ctx, e, "t", "u"))
	fs.Reset(faultfs.Plan{FailAt: 2, Err: errors.New("disk says no")}) // write, then sync
	err := put(2, "b").runOn(ctx, e, "t", "u")
	require.ErrorIs(t, err, errs.ErrSync)
	require.ErrorIs(t, err, errUndecided)
	require.Error(t, e.Failed())
	err = put(3, "c").run(ctx, e)
	require.ErrorIs(t, err, errs.ErrSync, "nothing is acknowledged on top of the unknown")
	require.NotErrorIs(t, err, errUndecided, "this one certainly did not happen")
	require.Equal(t, contents{1: "a"}, mustDump(t, e), "reads go on, without the undecided rows")
	work(e)
	require.NoError(t, e.Close(ctx))

	clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: 100})
	require.NoError(t, err)
	e = openWorld(t, clone, nil)
	require.Equal(t, contents{1: "a", 2: "b"}, mustDump(t, e), "recovery decides: the record turned out to be whole")
	require.NoError(t, e.Close(ctx))
}

func TestNoSpaceForASegment(t *testing.T) {
	fs := &fullFS{FS: vfs.NewMem()}
	e := worldOn(t, fs, nil)
	ctx := t.Context()
	fs.fill(".log")
	var err error
	n := int64(0)
	for ; n < 100; n++ {
		if err = put(n, "x").run(ctx, e); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, errs.ErrNoSpace)
	require.NoError(t, e.Failed())
	require.Len(t, mustDump(t, e), int(n))
	fs.free()
	require.NoError(t, put(n, "x").run(ctx, e), "heals when space returns")
	require.NoError(t, e.Close(ctx))
}

// TestFullJournal: when WAL entries cannot be written the journal fills up to its limit; then writers get an error, with
// the reason, and go on when space returns.
func TestFullJournal(t *testing.T) {
	fs := &fullFS{FS: vfs.NewMem()}
	e := worldOn(t, fs, func(c *Config) { c.JournalBytes = 4 << 16; c.Workers = 2 })
	ctx := t.Context()
	mustRun(t, e, put(1000, "first"))
	fs.fill("/wal/")
	var err error
	n := int64(0)
	for ; n < 1000; n++ {
		if err = put(n, "x").run(ctx, e); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, errs.ErrNoSpace)
	require.ErrorContains(t, err, "commit journal is full")
	require.GreaterOrEqual(t, e.Journal().Bytes, e.Journal().Limit)
	require.NoError(t, e.Failed())
	require.Len(t, mustDump(t, e), int(n)+1)
	fs.free()
	require.Eventually(t, func() bool { return put(n, "x").run(ctx, e) == nil }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, e.Close(ctx))
	e = openWorld(t, fs.FS, nil)
	require.Len(t, mustDump(t, e), int(n)+2)
	require.NoError(t, e.Close(ctx))
}

func TestRelaxedDurability(t *testing.T) {
	fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
	e := worldOn(t, fs, func(c *Config) { c.Durability = SyncEverySecond })
	require.Equal(t, SyncEverySecond, e.Durability())
	ctx := t.Context()
	mustRun(t, e, put(1, "a"))
	require.NoError(t, e.syncJournal(ctx))
	before := fs.FileSyncs()
	for i := range int64(10) {
		mustRun(t, e, put(i, "b"))
	}
	require.Equal(t, before, fs.FileSyncs(), "no commit waits for a sync")
	clone, err := fs.CrashClone(faultfs.CloneConfig{})
	require.NoError(t, err)
	after := openWorld(t, clone, nil)
	require.Equal(t, contents{1: "a"}, mustDump(t, after), "a power failure takes what was not synced")
	require.NoError(t, after.Close(ctx))
	e.SetDurability(SyncCommit)
	mustRun(t, e, put(100, "c"))
	clone, err = fs.CrashClone(faultfs.CloneConfig{})
	require.NoError(t, err)
	after = openWorld(t, clone, nil)
	require.Len(t, mustDump(t, after), 11, "a synced commit brings everything before it")
	require.NoError(t, after.Close(ctx))
	require.NoError(t, e.Close(ctx))
}

func TestRelaxedCommitsAreSyncedWithinASecond(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Plan{})
	e := worldOn(t, fs, func(c *Config) {
		c.Durability, c.Workers, c.WriteBehindDelay = SyncEverySecond, 1, time.Minute
	})
	mustRun(t, e, put(1, "a"))
	before := fs.FileSyncs()
	require.Eventually(t, func() bool { return fs.FileSyncs() > before }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, e.Close(t.Context()))
}

// TestWriteBehind: a commit is in a WAL entry soon; then nothing runs any more.
func TestWriteBehind(t *testing.T) {
	e := worldOn(t, vfs.NewMem(), func(c *Config) { c.Workers, c.WriteBehindDelay, c.Freshness = 2, 20*time.Millisecond, NoFreshness })
	ctx := t.Context()
	require.NoError(t, put(1, "a").runOn(ctx, e, "t", "u"))
	require.NotZero(t, e.Journal().Behind)
	require.Eventually(t, func() bool { return e.Journal().Behind == 0 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { s := e.jobs.Stats(); return s.Queued+s.Running == 0 }, 10*time.Second, time.Millisecond)
	runs := e.jobs.Stats().Runs
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, runs, e.jobs.Stats().Runs, "idle means idle")
	e.behind.mu.Lock()
	require.Nil(t, e.behind.timer)
	e.behind.mu.Unlock()
	require.NoError(t, e.Close(ctx))
}

func TestManyBusyTables(t *testing.T) {
	tables := 40
	if soak() {
		tables = 1000
	}
	e := worldOn(t, vfs.NewMem(), func(c *Config) { c.Workers, c.JournalSegmentBytes, c.JournalBytes = 2, 1<<20, 64<<20 })
	ctx := t.Context()
	names := make([]string, tables)
	for i := range names {
		names[i] = "n" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		_, err := e.CreateTable(ctx, "db", names[i], testDef())
		require.NoError(t, err)
	}
	for round := range int64(5) {
		require.NoError(t, put(round, "v").runOn(ctx, e, names...), "one commit over all tables")
		for _, name := range names {
			require.NoError(t, put(100+round, "v").runOn(ctx, e, name))
		}
	}
	require.Eventually(t, func() bool { return e.Journal().Behind == 0 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, e.Close(ctx))
}

func TestEntryAcknowledgement(t *testing.T) {
	fs := &fullFS{FS: vfs.NewMem()}
	e := worldOn(t, fs, func(c *Config) { c.WALAck = AckEntry; c.Workers = 2 })
	ctx := t.Context()
	for i := range int64(5) {
		require.NoError(t, put(i, "a").runOn(ctx, e, "t", "u"))
		require.Zero(t, e.Journal().Behind, "the entries are there when Commit returns")
	}
	fs.fill("/wal/")
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, put(9, "a").run(short, e), context.DeadlineExceeded, "not acknowledged before the entry is there")
	fs.free()
	require.NoError(t, put(10, "a").run(ctx, e))
	require.Equal(t, "a", mustDump(t, e)[9], "though committed")
	require.NoError(t, e.Close(ctx))
}

// TestJournalNumbersExceedEvidence: tables that have seen greater record numbers than the journal gives out do not hide
// later records.
func TestJournalNumbersExceedEvidence(t *testing.T) {
	fs := vfs.NewCrashableMem()
	e := worldOn(t, fs, nil)
	ctx := t.Context()
	for i := range int64(20) {
		require.NoError(t, put(i, "old").runOn(ctx, e, "t", "u"))
	}
	require.NoError(t, e.Close(ctx))
	names, err := fs.List("/data/_lancesql/journal")
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, fs.Remove(path.Join("/data/_lancesql/journal", name)))
	}
	e = openWorld(t, fs, nil)
	require.NoError(t, put(1, "new").run(ctx, e))
	ot := e.opened(testTable(e).ID)
	require.Greater(t, e.Journal().Next, ot.table.Evidence())
	clone := fs.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))})
	after := openWorld(t, clone, nil)
	require.Equal(t, "new", mustDump(t, after)[1])
	require.NoError(t, after.Close(ctx))
	require.NoError(t, e.Close(ctx))
}

// TestDropPassesTheJournal: after DROP no record of the journal names the table, and others keep theirs.
func TestDropPassesTheJournal(t *testing.T) {
	e := worldOn(t, vfs.NewMem(), nil)
	ctx := t.Context()
	require.NoError(t, put(1, "a").runOn(ctx, e, "t", "u"))
	id := namedTable(e, "u").ID
	require.NotZero(t, e.journal.names(id))
	require.NoError(t, e.passJournal(ctx, id))
	require.Zero(t, e.journal.names(id))
	require.NoError(t, e.DropTable(ctx, "db", "u"))
	mustRun(t, e, put(2, "b"))
	require.NotZero(t, e.journal.names(testTable(e).ID))
	require.Equal(t, contents{1: "a", 2: "b"}, mustDump(t, e))
	require.NoError(t, e.Close(ctx))
}

// TestUnopenableTableKeepsItsRecords: a table that cannot be opened at recovery holds the journal, and nothing else.
func TestUnopenableTableKeepsItsRecords(t *testing.T) {
	mem := vfs.NewCrashableMem()
	e := worldOn(t, mem, nil)
	ctx := t.Context()
	require.NoError(t, put(1, "a").runOn(ctx, e, "t", "u"))
	fs := &fullFS{FS: mem.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))})}
	require.NoError(t, e.Close(ctx))
	fs.fill("/u.lance/")
	e = openWorld(t, fs, nil)
	require.Equal(t, contents{1: "a"}, mustDump(t, e))
	_, err := dumpOf(ctx, e, "u")
	require.ErrorIs(t, err, errs.ErrNoSpace)
	require.NoError(t, put(2, "b").run(ctx, e))
	work(e)
	require.Equal(t, 1, e.Journal().Unopened)
	require.NotZero(t, e.journal.names(namedTable(e, "u").ID), "its records stay")
	fs.free()
	got, err := dumpOf(ctx, e, "u")
	require.NoError(t, err)
	require.Equal(t, contents{1: "a"}, got)
	require.Zero(t, e.Journal().Unopened)
	require.NoError(t, e.Close(ctx))
}

func TestMemoryJournalHoldsNothingBackAtClose(t *testing.T) {
	store := objstore.NewMem()
	for i := range int64(3) {
		e := mustOpen(t, store)
		if i == 0 {
			require.NoError(t, createTestTable(t.Context(), e))
		}
		require.Len(t, mustDump(t, e), int(i))
		mustRun(t, e, put(i, "x"))
		require.NoError(t, e.Close(t.Context()))
	}
}
