package sqlbackend

import (
	"math"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// Estimates of the planner: rows of a table, different values of columns, what conditions leave. All of them are guesses;
// they choose between plans that give the same rows.

const (
	rowsPerValue  = 10 // of an index that is not unique and was never analyzed
	valuesUnknown = 10 // different values of a column no index begins with
	passRange     = 1. / 3
	passBetween   = 1. / 9
	passText      = 1. / 10 // LIKE, IS NULL
	passNot       = 9. / 10
	passUnknown   = 1. / 2
)

// tableRows is how many rows a table has: as statistics set by hand say, else as storage knows it.
func (s *statistics) tableRows(ctx *sql.Context, t *Table) float64 {
	n, err := s.RowCount(ctx, "", t.Database(), t)
	if err != nil {
		return 0
	}
	return float64(n)
}

// distinct estimates how many values columns have together in a table of so many rows. What an index says of several of them is
// better than the product of what is known of each.
func (s *statistics) distinct(t *Table, rows float64, columns []int) float64 {
	if rows <= 1 || len(columns) == 0 {
		return 1
	}
	if t.info.uniqueWithin(columns) {
		return rows
	}
	product := func(without []int) float64 {
		n := 1.
		for _, c := range columns {
			if !slices.Contains(without, c) {
				n *= s.columnDistinct(t, rows, c)
			}
		}
		return n
	}
	longest, best := 1, product(nil)
	for _, x := range t.info.wholeIndexes() {
		if k := leadingOf(x, columns); k > longest {
			longest, best = k, s.prefixDistinct(t, x, k, rows)*product(x.columns[:k])
		}
	}
	return min(max(best, 1), rows)
}

// columnDistinct is distinct for one column.
func (s *statistics) columnDistinct(t *Table, rows float64, column int) float64 {
	for _, x := range t.info.wholeIndexes() {
		if x.columns[0] == column {
			return s.prefixDistinct(t, x, 1, rows)
		}
	}
	return min(valuesUnknown, max(rows, 1))
}

// prefixDistinct estimates how many values the first k columns of an index have together.
func (s *statistics) prefixDistinct(t *Table, x *Index, k int, rows float64) float64 {
	names := make([]string, k)
	for i, c := range x.columns[:k] {
		names[i] = t.schema[c].Name
	}
	if distinct, of, ok := s.of(t, x, names); ok && of > 0 {
		found, counted := float64(distinct), float64(of)
		if found > counted/rowsPerValue { // a value of its own for every few rows: new rows bring new ones
			found *= rows / counted
		}
		return min(max(found, 1), rows)
	}
	all := rows / rowsPerValue
	if t.info.uniqueWithin(x.columns) {
		all = rows
	}
	return math.Pow(max(all, 1), float64(k)/float64(len(x.columns)))
}

// of is how many values ANALYZE TABLE found in the first columns of an index, of how many rows, or what was set by hand.
func (s *statistics) of(t *Table, x *Index, names []string) (distinct, rows uint64, ok bool) {
	key := keyOf(sql.NewStatQualifier(t.Database(), "", t.Name(), x.ID()), names)
	s.mu.RLock()
	st, ok := s.found[key]
	s.mu.RUnlock()
	if ok && st.of(t) {
		return st.DistinctCount(), st.RowCount(), true
	}
	k, ok := s.kept(t, key)
	return k.Distinct, k.Rows, ok
}

// leadingOf is how many of the first columns of an index are among columns.
func leadingOf(x *Index, columns []int) int {
	for i, c := range x.columns {
		if !slices.Contains(columns, c) {
			return i
		}
	}
	return len(x.columns)
}

// indexNamed is the index of that id among wholeIndexes; nil if there is none.
func (t *tableInfo) indexNamed(id string) *Index {
	for _, x := range t.wholeIndexes() {
		if strings.EqualFold(x.ID(), id) {
			return x
		}
	}
	return nil
}

// wholeIndexes is the indexes over whole columns that can be searched, the primary key first.
func (t *tableInfo) wholeIndexes() []*Index {
	var out []*Index
	if p := t.primary(); p != nil && p.lengths == nil {
		out = append(out, p)
	}
	for i := range t.shape.Indexes {
		if x := t.secondary(&t.shape.Indexes[i]); x.key != nil && x.lengths == nil {
			out = append(out, x)
		}
	}
	return out
}

// uniqueWithin reports whether no two rows are equal in all of the columns.
func (t *tableInfo) uniqueWithin(columns []int) bool {
	for _, x := range t.wholeIndexes() {
		if x.unique && leadingOf(x, columns) == len(x.columns) {
			return true
		}
	}
	return false
}

// passing estimates the part of a table's rows a condition leaves that is no equality.
func (s *statistics) passing(ctx *sql.Context, src *source, e sql.Expression) float64 {
	if part, ok := s.spread(ctx, src, e); ok {
		return part
	}
	switch e := e.(type) {
	case *expression.And:
		return s.passing(ctx, src, e.LeftChild) * s.passing(ctx, src, e.RightChild)
	case *expression.Or:
		return min(1, s.passing(ctx, src, e.LeftChild)+s.passing(ctx, src, e.RightChild))
	case *expression.Not:
		return max(1-s.passing(ctx, src, e.Child), passText)
	case *expression.IsNull, *expression.Like:
		return passText
	case *expression.Between:
		return passBetween
	case *expression.LessThan, *expression.LessThanOrEqual, *expression.GreaterThan, *expression.GreaterThanOrEqual:
		return passRange
	case *expression.InTuple, *expression.HashInTuple:
		c, n := src.inList(e)
		if c >= 0 {
			return min(1, float64(n)/s.distinct(src.table, src.rows, []int{c}))
		}
	case *expression.Equals, *expression.NullSafeEquals:
		if c, _ := src.equality(ctx, e); c >= 0 {
			return 1 / s.distinct(src.table, src.rows, []int{c})
		}
	}
	return passUnknown
}

// source is a table of ours in a part of a plan.
type source struct {
	id    sql.TableId
	table *Table
	rows  float64 // of the whole table
	bound []int   // columns that a condition says are equal to something known before the table is read
}

// field returns the column of the table an expression is; -1 if it is none.
func (src *source) field(e sql.Expression) int {
	if g, ok := e.(*expression.GetField); ok && g.TableId() == src.id {
		return src.table.column(g.Name())
	}
	return -1
}

// equality recognises column = something without columns of the table.
func (src *source) equality(ctx *sql.Context, e sql.Expression) (column int, key sql.Expression) {
	var left, right sql.Expression
	switch e := e.(type) {
	case *expression.Equals:
		left, right = e.Left(), e.Right()
	case *expression.NullSafeEquals:
		left, right = e.Left(), e.Right()
	default:
		return -1, nil
	}
	if c := src.field(left); c >= 0 && !src.names(ctx, right) {
		return c, right
	}
	if c := src.field(right); c >= 0 && !src.names(ctx, left) {
		return c, left
	}
	return -1, nil
}

// names reports whether an expression depends on the table.
func (src *source) names(ctx *sql.Context, e sql.Expression) bool {
	return transform.InspectExpr(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
		g, ok := e.(*expression.GetField)
		return ok && g.TableId() == src.id
	})
}

// inList recognises column IN (list of n elements); -1 if e is something else.
func (src *source) inList(e sql.Expression) (column, n int) {
	in, ok := e.(interface {
		Left() sql.Expression
		Right() sql.Expression
	})
	if !ok {
		return -1, 0
	}
	list, ok := in.Right().(expression.Tuple)
	if !ok {
		return -1, 0
	}
	return src.field(in.Left()), len(list)
}

// together joins the conditions that bound the same column, which say more together than one by one.
func (src *source) together(ctx *sql.Context, list []sql.Expression) []sql.Expression {
	var out []sql.Expression
	at := map[int]int{}
	for _, e := range list {
		c := src.rangeOf(e)
		if i, seen := at[c]; c >= 0 && seen {
			out[i] = expression.NewAnd(out[i], e)
			continue
		}
		at[c] = len(out)
		out = append(out, e)
	}
	return out
}

// rangeOf returns the column a condition bounds, as an index can use it; -1 if there is none.
func (src *source) rangeOf(e sql.Expression) int {
	switch e := e.(type) {
	case *expression.And:
		if l, r := src.rangeOf(e.LeftChild), src.rangeOf(e.RightChild); l == r {
			return l
		}
		return -1
	case *expression.Between:
		return src.field(e.Val)
	case *expression.LessThan, *expression.LessThanOrEqual, *expression.GreaterThan, *expression.GreaterThanOrEqual:
		c := e.(expression.Comparer)
		return max(src.field(c.Left()), src.field(c.Right()))
	case *expression.InTuple, *expression.HashInTuple:
		c, _ := src.inList(e)
		return c
	case *expression.IsNull:
		return src.field(e.Child)
	}
	return -1
}
