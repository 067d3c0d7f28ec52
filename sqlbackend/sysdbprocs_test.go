package sqlbackend_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
)

// TestProcedures: CALL lancesql.… flushes, merges and cleans up; the dry run of a clean-up is the real one's list.
func TestProcedures(t *testing.T) {
	e, err := engine.Open(context.Background(), engine.Config{ManifestRetention: engine.NoRetention, Freshness: engine.NoFreshness, Workers: engine.NoWorkers},
		engine.Components{Store: objstore.NewMem(), Journal: logfile.Memory()})
	require.NoError(t, err)
	db := serve(t, e).open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY (v))", "CREATE TABLE d.u (id INT PRIMARY KEY)")
	pending := func() string {
		return text(t, db, "SELECT SUM(pending_rows) FROM lancesql.tables WHERE table_schema = 'd'")[0]
	}
	for i := range 4 {
		run(t, db, "REPLACE INTO d.t VALUES (1,1),(2,2),(3,3)", "REPLACE INTO d.u VALUES (1)")
		require.NotEqual(t, "0", pending(), i)
		run(t, db, "CALL lancesql.flush('d', 't')", "CALL lancesql.flush('D', 'u')")
		require.Equal(t, "0", pending(), i)
	}
	run(t, db, "CALL lancesql.merge('d', 't')")
	one := text(t, db, "CALL lancesql.cleanup('d', 'u', true)")
	require.NotEmpty(t, one)
	plan := text(t, db, "CALL lancesql.cleanup(TRUE)")
	require.Subset(t, plan, one)
	require.Greater(t, len(plan), len(one))
	require.Equal(t, plan, text(t, db, "CALL lancesql.cleanup(1)"))
	require.Equal(t, plan, text(t, db, "CALL lancesql.cleanup(FALSE)"))
	require.Empty(t, text(t, db, "CALL lancesql.cleanup(TRUE)"))
	require.Empty(t, text(t, db, "CALL lancesql.cleanup(FALSE)"))
	require.Equal(t, []string{"3|6"}, text(t, db, "SELECT COUNT(*), SUM(v) FROM d.t"))

	for _, bad := range []string{"CALL lancesql.flush('d', 'none')", "CALL lancesql.flush('none', 't')", "CALL lancesql.none()", "CALL lancesql.flush()",
		"CREATE PROCEDURE lancesql.p() SELECT 1", "CALL d.flush('d', 't')"} {
		_, err := db.Exec(bad)
		require.Error(t, err, bad)
	}
	// procedures of the same names in other databases are the user's
	run(t, db, "CREATE PROCEDURE d.merge(a INT, b INT) SELECT a + b")
	require.Equal(t, []string{"3"}, text(t, db, "CALL d.merge(1, 2)"))
	run(t, db, "USE lancesql", "CALL lancesql.merge('d', 't')")
}
