package sqlbackend_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/objstore"
	"lancesql/sqlbackend"
	"lancesql/sqlbackend/wire"
)

// running is a server in this process.
type running struct {
	t      testing.TB
	engine *engine.Engine
	server *sqlbackend.Server
	done   chan error
}

// start runs a server over dir, or over memory if dir is empty.
func start(t testing.TB, dir string, c sqlbackend.ServerConfig) *running {
	t.Helper()
	components := engine.Components{}
	if dir == "" {
		components.Store = objstore.NewMem()
	}
	e, err := engine.Open(context.Background(), engine.Config{DataDir: dir}, components)
	require.NoError(t, err)
	return serveWith(t, e, c)
}

func serve(t testing.TB, e *engine.Engine) *running {
	return serveWith(t, e, sqlbackend.ServerConfig{})
}

// serveWith runs a server over an engine, which it closes.
func serveWith(t testing.TB, e *engine.Engine, c sqlbackend.ServerConfig) *running {
	t.Helper()
	if c.Addr == "" && c.Socket == "" {
		c.Addr = "127.0.0.1:0"
	}
	s, err := sqlbackend.NewServer(c, e, testLog())
	if err != nil {
		_ = e.Close(context.Background())
	}
	require.NoError(t, err)
	r := &running{t: t, engine: e, server: s, done: make(chan error, 1)}
	go func() { r.done <- s.Start() }()
	t.Cleanup(r.stop)
	return r
}

// stop closes server and engine in order; it is idempotent.
func (r *running) stop() {
	if r.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(r.t, r.server.Close(ctx))
	require.NoError(r.t, <-r.done)
	require.NoError(r.t, r.engine.Close(context.Background()))
	r.server = nil
}

func (r *running) open(params string) *sql.DB {
	r.t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("root@%s(%s)/%s", r.server.Addr().Network(), r.server.Addr(), params))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = db.Close() })
	return db
}

func run(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := db.Exec(s)
		require.NoError(t, err, s)
	}
}

// text returns all rows of a query, columns joined by "|", NULL as NULL.
func text(t testing.TB, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(query, args...)
	require.NoError(t, err, query)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	var out []string
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		targets := make([]any, len(columns))
		for i := range cells {
			targets[i] = &cells[i]
		}
		require.NoError(t, rows.Scan(targets...))
		parts := make([]string, len(columns))
		for i, c := range cells {
			parts[i] = c.String
			if !c.Valid {
				parts[i] = "NULL"
			}
		}
		out = append(out, strings.Join(parts, "|"))
	}
	require.NoError(t, rows.Err(), query)
	return out
}

func errorNumber(err error) int {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return int(me.Number)
	}
	return 0
}

func TestServerKeepsRows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, dir, sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(8,2))",
		"INSERT INTO shop.t VALUES (1,'a',1.50),(2,'b',2.25),(3,NULL,NULL)", "UPDATE shop.t SET name = 'B' WHERE id = 2",
		"DELETE FROM shop.t WHERE id = 1", "REPLACE INTO shop.t VALUES (3,'c',0)")
	want := []string{"2|B|2.25", "3|c|0.00"}
	require.Equal(t, want, text(t, db, "SELECT * FROM shop.t ORDER BY id"))
	run(t, db, "FLUSH TABLES shop.t")
	require.Equal(t, want, text(t, db, "SELECT * FROM shop.t ORDER BY id"))
	run(t, db, "INSERT INTO shop.t VALUES (4,'d',4)")
	r.stop()

	r = start(t, dir, sqlbackend.ServerConfig{})
	require.Equal(t, append(want, "4|d|4.00"), text(t, r.open("shop"), "SELECT * FROM t ORDER BY id"))
}

func TestServerNamesItself(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	require.Equal(t, []string{"8.0.40-lancesql-" + sqlbackend.Version}, text(t, db, "SELECT VERSION()"))
	require.Contains(t, text(t, db, "SELECT @@version_comment, @@version")[0], "lancesql")
	require.Equal(t, []string{"utf8mb4|utf8mb4_0900_ai_ci|utf8mb4|utf8mb4_general_ci|REPEATABLE-READ|50"},
		text(t, db, "SELECT @@character_set_server, @@collation_server, @@character_set_connection, @@collation_connection, @@transaction_isolation, @@innodb_lock_wait_timeout"))
	run(t, db, "SET innodb_lock_wait_timeout = 3", "SET SESSION transaction_isolation = 'READ-COMMITTED'")
	require.Equal(t, []string{"1"}, text(t, db, "SELECT 'a' = 'A'"))
	require.Equal(t, []string{"root@localhost"}, text(t, db, "SELECT SESSION_USER()")[:1])
	require.Len(t, text(t, db, "SHOW VARIABLES LIKE 'innodb_version'"), 1)
}

func TestServerAccounts(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{Socket: filepath.Join(t.TempDir(), "s")})
	for _, dsn := range []string{"nobody@unix(%s)/", "root:wrong@unix(%s)/"} {
		db, err := sql.Open("mysql", fmt.Sprintf(dsn, r.server.Addr()))
		require.NoError(t, err)
		require.Equal(t, 1045, errorNumber(db.Ping()), dsn)
		_ = db.Close()
	}
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "CREATE USER u@localhost IDENTIFIED BY 'p'")
	u, err := sql.Open("mysql", fmt.Sprintf("u:p@unix(%s)/", r.server.Addr()))
	require.NoError(t, err)
	defer u.Close()
	require.NoError(t, u.Ping())
	_, err = u.Exec("SELECT * FROM d.t")
	require.Contains(t, []int{1044, 1142}, errorNumber(err))
	_, err = u.Exec("FLUSH TABLES")
	require.NotZero(t, errorNumber(err))
}

// TestErrorNumbers: the numbers clients act on, as they arrive.
func TestErrorNumbers(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "USE d")
	d := r.open("d")
	run(t, d, "CREATE TABLE t (id INT PRIMARY KEY, n TINYINT NOT NULL, s VARCHAR(3), d DATETIME, x DECIMAL(4,2))",
		"INSERT INTO t VALUES (1, 1, 'abc', '2024-01-01', 1)")
	for _, c := range []struct {
		statement string
		number    int
		state     string
	}{
		{"INSERT INTO t VALUES (1, 1, 'a', NULL, 1)", 1062, "23000"},
		{"SELECT * FROM nowhere", 1146, "42S02"},
		{"INSERT INTO t VALUES (2, 300, 'a', NULL, 1)", 1264, "22003"},
		{"INSERT INTO t VALUES (2, 1, 'a', NULL, 1000)", 1264, "22003"},
		{"INSERT INTO t VALUES (2, NULL, 'a', NULL, 1)", 1048, "23000"},
		{"UPDATE t SET n = NULL", 1048, "23000"},
		{"INSERT INTO t VALUES (2, 1, 'abcd', NULL, 1)", 1406, "22001"},
		{"INSERT INTO t (id) VALUES (2)", 1364, "HY000"},
		{"INSERT INTO t VALUES (2, 'x', 'a', NULL, 1)", 1366, "HY000"},
		{"INSERT INTO t VALUES (2, 1, 'a', 'yesterday', 1)", 1292, "22007"},
		{"INSERT INTO t VALUES (2, 1)", 1136, "21S01"},
		{"INSERT INTO t (nope) VALUES (1)", 1054, "42S22"},
		{"SELECT nope FROM t", 1054, "42S22"},
		{"SELECT id FROM t WHERE nope = 1", 1054, "42S22"},
		{"UPDATE t SET nope = 1", 1054, "42S22"},
		{"SELEC 1", 1064, "42000"},
		{"CREATE TABLE t (a INT)", 1050, "42S01"},
		{"DROP TABLE nowhere", 1051, "42S02"},
		{"CREATE DATABASE d", 1007, "HY000"},
		{"DROP DATABASE nowhere", 1008, "HY000"},
		{"USE nowhere", 1049, "42000"},
		{"SELECT nofunction(1)", 1305, "42000"},
		{"SET nosuchvariable = 1", 1193, "HY000"},
		{"SET @a = nosuchcolumn", 1054, "42S22"},
		{"SELECT @@nosuchvariable", 1193, "HY000"},
		{"ROLLBACK TO SAVEPOINT nowhere", 1305, "42000"},
		{"LOAD DATA INFILE '/etc/hostname' INTO TABLE t", 1290, "HY000"},
		{"SELECT 1 INTO OUTFILE '/tmp/lancesql-never'", 1290, "HY000"},
		{"FLUSH TABLES nowhere", 1146, "42S02"},
		{"KILL 4000000", 1094, "HY000"},
	} {
		_, err := d.Exec(c.statement)
		var me *mysql.MySQLError
		if !errors.As(err, &me) {
			t.Errorf("%s: %v, want %d", c.statement, err, c.number)
			continue
		}
		if int(me.Number) != c.number || string(me.SQLState[:]) != c.state {
			t.Errorf("%s: %d (%s) %s, want %d (%s)", c.statement, me.Number, me.SQLState, me.Message, c.number, c.state)
		}
	}
	_, err := d.Exec("INSERT INTO t VALUES (?, 1, 'a', NULL, 1)", 1) // binary protocol
	require.Equal(t, 1062, errorNumber(err))
	require.Regexp(t, `Duplicate entry '1' for key '.*PRIMARY'`, err.Error())
	tx, err := d.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO t VALUES (9, 1, 'a', NULL, 1)")
	require.Equal(t, 1792, errorNumber(err))
	require.NoError(t, tx.Rollback())
	require.Equal(t, []string{"1"}, text(t, d, "SELECT COUNT(*) FROM t"))
}

func TestAdminStatements(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	db := r.open("d?multiStatements=true")
	run(t, db, "CREATE TABLE t (a INT PRIMARY KEY); CREATE TABLE u (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1),(2)",
		"FLUSH TABLES", "FLUSH LOCAL TABLES t, d.u", "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", "FLUSH STATUS", "FLUSH PRIVILEGES")
	said := text(t, db, "OPTIMIZE TABLE t, u")
	said = slices.DeleteFunc(said, func(s string) bool { // what the clean-up has not removed by itself yet
		return strings.HasPrefix(s, "d.t|optimize|note|0 fragments became 0; 0 index segments rewritten, 0 added; ")
	})
	require.Equal(t, []string{"d.t|optimize|status|OK", "d.u|optimize|status|OK"}, said)
	require.Equal(t, []string{"d.t|check|status|OK"}, text(t, db, "CHECK TABLE t EXTENDED"))
	require.Equal(t, []string{"d.x|check|Error|Table 'd.x' doesn't exist", "d.x|check|status|Operation failed"}, text(t, db, "CHECK TABLE x"))
	require.Len(t, text(t, db, "ANALYZE LOCAL TABLE t"), 1)
	require.Equal(t, []string{"d.t|repair|note|The storage engine for the table doesn't support repair"}, text(t, db, "REPAIR TABLE t"))
	require.Equal(t, []string{"2"}, text(t, db, "FLUSH TABLES t; SELECT COUNT(*) FROM t")[:1])
	run(t, db, "PREPARE p FROM 'FLUSH TABLES d.t'; EXECUTE p; DEALLOCATE PREPARE p")

	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO t VALUES (3); FLUSH TABLES t")
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	require.Equal(t, []string{"3"}, text(t, db, "SELECT COUNT(*) FROM t"), "committed by FLUSH")
}

func TestServerRefusesAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	e, err := engine.Open(context.Background(), engine.Config{}, engine.Components{Store: objstore.NewMem()})
	require.NoError(t, err)
	defer e.Close(context.Background())
	_, err = sqlbackend.NewServer(sqlbackend.ServerConfig{Addr: l.Addr().String()}, e, nil)
	require.ErrorIs(t, err, wire.ErrInUse)
}

// TestServerStops: statements end, transactions are rolled back, and nothing waits for idle clients.
func TestServerStops(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)")
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO d.t VALUES (1)")
	require.NoError(t, err)
	running := make(chan error, 1)
	go func() {
		_, err := db.Exec("SELECT SLEEP(60)")
		running <- err
	}()
	require.Eventually(t, func() bool {
		return len(text(t, db, "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'")) > 0
	}, 10*time.Second, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	started := time.Now()
	require.NoError(t, r.server.Close(ctx))
	require.Less(t, time.Since(started), 10*time.Second)
	require.Error(t, <-running)
	require.Error(t, tx.Commit())
	require.NoError(t, <-r.done)
	require.NoError(t, r.engine.Close(context.Background()))
	r.server = nil
}

func TestMySQLClient(t *testing.T) {
	bin, err := exec.LookPath("mysql")
	if err != nil {
		t.Skip("no mysql command line client")
	}
	r := start(t, "", sqlbackend.ServerConfig{})
	host, port, err := net.SplitHostPort(r.server.Addr().String())
	require.NoError(t, err)
	cmd := exec.Command(bin, "--no-defaults", "--protocol=tcp", "-h", host, "-P", port, "-u", "root", "-vvv", "-t")
	cmd.Stdin = strings.NewReader(`
CREATE DATABASE d;
USE d;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20), b BLOB, d DATE, f DOUBLE);
INSERT INTO t (s, b, d, f) VALUES ('ä', x'00ff', '2024-02-29', 1e100), (NULL, NULL, NULL, NULL);
SELECT * FROM t;
UPDATE t SET s = 'z';
BEGIN; DELETE FROM t; ROLLBACK;
PREPARE p FROM 'SELECT COUNT(*) FROM t WHERE id >= ?'; SET @i = 1; EXECUTE p USING @i; DEALLOCATE PREPARE p;
SHOW TABLES; DESCRIBE t; SHOW CREATE TABLE t\G
FLUSH TABLES; OPTIMIZE TABLE t; SHOW WARNINGS; SHOW PROCESSLIST; STATUS;
SELECT 1;
DROP TABLE t; DROP DATABASE d;
`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "ERROR", "%s", out)
}
