package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// A table keeps the expressions of its columns and checks as texts. Those the frontend prints of them are not always ones it can read:
// FIND_IN_SET becomes find_in_set(a from b). So every text is read once before it is kept, and where it is not what it was, the client's
// own words take its place, or those the table had before.

// definitionReader reads texts of expressions over the columns of a table.
type definitionReader struct {
	ctx             *sql.Context
	database, table string
	columns         sql.Schema
	said            []string // what else may be the text of an expression: the statement's words, and what the table had
	asked           bool     // said is filled in
}

// read returns what the frontend prints of an expression's text.
func (r *definitionReader) read(text string) (string, error) {
	e, err := resolveOver(r.ctx, text, r.database, r.table, r.columns)
	if err != nil {
		return "", err
	}
	if err := connOf(r.ctx).provider.operators.validateOperands(r.ctx, e); err != nil {
		return "", err
	}
	return printed(r.ctx, e), nil
}

// validateOperands refuses operands of several columns where one is wanted, which the frontend does not look for in definitions.
func (o *operators) validateOperands(ctx *sql.Context, e sql.Expression) error {
	a := o.front.Analyzer
	for _, b := range a.Batches {
		for _, r := range b.Rules {
			if r.Id != ruleNamed("validateOperands") {
				continue
			}
			n := plan.NewProject(ctx, []sql.Expression{e}, plan.NewEmptyTableWithSchema(nil))
			_, _, err := r.Apply(ctx, a, n, nil, func(analyzer.RuleId) bool { return true }, &sql.QueryFlags{})
			return err
		}
	}
	return nil
}

// readable returns a text of the expression that is printed as text: this one, as the frontend prints it, or other words for it, without
// parentheses around them.
func (r *definitionReader) readable(text string, former []*shape) (string, error) {
	as, err := r.read(text)
	if err == nil && (as == text || "("+as+")" == text) {
		return text, nil
	}
	if e, perr := parseExpression(text); perr == nil && knownColumns(e, r.columns) != nil {
		return text, nil // Why: a column gets that name in a moment; of others the frontend has refused it
	}
	if !r.asked {
		r.said, r.asked = saidExpressions(r.ctx), true
		for _, s := range former {
			for _, c := range s.Columns {
				for _, t := range []*string{c.Generated, c.Default} {
					if isExpressionText(t) {
						r.said = append(r.said, (*t)[1:len(*t)-1])
					}
				}
			}
			for _, c := range s.Checks {
				r.said = append(r.said, c.Expression)
			}
		}
	}
	for _, words := range r.said {
		if as, werr := r.read(words); werr == nil && (as == text || "("+as+")" == text) {
			return words, nil
		}
	}
	return text, err
}

// isExpressionText reports whether the text of a default is an expression, not a literal.
func isExpressionText(t *string) bool {
	return t != nil && strings.HasPrefix(*t, "(") && strings.HasSuffix(*t, ")")
}

// keepReadable makes the texts of a table's expressions ones that can be read. former are tables they may come from.
func (s *shape) keepReadable(ctx *sql.Context, database, table string, former ...*shape) error {
	r, err := s.reader(ctx, database, table)
	if err != nil {
		return err
	}
	for i := range s.Columns {
		c := &s.Columns[i]
		for _, t := range []**string{&c.Generated, &c.Default} {
			if !isExpressionText(*t) {
				continue
			}
			text, err := r.readable(**t, former)
			if err != nil {
				return err
			}
			if text != **t {
				text = "(" + text + ")"
			}
			*t = &text
		}
	}
	for i := range s.Checks {
		if s.Checks[i].Expression, err = r.readable(s.Checks[i].Expression, former); err != nil {
			return err
		}
	}
	return nil
}

// reader reads over the columns of a shape.
func (s *shape) reader(ctx *sql.Context, database, table string) (*definitionReader, error) {
	r := &definitionReader{ctx: ctx, database: database, table: table}
	for _, c := range s.Columns {
		typ, err := parseType(ctx, c.Type, c.Collation)
		if err != nil {
			return nil, err
		}
		r.columns = append(r.columns, &sql.Column{Name: c.Name, Type: typ, Nullable: c.Nullable})
	}
	return r, nil
}

// printed is what the frontend prints of an expression, with the names of columns alone.
func printed(ctx *sql.Context, e sql.Expression) string {
	bare, _, err := transform.Expr(ctx, e, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		f, ok := e.(*expression.GetField)
		if !ok {
			return e, transform.SameTree, nil
		}
		bare := expression.NewGetField(f.Index(), f.Type(ctx), f.Name(), f.IsNullable(ctx))
		return bare.WithQuotedNames(sql.DefaultMySQLSchemaFormatter, true), transform.NewTree, nil
	})
	if err != nil {
		return e.String()
	}
	return bare.String()
}

// saidExpressions are the expressions of the running definition in the client's words.
func saidExpressions(ctx *sql.Context) (list []string) {
	c := connOf(ctx)
	if c == nil {
		return nil
	}
	add := func(e sqlparser.Expr) {
		for inner, ok := e.(*sqlparser.ParenExpr); ok; inner, ok = e.(*sqlparser.ParenExpr) {
			e = inner.Expr
		}
		switch f := e.(type) {
		case nil:
		case *sqlparser.FuncExpr:
			if v, ok := argument(f, 0).(*sqlparser.SQLVal); ok && f.Name.EqualString(keyExpressionName) {
				list = append(list, string(v.Val))
				return
			}
			list = append(list, wordsOf(e))
		default:
			list = append(list, wordsOf(e))
		}
	}
	indexed := func(fields []*sqlparser.IndexField) {
		for _, f := range fields {
			add(f.Expression)
		}
	}
	ddl := func(d *sqlparser.DDL) {
		if d.IndexSpec != nil {
			indexed(d.IndexSpec.Fields)
		}
		if d.DefaultSpec != nil {
			add(d.DefaultSpec.Value)
		}
		if d.TableSpec == nil {
			return
		}
		for _, c := range d.TableSpec.Columns {
			add(c.Type.GeneratedExpr)
			add(c.Type.Default)
		}
		for _, c := range d.TableSpec.Constraints {
			if check, ok := c.Details.(*sqlparser.CheckConstraintDefinition); ok {
				add(check.Expr)
			}
		}
		for _, x := range detachedIndexes(d) {
			indexed(x.Fields)
		}
	}
	switch s := c.stmt.marked.(type) {
	case *sqlparser.DDL:
		ddl(s)
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			ddl(d)
		}
	}
	return list
}

// wordsOf is the text of an expression, with the syntax that calls stand for.
func wordsOf(e sqlparser.Expr) string {
	b := sqlparser.NewTrackedBuffer(func(b *sqlparser.TrackedBuffer, n sqlparser.SQLNode) {
		f, ok := n.(*sqlparser.FuncExpr)
		switch {
		case ok && f.Name.EqualString(literalName):
			b.Myprintf("%v", argument(f, 0))
		case ok && f.Name.EqualString(extractName):
			if unit, text := argument(f, 0).(*sqlparser.SQLVal); text {
				b.Myprintf("extract(%s from %v)", string(unit.Val), argument(f, 1))
			}
		default:
			n.Format(b)
		}
	})
	b.Myprintf("%v", e)
	return b.String()
}

// shownAs is SHOW CREATE TABLE of a table of which some expressions are kept in other words than the frontend's.
func (t *Table) shownAs(ctx *sql.Context, n *plan.ShowCreateTable) (*plan.ShowCreateTable, error) {
	schema := n.TargetSchema()
	changed := false
	for i, c := range schema {
		at := t.info.shape.column(c.Name)
		if at < 0 {
			continue
		}
		kept := t.info.shape.Columns[at]
		differs := func(d *sql.ColumnDefaultValue, text *string) bool {
			return d != nil && isExpressionText(text) && d.Resolved() && "("+printed(ctx, d.Expr)+")" != *text
		}
		if !differs(c.Generated, kept.Generated) && !differs(c.Default, kept.Default) {
			continue
		}
		if !changed {
			schema, changed = schema.Copy(), true
		}
		inWords := func(d *sql.ColumnDefaultValue, text *string) *sql.ColumnDefaultValue {
			if !differs(d, text) {
				return d
			}
			words := sql.NewUnresolvedColumnDefaultValue(strings.TrimSuffix(strings.TrimPrefix(*text, "("), ")")) // which it adds again
			words.OutType = d.OutType
			return words
		}
		schema[i].Generated, schema[i].Default = inWords(c.Generated, kept.Generated), inWords(c.Default, kept.Default)
	}
	if !changed {
		return n, nil
	}
	with, err := n.WithTargetSchema(schema)
	if err != nil {
		return nil, err
	}
	return with.(*plan.ShowCreateTable), nil
}
