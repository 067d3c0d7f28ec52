package e2e

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/history"
	"lancesql/internal/testkit/server"
)

const (
	historyClients   = 16
	historyRegisters = 8
	historyLists     = 4
	historyAccounts  = 10
	historyEach      = 100 // what an account holds at first
)

// TestHistoryKill: sixteen clients and kill -9 again and again. Registers that are written, or read FOR UPDATE and then
// written, are linearizable each; lists that READ COMMITTED transactions append to show no G0, G1a, G1b or G1c; and
// REPEATABLE READ transactions that only read see one cut of the accounts that others move money between.
func TestHistoryKill(t *testing.T) {
	lasts, between := 5*time.Second, time.Second
	if os.Getenv("LANCESQL_SOAK") != "" {
		lasts, between = 30*time.Second, 2*time.Second
	}
	n := seed(t)
	srv := server.Start(t, server.Options{Config: small()})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE d")
	do(t, db, "CREATE TABLE d.r (id INT PRIMARY KEY, v INT NOT NULL)")
	do(t, db, "CREATE TABLE d.l (id INT PRIMARY KEY, s LONGTEXT NOT NULL)")
	do(t, db, "CREATE TABLE d.a (id VARCHAR(9) PRIMARY KEY, v INT NOT NULL)")
	for i := range historyRegisters {
		do(t, db, fmt.Sprintf("INSERT INTO d.r VALUES (%d, 0)", i))
	}
	for i := range historyLists {
		do(t, db, fmt.Sprintf("INSERT INTO d.l VALUES (%d, '')", i))
	}
	for i := range historyAccounts {
		do(t, db, fmt.Sprintf("INSERT INTO d.a VALUES ('%d', %d)", i, historyEach))
	}

	h := &killHistory{began: time.Now()}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var wg sync.WaitGroup
	for client := range historyClients {
		level := "READ-COMMITTED"
		work := h.register
		switch client % 4 {
		case 0:
			level, work = "REPEATABLE-READ", h.cut
			if client == 0 {
				work = h.transfer
			}
		case 1:
			work = h.appendTo
		}
		pool := srv.Open("d", "transaction_isolation=%27"+level+"%27")
		pool.SetMaxOpenConns(1)
		rng := newRand(n + uint64(client))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := work(pool, rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	kills := 0
	for ctx.Err() == nil {
		select {
		case <-time.After(between):
			srv.Restart()
			kills++
		case <-ctx.Done():
		}
	}
	wg.Wait()
	require.Positive(t, kills)
	db = srv.Open("d")
	for k := range historyRegisters {
		h.note(registerInput{key: k, read: true}, registerOutput{value: number(t, db, fmt.Sprintf("SELECT v FROM r WHERE id = %d", k))}, h.now(), h.now())
	}
	t.Logf("%d kills; %d operations on registers, %d transactions on lists (%d and %d of unknown outcome), %d cuts", kills, len(h.operations), len(h.lists),
		len(h.operations)-len(h.known(true)), len(h.uncertain), h.cuts)
	require.Positive(t, h.cuts)
	require.Equal(t, historyAccounts*historyEach, number(t, db, "SELECT SUM(v) FROM a"))
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(registers(), h.known(false), time.Minute))

	final := make([]string, historyLists)
	for i, row := range query(t, db, "SELECT s FROM l ORDER BY id") {
		final[i] = *row[0]
	}
	require.NoError(t, history.CheckAppends(h.settled(final), final))
}

func number(t *testing.T, db *sql.DB, q string) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRow(q).Scan(&n))
	return n
}

// killHistory is what the clients saw. A commit whose answer never came may have happened or not.
type killHistory struct {
	began time.Time

	mu         sync.Mutex
	next       int
	operations []porcupine.Operation
	lists      []*history.Appended
	uncertain  map[*history.Appended]bool
	cuts       int
}

func (h *killHistory) now() int64 { return int64(time.Since(h.began)) }

func (h *killHistory) number() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return h.next
}

type registerInput struct {
	key, value int
	read, swap bool // neither: a write
}

type registerOutput struct {
	value   int // before a swap
	unknown bool
}

func (h *killHistory) note(in registerInput, out registerOutput, call, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: 0, Input: in, Call: call, Output: out, Return: end})
}

// known returns the operations with what the others tell about those of unknown outcome: one that nobody saw is as good as
// none, one that was seen ended before whoever saw it did. certain leaves out all of unknown outcome.
func (h *killHistory) known(certain bool) []porcupine.Operation {
	seen := map[int]int64{} // values by the first end of an operation that saw them
	for _, o := range h.operations {
		in, out := o.Input.(registerInput), o.Output.(registerOutput)
		if (in.read || in.swap) && !out.unknown {
			if end, ok := seen[out.value]; !ok || o.Return < end {
				seen[out.value] = o.Return
			}
		}
	}
	var list []porcupine.Operation
	for _, o := range h.operations {
		if o.Output.(registerOutput).unknown {
			end, ok := seen[o.Input.(registerInput).value]
			if !ok || certain {
				continue
			}
			o.Return = max(end, o.Call)
		}
		list = append(list, o)
	}
	return list
}

// registers is the model of integers that are read, written and swapped.
func registers() porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, historyRegisters)
			for _, o := range all {
				k := o.Input.(registerInput).key
				parts[k] = append(parts[k], o)
			}
			return parts
		},
		Init: func() any { return 0 },
		Step: func(state, input, output any) (bool, any) {
			in, out := input.(registerInput), output.(registerOutput)
			switch {
			case in.read:
				return out.value == state.(int), state
			case in.swap:
				return out.unknown || out.value == state.(int), in.value
			}
			return true, in.value
		},
	}
}

// TestRegisterModel: the model finds what it is for.
func TestRegisterModel(t *testing.T) {
	write := func(v int, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: registerInput{value: v}, Call: call, Output: registerOutput{}, Return: end}
	}
	read := func(v int, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: registerInput{read: true}, Call: call, Output: registerOutput{value: v}, Return: end}
	}
	require.True(t, porcupine.CheckOperations(registers(), []porcupine.Operation{write(1, 0, 10), read(0, 1, 2), read(1, 11, 12)}))
	require.False(t, porcupine.CheckOperations(registers(), []porcupine.Operation{write(1, 0, 10), read(0, 11, 12)}), "a lost write")
	require.False(t, porcupine.CheckOperations(registers(), []porcupine.Operation{write(1, 0, math.MaxInt64), read(1, 1, 2), read(0, 3, 4)}), "a write taken back")
}

// lostAnswer reports whether the connection broke after something was sent: it may have been done.
func lostAnswer(err error) bool {
	return err != nil && mysqlCode(err) == 0 && !errors.Is(err, driver.ErrBadConn)
}

// ended says what an operation's error means: nil if the history goes on.
func ended(err error) error {
	switch {
	case err == nil, isRetryable(err):
		return nil
	case mysqlCode(err) == 0:
		time.Sleep(10 * time.Millisecond) // until the server is back
		return nil
	}
	return err
}

// with runs work on a connection that is there, if there is one.
func with(db *sql.DB, work func(ctx context.Context, c *sql.Conn) error) error {
	c, err := db.Conn(context.Background())
	if err != nil {
		return ended(err)
	}
	defer c.Close()
	return work(context.Background(), c)
}

// register reads, writes or swaps a register.
func (h *killHistory) register(db *sql.DB, rng *rand.Rand) error {
	return with(db, func(ctx context.Context, c *sql.Conn) error { return h.registerOn(ctx, c, rng) })
}

func (h *killHistory) registerOn(ctx context.Context, c *sql.Conn, rng *rand.Rand) error {
	in := registerInput{key: rng.IntN(historyRegisters)}
	out := registerOutput{}
	call := h.now()
	switch rng.IntN(3) {
	case 0:
		in.read = true
		if err := c.QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM r WHERE id = %d", in.key)).Scan(&out.value); err != nil {
			return ended(err)
		}
	case 1:
		in.value = h.number()
		_, err := c.ExecContext(ctx, fmt.Sprintf("UPDATE r SET v = %d WHERE id = %d", in.value, in.key))
		if out.unknown = lostAnswer(err); err != nil && !out.unknown {
			return ended(err)
		}
	default:
		in.swap, in.value = true, h.number()
		tx, err := c.BeginTx(ctx, nil)
		if err != nil {
			return ended(err)
		}
		err = tx.QueryRow(fmt.Sprintf("SELECT v FROM r WHERE id = %d FOR UPDATE", in.key)).Scan(&out.value)
		if err == nil {
			_, err = tx.Exec(fmt.Sprintf("UPDATE r SET v = %d WHERE id = %d", in.value, in.key))
		}
		if err != nil {
			_ = tx.Rollback() // without a COMMIT nothing happened
			return ended(err)
		}
		err = tx.Commit()
		if out.unknown = lostAnswer(err); err != nil && !out.unknown {
			return ended(err)
		}
	}
	end := h.now()
	if out.unknown {
		end = math.MaxInt64
		_ = ended(errors.New("lost"))
	}
	h.note(in, out, call, end)
	return nil
}

// appendTo appends to some lists and reads others in one transaction.
func (h *killHistory) appendTo(db *sql.DB, rng *rand.Rand) error {
	return with(db, func(ctx context.Context, c *sql.Conn) error { return h.appendOn(ctx, c, rng) })
}

func (h *killHistory) appendOn(ctx context.Context, c *sql.Conn, rng *rand.Rand) error {
	x := &history.Appended{ID: h.number(), Writes: map[int]int{}, Reads: map[int]string{}}
	h.mu.Lock()
	h.lists = append(h.lists, x)
	h.mu.Unlock()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return ended(err)
	}
	for range 1 + rng.IntN(4) {
		k := rng.IntN(historyLists)
		if rng.IntN(2) == 0 && x.Writes[k] == 0 {
			var s string
			if err = tx.QueryRow(fmt.Sprintf("SELECT s FROM l WHERE id = %d", k)).Scan(&s); err == nil {
				x.Reads[k] = s
			}
		} else if _, err = tx.Exec(fmt.Sprintf("UPDATE l SET s = CONCAT(s, '%d ') WHERE id = %d", x.ID, k)); err == nil {
			x.Writes[k]++
		}
		if err != nil {
			_ = tx.Rollback()
			return ended(err)
		}
	}
	if rng.IntN(4) == 0 {
		return ended(tx.Rollback())
	}
	err = tx.Commit()
	h.mu.Lock()
	defer h.mu.Unlock()
	x.Committed = err == nil
	if lostAnswer(err) {
		if h.uncertain == nil {
			h.uncertain = map[*history.Appended]bool{}
		}
		h.uncertain[x] = true
		return nil
	}
	return ended(err)
}

// settled decides about commits without an answer by what is there in the end. One that wrote nothing is left out.
func (h *killHistory) settled(final []string) []*history.Appended {
	there := map[string]bool{}
	for _, s := range final {
		for _, id := range strings.Fields(s) {
			there[id] = true
		}
	}
	for x := range h.uncertain {
		x.Committed = there[fmt.Sprint(x.ID)]
	}
	return h.lists
}

// transfer moves money between two accounts.
func (h *killHistory) transfer(db *sql.DB, rng *rand.Rand) error {
	return ended(func() error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		amount := 1 + rng.IntN(9)
		for _, sign := range []string{"-", "+"} {
			if _, err := tx.Exec(fmt.Sprintf("UPDATE a SET v = v %s %d WHERE id = '%d'", sign, amount, rng.IntN(historyAccounts))); err != nil {
				return err
			}
		}
		return tx.Commit()
	}())
}

// cut reads all accounts one by one in one transaction that only reads.
func (h *killHistory) cut(db *sql.DB, rng *rand.Rand) error {
	sum := 0
	err := func() error {
		tx, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: rng.IntN(2) == 0})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		for _, i := range rng.Perm(historyAccounts) {
			var v int
			if err := tx.QueryRow(fmt.Sprintf("SELECT v FROM a WHERE id = '%d'", i)).Scan(&v); err != nil {
				return err
			}
			sum += v
		}
		return tx.Commit()
	}()
	if err != nil {
		return ended(err)
	}
	if sum != historyAccounts*historyEach {
		return fmt.Errorf("one transaction saw %d, want %d", sum, historyAccounts*historyEach)
	}
	h.mu.Lock()
	h.cuts++
	h.mu.Unlock()
	return nil
}
