package sqlbackend

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// keyOrderBefore is the frontend's rule that leaves out a sort because an index has the order, preceded by ours: WHERE key1 = 1
// ORDER BY key2 [DESC] has the order of an index over both.
func keyOrderBefore(theirs analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		n, mine, err := transform.Node(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
			s, ok := n.(*plan.Sort)
			if !ok || len(s.SortConditions) == 0 {
				return n, transform.SameTree, nil
			}
			child, sorted, err := inKeyOrder(ctx, s.Child, 0, s.SortConditions)
			if err != nil || !sorted {
				return n, transform.SameTree, err
			}
			return child, transform.NewTree, nil
		})
		if err != nil {
			return nil, transform.SameTree, err
		}
		n, same, err := theirs(ctx, a, n, scope, sel, flags)
		return n, mine && same, err
	}
}

// inKeyOrder reads the table below n in an order; sorted is false if it cannot. alias is the table's number if it has a name
// of its own, else 0.
func inKeyOrder(ctx *sql.Context, n sql.Node, alias sql.TableId, by sql.SortConditions) (out sql.Node, sorted bool, err error) {
	switch n := n.(type) {
	case *plan.Project, *plan.Filter, *plan.TableAlias:
		if a, ok := n.(*plan.TableAlias); ok {
			alias = a.Id()
		}
		child, sorted, err := inKeyOrder(ctx, n.Children()[0], alias, by)
		if err != nil || !sorted {
			return nil, false, err
		}
		out, err = n.WithChildren(ctx, child)
		return out, err == nil, err
	case *plan.IndexedTableAccess:
		if !n.IsStatic() {
			return nil, false, nil
		}
		if alias == 0 {
			alias = n.Id()
		}
		lookup, _, err := n.GetLookup(ctx, nil)
		t := tableOf(n)
		if err != nil || t == nil || !t.hasOrder(ctx, lookup, alias, by) {
			return nil, false, err
		}
		if backward := by[0].Order == sql.Descending; backward != lookup.IsReverse {
			lookup = sql.NewIndexLookup(lookup.Index, lookup.Ranges.(sql.MySQLRangeCollection), lookup.IsPointLookup, lookup.IsEmptyRange, false, backward)
			if n, err = plan.NewStaticIndexedAccessForTableNode(ctx, n.TableNode, lookup); err != nil {
				return nil, false, err
			}
		}
		return n, true, nil
	}
	return nil, false, nil
}

// orderedChanges is keyOrderBefore for UPDATE and DELETE of one table, which the frontend plans without that rule. With a LIMIT and
// no condition the rows are read by an index that has their order.
func orderedChanges(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	changes := transform.InspectUp(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		switch n.(type) {
		case *plan.Update, *plan.DeleteFrom:
			return true
		}
		return false
	})
	if !changes {
		return n, transform.SameTree, nil
	}
	return transform.Node(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		switch n := n.(type) {
		case *plan.Sort:
			if child, sorted, err := inKeyOrder(ctx, n.Child, 0, n.SortConditions); err != nil || sorted {
				return child, transform.NewTree, err
			}
		case *plan.Limit:
			s, ok := n.Child.(*plan.Sort)
			if !ok {
				break
			}
			child, err := wholeInOrder(ctx, s.Child, s.SortConditions)
			if err != nil || child == nil {
				return n, transform.SameTree, err
			}
			out, err := n.WithChildren(ctx, child)
			return out, transform.NewTree, err
		}
		return n, transform.SameTree, nil
	})
}

// wholeInOrder reads a whole table by an index that has the order; nil if there is none.
func wholeInOrder(ctx *sql.Context, n sql.Node, by sql.SortConditions) (sql.Node, error) {
	source, ok := n.(*plan.ResolvedTable)
	t := tableOf(n)
	if !ok || t == nil || len(by) == 0 {
		return nil, nil
	}
	for _, x := range t.info.wholeIndexes() {
		all := make(sql.MySQLRange, len(x.columns))
		for i, c := range x.columns {
			all[i] = sql.AllRangeColumnExpr(boundType(t.schema[c].Type))
		}
		lookup := sql.NewIndexLookup(x, sql.MySQLRangeCollection{all}, false, false, false, by[0].Order == sql.Descending)
		if t.hasOrder(ctx, lookup, source.Id(), by) {
			return plan.NewStaticIndexedAccessForTableNode(ctx, source, lookup)
		}
	}
	return nil, nil
}

// hasOrder reports whether the rows of a look-up come in an order, or its reverse: by the columns of the index, but for those
// that have one value in all rows.
func (t *Table) hasOrder(ctx *sql.Context, lookup sql.IndexLookup, id sql.TableId, by sql.SortConditions) bool {
	x, ok := undeclared(lookup).Index.(*Index)
	ranges, ok2 := lookup.Ranges.(sql.MySQLRangeCollection)
	if !ok || !ok2 || len(ranges) != 1 || x.Order(ctx) == sql.IndexOrderNone {
		return false
	}
	equal, _ := t.info.equalParts(ctx, x, ranges[0])
	next := len(equal)
	for _, s := range by {
		g, ok := s.Expr.(*expression.GetField)
		if !ok || s.Order != by[0].Order || g.TableId() != id {
			return false
		}
		c := t.column(g.Name())
		switch {
		case next < len(x.columns) && x.columns[next] == c:
			next++
		case !slices.Contains(x.columns[:len(equal)], c):
			return false
		}
	}
	return true
}
