package sqlbackend_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/indexes"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
	"lancesql/sqlbackend"
)

// TestScanIndexes: COMMENT 'type=bitmap' and 'type=bloomfilter' make, keep, rename and drop indexes of these kinds in the base
// table, also through an ALTER that rewrites it; queries are right and read less; SHOW shows them; nonsense is refused.
func TestScanIndexes(t *testing.T) {
	st := objstore.NewMem()
	e, err := engine.Open(context.Background(), engine.Config{Freshness: engine.NoFreshness, Workers: engine.NoWorkers},
		engine.Components{Store: st, Journal: logfile.Memory(), TableOptions: sqlbackend.TableOptions})
	require.NoError(t, err)
	db := serve(t, e).open("")
	// kinds lists the scan indexes of the newest version with the number of fragments they lack.
	kinds := func() (out []string) {
		ds, err := table.Open(t.Context(), st, e.Catalog().Database("d").Table("t").Path)
		require.NoError(t, err)
		list, err := ds.Indexes()
		require.NoError(t, err)
		left := map[string]int{}
		for _, x := range list {
			info, ok := indexes.KindOf(x.DetailsType)
			if !ok || info.Kind != indexes.Bitmap && info.Kind != indexes.Bloom {
				continue
			}
			name := x.Name + " " + info.Name
			if _, seen := left[name]; !seen {
				left[name] = len(ds.Fragments())
				out = append(out, name)
			}
			for _, f := range ds.Fragments() {
				if x.Fragments.Contains(uint32(f.ID)) {
					left[name]--
				}
			}
		}
		for _, name := range out {
			require.Zero(t, left[name], name)
		}
		return out
	}
	insert := func(from int) {
		values := make([]string, 200)
		for i := range values {
			id := from + i
			values[i] = fmt.Sprintf("(%d, %d, 'name %d', 'N%d')", id, id%40, id%100, id%3)
		}
		run(t, db, "INSERT INTO d.t VALUES "+strings.Join(values, ","), "FLUSH TABLES d.t")
	}
	check := func(rows int) {
		t.Helper()
		require.Equal(t, []string{fmt.Sprint(rows / 40)}, text(t, db, "SELECT COUNT(*) FROM d.t WHERE v = 7"))
		require.Equal(t, []string{fmt.Sprint(rows / 40)}, text(t, db, "SELECT COUNT(*) FROM d.t IGNORE INDEX (by_v) WHERE v = 7"))
		require.Equal(t, []string{fmt.Sprint(rows / 100)}, text(t, db, "SELECT COUNT(*) FROM d.t WHERE name = 'name 7'"))
		require.Equal(t, []string{"0"}, text(t, db, "SELECT COUNT(*) FROM d.t WHERE name = 'none'"))
	}
	run(t, db, "CREATE DATABASE d", `CREATE TABLE d.t (id INT PRIMARY KEY, v INT, name VARCHAR(20) COLLATE utf8mb4_bin, ci VARCHAR(20),
		KEY by_v (v) COMMENT 'few values; type=BITMAP') COMMENT 'zone_maps=off'`)
	insert(0)
	require.Equal(t, []string{"by_v BITMAP"}, kinds())
	run(t, db, "CREATE INDEX by_name ON d.t (name) COMMENT 'type=bloomfilter'")
	require.Equal(t, []string{"by_v BITMAP", "by_name BLOOMFILTER"}, kinds())
	insert(200)
	check(400)
	require.ElementsMatch(t, []string{"by_v BITMAP", "by_name BLOOMFILTER"}, kinds())
	shown := strings.Join(text(t, db, "SHOW CREATE TABLE d.t"), "")
	require.Contains(t, shown, "KEY `by_v` (`v`) COMMENT 'few values; type=BITMAP'")
	require.Contains(t, shown, "KEY `by_name` (`name`) COMMENT 'type=bloomfilter'")
	require.Len(t, text(t, db, "SHOW INDEX FROM d.t"), 3)

	run(t, db, "OPTIMIZE TABLE d.t", "CALL lancesql.recluster('d', 't', 'v', 10)")
	require.ElementsMatch(t, []string{"by_v BITMAP", "by_name BLOOMFILTER"}, kinds())
	check(400)
	run(t, db, "ALTER TABLE d.t RENAME INDEX by_v TO v_bits")
	require.ElementsMatch(t, []string{"v_bits BITMAP", "by_name BLOOMFILTER"}, kinds())
	run(t, db, "ALTER TABLE d.t ADD COLUMN more INT DEFAULT 5, ADD INDEX more (more)", "FLUSH TABLES d.t", "OPTIMIZE TABLE d.t")
	require.ElementsMatch(t, []string{"v_bits BITMAP", "by_name BLOOMFILTER"}, kinds())
	run(t, db, "DROP INDEX by_name ON d.t")
	require.Equal(t, []string{"v_bits BITMAP"}, kinds())
	run(t, db, "ALTER TABLE d.t DROP COLUMN v", "OPTIMIZE TABLE d.t")
	require.Empty(t, kinds())

	for _, bad := range []struct{ def, code string }{
		{"INDEX x (name) COMMENT 'type=hash'", "1105"}, {"UNIQUE INDEX x (name) COMMENT 'type=bitmap'", "1235"},
		{"INDEX x (id, name) COMMENT 'type=bitmap'", "1235"}, {"INDEX x (name(3)) COMMENT 'type=bloomfilter'", "1235"},
		{"INDEX x (ci) COMMENT 'type=bitmap'", "1235"}, {"INDEX x ((id + 1)) COMMENT 'type=bitmap'", "1235"},
	} {
		_, err := db.Exec("ALTER TABLE d.t ADD " + bad.def)
		require.ErrorContains(t, err, bad.code, bad.def)
	}
	require.Equal(t, []string{"d.t|check|status|OK"}, text(t, db, "CHECK TABLE d.t EXTENDED"))
}
