package sqlbackend_test

import (
	"strings"
	"testing"
)

// TestIsolation is what InnoDB documents for REPEATABLE READ and READ COMMITTED, step by step. Gap locks are the one
// difference and are not in it.
func TestIsolation(t *testing.T) {
	for name, script := range map[string]string{
		"dirty read": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			B: SELECT v FROM t WHERE id = 1 -> 10
			A: ROLLBACK
			B: SELECT v FROM t WHERE id = 1 -> 10`,
		"intermediate read": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			B: BEGIN
			B: SELECT v FROM t WHERE id = 1 -> 10
			A: UPDATE t SET v = 12 WHERE id = 1
			B: SELECT v FROM t WHERE id = 1 -> 10
			A: COMMIT
			B: SELECT v FROM t WHERE id = 1 -> RR 10 / RC 12
			B: COMMIT
			B: SELECT v FROM t WHERE id = 1 -> 12`,
		"non-repeatable read": `
			A: BEGIN
			A: SELECT v FROM t WHERE id = 1 -> 10
			B: UPDATE t SET v = 11 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> RR 10 / RC 11
			A: SELECT v FROM t WHERE id = 1 LOCK IN SHARE MODE -> 11
			A: SELECT v FROM t WHERE id = 1 -> RR 10 / RC 11
			A: COMMIT`,
		"phantom": `
			A: BEGIN
			A: SELECT id FROM t WHERE v > 15 ORDER BY id -> 2, 3
			B: INSERT INTO t VALUES (4, 40)
			A: SELECT id FROM t WHERE v > 15 ORDER BY id -> RR 2, 3 / RC 2, 3, 4
			# an UPDATE finds what is newest, and what it changed is seen from then on
			A: UPDATE t SET v = v + 1 WHERE id = 4
			A: SELECT id, v FROM t WHERE v > 15 ORDER BY id -> 2|20, 3|30, 4|41
			A: COMMIT`,
		"the view is taken at the first read": `
			A: BEGIN
			B: UPDATE t SET v = 11 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> 11
			B: UPDATE t SET v = 12 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> RR 11 / RC 12
			A: COMMIT`,
		"consistent snapshot": `
			A: START TRANSACTION WITH CONSISTENT SNAPSHOT
			B: UPDATE t SET v = 11 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> RR 10 / RC 11
			A: COMMIT
			A: START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY
			B: UPDATE t SET v = 12 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> RR 11 / RC 12
			A: DELETE FROM t -> error 1792
			A: COMMIT`,
		"lost update": `
			A: BEGIN
			B: BEGIN
			A: SELECT v FROM t WHERE id = 1 -> 10
			B: SELECT v FROM t WHERE id = 1 -> 10
			A: UPDATE t SET v = v + 1 WHERE id = 1
			B& UPDATE t SET v = v + 1 WHERE id = 1
			A: COMMIT
			B? -> ok
			B: SELECT v FROM t WHERE id = 1 -> 12
			B: COMMIT
			A: SELECT v FROM t WHERE id = 1 -> 12`,
		"lost update with FOR UPDATE": `
			A: BEGIN
			B: BEGIN
			A: SELECT v FROM t WHERE id = 1 FOR UPDATE -> 10
			B& SELECT v FROM t WHERE id = 1 FOR UPDATE
			A: UPDATE t SET v = 11 WHERE id = 1
			A: COMMIT
			B? -> 11
			B: UPDATE t SET v = 12 WHERE id = 1
			B: COMMIT
			A: SELECT v FROM t WHERE id = 1 -> 12`,
		"FOR UPDATE sees what is newest": `
			A: BEGIN
			A: SELECT v FROM t WHERE id = 1 -> 10
			B: UPDATE t SET v = 11 WHERE id = 1
			B: INSERT INTO t VALUES (4, 40)
			B: DELETE FROM t WHERE id = 2
			A: SELECT id, v FROM t ORDER BY id -> RR 1|10, 2|20, 3|30 / RC 1|11, 3|30, 4|40
			A: SELECT id, v FROM t ORDER BY id FOR UPDATE -> 1|11, 3|30, 4|40
			A: SELECT id, v FROM t ORDER BY id -> RR 1|10, 2|20, 3|30 / RC 1|11, 3|30, 4|40
			B& UPDATE t SET v = 0 WHERE id = 4
			A: COMMIT
			B? -> ok`,
		"a row that no longer matches is not returned": `
			A: BEGIN
			A: UPDATE t SET v = 99 WHERE id = 2
			B: BEGIN
			B& SELECT id FROM t WHERE v = 20 FOR UPDATE
			A: COMMIT
			B? -> none
			B: COMMIT`,
		"a row deleted while it was waited for": `
			A: BEGIN
			A: DELETE FROM t WHERE id = 2
			B: BEGIN
			B& SELECT id, v FROM t WHERE id >= 2 ORDER BY id FOR UPDATE
			A: COMMIT
			B? -> 3|30
			B: COMMIT`,
		"a row that is not committed yet is waited for": `
			A: BEGIN
			A: INSERT INTO t VALUES (4, 0)
			A: UPDATE t SET v = 40 WHERE id = 4
			B: BEGIN
			B& SELECT id, v FROM t WHERE v >= 30 ORDER BY id FOR UPDATE
			A: UPDATE t SET v = 41 WHERE id = 4
			A: COMMIT
			B? -> 3|30, 4|41
			B: COMMIT`,
		"a row that is never committed": `
			A: BEGIN
			A: INSERT INTO t VALUES (4, 40), (5, 50)
			B: BEGIN
			B& SELECT id, v FROM t WHERE v >= 30 ORDER BY v DESC LIMIT 2 FOR UPDATE
			A: ROLLBACK
			B? -> 3|30
			B: COMMIT`,
		"a row that is not committed and does not match": `
			A: BEGIN
			A: INSERT INTO t VALUES (4, 40)
			A: UPDATE t SET id = 5 WHERE id = 3
			B: SELECT id FROM t WHERE v < 30 ORDER BY id FOR UPDATE -> 1, 2
			B: SELECT id FROM t ORDER BY id LIMIT 2 FOR UPDATE -> 1, 2
			B: SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED -> 1, 2
			B: SELECT id FROM t WHERE id > 3 FOR SHARE NOWAIT -> error 3572
			B: SELECT id FROM t ORDER BY id -> 1, 2, 3
			B& SELECT id FROM t WHERE id > 3 FOR SHARE
			A: COMMIT
			B? -> 4, 5`,
		"a row that is not committed yet, found by an index": `
			A: CREATE TABLE x (id INT PRIMARY KEY, v INT, u INT, KEY (v), UNIQUE KEY (u))
			A: INSERT INTO x VALUES (1, 10, 100), (2, 20, 200)
			A: BEGIN
			A: INSERT INTO x VALUES (3, 10, 300), (4, 40, 400)
			B: SELECT id FROM x WHERE v = 20 FOR UPDATE NOWAIT -> 2
			B: SELECT id FROM x WHERE v = 10 FOR UPDATE NOWAIT -> error 3572
			B: SELECT id FROM x WHERE u = 400 FOR UPDATE NOWAIT -> error 3572
			B: SELECT id FROM x WHERE id IN (3, 9) FOR UPDATE NOWAIT -> error 3572
			B: SELECT COUNT(*) FROM x WHERE v = 10 FOR UPDATE NOWAIT -> error 3572
			B: SELECT t.id FROM t JOIN x ON x.v = t.v ORDER BY t.id FOR UPDATE OF t NOWAIT -> 1, 2
			B: SELECT t.id FROM t JOIN x ON x.v = t.v ORDER BY t.id FOR UPDATE OF x NOWAIT -> error 3572
			B: SELECT x.id FROM t JOIN x ON x.v = t.v ORDER BY x.id FOR UPDATE OF x SKIP LOCKED -> 1, 2
			B& SELECT x.id FROM t JOIN x ON x.v = t.v ORDER BY x.id FOR UPDATE
			A: COMMIT
			B? -> 1, 2, 3
			B: SELECT MAX(id) FROM x WHERE v > 10 FOR SHARE -> 4
			A: DROP TABLE x`,
		"a row that came and went without a commit": `
			A: BEGIN
			A: INSERT INTO t VALUES (4, 40)
			A: DELETE FROM t WHERE id = 4
			A: SAVEPOINT s
			A: INSERT INTO t VALUES (5, 50)
			A: ROLLBACK TO s
			B: SELECT id FROM t ORDER BY id FOR UPDATE NOWAIT -> 1, 2, 3
			A: COMMIT`,
		"write skew": `
			A: BEGIN
			B: BEGIN
			A: SELECT SUM(v) FROM t WHERE id IN (1, 2) -> 30
			B: SELECT SUM(v) FROM t WHERE id IN (1, 2) -> 30
			A: UPDATE t SET v = 0 WHERE id = 1
			B: UPDATE t SET v = 0 WHERE id = 2
			A: COMMIT
			B: COMMIT
			A: SELECT SUM(v) FROM t WHERE id IN (1, 2) -> 0`,
		"own writes": `
			A: BEGIN
			A: INSERT INTO t VALUES (4, 40)
			A: UPDATE t SET v = 0 WHERE id = 1
			A: DELETE FROM t WHERE id = 2
			A: SELECT id, v FROM t ORDER BY id -> 1|0, 3|30, 4|40
			A: SELECT id, v FROM t ORDER BY id FOR UPDATE -> 1|0, 3|30, 4|40
			B: SELECT id, v FROM t ORDER BY id -> 1|10, 2|20, 3|30
			A: ROLLBACK
			A: SELECT id, v FROM t ORDER BY id -> 1|10, 2|20, 3|30`,
		"NOWAIT and SKIP LOCKED": `
			A: BEGIN
			A: SELECT v FROM t WHERE id = 2 FOR UPDATE -> 20
			B: SELECT v FROM t WHERE id = 2 FOR UPDATE NOWAIT -> error 3572
			B: SELECT v FROM t WHERE id = 2 FOR SHARE NOWAIT -> error 3572
			B: SELECT v FROM t ORDER BY id FOR UPDATE NOWAIT -> error 3572
			B: SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED -> 1, 3
			B: SELECT id FROM t WHERE id = 2 FOR SHARE SKIP LOCKED -> none
			B: SELECT v FROM t WHERE id = 2 -> 20
			A: ROLLBACK
			B: SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED -> 1, 2, 3`,
		"a queue": `
			A: BEGIN
			B: BEGIN
			C: BEGIN
			A: SELECT id FROM t ORDER BY v DESC LIMIT 1 FOR UPDATE SKIP LOCKED -> 3
			B: SELECT id FROM t ORDER BY v DESC LIMIT 1 FOR UPDATE SKIP LOCKED -> 2
			C: SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED -> 1
			C: SELECT id FROM t WHERE v > 0 ORDER BY v LIMIT 2 FOR UPDATE SKIP LOCKED -> 1
			A: DELETE FROM t WHERE id = 3
			A: COMMIT
			B: ROLLBACK
			C: SELECT id FROM t ORDER BY v DESC LIMIT 2 FOR UPDATE SKIP LOCKED -> 2, 1
			C: COMMIT`,
		"shared locks": `
			A: BEGIN
			B: BEGIN
			A: SELECT v FROM t WHERE id = 1 FOR SHARE -> 10
			B: SELECT v FROM t WHERE id = 1 LOCK IN SHARE MODE -> 10
			C& UPDATE t SET v = 11 WHERE id = 1
			A: COMMIT
			B: COMMIT
			C? -> ok`,
		"upgrades deadlock": `
			A: BEGIN
			B: BEGIN
			A: SELECT v FROM t WHERE id = 1 FOR SHARE -> 10
			B: SELECT v FROM t WHERE id = 1 FOR SHARE -> 10
			A& UPDATE t SET v = 11 WHERE id = 1
			B: UPDATE t SET v = 12 WHERE id = 1 -> error 1213
			A? -> ok
			A: COMMIT
			B: SELECT v FROM t WHERE id = 1 -> 11`,
		"an absent key (READ COMMITTED)": `
			A: BEGIN
			A: SELECT v FROM t WHERE id = 9 FOR UPDATE -> none
			B: INSERT INTO t VALUES (9, 90)
			B: BEGIN
			B: INSERT INTO t VALUES (10, 100)
			A& SELECT v FROM t WHERE id = 10 FOR UPDATE
			B: COMMIT
			A? -> 100
			A: SELECT v FROM t WHERE id = 9 FOR UPDATE -> 90
			B& DELETE FROM t WHERE id = 9
			A: COMMIT
			B? -> ok`,
		"an absent value of a unique key (READ COMMITTED)": `
			A: CREATE TABLE q (id INT PRIMARY KEY, a INT NOT NULL, UNIQUE (a))
			A: INSERT INTO q VALUES (1, 10)
			A: BEGIN
			A: SELECT id FROM q WHERE a = 20 FOR UPDATE -> none
			B: INSERT INTO q VALUES (2, 20)
			A: SELECT id FROM q WHERE a = 20 FOR UPDATE -> 2
			B& UPDATE q SET a = 21 WHERE id = 2
			A: COMMIT
			B? -> ok
			B: BEGIN
			B: INSERT INTO q VALUES (3, 30)
			A& SELECT id FROM q WHERE a = 30 FOR UPDATE
			B: ROLLBACK
			A? -> none
			A: DROP TABLE q`,
		"an absent key (REPEATABLE READ)": `
			A: BEGIN
			A: SELECT v FROM t WHERE id = 9 FOR UPDATE -> none
			B: INSERT INTO t VALUES (8, 80)
			B& INSERT INTO t VALUES (9, 90)
			A: INSERT INTO t VALUES (9, 91)
			A: COMMIT
			B? -> error 1062
			B: SELECT v FROM t WHERE id = 9 -> 91`,
		"an absent value of a unique key (REPEATABLE READ)": `
			A: CREATE TABLE q (id INT PRIMARY KEY, a INT NOT NULL, b INT, UNIQUE (a), UNIQUE (b))
			A: INSERT INTO q VALUES (1, 10, 100)
			A: BEGIN
			A: SELECT id FROM q WHERE a = 20 FOR UPDATE -> none
			A: SELECT id FROM q WHERE b = 200 FOR UPDATE -> none
			B: INSERT INTO q VALUES (3, 30, 300)
			C& INSERT INTO q VALUES (2, 20, 201)
			B& INSERT INTO q VALUES (4, 40, 200)
			A: INSERT INTO q VALUES (5, 20, 200)
			A: COMMIT
			B? -> error 1062
			C? -> error 1062
			A: BEGIN
			A: SELECT id FROM q WHERE a = 10 FOR UPDATE -> 1
			B: SELECT id FROM q WHERE b = 100 FOR UPDATE NOWAIT -> error 3572
			B: SELECT id FROM q WHERE id = 1 FOR UPDATE NOWAIT -> error 3572
			B: SELECT id FROM q WHERE a = 10 FOR UPDATE SKIP LOCKED -> none
			A: COMMIT`,
		"a row found by an index that it left while it was waited for": `
			A: CREATE TABLE q (id INT PRIMARY KEY, a INT NOT NULL, KEY (a))
			A: INSERT INTO q VALUES (1, 10), (2, 20)
			A: BEGIN
			A: UPDATE q SET a = 11 WHERE id = 1
			B& SELECT id FROM q WHERE a = 10 FOR UPDATE
			A: COMMIT
			B? -> none
			A: BEGIN
			A: UPDATE q SET a = 21 WHERE id = 2
			B& SELECT t.id, q.id FROM t JOIN q ON t.v = q.a WHERE t.id = 2 FOR UPDATE
			A: COMMIT
			B? -> none
			B: SELECT t.id, q.id FROM t JOIN q ON t.v + 1 = q.a FOR UPDATE -> 1|1, 2|2`,
		"an UPDATE that changes nothing locks": `
			A: BEGIN
			A: UPDATE t SET v = v WHERE id = 1
			B: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT -> error 3572
			A: COMMIT`,
		"only the tables of OF": `
			A: INSERT INTO u VALUES (1, 1)
			A: BEGIN
			A: SELECT t.id, u.v FROM t JOIN u ON t.id = u.id FOR UPDATE OF u -> 1|1
			B: UPDATE t SET v = 11 WHERE id = 1
			B& UPDATE u SET v = 2 WHERE id = 1
			A: COMMIT
			B? -> ok
			A: BEGIN
			A: SELECT x.id FROM t x JOIN u ON x.id = u.id FOR SHARE OF x FOR UPDATE OF u -> error 1064
			A: SELECT x.id FROM t AS x LEFT JOIN u ON x.id = u.id WHERE x.id < 3 FOR SHARE OF x NOWAIT -> 1, 2
			B: UPDATE u SET v = 3 WHERE id = 1
			B& UPDATE t SET v = 12 WHERE id = 2
			A: COMMIT
			B? -> ok`,
		"clauses of sub-selects": `
			A: BEGIN
			A: SELECT COUNT(*) FROM (SELECT id FROM t WHERE id = 1 FOR UPDATE) x -> 1
			B: UPDATE t SET v = 21 WHERE id = 2
			B& UPDATE t SET v = 11 WHERE id = 1
			A: COMMIT
			B? -> ok
			A: BEGIN
			A: SELECT 1 WHERE EXISTS (SELECT 1 FROM t WHERE id = 2 FOR UPDATE) -> 1
			B& UPDATE t SET v = 11 WHERE id = 2
			A: COMMIT
			B? -> ok
			A: BEGIN
			A: SELECT COUNT(*) FROM (SELECT id FROM t WHERE id = 1) x FOR UPDATE -> 1
			B: UPDATE t SET v = 13 WHERE id = 1
			A: COMMIT`,
		"a timeout ends the statement": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			B: SET innodb_lock_wait_timeout = 1
			B: BEGIN
			B: UPDATE t SET v = 22 WHERE id = 2
			B: UPDATE t SET v = v + 1 -> error 1205
			B: SELECT id, v FROM t ORDER BY id -> 1|10, 2|22, 3|30
			B: SELECT id FROM t WHERE id = 1 FOR UPDATE -> error 1205
			A: COMMIT
			B: COMMIT
			A: SELECT id, v FROM t ORDER BY id -> 1|11, 2|22, 3|30`,
		"a failed statement is undone alone": `
			A: BEGIN
			A: INSERT INTO t VALUES (4, 40)
			A: INSERT INTO t VALUES (5, 50), (1, 0) -> error 1062
			A: UPDATE t SET id = id + 2 WHERE id < 3 -> error 1062
			A: SELECT id FROM t ORDER BY id -> 1, 2, 3, 4
			A: COMMIT
			B: SELECT id FROM t ORDER BY id -> 1, 2, 3, 4`,
		"savepoints": `
			A: BEGIN
			A: INSERT INTO t VALUES (4, 40)
			A: SAVEPOINT s
			A: UPDATE t SET v = 0
			A: ROLLBACK TO s
			A: SELECT SUM(v) FROM t -> 100
			B: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT -> error 3572
			A: RELEASE SAVEPOINT s
			A: ROLLBACK TO s -> error 1305
			A: COMMIT
			B: SELECT SUM(v) FROM t -> 100`,
	} {
		for _, level := range []string{"REPEATABLE READ", "READ COMMITTED"} {
			if strings.HasSuffix(name, ")") && !strings.HasSuffix(name, "("+level+")") {
				continue
			}
			t.Run(name+"/"+level, func(t *testing.T) { runSteps(t, level, script) })
		}
	}
}

func TestSerializable(t *testing.T) {
	for name, script := range map[string]string{
		"write skew over rows": `
			A: BEGIN
			B: BEGIN
			A: SELECT SUM(v) FROM t WHERE id IN (1, 2) -> 30
			B: SELECT SUM(v) FROM t WHERE id IN (1, 2) -> 30
			A& UPDATE t SET v = 0 WHERE id = 1
			B: UPDATE t SET v = 0 WHERE id = 2 -> error 1213
			A? -> ok
			A: COMMIT
			A: SELECT SUM(v) FROM t WHERE id IN (1, 2) -> 20`,
		"write skew over a range": `
			A: BEGIN
			B: BEGIN
			A: SELECT COUNT(*) FROM t WHERE v > 15 -> 2
			B: SELECT COUNT(*) FROM t WHERE v > 15 -> 2
			A& INSERT INTO t VALUES (4, 40)
			B: INSERT INTO t VALUES (5, 50) -> error 1213
			A? -> ok
			A: COMMIT`,
		"phantoms wait": `
			A: BEGIN
			A: SELECT id FROM t WHERE v > 15 ORDER BY id -> 2, 3
			B& INSERT INTO t VALUES (4, 40)
			A: SELECT id FROM t WHERE v > 15 ORDER BY id -> 2, 3
			A: COMMIT
			B? -> ok`,
		"a read waits for the writer and sees what it wrote": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			B: BEGIN
			B& SELECT SUM(v) FROM t
			A: COMMIT
			B? -> 61
			B: COMMIT`,
		"without a transaction reads lock nothing": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			B: SELECT v FROM t WHERE id = 1 -> 10
			A: COMMIT`,
		"updates of one row wait": `
			A: BEGIN
			A: UPDATE t SET v = v + 1 WHERE id = 1
			B: BEGIN
			B& UPDATE t SET v = v + 1 WHERE id = 1
			A: COMMIT
			B? -> ok
			B: COMMIT
			A: SELECT v FROM t WHERE id = 1 -> 12`,
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, "SERIALIZABLE", script) })
	}
}

func TestTransactionStatements(t *testing.T) {
	for name, script := range map[string]string{
		"levels": `
			A: SELECT @@transaction_isolation -> REPEATABLE-READ
			A: SET TRANSACTION ISOLATION LEVEL READ COMMITTED
			A: SELECT @@transaction_isolation -> REPEATABLE-READ
			A: BEGIN
			A: SELECT v FROM t WHERE id = 1 -> 10
			B: UPDATE t SET v = 11 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> 11
			A: SET TRANSACTION READ ONLY -> error 1568
			A: COMMIT
			A: BEGIN
			A: SELECT v FROM t WHERE id = 1 -> 11
			B: UPDATE t SET v = 12 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> 11
			A: COMMIT
			A: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY
			A: SELECT @@transaction_isolation, @@transaction_read_only -> READ-COMMITTED|1
			A: DELETE FROM t -> error 1792
			A: START TRANSACTION READ WRITE
			A: COMMIT
			A: SET SESSION TRANSACTION READ WRITE
			A: DELETE FROM t WHERE id = 3
			A: SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED
			B: BEGIN
			B: UPDATE t SET v = 0
			A: SELECT v FROM t ORDER BY id -> 12, 20
			B: ROLLBACK
			A: SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE
			C: SELECT @@transaction_isolation -> SERIALIZABLE
			A: SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ`,
		"read only": `
			A: START TRANSACTION READ ONLY
			A: SELECT COUNT(*) FROM t -> 3
			A: INSERT INTO t VALUES (4, 4) -> error 1792
			A: UPDATE t SET v = 0 -> error 1792
			A: CREATE TABLE x (i INT) -> error 1792
			A: SELECT v FROM t WHERE id = 1 FOR UPDATE -> 10
			A: COMMIT
			A: SET TRANSACTION READ ONLY
			A: INSERT INTO t VALUES (4, 4) -> error 1792
			A: SELECT COUNT(*) FROM t -> 3
			A: INSERT INTO t VALUES (4, 4)`,
		"autocommit off": `
			A: SET autocommit = 0
			A: SELECT v FROM t WHERE id = 1 -> 10
			B: UPDATE t SET v = 11 WHERE id = 1
			A: SELECT v FROM t WHERE id = 1 -> 10
			A: UPDATE t SET v = 22 WHERE id = 2
			B: SELECT v FROM t WHERE id = 2 -> 20
			A: COMMIT
			B: SELECT v FROM t WHERE id = 2 -> 22
			A: UPDATE t SET v = 0
			A: ROLLBACK
			A: UPDATE t SET v = 33 WHERE id = 3
			A: SET autocommit = 1
			B: SELECT v FROM t ORDER BY id -> 11, 22, 33`,
		"chain": `
			A: START TRANSACTION READ ONLY
			A: COMMIT AND CHAIN
			A: UPDATE t SET v = 0 -> error 1792
			A: COMMIT
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			A: COMMIT WORK AND CHAIN
			A: UPDATE t SET v = 12 WHERE id = 1
			A: ROLLBACK AND CHAIN NO RELEASE
			A: UPDATE t SET v = 13 WHERE id = 1
			B: SELECT v FROM t WHERE id = 1 -> 11
			A: ROLLBACK AND NO CHAIN
			A: UPDATE t SET v = 14 WHERE id = 1
			B: SELECT v FROM t WHERE id = 1 -> 14`,
		"implicit commits": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			A: CREATE TABLE x (i INT)
			A: ROLLBACK
			B: SELECT v FROM t WHERE id = 1 -> 11
			A: BEGIN
			A: UPDATE t SET v = 12 WHERE id = 1
			A: BEGIN
			B: SELECT v FROM t WHERE id = 1 -> 12
			A: UPDATE t SET v = 13 WHERE id = 1
			A: DROP TABLE nowhere -> error 1051
			A: ROLLBACK
			B: SELECT v FROM t WHERE id = 1 -> 13`,
		"prepared": `
			A: PREPARE p FROM 'SELECT v FROM t WHERE id = ? FOR UPDATE'
			A: SET @i = 1
			A: BEGIN
			A: EXECUTE p USING @i -> 10
			B: SELECT v FROM t WHERE id = 1 FOR SHARE NOWAIT -> error 3572
			B: SELECT v FROM t WHERE id = 2 FOR SHARE NOWAIT -> 20
			A: COMMIT
			A: PREPARE q FROM 'SELECT v FROM t WHERE id = 1 FOR SHARE'
			A: BEGIN
			A: EXECUTE q -> 10
			B: SELECT v FROM t WHERE id = 1 FOR SHARE NOWAIT -> 10
			B: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT -> error 3572
			A: COMMIT`,
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, "", script) })
	}
}
