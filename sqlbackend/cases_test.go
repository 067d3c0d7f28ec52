package sqlbackend_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestCases runs testdata/cases over the wire. A folder holds input.sql, the statements of one connection, or input.steps,
// those of several (see caseSteps), and expected.txt: rows as the mysql client writes them in batch mode, and errors as number
// and SQLSTATE. Without expected.txt each statement may answer what it likes, but the server must live on.
func TestCases(t *testing.T) {
	folders, err := filepath.Glob("testdata/cases/*")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			if why := knownCases[filepath.Base(folder)]; why != "" {
				t.Skip(why)
			}
			r := start(t, "", sqlbackend.ServerConfig{})
			got := ""
			if b, err := os.ReadFile(filepath.Join(folder, "input.sql")); err == nil {
				got = caseScript(t, r, string(b))
			} else {
				got = caseSteps(t, r, filepath.Join(folder, "input.steps"))
			}
			want, err := os.ReadFile(filepath.Join(folder, "expected.txt"))
			if errors.Is(err, os.ErrNotExist) {
				run(t, r.open(""), "DO 1")
				return
			}
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// knownCases are those that may fail, with what is listed in docs/sql_compatibility.md.
var knownCases = map[string]string{}

func caseConn(t *testing.T, r *running) *sql.Conn {
	c, err := r.open("").Conn(context.Background())
	require.NoError(t, err)
	return c
}

func caseScript(t *testing.T, r *running, script string) string {
	c := caseConn(t, r)
	var out strings.Builder
	var unread strings.Builder
	to := &out
	for _, statement := range splitScript(script) {
		switch statement {
		case "-- @nocompare":
			to = &unread
		case "-- @compare":
			to = &out
		default:
			batch(to, c, statement)
		}
	}
	return out.String()
}

// caseSteps runs lines "A: statement"; "B&: statement", which must wait for a lock; and "B?", which waits for its end.
func caseSteps(t *testing.T, r *running, file string) string {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	conns, pending := map[string]*sql.Conn{}, map[string]chan string{}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := line[:1], line[1:]
		if rest == "?" {
			select {
			case got := <-pending[name]:
				fmt.Fprintf(&out, "[%s] ...\n%s", name, got)
			case <-time.After(time.Minute):
				require.Fail(t, line+" still waits")
			}
			continue
		}
		statement, waits := strings.CutPrefix(rest, "&")
		statement = strings.TrimSpace(strings.TrimPrefix(statement, ":"))
		if conns[name] == nil {
			conns[name] = caseConn(t, r)
		}
		if !waits {
			fmt.Fprintf(&out, "[%s]\n", name)
			batch(&out, conns[name], statement)
			continue
		}
		fmt.Fprintf(&out, "[%s] sent\n", name)
		done := make(chan string, 1)
		pending[name] = done
		id := connectionID(t, conns[name])
		go func(c *sql.Conn) {
			var answer strings.Builder
			batch(&answer, c, statement)
			done <- answer.String()
		}(conns[name])
		until(t, line, func() bool { return r.waits(id) })
	}
	return out.String()
}

// batch runs a statement and writes its answer as the mysql client does in batch mode.
func batch(out *strings.Builder, c *sql.Conn, statement string) {
	err := func() error {
		rows, err := c.QueryContext(context.Background(), statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		first := true
		for rows.Next() {
			cells, targets := make([]sql.RawBytes, len(names)), make([]any, len(names))
			for i := range cells {
				targets[i] = &cells[i]
			}
			if err := rows.Scan(targets...); err != nil {
				return err
			}
			if first {
				writeLine(out, names)
				first = false
			}
			texts := make([]string, len(cells))
			for i, cell := range cells {
				texts[i] = "NULL"
				if cell != nil {
					texts[i] = escapeBatch.Replace(string(cell))
				}
			}
			writeLine(out, texts)
		}
		return rows.Err()
	}()
	var me *mysql.MySQLError
	switch {
	case errors.As(err, &me):
		fmt.Fprintf(out, "ERROR %d (%s)\n", me.Number, me.SQLState[:])
	case err != nil:
		fmt.Fprintf(out, "%v\n", err)
	}
}

var escapeBatch = strings.NewReplacer("\t", `\t`, "\n", `\n`, `\`, `\\`, "\x00", `\0`)

func writeLine(out *strings.Builder, cells []string) {
	out.WriteString(strings.TrimRight(strings.Join(cells, "\t"), " \t") + "\n")
}

// splitScript splits a script into statements as the mysql client does: quotes, comments and DELIMITER count. Lines
// -- @nocompare and -- @compare are statements of their own.
func splitScript(script string) []string {
	var statements []string
	delimiter := ";"
	begin := 0
	take := func(end int) {
		if s := strings.TrimSpace(script[begin:end]); s != "" {
			statements = append(statements, s)
		}
	}
	for i := 0; i < len(script); {
		rest := script[i:]
		switch {
		case strings.TrimSpace(script[begin:i]) == "" && strings.HasPrefix(rest, "DELIMITER "):
			line, _, _ := strings.Cut(rest, "\n")
			delimiter = strings.TrimSpace(strings.TrimPrefix(line, "DELIMITER "))
			i += len(line)
			begin = i
		case strings.HasPrefix(rest, "-- "):
			line, _, _ := strings.Cut(rest, "\n")
			if strings.TrimSpace(script[begin:i]) == "" {
				if line = strings.TrimSpace(line); line == "-- @nocompare" || line == "-- @compare" {
					statements = append(statements, line)
				}
				begin = i + len(line)
			}
			i += len(line)
		case strings.HasPrefix(rest, delimiter):
			take(i)
			i += len(delimiter)
			begin = i
		case rest[0] == '\'' || rest[0] == '"' || rest[0] == '`':
			i += quoted(rest)
		default:
			i++
		}
	}
	take(len(script))
	return statements
}

// quoted is the length of the quoted text s begins with.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] != '`':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return len(s)
}
