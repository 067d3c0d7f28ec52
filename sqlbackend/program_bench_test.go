package sqlbackend_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// BenchmarkProgram measures one turn of a loop of a stored program, and the same statement prepared by a client.
//
//	go test -tags gms_pure_go -run - -bench Program -benchmem ./sqlbackend
func BenchmarkProgram(b *testing.B) {
	r := start(b, "", sqlbackend.ServerConfig{})
	run(b, r.open(""), "CREATE DATABASE d")
	db := r.open("d")
	db.SetMaxOpenConns(1)
	loop := func(name, body string) string {
		return "CREATE PROCEDURE " + name + "(n INT) BEGIN DECLARE i, x INT DEFAULT 0; WHILE i < n DO SET i = i + 1; " + body + "END WHILE; END"
	}
	run(b, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
		"INSERT INTO t WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < 1000) SELECT n, n FROM c",
		"CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1", "CREATE PROCEDURE p(x INT) BEGIN END",
		loop("turns", ""), loop("users", "SET @n = i; "), loop("calls", "CALL p(i); "), loop("functions", "SET x = f(i); "), loop("times", "SET x = UNIX_TIMESTAMP(NOW()); "), loop("selects", "SELECT v INTO x FROM t WHERE id = i % 1000 + 1; "),
		loop("updates", "UPDATE t SET v = i WHERE id = i % 1000 + 1; "), loop("inserts", "INSERT INTO u (v) VALUES (i); "))
	for _, name := range []string{"turns", "users", "calls", "functions", "times", "selects", "updates", "inserts"} {
		b.Run(name, func(b *testing.B) {
			// Why in a transaction: a commit waits for the disk, whoever asks for it.
			run(b, db, "BEGIN")
			_, err := db.Exec("CALL "+name+"(?)", b.N)
			require.NoError(b, err)
			run(b, db, "ROLLBACK")
		})
	}
	ctx := context.Background()
	for _, p := range []struct{ name, query string }{
		{"selects", "SELECT v FROM t WHERE id = ? % 1000 + 1"}, {"updates", "UPDATE t SET v = 1 WHERE id = ? % 1000 + 1"}, {"inserts", "INSERT INTO u (v) VALUES (?)"},
	} {
		b.Run("client/"+p.name, func(b *testing.B) {
			c, err := db.Conn(ctx)
			require.NoError(b, err)
			defer c.Close()
			_, err = c.ExecContext(ctx, "BEGIN")
			require.NoError(b, err)
			stmt, err := c.PrepareContext(ctx, p.query)
			require.NoError(b, err)
			defer stmt.Close()
			b.ResetTimer()
			for i := range b.N {
				if p.name == "selects" {
					var v sql.NullInt64
					err = stmt.QueryRowContext(ctx, i).Scan(&v)
				} else {
					_, err = stmt.ExecContext(ctx, i)
				}
				require.NoError(b, err)
			}
			_, err = c.ExecContext(ctx, "ROLLBACK")
			require.NoError(b, err)
		})
	}
}

// BenchmarkTrigger measures what a trigger adds to a row of an INSERT.
//
//	go test -tags gms_pure_go -run - -bench Trigger -benchmem ./sqlbackend
func BenchmarkTrigger(b *testing.B) {
	r := start(b, "", sqlbackend.ServerConfig{})
	run(b, r.open(""), "CREATE DATABASE d")
	db := r.open("d")
	db.SetMaxOpenConns(1)
	run(b, db, "CREATE TABLE l (i INT, w VARCHAR(20))", "CREATE TABLE k (k INT PRIMARY KEY, n INT)", "INSERT INTO k VALUES (1, 0), (2, 0), (3, 0)")
	for _, t := range []struct{ name, trigger string }{
		{"none", ""},
		{"set", "BEFORE INSERT ON t FOR EACH ROW SET NEW.v = NEW.v * 2"},
		{"check", "BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.v < 0 THEN SIGNAL SQLSTATE '45000'; END IF; SET NEW.v = NEW.v + 1; END"},
		{"insert", "AFTER INSERT ON t FOR EACH ROW INSERT INTO l VALUES (NEW.id, 'new')"},
		{"update", "AFTER INSERT ON t FOR EACH ROW UPDATE k SET n = n + 1 WHERE k = NEW.id % 3 + 1"},
	} {
		b.Run(t.name, func(b *testing.B) {
			run(b, db, "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
			if t.trigger != "" {
				run(b, db, "CREATE TRIGGER g "+t.trigger)
			}
			run(b, db, "SET cte_max_recursion_depth = 10000000", "BEGIN")
			b.ResetTimer()
			_, err := db.Exec("INSERT INTO t WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < ?) SELECT n, n FROM c", b.N)
			require.NoError(b, err)
			b.StopTimer()
			run(b, db, "ROLLBACK")
		})
	}
}
