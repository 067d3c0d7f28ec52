package sqlbackend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/errs"
)

// Indexes over expressions. The frontend resolves their expressions before the table has the columns: in CREATE TABLE there are none, in
// ALTER TABLE those of before the statement. So they are taken out of the syntax tree, travel in it as texts, and are made with the
// table, or with what the other clauses have made of it.

// keyExpressionOption is the table option that holds such an index, as it stands in the statement.
const keyExpressionOption = "lancesql index over expressions"

// detachKeyExpressions takes indexes over expressions out of a CREATE TABLE.
func detachKeyExpressions(s *sqlparser.DDL) {
	if s.TableSpec == nil || !strings.EqualFold(s.Action, sqlparser.CreateStr) {
		return
	}
	var plain []*sqlparser.IndexDefinition
	for _, x := range s.TableSpec.Indexes {
		expressions := false
		for _, f := range x.Fields {
			expressions = expressions || f.Expression != nil
		}
		if !expressions || x.Info.Primary {
			plain = append(plain, x)
			continue
		}
		s.TableSpec.TableOpts = append(s.TableSpec.TableOpts, &sqlparser.TableOption{Name: keyExpressionOption, Value: sqlparser.String(x)})
	}
	s.TableSpec.Indexes = plain
}

// detachedIndexes are the indexes that were taken out of a definition.
func detachedIndexes(s *sqlparser.DDL) (list []*sqlparser.IndexDefinition) {
	for _, o := range s.TableSpec.TableOpts {
		if o.Name != keyExpressionOption {
			continue
		}
		if stmt, err := sqlparser.Parse("CREATE TABLE t (c INT, " + o.Value + ")"); err == nil { // what was parsed and printed
			list = append(list, stmt.(*sqlparser.DDL).TableSpec.Indexes...)
		}
	}
	return list
}

// keyExpressionName is the function that stands for an expression of an index in ALTER TABLE and CREATE INDEX: its argument is the
// text. Why: the frontend resolves it over the columns the table had before the statement, and adds its hidden column to those.
const keyExpressionName = "lancesql key expression"

// keepKeyExpressions makes the expressions of indexes that an ALTER TABLE or a CREATE INDEX adds texts.
func keepKeyExpressions(stmt sqlparser.Statement) {
	keep := func(d *sqlparser.DDL) {
		if d.IndexSpec == nil {
			return
		}
		for _, f := range d.IndexSpec.Fields {
			if f.Expression != nil {
				f.Expression = call(keyExpressionName, sqlparser.NewStrVal([]byte(sqlparser.String(f.Expression))))
			}
		}
	}
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		keep(s)
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			keep(d)
		}
	}
}

// keyExpressionOf is the text of an index's part that is an expression.
func keyExpressionOf(e sql.Expression) (text string, ok bool) {
	o, ok := e.(*operator)
	if !ok || o.name != keyExpressionName {
		return "", false
	}
	l, ok := o.args[0].(*expression.Literal)
	if !ok {
		return "", false
	}
	text, ok = l.Value().(string)
	return text, ok
}

// addsKeyExpressions reports whether a clause adds an index over expressions.
func addsKeyExpressions(n sql.Node) bool {
	a, ok := n.(*plan.AlterIndex)
	return ok && a.Action == plan.IndexAction_Create && slices.ContainsFunc(a.Columns, func(c sql.IndexColumn) bool {
		_, kept := keyExpressionOf(c.Expression)
		return kept
	})
}

// dropsKeyExpressions returns the table of which a clause drops an index over expressions, as the clauses before it have left it; nil if
// it does something else. Why: the frontend would drop the hidden columns from the table as it was.
func dropsKeyExpressions(ctx *sql.Context, n sql.Node) (*Table, string, error) {
	a, ok := n.(*plan.AlterIndex)
	if !ok || a.Action != plan.IndexAction_Drop {
		return nil, "", nil
	}
	t, err := tableNow(ctx, a.Table)
	if err != nil {
		return nil, "", err
	}
	if x := t.info.shape.index(a.IndexName); x == nil || len(x.expressions()) == 0 {
		return nil, "", nil
	}
	return t, a.IndexName, nil
}

// tableNow is a table of a clause as the clauses before it have left it.
func tableNow(ctx *sql.Context, n sql.Node) (*Table, error) {
	rt, ok := n.(*plan.ResolvedTable)
	if !ok {
		return nil, plan.ErrNotIndexable.New()
	}
	found, ok, err := rt.SqlDatabase.GetTableInsensitive(ctx, rt.Name())
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, sql.ErrTableNotFound.New(rt.Name())
	}
	t, ok := found.(*Table)
	if !ok {
		return nil, plan.ErrNotIndexable.New()
	}
	return t, nil
}

// createKeyExpressions performs a clause that adds one on the table as the clauses before it have left it.
func createKeyExpressions(ctx *sql.Context, n *plan.AlterIndex) ([]sql.Row, error) {
	t, err := tableNow(ctx, n.Table)
	if err != nil {
		return nil, err
	}
	def := sql.IndexDef{Name: n.IndexName, Columns: slices.Clone(n.Columns), Constraint: n.Constraint, Storage: n.Using, Comment: n.Comment}
	for i, c := range def.Columns {
		text, kept := keyExpressionOf(c.Expression)
		if !kept {
			continue
		}
		e, err := parseExpression(text)
		if err != nil {
			return nil, err
		}
		if def.Columns[i].Expression, err = keyExpression(ctx, e, def.Name, t.Database(), t.Name(), t.Schema(ctx)); err != nil {
			return nil, err
		}
	}
	return nothingChanged(), t.CreateIndex(ctx, def)
}

// nothingChanged is the result of a definition.
func nothingChanged() []sql.Row { return []sql.Row{sql.NewRow(types.NewOkResult(0))} }

// parseExpression parses the text of an expression.
func parseExpression(text string) (sqlparser.Expr, error) {
	stmt, err := sqlparser.Parse("SELECT " + text)
	if err != nil {
		return nil, err
	}
	if s, ok := stmt.(*sqlparser.Select); ok && len(s.SelectExprs) == 1 {
		if a, ok := s.SelectExprs[0].(*sqlparser.AliasedExpr); ok {
			return a.Expr, nil
		}
	}
	return nil, fmt.Errorf("expression %s: %w", text, errs.ErrInvalid)
}

// addKeyExpressions notes the indexes over expressions of the running CREATE TABLE. columns are those of the table.
func (s *shape) addKeyExpressions(ctx *sql.Context, database, table string, columns sql.Schema) error {
	c := connOf(ctx)
	if c == nil {
		return nil
	}
	ddl, ok := c.stmt.marked.(*sqlparser.DDL)
	if !ok || ddl.TableSpec == nil || !strings.EqualFold(ddl.Table.Name.String(), table) {
		return nil
	}
	detached := detachedIndexes(ddl)
	if len(detached) > 0 && ddl.OptSelect != nil {
		return notSupported("CREATE TABLE … SELECT with an index over an expression")
	}
	for _, x := range detached {
		def, err := indexOver(ctx, x, database, table, columns)
		if err != nil {
			return err
		}
		if err := s.addIndex(ctx, def); err != nil {
			return err
		}
	}
	return nil
}

// indexOver is an index definition with its expressions resolved over the table's columns.
func indexOver(ctx *sql.Context, x *sqlparser.IndexDefinition, database, table string, columns sql.Schema) (*sql.IndexDef, error) {
	def := &sql.IndexDef{Name: x.Info.Name.String()}
	if x.Info.Unique {
		def.Constraint = sql.IndexConstraint_Unique
	}
	for _, o := range x.Options {
		if strings.EqualFold(o.Name, "comment") && o.Value != nil {
			def.Comment = string(o.Value.Val)
		}
	}
	for _, f := range x.Fields {
		part := sql.IndexColumn{Name: f.Column.String()}
		switch {
		case f.Expression != nil:
			var err error
			if part.Expression, err = keyExpression(ctx, f.Expression, def.Name, database, table, columns); err != nil {
				return nil, err
			}
		case columns.IndexOfColName(part.Name) < 0:
			return nil, sql.ErrKeyColumnDoesNotExist.New(part.Name)
		case f.Length != nil:
			if _, err := fmt.Sscan(string(f.Length.Val), &part.Length); err != nil {
				return nil, fmt.Errorf("length of key part %s: %w", part.Name, errs.ErrInvalid)
			}
		}
		def.Columns = append(def.Columns, part)
	}
	return def, nil
}

// keyExpression is an expression of an index, resolved over the table's columns.
func keyExpression(ctx *sql.Context, e sqlparser.Expr, index, database, table string, columns sql.Schema) (sql.Expression, error) {
	bare := e
	for inner, ok := bare.(*sqlparser.ParenExpr); ok; inner, ok = bare.(*sqlparser.ParenExpr) {
		bare = inner.Expr
	}
	if _, column := bare.(*sqlparser.ColName); column {
		return nil, newError(3756, "Functional index on a column is not supported. Consider using a regular index instead.")
	}
	if err := knownColumns(bare, columns); err != nil {
		return nil, err
	}
	resolved, err := resolveOver(ctx, sqlparser.String(e), database, table, columns)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(index, "functional_index")
	disallowed := ""
	transform.InspectExpr(ctx, resolved, func(_ *sql.Context, e sql.Expression) bool {
		if n, ok := e.(sql.NonDeterministicExpression); ok && n.IsNonDeterministic() {
			disallowed, _, _ = strings.Cut(e.String(), "(")
		}
		return disallowed != ""
	})
	if disallowed != "" {
		return nil, newError(3758, "Expression of functional index '%s' contains a disallowed function.", name)
	}
	if t := resolved.Type(ctx); types.IsJSON(t) || types.IsGeometry(t) {
		return nil, newError(3753, "Cannot create a functional index on an expression that returns a JSON or GEOMETRY value.")
	}
	return resolved, nil
}

// columnBuilder resolves expressions of columns, with the functions and the grammar of statements. Why not the frontend's builder for
// this: it has its own functions, and no other ones.
func columnBuilder(ctx *sql.Context) (*planbuilder.Builder, error) {
	c := connOf(ctx)
	if c == nil || c.provider == nil || c.provider.operators == nil {
		return nil, fmt.Errorf("expressions of columns outside of a session: %w", errs.ErrUnsupported)
	}
	return planbuilder.New(ctx, c.provider.operators.front.Analyzer.Catalog, nil), nil
}

// resolved is the table with the expressions of its stored generated columns resolved. Why: while it performs a definition the frontend
// resolves them by its own functions.
func (t *Table) resolved(ctx *sql.Context) (rt *Table, err error) {
	stored := func(c *sql.Column) bool { return c.Generated != nil && !c.Virtual && !c.Generated.Resolved() }
	if !slices.ContainsFunc(t.schema, stored) {
		return t, nil
	}
	defer recovered("generated columns of "+t.Name(), &err)
	b, err := columnBuilder(ctx)
	if err != nil {
		return nil, err
	}
	nt := *t
	nt.schema = make(sql.Schema, len(t.schema))
	for i, c := range t.schema {
		nt.schema[i] = c.Copy()
	}
	nt.schema = b.ResolveSchemaDefaults(t.Database(), t.Name(), nt.schema)
	return &nt, nil
}

// recovered makes an error of what the frontend's builder says by a panic.
func recovered(what string, err *error) {
	switch r := recover().(type) {
	case nil:
	case error:
		*err = r
	default:
		*err = fmt.Errorf("%s: %v: %w", what, r, errs.ErrInvalid)
	}
}

// knownColumns fails if an expression names a column that the table has not.
func knownColumns(e sqlparser.Expr, columns sql.Schema) error {
	return sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if c, ok := n.(*sqlparser.ColName); ok && columns.IndexOfColName(c.Name.Lowered()) < 0 {
			return false, newError(1054, "Unknown column '%s' in 'functional index'", c.Name)
		}
		return true, nil
	}, e)
}

// resolveOver resolves the text of an expression over the columns of a table.
func resolveOver(ctx *sql.Context, text, database, table string, columns sql.Schema) (e sql.Expression, err error) {
	defer recovered("index over "+text, &err)
	b, err := columnBuilder(ctx)
	if err != nil {
		return nil, err
	}
	schema := make(sql.Schema, len(columns), len(columns)+1)
	for i, c := range columns {
		schema[i] = c.Copy()
		schema[i].Source, schema[i].DatabaseSource = table, database
		schema[i].Default, schema[i].OnUpdate, schema[i].Generated = nil, nil, nil
	}
	text = "(" + text + ")"
	schema = append(schema, &sql.Column{Name: "!hidden!index", Type: columns[0].Type, Nullable: true, Source: table, DatabaseSource: database,
		Generated: unresolvedDefault(&text), Virtual: true, HiddenSystem: true})
	schema = b.ResolveSchemaDefaults(database, table, schema)
	return schema[len(columns)].Generated.Expr, nil
}
