package sqlbackend_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/sqlbackend"
)

var rewrite = flag.Bool("rewrite", false, "write what the SQL scripts produce as what they expect")

// TestScripts runs testdata/sql/**/*.test. A script is blocks separated by blank lines; # starts a comment line:
//
//	[c2 sort] SELECT * FROM t    connection and options are optional; the statement may have several lines
//	----
//	1 | a                        rows, "ok n" for affected rows, or "error number (state): text"
//
// Options: sort (compare rows as a set), head (print column names), & (run in the background, results come with a
// later `[c2 wait]` block). A statement \restart closes the engine and opens it again on the same store;
// for \dataset and \append see world.foreign.
func TestScripts(t *testing.T) {
	var files []string
	err := filepath.WalkDir("testdata/sql", func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".test") {
			files = append(files, p)
		}
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(f), "testdata/sql/"), ".test")
		t.Run(name, func(t *testing.T) { runScript(t, f) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	w := newWorld(t)
	var out strings.Builder
	line := 1
	for i, block := range splitBlocks(string(text)) {
		if i > 0 {
			out.WriteString("\n")
		}
		got, want := w.runBlock(t, block)
		if !*rewrite && got != want {
			t.Errorf("%s:%d\n%s\n--- want\n%s--- got\n%s", file, line, block.statement, want, got)
		}
		out.WriteString(block.comments)
		if block.statement != "" {
			out.WriteString(block.statement + "\n----\n" + got)
		}
		line += block.lines
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o644))
	}
}

type block struct {
	comments  string
	statement string // with its label
	want      string
	lines     int
}

func splitBlocks(text string) []block {
	var blocks []block
	for part := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		b := block{lines: strings.Count(part, "\n") + 2}
		part = strings.Trim(part, "\n")
		for strings.HasPrefix(part, "#") {
			comment, rest, _ := strings.Cut(part, "\n")
			b.comments += comment + "\n"
			part = rest
		}
		b.statement, b.want, _ = strings.Cut(part, "\n----")
		b.statement = strings.TrimSpace(strings.TrimSuffix(b.statement, "----"))
		b.want = strings.TrimPrefix(b.want, "\n")
		if b.want != "" {
			b.want += "\n"
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// world is an in-process server: an engine over a memory store and any number of sessions.
type world struct {
	store    objstore.Store
	journal  *logfile.Dir
	engine   *engine.Engine
	provider *sqlbackend.Provider
	front    *sqle.Engine
	conns    map[string]*client
	nextID   uint32
}

type client struct {
	w       *world
	session *sqlbackend.Conn
	pending chan string
}

func newWorld(t testing.TB) *world {
	w := &world{store: objstore.NewMem(), journal: logfile.Memory(), conns: make(map[string]*client)}
	w.open(t)
	t.Cleanup(func() { w.close(t) })
	c := w.conn("c1")
	_, _, err := c.exec(t.Context(), "CREATE DATABASE test")
	require.NoError(t, err)
	c.session.SetCurrentDatabase("test")
	return w
}

func (w *world) open(t testing.TB) {
	var err error
	w.engine, err = engine.Open(context.Background(), engine.Config{}, engine.Components{Store: w.store, Journal: w.journal})
	require.NoError(t, err)
	w.provider = sqlbackend.NewProvider(w.engine)
	w.front = sqlbackend.NewSQLEngine(w.engine, w.provider)
	verifyIndexes(t)
}

// verifyIndexes has every scan of sessions made from now on compare what indexes and zone maps say with the rows.
func verifyIndexes(t testing.TB) {
	require.NoError(t, sql.SystemVariables.AssignValues(map[string]any{"lancesql_verify_indexes": int8(1)}))
}

func (w *world) close(t testing.TB) {
	for _, c := range w.conns {
		c.session.SessionEnd()
	}
	clear(w.conns)
	require.NoError(t, w.front.Close())
	require.NoError(t, w.engine.Close(context.Background()))
}

func (w *world) conn(name string) *client {
	c := w.conns[name]
	if c == nil {
		w.nextID++
		base := sql.NewBaseSessionWithClientServer("server", sql.Client{User: "root", Address: "localhost"}, w.nextID)
		c = &client{w: w, session: sqlbackend.NewSession(base, w.provider)}
		c.session.SetCurrentDatabase("test")
		w.conns[name] = c
	}
	return c
}

func (w *world) runBlock(t *testing.T, b block) (got, want string) {
	label, stmt := "", b.statement
	if strings.HasPrefix(stmt, "[") {
		label, stmt, _ = strings.Cut(stmt[1:], "]")
		stmt = strings.TrimSpace(stmt)
	}
	name := "c1"
	var options []string
	for _, f := range strings.Fields(label) {
		if strings.HasPrefix(f, "c") {
			name = f
		} else {
			options = append(options, f)
		}
	}
	if stmt == `\restart` {
		w.close(t)
		w.open(t)
		return "", b.want
	}
	if strings.HasPrefix(stmt, `\`) {
		w.foreign(t, stmt)
		return "", b.want
	}
	if stmt == "" && !slices.Contains(options, "wait") {
		return "", b.want
	}
	c := w.conn(name)
	show := func() string {
		sch, rows, err := c.exec(context.Background(), stmt)
		return format(sch, rows, err, options)
	}
	switch {
	case slices.Contains(options, "&"):
		c.pending = make(chan string, 1)
		go func() { c.pending <- show() }()
		return "", b.want
	case slices.Contains(options, "wait"):
		return <-c.pending, b.want
	}
	return show(), b.want
}

// exec runs one statement as the wire handler does: bracketed, drained, closed.
func (c *client) exec(ctx context.Context, stmt string) (sch sql.Schema, rows []sql.Row, err error) {
	sctx := sql.NewContext(ctx, sql.WithSession(c.session), sql.WithQuery(stmt))
	if err := c.session.CommandBegin(); err != nil {
		return nil, nil, err
	}
	defer c.session.CommandEnd()
	c.session.ClearWarnings()
	parsed, text, _, err := c.w.front.Parser.ParseWithOptions(sctx, stmt, ';', false, sql.LoadSqlMode(sctx).ParserOptions())
	if err != nil {
		return nil, nil, sql.ErrSyntaxError.New(err.Error())
	}
	sch, it, _, err := c.w.front.QueryWithBindings(sctx, text, parsed, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	sch = c.session.Retype(sch) // as the handler does
	for {
		row, err := it.Next(sctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			closeWithoutCommit(sctx, it)
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	return sch, rows, it.Close(sctx)
}

// closeWithoutCommit closes below the iterator that commits, as the handler does after an error.
func closeWithoutCommit(ctx *sql.Context, it sql.RowIter) {
	type inner interface{ GetIter() sql.RowIter }
	if i, ok := it.(inner); ok {
		it = i.GetIter()
	}
	_ = it.Close(ctx)
}

func format(sch sql.Schema, rows []sql.Row, err error, options []string) string {
	if err != nil {
		e := sql.CastSQLError(sqlbackend.MapError(err))
		return fmt.Sprintf("error %d (%s): %s\n", e.Num, e.State, e.Message)
	}
	var lines []string
	ctx := sql.NewEmptyContext()
	for _, r := range rows {
		if len(r) == 1 {
			if ok, is := r[0].(types.OkResult); is {
				lines = append(lines, fmt.Sprintf("ok %d", ok.RowsAffected))
				continue
			}
		}
		cells := make([]string, len(r))
		for i, v := range r {
			cells[i] = cell(ctx, sch[i].Type, v)
		}
		lines = append(lines, strings.Join(cells, " | "))
	}
	if slices.Contains(options, "sort") {
		slices.Sort(lines)
	}
	if slices.Contains(options, "head") {
		names := make([]string, len(sch))
		for i, c := range sch {
			names[i] = c.Name
		}
		lines = append([]string{strings.Join(names, " | ")}, lines...)
	}
	if len(lines) == 0 {
		return "none\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

func cell(ctx *sql.Context, t sql.Type, v any) string {
	if v == nil {
		return "NULL"
	}
	s, err := t.SQL(ctx, nil, v)
	if err != nil {
		return "!" + err.Error()
	}
	text := s.ToString()
	if types.IsJSON(t) {
		return text
	}
	if types.IsBit(t) || types.IsBinaryType(t) || !utf8.ValidString(text) {
		return fmt.Sprintf("0x%X", text)
	}
	// A blank line would end the block.
	return strings.ReplaceAll(text, "\n\n", "\n.\n")
}
