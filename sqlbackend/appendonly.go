package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
)

// An append-only table is an attached dataset without a primary key. Rows can be inserted and read; nothing names a row,
// so statements that change rows or the definition are refused.

// appendOnlyComment is the comment of such tables, for SHOW CREATE TABLE: no other part of it would say so.
const appendOnlyComment = "append-only"

func (t *tableInfo) appendOnly() bool { return t.shape.AppendOnly }

// errAppendOnly is error 1235 for a statement.
func (t *tableInfo) errAppendOnly(what string) error {
	return notSupported(what + " of append-only table " + t.entry.Database + "." + t.entry.Name + ", which has no primary key")
}

// refuseAppendOnly refuses a statement that would change rows of an append-only table, before it looks for them. Of several
// tables the editor tells which one is meant.
func refuseAppendOnly(n sql.Node) error {
	what := ""
	var target any
	var err error
	switch n := n.(type) {
	case *plan.TriggerExecutor:
		return refuseAppendOnly(n.Left())
	case *plan.InsertInto:
		switch {
		case n.IsReplace:
			what = "REPLACE"
		case n.OnDupExprs != nil && n.OnDupExprs.HasUpdates():
			what = "INSERT … ON DUPLICATE KEY UPDATE"
		default:
			return nil
		}
		target, err = plan.GetInsertable(n.Destination)
	case *plan.Update:
		if n.IsJoin {
			return nil
		}
		what = "UPDATE"
		target, err = plan.GetUpdatable(n.Child)
	case *plan.DeleteFrom:
		if len(n.GetDeleteTargets()) != 1 {
			return nil
		}
		what = "DELETE"
		target, err = plan.GetDeletable(n.GetDeleteTargets()[0])
	}
	if t, ok := target.(*Table); ok && err == nil && t.info.appendOnly() {
		return t.info.errAppendOnly(what)
	}
	return nil // what is no table of ours the frontend refuses in its own words
}
