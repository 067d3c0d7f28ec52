package sqlbackend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestCheckTable: a table with every kind of index is found whole at each stage of its rows' way.
func TestCheckTable(t *testing.T) {
	db := start(t, "", sqlbackend.ServerConfig{}).open("")
	run(t, db, "CREATE DATABASE d", "USE d")
	run(t, db, `CREATE TABLE d.t (a INT, b VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, c INT, d DATE, u INT UNIQUE, PRIMARY KEY (a, b), KEY (c), KEY (b, c), KEY (d DESC), KEY p (b(2)))`,
		"CREATE TABLE d.h (v INT, w VARCHAR(10), KEY (v), KEY (w, v))")
	for i := range 40 {
		run(t, db, fmt.Sprintf("REPLACE INTO d.t VALUES (%d, 'n%d', NULLIF(%d, 3), IF(%d MOD 4, '2024-02-%02d', NULL), NULLIF(%d, 7))", i%30, i%30%9, i%5, i, i%28+1, i),
			fmt.Sprintf("INSERT INTO d.h VALUES (NULLIF(%d, 2), 'w%d')", i%6, i%4))
		switch i {
		case 15:
			run(t, db, "FLUSH TABLES")
		case 25:
			run(t, db, "DELETE FROM d.t WHERE c = 1", "OPTIMIZE TABLE d.t")
		}
		if i%10 == 5 {
			require.Equal(t, []string{"d.t|check|status|OK", "d.h|check|status|OK"}, text(t, db, "CHECK TABLE d.t, d.h EXTENDED"))
		}
	}
	require.Equal(t, []string{"d.t|check|status|OK"}, text(t, db, "CHECK TABLE d.t QUICK"))
	require.Equal(t, []string{"d.none|check|Error|Table 'd.none' doesn't exist", "d.none|check|status|Operation failed"}, text(t, db, "CHECK TABLE d.none"))
}

// TestOptimizeTable: the statement says what it did, and once there is nothing to do it does nothing.
func TestOptimizeTable(t *testing.T) {
	db := start(t, "", sqlbackend.ServerConfig{}).open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY (v))")
	for i := range 6 {
		run(t, db, fmt.Sprintf("INSERT INTO d.t VALUES (%d,1),(%d,2),(%d,3)", 3*i, 3*i+1, 3*i+2), "FLUSH TABLES d.t")
	}
	first := text(t, db, "OPTIMIZE TABLE d.t")
	require.Len(t, first, 2)
	require.Contains(t, first[0], "d.t|optimize|note|")
	require.Equal(t, "d.t|optimize|status|OK", first[1])
	state := text(t, db, "SELECT version, fragments FROM lancesql.tables")
	for range 10 {
		require.Equal(t, []string{"d.t|optimize|status|OK"}, text(t, db, "OPTIMIZE TABLE d.t"))
	}
	require.Equal(t, state, text(t, db, "SELECT version, fragments FROM lancesql.tables"))
	require.Equal(t, []string{"18|36"}, text(t, db, "SELECT COUNT(*), SUM(v) FROM d.t"))
	require.Equal(t, []string{"6"}, text(t, db, "SELECT COUNT(*) FROM d.t WHERE v = 2"))
	require.Equal(t, "d.t|check|status|OK", strings.Join(text(t, db, "CHECK TABLE d.t EXTENDED"), ","))
}
