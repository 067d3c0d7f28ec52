package sqlbackend

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Look-ups by what a query around the table knows: WHERE key1 = 1 AND key2 = outside.column in a sub-query reads the rows
// with that beginning of the key, for each row outside.

// outerLookups is the rule that puts such look-ups into the plan of a sub-query. It takes the place of the frontend's, which
// knows no constants beside columns, does not choose the index by what it leaves, and looks up what compares otherwise than
// the index does. All that is left of that one is that it finds names used twice.
func (s *statistics) outerLookups(theirs analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		if _, _, err := theirs(ctx, a, n, scope, sel, flags); sql.ErrDuplicateAliasOrTable.Is(err) {
			return nil, transform.SameTree, err
		}
		return s.lookUpFromOutside(ctx, n, scope)
	}
}

func (s *statistics) lookUpFromOutside(ctx *sql.Context, n sql.Node, scope *plan.Scope) (sql.Node, transform.TreeIdentity, error) {
	if scope.IsEmpty() || !n.Resolved() {
		return n, transform.SameTree, nil
	}
	// Sides of joins that want rows in the order of their index stay as they are.
	unordered := func(_ *sql.Context, c transform.Context) bool {
		j, ok := c.Parent.(*plan.JoinNode)
		return !ok || !j.JoinType().IsMerge() && !j.JoinType().IsRange()
	}
	return transform.NodeWithCtx(ctx, n, unordered, func(ctx *sql.Context, c transform.Context) (sql.Node, transform.TreeIdentity, error) {
		f, ok := c.Node.(*plan.Filter)
		if !ok {
			return c.Node, transform.SameTree, nil
		}
		return s.outerLookup(ctx, f)
	})
}

// outerLookup is lookUpFromOutside for a condition on one table.
func (s *statistics) outerLookup(ctx *sql.Context, f *plan.Filter) (sql.Node, transform.TreeIdentity, error) {
	child, alias := f.Child, (*plan.TableAlias)(nil)
	if a, ok := child.(*plan.TableAlias); ok {
		child, alias = a.Child, a
	}
	src, node, static := s.readOf(ctx, child, alias)
	if node == nil {
		return f, transform.SameTree, nil
	}
	keys, outside := map[int]sql.Expression{}, map[int]bool{}
	for _, e := range expression.SplitConjunction(ctx, f.Expression) {
		if _, plain := e.(*expression.Equals); !plain {
			continue
		}
		c, key := src.equality(ctx, e)
		if c < 0 || keys[c] != nil || !src.table.info.looksUp(ctx, c, key) {
			continue
		}
		switch key.(type) {
		case *expression.GetField:
			outside[c] = true
		case *expression.Literal:
		default:
			continue
		}
		keys[c] = key
		src.bound = append(src.bound, c)
	}
	x, rows := s.bestOf(src, outside)
	if x == nil || static != nil && s.leftBy(ctx, src, static) < rows*2 {
		return f, transform.SameTree, nil
	}
	exprs := make([]sql.Expression, leadingOf(x, src.bound))
	for i := range exprs {
		exprs[i] = keys[x.columns[i]]
	}
	ita, err := plan.NewIndexedAccessForTableNode(ctx, node, plan.NewLookupBuilder(ctx, x, exprs, make([]bool, len(exprs))))
	if err != nil {
		return nil, transform.SameTree, err
	}
	var out sql.Node = ita
	if alias != nil {
		if out, err = alias.WithChildren(ctx, out); err != nil {
			return nil, transform.SameTree, err
		}
	}
	out, err = f.WithChildren(ctx, out)
	return out, transform.NewTree, err
}

// readOf is a table of ours below a condition, and how it is read so far; nil if it is something else, or looked up by
// rows already.
func (s *statistics) readOf(ctx *sql.Context, n sql.Node, alias *plan.TableAlias) (src *source, node sql.TableNode, static *plan.IndexedTableAccess) {
	src = &source{}
	switch n := n.(type) {
	case *plan.ResolvedTable:
		src.id, node = n.Id(), n
	case *plan.IndexedTableAccess:
		if !n.IsStatic() {
			return nil, nil, nil
		}
		src.id, node, static = n.Id(), n.TableNode, n
	default:
		return nil, nil, nil
	}
	t, ok := node.UnderlyingTable().(*Table)
	if !ok {
		return nil, nil, nil
	}
	if t.lookup != nil {
		whole := *t
		whole.lookup = nil
		mutable, ok := node.(sql.MutableTableNode)
		if !ok {
			return nil, nil, nil
		}
		changed, err := mutable.WithTable(ctx, &whole)
		if err != nil {
			return nil, nil, nil
		}
		if node, ok = changed.(sql.TableNode); !ok {
			return nil, nil, nil
		}
	}
	if alias != nil {
		src.id = alias.Id()
	}
	src.table, src.rows = t, s.tableRows(ctx, t)
	return src, node, static
}

// bestOf is the index of which equal columns leave the fewest rows, some of them columns from outside; nil if there is none.
func (s *statistics) bestOf(src *source, outside map[int]bool) (best *Index, rows float64) {
	longest := 0
	for _, x := range src.table.info.wholeIndexes() {
		k := leadingOf(x, src.bound)
		if !slices.ContainsFunc(x.columns[:k], func(c int) bool { return outside[c] }) {
			continue
		}
		n := src.rows / s.distinct(src.table, src.rows, x.columns[:k])
		if best == nil || n < rows || n == rows && k > longest {
			best, rows, longest = x, n, k
		}
	}
	return best, rows
}

// leftBy is how many rows a look-up leaves.
func (s *statistics) leftBy(ctx *sql.Context, src *source, n *plan.IndexedTableAccess) float64 {
	lookup, _, err := n.GetLookup(ctx, nil)
	x, ok := undeclared(lookup).Index.(*Index)
	ranges, ok2 := lookup.Ranges.(sql.MySQLRangeCollection)
	if err != nil || !ok || !ok2 || x.key == nil {
		return src.rows
	}
	rows := 0.
	for _, r := range ranges {
		k := 0
		for k < len(r) && k < len(x.columns) && isPoint(ctx, r[k]) {
			k++
		}
		n := src.rows / s.distinct(src.table, src.rows, x.columns[:k])
		if k < len(r) && (r[k].LowerBound != nil && sql.MySQLRangeCutIsBinding(r[k].LowerBound) || r[k].UpperBound != nil && sql.MySQLRangeCutIsBinding(r[k].UpperBound)) {
			n *= passRange
		}
		rows += n
	}
	return rows
}

// looksUp reports whether the index of a column finds all rows whose column is equal to a key, and no others.
func (t *tableInfo) looksUp(ctx *sql.Context, column int, key sql.Expression) bool {
	if l, ok := key.(*expression.Literal); ok {
		_, exact := t.exactCell(ctx, column, l.Value())
		return exact
	}
	return comparesAs(t.schema.Schema[column].Type, key.Type(ctx))
}

// comparesAs reports whether values of a column are equal to those of another type exactly if they are after conversion to
// the column's type.
func comparesAs(column, k sql.Type) bool {
	switch {
	case types.IsEnum(column), types.IsSet(column), types.IsBit(column), types.IsYear(column), types.IsEnum(k), types.IsSet(k), types.IsBit(k), types.IsYear(k):
		return column.Equals(k)
	case types.IsInteger(column):
		return types.IsInteger(k)
	case types.IsDecimal(column):
		return types.IsInteger(k) || types.IsDecimal(k)
	case types.IsFloat(column):
		return types.IsFloat(k)
	case types.IsTextOnly(column):
		return types.IsTextOnly(k) && column.(sql.StringType).Collation() == k.(sql.StringType).Collation()
	case types.IsBinaryType(column):
		return types.IsBinaryType(k)
	case types.IsTime(column):
		return types.IsTime(k)
	}
	return column.Equals(k)
}
