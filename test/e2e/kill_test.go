package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/server"
)

const (
	killConnections = 8
	killAccounts    = 40
	killKeys        = 120 // keys that one connection owns
)

// cellState is what a connection's key must hold: nil = no row.
type cellState *string

// writerModel is one connection's knowledge: what was acknowledged, and what was sent and not answered.
type writerModel struct {
	id      int
	rows    map[int]cellState
	pending map[int]cellState // changes of the commit in flight; nil = none
	commits int
	serial  int
}

// TestKill: kill -9 under eight writing connections; afterwards every acknowledged row is there, and of the commit that was
// in flight on a connection either everything or nothing. Each connection owns a range of keys, so the model is exact; all
// of them move amounts between shared accounts, whose sum no half transaction leaves alone.
func TestKill(t *testing.T) {
	rounds := 5
	if s := os.Getenv("LANCESQL_KILL_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		rounds = n
	}
	n := seed(t)
	r := newRand(n)
	srv := server.Start(t, server.Options{Config: small()})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE crash")
	db = srv.Open("crash")
	do(t, db, "CREATE TABLE owned (id INT NOT NULL PRIMARY KEY, state VARCHAR(400) NOT NULL)")
	do(t, db, "CREATE TABLE accounts (name VARCHAR(20) NOT NULL PRIMARY KEY, amount BIGINT NOT NULL)")
	for i := range killAccounts {
		do(t, db, "INSERT INTO accounts VALUES (?, 1000)", fmt.Sprint("account ", i))
	}
	writers := make([]*writerModel, killConnections)
	for i := range writers {
		writers[i] = &writerModel{id: i, rows: map[int]cellState{}}
	}
	commits := 0
	for round := range rounds {
		runUntilKilled(t, srv, writers, n+uint64(round)*1000, time.Duration(150+r.IntN(900))*time.Millisecond)
		if r.IntN(3) == 0 { // again while it recovers
			crashWhileStarting(t, srv, time.Duration(r.IntN(300))*time.Millisecond)
		}
		srv.Start()
		verifyKill(t, srv, writers, round)
		before := commits
		commits = 0
		for _, w := range writers {
			commits += w.commits
		}
		require.Greater(t, commits, before, "round %d: no commit was acknowledged", round)
	}
	db = srv.Open("crash")
	do(t, db, "FLUSH TABLES")
	verifyKill(t, srv, writers, rounds)
	t.Logf("%d rounds, %d acknowledged commits, %d Lance versions of the table", rounds, commits, countVersions(t, srv, "owned"))
	if rounds >= 5 {
		require.GreaterOrEqual(t, countVersions(t, srv, "owned"), 3, "no merge by threshold was reached: the test is too small to mean anything")
	}
	t.Run("oracle", func(t *testing.T) {
		want := len(query(t, db, "SELECT id FROM owned"))
		got := oracle.DumpPython(t, filepath.Join(srv.DataDir(), "crash"), "owned")
		require.Equal(t, want, got.Lance.Count)
		require.Equal(t, want, got.LanceDB.Count)
	})
	srv.Stop()
}

// countVersions is the number of manifests that the table has had: the greatest version named by a file.
func countVersions(t *testing.T, srv *server.Server, table string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(srv.DataDir(), "crash", table+".lance", "_versions"))
	require.NoError(t, err)
	most := uint64(0)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".manifest")
		inverse, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		most = max(most, ^inverse) // V2 names count down from the greatest number
	}
	return int(most)
}

func crashWhileStarting(t *testing.T, srv *server.Server, after time.Duration) {
	t.Helper()
	cmd := srv.Command()
	require.NoError(t, cmd.Start())
	time.Sleep(after)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// runUntilKilled lets all writers work, kills the server after the time, and waits for the writers to notice.
func runUntilKilled(t *testing.T, srv *server.Server, writers []*writerModel, n uint64, after time.Duration) {
	t.Helper()
	faults := make(chan error, len(writers))
	var group sync.WaitGroup
	for _, w := range writers {
		db := srv.Open("crash", "interpolateParams=true")
		db.SetMaxOpenConns(1)
		group.Add(1)
		go func() {
			defer group.Done()
			if err := w.run(db, newRand(n+uint64(w.id))); err != nil {
				faults <- fmt.Errorf("connection %d: %w", w.id, err)
			}
		}()
	}
	time.Sleep(after)
	alive := srv.Alive()
	srv.Kill()
	group.Wait()
	close(faults)
	for err := range faults {
		t.Errorf("before the kill: %v", err)
	}
	require.True(t, alive, "the server ended by itself")
	require.False(t, t.Failed())
}

// run works until the connection breaks. An error that the server itself reported is the test's failure, except for the
// conflicts that a transaction may meet.
func (w *writerModel) run(db *sql.DB, r *rand.Rand) error {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil // killed before it began
	}
	defer conn.Close()
	for {
		var err error
		switch r.IntN(6) {
		case 0, 1, 2:
			err = w.single(ctx, conn, r)
		case 3, 4:
			err = w.transaction(ctx, conn, r)
		case 5:
			err = transfer(ctx, conn, r)
		}
		if err == nil {
			continue
		}
		var fromServer *mysql.MySQLError
		if errors.As(err, &fromServer) {
			return err
		}
		return nil
	}
}

// draw makes one change of an owned key: statement, arguments and what the key holds afterwards.
func (w *writerModel) draw(r *rand.Rand, now map[int]cellState) (string, []any, int, cellState) {
	key := w.id*100000 + r.IntN(killKeys)
	w.serial++
	state := fmt.Sprintf("%d:%d:%s", w.id, w.serial, strings.Repeat("x", r.IntN(300)))
	switch {
	case now[key] == nil && r.IntN(2) == 0:
		return "INSERT INTO owned VALUES (?, ?)", []any{key, state}, key, &state
	case now[key] == nil || r.IntN(4) == 0:
		return "REPLACE INTO owned VALUES (?, ?)", []any{key, state}, key, &state
	case r.IntN(3) == 0:
		return "DELETE FROM owned WHERE id = ?", []any{key}, key, nil
	default:
		return "UPDATE owned SET state = ? WHERE id = ?", []any{state, key}, key, &state
	}
}

func (w *writerModel) single(ctx context.Context, conn *sql.Conn, r *rand.Rand) error {
	statement, args, key, state := w.draw(r, w.rows)
	w.pending = map[int]cellState{key: state}
	if _, err := conn.ExecContext(ctx, statement, args...); err != nil {
		return err
	}
	w.acknowledge()
	return nil
}

func (w *writerModel) transaction(ctx context.Context, conn *sql.Conn, r *rand.Rand) error {
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	now, changes := map[int]cellState{}, map[int]cellState{}
	for k, v := range w.rows {
		now[k] = v
	}
	for range 2 + r.IntN(7) {
		statement, args, key, state := w.draw(r, now)
		if _, err := conn.ExecContext(ctx, statement, args...); err != nil {
			return err // nothing is pending: COMMIT was not sent
		}
		now[key], changes[key] = state, state
	}
	if r.IntN(5) == 0 {
		_, err := conn.ExecContext(ctx, "ROLLBACK")
		return err
	}
	w.pending = changes
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	w.acknowledge()
	return nil
}

func (w *writerModel) acknowledge() {
	for k, v := range w.pending {
		w.rows[k] = v
	}
	w.pending = nil
	w.commits++
}

// transfer moves an amount between two shared accounts. A deadlock or a lock wait that is too long undoes it.
func transfer(ctx context.Context, conn *sql.Conn, r *rand.Rand) error {
	from, to := r.IntN(killAccounts), r.IntN(killAccounts-1)
	if to >= from {
		to++
	}
	amount := r.IntN(50)
	for _, s := range []struct {
		text string
		args []any
	}{
		{"BEGIN", nil},
		{"UPDATE accounts SET amount = amount - ? WHERE name = ?", []any{amount, fmt.Sprint("account ", from)}},
		{"UPDATE accounts SET amount = amount + ? WHERE name = ?", []any{amount, fmt.Sprint("account ", to)}},
		{"COMMIT", nil},
	} {
		if _, err := conn.ExecContext(ctx, s.text, s.args...); err != nil {
			if code := mysqlCode(err); code == 1213 || code == 1205 {
				_, err = conn.ExecContext(ctx, "ROLLBACK")
			}
			return err
		}
	}
	return nil
}

// verifyKill compares the server's rows with every writer's model and settles what was in flight.
func verifyKill(t *testing.T, srv *server.Server, writers []*writerModel, round int) {
	t.Helper()
	db := srv.Open("crash")
	found := map[int]cellState{}
	for _, row := range query(t, db, "SELECT id, state FROM owned") {
		id, err := strconv.Atoi(*row[0])
		require.NoError(t, err)
		require.NotContains(t, found, id, "round %d: row %d twice", round, id)
		found[id] = row[1]
	}
	known := map[int]bool{}
	for _, w := range writers {
		settled, err := w.settle(found)
		require.NoError(t, err, "round %d", round)
		for k := range settled {
			known[k] = true
		}
		w.rows, w.pending = settled, nil
	}
	for id := range found {
		require.True(t, known[id], "round %d: row %d was never written", round, id)
	}
	require.Equal(t, fmt.Sprint(killAccounts*1000), one(t, db, "SELECT SUM(amount) FROM accounts"), "round %d: half a transfer", round)
	require.Equal(t, fmt.Sprint(killAccounts), one(t, db, "SELECT COUNT(*) FROM accounts"), "round %d", round)
}

// settle returns the writer's rows after the crash: those acknowledged, with all of the commit in flight or without it. The
// error tells what is neither.
func (w *writerModel) settle(found map[int]cellState) (map[int]cellState, error) {
	without := w.faults(w.rows, found)
	if len(without) == 0 {
		return w.rows, nil
	}
	if w.pending == nil {
		return nil, fmt.Errorf("connection %d: %d acknowledged rows differ, the first: %s", w.id, len(without), without[0])
	}
	with := map[int]cellState{}
	for k, v := range w.rows {
		with[k] = v
	}
	for k, v := range w.pending {
		with[k] = v
	}
	if whole := w.faults(with, found); len(whole) > 0 {
		return nil, fmt.Errorf("connection %d: neither with nor without the commit in flight of %d rows\nwith it: %s\nwithout: %s", w.id, len(w.pending), whole[0], without[0])
	}
	return with, nil
}

// TestSettle is the planted fault of TestKill: lost, resurrected and half-written rows are found.
func TestSettle(t *testing.T) {
	state := func(s string) cellState { return &s }
	old := map[int]cellState{0: state("a"), 1: state("b"), 2: nil}
	pending := map[int]cellState{1: state("B"), 2: state("C")}
	w := func(pending map[int]cellState) *writerModel { return &writerModel{rows: old, pending: pending} }
	for _, found := range []map[int]cellState{{0: state("a"), 1: state("b")}, {0: state("a"), 1: state("B"), 2: state("C")}} {
		got, err := w(pending).settle(found)
		require.NoError(t, err)
		require.Empty(t, w(nil).faults(got, found))
	}
	for name, found := range map[string]map[int]cellState{
		"lost":        {1: state("b")},
		"resurrected": {0: state("a"), 1: state("b"), 3: state("d")},
		"half":        {0: state("a"), 1: state("B")},
		"older":       {0: state("a"), 1: state("older")},
	} {
		_, err := w(pending).settle(found)
		require.Error(t, err, name)
		_, err = w(nil).settle(found)
		require.Error(t, err, name)
	}
	_, err := w(nil).settle(map[int]cellState{0: state("a"), 1: state("B"), 2: state("C")})
	require.Error(t, err, "never acknowledged")
}

func (w *writerModel) faults(want, found map[int]cellState) []string {
	var out []string
	show := func(s cellState) string {
		if s == nil {
			return "no row"
		}
		return fmt.Sprintf("%.40q (%d bytes)", *s, len(*s))
	}
	for k := w.id * 100000; k < w.id*100000+killKeys; k++ {
		a, b := want[k], found[k]
		if (a == nil) != (b == nil) || (a != nil && *a != *b) {
			out = append(out, fmt.Sprintf("row %d should be %s, is %s", k, show(a), show(b)))
		}
	}
	return out
}
