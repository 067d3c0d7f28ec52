package sqlbackend_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

func TestLockTables(t *testing.T) {
	for name, script := range map[string]string{
		"read": `
			A: LOCK TABLES t READ
			A: SELECT COUNT(*) FROM t -> 3
			A: SELECT COUNT(*) FROM u -> error 1100
			A: UPDATE t SET v = 0 -> error 1099
			A: SELECT COUNT(*) FROM t x -> error 1100
			B: SELECT COUNT(*) FROM t -> 3
			B& UPDATE t SET v = 11 WHERE id = 1
			A: UNLOCK TABLES
			B? -> ok`,
		"write": `
			A: LOCK TABLES t WRITE, u AS x READ
			A: UPDATE t SET v = 11 WHERE id = 1
			A: SELECT COUNT(*) FROM u x -> 0
			A: SELECT COUNT(*) FROM u -> error 1100
			A: DROP TABLE u -> error 1099
			B: SELECT COUNT(*) FROM u -> 0
			B& SELECT v FROM t WHERE id = 1
			A: UPDATE t SET v = 12 WHERE id = 1
			A: UNLOCK TABLES
			B? -> 12`,
		"waits for transactions": `
			A: BEGIN
			A: SELECT COUNT(*) FROM t -> 3
			B: LOCK TABLES t READ
			B: UNLOCK TABLES
			B& LOCK TABLES t WRITE
			C& SELECT COUNT(*) FROM t
			A: COMMIT
			B? -> ok
			B: UNLOCK TABLES
			C? -> 3`,
		"times out": `
			A: LOCK TABLES t WRITE
			B: SET lock_wait_timeout = 1
			B: SELECT COUNT(*) FROM t -> error 1205
			B: LOCK TABLES u WRITE, t READ -> error 1205
			A: SELECT COUNT(*) FROM u -> error 1100
			A: LOCK TABLES nowhere READ -> error 1146
			A: SELECT COUNT(*) FROM u -> 0
			B: SELECT COUNT(*) FROM t -> 3`,
		"commits and is ended by BEGIN": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			A: LOCK TABLES t WRITE
			A: ROLLBACK
			A: SELECT v FROM t WHERE id = 1 -> 11
			A: BEGIN
			B: SELECT v FROM t WHERE id = 1 -> 11
			A: COMMIT`,
		"of one statement": `
			A: LOCK TABLES t READ, t AS x READ, t READ -> error 1066
			A: LOCK TABLES t WRITE, t AS x READ
			A: SELECT COUNT(*) FROM t JOIN t AS x ON t.id = x.id -> 3
			A: UNLOCK TABLES`,
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, "", script) })
	}
}

func TestMetadataLocks(t *testing.T) {
	for name, script := range map[string]string{
		"DDL waits for those who use the table": `
			A: BEGIN
			A: SELECT COUNT(*) FROM t -> 3
			B: SET lock_wait_timeout = 1
			B: DROP TABLE t -> error 1205
			B: SET lock_wait_timeout = 100
			B& DROP TABLE t
			C& SELECT COUNT(*) FROM t
			A: SELECT COUNT(*) FROM t -> 3
			A: COMMIT
			B? -> ok
			C? -> error 1146`,
		"other tables go on": `
			A: BEGIN
			A: SELECT COUNT(*) FROM t -> 3
			B& TRUNCATE TABLE t
			C: INSERT INTO u VALUES (1, 1)
			C: DROP TABLE u
			A: ROLLBACK
			B? -> ok
			A: SELECT COUNT(*) FROM t -> 0`,
		"a deadlock with rows": `
			A: BEGIN
			A: UPDATE t SET v = 0 WHERE id = 1
			B: BEGIN
			B: SELECT COUNT(*) FROM u -> 0
			C& DROP TABLE u
			B& UPDATE t SET v = 1 WHERE id = 1
			# B is the youngest; C comes before A
			A: SELECT COUNT(*) FROM u -> error 1146
			B? -> error 1213
			C? -> ok`,
		"RENAME takes both names": `
			A: BEGIN
			A: SELECT COUNT(*) FROM t -> 3
			B& RENAME TABLE t TO s
			C& SELECT COUNT(*) FROM s
			A: COMMIT
			B? -> ok
			C? -> 3`,
		"prepared": `
			A: PREPARE p FROM 'SELECT COUNT(*) FROM t'
			A: PREPARE q FROM 'DROP TABLE t'
			A: BEGIN
			A: EXECUTE p -> 3
			B: PREPARE q FROM 'DROP TABLE t'
			B& EXECUTE q
			A: COMMIT
			B? -> ok`,
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, "", script) })
	}
}

func TestLocksByName(t *testing.T) {
	runSteps(t, "", `
		A: SELECT GET_LOCK('x', 0), GET_LOCK('X', 0), IS_FREE_LOCK('x'), IS_USED_LOCK('x') = CONNECTION_ID() -> 1|1|0|1
		B: SELECT GET_LOCK('x', 0), RELEASE_LOCK('x'), RELEASE_LOCK('y'), IS_FREE_LOCK('y'), IS_USED_LOCK('y') -> 0|0|NULL|1|NULL
		B: SELECT GET_LOCK('x', 0.2) -> 0
		A: SELECT RELEASE_LOCK('x') -> 1
		B& SELECT GET_LOCK('x', -1)
		A: BEGIN
		A: ROLLBACK
		A: SELECT RELEASE_LOCK('x') -> 1
		B? -> 1
		A: SELECT GET_LOCK('', 0) -> error 3057
		A: SELECT GET_LOCK(REPEAT('x', 65), 0) -> error 3057
		A: SELECT GET_LOCK(NULL, 0) -> error 3057
		A: SELECT GET_LOCK('y', 0), GET_LOCK('z', 0) -> 1|1
		B& SELECT GET_LOCK('y', 100)
		A: SELECT GET_LOCK('x', 100) -> error 3058
		A: SELECT RELEASE_ALL_LOCKS() -> 2
		B? -> 1
		# through rows and names
		A: BEGIN
		A: UPDATE t SET v = 0 WHERE id = 1
		B& UPDATE t SET v = 1 WHERE id = 1
		A: SELECT GET_LOCK('y', 100) -> error 3058
		A: COMMIT
		B? -> ok`)
}

// TestDisconnectFreesAll: nothing of a connection is left soon after its client has gone, also in a wait.
func TestDisconnectFreesAll(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1,0),(2,0)")
	db := r.open("d")
	holder, err := db.Conn(context.Background())
	require.NoError(t, err)
	for _, s := range []string{"SELECT GET_LOCK('n', 0)", "BEGIN", "UPDATE t SET v = 1 WHERE id = 1"} {
		require.NoError(t, on(holder, s))
	}
	other, err := r.open("d").Conn(context.Background())
	require.NoError(t, err)
	defer other.Close()
	waiting := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	victim, err := r.open("d").Conn(context.Background())
	require.NoError(t, err)
	require.NoError(t, on(victim, "BEGIN"))
	require.NoError(t, on(victim, "UPDATE t SET v = 2 WHERE id = 2"))
	id := connectionID(t, victim)
	go func() { _, err := victim.ExecContext(ctx, "UPDATE t SET v = 2 WHERE id = 1"); waiting <- err }()
	until(t, "the victim waits", func() bool { return r.waits(id) })
	cancel() // the driver closes the socket
	require.Error(t, <-waiting)
	began := time.Now()
	require.NoError(t, on(other, "UPDATE t SET v = 3 WHERE id = 2"))
	require.Less(t, time.Since(began), 2*time.Second)
	_ = holder.Raw(func(any) error { return fmt.Errorf("close: %w", context.Canceled) })
	_ = holder.Close()
	db.SetMaxIdleConns(0)
	began = time.Now()
	require.NoError(t, on(other, "UPDATE t SET v = 3 WHERE id = 1"))
	var got int
	require.NoError(t, other.QueryRowContext(context.Background(), "SELECT GET_LOCK('n', 10)").Scan(&got))
	require.Equal(t, 1, got)
	require.Less(t, time.Since(began), 2*time.Second)
}

// FLUSH TABLES WITH READ LOCK: everybody reads, nobody writes.
func TestGlobalReadLock(t *testing.T) {
	for name, script := range map[string]string{
		"writers wait": `
			A: FLUSH TABLES WITH READ LOCK
			A: SELECT COUNT(*) FROM t JOIN u -> 0
			A: UPDATE t SET v = 1 WHERE id = 1 -> error 1223
			A: CREATE TABLE w (id INT) -> error 1223
			A: DROP TABLE t -> error 1223
			B: SELECT COUNT(*) FROM t -> 3
			B: SET lock_wait_timeout = 1
			B: UPDATE t SET v = 1 WHERE id = 1 -> error 1205
			B: CREATE TABLE w (id INT) -> error 1205
			B: FLUSH TABLES WITH READ LOCK
			B: UNLOCK TABLES
			A: BEGIN
			B: SET lock_wait_timeout = 100
			B& UPDATE t SET v = 12 WHERE id = 1
			A: SELECT COUNT(*) FROM u -> 0
			A: COMMIT
			A: UNLOCK TABLES
			B? -> ok
			A: SELECT v FROM t WHERE id = 1 -> 12
			A: UPDATE t SET v = 13 WHERE id = 1`,
		"waits for writers": `
			A: BEGIN
			A: UPDATE t SET v = 12 WHERE id = 1
			B& FLUSH TABLES WITH READ LOCK
			A: COMMIT
			B? -> ok
			B: SELECT v FROM t WHERE id = 1 -> 12`,
		"a dump keeps its view": `
			A: FLUSH TABLES WITH READ LOCK
			A: START TRANSACTION WITH CONSISTENT SNAPSHOT
			A: UNLOCK TABLES
			B: INSERT INTO t VALUES (4, 1)
			A: SELECT COUNT(*) FROM t -> 3
			A: COMMIT
			A: SELECT COUNT(*) FROM t -> 4`,
		"of some tables": `
			A: FLUSH TABLES t WITH READ LOCK
			A: UPDATE t SET v = 1 WHERE id = 1 -> error 1099
			A: SELECT COUNT(*) FROM u -> error 1100
			B: INSERT INTO u VALUES (1, 1)
			A: FLUSH TABLES WITH READ LOCK -> error 1192
			A: UNLOCK TABLES
			A: SELECT COUNT(*) FROM u -> 1`,
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, "", script) })
	}
}

// LOCK INSTANCE FOR BACKUP: rows are read and written, what changes files waits.
func TestInstanceLock(t *testing.T) {
	for name, script := range map[string]string{
		"definitions wait": `
			A: LOCK INSTANCE FOR BACKUP
			A: LOCK INSTANCE FOR BACKUP
			B: UPDATE t SET v = 12 WHERE id = 1
			B: SELECT v FROM t WHERE id = 1 -> 12
			B: CREATE TEMPORARY TABLE x (id INT)
			B: SET lock_wait_timeout = 1
			B: CREATE TABLE w (id INT) -> error 1205
			B: FLUSH TABLES -> error 1205
			B: ANALYZE TABLE t -> error 1205
			B: CREATE USER backup -> error 1205
			B: SET PASSWORD FOR root = 'x' -> error 1205
			A: DROP TABLE t -> error 1223
			A: INSERT INTO u VALUES (1, 1)
			C: LOCK INSTANCE FOR BACKUP
			B: SET lock_wait_timeout = 100
			B& CREATE TABLE w (id INT)
			A: UNLOCK TABLES
			A: UNLOCK INSTANCE
			C: UNLOCK INSTANCE
			B? -> ok
			A: UNLOCK INSTANCE
			A: DROP TABLE w`,
		"waits for definitions": `
			A: BEGIN
			A: SELECT COUNT(*) FROM t -> 3
			B& DROP TABLE t
			C: SET lock_wait_timeout = 1
			C: LOCK INSTANCE FOR BACKUP -> error 1205
			A: COMMIT
			B? -> ok
			C: LOCK INSTANCE FOR BACKUP
			C: UNLOCK INSTANCE`,
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, "", script) })
	}
}
