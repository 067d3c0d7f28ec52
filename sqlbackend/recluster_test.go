package sqlbackend_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
	"lancesql/sqlbackend"
)

// TestRecluster: CALL lancesql.recluster puts rows of near values together, says what it did and shows how far it is; 'v1'
// warns; what makes no sense is refused before anything happens.
func TestRecluster(t *testing.T) {
	st := objstore.NewMem()
	e, err := engine.Open(context.Background(), engine.Config{Freshness: engine.NoFreshness, Workers: engine.NoWorkers},
		engine.Components{Store: st, Journal: logfile.Memory(), TableOptions: sqlbackend.TableOptions})
	require.NoError(t, err)
	r := serve(t, e)
	db := r.open("")
	run(t, db, "CREATE DATABASE d",
		"CREATE TABLE d.t (id INT PRIMARY KEY, v INT, name VARCHAR(20), j JSON, KEY (v), UNIQUE KEY (name)) COMMENT 'rows_per_zone=50 fragment_rows=1000'")
	for round := range 4 {
		values := make([]string, 500)
		for i := range values {
			id := round*500 + i
			values[i] = fmt.Sprintf("(%d, %d, 'Name %d', '{}')", id, id*7919%1000, id*7919%2003)
		}
		run(t, db, "INSERT INTO d.t VALUES "+strings.Join(values, ","), "FLUSH TABLES d.t")
	}
	run(t, db, "DELETE FROM d.t WHERE id IN (3, 1500)", "INSERT INTO d.t VALUES (9999, 500, 'in memory', NULL)")
	before := text(t, db, "SELECT id, v, name FROM d.t ORDER BY id")
	for _, bad := range []struct{ call, code string }{
		{"('d', 't', 'none', 10)", "1054"}, {"('d', 't', '', 10)", "1054"}, {"('d', 'none', 'v', 10)", "1146"}, {"('d', 't', 'v', 0)", "1105"},
		{"('d', 't', 'v', 70000)", "1105"}, {"('d', 't', 'v', 10, 'v2')", "1105"},
	} {
		_, err := db.Exec("CALL lancesql.recluster" + bad.call)
		require.ErrorContains(t, err, bad.code, bad.call)
	}
	version := func() int32 {
		ds, err := table.Open(t.Context(), st, e.Catalog().Database("d").Table("t").Path)
		require.NoError(t, err)
		h, err := ds.FragmentReuse(t.Context())
		require.NoError(t, err)
		if h == nil {
			return -1
		}
		return h.IndexVersion
	}
	require.Equal(t, []string{"1999|5|3|3"}, text(t, db, "CALL lancesql.recluster('d', 't', 'v', 40)"))
	require.Equal(t, int32(-1), version())
	check := func() {
		t.Helper()
		require.Equal(t, before, text(t, db, "SELECT id, v, name FROM d.t ORDER BY id"))
		require.Equal(t, []string{"20"}, text(t, db, "SELECT COUNT(*) FROM d.t WHERE v BETWEEN 100 AND 109"))
		require.Equal(t, []string{"9999"}, text(t, db, "SELECT id FROM d.t WHERE name = 'IN MEMORY'"))
		require.Equal(t, []string{"d.t|check|status|OK"}, text(t, db, "CHECK TABLE d.t EXTENDED"))
	}
	check()
	require.Len(t, text(t, db, "CALL lancesql.recluster('D', 't', ' name , `v` ', 8)"), 1)
	check()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	other := r.open("d")
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := other.Exec("CALL lancesql.recluster('d', 't', 'v', 40)"); err != nil {
				stopped <- err
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(text(t, db, "SHOW PROCESSLIST"), "\n"), "|recluster d.t, ")
	}, 20*time.Second, time.Millisecond)
	close(stop)
	require.NoError(t, <-stopped)

	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer c.Close()
	rows, err := c.QueryContext(t.Context(), "CALL lancesql.recluster('d', 't', 'v', 10, 'V1')")
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	var level, code, message string
	require.NoError(t, c.QueryRowContext(t.Context(), "SHOW WARNINGS").Scan(&level, &code, &message))
	require.Contains(t, message, "1024")
	require.Equal(t, int32(1), version())
	check()
}

// TestReclusterByEveryOrder: a column of any type that has an order can be clustered by; zones leave little of a range then.
func TestReclusterByEveryOrder(t *testing.T) {
	e, err := engine.Open(context.Background(), engine.Config{}, engine.Components{Store: objstore.NewMem(), TableOptions: sqlbackend.TableOptions})
	require.NoError(t, err)
	db := serve(t, e).open("")
	rowsRead := regexp.MustCompile(`rows read (\d+)`)
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, f FLOAT, g DOUBLE, n DECIMAL(20,4), w DECIMAL(60,10), at DATETIME(6),"+
		" ts TIMESTAMP(6), d DATE, c TIME(6), y YEAR, b BIT(20), v VARBINARY(20)) COMMENT 'rows_per_zone=20'")
	var values []string
	for id := range 1000 {
		k := id * 7919 % 1000 // every value once, in no order
		values = append(values, fmt.Sprintf("(%d, %d.5, -%d.25, %d.0001, -%d.5, '2020-01-01' + INTERVAL %d HOUR, '2021-01-01' + INTERVAL %d MINUTE,"+
			" '2022-01-01' + INTERVAL %d DAY, '%s', 1901 + %d, %d, LPAD(%d, 4, '0'))", id, k, k, k-500, k, k, k, k, clockTime(k*60-30000), k/10, k, k))
	}
	run(t, db, "INSERT INTO d.t VALUES "+strings.Join(values, ","), "FLUSH TABLES d.t")
	for column, where := range map[string]string{
		"f": "BETWEEN 100 AND 109.9", "g": "BETWEEN -109.9 AND -100", "n": "BETWEEN -409.5 AND -400", "w": "BETWEEN -109.9 AND -100",
		"at": "BETWEEN '2020-01-05 04:00:00' AND '2020-01-05 13:00:00'", "ts": "BETWEEN '2021-01-01 01:40:00' AND '2021-01-01 01:49:00'",
		"d": "BETWEEN '2022-04-11' AND '2022-04-20'", "c": "BETWEEN '-06:40:00' AND '-06:31:00'", "y": "= 1911", "v": "BETWEEN '0100' AND '0109'",
	} {
		q := "SELECT COUNT(*), MIN(id), MAX(id) FROM d.t WHERE " + column + " " + where
		before := text(t, db, q)
		require.Len(t, text(t, db, "CALL lancesql.recluster('d', 't', '"+column+"', 50)"), 1)
		require.Equal(t, before, text(t, db, q), column)
		require.Equal(t, "10", strings.Split(before[0], "|")[0], column)
		m := rowsRead.FindStringSubmatch(strings.Join(text(t, db, "EXPLAIN ANALYZE "+q), "\n"))
		require.NotNil(t, m, column)
		read, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		assert.LessOrEqual(t, read, 60, "%s: three zones at most", column)
	}
	require.Equal(t, []string{"d.t|check|status|OK"}, text(t, db, "CHECK TABLE d.t EXTENDED"))
}

// clockTime writes seconds as a TIME.
func clockTime(s int) string {
	sign := ""
	if s < 0 {
		sign, s = "-", -s
	}
	return fmt.Sprintf("%s%02d:%02d:%02d", sign, s/3600, s/60%60, s%60)
}
