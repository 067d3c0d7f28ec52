package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// command is one protocol command that executes a statement.
type command struct {
	query    string
	parsed   sqlparser.Statement // nil: parse query
	multi    bool                // query may hold several statements; run the first
	several  bool                // several results may be sent
	text     bool                // text protocol: rows are copied before the callback returns
	bindings map[string]*querypb.BindVariable
}

// againMax is how often a statement runs again.
const againMax = 5

// errClientGone is the cause of a context cancelled because the client closed its end of the connection.
var errClientGone = errors.New("client closed the connection")

// run executes a command and sends its result; it returns the text after the first statement of a multi command.
func (h *Handler) run(ctx context.Context, c *mysql.Conn, cmd command, send mysql.ResultSpoolFn) (rest string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sqlCtx, err := h.sessions.NewContextWithQuery(ctx, c, cmd.query)
	if err != nil {
		return "", h.explain(cmd.query, cmd.parsed, err)
	}
	sqlCtx, err = sqlCtx.ProcessList.BeginQuery(sqlCtx, cmd.query)
	if err != nil {
		return "", h.explain(cmd.query, cmd.parsed, err)
	}
	defer sqlCtx.ProcessList.EndQuery(sqlCtx)
	if err := sql.SessionCommandBegin(sqlCtx.Session); err != nil {
		return "", h.explain(cmd.query, cmd.parsed, err)
	}
	defer sql.SessionCommandEnd(sqlCtx.Session)
	begun, gone := false, false
	defer func() { // runs after isolate
		if begun && err != nil && !gone && failResult(c, err) {
			err = nil
		}
	}()
	defer h.isolate(sqlCtx, cmd.query, &err)
	defer watchClient(c.Conn, func() { cancel(errClientGone) })()

	parsed := cmd.parsed
	note := func(res *sqltypes.Result, more bool) error {
		begun = true
		err := send(res, more)
		gone = err != nil
		return err
	}
	rest, err = h.execute(sqlCtx, c, &cmd, note)
	for n := 0; err != nil && !begun && n < againMax && h.again(sqlCtx, err); n++ {
		cmd.parsed = parsed
		rest, err = h.execute(sqlCtx, c, &cmd, note)
	}
	if f := framesOf(c); f != nil {
		h.limit(sqlCtx, f)
	}
	if gone {
		h.log.Debug("client left before its result ended", "connection", c.ConnectionID, "error", err)
		return "", mysql.NewSQLError(mysql.CRServerLost, "", "the client has left")
	}
	if err != nil { // it ends a text of several statements
		err = h.explain(cmd.query, cmd.parsed, err)
		var se *mysql.SQLError
		if n, ok := sqlCtx.Session.(errorNoter); ok && errors.As(err, &se) {
			n.NoteError(se)
		}
		if !begun {
			sent, serr := h.sendBefore(sqlCtx, c, &cmd, err, note)
			switch {
			case serr != nil:
				return "", h.explain(cmd.query, cmd.parsed, serr)
			case sent && cmd.several:
				return nextResult, nil
			case sent:
				return "", nil
			}
		}
		return "", err
	}
	if l, ok := sqlCtx.Session.(leaver); ok && l.WantsClose() {
		defer func() { _ = h.sessions.KillConnection(c.ConnectionID) }() // never fails
		return "", c.FlushBuffer()
	}
	return rest, nil
}

// errorNoter is a session that keeps the error of a statement for the next one to ask for.
type errorNoter interface {
	BeginDiagnostics()
	NoteError(*mysql.SQLError)
}

// leaver is a session whose client may ask for the end of its connection.
type leaver interface{ WantsClose() bool }

// failResult ends a result that has begun with an error packet, after which the connection lives on. The protocol library
// can only close it. False if that cannot be done.
func failResult(c *mysql.Conn, err error) bool {
	f := framesOf(c)
	var se *mysql.SQLError
	if f == nil || f.cursor || !errors.As(err, &se) || c.FlushBuffer() != nil {
		return false
	}
	return f.fail(se)
}

// timeout is how long a query may run, 0 for ever: a hint at its start, or the session's max_execution_time. Only SELECT
// is bounded.
func timeout(ctx *sql.Context, stmt sqlparser.Statement) time.Duration {
	var comments sqlparser.Comments
	switch s := stmt.(type) {
	case *sqlparser.Select:
		comments = s.Comments
	case *sqlparser.SetOp:
	default:
		return 0
	}
	for _, c := range comments {
		hint := strings.ToLower(string(c))
		_, hint, found := strings.Cut(hint, "max_execution_time(")
		if !found || !strings.HasPrefix(string(c), "/*+") {
			continue
		}
		number, _, _ := strings.Cut(hint, ")")
		if ms, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32); err == nil {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return time.Duration(min(sessionInt(ctx, "max_execution_time"), 1<<32)) * time.Millisecond
}

// replanner is a session in which a statement may have met something while it was planned that has to be waited for
// before it is planned again.
type replanner interface {
	AwaitBusy(ctx *sql.Context, err error) (bool, error)
}

// retyper is a session that knows better than the frontend of which types the columns of a result are.
type retyper interface {
	Retype(sql.Schema) sql.Schema
}

// plan runs the frontend up to the first row.
func (h *Handler) plan(ctx *sql.Context, query string, stmt sqlparser.Statement, bindings map[string]sqlparser.Expr) (sql.Schema, sql.RowIter, error) {
	for {
		flags := &sql.QueryFlags{}
		flags.Set(sql.QFlagDeferProjections)
		schema, iter, _, err := h.engine.QueryWithBindings(ctx, query, stmt, bindings, flags)
		if err == nil {
			if r, ok := ctx.Session.(retyper); ok {
				schema = r.Retype(schema)
			}
			return schema, iter, nil
		}
		r, ok := ctx.Session.(replanner)
		if !ok {
			return nil, nil, err
		}
		again, werr := r.AwaitBusy(ctx, err)
		if werr != nil {
			return nil, nil, werr
		}
		if !again {
			return nil, nil, err
		}
	}
}

// execute parses, plans and spools.
func (h *Handler) execute(ctx *sql.Context, c *mysql.Conn, cmd *command, send mysql.ResultSpoolFn) (rest string, err error) {
	stmt, query := cmd.parsed, cmd.query
	if stmt == nil {
		stmt, query, rest, err = h.parse(ctx, cmd)
		if errors.Is(err, sqlparser.ErrEmpty) {
			return "", h.empty(cmd, send)
		}
		if err != nil {
			return "", sql.ErrSyntaxError.New(err.Error())
		}
		cmd.parsed = stmt
	}
	if err := h.refuse(stmt); err != nil {
		return rest, err
	}
	if kill, ok := stmt.(*sqlparser.Kill); ok {
		if err := h.checkKill(kill); err != nil {
			return rest, err
		}
	}
	bindings, err := bindingExprs(cmd.bindings)
	if err != nil {
		return rest, err
	}
	bounded := stmt
	if bounded == nil {
		bounded, _ = ctx.Session.GetPreparedQuery(cmd.query)
	}
	if most := timeout(ctx, bounded); most > 0 {
		inner, cancel := context.WithTimeout(ctx.Context, most)
		defer cancel()
		ctx = ctx.WithContext(inner)
	}
	if n, ok := ctx.Session.(errorNoter); ok {
		n.BeginDiagnostics()
	}
	schema, iter, err := h.plan(ctx, query, stmt, bindings)
	if err != nil {
		return rest, err
	}
	if s, ok := ctx.Session.(severalResults); ok {
		if results := s.TakeResults(); len(results) > 1 && cmd.several {
			own := spool{ctx: ctx, schema: schema, reuse: true, send: func(*sqltypes.Result, bool) error { return nil }}
			own.finish = func() error { return h.setStatus(ctx, c) }
			if err := own.run(iter); err != nil { // it is one of them
				return rest, err
			}
			return h.sendSeveral(ctx, framesOf(c), results, rest, send)
		}
	}
	switch s := bounded.(type) {
	case *sqlparser.Show:
		schema = likeHeader(s, schema)
	case *sqlparser.Select:
		schema = withAliases(s, schema)
	}
	sp := spool{ctx: ctx, schema: schema, reuse: cmd.text, more: rest != "", send: send, announce: announcer(c)}
	if countsRecords(bounded) {
		sp.info = func(affected uint64) string { return recordsInfo(affected, ctx.WarningCount()) }
	}
	sp.finish = func() error { return h.setStatus(ctx, c) }
	return rest, sp.run(iter)
}

// parse returns the statement, its text and the text behind it. A prepared statement is not parsed again: the engine
// takes it from the session, and the statement is nil.
func (h *Handler) parse(ctx *sql.Context, cmd *command) (sqlparser.Statement, string, string, error) {
	if _, prepared := ctx.Session.GetPreparedQuery(cmd.query); prepared {
		return nil, cmd.query, "", nil
	}
	query := cmd.query
	for {
		stmt, first, rest, err := h.engine.Parser.Parse(ctx, query, cmd.multi)
		if errors.Is(err, sqlparser.ErrEmpty) && rest != "" {
			query = rest // an empty statement between semicolons
			continue
		}
		if first == "" {
			first = query
		}
		return stmt, first, rest, err
	}
}

// empty answers a text without a statement: OK if it holds a comment, otherwise an error, as MySQL does.
func (h *Handler) empty(cmd *command, send mysql.ResultSpoolFn) error {
	if sql.RemoveSpaceAndDelimiter(cmd.query, ';') == "" {
		return mysql.NewSQLError(mysql.EREmptyQuery, "42000", "Query was empty")
	}
	return send(&sqltypes.Result{}, false)
}

// checkKill refuses the id of a connection that does not exist; the engine would ignore it.
func (h *Handler) checkKill(kill *sqlparser.Kill) error {
	lit, ok := kill.ConnID.(*sqlparser.SQLVal)
	if !ok || lit.Type != sqlparser.IntVal {
		return nil
	}
	id, err := strconv.ParseUint(string(lit.Val), 10, 64)
	if err != nil {
		return nil // the engine reports malformed ids
	}
	for _, p := range h.engine.ProcessList.Processes() {
		if uint64(p.Connection) == id {
			return nil
		}
	}
	return mysql.NewSQLError(mysql.ERNoSuchThread, "", "Unknown thread id: %d", id)
}

// setStatus puts the session's autocommit and transaction state into the flags of the next packets.
func (h *Handler) setStatus(ctx *sql.Context, c *mysql.Conn) error {
	autocommit, err := plan.IsSessionAutocommit(ctx)
	if err != nil {
		return err
	}
	setFlag(c, mysql.ServerStatusAutocommit, autocommit)
	setFlag(c, mysql.ServerInTransaction, ctx.GetTransaction() != nil)
	const noBackslashEscapes = 1 << 9 // SERVER_STATUS_NO_BACKSLASH_ESCAPES, which the library does not name
	setFlag(c, noBackslashEscapes, sql.LoadSqlMode(ctx).ModeEnabled(sql.NoBackslashEscapes))
	return nil
}

// announcer returns what tells the frames of a connection of an OK packet with a text, for which everything before it has to
// have been written.
func announcer(c *mysql.Conn) func(int) bool {
	f := framesOf(c)
	return func(n int) bool {
		if f == nil || f.cursor || c.FlushBuffer() != nil {
			return false
		}
		f.out.info = n
		return true
	}
}

// countsRecords reports whether a statement inserts rows of which MySQL says in its OK packet how many there were, and whether
// all of them are new ones.
func countsRecords(stmt sqlparser.Statement) bool {
	insert, ok := stmt.(*sqlparser.Insert)
	if !ok || insert.Action != sqlparser.InsertStr || insert.Ignore != "" || len(insert.OnDup) > 0 {
		return false
	}
	switch rows := insert.Rows.(type) {
	case *sqlparser.AliasedValues:
		return len(rows.Values) > 1
	case sqlparser.Values:
		return len(rows) > 1
	}
	return insert.Rows != nil
}

func recordsInfo(affected uint64, warnings uint16) string {
	return fmt.Sprintf("Records: %d  Duplicates: 0  Warnings: %d", affected, warnings)
}

func setFlag(c *mysql.Conn, flag uint16, on bool) {
	if on {
		c.StatusFlags |= flag
	} else {
		c.StatusFlags &^= flag
	}
}

// bindingExprs turns protocol values into the expressions that replace the parameters.
func bindingExprs(vars map[string]*querypb.BindVariable) (map[string]sqlparser.Expr, error) {
	exprs := make(map[string]sqlparser.Expr, len(vars))
	for name, bv := range vars {
		value, err := sqltypes.BindVariableToValue(bv)
		if err != nil {
			return nil, err
		}
		expr, err := sqlparser.ExprFromValue(value)
		if err != nil {
			return nil, err
		}
		exprs[name] = expr
	}
	return exprs, nil
}

// likeHeader puts the pattern of SHOW TABLES LIKE and SHOW DATABASES LIKE into the name of the first column, where MySQL
// shows it.
func likeHeader(show *sqlparser.Show, schema sql.Schema) sql.Schema {
	like := ""
	if show.Filter != nil {
		like = show.Filter.Like
	}
	switch strings.ToLower(show.Type) {
	case "tables":
		if o := show.ShowTablesOpt; o != nil && o.Filter != nil {
			like = o.Filter.Like
		}
	case "databases", "schemas":
	default:
		return schema
	}
	if like == "" || len(schema) == 0 {
		return schema
	}
	out := slices.Clone(schema)
	out[0] = schema[0].Copy()
	out[0].Name += " (" + like + ")"
	return out
}
