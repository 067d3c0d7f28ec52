package sqlbackend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJoinFaults: plans that lost or doubled rows: of NULL in keys of several columns, of ” beside NULL, of sub-queries made joins.
func TestJoinFaults(t *testing.T) {
	w := newWorld(t)
	c := w.conn("c1")
	ask := func(q string) string {
		sch, rows, err := c.exec(t.Context(), q)
		require.NoError(t, err, q)
		return strings.TrimSpace(format(sch, rows, nil, []string{"sort"}))
	}
	t.Run("merge of keys with NULL", func(t *testing.T) {
		ask("CREATE TABLE m (id INT PRIMARY KEY, x INT, y INT, KEY xy (x, y))")
		rows := []string{"(1,NULL,1),(2,1,1),(3,1,1)"}
		for i := 4; i < 200; i++ {
			rows = append(rows, fmt.Sprintf("(%d,%d,%d)", i, i, i))
		}
		ask("INSERT INTO m VALUES " + strings.Join(rows, ","))
		require.Equal(t, "2", ask("SELECT COUNT(*) FROM m i JOIN m j ON i.x = j.x AND i.y = j.y AND i.id <> j.id"))
		require.Equal(t, "2", ask("SELECT /*+ MERGE_JOIN(i,j) */ COUNT(*) FROM m i JOIN m j ON i.x = j.x AND i.y = j.y AND i.id <> j.id"))
		require.Equal(t, "197", ask("SELECT COUNT(*) FROM m i WHERE NOT EXISTS (SELECT 1 FROM m j WHERE i.x = j.x AND i.y = j.y AND i.id <> j.id)"))
	})
	t.Run("an empty text is not NULL", func(t *testing.T) {
		for _, collation := range []string{"utf8mb4_0900_ai_ci", "utf8mb4_bin", "utf8mb4_general_ci"} {
			ask("DROP TABLE IF EXISTS e, p, u")
			ask("CREATE TABLE e (id INT PRIMARY KEY, v VARCHAR(10) COLLATE " + collation + ", w INT, KEY (v), KEY wv (w, v))")
			ask("CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(10) COLLATE " + collation + ")")
			ask("INSERT INTO e VALUES (1,NULL,1),(2,'',1),(3,'x',1),(4,NULL,1)")
			ask("INSERT INTO p VALUES (7,''),(8,NULL)")
			require.Equal(t, "2", ask("SELECT /*+ LOOKUP_JOIN(p,e) */ e.id FROM p JOIN e ON e.v = p.v"), collation)
			require.Equal(t, "2", ask("SELECT /*+ LOOKUP_JOIN(p,e) */ e.id FROM p JOIN e ON e.v = p.v AND e.w = 1"), collation)
			require.Equal(t, "1\n4", ask("SELECT id FROM e WHERE v IS NULL"))
			require.Equal(t, "2", ask("SELECT id FROM e WHERE v = ''"))
			require.Equal(t, "2\n3", ask("SELECT id FROM e WHERE v >= ''"))
			sch, rows, err := c.exec(t.Context(), "SELECT id FROM e ORDER BY v, id")
			require.NoError(t, err)
			require.Equal(t, "1\n4\n2\n3", strings.TrimSpace(format(sch, rows, nil, nil)))
			ask("CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(10) COLLATE " + collation + ", UNIQUE (v))")
			ask("INSERT INTO u VALUES (1, NULL)")
			ask("INSERT INTO u VALUES (2, '')")
			ask("INSERT INTO u VALUES (3, NULL)")
			_, _, err = c.exec(t.Context(), "INSERT INTO u VALUES (4, '')")
			require.ErrorContains(t, err, "Duplicate entry")
			ask("FLUSH TABLES")
			require.Equal(t, "2", ask("SELECT id FROM u WHERE v = ''"))
			ask("ALTER TABLE u ADD COLUMN n INT")
			require.Equal(t, "1\n3", ask("SELECT id FROM u WHERE v IS NULL"))
		}
	})
	t.Run("NOT IN of several columns with NULL", func(t *testing.T) {
		ask("CREATE TABLE on1 (id INT PRIMARY KEY, v INT, n INT)")
		ask("CREATE TABLE kk (a INT, b INT)")
		ask("INSERT INTO on1 VALUES (1,NULL,1),(2,1,NULL),(3,1,1),(4,50,50)")
		var rows []string
		for i := 1; i <= 40; i++ {
			rows = append(rows, fmt.Sprintf("(%d,%d)", i, i))
		}
		ask("INSERT INTO kk VALUES " + strings.Join(rows, ","))
		for range 5 {
			require.Equal(t, "4", ask("SELECT id FROM on1 WHERE (v,n) NOT IN (SELECT a+0,b FROM kk WHERE b>0)"))
			require.Equal(t, "3", ask("SELECT id FROM on1 WHERE (v,n) IN (SELECT a+0,b FROM kk WHERE b>0)"))
		}
		require.Equal(t, "4", ask("SELECT id FROM on1 WHERE (v,n) NOT IN ((1,1),(7,7))"))
		require.Equal(t, "3", ask("SELECT id FROM on1 WHERE (v,n) IN ((1,1),(7,7))"))
		require.Equal(t, "1 | NULL | NULL\n2 | NULL | NULL\n3 | 1 | 0\n4 | 0 | 1", ask("SELECT id, (v,n) IN (SELECT a,b FROM kk), (v,n) NOT IN (SELECT a,b FROM kk) FROM on1"))
		require.Equal(t, "1 | 0\n2 | 0\n3 | 0\n4 | 1", ask("SELECT id, (v,n) IN (SELECT a,b FROM kk WHERE a > 1 UNION SELECT 50, 50) FROM on1"))
	})
	t.Run("EXISTS with an outer join on outer columns", func(t *testing.T) {
		ask("CREATE TABLE o (id INT PRIMARY KEY, v INT)")
		ask("CREATE TABLE i (id INT PRIMARY KEY, x INT, y INT)")
		ask("CREATE TABLE j (id INT PRIMARY KEY, x INT, v INT)")
		ask("INSERT INTO o VALUES (1,10),(2,20)")
		ask("INSERT INTO i VALUES (1,1,1),(2,1,2)")
		ask("INSERT INTO j VALUES (1,1,1),(2,1,2)")
		require.Equal(t, "1\n2", ask("SELECT o.id FROM o WHERE EXISTS (SELECT 1 FROM i LEFT JOIN j ON j.x=i.x AND j.v=o.v WHERE i.y=o.id AND j.id IS NULL)"))
		require.Equal(t, "none", ask("SELECT o.id FROM o WHERE NOT EXISTS (SELECT 1 FROM i LEFT JOIN j ON j.x=i.x AND j.v=o.v WHERE i.y=o.id AND j.id IS NULL)"))
	})
	t.Run("NOT EXISTS over derived tables", func(t *testing.T) {
		ask("CREATE TABLE h (id INT PRIMARY KEY, v INT, w INT)")
		ask("INSERT INTO h VALUES (1,10,1),(2,10,1),(3,20,2)")
		q := "SELECT o.id FROM o WHERE NOT EXISTS (SELECT 1 FROM (SELECT *, 1 one FROM h LIMIT 100000) i JOIN (SELECT *, 1 one FROM h LIMIT 100000) j ON i.one = j.one AND j.v = i.v AND j.id <> i.id WHERE i.v = o.v)"
		require.Equal(t, "2", ask(q))
	})
	t.Run("keys of numbers that no float is", func(t *testing.T) {
		ask("CREATE TABLE bi (a BIGINT, b INT)")
		ask("CREATE TABLE du (a DOUBLE, b INT)")
		ask("INSERT INTO bi VALUES (9007199254740993, 1)")
		ask("INSERT INTO du VALUES (9007199254740992, 1)")
		one := ask("SELECT COUNT(*) FROM bi JOIN du ON bi.a = du.a")
		require.Equal(t, one, ask("SELECT COUNT(*) FROM bi JOIN du ON bi.a = du.a AND bi.b = du.b"))
	})
}
