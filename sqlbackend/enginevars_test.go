package sqlbackend_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
)

// TestEngineVariables: system variables that are settings of the engine reach it.
func TestEngineVariables(t *testing.T) {
	w := newWorld(t)
	run := func(stmt string) error {
		_, _, err := w.conn("c1").exec(t.Context(), stmt)
		return err
	}
	require.Equal(t, engine.SyncCommit, w.engine.Durability())
	for _, n := range []string{"0", "2"} {
		require.NoError(t, run("SET GLOBAL innodb_flush_log_at_trx_commit = "+n))
		require.Equal(t, engine.SyncEverySecond, w.engine.Durability())
		require.NoError(t, run("SET GLOBAL innodb_flush_log_at_trx_commit = 1"))
		require.Equal(t, engine.SyncCommit, w.engine.Durability())
	}
	require.Error(t, run("SET GLOBAL innodb_flush_log_at_trx_commit = 3"))
	require.Error(t, run("SET SESSION innodb_flush_log_at_trx_commit = 2"))
	require.NoError(t, run("SET GLOBAL lancesql_freshness = 5"))
	require.Equal(t, 5*time.Second, w.engine.Freshness())
	require.NoError(t, run("SET GLOBAL lancesql_freshness = 0"))
	require.Zero(t, w.engine.Freshness())
	require.NoError(t, run("SET GLOBAL lancesql_freshness = 60"))
}

// TestCounterOverRestart: AUTO_INCREMENT goes on where it was although the rows are gone, as in MySQL 8, and
// TRUNCATE sets it back for good.
func TestCounterOverRestart(t *testing.T) {
	w := newWorld(t)
	query := func(stmt string) string {
		sch, rows, err := w.conn("c1").exec(t.Context(), stmt)
		require.NoError(t, err)
		return format(sch, rows, err, nil)
	}
	query("CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
	query("INSERT INTO a (v) VALUES (1), (2), (3)")
	query("DELETE FROM a")
	w.close(t)
	w.open(t)
	query("INSERT INTO a (v) VALUES (4)")
	require.Contains(t, query("SELECT id FROM a"), "4")
	query("TRUNCATE TABLE a")
	w.close(t)
	w.open(t)
	query("INSERT INTO a (v) VALUES (5)")
	require.Contains(t, query("SELECT id FROM a"), "1")
}
