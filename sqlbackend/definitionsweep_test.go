package sqlbackend_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDefinitionSweep puts every function and operator into a generated column. What a CREATE TABLE takes can be shown, what is shown
// makes the same table again, with the same values, and the table goes on being one: columns and indexes over expressions are added, rows are read. A
// statement may be refused, but the text of an expression that was taken must be readable. LANCESQL_SWEEP_SEED says which sample.
func TestDefinitionSweep(t *testing.T) {
	seed, rounds := uint64(1), 1
	if os.Getenv("LANCESQL_SOAK") != "" {
		seed, rounds = uint64(time.Now().UnixNano()), 20
	}
	if n, err := strconv.ParseUint(os.Getenv("LANCESQL_SWEEP_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d", seed)
	s := &sweep{w: newWorld(t), random: rand.New(rand.NewPCG(seed, 0)), heads: sweepCalls(t)}
	run := func(stmt string) (cells []string, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
				t.Errorf("%s\n%v\n%s", stmt, err, debug.Stack())
			}
		}()
		_, rows, err := s.w.conn("c1").exec(t.Context(), stmt)
		for _, r := range rows {
			for _, v := range r {
				cells = append(cells, fmt.Sprint(v))
			}
		}
		return cells, err
	}
	for _, stmt := range append(sweepTable(), "SET sql_mode = 'STRICT_TRANS_TABLES'") { // zero dates stay
		_, err := run(stmt)
		require.NoError(t, err, stmt)
	}
	taken := 0
	for range rounds {
		for _, head := range s.heads {
			expr := s.fill(head, true, 0)
			s.conns++
			name := fmt.Sprint("q", s.conns)
			if _, err := run("CREATE TABLE " + name + " LIKE u"); err != nil {
				t.Fatal(err)
			}
			if _, err := run("ALTER TABLE " + name + " ADD COLUMN x LONGTEXT AS (" + expr + ")"); err == nil {
				taken++
				if fault := definition(run, name); fault != "" {
					t.Errorf("%s\n%s", expr, fault)
				}
			}
			if _, err := run("DROP TABLE " + name); err != nil {
				t.Errorf("%s\n%v", expr, err)
			}
		}
	}
	t.Logf("%d of %d expressions can be in a table", taken, rounds*len(s.heads))
	require.Greater(t, taken, rounds*len(s.heads)/4)
}

// definition says what is wrong with a table whose column x is generated.
func definition(run func(string) ([]string, error), name string) string {
	shown, err := run("SHOW CREATE TABLE " + name)
	if err != nil {
		return "cannot be shown: " + err.Error()
	}
	text := shown[1]
	columns := strings.Join(sweepColumns(), ", ")
	fill := "INSERT INTO " + name + " (" + columns + ") SELECT " + columns + " FROM u"
	var values []string
	_, filled := run(fill)
	if filled == nil {
		if values, err = run("SELECT x FROM " + name + " ORDER BY id"); err != nil {
			return "cannot be read: " + err.Error()
		}
	}
	if _, err := run("DROP TABLE " + name); err != nil {
		return "cannot be dropped: " + err.Error()
	}
	if _, err := run(text); err != nil {
		return text + "\nis shown, and cannot be made again: " + err.Error()
	}
	if again, err := run("SHOW CREATE TABLE " + name); err != nil || again[1] != text {
		return fmt.Sprintf("%s\nbecomes\n%s %v", text, again, err)
	}
	if filled == nil {
		if _, err := run(fill); err != nil {
			return "takes no rows any more: " + err.Error()
		}
		again, err := run("SELECT x FROM " + name + " ORDER BY id")
		if err != nil || !slices.Equal(values, again) {
			return fmt.Sprintf("%s\n%q\nbecomes\n%q %v", text[strings.Index(text, "`x`"):], values, again, err)
		}
	}
	for _, stmt := range []string{"ALTER TABLE %s ADD COLUMN more INT NOT NULL DEFAULT 1", "CREATE INDEX f ON %s ((ti + 1))", "SELECT COUNT(x) FROM %s WHERE ti + 1 = 2"} {
		if _, err := run(fmt.Sprintf(stmt, name)); err != nil {
			return fmt.Sprintf(stmt, name) + ": " + err.Error()
		}
	}
	return ""
}
