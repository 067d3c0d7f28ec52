package sqlbackend

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// serverStatement is a statement that the frontend lacks and that needs none of its planning. It is its own AST leaf and
// its own plan node, and immutable.
type serverStatement struct {
	name   string
	schema sql.Schema // nil: it answers with an OK packet
	run    func(ctx *sql.Context, c *Conn) ([]sql.Row, error)

	diagnostics bool // it shows what the statement before it left, and leaves it
	commits     bool // it commits the open transaction first
	ddl         bool // it defines something: also refused in a transaction that is READ ONLY
}

var _ sql.ExecSourceRel = (*serverStatement)(nil)
var _ sqlparser.Injectable = (*serverStatement)(nil)

// inject makes it an AST that the frontend accepts from those who may do what auth says.
func (s *serverStatement) inject(auth sqlparser.AuthInformation) sqlparser.Statement {
	return sqlparser.InjectedStatement{Statement: s, Auth: auth}
}

func anybody() sqlparser.AuthInformation {
	return sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE}
}

func globally(privilege string) sqlparser.AuthInformation {
	return sqlparser.AuthInformation{AuthType: privilege, TargetType: sqlparser.AuthTargetType_Global}
}

// WithResolvedChildren implements sqlparser.Injectable.
func (s *serverStatement) WithResolvedChildren(context.Context, []any) (any, error) { return s, nil }

// Resolved implements sql.Node.
func (s *serverStatement) Resolved() bool { return true }

// IsReadOnly implements sql.Node: no row changes.
func (s *serverStatement) IsReadOnly() bool { return true }

// Children implements sql.Node.
func (s *serverStatement) Children() []sql.Node { return nil }

// WithChildren implements sql.Node.
func (s *serverStatement) WithChildren(_ *sql.Context, children ...sql.Node) (sql.Node, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(children), 0)
	}
	return s, nil
}

// String implements fmt.Stringer.
func (s *serverStatement) String() string { return s.name }

// Schema implements sql.Node.
func (s *serverStatement) Schema(*sql.Context) sql.Schema {
	if s.schema == nil {
		return types.OkResultSchema
	}
	return s.schema
}

// RowIter implements sql.ExecSourceRel.
func (s *serverStatement) RowIter(ctx *sql.Context, _ sql.Row) (sql.RowIter, error) {
	c := connOf(ctx)
	if s.commits {
		if err := c.implicitCommit(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := s.run(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.schema == nil {
		rows = []sql.Row{sql.NewRow(types.NewOkResult(0))}
	}
	return sql.RowsToRowIter(rows...), nil
}

func textColumn(name string, length int64) *sql.Column {
	return &sql.Column{Name: name, Type: types.MustCreateStringWithDefaults(sqltypes.VarChar, length), Nullable: true}
}

func numberColumn(name string) *sql.Column {
	return &sql.Column{Name: name, Type: types.Int64}
}

func noRows(*sql.Context, *Conn) ([]sql.Row, error) { return nil, nil }

// serverStatement reads a statement of its first word, up to its end; nil if it is none of ours.
func (s *tokens) serverStatement() sqlparser.Statement {
	var stmt sqlparser.Statement
	switch {
	case s.takeWord("help"):
		stmt = s.help()
	case s.takeWord("show"):
		stmt = s.show()
	case s.takeWord("set"):
		stmt = s.setAccount()
	case s.takeWord("rename"):
		stmt = s.renameUser()
	case s.takeWord("alter"):
		stmt = s.lockUser()
	case s.takeWord("reset"):
		stmt = s.reset()
	case s.takeWord("checksum"):
		stmt = s.checksum()
	case s.takeWord("drop"):
		stmt = s.dropFunction()
	case s.takeWord("get"):
		stmt = s.getDiagnostics()
	case s.takeWord("lock"):
		stmt = s.lockInstance()
	case s.takeWord("unlock"):
		stmt = s.unlockInstance()
	}
	if stmt == nil || !s.finish() {
		return nil
	}
	return stmt
}

// help reads what follows HELP. There are no help texts, as in a MySQL server whose help tables were not filled.
func (s *tokens) help() sqlparser.Statement {
	if _, ok := s.textOrName(); !ok {
		return nil
	}
	n := &serverStatement{name: "help", schema: sql.Schema{textColumn("name", 64), textColumn("is_it_category", 1)}, run: noRows}
	return n.inject(anybody())
}

// show reads what follows SHOW.
func (s *tokens) show() sqlparser.Statement {
	switch {
	case s.takeWord("engine"):
		return s.showEngine()
	case s.takeWord("profiles"):
		n := &serverStatement{name: "show profiles", run: noRows, diagnostics: true,
			schema: sql.Schema{numberColumn("Query_ID"), {Name: "Duration", Type: types.Float64}, textColumn("Query", 300)}}
		return n.inject(anybody())
	case s.takeWord("profile"):
		for s.kind != 0 && s.kind != ';' { // kinds of figures, FOR QUERY n, LIMIT n
			s.next()
		}
		n := &serverStatement{name: "show profile", run: noRows, diagnostics: true,
			schema: sql.Schema{textColumn("Status", 30), {Name: "Duration", Type: types.Float64}}}
		return n.inject(anybody())
	case s.takeWord("create"):
		if s.takeWord("function") {
			return s.showCreateFunction()
		}
		return s.showCreateUser()
	}
	return nil
}

// showEngine reads {INNODB | ALL | …} {STATUS | MUTEX | LOGS}.
func (s *tokens) showEngine() sqlparser.Statement {
	engine, ok := s.textOrName()
	if !ok {
		return nil
	}
	status := s.takeWord("status")
	if !status && !s.takeWord("mutex", "logs") {
		return nil
	}
	n := &serverStatement{name: "show engine",
		schema: sql.Schema{textColumn("Type", 10), textColumn("Name", 512), {Name: "Status", Type: types.LongText, Nullable: true}}}
	n.run = func(_ *sql.Context, c *Conn) ([]sql.Row, error) {
		switch strings.ToLower(engine) {
		case "innodb", "all":
		case "performance_schema":
			return nil, nil
		default:
			return nil, newError(1286, "Unknown storage engine '%s'", engine)
		}
		if !status {
			return nil, nil
		}
		return []sql.Row{sql.NewRow("InnoDB", "", engineStatus(c.provider))}, nil
	}
	return n.inject(globally(sqlparser.AuthType_PROCESS))
}

// engineStatus is the state of the engine as SHOW ENGINE INNODB STATUS prints it: the tables of database lancesql.
func engineStatus(p *Provider) string {
	var out strings.Builder
	out.WriteString("=====================================\nlancesql STATUS\n=====================================\n")
	for _, def := range sysTables() {
		out.WriteString(strings.Repeat("-", len(def.name)) + "\n" + strings.ToUpper(def.name) + "\n" + strings.Repeat("-", len(def.name)) + "\n")
		for _, row := range def.rows(p) {
			cells := make([]string, len(row))
			for i, v := range row {
				cells[i] = def.columns[i].name + " " + fmt.Sprint(v)
			}
			out.WriteString(strings.Join(cells, ", ") + "\n")
		}
	}
	out.WriteString("----------------------------\nEND OF lancesql STATUS\n============================\n")
	return out.String()
}

// reset reads {MASTER | BINARY LOGS AND GTIDS | SLAVE [ALL]}: there is no binary log and no replication. The frontend has
// RESET REPLICA.
func (s *tokens) reset() sqlparser.Statement {
	n := &serverStatement{name: "reset", run: noRows, commits: true}
	switch {
	case s.takeWord("slave"):
		s.takeWord("all")
	case s.takeWord("master"), s.takeWord("binary") && s.takeWord("logs") && s.takeWord("and") && s.takeWord("gtids"):
		n.run = func(*sql.Context, *Conn) ([]sql.Row, error) {
			return nil, newError(1186, "Binlog closed, cannot RESET MASTER")
		}
	default:
		return nil
	}
	return n.inject(globally(sqlparser.AuthType_RELOAD))
}

// checksum reads TABLE list [QUICK | EXTENDED].
func (s *tokens) checksum() sqlparser.Statement {
	if !s.takeWord("table", "tables") {
		return nil
	}
	list, ok := s.tables()
	if !ok {
		return nil
	}
	quick := s.takeWord("quick")
	if !quick {
		s.takeWord("extended")
	}
	n := &serverStatement{name: "checksum table", schema: sql.Schema{textColumn("Table", 512), {Name: "Checksum", Type: types.Int64, Nullable: true}}}
	n.run = func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		var rows []sql.Row
		for _, t := range list {
			db := databaseOf(ctx, t)
			if db == "" {
				return nil, sql.ErrNoDatabaseSelected.New()
			}
			row := sql.NewRow(db+"."+t.Name.String(), nil)
			d, err := c.provider.Database(ctx, db)
			if err != nil {
				return nil, err
			}
			table, ok, err := d.GetTableInsensitive(ctx, t.Name.String())
			if err != nil {
				return nil, err
			}
			switch {
			case !ok:
				ctx.Warn(1146, "Table '%s.%s' doesn't exist", db, t.Name.String())
			case !quick: // no table keeps one
				sum, err := checksumOf(ctx, table)
				if err != nil {
					return nil, err
				}
				row[1] = sum
			}
			rows = append(rows, row)
		}
		return rows, nil
	}
	return n.inject(sqlparser.AuthInformation{
		AuthType: sqlparser.AuthType_SELECT, TargetType: sqlparser.AuthTargetType_MultipleTableIdentifiers,
		TargetNames: sqlparser.TableNames(list).AuthMultipleTableIdentifiers(),
	})
}

// checksumOf is a number that does not depend on the order of rows.
func checksumOf(ctx *sql.Context, t sql.Table) (int64, error) {
	schema := t.Schema(ctx)
	parts, err := t.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	rows := sql.NewTableRowIter(ctx, t, parts)
	sum := uint32(0)
	for {
		row, err := rows.Next(ctx)
		if err == io.EOF {
			return int64(sum), rows.Close(ctx)
		}
		if err != nil {
			return 0, also(err, rows.Close(ctx))
		}
		h := crc32.NewIEEE()
		for i, v := range row {
			text := "N"
			if v != nil {
				value, err := schema[i].Type.SQL(ctx, nil, v)
				if err != nil {
					return 0, also(err, rows.Close(ctx))
				}
				text = fmt.Sprintf("%d %s", value.Len(), value.ToString())
			}
			_, _ = io.WriteString(h, text) // never fails
		}
		sum += h.Sum32()
	}
}

// textOrName consumes a text or a name.
func (s *tokens) textOrName() (string, bool) {
	if s.kind == sqlparser.STRING {
		text := s.text
		s.next()
		return text, true
	}
	return s.name()
}

// showDiagnostics makes SHOW ERRORS, SHOW COUNT(*) ERRORS and SHOW COUNT(*) WARNINGS statements of ours.
func showDiagnostics(s *sqlparser.Show) sqlparser.Statement {
	errors := strings.EqualFold(s.Type, "errors")
	if !errors && !(strings.EqualFold(s.Type, "warnings") && s.CountStar) {
		return s
	}
	n := &serverStatement{name: "show " + strings.ToLower(s.Type), diagnostics: true}
	if s.CountStar {
		name := "@@session.warning_count"
		if errors {
			name = "@@session.error_count"
		}
		n.schema = sql.Schema{numberColumn(name)}
		n.run = func(_ *sql.Context, c *Conn) ([]sql.Row, error) {
			return []sql.Row{sql.NewRow(c.countWarnings(errors))}, nil
		}
		return n.inject(anybody())
	}
	offset, ok1 := limitOf(s.Limit, false)
	count, ok2 := limitOf(s.Limit, true)
	if !ok1 || !ok2 {
		return s
	}
	n.schema = sql.Schema{textColumn("Level", 7), numberColumn("Code"), textColumn("Message", 512)}
	n.run = func(_ *sql.Context, c *Conn) ([]sql.Row, error) {
		var rows []sql.Row
		list := c.Warnings() // the last one first
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].Level == errorLevel {
				rows = append(rows, sql.NewRow(list[i].Level, int64(list[i].Code), list[i].Message))
			}
		}
		from := min(offset, len(rows))
		return rows[from:min(from+count, len(rows))], nil
	}
	return n.inject(anybody())
}

// limitOf reads the offset or the number of rows of a LIMIT; false if it is no literal.
func limitOf(l *sqlparser.Limit, rows bool) (int, bool) {
	const all = 1 << 30
	var e sqlparser.Expr
	def := 0
	if rows {
		def = all
	}
	if l != nil {
		e = l.Offset
		if rows {
			e = l.Rowcount
		}
	}
	if e == nil {
		return def, true
	}
	v, ok := e.(*sqlparser.SQLVal)
	n := 0
	if ok {
		_, err := fmt.Sscan(string(v.Val), &n)
		ok = err == nil && n >= 0
	}
	return min(n, all), ok
}

// errorLevel is the level of warnings that are errors.
const errorLevel = "Error"

// countWarnings is how many warnings or errors the statement before left.
func (c *Conn) countWarnings(errors bool) int64 {
	n := int64(0)
	for _, w := range c.Warnings() {
		if !errors || w.Level == errorLevel {
			n++
		}
	}
	return n
}
