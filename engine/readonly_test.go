package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// lookOnly fails every call that would change something and counts them.
type lookOnly struct {
	objstore.Store
	tried atomic.Int64
}

func (l *lookOnly) refuse() error {
	l.tried.Add(1)
	return errs.ErrReadOnly
}

func (l *lookOnly) PutIfAbsent(context.Context, string, []byte) error { return l.refuse() }
func (l *lookOnly) Put(context.Context, string, []byte) error         { return l.refuse() }
func (l *lookOnly) Create(context.Context, string) (objstore.Writer, error) {
	return nil, l.refuse()
}
func (l *lookOnly) Delete(context.Context, string) error         { return l.refuse() }
func (l *lookOnly) RemoveAll(context.Context, string) error      { return l.refuse() }
func (l *lookOnly) Rename(context.Context, string, string) error { return l.refuse() }
func (l *lookOnly) MakeDir(context.Context, string) error        { return l.refuse() }

// besides opens dir for reading only, with a store that notices attempts to change something, and checks at the end that
// there was none.
func besides(t *testing.T, dir string, cfg Config, clk clock.Clock) *Engine {
	t.Helper()
	inner, err := objstore.OpenReadOnly(dir)
	require.NoError(t, err)
	st := &lookOnly{Store: inner}
	e, err := OpenReadOnly(t.Context(), cfg, Components{Store: st, Clock: clk})
	require.NoError(t, err)
	require.True(t, e.ReadOnly())
	t.Cleanup(func() {
		require.NoError(t, e.Close(context.Background()))
		require.NoError(t, inner.Close())
		require.Zero(t, st.tried.Load(), "the reader tried to change something")
	})
	return e
}

// fingerprint is every file below dir with content, mode and time.
func fingerprint(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := [32]byte{}
		if !d.IsDir() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(b)
		}
		out[p] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), info.Size(), sum)
		return nil
	}))
	return out
}

func writerOn(t *testing.T, dir string) *Engine {
	t.Helper()
	cfg := smallConfig()
	cfg.DataDir = dir
	e, err := Open(t.Context(), cfg, Components{})
	require.NoError(t, err)
	return e
}

func putRow(t *testing.T, e *Engine, id int64, v string) {
	t.Helper()
	require.NoError(t, write{put: contents{id: v}}.run(t.Context(), e))
}

func TestReadOnlyChangesNothing(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	w := writerOn(t, dir)
	require.NoError(t, createTestTable(ctx, w))
	for id := range int64(20) {
		putRow(t, w, id, "x")
		if id == 12 {
			require.NoError(t, w.FlushTables(ctx, nil))
		}
	}
	require.NoError(t, w.Close(ctx))
	before := fingerprint(t, dir)

	cfg := smallConfig()
	cfg.DataDir = dir
	e, err := OpenReadOnly(ctx, cfg, Components{})
	require.NoError(t, err)
	rows, err := readAll(ctx, e.Begin(TxnOptions{}), testTable(e))
	require.NoError(t, err)
	require.Len(t, rows, 20)
	tbl := testTable(e)
	txn := e.Begin(TxnOptions{})
	txn.BeginStatement()
	require.ErrorIs(t, txn.Insert(ctx, tbl, testRow(100, "y")), errs.ErrReadOnly)
	require.ErrorIs(t, txn.Update(ctx, tbl, testRow(1, "x"), testRow(1, "y")), errs.ErrReadOnly)
	require.ErrorIs(t, txn.Delete(ctx, tbl, testRow(1, "x")), errs.ErrReadOnly)
	require.NoError(t, txn.Commit(ctx))
	require.ErrorIs(t, e.CreateDatabase(ctx, "d2", nil), errs.ErrReadOnly)
	require.ErrorIs(t, e.DropDatabase(ctx, "db"), errs.ErrReadOnly)
	_, err = e.CreateTable(ctx, "db", "t2", testDef())
	require.ErrorIs(t, err, errs.ErrReadOnly)
	require.ErrorIs(t, e.DropTable(ctx, "db", "t"), errs.ErrReadOnly)
	require.ErrorIs(t, e.RenameTable(ctx, "db", "t", "u"), errs.ErrReadOnly)
	require.ErrorIs(t, e.FlushTables(ctx, nil), errs.ErrReadOnly)
	require.ErrorIs(t, e.SetAutoIncrement(ctx, tbl, 7), errs.ErrReadOnly)
	require.NoError(t, e.Close(ctx))
	require.NoError(t, e.Close(ctx), "idempotent")
	require.Equal(t, before, fingerprint(t, dir))
}

func TestReadOnlyRefusesOtherDirectories(t *testing.T) {
	_, err := OpenReadOnly(t.Context(), Config{DataDir: t.TempDir()}, Components{})
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = OpenReadOnly(t.Context(), Config{DataDir: filepath.Join(t.TempDir(), "absent")}, Components{})
	require.ErrorIs(t, err, errs.ErrNotFound)
}

// TestReadOnlyStaleness: a statement sees what was in WAL entries when it began, give or take the staleness; a transaction
// keeps what it saw first.
func TestReadOnlyStaleness(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	w := writerOn(t, dir)
	defer func() { require.NoError(t, w.Close(ctx)) }()
	require.NoError(t, createTestTable(ctx, w))
	putRow(t, w, 1, "a")
	clk := clock.NewManual(time.Unix(1_800_000_000, 0))
	cfg := smallConfig()
	cfg.Staleness = time.Second
	behind := func() {
		require.NoError(t, w.writeBehind(ctx, testTable(w).ID))
	}
	behind()
	e := besides(t, dir, cfg, clk)
	see := func(txn *Txn) contents {
		txn.BeginStatement()
		c, err := readAll(ctx, txn, testTable(e))
		require.NoError(t, err)
		return c
	}
	long := e.Begin(TxnOptions{})
	defer long.Rollback()
	require.Equal(t, contents{1: "a"}, see(long))
	putRow(t, w, 2, "b")
	behind()
	once := func() contents {
		txn := e.Begin(TxnOptions{})
		defer txn.Rollback()
		return see(txn)
	}
	clk.Advance(time.Second)
	require.Equal(t, contents{1: "a"}, once(), "it may be a second old")
	clk.Advance(time.Nanosecond)
	require.Equal(t, contents{1: "a", 2: "b"}, once(), "it may not be older")
	require.Equal(t, contents{1: "a"}, see(long), "repeatable read")
	committed := e.Begin(TxnOptions{Isolation: ReadCommitted})
	defer committed.Rollback()
	require.Equal(t, contents{1: "a", 2: "b"}, see(committed))

	for id := int64(3); id < 40; id++ { // flushes and merges go by
		putRow(t, w, id, "c")
		require.NoError(t, write{drop: []int64{id}, put: contents{2: fmt.Sprint("b", id)}}.run(ctx, w))
		behind()
		for w.jobs.RunOne() {
		}
		clk.Advance(2 * time.Second)
		require.Equal(t, contents{1: "a", 2: fmt.Sprint("b", id)}, once(), id)
		require.Equal(t, contents{1: "a", 2: fmt.Sprint("b", id)}, see(committed), id)
	}
	require.Equal(t, contents{1: "a"}, see(long), "repeatable read, over flushes and merges")
}

// TestReadOnlyFollowsTheCatalog: databases and tables come, change their names and go.
func TestReadOnlyFollowsTheCatalog(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	w := writerOn(t, dir)
	defer func() { require.NoError(t, w.Close(ctx)) }()
	e := besides(t, dir, smallConfig(), clock.System())
	require.Empty(t, e.Catalog().Databases())
	follow := func() { require.NoError(t, e.followCatalog(ctx)) }
	require.NoError(t, createTestTable(ctx, w))
	putRow(t, w, 1, "a")
	require.NoError(t, w.writeBehind(ctx, testTable(w).ID))
	follow()
	old := testTable(e)
	c, err := readAll(ctx, e.Begin(TxnOptions{}), old)
	require.NoError(t, err)
	require.Equal(t, contents{1: "a"}, c)

	require.NoError(t, w.RenameTable(ctx, "db", "t", "u"))
	_, err = readAll(ctx, e.Begin(TxnOptions{}), old)
	if err != nil { // its look at the renamed directory fails, or is not due yet
		require.ErrorIs(t, err, errs.ErrVanished)
	}
	follow()
	require.Nil(t, testTable(e))
	c, err = readAll(ctx, e.Begin(TxnOptions{}), namedTable(e, "u"))
	require.NoError(t, err)
	require.Equal(t, contents{1: "a"}, c)

	require.NoError(t, w.DropTable(ctx, "db", "u"))
	gone := namedTable(e, "u")
	for id := range e.tables { // the look is due
		e.tables[id].followed.since = time.Time{}
	}
	_, err = readAll(ctx, e.Begin(TxnOptions{}), gone)
	require.ErrorIs(t, err, errs.ErrVanished)
	require.Nil(t, namedTable(e, "u"), "the error has made it look")
	require.Empty(t, e.openTables())
}

// TestReadOnlyBesideWriter: a writer moves amounts between rows of one shard while it flushes, merges and cleans up; a reader
// beside it sees every transaction whole and never goes back. What it was reading may vanish; then it runs again.
func TestReadOnlyBesideWriter(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	cfg := smallConfig()
	cfg.DataDir, cfg.Workers, cfg.WriteBehindDelay = dir, 2, time.Millisecond
	w, err := Open(ctx, cfg, Components{})
	require.NoError(t, err)
	require.NoError(t, createTestTable(ctx, w))
	require.NoError(t, write{put: contents{1: "0", 2: "0"}}.run(ctx, w))
	require.NoError(t, w.writeBehind(ctx, testTable(w).ID))
	rounds := 100
	if testing.Short() {
		rounds = 40
	}
	const enough = 10      // looks
	var looks atomic.Int64 // the writer goes on until there have been enough, however the two are scheduled
	written := 0
	var wg sync.WaitGroup
	wg.Add(1)
	done := make(chan struct{})
	go func() {
		defer wg.Done()
		defer close(done)
		for n := 1; n <= rounds || looks.Load() < enough && !t.Failed(); n++ {
			written = n
			v := fmt.Sprint(n)
			if err := (write{put: contents{1: v, 2: v}}).run(ctx, w); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	rc := smallConfig()
	rc.Staleness = time.Nanosecond
	e := besides(t, dir, rc, clock.System())
	last, again := 0, 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		c, err := readAll(ctx, e.Begin(TxnOptions{}), testTable(e))
		if errors.Is(err, errs.ErrVanished) {
			again++
			continue
		}
		require.NoError(t, err)
		looks.Add(1)
		n := 0
		_, err = fmt.Sscan(c[1], &n)
		require.NoError(t, err)
		require.Equal(t, c[1], c[2], "a transaction seen in part")
		require.GreaterOrEqual(t, n, last, "it went back")
		last = n
	}
	wg.Wait()
	require.NoError(t, w.Close(ctx)) // everything is in WAL entries then
	c, err := readAll(ctx, e.Begin(TxnOptions{}), testTable(e))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(written), c[1])
	t.Logf("%d writes, %d looks, %d ran again", written, looks.Load(), again)
}

// readAll reads a table through the transaction.
func readAll(ctx context.Context, txn *Txn, tbl *TableEntry) (contents, error) {
	return readFrom(ctx, txn, tbl, Consistent, lsm.ScanSpec{})
}
