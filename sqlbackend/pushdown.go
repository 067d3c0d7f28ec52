package sqlbackend

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// PushDownRuleID is the number of PushDownRule among the frontend's rules.
const PushDownRuleID analyzer.RuleId = 1 << 20

// PushDownRule hands what a filter says about the columns of one of our tables to its scan, and makes comparisons exact
// (exactComparisons). The filter stays (I3).
// It runs after the frontend's own rules, when filters lie on the tables they concern. Statements the frontend plans
// with a short list of rules of its own (SELECT of one table, UPDATE, DELETE) do not come by here: see pushOnce.
func PushDownRule(ctx *sql.Context, _ *analyzer.Analyzer, n sql.Node, _ *plan.Scope, _ analyzer.RuleSelector, _ *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
	if !n.Resolved() {
		return n, transform.SameTree, nil
	}
	n, sources, err := changedSources(ctx, n, func(source sql.Node) (sql.Node, transform.TreeIdentity, error) {
		return PushDownRule(ctx, nil, source, nil, nil, nil)
	})
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, ordered, err := orderedChanges(ctx, n)
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, bound, err := bindMatches(ctx, n)
	if err != nil {
		return nil, transform.SameTree, err
	}
	anyOrder := orderless(ctx, n)
	n, pushed, err := transform.NodeWithOpaque(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		f, ok := n.(*plan.Filter)
		if !ok {
			return n, transform.SameTree, nil
		}
		return pushFilter(ctx, f, anyOrder)
	})
	pushed = pushed && ordered && bound && sources
	if err != nil || plan.IsDDLNode(n) {
		return n, pushed, err
	}
	n, exact, err := exactComparisons(ctx, n)
	return n, pushed && exact, err
}

// changedSources applies f to the queries whose rows are inserted, in INSERT, REPLACE and CREATE TABLE … SELECT: they are not among
// the children of a plan, and the frontend plans those of one table with its short list of rules.
func changedSources(ctx *sql.Context, n sql.Node, f func(sql.Node) (sql.Node, transform.TreeIdentity, error)) (sql.Node, transform.TreeIdentity, error) {
	return transform.Node(ctx, n, func(_ *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		switch n := n.(type) {
		case *plan.InsertInto:
			if n.LiteralValueSource {
				return n, transform.SameTree, nil
			}
			source, same, err := f(n.Source)
			if err != nil || same {
				return n, transform.SameTree, err
			}
			return n.WithSource(source), transform.NewTree, nil
		case *plan.TableCopier:
			source, same, err := f(n.Source)
			if err != nil || same {
				return n, transform.SameTree, err
			}
			copier := *n
			copier.Source = source
			return &copier, transform.NewTree, nil
		}
		return n, transform.SameTree, nil
	})
}

// pushOnce applies PushDownRule to the root of a plan about to be built; later calls in the same statement do nothing.
func pushOnce(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	c := connOf(ctx)
	if c == nil || c.stmt.pushed {
		return n, transform.SameTree, nil
	}
	c.stmt.pushed = true
	n, pushed, err := PushDownRule(ctx, nil, n, nil, nil, nil)
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, into, err := textsInto(ctx, n)
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, rows, err := exactRows(ctx, n)
	if err != nil {
		return nil, transform.SameTree, err
	}
	if !pushed {
		c.stmt.built = n.Schema(ctx)
	}
	return n, pushed && into && rows, nil
}

// Retype is the schema of a result in which columns that have become texts or other numbers are such: some functions of texts are of
// the type of their operand, arithmetic is of that of its operands, and the frontend asked before those were made texts and numbers
// (see timeText and timeNumber).
func (c *Conn) Retype(schema sql.Schema) sql.Schema {
	built := c.stmt.built
	if len(built) != len(schema) {
		return schema
	}
	var out sql.Schema
	for i, col := range built {
		was := schema[i].Type
		text := types.IsTextOnly(col.Type) && !types.IsTextOnly(was)
		number := types.IsNumber(col.Type) && (types.IsFloat(was) || types.IsDecimal(was)) && !col.Type.Equals(was)
		if !text && !number {
			continue
		}
		if out == nil {
			out = slices.Clone(schema)
		}
		retyped := *schema[i]
		retyped.Type = col.Type
		out[i] = &retyped
	}
	if out == nil {
		return schema
	}
	return out
}

func pushFilter(ctx *sql.Context, f *plan.Filter, anyOrder bool) (sql.Node, transform.TreeIdentity, error) {
	child, alias := f.Child, ""
	if a, ok := child.(*plan.TableAlias); ok {
		child, alias = a.Child, a.Name()
	}
	node, err := filtered(ctx, child, f.Expression, alias, anyOrder)
	if err != nil || node == nil {
		return f, transform.SameTree, err
	}
	if a, ok := f.Child.(*plan.TableAlias); ok {
		if node, err = a.WithChildren(ctx, node); err != nil {
			return nil, transform.SameTree, err
		}
	}
	nf, err := f.WithChildren(ctx, node)
	if err != nil {
		return nil, transform.SameTree, err
	}
	return nf, transform.NewTree, nil
}

// orderless reports whether nobody can rely on the order in which a plan's tables are read: not an ORDER BY whose sort the
// frontend has left out because an index has the order, not a LIMIT, not a join that merges.
func orderless(ctx *sql.Context, n sql.Node) bool {
	c := connOf(ctx)
	if c == nil || ordered(c.stmt.marked) {
		return false
	}
	plain := true
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		switch n := n.(type) {
		case *plan.Project, *plan.Filter, *plan.GroupBy, *plan.Having, *plan.Distinct, *plan.Sort, *plan.TableAlias, *plan.ResolvedTable,
			*plan.IndexedTableAccess, *plan.Update, *plan.UpdateSource, *plan.DeleteFrom, *plan.DescribeQuery:
		case *plan.JoinNode:
			plain = plain && !n.JoinType().IsMerge()
		default:
			plain = false
		}
		return plain
	})
	return plain
}

// ordered reports whether a statement, or a query in it, has an ORDER BY or a LIMIT.
func ordered(stmt sqlparser.Statement) bool {
	found := stmt == nil
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case sqlparser.OrderBy:
			found = found || len(n) > 0
		case *sqlparser.Limit:
			found = found || n != nil
		}
		return !found, nil
	}, stmt)
	return found
}

// filtered returns a table node whose scan knows what e says about it; nil if there is nothing to know.
func filtered(ctx *sql.Context, n sql.Node, e sql.Expression, alias string, anyOrder bool) (sql.Node, error) {
	tn, ok := n.(sql.TableNode)
	if !ok {
		return nil, nil
	}
	t, ok := tn.UnderlyingTable().(*Table)
	if !ok || t.filter != nil {
		return nil, nil
	}
	if alias == "" {
		alias = tn.Name()
	}
	nt, err := t.withFilter(ctx, e, alias)
	if err != nil {
		return nil, err
	}
	anyOrder = anyOrder && t.lookup != nil
	switch {
	case nt == nil && anyOrder:
		copied := *t
		nt = &copied
	case nt == nil:
		return nil, nil
	}
	nt.anyOrder = anyOrder
	switch n := n.(type) {
	case *plan.ResolvedTable:
		return n.WithTable(ctx, nt)
	case *plan.IndexedTableAccess:
		if _, ours := n.Table.(*Table); !ours {
			return nil, nil
		}
		out := *n
		out.Table = nt
		return &out, nil
	}
	return nil, nil
}

// withFilter returns a copy that may leave out rows for which e is not true; nil if e says nothing about the table alone.
func (t *Table) withFilter(ctx *sql.Context, e sql.Expression, alias string) (*Table, error) {
	p, _ := t.predicateOf(ctx, e, alias)
	if p == nil {
		return nil, nil
	}
	nt := *t
	nt.filter = p
	var err error
	nt.within, err = t.info.within(p)
	return &nt, err
}

// rangesMax bounds how many ranges of an index a scan is offered.
const rangesMax = 4096

// within is what a filter says about the first parts of the keys: ranges of them that have all rows of the filter.
func (t *tableInfo) within(p predicate.Expr) ([]lsm.IndexRanges, error) {
	var out []lsm.IndexRanges
	one := func(slot int, key *keyMap) error {
		part := key.parts[0]
		if key.hidden >= 0 { // what beginsLike says of it
			if cells, _ := predicate.Bounds(p, key.hidden); !cells.IsEverything() && !cells.Null {
				ranges, err := lsm.RangesOf(cells, func(cell any) (rowkey.Key, error) {
					b, _ := cell.([]byte)
					return key.prefix[0].Row(arrowx.Row{b}, []int{0})
				})
				if err == nil {
					out = append(out, lsm.IndexRanges{Index: slot, Ranges: ranges})
				}
				return err
			}
		}
		if !t.filterable(part.column) || !orderedKeyPart(t.schema.Schema[part.column].Type, part.length) {
			return nil
		}
		cells, _ := predicate.Bounds(p, part.column)
		// An index over the column itself does not have NULL.
		if cells.IsEverything() || cells.Null && key.hidden < 0 || len(cells.Intervals) > rangesMax {
			return nil
		}
		if part.length > 0 { // values beyond a bound may begin as it does
			cells = closed(cells)
		}
		ranges, err := lsm.RangesOf(cells, func(cell any) (rowkey.Key, error) { return key.encode([]any{cell}) })
		if err != nil {
			return err
		}
		out = append(out, lsm.IndexRanges{Index: slot, Ranges: ranges})
		return nil
	}
	if len(t.key.parts) > 0 {
		if err := one(lsm.PrimaryKey, &t.key); err != nil {
			return nil, err
		}
	}
	for i := range t.indexes {
		if err := one(i, &t.indexes[i].key); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// closed has the bounds of intervals in them.
func closed(r predicate.Ranges) predicate.Ranges {
	out := predicate.Ranges{Null: r.Null}
	for _, iv := range r.Intervals {
		iv.LowOpen, iv.HighOpen = false, false
		out = out.Union(predicate.Ranges{Intervals: []predicate.Interval{iv}})
	}
	return out
}

// fieldOf returns the physical column of a plain reference to this table.
func (t *Table) fieldOf(e sql.Expression, alias string) (int, bool) {
	g, ok := e.(*expression.GetField)
	if !ok || !strings.EqualFold(g.Table(), alias) {
		return 0, false
	}
	c := t.column(g.Name())
	return c, c >= 0
}

// filterable reports whether predicates compare the column's cells as the frontend compares its values.
func (t *tableInfo) filterable(column int) bool { return filterableType(t.schema.Schema[column].Type) }

func filterableType(typ sql.Type) bool {
	switch st := typ.(type) {
	case sql.EnumType, sql.SetType, types.VectorType:
		return false
	case sql.StringType:
		return byteOrdered(st.Collation())
	}
	return !isJSON(typ)
}

// equality recognises column = literal of this table, unaliased.
func (t *Table) equality(e sql.Expression) (column string, l *expression.Literal, ok bool) {
	eq, ok := e.(*expression.Equals)
	if !ok {
		return "", nil, false
	}
	left, right := eq.Left(), eq.Right()
	if _, isLiteral := left.(*expression.Literal); isLiteral {
		left, right = right, left
	}
	g, ok := left.(*expression.GetField)
	if !ok || !strings.EqualFold(g.Table(), t.Name()) {
		return "", nil, false
	}
	l, ok = right.(*expression.Literal)
	return g.Name(), l, ok
}
