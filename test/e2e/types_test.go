package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/server"
)

const typesDatabase = "e2e"

// typeTables is one large table of every type and smaller ones for each way a primary key is mapped.
func typeTables() []*tableModel {
	var payload []column
	for i, k := range allKinds() {
		name, _, _ := strings.Cut(strings.ToLower(k.sql), "(")
		name, _, _ = strings.Cut(name, " ")
		payload = append(payload, column{name: fmt.Sprintf("c%d_%s", i, name), kind: k, nullable: i%4 != 3})
	}
	withKey := func(name string, fold func(string) string, keys ...kind) *tableModel {
		var columns []column
		var key []int
		for i, k := range keys {
			columns = append(columns, column{name: fmt.Sprintf("k%d", i), kind: k})
			key = append(key, i)
		}
		columns = append(columns, column{name: "n", kind: intKind("INT", 0, 1000), nullable: true},
			column{name: "note", kind: textKind("VARCHAR(60)", 60), nullable: true}, column{name: "amount", kind: decimalKind(12, 3), nullable: true})
		m := newTable(name, columns, key...)
		m.fold = fold
		return m
	}
	plain := func(sql string) kind { // letters in both cases, for case-insensitive keys
		return kind{sql: sql, class: text, gen: func(r *rand.Rand) any {
			b := make([]byte, 1+r.IntN(6))
			for i := range b {
				b[i] = "abcdeABCDE"[r.IntN(10)]
			}
			return string(b)
		}}
	}
	id := column{name: "id", kind: intKind("INT", 0, 1<<30)}
	return []*tableModel{
		newTable("every_type", append([]column{id}, payload...), 0),
		withKey("by_bigint", nil, intKind("BIGINT", -1<<62, 1<<62)),
		withKey("by_unsigned", nil, uintKind("BIGINT UNSIGNED", 1<<64-1)),
		withKey("by_small", nil, intKind("SMALLINT", -1<<15, 1<<15-1)),
		withKey("by_binary_text", nil, textKind("VARCHAR(20) COLLATE utf8mb4_bin", 20)),
		withKey("by_text", strings.ToLower, plain("VARCHAR(20)")),
		withKey("by_bytes", nil, bytesKind("VARBINARY(20)", 20, false)),
		withKey("by_decimal", nil, decimalKind(20, 4)),
		withKey("by_time", nil, datetimeKind("DATETIME", 6, 0, 1<<31)),
		withKey("by_date", nil, dateKind()),
		withKey("by_pair", nil, intKind("INT", 0, 20), textKind("VARCHAR(10) COLLATE utf8mb4_bin", 10)),
		withKey("by_three", strings.ToLower, uintKind("INT UNSIGNED", 5), plain("CHAR(8)"), decimalKind(6, 2)),
	}
}

// TestTypes: every type and key, ten thousand rows under updates, deletes and replaces, through kill -9, FLUSH TABLES and
// the eyes of the reference implementation.
func TestTypes(t *testing.T) {
	n := seed(t)
	r := newRand(n)
	rowsLarge, rowsSmall, changes := 10000, 400, 400
	if testing.Short() {
		rowsLarge, rowsSmall, changes = 1000, 100, 60
	}
	srv := server.Start(t, server.Options{Config: small()})
	do(t, srv.Open(""), "CREATE DATABASE "+typesDatabase)
	inline, binary := typeConnections(srv)
	tables := typeTables()
	for i, m := range tables {
		m.create(t, inline)
		rows := rowsSmall
		if i == 0 {
			rows = rowsLarge
		}
		m.fill(t, inline, r, rows, 250)
	}
	churn := func() {
		for i, m := range tables {
			count := changes / 4
			if i == 0 {
				count = changes * 3
			}
			for i := range count {
				db := inline
				if i%2 == 0 {
					db = binary
				}
				m.change(t, db, r)
			}
		}
	}
	check := func(when string) {
		for _, m := range tables {
			m.verify(t, inline, when)
		}
	}
	churn()
	check("after the changes")

	srv.Restart()
	inline, binary = typeConnections(srv)
	check("after kill -9")
	churn()
	for _, m := range tables[1:4] { // some one by one, then all
		do(t, inline, "FLUSH TABLES "+m.name)
	}
	do(t, inline, "FLUSH TABLES")
	check("after FLUSH TABLES")
	t.Run("oracle", func(t *testing.T) { readByOracle(t, srv, tables) })

	churn() // now most changes meet rows of the base table
	do(t, inline, "FLUSH TABLES")
	srv.Restart()
	inline, _ = typeConnections(srv)
	check("after more changes and kill -9")
	t.Run("oracle again", func(t *testing.T) { readByOracle(t, srv, tables) })
	srv.Stop()
	srv.Start()
	inline, _ = typeConnections(srv)
	check("after a clean stop")
}

// typeConnections are two pools: one sends arguments inside the statement, one prepares statements.
func typeConnections(srv *server.Server) (inline, binary *sql.DB) {
	zone := "time_zone=%27%2B00%3A00%27"
	return srv.Open(typesDatabase, "interpolateParams=true", zone), srv.Open(typesDatabase, zone)
}

// readByOracle reads every table with pylance and lancedb for Python, and with lancedb 0.39 for Node.
func readByOracle(t *testing.T, srv *server.Server, tables []*tableModel) {
	dir := filepath.Join(srv.DataDir(), typesDatabase)
	var names []string
	for _, m := range tables {
		names = append(names, m.name)
	}
	t.Run("python", func(t *testing.T) {
		for i, got := range oracle.DumpPythonTables(t, dir, names...) {
			tables[i].verifyDump(t, got.Lance, "pylance")
			tables[i].verifyDump(t, got.LanceDB, "lancedb for Python")
			require.GreaterOrEqual(t, len(got.Versions), 2, "versions of %s", tables[i].name)
		}
	})
	t.Run("node", func(t *testing.T) {
		for i, got := range oracle.DumpNodeTables(t, dir, names...) {
			tables[i].verifyDump(t, got, "lancedb for Node")
		}
	})
}

// TestTablesWithoutKey: rows are a multiset; changes go by condition.
func TestTablesWithoutKey(t *testing.T) {
	r := newRand(seed(t))
	srv := server.Start(t, server.Options{Config: small()})
	do(t, srv.Open(""), "CREATE DATABASE "+typesDatabase)
	db, _ := typeConnections(srv)
	m := newTable("no_key", []column{{name: "n", kind: intKind("INT", 0, 50)}, {name: "s", kind: textKind("VARCHAR(20)", 20), nullable: true},
		{name: "d", kind: datetimeKind("DATETIME", 3, 0, 1<<31), nullable: true}})
	m.create(t, db)
	m.fill(t, db, r, 1500, 100)
	row := m.randomRow(r)
	for range 3 { // equal rows stay several
		do(t, db, "INSERT INTO no_key VALUES (?, ?, ?)", row...)
		m.rows[m.keyOf(row)] = row
	}
	m.verify(t, db, "after the inserts")

	for n := int64(0); n < 50; n += 7 {
		do(t, db, "DELETE FROM no_key WHERE n = ?", n)
		do(t, db, "UPDATE no_key SET s = ? WHERE n = ?", fmt.Sprint("set ", n), n+1)
		for k, row := range m.rows {
			switch row[0] {
			case n:
				delete(m.rows, k)
			case n + 1:
				m.rows[k] = []any{row[0], fmt.Sprint("set ", n), row[2]}
			}
		}
	}
	m.verify(t, db, "after the changes")
	srv.Restart()
	db, _ = typeConnections(srv)
	m.verify(t, db, "after kill -9")
	m.fill(t, db, r, 20, 5)
	do(t, db, "FLUSH TABLES no_key")
	m.verify(t, db, "after FLUSH TABLES")
	t.Run("oracle", func(t *testing.T) { readByOracle(t, srv, []*tableModel{m}) })
}

// TestAutoIncrement: numbers go up across transactions, explicit values, flushes and kill -9, and none is given twice.
func TestAutoIncrement(t *testing.T) {
	srv := server.Start(t, server.Options{Config: small()})
	do(t, srv.Open(""), "CREATE DATABASE "+typesDatabase)
	db, _ := typeConnections(srv)
	do(t, db, "CREATE TABLE auto (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40))")
	last := int64(0)
	insert := func(value string) {
		t.Helper()
		id, err := do(t, db, "INSERT INTO auto (v) VALUES (?)", value).LastInsertId()
		require.NoError(t, err)
		require.Greater(t, id, last)
		last = id
	}
	for i := range 20 {
		insert(fmt.Sprint("row ", i))
	}
	require.Equal(t, int64(20), last)
	do(t, db, "INSERT INTO auto VALUES (100, 'given')")
	insert("after a given one")
	require.Equal(t, int64(101), last)
	first, err := do(t, db, "INSERT INTO auto (v) VALUES ('a'), ('b'), ('c')").LastInsertId()
	require.NoError(t, err)
	require.Equal(t, int64(102), first)
	last = 104

	tx, err := db.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	do(t, tx, "INSERT INTO auto (v) VALUES ('undone')")
	require.NoError(t, tx.Rollback())
	insert("after a rollback")

	srv.Restart()
	db, _ = typeConnections(srv)
	insert("after kill -9")
	do(t, db, "FLUSH TABLES")
	srv.Restart()
	db, _ = typeConnections(srv)
	insert("after a flush and kill -9")
	require.Equal(t, "0", one(t, db, "SELECT COUNT(*) FROM auto WHERE v = 'undone'"))
	require.Equal(t, "28", one(t, db, "SELECT COUNT(*) FROM auto"))
}

// TestMetadata: what SHOW and DESCRIBE tell survives a restart.
func TestMetadata(t *testing.T) {
	srv := server.Start(t, server.Options{})
	do(t, srv.Open(""), "CREATE DATABASE "+typesDatabase)
	db, _ := typeConnections(srv)
	do(t, db, `CREATE TABLE shape (a INT UNSIGNED NOT NULL, b VARCHAR(30) DEFAULT 'none' COMMENT 'said', c DECIMAL(10,2) NOT NULL,
		d DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), PRIMARY KEY (a, c)) COMMENT = 'a table'`)
	texts := func() []string {
		var out []string
		for _, q := range []string{"SHOW DATABASES LIKE 'e2e'", "SHOW TABLES", "DESCRIBE shape", "SHOW CREATE TABLE shape", "SHOW COLUMNS FROM shape",
			"SELECT column_name, column_type, is_nullable, column_key FROM information_schema.columns WHERE table_name = 'shape' ORDER BY ordinal_position"} {
			for _, row := range query(t, db, q) {
				var cells []string
				for _, c := range row {
					if c == nil {
						cells = append(cells, "NULL")
						continue
					}
					cells = append(cells, *c)
				}
				out = append(out, strings.Join(cells, "|"))
			}
		}
		return out
	}
	before := texts()
	all := strings.Join(before, "\n")
	for _, part := range []string{"a|int unsigned|NO|PRI", "b|varchar(30)|YES", "c|decimal(10,2)|NO|PRI", "d|datetime(3)|YES", "PRIMARY KEY (`a`,`c`)", "COMMENT 'said'"} {
		require.Contains(t, all, part)
	}
	require.NotContains(t, all, "__lancesql")
	srv.Restart()
	db, _ = typeConnections(srv)
	require.Equal(t, before, texts())
	do(t, db, "INSERT INTO shape (a, c) VALUES (1, 1)")
	require.Equal(t, "none", one(t, db, "SELECT b FROM shape"))
	do(t, db, "DROP TABLE shape")
	require.Empty(t, query(t, db, "SHOW TABLES"))
	do(t, db, "DROP DATABASE e2e")
	srv.Restart()
	require.Empty(t, query(t, srv.Open(""), "SHOW DATABASES LIKE 'e2e'"))
}
