package enginetest

import (
	"context"
	gosql "database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	driver "github.com/go-sql-driver/mysql"

	"lancesql/sqlbackend"
)

// wireEngine sends statements through the server that cmd/lancesql runs, one connection a session of the suites. Statements
// with bindings are prepared there (binary protocol), others are sent as text. A suite's context carries the server's own
// session, so that warnings, variables and the current database are those of the connection. Plans are made beside it.
type wireEngine struct {
	*queryEngine
	server  *sqlbackend.Server
	ended   chan error // of the server's loop
	dir     string     // of its socket
	db      *gosql.DB
	clients map[*sqlbackend.Conn]*gosql.Conn

	adopted  map[sql.Session]*sqlbackend.Conn // the server's sessions for those that suites made themselves
	prepared string                           // the last statement that a suite prepared
	bound    bool                             // the last statement had bindings: its columns may be named by question marks
}

// serve starts a server over the engine of h. The frontend's engine is the server's.
func serve(h *harness) (*wireEngine, error) {
	dir, err := os.MkdirTemp("", "wire") // a test's own would be too long for a socket
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	srv, err := sqlbackend.NewServer(sqlbackend.ServerConfig{Socket: socket, MaxConnections: 10000}, h.engine, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	front, _ := srv.Frontend()
	h.provider = front.Analyzer.Catalog.DbProvider.(*sqlbackend.Provider)
	w := &wireEngine{
		queryEngine: &queryEngine{Engine: front, harness: h}, server: srv, ended: make(chan error, 1), dir: dir,
		clients: make(map[*sqlbackend.Conn]*gosql.Conn), adopted: make(map[sql.Session]*sqlbackend.Conn),
	}
	go func() { w.ended <- srv.Start() }()
	w.db, err = gosql.Open("mysql", "root@unix("+socket+")/?allowAllFiles=true")
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close implements gms.QueryEngine.
func (w *wireEngine) Close() error {
	if w.db == nil {
		return nil // a second time
	}
	for _, c := range w.clients {
		_ = c.Close()
	}
	err := w.db.Close()
	w.db = nil
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = errors.Join(err, w.server.Close(ctx), w.harness.engine.Close(context.Background()), os.RemoveAll(w.dir))
	<-w.ended
	return err
}

// IsServerBacked implements gms.ServerBackedEngine: nodes about what no client sees are left out.
func (w *wireEngine) IsServerBacked() bool { return true }

// connect opens a connection and returns its session, which acts for client: the suites give accounts no passwords.
func (w *wireEngine) connect(client sql.Client) (*sqlbackend.Conn, error) {
	ctx := context.Background()
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var id uint32
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return nil, err
	}
	_, sessions := w.server.Frontend()
	var c *sqlbackend.Conn
	err = sessions.Iter(func(s sql.Session) (bool, error) {
		own, ok := s.(*sqlbackend.Conn)
		if ok && own.ID() == id {
			c = own
		}
		return c != nil, nil
	})
	if err != nil || c == nil {
		return nil, errors.Join(err, fmt.Errorf("connection %d has no session", id))
	}
	client.Capabilities = c.Client().Capabilities
	c.SetClient(client)
	c.SetPrivilegeSet(nil, 0) // that of root
	w.clients[c] = conn
	// The driver names a collation when it connects; the suites know the server's default.
	return c, c.SetSessionVariable(sql.NewContext(ctx, sql.WithSession(c)), "collation_connection", "utf8mb4_0900_bin")
}

// of returns the connection of a context's session and makes one if the session is from before the server.
func (w *wireEngine) of(ctx *sql.Context) (*gosql.Conn, error) {
	own, ok := ctx.Session.(*sqlbackend.Conn)
	if ok && w.clients[own] != nil {
		return w.clients[own], nil
	}
	c := w.adopted[ctx.Session]
	if c == nil {
		var err error
		if c, err = w.connect(ctx.Session.Client()); err != nil {
			return nil, err
		}
		c.SetCurrentDatabase(ctx.GetCurrentDatabase())
		w.adopted[ctx.Session] = c
	}
	ctx.Session = c
	return w.clients[c], nil
}

// Query implements gms.QueryEngine.
func (w *wireEngine) Query(ctx *sql.Context, text string) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	return w.QueryWithBindings(ctx, text, nil, nil, nil)
}

// QueryWithBindings implements gms.QueryEngine.
func (w *wireEngine) QueryWithBindings(ctx *sql.Context, text string, parsed sqlparser.Statement, bindings map[string]sqlparser.Expr, _ *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	conn, err := w.of(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if parsed == nil {
		parsed, _ = sqlparser.ParseWithOptions(ctx, text, sql.LoadSqlMode(ctx).ParserOptions()) // the server will say what is wrong
	}
	w.bound = len(bindings) > 0
	if w.bound && parsed == nil {
		text, bindings = w.prepared, nil // the frontend writes some statements so that it cannot read them
	}
	text, args, err := arguments(ctx, text, bindings)
	if err != nil {
		return nil, nil, nil, err
	}
	if _, load := parsed.(*sqlparser.Load); load {
		text = serverFile.ReplaceAllString(text, "${1}LOCAL ${2}") // files of the server are not read over the wire
	}
	var s sql.Schema
	var rows []sql.Row
	if answersRows(parsed) {
		s, rows, err = clientQuery(ctx, conn, text, args)
	} else {
		s, rows, err = clientExec(ctx, conn, text, args)
	}
	if err != nil {
		err = clientError(err)
		tellError(err)
		return nil, nil, nil, err
	}
	tellRows(rows[:min(len(rows), 100)], ctx.Warnings())
	return s, sql.RowsToRowIter(rows...), nil, nil
}

// PrepareQuery implements gms.QueryEngine: the plan of a statement. The server prepares it when it runs.
func (w *wireEngine) PrepareQuery(ctx *sql.Context, text string) (sql.Node, error) {
	if _, err := w.of(ctx); err != nil {
		return nil, err
	}
	w.prepared = text
	return w.queryEngine.PrepareQuery(ctx, text)
}

// executes matches EXECUTE, whose OK may be one of an INSERT.
var executes = regexp.MustCompile(`(?i)^\s*execute\b`)

// serverFile matches LOAD DATA of a file that the server reads.
var serverFile = regexp.MustCompile(`(?i)^(\s*load\s+data\s+)(infile\b)`)

// answersRows reports whether a statement may answer with rows.
func answersRows(stmt sqlparser.Statement) bool {
	switch s := stmt.(type) {
	case *sqlparser.Insert:
		return s.Returning != nil
	case sqlparser.SelectStatement:
		return s.GetInto() == nil
	case *sqlparser.Update, *sqlparser.Delete, *sqlparser.DDL, *sqlparser.AlterTable, *sqlparser.Set, *sqlparser.Load, *sqlparser.DBDDL:
		return false
	}
	return true
}

// clientQuery runs a statement and fetches all rows. What an OK packet says is in the session.
func clientQuery(ctx *sql.Context, conn *gosql.Conn, text string, args []any) (sql.Schema, []sql.Row, error) {
	res, err := conn.QueryContext(context.Background(), text, args...)
	if err != nil {
		return nil, nil, err
	}
	defer res.Close()
	columns, err := res.ColumnTypes()
	if err != nil {
		return nil, nil, err
	}
	if len(columns) == 0 {
		last := ctx.GetLastQueryInfo()
		ok := types.OkResult{RowsAffected: uint64(max(last.RowCount.Load(), 0))}
		if executes.MatchString(text) {
			ok.InsertID = uint64(last.LastInsertId.Load())
		}
		return types.OkResultSchema, []sql.Row{{ok}}, errors.Join(drain(res), res.Err())
	}
	s := make(sql.Schema, len(columns))
	for i, c := range columns {
		s[i] = &sql.Column{Name: c.Name(), Type: types.LongText, Extra: c.DatabaseTypeName()}
	}
	var rows []sql.Row
	for res.Next() {
		row := make(sql.Row, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := res.Scan(into...); err != nil {
			return nil, nil, err
		}
		for i, c := range s {
			if raw, ok := row[i].([]byte); ok && (strings.HasSuffix(c.Extra, "CHAR") || strings.HasSuffix(c.Extra, "TEXT")) {
				row[i] = string(raw)
			}
		}
		rows = append(rows, row)
	}
	return s, rows, res.Err()
}

func drain(res *gosql.Rows) error {
	for res.Next() {
		return errors.New("rows without columns")
	}
	return nil
}

func clientExec(_ *sql.Context, conn *gosql.Conn, text string, args []any) (sql.Schema, []sql.Row, error) {
	res, err := conn.ExecContext(context.Background(), text, args...)
	if err != nil {
		return nil, nil, err
	}
	affected, err := res.RowsAffected()
	if err != nil {
		return nil, nil, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return nil, nil, err
	}
	return types.OkResultSchema, []sql.Row{{types.OkResult{RowsAffected: uint64(affected), InsertID: uint64(id)}}}, nil
}

// serverError is what a client is told.
type serverError struct{ *driver.MySQLError }

// Error returns the text without number and state.
func (e *serverError) Error() string { return e.Message }

// clientError gives an error of the driver the shape of the frontend's where suites look at it.
func clientError(err error) error {
	var e *driver.MySQLError
	if !errors.As(err, &e) {
		return err
	}
	told := &serverError{e}
	switch e.Number {
	case 1055:
		return analyzererrors.ErrValidationGroupBy.Wrap(told, "")
	case 1044:
		return sql.ErrDatabaseAccessDeniedForUser.Wrap(told, "")
	case 1142:
		return sql.ErrTableAccessDeniedForUser.Wrap(told, "", "")
	case 1227, 1370, 1143:
		return sql.ErrPrivilegeCheckFailed.Wrap(told, "")
	}
	return told
}

// arguments turns names of bindings in text into question marks and their values into arguments in that order. What the
// driver cannot send, exact decimals above all, is written into the text.
func arguments(ctx *sql.Context, text string, bindings map[string]sqlparser.Expr) (string, []any, error) {
	if len(bindings) == 0 {
		return text, nil, nil
	}
	binder := planbuilder.New(ctx, nil, nil)
	value := func(name string) (arg any, inline string, err error) {
		e, ok := bindings[name]
		if !ok {
			return nil, "", fmt.Errorf("no value for :%s", name)
		}
		v, ok := e.(*sqlparser.SQLVal)
		if !ok {
			return nil, sqlparser.String(e), nil
		}
		lit, ok := binder.ConvertVal(v).(*expression.Literal)
		if !ok {
			return nil, sqlparser.String(e), nil
		}
		if _, exact := lit.Value().(*apd.Decimal); exact {
			return nil, sqlparser.String(e), nil
		}
		return lit.Value(), "", nil
	}
	var out strings.Builder
	var args []any
	marks, used := 0, make(map[string]bool)
	for _, part := range placeholder.FindAllString(text, -1) {
		name := ""
		switch {
		case part == "?":
			marks++
			name = fmt.Sprintf("v%d", marks)
		case part[0] == ':' && len(part) > 1:
			name = part[1:]
		}
		if name == "" || bindings[name] == nil {
			out.WriteString(part)
			continue
		}
		arg, inline, err := value(name)
		if err != nil {
			return "", nil, err
		}
		used[name] = true
		if inline == "" && ordinal.MatchString(out.String()) || introducer.MatchString(out.String()) {
			inline = sqlparser.String(bindings[name]) // a parameter would be a constant there, or is not allowed
		}
		if inline != "" {
			out.WriteString(inline)
			continue
		}
		out.WriteByte('?')
		args = append(args, arg)
	}
	for range len(bindings) - len(used) { // more than the statement takes
		args = append(args, nil)
	}
	return out.String(), args, nil
}

// placeholder cuts SQL into quoted text, comments, names of bindings, question marks and the rest.
var placeholder = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.|'')*'|\"(?:[^\"\\\\]|\\\\.|\"\")*\"|`[^`]*`|/\\*.*?\\*/|:[A-Za-z_][A-Za-z0-9_]*|\\?|[^'\"`/:?]+|.")

// ordinal matches text after which a number is the position of a column.
var ordinal = regexp.MustCompile("(?i)\\b(order|group)\\s+by\\s+(([\\w.`]+)(\\s+(asc|desc))?\\s*,\\s*)*$")

// introducer matches text that ends with the character set of the literal that follows.
var introducer = regexp.MustCompile(`\b_[a-z0-9]+\s*$`)

// TestArguments is the reading of bindings.
func TestArguments(t *testing.T) {
	ctx := sql.NewEmptyContext()
	one, exact := sqlparser.NewIntVal([]byte("7")), sqlparser.NewFloatVal([]byte("1.50"))
	text, args, err := arguments(ctx, "select ':v1', :v2, /* :v1 */ :v1, @a := 3 from `:v1` where b = :v1", map[string]sqlparser.Expr{"v1": one, "v2": exact})
	if want := "select ':v1', 1.50, /* :v1 */ ?, @a := 3 from `:v1` where b = ?"; err != nil || text != want || len(args) != 2 || fmt.Sprint(args[0]) != "7" {
		t.Fatal(text, args, err)
	}
}
