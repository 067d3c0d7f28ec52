package sqlbackend_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// numberOf is the number of a statement's error, 0 without one.
func numberOf(db *sql.DB, statement string) uint16 {
	rows, err := db.Query(statement)
	if err == nil {
		for rows.Next() {
		}
		err = errors.Join(rows.Err(), rows.Close())
	}
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return me.Number
	}
	return 0
}

func TestStatementsTheFrontendLacks(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE DATABASE test", "USE test", "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9))", "CREATE TABLE u (a INT PRIMARY KEY)",
		"CREATE VIEW v AS SELECT a FROM t", "INSERT INTO t VALUES (1, 'x'), (2, NULL)")

	require.Empty(t, text(t, db, "HELP 'select'"))
	require.Empty(t, text(t, db, "SHOW PROFILES"))
	require.Empty(t, text(t, db, "SHOW PROFILE CPU, BLOCK IO FOR QUERY 2 LIMIT 1"))
	status := strings.Join(text(t, db, "SHOW ENGINE INNODB STATUS"), "")
	require.True(t, strings.HasPrefix(status, "InnoDB||") && strings.Contains(status, "END OF lancesql STATUS"), status)
	require.Empty(t, text(t, db, "SHOW ENGINE INNODB MUTEX"))
	require.EqualValues(t, 1286, numberOf(db, "SHOW ENGINE nosuch STATUS"))

	require.Equal(t, []string{"test|t|0|0", "test|u|0|0"}, text(t, db, "SHOW OPEN TABLES FROM test"))
	require.Equal(t, []string{"test|u|0|0"}, text(t, db, "SHOW OPEN TABLES IN `test` LIKE 'u%'"))
	require.Equal(t, []string{"test|t|0|0"}, text(t, db, "SHOW OPEN TABLES WHERE `Table` = 't' AND In_use = 0"))
	require.Equal(t, text(t, db, "SHOW ENGINES"), text(t, db, "SHOW STORAGE ENGINES"))

	require.Equal(t, text(t, db, "EXPLAIN SELECT * FROM t"), text(t, db, "EXPLAIN FORMAT=TRADITIONAL SELECT * FROM t"))
	run(t, db, "LOCK TABLES t x READ, u WRITE")
	require.Equal(t, []string{"1", "2"}, text(t, db, "SELECT a FROM t x"))
	require.EqualValues(t, 1100, numberOf(db, "SELECT a FROM t"))
	run(t, db, "UNLOCK TABLES")

	run(t, db, "RESET SLAVE", "reset slave all")
	require.EqualValues(t, 1186, numberOf(db, "RESET MASTER"))

	sums := text(t, db, "CHECKSUM TABLE t, test.nosuch EXTENDED")
	require.Len(t, sums, 2)
	require.Regexp(t, `^test\.t\|[1-9][0-9]*$`, sums[0])
	require.Equal(t, "test.nosuch|NULL", sums[1])
	run(t, db, "UPDATE t SET b = 'y' WHERE a = 1")
	require.NotEqual(t, sums[0], text(t, db, "CHECKSUM TABLE t")[0])
	run(t, db, "UPDATE t SET b = 'x' WHERE a = 1")
	require.Equal(t, sums[0], text(t, db, "CHECKSUM TABLE t")[0])
	require.Equal(t, "test.t|NULL", text(t, db, "CHECKSUM TABLE t QUICK")[0])

	require.Contains(t, text(t, db, "SELECT @@optimizer_switch")[0], "index_merge=on,index_merge_union=on,")
	run(t, db, "SET SESSION optimizer_switch = 'mrr=off,hash_join=default'")
	require.Contains(t, text(t, db, "SELECT @@optimizer_switch")[0], "index_condition_pushdown=on,mrr=off,mrr_cost_based=on,")
	require.Contains(t, text(t, db, "SELECT @@global.optimizer_switch")[0], ",mrr=on,")
	require.EqualValues(t, 1231, numberOf(db, "SET optimizer_switch = 'nosuch=on'"))
	run(t, db, "SET optimizer_switch = DEFAULT")
	require.Contains(t, text(t, db, "SELECT @@optimizer_switch")[0], ",mrr=on,")

	run(t, db, "SELECT 1", "SELECT 2", "FLUSH STATUS")
	require.Equal(t, []string{"Com_select|0"}, text(t, db, "SHOW SESSION STATUS LIKE 'Com_select'"))

	require.Equal(t, text(t, db, "SHOW GLOBAL VARIABLES LIKE 'autocommit'"), text(t, db, "SELECT * FROM performance_schema.global_variables WHERE variable_name = 'autocommit'"))
	run(t, db, "SET SESSION sql_mode = 'ANSI_QUOTES'")
	require.Equal(t, []string{"ANSI_QUOTES"}, text(t, db, "SELECT VARIABLE_VALUE FROM performance_schema.session_variables WHERE VARIABLE_NAME = 'sql_mode'"))
	run(t, db, "SET SESSION sql_mode = DEFAULT")
	require.Equal(t, text(t, db, "SHOW SESSION STATUS LIKE 'Com_flush'"), text(t, db, "SELECT * FROM performance_schema.session_status WHERE VARIABLE_NAME = 'Com_flush'"))
	require.Equal(t, []string{"1"}, text(t, db, "SELECT COUNT(*) FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'"))
	require.Equal(t, []string{"root|Query"}, text(t, db, "SELECT PROCESSLIST_USER, PROCESSLIST_COMMAND FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"))
	require.Equal(t, []string{"root"}, text(t, db, "SELECT user FROM performance_schema.processlist WHERE id = CONNECTION_ID()"))
	require.Equal(t, []string{sqlbackend.ServerVersion}, text(t, db, "SELECT mysql_version FROM sys.version"))
	require.NotZero(t, numberOf(db, "CREATE TABLE performance_schema.x (a INT PRIMARY KEY)"))
	require.NotContains(t, text(t, db, "SHOW DATABASES"), "performance_schema")

	run(t, db, "ALTER ALGORITHM = MERGE VIEW v AS SELECT b FROM t")
	require.Equal(t, []string{"x", "NULL"}, text(t, db, "SELECT * FROM v ORDER BY b DESC"))
	require.EqualValues(t, 1146, numberOf(db, "ALTER VIEW nosuch AS SELECT 1"))
	require.EqualValues(t, 1146, numberOf(db, "SELECT * FROM nosuch"))
	run(t, db, "ALTER TABLE t ORDER BY a DESC, b", "ALTER TABLE t ORDER BY b, ADD COLUMN c INT", "ALTER TABLE t ADD COLUMN d INT, ORDER BY a")
	require.Equal(t, []string{"1|x|NULL|NULL"}, text(t, db, "SELECT * FROM t WHERE a = 1"))
	run(t, db, "CREATE TABLE parts (a INT) PARTITION BY RANGE(a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)")
}

func TestDiagnosticsOfTheStatementBefore(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE DATABASE test", "USE test", "CREATE TABLE t (a INT PRIMARY KEY)")

	require.EqualValues(t, 1146, numberOf(db, "SELECT * FROM nosuch"))
	want := []string{"Error|1146|Table 'nosuch' doesn't exist"}
	for range 2 { // showing them does not clear them
		require.Equal(t, want, text(t, db, "SHOW ERRORS"))
		require.Equal(t, want, text(t, db, "SHOW WARNINGS"))
		require.Equal(t, []string{"1"}, text(t, db, "SHOW COUNT(*) ERRORS"))
		require.Equal(t, []string{"1"}, text(t, db, "SHOW COUNT(*) WARNINGS"))
	}
	require.Empty(t, text(t, db, "SHOW ERRORS LIMIT 1, 5"))
	require.Equal(t, []string{"1|1"}, text(t, db, "SELECT @@warning_count, @@session.error_count"))
	require.Equal(t, []string{"0|0"}, text(t, db, "SELECT @@warning_count, @@error_count"))
	require.Empty(t, text(t, db, "SHOW WARNINGS"))

	require.EqualValues(t, 1064, numberOf(db, "SELEC 1"))
	require.Len(t, text(t, db, "SHOW ERRORS"), 1)
	run(t, db, "DROP TABLE IF EXISTS nosuch")
	require.Empty(t, text(t, db, "SHOW ERRORS"))
	require.Equal(t, []string{"1"}, text(t, db, "SHOW COUNT(*) WARNINGS"))
	require.Equal(t, []string{"0"}, text(t, db, "SHOW COUNT(*) ERRORS"))
	run(t, db, "INSERT INTO t VALUES (1)")
	require.Empty(t, text(t, db, "SHOW WARNINGS"))
}

// TestGetDiagnostics: outside routines as well.
func TestGetDiagnostics(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE DATABASE test", "USE test", "CREATE TABLE t (a INT PRIMARY KEY)")

	require.EqualValues(t, 1146, numberOf(db, "SELECT * FROM nosuch"))
	run(t, db, "GET DIAGNOSTICS @n = NUMBER", "GET CURRENT DIAGNOSTICS CONDITION 1 @s = RETURNED_SQLSTATE, @e = MYSQL_ERRNO, @m = MESSAGE_TEXT, @o = CLASS_ORIGIN, @t = TABLE_NAME")
	require.Equal(t, []string{"1|42S02|1146|Table 'nosuch' doesn't exist|ISO 9075|"}, text(t, db, "SELECT @n, @s, @e, @m, @o, @t"))

	run(t, db, "INSERT INTO t VALUES (1), (2)", "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT")
	require.Equal(t, []string{"0|2"}, text(t, db, "SELECT @n, @r"))
	run(t, db, "DROP TABLE IF EXISTS nosuch, neither", "GET DIAGNOSTICS @n = NUMBER", "SET @i = 2", "SELECT 1")
	require.Equal(t, []string{"2"}, text(t, db, "SELECT @n"))
	run(t, db, "DROP TABLE IF EXISTS nosuch, neither", "GET DIAGNOSTICS CONDITION @i @m = MESSAGE_TEXT")
	require.Equal(t, []string{"Unknown table 'neither'"}, text(t, db, "SELECT @m"))

	require.EqualValues(t, 1758, numberOf(db, "GET DIAGNOSTICS CONDITION 5 @m = MESSAGE_TEXT"))
	require.EqualValues(t, 1887, numberOf(db, "GET STACKED DIAGNOSTICS @n = NUMBER"))
	require.EqualValues(t, 1064, numberOf(db, "GET DIAGNOSTICS @n = MESSAGE_TEXT"))
	require.EqualValues(t, 1064, numberOf(db, "GET DIAGNOSTICS n = NUMBER"))
}

// login opens a connection of an account and returns the error of its first statement.
func login(t *testing.T, r *running, user, password string) (*sql.DB, error) {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@%s(%s)/", user, password, r.server.Addr().Network(), r.server.Addr()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db, db.PingContext(context.Background())
}

func refusal(err error) uint16 {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return me.Number
	}
	return 0
}

func TestAccounts(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	root := r.open("")
	run(t, root, "CREATE DATABASE test", "CREATE TABLE test.t (a INT PRIMARY KEY)", "CREATE USER u1@localhost IDENTIFIED BY 'one'")

	run(t, root, "SET PASSWORD FOR 'u1'@'localhost' = 'two'")
	_, err := login(t, r, "u1", "one")
	require.EqualValues(t, 1045, refusal(err))
	own, err := login(t, r, "u1", "two")
	require.NoError(t, err)
	run(t, own, "SET PASSWORD = 'three'")
	require.EqualValues(t, 1133, numberOf(root, "SET PASSWORD FOR nobody@localhost = 'x'"))
	require.NotZero(t, numberOf(own, "SET PASSWORD FOR root@localhost = 'x'"), "of somebody else")

	for _, s := range []string{"RENAME USER root@localhost TO r@localhost", "ALTER USER root@localhost ACCOUNT LOCK", "SHOW CREATE USER root@localhost",
		"SET DEFAULT ROLE NONE TO root@localhost", "SHOW ENGINE INNODB STATUS", "RESET MASTER", "CHECKSUM TABLE test.t"} {
		require.NotContains(t, []uint16{0, 1186}, numberOf(own, s), s)
	}

	run(t, root, "ALTER USER u1@localhost ACCOUNT LOCK")
	require.Equal(t, []string{"Y"}, text(t, root, "SELECT account_locked FROM mysql.user WHERE user = 'u1'"))
	_, err = login(t, r, "u1", "three")
	require.EqualValues(t, 3118, refusal(err))
	_, err = login(t, r, "u1", "wrong")
	require.EqualValues(t, 1045, refusal(err), "only those who know the password are told")
	require.Contains(t, text(t, root, "SHOW CREATE USER u1@localhost")[0], "CREATE USER `u1`@`localhost` IDENTIFIED WITH 'mysql_native_password' AS '*")
	require.Contains(t, text(t, root, "SHOW CREATE USER u1@localhost")[0], "ACCOUNT LOCK")
	run(t, root, "ALTER USER IF EXISTS u1@localhost, nobody@localhost ACCOUNT UNLOCK")
	require.EqualValues(t, 1396, numberOf(root, "ALTER USER nobody@localhost ACCOUNT LOCK"))
	_, err = login(t, r, "u1", "three")
	require.NoError(t, err)
	run(t, root, "CREATE USER u3@localhost IDENTIFIED BY 'x' ACCOUNT LOCK")
	_, err = login(t, r, "u3", "x")
	require.EqualValues(t, 3118, refusal(err))

	run(t, root, "RENAME USER u1@localhost TO u2@localhost")
	_, err = login(t, r, "u1", "three")
	require.EqualValues(t, 1045, refusal(err))
	require.EqualValues(t, 1396, numberOf(root, "RENAME USER u1@localhost TO u4@localhost"))
	require.EqualValues(t, 1396, numberOf(root, "RENAME USER u2@localhost TO u3@localhost"))
	require.EqualValues(t, 1396, numberOf(root, "SHOW CREATE USER u1@localhost"))

	run(t, root, "CREATE ROLE reader, writer", "GRANT SELECT ON test.* TO reader", "GRANT INSERT ON test.* TO writer",
		"GRANT reader TO u2@localhost", "GRANT writer TO u2@localhost")
	u2, err := login(t, r, "u2", "three")
	require.NoError(t, err)
	require.Equal(t, []string{"`reader`@`%`,`writer`@`%`"}, text(t, u2, "SELECT CURRENT_ROLE()"))
	run(t, u2, "INSERT INTO test.t VALUES (1)", "SET ROLE reader")
	require.Equal(t, []string{"`reader`@`%`"}, text(t, u2, "SELECT CURRENT_ROLE()"))
	require.Equal(t, []string{"1"}, text(t, u2, "SELECT a FROM test.t"))
	require.EqualValues(t, 1142, numberOf(u2, "INSERT INTO test.t VALUES (2)"))
	run(t, u2, "SET ROLE NONE")
	require.Equal(t, []string{"NONE"}, text(t, u2, "SELECT CURRENT_ROLE()"))
	require.NotZero(t, numberOf(u2, "SELECT a FROM test.t"))
	run(t, u2, "SET ROLE ALL EXCEPT reader", "INSERT INTO test.t VALUES (2)")
	require.EqualValues(t, 3530, numberOf(u2, "SET ROLE 'nosuch'"))
	run(t, root, "SET DEFAULT ROLE reader TO u2@localhost")
	run(t, u2, "SET ROLE DEFAULT")
	require.EqualValues(t, 1142, numberOf(u2, "INSERT INTO test.t VALUES (3)"))
	again, err := login(t, r, "u2", "three")
	require.NoError(t, err)
	require.EqualValues(t, 1142, numberOf(again, "INSERT INTO test.t VALUES (3)"))
	require.Equal(t, []string{"1", "2"}, text(t, again, "SELECT a FROM test.t"))
	require.EqualValues(t, 3523, numberOf(root, "SET DEFAULT ROLE ALL TO nobody@localhost"))
}

func TestOperatorsInPreparedStatements(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE DATABASE test", "USE test", "CREATE TABLE t (a INT PRIMARY KEY, c VARCHAR(9))", "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'x')")
	for range 2 {
		require.Equal(t, []string{"1|0"}, text(t, db, "SELECT ? MEMBER OF (?), ? SOUNDS LIKE 'zoo'", 1, "[1,2]", "bar"))
		require.Equal(t, []string{"3"}, text(t, db, "SELECT a FROM t WHERE a > ALL (SELECT a FROM t WHERE a < ?)", 3))
		require.Equal(t, []string{"x|2", "NULL|2"}, text(t, db, "SELECT c, COUNT(*) FROM t WHERE c = ? GROUP BY c WITH ROLLUP", "x"))
		require.Equal(t, []string{"11", "12", "13"}, text(t, db, "SELECT @n := @n + 1 FROM t, (SELECT @n := ?) i ORDER BY a", 10))
		require.Equal(t, []string{"2024-01-01 00:01:02"}, text(t, db, "SELECT CAST(? AS DATETIME) + INTERVAL ? MINUTE_SECOND", "2024-01-01", "1:2"))
		require.Equal(t, []string{"7"}, text(t, db, "SELECT JSON_VALUE(?, '$.a' RETURNING SIGNED DEFAULT 7 ON EMPTY)", "{}"))
	}
	columns, err := db.Query("SELECT ~a, a = ANY (SELECT 1) FROM t WHERE a = ?", 1)
	require.NoError(t, err)
	defer columns.Close()
	names, err := columns.Columns()
	require.NoError(t, err)
	require.Equal(t, []string{"~a", "a = ANY (SELECT 1)"}, names)
}

// TestWindowsOverGroupsPrepared: a query with groups and window functions is the same as a prepared statement, with parameters in
// both.
func TestWindowsOverGroupsPrepared(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE DATABASE test", "USE test", "CREATE TABLE t (a INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (1, 1), (2, 1), (3, 2), (4, 3)")
	rows, err := db.Query("SELECT b + ? AS k, SUM(a) * ?, RANK() OVER (ORDER BY SUM(a) * ? DESC) AS `rank` FROM t WHERE a < ? GROUP BY k HAVING COUNT(*) < ? ORDER BY `rank` LIMIT ?", 10, 2, 1, 5, 9, 2)
	require.NoError(t, err)
	names, err := rows.Columns()
	require.NoError(t, err)
	require.Equal(t, []string{"k", "SUM(a) * ?", "rank"}, names)
	var got []string
	for rows.Next() {
		var a, b, c string
		require.NoError(t, rows.Scan(&a, &b, &c))
		got = append(got, a+" "+b+" "+c)
	}
	require.NoError(t, errors.Join(rows.Err(), rows.Close()))
	require.Equal(t, []string{"13 8 1", "11 6 2"}, got)
}
