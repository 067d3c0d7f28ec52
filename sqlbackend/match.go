package sqlbackend

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/sqlbackend/fulltext"
)

// FULLTEXT indexes are remembered and shown, and say that MATCH may name their columns. MATCH … AGAINST reads the texts themselves: how
// rare a word is among all rows takes one scan of the columns for each statement (docs/decisions/0020).
//
// Why the frontend is told nothing of them: it keeps such an index in five tables of its own, which it writes beside ours.

// kindFulltext is the kind of a FULLTEXT index; fulltextMark begins its comment on its way through the frontend, which takes it for
// an ordinary index over prefixes.
const (
	kindFulltext = "fulltext"
	fulltextMark = "\x00fulltext "
)

// markFulltext makes the FULLTEXT indexes of a definition ordinary ones with the mark.
func markFulltext(stmt sqlparser.Statement) {
	mark := func(fields []*sqlparser.IndexField, columns []*sqlparser.ColumnDefinition, options []*sqlparser.IndexOption) []*sqlparser.IndexOption {
		for _, f := range fields {
			text := func(c *sqlparser.ColumnDefinition) bool {
				return !c.Name.Equal(f.Column) || strings.HasSuffix(strings.ToLower(c.Type.Type), "text") || strings.HasSuffix(strings.ToLower(c.Type.Type), "char")
			}
			if !slices.ContainsFunc(columns, func(c *sqlparser.ColumnDefinition) bool { return !text(c) }) {
				f.Length = sqlparser.NewIntVal([]byte("1")) // the frontend wants a length for TEXT, and none for numbers
			}
		}
		comment := fulltextMark
		var others []*sqlparser.IndexOption
		for _, o := range options {
			if strings.EqualFold(o.Name, "comment") && o.Value != nil {
				comment += string(o.Value.Val)
				continue
			}
			others = append(others, o)
		}
		return append(others, &sqlparser.IndexOption{Name: sqlparser.KeywordString(sqlparser.COMMENT_KEYWORD), Value: sqlparser.NewStrVal([]byte(comment))})
	}
	one := func(d *sqlparser.DDL) {
		if d.IndexSpec != nil && strings.EqualFold(d.IndexSpec.Type, sqlparser.FulltextStr) {
			d.IndexSpec.Type = ""
			d.IndexSpec.Options = mark(d.IndexSpec.Fields, nil, d.IndexSpec.Options)
		}
		if d.TableSpec == nil {
			return
		}
		for _, x := range d.TableSpec.Indexes {
			if x.Info.Fulltext {
				x.Info.Fulltext, x.Info.Type = false, "key"
				x.Options = mark(x.Fields, d.TableSpec.Columns, x.Options)
			}
		}
	}
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		one(s)
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			one(d)
		}
	}
}

// fulltextIndex is the index a marked definition stands for; false if it is none.
func (s *shape) fulltextIndex(def *sql.IndexDef) (idx shapeIndex, ok bool, err error) {
	comment, ok := strings.CutPrefix(def.Comment, fulltextMark)
	if !ok {
		return idx, false, nil
	}
	idx = shapeIndex{Name: def.Name, Comment: comment, Kind: kindFulltext}
	for _, c := range def.Columns {
		i := s.column(c.Name)
		if c.Expression != nil || i < 0 {
			return idx, true, newError(1283, "Column '%s' cannot be part of FULLTEXT index", c.Name)
		}
		t, err := parseType(sql.NewEmptyContext(), s.Columns[i].Type, s.Columns[i].Collation)
		if err != nil {
			return idx, true, err
		}
		if !types.IsTextOnly(t) {
			return idx, true, newError(1283, "Column '%s' cannot be part of FULLTEXT index", c.Name)
		}
		idx.Parts = append(idx.Parts, shapePart{Column: c.Name})
	}
	return idx, true, nil
}

// checkFulltext refuses a FULLTEXT index over a column that is no text any more.
func checkFulltext(x shapeIndex, columns sql.Schema, position map[string]int) error {
	for _, p := range x.Parts {
		i, ok := position[strings.ToLower(p.Column)]
		if !ok {
			return sql.ErrKeyColumnDoesNotExist.New(p.Column)
		}
		if !types.IsTextOnly(columns[i].Type) {
			return newError(1283, "Column '%s' cannot be part of FULLTEXT index", p.Column)
		}
	}
	return nil
}

// scans reports whether an index is one that narrows scans.
func (x *shapeIndex) scans() bool { return x.Kind == kindBitmap || x.Kind == kindBloom }

// matchName is the function that stands for MATCH (columns) AGAINST (search mode): mode, search, columns.
const matchName = "lancesql match"

// replacedMatch is that function in place of the syntax.
func replacedMatch(n *sqlparser.MatchExpr) sqlparser.Expr {
	args := []sqlparser.Expr{sqlparser.NewStrVal([]byte(n.Option)), n.Expr}
	for _, c := range n.Columns {
		a, ok := c.(*sqlparser.AliasedExpr)
		if !ok {
			return n
		}
		args = append(args, a.Expr)
	}
	return call(matchName, args...)
}

// matchFunction returns the function of that name.
func matchFunction(name string) (sql.Function, bool) {
	if name != matchName {
		return nil, false
	}
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) < 3 {
			return nil, sql.ErrInvalidArgumentNumber.New("MATCH", 3, len(args))
		}
		for _, c := range args[2:] {
			if _, ok := c.(*expression.GetField); !ok {
				return nil, newError(1210, "Incorrect arguments to MATCH")
			}
		}
		constant := !transform.InspectExpr(ctx, args[1], func(_ *sql.Context, e sql.Expression) bool {
			_, field := e.(*expression.GetField)
			return field
		})
		if !constant {
			return nil, newError(1210, "Incorrect arguments to AGAINST")
		}
		return &matchAgainst{mode: literalText(args[0]), search: args[1], columns: args[2:], asked: &matchState{}}, nil
	}}, true
}

// matchAgainst is the relevance of a row.
type matchAgainst struct {
	mode    string // as the syntax tree has it
	search  sql.Expression
	columns []sql.Expression
	table   *Table // whose columns they are; nil before bindMatches
	asked   *matchState
}

var _ sql.Expression = (*matchAgainst)(nil)

// matchState is what one statement knows about the search: shared by the copies of an expression.
type matchState struct {
	mu     sync.Mutex
	pid    uint64
	at     time.Time
	query  *fulltext.Query // nil: NULL, which finds nothing
	counts *fulltext.Counts
}

// Resolved implements sql.Expression.
func (m *matchAgainst) Resolved() bool {
	return m.search.Resolved() && !slices.ContainsFunc(m.columns, func(e sql.Expression) bool { return !e.Resolved() })
}

// String implements sql.Expression.
func (m *matchAgainst) String() string {
	names := make([]string, len(m.columns))
	for i, c := range m.columns {
		names[i] = c.String()
	}
	return "MATCH (" + strings.Join(names, ",") + ") AGAINST (" + m.search.String() + strings.ToUpper(m.mode) + ")"
}

// Type implements sql.Expression.
func (m *matchAgainst) Type(*sql.Context) sql.Type { return types.Float64 }

// IsNullable implements sql.Expression.
func (m *matchAgainst) IsNullable(*sql.Context) bool { return false }

// Children implements sql.Expression.
func (m *matchAgainst) Children() []sql.Expression {
	return append([]sql.Expression{m.search}, m.columns...)
}

// WithChildren implements sql.Expression.
func (m *matchAgainst) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1+len(m.columns) {
		return nil, sql.ErrInvalidChildrenNumber.New(m, len(children), 1+len(m.columns))
	}
	nm := *m
	nm.search, nm.columns = children[0], children[1:]
	return &nm, nil
}

// Eval implements sql.Expression.
func (m *matchAgainst) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	query, counts, err := m.ask(ctx)
	if err != nil || query == nil {
		return 0., err
	}
	texts := make([]string, len(m.columns))
	for i, c := range m.columns {
		v, err := c.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		if texts[i], err = textOf(ctx, v); err != nil {
			return nil, err
		}
	}
	d, err := fulltext.NewDocument(texts, m.fold)
	if err != nil {
		return nil, err
	}
	return query.Rank(d, counts), nil
}

// textOf is the text of a value, "" for NULL.
func textOf(ctx *sql.Context, v any) (string, error) {
	if v == nil {
		return "", nil
	}
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return "", err
	}
	v, _, err = types.LongText.Convert(ctx, v)
	s, _ := v.(string)
	return s, err
}

// fold is the key under which the columns' collation knows a word.
func (m *matchAgainst) fold(word string) (string, error) {
	c := sql.Collation_Default
	if t, ok := m.columns[0].Type(nil).(sql.StringType); ok {
		c = t.Collation()
	}
	if byteOrdered(c) {
		return word, nil
	}
	key, err := appendWeights(nil, c, word)
	if err != nil {
		return "", err
	}
	return string(key[:len(key)-1]), nil // without the end, so that words which begin so have it as their beginning
}

// ask parses the search and counts its words in the table, once in a statement.
func (m *matchAgainst) ask(ctx *sql.Context) (*fulltext.Query, *fulltext.Counts, error) {
	if m.table == nil {
		return nil, nil, errNoFulltext()
	}
	a := m.asked
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts != nil && a.pid == ctx.Pid() && a.at.Equal(ctx.QueryTime()) {
		return a.query, a.counts, nil
	}
	v, err := m.search.Eval(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	var query *fulltext.Query
	if v != nil {
		if query, err = m.parse(ctx, v); err != nil {
			return nil, nil, err
		}
	} else if query, err = fulltext.Natural("", m.fold); err != nil {
		return nil, nil, err
	}
	expands := strings.Contains(m.mode, "expansion")
	counts, found, err := m.count(ctx, query, expands)
	if err == nil && expands {
		query = query.Widened(found)
		counts, _, err = m.count(ctx, query, false)
	}
	if err != nil {
		return nil, nil, err
	}
	a.pid, a.at, a.query, a.counts = ctx.Pid(), ctx.QueryTime(), query, counts
	return query, counts, nil
}

func (m *matchAgainst) parse(ctx *sql.Context, v any) (*fulltext.Query, error) {
	text, err := textOf(ctx, v)
	if err != nil {
		return nil, err
	}
	if m.mode == sqlparser.BooleanModeStr {
		return fulltext.Boolean(text, m.fold)
	}
	return fulltext.Natural(text, m.fold)
}

// widenedFrom is how many rows a search WITH QUERY EXPANSION takes words from.
const widenedFrom = 20

// count reads the columns of all rows. For an expansion it returns rows that the query finds.
func (m *matchAgainst) count(ctx *sql.Context, q *fulltext.Query, expands bool) (*fulltext.Counts, []*fulltext.Document, error) {
	t := *m.table
	t.lookup, t.filter, t.within, t.projection = nil, nil, nil, nil
	for _, c := range m.columns {
		t.projection = append(t.projection, t.column(c.(*expression.GetField).Name()))
	}
	counts := fulltext.NewCounts(q)
	var found []*fulltext.Document
	texts := make([]string, len(m.columns))
	err := t.everyRow(ctx, func(row sql.Row) (err error) {
		for i, v := range row {
			if texts[i], err = textOf(ctx, v); err != nil {
				return err
			}
		}
		d, err := fulltext.NewDocument(texts, m.fold)
		if err != nil {
			return err
		}
		counts.Add(d)
		if expands && len(found) < widenedFrom && q.Finds(d) {
			found = append(found, d)
		}
		return nil
	})
	return counts, found, err
}

func errNoFulltext() error {
	return newError(1191, "Can't find FULLTEXT index matching the column list")
}

// bindMatches tells every MATCH of a plan its table, and has the rows that one finds come by their relevance where MySQL does that
// unasked: in natural language mode, of one table, without ORDER BY.
func bindMatches(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	tables, matches := make(map[sql.TableId]*Table), false
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		if id, ok := n.(plan.TableIdNode); ok {
			if t := tableOf(n); t != nil {
				tables[id.Id()] = t
			}
		}
		return true
	})
	transform.InspectExpressions(ctx, n, func(_ *sql.Context, e sql.Expression) bool {
		_, match := e.(*matchAgainst)
		matches = matches || match
		return true
	})
	if !matches {
		return n, transform.SameTree, nil
	}
	n, _, err := transform.NodeExprsWithOpaque(ctx, n, func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		m, ok := e.(*matchAgainst)
		if !ok {
			return e, transform.SameTree, nil
		}
		t := tables[m.columns[0].(*expression.GetField).TableId()]
		if t == nil {
			return e, transform.SameTree, nil // of a query around it; if of none, Eval says so
		}
		if !t.info.hasFulltext(m.columns) {
			return nil, transform.SameTree, errNoFulltext()
		}
		nm := *m
		nm.table = t
		return &nm, transform.NewTree, nil
	})
	if err != nil {
		return nil, transform.SameTree, err
	}
	c := connOf(ctx)
	if c == nil || !ordersByRelevance(c.stmt.marked) {
		return n, transform.NewTree, nil
	}
	n, _, err = transform.Node(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		f, ok := n.(*plan.Filter)
		if !ok {
			return n, transform.SameTree, nil
		}
		for _, e := range expression.SplitConjunction(ctx, f.Expression) {
			if m, ok := e.(*matchAgainst); ok && m.mode != sqlparser.BooleanModeStr {
				return plan.NewSort(sql.SortConditions{{Expr: m, Order: sql.Descending, NullOrdering: sql.NullsLast}}, f), transform.NewTree, nil
			}
		}
		return n, transform.SameTree, nil
	})
	return n, transform.NewTree, err
}

// ordersByRelevance reports whether a statement is a query of one table that says nothing about an order.
func ordersByRelevance(stmt sqlparser.Statement) bool {
	s, ok := stmt.(*sqlparser.Select)
	if !ok || len(s.OrderBy) > 0 || len(s.GroupBy) > 0 || len(s.From) != 1 {
		return false
	}
	_, ok = s.From[0].(*sqlparser.AliasedTableExpr)
	return ok
}

// hasFulltext reports whether a FULLTEXT index is over just these columns.
func (t *tableInfo) hasFulltext(columns []sql.Expression) bool {
	return slices.ContainsFunc(t.shape.Indexes, func(x shapeIndex) bool {
		if x.Kind != kindFulltext || len(x.Parts) != len(columns) {
			return false
		}
		for _, p := range x.Parts {
			if !slices.ContainsFunc(columns, func(e sql.Expression) bool { return strings.EqualFold(e.(*expression.GetField).Name(), p.Column) }) {
				return false
			}
		}
		return true
	})
}
