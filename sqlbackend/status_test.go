package sqlbackend_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/sqlbackend"
)

// TestFreshnessOfTable: a table comment sets a bound of the table's own, and nonsense in it is refused.
func TestFreshnessOfTable(t *testing.T) {
	db := start(t, "", sqlbackend.ServerConfig{}).open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) COMMENT 'mine, Freshness=5'", "CREATE TABLE d.plain (id INT PRIMARY KEY)",
		"CREATE TABLE d.other (id INT PRIMARY KEY) COMMENT 'unfreshness=x'")
	bounds := func() []string {
		return text(t, db, "SELECT table_name, freshness FROM lancesql.tables WHERE table_schema = 'd' ORDER BY table_name")
	}
	require.Equal(t, []string{"other|60", "plain|60", "t|5"}, bounds())
	run(t, db, "ALTER TABLE d.t COMMENT 'freshness=0'", "SET GLOBAL lancesql_freshness = 7")
	require.Equal(t, []string{"other|7", "plain|7", "t|0"}, bounds())
	run(t, db, "SET GLOBAL lancesql_freshness = 60")
	for _, bad := range []string{"freshness=", "freshness=soon", "freshness=99999999999999999999"} {
		_, err := db.Exec("CREATE TABLE d.bad (id INT PRIMARY KEY) COMMENT '" + bad + "'")
		require.ErrorContains(t, err, "1105", bad)
		_, err = db.Exec("ALTER TABLE d.plain COMMENT '" + bad + "'")
		require.ErrorContains(t, err, "1105", bad)
	}
}

// TestFreshnessReachesTheEngine: a table with a bound of its own is merged by it although the server's is off.
func TestFreshnessReachesTheEngine(t *testing.T) {
	e, err := engine.Open(context.Background(), engine.Config{Freshness: engine.NoFreshness},
		engine.Components{Store: objstore.NewMem(), Journal: logfile.Memory(), TableOptions: sqlbackend.TableOptions})
	require.NoError(t, err)
	r := serve(t, e)
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) COMMENT 'freshness=1'", "CREATE TABLE d.u (id INT PRIMARY KEY)",
		"INSERT INTO d.t VALUES (1),(2)", "INSERT INTO d.u VALUES (1),(2)")
	pending := func() []string {
		return text(t, db, "SELECT table_name, pending_rows FROM lancesql.tables ORDER BY table_name")
	}
	require.Equal(t, []string{"t|2", "u|2"}, pending())
	require.Eventually(t, func() bool { return pending()[0] == "t|0" }, 20*time.Second, 50*time.Millisecond)
	require.Equal(t, "u|2", pending()[1])
	run(t, db, "ALTER TABLE d.u COMMENT 'freshness=1'", "INSERT INTO d.u VALUES (3)") // the bound counts from the next time it is clean
	run(t, db, "FLUSH TABLES d.u", "INSERT INTO d.u VALUES (4)")
	require.Eventually(t, func() bool { return pending()[1] == "u|0" }, 20*time.Second, 50*time.Millisecond)
}

// TestStatusTables: the database lancesql shows the engine's state and cannot be changed.
func TestStatusTables(t *testing.T) {
	db := start(t, "", sqlbackend.ServerConfig{}).open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT) COMMENT 'c'", "INSERT INTO d.t VALUES (1,1),(2,2),(3,3)")
	require.Equal(t, []string{"1|3|3|0|0|1|0|NULL"},
		text(t, db, "SELECT is_open, table_rows, pending_rows, frozen, generations, shards, duplicate_keys, last_error FROM lancesql.tables"))
	status := text(t, db, "SHOW TABLE STATUS FROM d")
	require.Len(t, status, 1)
	require.Contains(t, status[0], "c; 3 rows pending for ")
	require.NotContains(t, strings.Join(text(t, db, "SHOW CREATE TABLE d.t"), ""), "pending")
	run(t, db, "FLUSH TABLES d.t")
	require.Equal(t, []string{"3|0|0|1|1"}, text(t, db, "SELECT table_rows, pending_rows, behind_seconds, fragments, small_fragments FROM lancesql.tables"))
	require.NotContains(t, text(t, db, "SHOW TABLE STATUS FROM d")[0], "pending")

	require.Equal(t, []string{"1"}, text(t, db, "SELECT SUM(IF(account='total',bytes,0)) = SUM(IF(account NOT IN ('total','limit'),bytes,0)) FROM lancesql.memory"))
	require.Equal(t, []string{"1"}, text(t, db, "SELECT next_record >= first_record AND limit_bytes > 0 FROM lancesql.journal"))
	require.Empty(t, text(t, db, "SELECT * FROM lancesql.stalls"))
	text(t, db, "SELECT * FROM lancesql.jobs")
	require.Equal(t, []string{"jobs", "journal", "memory", "stalls", "tables"}, text(t, db, "SHOW TABLES FROM lancesql"))
	text(t, db, "SHOW TABLE STATUS FROM lancesql")
	require.NotContains(t, text(t, db, "SHOW DATABASES"), "lancesql")
	run(t, db, "USE lancesql")
	for _, bad := range []string{
		"CREATE DATABASE lancesql", "DROP DATABASE lancesql", "CREATE TABLE lancesql.x (id INT PRIMARY KEY)", "INSERT INTO lancesql.stalls VALUES ('a','b',1)",
		"DROP TABLE lancesql.tables", "DELETE FROM lancesql.tables", "UPDATE lancesql.memory SET bytes = 1", "TRUNCATE TABLE lancesql.tables",
		"ALTER TABLE lancesql.tables ADD COLUMN x INT", "CREATE VIEW lancesql.v AS SELECT 1", "CREATE INDEX i ON lancesql.tables (path(3))", "RENAME TABLE lancesql.tables TO lancesql.u",
	} {
		_, err := db.Exec(bad)
		require.Error(t, err, bad)
	}
	require.Equal(t, []string{"t|3"}, text(t, db, "SELECT t.table_name, COUNT(*) FROM d.t AS r JOIN lancesql.tables AS t ON t.table_name = 't' GROUP BY t.table_name"))
}
