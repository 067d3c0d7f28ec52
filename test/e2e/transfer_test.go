package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

const (
	accounts = 10
	opening  = 1000
)

// TestTransfers moves money between rows of tables of each kind of key over six connections while MemTables of some tens
// of rows are flushed and merged. No snapshot, at any time, shows another total; what a transaction has read it reads
// again; counters lose no increment; a restart changes nothing.
func TestTransfers(t *testing.T) {
	n := seed(t)
	srv := server.Start(t, server.Options{Config: map[string]string{
		"memtable_rows": "25", "memtable_bytes": "20000", "merge_after_generations": "2"}})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE d")
	db = srv.Open("d")
	tables := []string{"plain", "hidden", "heap"}
	do(t, db, "CREATE TABLE plain (id INT PRIMARY KEY, bal BIGINT NOT NULL)")
	do(t, db, "CREATE TABLE hidden (id VARCHAR(9) PRIMARY KEY, bal BIGINT NOT NULL)")
	do(t, db, "CREATE TABLE heap (id INT, bal BIGINT NOT NULL)")
	do(t, db, "CREATE TABLE counter (id INT PRIMARY KEY, n BIGINT NOT NULL)")
	do(t, db, "INSERT INTO counter VALUES (0, 0)")
	for _, table := range tables {
		for i := range accounts {
			do(t, db, fmt.Sprintf("INSERT INTO %s VALUES (%d, %d)", table, i, opening))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var mu sync.Mutex
	increments := 0
	var wg sync.WaitGroup
	start := func(work func(r *rand.Rand) error) {
		r := newRand(n)
		n++
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := work(r); err != nil && !isRetryable(err) && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 6 {
		start(func(r *rand.Rand) error {
			if r.IntN(5) > 0 {
				return moveMoney(db, r, tables[r.IntN(len(tables))])
			}
			_, err := db.Exec("UPDATE counter SET n = n + 1 WHERE id = 0")
			if err == nil {
				mu.Lock()
				increments++
				mu.Unlock()
			}
			return err
		})
	}
	for range 2 {
		start(func(r *rand.Rand) error { return watch(db, r, tables[r.IntN(len(tables))]) })
	}
	start(func(r *rand.Rand) error {
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		_, err := db.Exec("FLUSH TABLES")
		return err
	})
	wg.Wait()
	for _, after := range []func(){func() {}, func() { do(t, db, "FLUSH TABLES") }, func() { srv.Kill(); srv.Start() }} {
		after()
		db := srv.Open("d")
		for _, table := range tables {
			_, err := balances(db, table)
			require.NoError(t, err)
		}
		require.Equal(t, fmt.Sprint(increments), one(t, db, "SELECT n FROM counter"))
	}
}

// isRetryable reports whether a transaction was the victim of a deadlock or waited too long.
func isRetryable(err error) bool { return mysqlCode(err) == 1213 || mysqlCode(err) == 1205 }

// moveMoney moves an amount between two accounts; some transfers are taken back, in part or in whole.
func moveMoney(db *sql.DB, r *rand.Rand, table string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	from, to, amount := r.IntN(accounts), r.IntN(accounts), r.IntN(20)
	queries := []string{
		fmt.Sprintf("UPDATE %s SET bal = bal - %d WHERE id = %d", table, amount, from),
		fmt.Sprintf("UPDATE %s SET bal = bal + %d WHERE id = %d", table, amount, to),
	}
	switch k := r.IntN(4); {
	case k == 0:
		queries = append(queries[:1:1], "SAVEPOINT s", fmt.Sprintf("UPDATE %s SET bal = 0", table), "ROLLBACK TO SAVEPOINT s", queries[1])
	case k == 1 && table == "plain":
		queries = []string{fmt.Sprintf("INSERT INTO plain VALUES (%d, 0), (%d, 0) ON DUPLICATE KEY UPDATE bal = bal + "+
			"IF(id = %[1]d, -%[3]d, %[3]d)", from, (from+1)%accounts, amount)}
	}
	for _, q := range queries {
		if _, err := tx.Exec(q); err != nil {
			return err
		}
	}
	if r.IntN(6) == 0 {
		return tx.Rollback()
	}
	return tx.Commit()
}

// watch reads a table several times in one transaction.
func watch(db *sql.DB, r *rand.Rand, table string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var first map[string]string
	for range 1 + r.IntN(4) {
		now, err := balances(tx, table)
		if err != nil {
			return err
		}
		if first == nil {
			first = now
		}
		for id, bal := range first {
			if now[id] != bal {
				return fmt.Errorf("account %s of %s was %s and is %s in the same transaction", id, table, bal, now[id])
			}
		}
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
	}
	return tx.Commit()
}

// balances reads all accounts and checks their number and total.
func balances(q queryer, table string) (map[string]string, error) {
	rows, err := tryQuery(q, "SELECT id, bal FROM "+table)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(rows))
	total := 0
	for _, row := range rows {
		out[*row[0]] = *row[1]
		var bal int
		if _, err := fmt.Sscan(*row[1], &bal); err != nil {
			return nil, err
		}
		total += bal
	}
	if len(rows) != accounts || len(out) != accounts || total != accounts*opening {
		return nil, fmt.Errorf("table %s has %d rows and a total of %d: %v", table, len(rows), total, out)
	}
	return out, nil
}
