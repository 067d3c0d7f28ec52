package sqlbackend_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/history"
	"lancesql/sqlbackend"
)

const historyClients = 16

// historyTime is how long each history runs.
func historyTime() time.Duration {
	if os.Getenv("LANCESQL_SOAK") != "" {
		return 30 * time.Second
	}
	return 1500 * time.Millisecond
}

// clients runs work on many connections until the time is over. A deadlock or a duplicate is part of the work.
func clients(t *testing.T, r *running, level string, work func(c *sql.Conn, client int, rng *rand.Rand) error) {
	t.Helper()
	deadline := time.Now().Add(historyTime())
	var wg sync.WaitGroup
	faults := make(chan error, historyClients)
	for client := range historyClients {
		wg.Go(func() {
			c, err := r.open("d").Conn(context.Background())
			if err == nil {
				err = on(c, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
			}
			rng := rand.New(rand.NewPCG(uint64(client), 7))
			for err == nil && time.Now().Before(deadline) {
				err = work(c, client, rng)
			}
			if err != nil {
				faults <- err
			}
			if c != nil {
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
}

func query1[T any](c *sql.Conn, query string, args ...any) (v T, err error) {
	err = c.QueryRowContext(context.Background(), query, args...).Scan(&v)
	return v, err
}

// operation is one use of a counter: an increment that returned its new value, or a read.
type operation struct {
	read       bool
	value      int
	start, end time.Duration
}

// checkCounter reports whether operations on one counter are linearizable. Increments return distinct values and so say
// in which order they happened; what is left is that no operation appears to happen outside its own time.
func checkCounter(ops []operation) error {
	increments := map[int]operation{}
	for _, o := range ops {
		if o.read {
			continue
		}
		if _, twice := increments[o.value]; twice {
			return fmt.Errorf("two increments returned %d", o.value)
		}
		increments[o.value] = o
	}
	for v := 1; v <= len(increments); v++ {
		if _, ok := increments[v]; !ok {
			return fmt.Errorf("%d increments, none returned %d", len(increments), v)
		}
	}
	// By value, an increment before the reads of its value: nothing may end before something earlier began.
	slices.SortStableFunc(ops, func(a, b operation) int {
		if a.value != b.value {
			return a.value - b.value
		}
		if a.read != b.read {
			if a.read {
				return 1
			}
			return -1
		}
		return int(a.start - b.start)
	})
	var latest operation // of the operations so far, the one that began last
	for i, o := range ops {
		if i > 0 && o.end < latest.start {
			return fmt.Errorf("value %d was there at %s, before value %d was begun at %s", o.value, o.end, latest.value, latest.start)
		}
		if i == 0 || o.start > latest.start {
			latest = o
		}
	}
	return nil
}

// TestCheckCounter: the checker finds what it is for.
func TestCheckCounter(t *testing.T) {
	inc := func(v int, start, end time.Duration) operation { return operation{value: v, start: start, end: end} }
	read := func(v int, start, end time.Duration) operation {
		return operation{read: true, value: v, start: start, end: end}
	}
	require.NoError(t, checkCounter([]operation{inc(1, 0, 10), inc(2, 5, 7), read(0, 0, 9), read(2, 6, 20)}))
	require.Error(t, checkCounter([]operation{inc(1, 0, 10), inc(1, 0, 10)}), "a lost update")
	require.Error(t, checkCounter([]operation{inc(2, 0, 1), inc(1, 5, 6)}), "the later one came first")
	require.Error(t, checkCounter([]operation{inc(1, 0, 1), read(0, 5, 6)}), "a stale read")
	require.Error(t, checkCounter([]operation{inc(1, 5, 6), read(1, 0, 1)}), "a read of the future")
	require.Error(t, checkCounter([]operation{inc(1, 0, 10), read(1, 1, 2), read(0, 3, 4)}), "time goes back")
}

// TestHistoryRegisters: counters changed by atomic UPDATEs, or read FOR UPDATE and then written, are linearizable each.
func TestHistoryRegisters(t *testing.T) {
	for _, level := range []string{"REPEATABLE READ", "READ COMMITTED"} {
		t.Run(level, func(t *testing.T) {
			const keys = 3
			r := start(t, "", sqlbackend.ServerConfig{})
			run(t, r.open(""), "CREATE DATABASE d", "CREATE TABLE d.r (id INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO d.r VALUES (0,0),(1,0),(2,0)")
			began := time.Now()
			var mu sync.Mutex
			history := make([][]operation, keys)
			clients(t, r, level, func(c *sql.Conn, _ int, rng *rand.Rand) error {
				k := rng.IntN(keys)
				o := operation{start: time.Since(began)}
				var err error
				switch rng.IntN(4) {
				case 0:
					o.read = true
					o.value, err = query1[int](c, "SELECT v FROM r WHERE id = ?", k)
				case 1: // one statement
					if err = on(c, fmt.Sprintf("UPDATE r SET v = LAST_INSERT_ID(v + 1) WHERE id = %d", k)); err == nil {
						o.value, err = query1[int](c, "SELECT LAST_INSERT_ID()")
					}
				case 2: // any plan
					if err = on(c, fmt.Sprintf("UPDATE r SET v = LAST_INSERT_ID(v + 1) WHERE id + 0 = %d", k)); err == nil {
						o.value, err = query1[int](c, "SELECT LAST_INSERT_ID()")
					}
				default:
					err = on(c, "BEGIN")
					if err == nil && rng.IntN(2) == 0 {
						_, err = query1[int](c, "SELECT v FROM r WHERE id = ?", k) // an older view
					}
					if err == nil {
						o.value, err = query1[int](c, "SELECT v FROM r WHERE id = ? FOR UPDATE", k)
						o.value++
					}
					if err == nil {
						err = on(c, fmt.Sprintf("UPDATE r SET v = %d WHERE id = %d", o.value, k))
					}
					if err == nil {
						err = on(c, "COMMIT")
					}
				}
				if err != nil {
					return err
				}
				o.end = time.Since(began)
				mu.Lock()
				history[k] = append(history[k], o)
				mu.Unlock()
				return nil
			})
			for k, ops := range history {
				require.NoError(t, checkCounter(ops), "key %d", k)
			}
		})
	}
}

// TestHistoryOneCut: a REPEATABLE READ transaction that only reads sees the sum of all accounts, read one by one, unchanged
// by the transfers that go on.
func TestHistoryOneCut(t *testing.T) {
	const accounts, each = 12, 100
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.a (id INT PRIMARY KEY, v INT NOT NULL)")
	for i := range accounts {
		run(t, db, fmt.Sprintf("INSERT INTO d.a VALUES (%d, %d)", i, each))
	}
	var mu sync.Mutex
	transfers, cuts := 0, 0
	clients(t, r, "REPEATABLE READ", func(c *sql.Conn, client int, rng *rand.Rand) error {
		if client%4 == 0 {
			if err := on(c, []string{"START TRANSACTION READ ONLY", "BEGIN", "START TRANSACTION WITH CONSISTENT SNAPSHOT"}[rng.IntN(3)]); err != nil {
				return err
			}
			sum := 0
			for _, i := range rng.Perm(accounts) {
				v, err := query1[int](c, fmt.Sprintf("SELECT v FROM a WHERE id = %d", i))
				if err != nil {
					return err
				}
				sum += v
			}
			whole, err := query1[int](c, "SELECT SUM(v) FROM a")
			if err != nil {
				return err
			}
			if sum != accounts*each || whole != sum {
				return fmt.Errorf("one transaction saw %d and %d, want %d", sum, whole, accounts*each)
			}
			mu.Lock()
			cuts++
			mu.Unlock()
			return on(c, "COMMIT")
		}
		from, to, amount := rng.IntN(accounts), rng.IntN(accounts), 1+rng.IntN(9)
		err := on(c, "BEGIN")
		for _, s := range []string{
			fmt.Sprintf("UPDATE a SET v = v - %d WHERE id = %d", amount, from), fmt.Sprintf("UPDATE a SET v = v + %d WHERE id = %d", amount, to),
		} {
			if err == nil {
				err = on(c, s)
			}
		}
		if errorNumber(err) == 1213 {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		transfers++
		mu.Unlock()
		return on(c, []string{"COMMIT", "COMMIT", "ROLLBACK"}[rng.IntN(3)])
	})
	require.Positive(t, transfers)
	require.Positive(t, cuts)
	require.Equal(t, []string{fmt.Sprint(accounts * each)}, text(t, db, "SELECT SUM(v) FROM d.a"))
}

// TestHistoryAppends: transactions append their number to lists and read others. The lists as they are in the end say in
// which order the writes happened; READ COMMITTED then rules out G0, G1a, G1b and G1c.
func TestHistoryAppends(t *testing.T) {
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
		t.Run(level, func(t *testing.T) { historyAppends(t, level) })
	}
}

func historyAppends(t *testing.T, level string) {
	const lists = 4
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.l (id INT PRIMARY KEY, s LONGTEXT NOT NULL)", "INSERT INTO d.l VALUES (0,''),(1,''),(2,''),(3,'')")
	var mu sync.Mutex
	var seen []*history.Appended
	next := 0
	clients(t, r, level, func(c *sql.Conn, _ int, rng *rand.Rand) error {
		mu.Lock()
		next++
		x := &history.Appended{ID: next, Writes: map[int]int{}, Reads: map[int]string{}}
		seen = append(seen, x)
		mu.Unlock()
		err := on(c, "BEGIN")
		for range 1 + rng.IntN(4) {
			if err != nil {
				break
			}
			k := rng.IntN(lists)
			if rng.IntN(2) == 0 && x.Writes[k] == 0 {
				x.Reads[k], err = query1[string](c, "SELECT s FROM l WHERE id = ?", k)
				continue
			}
			if err = on(c, fmt.Sprintf("UPDATE l SET s = CONCAT(s, '%d ') WHERE id = %d", x.ID, k)); err == nil {
				x.Writes[k]++
			}
		}
		if errorNumber(err) == 1213 {
			return nil
		}
		if err != nil {
			return err
		}
		if rng.IntN(4) == 0 {
			return on(c, "ROLLBACK")
		}
		if err := on(c, "COMMIT"); err != nil {
			return err
		}
		x.Committed = true
		return nil
	})
	final := make([]string, lists)
	for i, row := range text(t, db, "SELECT s FROM d.l ORDER BY id") {
		final[i] = row
	}
	require.NoError(t, history.CheckAppends(seen, final))
}
