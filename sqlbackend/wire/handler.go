package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Options are the parts a Handler needs beyond the frontend's.
type Options struct {
	// MapError turns any error into the *mysql.SQLError sent to the client. stmt is nil if the statement was not parsed.
	MapError func(stmt sqlparser.Statement, err error) *mysql.SQLError
	// RewritePrepare changes the text of a statement prepared over the wire before the protocol library parses it. It is
	// called for every such statement and must leave alone what it does not know. Nil leaves all as they are.
	RewritePrepare func(text string) string
	// Refuse returns an error for statements that must not run; nil refuses none.
	Refuse func(stmt sqlparser.Statement) error
	// Again says whether a statement that failed before a row was sent runs once more, and prepares its session for that;
	// nil: never.
	Again func(ctx *sql.Context, err error) bool
	// Log receives panics (Error), unclassified errors (Info) and failed statements (Debug). Nil discards.
	Log *slog.Logger
}

// Handler is a mysql.Handler. It is safe for concurrent use by different connections; commands of one connection are
// serial, as the connection loop makes them. All fields are immutable after New.
type Handler struct {
	*server.Handler // every command not overridden here

	engine   *sqle.Engine
	sessions *server.SessionManager
	mapError func(sqlparser.Statement, error) *mysql.SQLError
	refuse   func(sqlparser.Statement) error
	again    func(*sql.Context, error) bool
	rewrite  func(text string) string
	log      *slog.Logger
	started  time.Time
}

// New builds a Handler over the stock one, for use inside a server.Config option.
func New(engine *sqle.Engine, sessions *server.SessionManager, stock *server.Handler, o Options) *Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MapError == nil {
		o.MapError = func(_ sqlparser.Statement, err error) *mysql.SQLError { return sql.CastSQLError(err) }
	}
	if o.Refuse == nil {
		o.Refuse = func(sqlparser.Statement) error { return nil }
	}
	if o.Again == nil {
		o.Again = func(*sql.Context, error) bool { return false }
	}
	return &Handler{
		Handler: stock, engine: engine, sessions: sessions, mapError: o.MapError, refuse: o.Refuse, again: o.Again, rewrite: o.RewritePrepare,
		log: o.Log, started: time.Now(),
	}
}

// Option returns the server option that puts a Handler in front of the stock one.
func Option(o Options) server.Option {
	return func(e *sqle.Engine, sm *server.SessionManager, h mysql.Handler) (*sqle.Engine, *server.SessionManager, mysql.Handler) {
		stock, ok := h.(*server.Handler)
		if !ok {
			return e, sm, h // somebody else's handler: nothing to embed
		}
		return e, sm, New(e, sm, stock, o)
	}
}

// NewConnection implements mysql.Handler. Why the flag: a client that wants autocommit off sends SET autocommit = 0 only
// if the handshake says that it is on.
func (h *Handler) NewConnection(c *mysql.Conn) {
	if f := framesOf(c); f != nil {
		f.rewrite = h.rewrite
		multi := false // what the client asked for, while it prepares
		f.single = func(on bool) {
			if on {
				multi = multi || c.Capabilities&mysql.CapabilityClientMultiStatements != 0
				c.Capabilities &^= mysql.CapabilityClientMultiStatements
			} else if multi {
				multi = false
				c.Capabilities |= mysql.CapabilityClientMultiStatements
			}
		}
		f.status = h.statistics
		f.statement = func(id uint32) bool { return c.PrepareData[id] != nil } // called by the connection's goroutine
	}
	h.Handler.NewConnection(c)
	_, v, ok := sql.SystemVariables.GetGlobal(sql.AutoCommitSessionVar)
	on, isInt := v.(int8)
	setFlag(c, mysql.ServerStatusAutocommit, !ok || !isInt || on != 0)
}

// statistics is the answer to COM_STATISTICS, in the words of MySQL.
func (h *Handler) statistics() string {
	number := func(name string) int64 {
		_, v, ok := sql.StatusVariables.GetGlobal(name)
		n, isInt := v.(uint64)
		if !ok || !isInt {
			return 0
		}
		return int64(min(n, 1<<62))
	}
	uptime := int64(time.Since(h.started) / time.Second)
	return fmt.Sprintf("Uptime: %d  Threads: %d  Questions: %d  Slow queries: %d  Opens: %d  Flush tables: %d  Open tables: %d  Queries per second avg: %.3f",
		uptime, len(h.engine.ProcessList.Processes()), number("Questions"), number("Slow_queries"), number("Opened_tables"),
		number("Flush_commands"), number("Open_tables"), float64(number("Questions"))/float64(max(uptime, 1)))
}

// framesOf returns the frames of a connection; nil if it is none of our listener's.
func framesOf(c *mysql.Conn) *frames {
	if own, ok := c.Conn.(*counted); ok {
		return own.frames
	}
	return nil
}

// ConnectionAuthenticated implements mysql.Handler.
func (h *Handler) ConnectionAuthenticated(c *mysql.Conn) error {
	if err := h.Handler.ConnectionAuthenticated(c); err != nil {
		return err
	}
	f := framesOf(c)
	if f == nil {
		return nil
	}
	f.loggedIn.Store(true)
	if f.results {
		// Why: the library sends a second result only for clients that may send a second statement; the frames know whether
		// this one may.
		c.Capabilities |= mysql.CapabilityClientMultiStatements
	}
	ctx, err := h.sessions.NewContextWithQuery(context.Background(), c, "")
	if err != nil {
		return err
	}
	if err := useCollation(ctx, c); err != nil {
		return err
	}
	if err := showCipher(ctx, f); err != nil {
		return err
	}
	const interactive = 1 << 10 // CLIENT_INTERACTIVE, which the library does not name
	if c.Capabilities&interactive != 0 {
		v, err := ctx.GetSessionVariable(ctx, "interactive_timeout")
		if err == nil {
			err = ctx.SetSessionVariable(ctx, "wait_timeout", v)
		}
		if err != nil {
			return err
		}
	}
	h.limit(ctx, f)
	return nil
}

// limit tells the frames what the session allows its client.
func (h *Handler) limit(ctx *sql.Context, f *frames) {
	if s := sessionInt(ctx, "wait_timeout"); s > 0 {
		f.idle.Store(int64(time.Duration(s) * time.Second))
	}
	if n := sessionInt(ctx, "max_allowed_packet"); n > 0 {
		f.most.Store(n)
	}
	if v, err := ctx.GetSessionVariable(ctx, "character_set_client"); err == nil {
		f.texts.set = oneByte(v)
	}
	f.texts.plain = sql.LoadSqlMode(ctx).ModeEnabled(sql.NoBackslashEscapes)
}

// sessionInt returns a whole number among the session's variables, 0 if there is none.
func sessionInt(ctx *sql.Context, name string) int64 {
	v, err := ctx.GetSessionVariable(ctx, name)
	if err != nil {
		return 0
	}
	switch v := v.(type) {
	case int64:
		return v
	case uint64:
		return int64(min(v, 1<<62))
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case uint32:
		return int64(v)
	}
	return 0
}

// ComInitDB implements mysql.Handler.
func (h *Handler) ComInitDB(c *mysql.Conn, schema string) error {
	return h.explain("use", nil, h.sessions.SetDB(context.Background(), c, schema))
}

// ComResetConnection implements mysql.Handler.
func (h *Handler) ComResetConnection(c *mysql.Conn) error {
	err := h.Handler.ComResetConnection(c)
	if f := framesOf(c); err == nil && f != nil {
		var ctx *sql.Context
		if ctx, err = h.sessions.NewContextWithQuery(context.Background(), c, ""); err == nil {
			if err = useCollation(ctx, c); err == nil {
				err = showCipher(ctx, f)
			}
			h.limit(ctx, f)
		}
	}
	return h.explain("reset", nil, err)
}

// showCipher puts into the session's status how its connection is encrypted.
func showCipher(ctx *sql.Context, f *frames) error {
	version, name := f.cipher()
	return errors.Join(ctx.Session.SetStatusVariable(ctx, "Ssl_version", version), ctx.Session.SetStatusVariable(ctx, "Ssl_cipher", name))
}

// ComQuery implements mysql.Handler: one statement, text protocol.
func (h *Handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) error {
	if f := framesOf(c); f != nil {
		query = f.texts.decode(query)
	}
	_, err := h.run(ctx, c, command{query: query, text: true}, callback)
	return err
}

// ComMultiQuery implements mysql.Handler: runs the first statement of query and returns the rest.
func (h *Handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) (string, error) {
	f := framesOf(c)
	if f == nil {
		return h.run(ctx, c, command{query: query, text: true, multi: true}, callback)
	}
	if f.waiting != nil && query == nextResult {
		return h.sendNext(ctx, c, f, callback)
	}
	f.waiting = nil
	form := f.texts.textForm // before SET
	rest, err := h.run(ctx, c, command{query: f.texts.query(query), text: true, multi: f.statements, several: true}, callback)
	f.texts.left(rest, form)
	return rest, err
}

// ComParsedQuery implements mysql.ExtendedHandler.
func (h *Handler) ComParsedQuery(ctx context.Context, c *mysql.Conn, query string, parsed sqlparser.Statement, callback mysql.ResultSpoolFn) error {
	_, err := h.run(ctx, c, command{query: query, text: true, parsed: parsed}, callback)
	return err
}

// ComStmtExecute implements mysql.Handler: a statement prepared by ComPrepare, binary protocol.
func (h *Handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, prepare *mysql.PrepareData, callback func(*sqltypes.Result) error) error {
	if f := framesOf(c); f != nil {
		f.texts.bindings(prepare)
	}
	_, err := h.run(ctx, c, command{query: prepare.PrepareStmt, bindings: prepare.BindVars}, func(res *sqltypes.Result, _ bool) error {
		return callback(res)
	})
	return err
}

// ComPrepare implements mysql.Handler. Nil fields mean that the statement returns an OK packet.
func (h *Handler) ComPrepare(ctx context.Context, c *mysql.Conn, query string, p *mysql.PrepareData) (fields []*querypb.Field, err error) {
	const most = 1<<16 - 8 // the protocol library computes with 16 bits and would panic when the statement is executed
	if p != nil && p.ParamsCount > most {
		return nil, mysql.NewSQLError(1390, "HY000", "Prepared statement contains too many placeholders")
	}
	sqlCtx, err := h.sessions.NewContextWithQuery(ctx, c, query)
	if err != nil {
		return nil, h.explain(query, nil, err)
	}
	sqlCtx, err = sqlCtx.ProcessList.BeginOperation(sqlCtx)
	if err != nil {
		return nil, h.explain(query, nil, err)
	}
	defer sqlCtx.ProcessList.EndOperation(sqlCtx)
	if err := sql.SessionCommandBegin(sqlCtx.Session); err != nil {
		return nil, h.explain(query, nil, err)
	}
	defer sql.SessionCommandEnd(sqlCtx.Session)
	defer h.isolate(sqlCtx, query, &err)

	node, err := h.engine.PrepareQuery(sqlCtx, query)
	if err != nil {
		return nil, h.explain(query, nil, err)
	}
	if _, use := node.(*plan.Use); use {
		return nil, mysql.NewSQLError(1295, "HY000", "This command is not supported in the prepared statement protocol yet")
	}
	schema := node.Schema(sqlCtx)
	if answersOK(node) || types.IsOkResultSchema(schema) {
		return nil, nil
	}
	return fieldsOf(sqlCtx, schema), nil
}

// answersOK reports whether a bound, not yet analysed DML node will answer with an OK packet although its schema now
// is that of its table.
func answersOK(n sql.Node) bool {
	switch n.(type) {
	case *plan.InsertInto, *plan.Update, *plan.UpdateJoin, *plan.DeleteFrom:
		return true
	}
	return false
}

// explain maps an error for the client and logs it; nil stays nil.
func (h *Handler) explain(query string, stmt sqlparser.Statement, err error) error {
	if err == nil {
		return nil
	}
	mapped := h.mapError(stmt, err)
	level := slog.LevelDebug
	if mapped.Num == mysql.ERUnknownError {
		level = slog.LevelInfo // not classified: ours to look at
	}
	if h.log.Enabled(context.Background(), level) {
		h.log.Log(context.Background(), level, "statement failed", "error", mapped.Error(), "cause", err.Error(), "statement", abridge(query))
	}
	return mapped
}

// isolate turns a panic of one statement into an error of that statement. What the transaction holds is unknown then,
// so the whole transaction is rolled back.
func (h *Handler) isolate(ctx *sql.Context, query string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	id := digest(query)
	h.log.Error("statement panicked", "panic", fmt.Sprint(p), "digest", id, "statement", abridge(query), "stack", string(debug.Stack()))
	*err = mysql.NewSQLError(mysql.ERUnknownError, "", "internal error; the transaction was rolled back (statement digest %s)", id)
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("rollback after a panic panicked", "panic", fmt.Sprint(p))
		}
	}()
	ts, ok := ctx.Session.(sql.TransactionSession)
	tx := ctx.GetTransaction()
	if !ok || tx == nil {
		return
	}
	if rerr := ts.Rollback(ctx, tx); rerr != nil {
		h.log.Error("rollback after a panic failed", "error", rerr)
	}
	ctx.SetTransaction(nil)
	ctx.SetIgnoreAutoCommit(false)
}

// abridge bounds statement text in logs.
func abridge(query string) string {
	const most = 512 // bytes
	if len(query) <= most {
		return query
	}
	return query[:most] + "…"
}

// useCollation makes the collation that the client named when it connected that of its session, as SET NAMES does.
func useCollation(ctx *sql.Context, c *mysql.Conn) error {
	id := sql.CollationID(c.CharacterSet)
	const withoutName = sql.CollationID(mysql.CharacterSetUtf8) // what old clients send when nobody told them what to
	if id == withoutName || id.CharacterSet().Encoder() == nil || id.CharacterSet() == sql.CharacterSet_Unspecified {
		return nil
	}
	for name, value := range map[string]string{
		"character_set_client": id.CharacterSet().Name(), "character_set_results": id.CharacterSet().Name(),
		"character_set_connection": id.CharacterSet().Name(), "collation_connection": id.Name(),
	} {
		if err := ctx.SetSessionVariable(ctx, name, value); err != nil {
			return err
		}
	}
	return nil
}
