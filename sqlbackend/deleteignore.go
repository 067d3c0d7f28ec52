package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// DELETE IGNORE, which the frontend's grammar lacks: rows that other tables refer to stay, with a warning each.

// deleteIgnoreMark in a DELETE says that the client wrote IGNORE.
const deleteIgnoreMark = "/*lancesql: ignore*/"

// rewriteDeleteIgnore makes a mark of IGNORE behind DELETE.
func rewriteDeleteIgnore(query string, options sqlparser.ParserOptions) string {
	switch strings.ToLower(firstWord(query)) {
	case "delete", "with", "explain":
	default:
		return query
	}
	if !containsFold(query, "ignore") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok {
		return query
	}
	depth := depths(list)
	for i := 0; i+1 < len(list); i++ {
		if list[i].kind != sqlparser.DELETE || depth[i] > 0 || !list[i+1].isWord("ignore") || !endsWith(query, list[i+1].to, "ignore") {
			continue
		}
		return applyEdits(query, []edit{{from: list[i+1].to - len("ignore"), to: list[i+1].to, by: deleteIgnoreMark, silent: true}})
	}
	return query
}

// ignoresDeletes reports whether a DELETE has the mark.
func ignoresDeletes(d *sqlparser.Delete) bool {
	for _, c := range d.Comments {
		if strings.Contains(string(c), deleteIgnoreMark) {
			return true
		}
	}
	return false
}

// ignoreReferences makes a DELETE leave rows alone that other tables refer to.
func (c *Conn) ignoreReferences(n sql.Node) sql.Node {
	d, ok := n.(*plan.DeleteFrom)
	if !ok || !c.stmt.ignores {
		return n
	}
	targets := make([]sql.Node, len(d.GetDeleteTargets()))
	for i, t := range d.GetDeleteTargets() {
		targets[i] = t
		if table, err := plan.GetDeletable(t); err == nil {
			targets[i] = &ignoringDeletes{Node: t, table: table}
		}
	}
	return d.WithTargets(targets)
}

// ignoringDeletes is a table rows are deleted from, if no others refer to them.
type ignoringDeletes struct {
	sql.Node
	table sql.DeletableTable
}

var _ sql.DeletableTable = (*ignoringDeletes)(nil)

// Name implements sql.Table.
func (d *ignoringDeletes) Name() string { return d.table.Name() }

// Collation implements sql.Table.
func (d *ignoringDeletes) Collation() sql.CollationID { return d.table.Collation() }

// Partitions implements sql.Table.
func (d *ignoringDeletes) Partitions(ctx *sql.Context) (sql.PartitionIter, error) {
	return d.table.Partitions(ctx)
}

// PartitionRows implements sql.Table.
func (d *ignoringDeletes) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	return d.table.PartitionRows(ctx, p)
}

// Deleter implements sql.DeletableTable.
func (d *ignoringDeletes) Deleter(ctx *sql.Context) sql.RowDeleter {
	return &ignoringDeleter{d.table.Deleter(ctx)}
}

type ignoringDeleter struct{ sql.RowDeleter }

// Delete implements sql.RowDeleter. What it has deleted in other tables for a row that stays is undone.
func (d *ignoringDeleter) Delete(ctx *sql.Context, row sql.Row) error {
	c := connOf(ctx)
	mark := c.mark()
	err := d.RowDeleter.Delete(ctx, row)
	if err == nil || !isKind(causes(err), sql.ErrForeignKeyParentViolation) {
		return err
	}
	c.rollbackTo(mark)
	c.stmt.kept++
	mapped := MapError(err)
	if e := sql.CastSQLError(mapped); e != nil {
		ctx.Warn(e.Num, "%s", e.Message)
	}
	return nil
}
