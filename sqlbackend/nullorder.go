package sqlbackend

import (
	"slices"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// dropNullOrder takes ORDER BY NULL out of queries. It says that no order is wanted; the frontend sorts by it, and then does not
// recognise what is grouped below.
func dropNullOrder(stmt sqlparser.Statement) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch q := n.(type) {
		case *sqlparser.Select:
			q.OrderBy = withoutNulls(q.OrderBy)
		case *sqlparser.SetOp:
			q.OrderBy = withoutNulls(q.OrderBy)
		}
		return true, nil
	}, stmt)
}

func withoutNulls(by sqlparser.OrderBy) sqlparser.OrderBy {
	null := func(o *sqlparser.Order) bool {
		_, ok := o.Expr.(*sqlparser.NullVal)
		return ok
	}
	if !slices.ContainsFunc(by, null) {
		return by
	}
	return slices.DeleteFunc(slices.Clone(by), null)
}
