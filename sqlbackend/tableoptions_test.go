package sqlbackend_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/indexes"
	"lancesql/indexes/zonemap"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
	"lancesql/sqlbackend"
)

// TestTableOptionsAreChecked: nonsense in an option is refused where it is written, and words that only look like one are text.
func TestTableOptionsAreChecked(t *testing.T) {
	db := start(t, "", sqlbackend.ServerConfig{}).open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)",
		"ALTER TABLE d.t COMMENT 'my table; Zone_Maps=OFF, rows_per_zone=100 fragment_rows=5000; compaction=off;remap_after=0'",
		"ALTER TABLE d.t COMMENT 'no_compaction=maybe xfragment_rows=none'")
	for _, bad := range []string{"zone_maps=", "zone_maps=offx", "rows_per_zone=0", "rows_per_zone=many", "fragment_rows=0", "compaction=maybe",
		"remap_after=-1", "rows_per_zone=99999999999", "zone_maps=v1é"} {
		_, err := db.Exec("CREATE TABLE d.bad (id INT PRIMARY KEY) COMMENT '" + bad + "'")
		require.ErrorContains(t, err, "1105", bad)
		_, err = db.Exec("ALTER TABLE d.t COMMENT '" + bad + "'")
		require.ErrorContains(t, err, "1105", bad)
	}
}

// TestTableOptionsReachTheFiles: what a comment says of zone maps and fragments is so on disk, from the next merge on.
func TestTableOptionsReachTheFiles(t *testing.T) {
	st := objstore.NewMem()
	e, err := engine.Open(context.Background(), engine.Config{Freshness: engine.NoFreshness, Workers: engine.NoWorkers},
		engine.Components{Store: st, Journal: logfile.Memory(), TableOptions: sqlbackend.TableOptions})
	require.NoError(t, err)
	db := serve(t, e).open("")
	run(t, db, "CREATE DATABASE d")
	// zones lists the zone maps of the id column: zone size and version of each segment.
	zones := func() (out []string, fragments int) {
		ds, err := table.Open(t.Context(), st, e.Catalog().Database("d").Table("t").Path)
		require.NoError(t, err)
		list, err := ds.Indexes()
		require.NoError(t, err)
		for _, x := range list {
			if info, ok := indexes.KindOf(x.DetailsType); !ok || info.Kind != indexes.ZoneMap || x.Name != "id_zonemap" {
				continue
			}
			details, err := zonemap.DecodeDetails("details", x.Details)
			require.NoError(t, err)
			out = append(out, fmt.Sprintf("%d v%d", *details.RowsPerZone, x.Version))
		}
		return out, len(ds.Fragments())
	}
	insert := func(from, n int) {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprintf("(%d, 'v%d')", from+i, i%10)
		}
		run(t, db, "INSERT INTO d.t VALUES "+strings.Join(values, ","), "OPTIMIZE TABLE d.t")
	}
	run(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20)) COMMENT 'zone_maps=off fragment_rows=40'")
	insert(0, 100)
	have, fragments := zones()
	require.Empty(t, have)
	require.Equal(t, 3, fragments)
	run(t, db, "ALTER TABLE d.t COMMENT 'rows_per_zone=7 fragment_rows=40'", "OPTIMIZE TABLE d.t")
	have, fragments = zones()
	require.Equal(t, []string{"7 v0"}, have)
	require.Equal(t, 3, fragments)
	require.Equal(t, []string{"3"}, text(t, db, "SELECT COUNT(*) FROM d.t WHERE id > 10 AND id < 14"))
	run(t, db, "ALTER TABLE d.t COMMENT 'zone_maps=v1'")
	insert(1000, 5)
	have, _ = zones()
	require.Contains(t, have, "8192 v1")
	require.Equal(t, []string{"8"}, text(t, db, "SELECT COUNT(*) FROM d.t WHERE id > 10 AND id < 14 OR id > 999"))
}
