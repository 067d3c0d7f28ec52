package wire

import (
	"context"
	"errors"
	"strconv"

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
	text     bool                // text protocol: rows are copied before the callback returns
	bindings map[string]*querypb.BindVariable
}

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
	defer h.isolate(sqlCtx, cmd.query, &err)
	defer watchClient(c.Conn, func() { cancel(errClientGone) })()

	rest, err = h.execute(sqlCtx, c, &cmd, send)
	if err != nil {
		return "", h.explain(cmd.query, cmd.parsed, err) // an error ends a multi statement text
	}
	return rest, nil
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
	flags := &sql.QueryFlags{}
	flags.Set(sql.QFlagDeferProjections)
	schema, iter, _, err := h.engine.QueryWithBindings(ctx, query, stmt, bindings, flags)
	if err != nil {
		return rest, err
	}
	sp := spool{ctx: ctx, schema: schema, reuse: cmd.text, more: rest != "", send: send}
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
	return nil
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
