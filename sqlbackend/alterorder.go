package sqlbackend

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
)

// placesColumns reports whether a clause of an ALTER TABLE says where a column goes.
func placesColumns(ctx *sql.Context, n sql.Node) bool {
	switch n := n.(type) {
	case *plan.AddColumn:
		return n.Order(ctx) != nil
	case *plan.ModifyColumn:
		return n.Order(ctx) != nil
	}
	return false
}

// runClauses runs the clauses of an ALTER TABLE one by one, each with the table's columns in the order in which those before it have
// left them. The frontend plans all clauses before it runs the first, and leaves out what they say about places: rows would be taken
// for ones in the order of the old table.
func (b *rootBuilder) runClauses(ctx *sql.Context, block *plan.Block) ([]sql.Row, error) {
	var rows []sql.Row
	for _, clause := range block.Children() {
		clause, err := inTableOrder(ctx, clause)
		if err != nil {
			return nil, err
		}
		if rows, err = b.run(ctx, clause); err != nil {
			return nil, err
		}
	}
	return rows, nil
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
