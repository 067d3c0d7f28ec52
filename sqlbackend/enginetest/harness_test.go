package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"github.com/cockroachdb/pebble/v2/vfs"
	sqle "github.com/dolthub/go-mysql-server"
	gms "github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/queries"
	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/stretchr/testify/require"
	kinds "gopkg.in/src-d/go-errors.v1"

	"lancesql/engine"
	"lancesql/engine/sched"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/sqlbackend"
)

// harness gives the suites engines with a memory store. One that is refused a set-up statement goes on without it: the
// nodes that need it fail by themselves.
type harness struct {
	bare    bool // hand out the frontend's engine itself: the suite insists on its type
	holds   bool // the suite keeps what it got from the engine: it is not opened anew once a node runs
	store   string
	hung    map[string]bool
	scripts []setup.SetupScript

	wire     *wireEngine // set if statements go through a server
	served   *wireEngine // the same, already during the set-up
	objects  objstore.Store
	files    vfs.FS // of the journal
	engine   *engine.Engine
	provider *sqlbackend.Provider
	session  *sqlbackend.Conn
	nextID   uint32
}

var (
	_ gms.Harness                 = (*harness)(nil)
	_ gms.ClientHarness           = (*harness)(nil)
	_ gms.ServerHarness           = (*harness)(nil)
	_ gms.TransactionHarness      = (*harness)(nil)
	_ gms.KeylessTableHarness     = (*harness)(nil)
	_ gms.IndexHarness            = (*harness)(nil)
	_ gms.ForeignKeyHarness       = (*harness)(nil)
	_ gms.SkippingHarness         = (*harness)(nil)
	_ gms.ResultEvaluationHarness = (*harness)(nil)
)

// Setup implements gms.Harness.
func (h *harness) Setup(data ...[]setup.SetupScript) {
	h.scripts = nil
	for _, d := range data {
		h.scripts = append(h.scripts, d...)
	}
}

// NewEngine implements gms.Harness.
func (h *harness) NewEngine(t *testing.T) (gms.QueryEngine, error) {
	h.objects, h.files, h.session, h.wire = objstore.NewMem(), vfs.NewMem(), nil, nil
	q, err := h.start()
	if err != nil {
		return nil, err
	}
	front := q.Engine
	front.Analyzer.Catalog.MySQLDb.AddRootAccount()
	// The suites know the frontend's defaults, not MySQL's.
	err = sql.SystemVariables.AssignValues(map[string]any{"local_infile": int8(1), "secure_file_priv": "", "sql_mode": sql.DefaultSqlMode,
		"lancesql_verify_indexes": int8(1),
		"collation_server":        "utf8mb4_0900_bin", "collation_database": "utf8mb4_0900_bin", "collation_connection": "utf8mb4_0900_bin"})
	if err != nil {
		return nil, err
	}
	scripts := h.scripts
	if len(scripts) == 0 {
		scripts = setup.MydbData
	}
	ctx := gms.NewContext(h)
	q.quiet = true
	if h.served != nil {
		scripts = append([]setup.SetupScript{{"DROP USER 'root'@'%'"}}, scripts...) // the suites know one root
	}
	for _, s := range scripts {
		for _, text := range s {
			if err := q.run(ctx.WithQuery(text), text); err != nil {
				t.Logf("set-up: %s: %v", text, err)
			}
		}
	}
	if err := q.settle(ctx); err != nil {
		return nil, err
	}
	q.quiet = false
	h.session, h.nextID = nil, 0 // the suites know that theirs is connection 1
	switch {
	case h.store == storeReopened:
		if err := q.reopen(); err != nil || !h.bare {
			return q, err
		}
		return q.Engine, nil
	case h.bare:
		return front, nil
	case h.served != nil:
		h.wire = h.served
		t.Cleanup(func() { _ = h.served.Close() }) // not every suite closes what it opens
		return h.wire, nil
	}
	return q, nil
}

// start opens the engine and the frontend over it, in a server if statements are to go through one.
func (h *harness) start() (*queryEngine, error) {
	h.served = nil
	if h.store != storeWire || h.bare {
		front, err := h.open()
		return &queryEngine{Engine: front, harness: h}, err
	}
	e, err := engine.Open(context.Background(), engine.Config{Workers: engine.NoWorkers}, engine.Components{Store: h.objects})
	if err != nil {
		return nil, err
	}
	h.engine = e
	if h.served, err = serve(h); err != nil {
		return nil, err
	}
	return h.served.queryEngine, nil
}

// open opens the engine and the frontend over it.
func (h *harness) open() (*sqle.Engine, error) {
	components := engine.Components{Store: h.objects}
	if h.store == storeReopened { // without a journal counters end with the process
		var err error
		if components.Journal, err = logfile.Open(h.files, "/journal"); err != nil {
			return nil, err
		}
	}
	e, err := engine.Open(context.Background(), engine.Config{Workers: engine.NoWorkers}, components)
	if err != nil {
		return nil, err
	}
	h.engine, h.provider = e, sqlbackend.NewProvider(e)
	return sqlbackend.NewSQLEngine(e, h.provider), nil
}

func (h *harness) newSession(client sql.Client) *sqlbackend.Conn {
	if h.wire != nil && h.wire.db != nil {
		c, err := h.wire.connect(client)
		if err != nil {
			panic(err) // a harness has no other way to say so
		}
		return c
	}
	h.nextID++
	return sqlbackend.NewSession(sql.NewBaseSessionWithClientServer("address", client, h.nextID), h.provider)
}

// NewContext implements gms.Harness.
func (h *harness) NewContext() *sql.Context {
	if h.session == nil {
		h.session = h.newSession(sql.Client{Address: "localhost", User: "root"})
	}
	return sql.NewContext(context.Background(), sql.WithSession(h.session))
}

// NewSession implements gms.TransactionHarness.
func (h *harness) NewSession() *sql.Context {
	h.session = nil
	return h.NewContext()
}

// NewContextWithClient implements gms.ClientHarness.
func (h *harness) NewContextWithClient(client sql.Client) *sql.Context {
	return sql.NewContext(context.Background(), sql.WithSession(h.newSession(client)))
}

// SessionBuilder implements gms.ServerHarness.
func (h *harness) SessionBuilder() server.SessionBuilder {
	return func(_ context.Context, c *mysql.Conn, addr string) (sql.Session, error) {
		client := sql.Client{Capabilities: c.Capabilities}
		if user, ok := c.UserData.(sql.MysqlConnectionUser); ok {
			client.User, client.Address = user.User, user.Host
		}
		return sqlbackend.NewSession(sql.NewBaseSessionWithClientServer(addr, client, c.ConnectionID), h.provider), nil
	}
}

// SupportsKeylessTables implements gms.KeylessTableHarness.
func (h *harness) SupportsKeylessTables() bool { return true }

// SupportsNativeIndexCreation implements gms.IndexHarness.
func (h *harness) SupportsNativeIndexCreation() bool { return true }

// SupportsForeignKeys implements gms.ForeignKeyHarness.
func (h *harness) SupportsForeignKeys() bool { return true }

// SkipQueryTest implements gms.SkippingHarness.
func (h *harness) SkipQueryTest(query string) bool { return h.hung[testName(query)] }

// plain is the harness without opinions about results.
type plain struct{ gms.Harness }

// EvaluateQueryResults implements gms.ResultEvaluationHarness (I4).
func (h *harness) EvaluateQueryResults(t *testing.T, expected []sql.Row, expectedCols []*sql.Column, sch sql.Schema, actual []sql.Row, query string, wrap queries.WrapBehavior) {
	if showsSizes(query) {
		expected, actual = withoutSizes(expected), withoutSizes(actual)
	}
	if h.wire != nil {
		if h.wire.bound {
			expectedCols = nil
		}
		checkWire(t, expected, expectedCols, sch, actual, query)
		return
	}
	gms.CheckResults(h.NewContext(), t, plain{h}, exactRows(expected, actual), expectedCols, sch, actual, query, nil)
}

// showsSizes reports whether a statement shows the size of tables, which is storage's.
func showsSizes(query string) bool {
	return strings.HasPrefix(strings.ToUpper(query), "SHOW TABLE STATUS")
}

// withoutSizes takes Avg_row_length and Data_length out of rows of SHOW TABLE STATUS.
func withoutSizes(rows []sql.Row) []sql.Row {
	out := make([]sql.Row, len(rows))
	for i, row := range rows {
		out[i] = append(sql.Row{}, row...)
		if len(row) > 6 {
			out[i][5], out[i][6] = nil, nil
		}
	}
	return out
}

// exactRows returns expected with DECIMALs in place of DOUBLEs in the columns that are DECIMAL in actual, at their scale.
// Rows may come in another order.
func exactRows(expected, actual []sql.Row) []sql.Row {
	scales := make(map[int]int32)
	for _, row := range actual {
		for j, v := range row {
			if d, ok := v.(*apd.Decimal); ok {
				scales[j] = d.Exponent
			}
		}
	}
	if len(scales) == 0 {
		return expected
	}
	out := make([]sql.Row, len(expected))
	for i, row := range expected {
		out[i] = append(sql.Row{}, row...)
		for j, v := range row {
			f, ok := v.(float64)
			exponent, exact := scales[j]
			if !ok || !exact {
				continue
			}
			d, err := new(apd.Decimal).SetFloat64(f)
			if err == nil {
				_, err = apd.BaseContext.WithPrecision(65).Quantize(d, d, exponent)
			}
			if err == nil {
				out[i][j] = d
			}
		}
	}
	return out
}

// EvaluateExpectedError implements gms.ResultEvaluationHarness.
func (h *harness) EvaluateExpectedError(t *testing.T, expected string, err error) {
	if h.wire != nil && expected != err.Error() { // MySQL's words for it, with its number
		require.NotEqualf(t, mysql.ERUnknownError, errorNumber(err), "expected %q, got %q", expected, err)
		return
	}
	require.Equal(t, expected, err.Error())
}

// EvaluateExpectedErrorKind implements gms.ResultEvaluationHarness: the kind itself, or its MySQL number.
func (h *harness) EvaluateExpectedErrorKind(t *testing.T, expected *kinds.Kind, err error) {
	if expected.Is(err) {
		return
	}
	want, got := errorNumber(expected.New()), errorNumber(err)
	if expected == sql.ErrValueOutOfRange && got == 1690 { // 1264 is that of a column
		return
	}
	if h.wire != nil && saysKind(expected, err.Error()) { // the kind's own words, to which a number may have been found
		return
	}
	require.Truef(t, want == got && want != mysql.ERUnknownError, "expected an error of kind %q (%d), got %d: %v", expected.Message, want, got, err)
}

// saysKind reports whether a text is one of an error kind.
func saysKind(k *kinds.Kind, text string) bool {
	pattern := verb.ReplaceAllString(regexp.QuoteMeta(k.Message), ".*")
	return len(strings.ReplaceAll(pattern, ".*", "")) > 5 && regexp.MustCompile("(?s)"+pattern).MatchString(text)
}

// verb is one of fmt.
var verb = regexp.MustCompile(`%[a-zA-Z]`)

// errorText is MySQL's text of an error.
func errorText(err error) string {
	if told := asTold(err); told != nil {
		return told.Message
	}
	return sql.CastSQLError(sqlbackend.MapError(err)).Message
}

func errorNumber(err error) int {
	if told := asTold(err); told != nil {
		return int(told.Number)
	}
	return sql.CastSQLError(sqlbackend.MapError(err)).Num
}

// asTold returns what a client was told, if err comes from one.
func asTold(err error) *serverError {
	for err != nil {
		if told, ok := err.(*serverError); ok {
			return told
		}
		cause, ok := err.(interface{ Cause() error })
		if !ok {
			return nil
		}
		err = cause.Cause()
	}
	return nil
}

// queryEngine is the frontend's engine as a server drives it: a panic is an error of the statement.
type queryEngine struct {
	*sqle.Engine
	harness *harness
	dirty   bool
	quiet   bool                                  // answers are not told: the harness sets up
	anewMu  sync.Mutex                            // before a statement of any session
	setup   bool                                  // the last statement was one of a set-up
	anew    map[*sqlbackend.Conn]*sqlbackend.Conn // the sessions of those from before the engine was opened anew
}

// Close implements gms.QueryEngine.
func (q *queryEngine) Close() error {
	return errors.Join(q.Engine.Close(), q.harness.engine.Close(context.Background()))
}

// Query implements gms.QueryEngine.
func (q *queryEngine) Query(ctx *sql.Context, text string) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	return q.QueryWithBindings(ctx, text, nil, nil, nil)
}

// QueryWithBindings implements gms.QueryEngine.
func (q *queryEngine) QueryWithBindings(ctx *sql.Context, text string, parsed sqlparser.Statement, bindings map[string]sqlparser.Expr, flags *sql.QueryFlags) (s sql.Schema, it sql.RowIter, f *sql.QueryFlags, err error) {
	defer caught(&err)
	if err := q.between(ctx); err != nil {
		return nil, nil, nil, err
	}
	if err := q.settle(ctx); err != nil {
		return nil, nil, nil, err
	}
	q.dirty = true
	end, err := begin(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	s, it, f, err = q.Engine.QueryWithBindings(ctx, text, parsed, bindings, flags)
	if err != nil {
		end()
		if !q.quiet {
			tellError(err)
		}
		return nil, nil, nil, err
	}
	if c, ok := ctx.Session.(*sqlbackend.Conn); ok {
		s = c.Retype(s) // as the wire handler does
	}
	return s, &guardedIter{RowIter: it, end: end, schema: s, quiet: q.quiet}, f, nil
}

// PrepareQuery implements gms.QueryEngine.
func (q *queryEngine) PrepareQuery(ctx *sql.Context, text string) (n sql.Node, err error) {
	defer caught(&err)
	end, err := begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return q.Engine.PrepareQuery(ctx, text)
}

// begin begins a command, as a server does.
func begin(ctx *sql.Context) (end func(), err error) {
	c, ok := ctx.Session.(*sqlbackend.Conn)
	if !ok {
		return func() {}, nil
	}
	return sync.OnceFunc(c.CommandEnd), c.CommandBegin()
}

// settle brings what was written where the run wants it to be before the next statement: with "merged", into the base
// tables, with "flushed" into generations, unless a transaction is open.
func (q *queryEngine) settle(ctx *sql.Context) error {
	if !q.dirty || ctx.GetTransaction() != nil {
		return nil
	}
	q.dirty = false
	switch q.harness.store {
	case storeMerged:
		return q.harness.provider.FlushTables(ctx, nil)
	case storeFlushed:
		e := q.harness.engine
		for _, d := range e.Catalog().Databases() {
			for _, t := range d.Tables() {
				if err := errors.Join(e.Freeze(ctx, t), e.RunUpkeep(ctx, t, sched.Flush)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// between opens the engine anew after the last statement of a script's set-up.
func (q *queryEngine) between(ctx *sql.Context) error {
	if q.harness.store != storeReopened {
		return nil
	}
	q.anewMu.Lock()
	defer q.anewMu.Unlock()
	was := q.setup
	if q.setup = insideSetup(); was && !q.setup && !q.harness.holds && ctx.GetTransaction() == nil {
		if err := q.reopen(); err != nil {
			return err
		}
	}
	if c, ok := ctx.Session.(*sqlbackend.Conn); ok {
		ctx.Session = q.session(c)
	}
	return nil
}

// insideSetup reports whether the suite runs the statement for its effect alone.
func insideSetup() bool {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, ".RunQueryWithContext") {
			return true
		}
		if !more {
			return false
		}
	}
}

// reopen closes the engine and opens it anew over the same objects. Accounts, which nobody has stored, stay.
func (q *queryEngine) reopen() error {
	accounts := q.Engine.Analyzer.Catalog.MySQLDb
	if err := q.Close(); err != nil {
		return err
	}
	front, err := q.harness.open()
	if err != nil {
		return err
	}
	front.Analyzer.Catalog.MySQLDb = accounts
	q.Engine, q.anew = front, make(map[*sqlbackend.Conn]*sqlbackend.Conn)
	if c := q.harness.session; c != nil {
		q.harness.session = q.session(c)
	}
	return nil
}

// session returns the session of a connection that may be from before the engine was opened anew: its variables stay.
func (q *queryEngine) session(c *sqlbackend.Conn) *sqlbackend.Conn {
	if q.anew == nil || c.Of(q.harness.provider) {
		return c
	}
	if q.anew[c] == nil {
		q.anew[c] = sqlbackend.NewSession(c.BaseSession, q.harness.provider)
	}
	return q.anew[c]
}

func (q *queryEngine) run(ctx *sql.Context, text string) error {
	_, it, _, err := q.Query(ctx, text)
	if err != nil {
		return err
	}
	_, err = sql.RowIterToRows(ctx, it)
	return err
}

// guardedIter turns panics into errors and ends the command.
type guardedIter struct {
	sql.RowIter
	end    func()
	schema sql.Schema
	rows   []sql.Row // as a client sees them, the first of them
	failed bool
	quiet  bool // it tells nothing
}

// Next implements sql.RowIter.
func (g *guardedIter) Next(ctx *sql.Context) (row sql.Row, err error) {
	defer func() {
		if err != nil && err != io.EOF {
			if !g.failed && !g.quiet {
				tellError(err)
			}
			g.failed = true
		}
	}()
	defer caught(&err)
	row, err = g.RowIter.Next(ctx)
	const most = 100 // of the rows that a node tells
	if err == nil && len(g.rows) < most {
		g.rows = append(g.rows, clientRow(ctx, g.schema, row))
	}
	return row, err
}

// clientRow is a row as text.
func clientRow(ctx *sql.Context, s sql.Schema, row sql.Row) sql.Row {
	out := make(sql.Row, len(row))
	for i, v := range row {
		if out[i] = v; v == nil || i >= len(s) || types.IsOkResult(row) {
			continue
		}
		if sv, err := s[i].Type.SQL(ctx, nil, v); err == nil && !sv.IsNull() {
			out[i] = sv.ToString()
		}
	}
	return out
}

// Close implements sql.RowIter.
func (g *guardedIter) Close(ctx *sql.Context) (err error) {
	if !g.failed && !g.quiet {
		tellRows(g.rows, ctx.Warnings())
	}
	defer g.end()
	defer caught(&err)
	return g.RowIter.Close(ctx)
}

func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, trimStack(string(debug.Stack())))
	}
}

// trimStack keeps the frames that follow the panic.
func trimStack(stack string) string {
	if i := strings.LastIndex(stack, "panic("); i >= 0 {
		stack = stack[i:]
	}
	lines := strings.SplitN(stack, "\n", 14)
	return strings.Join(lines[:len(lines)-1], "\n")
}
