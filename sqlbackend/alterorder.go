package sqlbackend

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// runClauses runs the clauses of an ALTER TABLE one by one, each with the table's columns in the order in which those before it have
// left them. The frontend plans all clauses before it runs the first, and leaves out what they say about places: rows would be taken
// for ones in the order of the old table.
func (b *rootBuilder) runClauses(ctx *sql.Context, block *plan.Block) ([]sql.Row, error) {
	rows := nothingChanged()
	for _, clause := range block.Children() {
		clause, err := inTableOrder(ctx, clause)
		if err != nil {
			return nil, err
		}
		said, err := b.runClause(ctx, clause)
		if err != nil {
			return nil, err
		}
		if len(said) > 0 {
			rows = said
		}
	}
	return rows, nil
}

// runClause runs one clause.
func (b *rootBuilder) runClause(ctx *sql.Context, clause sql.Node) ([]sql.Row, error) {
	if addsKeyExpressions(clause) {
		return createKeyExpressions(ctx, clause.(*plan.AlterIndex))
	}
	if c, ok := clause.(*plan.CreateCheck); ok && (c.Check.Name == "" || !c.Check.Enforced) {
		t, err := tableNow(ctx, c.Table)
		if err != nil {
			return nil, err
		}
		if !c.Check.Enforced { // the frontend would try the rows
			def, err := plan.NewCheckDefinition(ctx, c.Check, sql.GetSchemaFormatter(sql.EngineOverrides{}))
			if err != nil {
				return nil, err
			}
			return nothingChanged(), t.CreateCheck(ctx, def)
		}
		named, check := *c, *c.Check
		check.Name = t.info.shape.freeCheckName(t.Name()) // for its error
		named.Check = &check
		clause = &named
	}
	clause, err := unconverted(ctx, clause)
	if err != nil {
		return nil, err
	}
	if table, check, on, ok := enforcement(clause); ok {
		t, err := tableNow(ctx, table)
		if err == nil {
			err = t.enforce(ctx, check, on)
		}
		return nothingChanged(), err
	}
	if t, index, err := dropsKeyExpressions(ctx, clause); err != nil || t != nil {
		if err == nil {
			err = t.DropIndex(ctx, index)
		}
		return nothingChanged(), err
	}
	return b.run(ctx, clause)
}

// unconverted is a clause whose generated columns the frontend does not convert to their types: it fails where a conversion needs what
// an inserted row is given, and they are computed anew when the rows are stored. Defaults are not: they stay as they are.
func unconverted(ctx *sql.Context, clause sql.Node) (sql.Node, error) {
	target, ok := clause.(sql.SchemaTarget)
	if !ok {
		return clause, nil
	}
	columns := target.TargetSchema()
	switch c := clause.(type) {
	case *plan.AddColumn:
		columns = append(slices.Clone(columns), c.Column())
	case *plan.ModifyColumn:
		columns = append(slices.Clone(columns), c.NewColumn())
	}
	n, _, err := transform.OneNodeExpressions(ctx, clause, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		w, ok := e.(*expression.Wrapper)
		if !ok {
			return e, transform.SameTree, nil
		}
		d, ok := w.Unwrap().(*sql.ColumnDefaultValue)
		if !ok || d == nil || !slices.ContainsFunc(columns, func(c *sql.Column) bool { return c.Generated == d }) {
			return e, transform.SameTree, nil
		}
		plain := *d
		plain.OutType = nil
		return expression.WrapExpression(&plain), transform.NewTree, nil
	})
	return n, err
}

// inTableOrder is a clause whose columns are in the order they have in its table now.
func inTableOrder(ctx *sql.Context, clause sql.Node) (sql.Node, error) {
	target, ok := clause.(sql.SchemaTarget)
	if !ok || len(target.TargetSchema()) == 0 {
		return clause, nil
	}
	var table *plan.ResolvedTable
	for _, c := range clause.Children() {
		if t, ok := c.(*plan.ResolvedTable); ok {
			table = t
		}
	}
	if table == nil {
		return clause, nil
	}
	now, ok, err := table.SqlDatabase.GetTableInsensitive(ctx, table.Name())
	if err != nil || !ok {
		return clause, err
	}
	place := map[string]int{}
	for i, c := range now.Schema(ctx) {
		place[strings.ToLower(c.Name)] = i
	}
	last := len(place)
	at := func(c *sql.Column) int {
		if i, ok := place[strings.ToLower(c.Name)]; ok {
			return i
		}
		return last
	}
	schema := slices.Clone(target.TargetSchema())
	slices.SortStableFunc(schema, func(a, b *sql.Column) int { return at(a) - at(b) })
	return target.WithTargetSchema(schema)
}
