package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
)

// column is one column of a table under test.
type column struct {
	name     string
	kind     kind
	nullable bool
}

// tableModel is a table under test with the contents it must have.
type tableModel struct {
	name    string
	columns []column
	key     []int                   // columns of the primary key; none = rows are a multiset
	fold    func(key string) string // what the key's collation takes for equal; nil = identity
	rows    map[string][]any        // key text -> row of driver arguments
	keys    []string                // what rows had since, for drawing one; may name keys that are gone
	serial  int                     // key of the next row where there is no primary key
}

func newTable(name string, columns []column, key ...int) *tableModel {
	return &tableModel{name: name, columns: columns, key: key, rows: map[string][]any{}}
}

func (m *tableModel) create(t *testing.T, db execer) {
	t.Helper()
	var parts []string
	for _, c := range m.columns {
		null := " NOT NULL"
		if c.nullable {
			null = " NULL"
		}
		parts = append(parts, fmt.Sprintf("`%s` %s%s", c.name, c.kind.sql, null))
	}
	if len(m.key) > 0 {
		var names []string
		for _, c := range m.key {
			names = append(names, "`"+m.columns[c].name+"`")
		}
		parts = append(parts, "PRIMARY KEY ("+strings.Join(names, ", ")+")")
	}
	do(t, db, fmt.Sprintf("CREATE TABLE `%s` (%s)", m.name, strings.Join(parts, ", ")))
}

// keyOf is the model's key of a row.
func (m *tableModel) keyOf(row []any) string {
	if len(m.key) == 0 {
		m.serial++
		return fmt.Sprintf("#%d", m.serial)
	}
	var parts []string
	for _, c := range m.key {
		parts = append(parts, m.columns[c].kind.argText(row[c]))
	}
	key := strings.Join(parts, "\x00")
	if m.fold != nil {
		key = m.fold(key)
	}
	return key
}

func (m *tableModel) randomRow(r *rand.Rand) []any {
	row := make([]any, len(m.columns))
	for i, c := range m.columns {
		if c.nullable && r.IntN(6) == 0 {
			continue
		}
		row[i] = c.kind.value(r)
	}
	return row
}

// freshRow is a random row whose key is not in the table.
func (m *tableModel) freshRow(r *rand.Rand) []any {
	for {
		row := m.randomRow(r)
		if len(m.key) == 0 {
			return row
		}
		if _, ok := m.rows[m.keyOf(row)]; !ok {
			return row
		}
	}
}

// anyRow draws a row of the table; nil if it is empty. The choice depends on the seed alone.
func (m *tableModel) anyRow(r *rand.Rand) (string, []any) {
	for len(m.keys) > 0 {
		i := r.IntN(len(m.keys))
		key := m.keys[i]
		if row, ok := m.rows[key]; ok {
			return key, row
		}
		last := len(m.keys) - 1
		m.keys[i] = m.keys[last]
		m.keys = m.keys[:last]
	}
	return "", nil
}

// put notes a row that the table has now.
func (m *tableModel) put(key string, row []any) {
	if _, ok := m.rows[key]; !ok {
		m.keys = append(m.keys, key)
	}
	m.rows[key] = row
}

// where is a condition that finds exactly the row, with its arguments.
func (m *tableModel) where(row []any) (string, []any) {
	var parts []string
	var args []any
	for _, c := range m.key {
		parts = append(parts, "`"+m.columns[c].name+"` = ?")
		args = append(args, row[c])
	}
	return strings.Join(parts, " AND "), args
}

func (m *tableModel) marks(rows int) string {
	one := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(m.columns)), ", ") + ")"
	return strings.TrimSuffix(strings.Repeat(one+", ", rows), ", ")
}

// fill inserts n new rows, so many a statement.
func (m *tableModel) fill(t *testing.T, db execer, r *rand.Rand, n, perStatement int) {
	t.Helper()
	for n > 0 {
		count := min(n, perStatement)
		var args []any
		for range count {
			row := m.freshRow(r)
			m.put(m.keyOf(row), row)
			args = append(args, row...)
		}
		do(t, db, fmt.Sprintf("INSERT INTO `%s` VALUES %s", m.name, m.marks(count)), args...)
		n -= count
	}
}

// change makes one random change to a keyed table and to the model.
func (m *tableModel) change(t *testing.T, db execer, r *rand.Rand) {
	t.Helper()
	key, row := m.anyRow(r)
	if row == nil {
		m.fill(t, db, r, 10, 5)
		return
	}
	where, whereArgs := m.where(row)
	switch r.IntN(6) {
	case 0, 1: // update two columns
		next := append([]any(nil), row...)
		var sets []string
		var args []any
		for _, c := range r.Perm(len(m.columns)) {
			if len(sets) == 2 {
				break
			}
			if m.isKey(c) {
				continue
			}
			next[c] = m.randomRow(r)[c]
			sets = append(sets, "`"+m.columns[c].name+"` = ?")
			args = append(args, next[c])
		}
		do(t, db, fmt.Sprintf("UPDATE `%s` SET %s WHERE %s", m.name, strings.Join(sets, ", "), where), append(args, whereArgs...)...)
		m.rows[key] = next
	case 2: // delete
		res := do(t, db, fmt.Sprintf("DELETE FROM `%s` WHERE %s", m.name, where), whereArgs...)
		n, err := res.RowsAffected()
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
		delete(m.rows, key)
	case 3: // replace, an existing row or a new one
		next := m.randomRow(r)
		if r.IntN(2) == 0 {
			for _, c := range m.key {
				next[c] = row[c]
			}
		}
		do(t, db, fmt.Sprintf("REPLACE INTO `%s` VALUES %s", m.name, m.marks(1)), next...)
		m.put(m.keyOf(next), next)
	case 4: // insert or update one column
		next := m.randomRow(r)
		for _, c := range m.key {
			next[c] = row[c]
		}
		c := len(m.columns) - 1
		do(t, db, fmt.Sprintf("INSERT INTO `%s` VALUES %s ON DUPLICATE KEY UPDATE `%s` = VALUES(`%s`)", m.name, m.marks(1), m.columns[c].name, m.columns[c].name), next...)
		changed := append([]any(nil), row...)
		changed[c] = next[c]
		m.rows[key] = changed
	case 5: // move to another key
		next := append([]any(nil), row...)
		fresh := m.freshRow(r)
		var sets []string
		var args []any
		for _, c := range m.key {
			next[c] = fresh[c]
			sets = append(sets, "`"+m.columns[c].name+"` = ?")
			args = append(args, fresh[c])
		}
		do(t, db, fmt.Sprintf("UPDATE `%s` SET %s WHERE %s", m.name, strings.Join(sets, ", "), where), append(args, whereArgs...)...)
		delete(m.rows, key)
		m.put(m.keyOf(next), next)
	}
}

func (m *tableModel) isKey(c int) bool {
	for _, k := range m.key {
		if k == c {
			return true
		}
	}
	return false
}

// expected is the contents in canonical text, sorted.
func (m *tableModel) expected() []string {
	var out []string
	for _, row := range m.rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = "NULL"
			if v != nil {
				cells[i] = "=" + m.columns[i].kind.argText(v)
			}
		}
		out = append(out, strings.Join(cells, "\x01"))
	}
	sort.Strings(out)
	return out
}

// verify compares what SQL shows, over both protocols, with the model.
func (m *tableModel) verify(t *testing.T, db *sql.DB, when string) {
	t.Helper()
	want := m.expected()
	require.Equal(t, fmt.Sprint(len(want)), one(t, db, fmt.Sprintf("SELECT COUNT(*) FROM `%s`", m.name)), "%s: count of %s", when, m.name)
	m.compare(t, want, m.canonical(query(t, db, fmt.Sprintf("SELECT * FROM `%s`", m.name))), when+", text protocol")
	stmt, err := db.PrepareContext(context.Background(), fmt.Sprintf("SELECT * FROM `%s` WHERE ? = 1", m.name))
	require.NoError(t, err)
	defer stmt.Close()
	m.compare(t, want, m.canonical(query(t, prepared{stmt}, "", 1)), when+", binary protocol")
}

// prepared makes a prepared statement a queryer.
type prepared struct{ stmt *sql.Stmt }

func (p prepared) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return p.stmt.QueryContext(ctx, args...)
}

func (m *tableModel) canonical(rows [][]*string) []string {
	var out []string
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = "NULL"
			if v != nil {
				cells[i] = "=" + m.columns[i].kind.sqlText(*v)
			}
		}
		out = append(out, strings.Join(cells, "\x01"))
	}
	sort.Strings(out)
	return out
}

// verifyDump compares what a Lance reader saw with the model: names, nullability, count and every value.
func (m *tableModel) verifyDump(t *testing.T, d oracle.Dump, who string) {
	t.Helper()
	d = d.Visible()
	require.Len(t, d.Schema, len(m.columns), "%s of %s", who, m.name)
	for i, c := range m.columns {
		require.Equal(t, c.name, d.Schema[i].Name, "%s of %s", who, m.name)
		require.Equal(t, c.nullable, d.Schema[i].Nullable, "%s of %s: nullability of %s", who, m.name, c.name)
	}
	require.Equal(t, len(m.rows), d.Count, "%s of %s: count", who, m.name)
	var got []string
	for _, row := range d.Rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = "NULL"
			if v != nil {
				cells[i] = "=" + m.columns[i].kind.lanceText(d.Schema[i].Type, *v)
			}
		}
		got = append(got, strings.Join(cells, "\x01"))
	}
	sort.Strings(got)
	m.compare(t, m.expected(), got, who)
}

// compare reports the first differences only: a diff of ten thousand rows helps nobody.
func (m *tableModel) compare(t *testing.T, want, got []string, when string) {
	t.Helper()
	missing, extra := difference(want, got), difference(got, want)
	if len(missing)+len(extra) == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: table %s: %d rows missing, %d extra", when, m.name, len(missing), len(extra))
	for i := 0; i < min(3, max(len(missing), len(extra))); i++ {
		switch {
		case i >= len(extra):
			fmt.Fprintf(&b, "\nmissing %.300q", missing[i])
		case i >= len(missing):
			fmt.Fprintf(&b, "\nextra   %.300q", extra[i])
		default: // sorted by the first columns, hence most often two faces of one row
			want, got := strings.Split(missing[i], "\x01"), strings.Split(extra[i], "\x01")
			fmt.Fprintf(&b, "\nrow %q:", want[0])
			for c := range m.columns {
				if c < len(want) && c < len(got) && want[c] != got[c] {
					fmt.Fprintf(&b, "\n  %s %s: want %.200q, got %.200q", m.columns[c].name, m.columns[c].kind.sql, want[c], got[c])
				}
			}
		}
	}
	t.Fatal(b.String())
}

// difference is what the sorted multiset a has and the sorted multiset b has not.
func difference(a, b []string) []string {
	var out []string
	j := 0
	for _, s := range a {
		for j < len(b) && b[j] < s {
			j++
		}
		if j < len(b) && b[j] == s {
			j++
			continue
		}
		out = append(out, s)
	}
	return out
}
