package sqlbackend

import (
	"fmt"
	"math"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/memo"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/stats"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// coster says what the ways to execute a join cost, in the cost of reading one row as it lies.
//
// Why not the frontend's: it takes what an index leaves of a table for the whole of it, does not know that joined columns
// may be the beginning of a key, and finds merging two whole tables cheap, whose rows have to be read in the order of an
// index here.
type coster struct {
	memo.Coster // the frontend's, for what is no join
	stats       *statistics
}

const (
	costLookup     = 20. // opening a look-up
	costIndexed    = 3.  // a row by an index
	costHashed     = 2.  // a row put into a hash table
	costCompared   = 0.2 // a pair of rows
	costReturned   = 0.1
	costKeyColumn  = 0.01
	costImpossible = 1e300

	compareColumnsMax = 4.
	estimateMax       = 1e15
)

// estimate is what is expected of a group of plans that give the same rows. It takes the place of the frontend's.
type estimate struct {
	*stats.Statistic
	rows    float64
	sources []source
}

func newEstimate(rows float64, sources []source) *estimate {
	rows = min(max(rows, 0), estimateMax)
	return &estimate{Statistic: &stats.Statistic{RowCnt: uint64(math.Ceil(rows))}, rows: rows, sources: sources}
}

// of estimates a group.
func (c *coster) of(ctx *sql.Context, g *memo.ExprGroup) *estimate {
	known := g.RelProps.GetStats()
	if e, ok := known.(*estimate); ok {
		return e
	}
	e := c.estimated(ctx, g, known)
	if l, ok := g.RelProps.Limit.(*expression.Literal); ok {
		if n, err := numberOf(l.Value()); err == nil {
			e = newEstimate(min(e.rows, n), e.sources)
		}
	}
	g.RelProps.SetStats(e)
	return e
}

func numberOf(v any) (float64, error) {
	switch v := v.(type) {
	case int8:
		return float64(v), nil
	case int16:
		return float64(v), nil
	case int32:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case uint64:
		return float64(v), nil
	}
	return 0, fmt.Errorf("%T is no limit", v)
}

func (c *coster) estimated(ctx *sql.Context, g *memo.ExprGroup, known sql.Statistic) *estimate {
	// The last plan of a group is the one it was made of; the others were put before it.
	rel := g.First
	for rel.Next() != nil {
		rel = rel.Next()
	}
	switch rel := rel.(type) {
	case memo.JoinRel:
		return c.joined(ctx, rel.JoinPrivate())
	case *memo.Filter:
		return c.filtered(ctx, c.of(ctx, rel.Child), rel.Filters)
	case *memo.Project:
		return c.of(ctx, rel.Child)
	case *memo.Distinct:
		return c.of(ctx, rel.Child)
	case *memo.Max1Row:
		return newEstimate(1, nil)
	case memo.SourceRel:
		if t := tableOf(rel.TableIdNode()); t != nil {
			rows := c.stats.tableRows(ctx, t)
			return newEstimate(rows, []source{{id: rel.TableIdNode().Id(), table: t, rows: rows}})
		}
	}
	if known != nil {
		return newEstimate(float64(known.RowCount()), nil)
	}
	return newEstimate(1000, nil)
}

// tableOf is the table of ours that a node of a plan reads; nil if it is something else.
func tableOf(n sql.Node) *Table {
	if a, ok := n.(*plan.TableAlias); ok {
		n = a.Child
	}
	tn, ok := n.(sql.TableNode)
	if !ok {
		return nil
	}
	t, _ := ours(tn.UnderlyingTable())
	return t
}

func conjuncts(ctx *sql.Context, filters []sql.Expression) []sql.Expression {
	var out []sql.Expression
	for _, f := range filters {
		out = append(out, expression.SplitConjunction(ctx, f)...)
	}
	return out
}

// filtered is what conditions leave of one input.
func (c *coster) filtered(ctx *sql.Context, in *estimate, filters []sql.Expression) *estimate {
	if len(in.sources) != 1 {
		rows := in.rows
		for range conjuncts(ctx, filters) {
			rows *= passUnknown
		}
		return newEstimate(rows, in.sources)
	}
	src, rows := in.sources[0], in.rows
	before := c.stats.distinct(src.table, src.rows, src.bound)
	src.bound = append([]int(nil), src.bound...)
	for _, e := range src.together(ctx, conjuncts(ctx, filters)) {
		if column, _ := src.equality(ctx, e); column >= 0 {
			src.bound = append(src.bound, column)
			continue
		}
		rows *= c.stats.passing(ctx, &src, e)
	}
	rows *= before / c.stats.distinct(src.table, src.rows, src.bound)
	return newEstimate(rows, []source{src})
}

// joined estimates a join.
func (c *coster) joined(ctx *sql.Context, j *memo.JoinBase) *estimate {
	l, r := c.of(ctx, j.Left), c.of(ctx, j.Right)
	pass := c.matching(ctx, l, r, j.Filter)
	both := append(append([]source(nil), l.sources...), r.sources...)
	rows := l.rows * r.rows * pass
	switch {
	case j.Op.IsSemi():
		return newEstimate(l.rows*min(1, r.rows*pass), l.sources)
	case j.Op.IsAnti():
		return newEstimate(max(l.rows-l.rows*min(1, r.rows*pass), l.rows*passText), l.sources)
	case j.Op.IsFullOuter():
		return newEstimate(max(rows, l.rows, r.rows), both)
	case j.Op.IsLeftOuter():
		return newEstimate(max(rows, l.rows), both)
	}
	return newEstimate(rows, both)
}

// matching estimates the part of all pairs of rows that conditions leave.
func (c *coster) matching(ctx *sql.Context, l, r *estimate, filters []sql.Expression) float64 {
	type sides struct{ l, r int }
	type pair struct{ l, r []int }
	pairs := map[sides]*pair{}
	pass := 1.
	for _, e := range conjuncts(ctx, filters) {
		eq, ok := e.(expression.Equality)
		if !ok || !eq.RepresentsEquality() {
			pass *= passUnknown
			continue
		}
		li, lc := fieldOf(l.sources, eq.Left())
		ri, rc := fieldOf(r.sources, eq.Right())
		if lc < 0 && rc < 0 {
			li, lc = fieldOf(l.sources, eq.Right())
			ri, rc = fieldOf(r.sources, eq.Left())
		}
		if lc < 0 && rc < 0 {
			pass /= max(min(l.rows, r.rows), valuesUnknown)
			continue
		}
		p := pairs[sides{li, ri}]
		if p == nil {
			p = &pair{}
			pairs[sides{li, ri}] = p
		}
		if lc >= 0 {
			p.l = append(p.l, lc)
		}
		if rc >= 0 {
			p.r = append(p.r, rc)
		}
	}
	for s, p := range pairs {
		pass /= max(c.valuesOf(l, s.l, p.l), c.valuesOf(r, s.r, p.r), 1)
	}
	return pass
}

// valuesOf is how many different values joined columns have on one side.
func (c *coster) valuesOf(e *estimate, i int, columns []int) float64 {
	if i < 0 {
		return min(e.rows, estimateMax)
	}
	src := e.sources[i]
	return c.stats.distinct(src.table, src.rows, append(append([]int(nil), src.bound...), columns...)) /
		c.stats.distinct(src.table, src.rows, src.bound)
}

// fieldOf finds the source and the column an expression is; -1, -1 if it is none.
func fieldOf(sources []source, e sql.Expression) (i, column int) {
	for i := range sources {
		if c := sources[i].field(e); c >= 0 {
			return i, c
		}
	}
	return -1, -1
}

// reading is what reading a group costs besides what the group is said to cost: the tables of a join are the join's.
func (c *coster) reading(ctx *sql.Context, g *memo.ExprGroup) float64 {
	rel := g.Best
	if rel == nil {
		rel = g.First
	}
	switch rel := rel.(type) {
	case memo.JoinRel:
		return 0
	case *memo.Filter:
		child := c.of(ctx, rel.Child)
		if _, source := rel.Child.First.(memo.SourceRel); source && len(child.sources) == 1 {
			return c.access(ctx, child.sources[0], conjuncts(ctx, rel.Filters))
		}
		return c.reading(ctx, rel.Child)
	case *memo.Project:
		return c.reading(ctx, rel.Child)
	case *memo.Distinct:
		return c.reading(ctx, rel.Child) + c.of(ctx, rel.Child).rows
	case *memo.Max1Row:
		return c.reading(ctx, rel.Child)
	}
	return c.of(ctx, g).rows + 1
}

// access is what reading the rows of a table costs that conditions leave, in the best way there is.
func (c *coster) access(ctx *sql.Context, src source, filters []sql.Expression) float64 {
	best := src.rows + 1
	bounds := map[int]float64{}
	for _, e := range src.together(ctx, filters) {
		if column, _ := src.equality(ctx, e); column >= 0 {
			src.bound = append(src.bound, column)
		} else if column := src.rangeOf(e); column >= 0 {
			if _, seen := bounds[column]; !seen {
				bounds[column] = 1
			}
			bounds[column] *= c.stats.passing(ctx, &src, e)
		}
	}
	for _, x := range src.table.info.wholeIndexes() {
		k := leadingOf(x, src.bound)
		rows := src.rows / c.stats.distinct(src.table, src.rows, x.columns[:k])
		if k < len(x.columns) {
			if part, bounded := bounds[x.columns[k]]; bounded {
				rows *= part
			} else if k == 0 {
				continue
			}
		}
		best = min(best, costLookup+rows*costIndexed)
	}
	return best
}

// EstimateCost implements memo.Coster.
func (c *coster) EstimateCost(ctx *sql.Context, n memo.RelExpr, s sql.StatsProvider) (float64, error) {
	rel, ok := n.(memo.JoinRel)
	if !ok {
		for _, g := range n.Children() {
			c.of(ctx, g)
		}
		return c.Coster.EstimateCost(ctx, n, s)
	}
	j := rel.JoinPrivate()
	l, r, out := c.of(ctx, j.Left), c.of(ctx, j.Right), c.of(ctx, n.Group())
	left, right := c.reading(ctx, j.Left), c.reading(ctx, j.Right)
	pairs, outer := l.rows*r.rows, max(l.rows, 1)
	returned := out.rows * costReturned
	switch n := rel.(type) {
	case *memo.LookupJoin:
		one, ok := c.lookup(ctx, n.Lookup)
		if !ok {
			return costImpossible, nil
		}
		return left + outer*one + returned - j.Right.Cost, nil
	case *memo.ConcatJoin:
		all := 0.
		for _, x := range n.Concat {
			one, ok := c.lookup(ctx, x)
			if !ok {
				return costImpossible, nil
			}
			all += one
		}
		return left + outer*all + returned - j.Right.Cost, nil
	case *memo.MergeJoin:
		if !mergeable(ctx, n.Filter[0]) {
			return costImpossible, nil
		}
		// Rows that are equal in few columns are compared again, pair by pair.
		again := max(0, compareColumnsMax-float64(n.CmpCnt))
		return c.ordered(ctx, n.InnerScan, l) + c.ordered(ctx, n.OuterScan, r) + returned + again - j.Left.Cost - j.Right.Cost, nil
	case *memo.HashJoin:
		if !hashable(ctx, n) {
			return costImpossible, nil
		}
		return left + right + l.rows + r.rows*costHashed + returned, nil
	case *memo.RangeHeapJoin:
		return left + right + (l.rows+r.rows)*costIndexed + pairs*passBetween*costCompared + returned, nil
	case *memo.SemiJoin, *memo.AntiJoin:
		return left + outer*(right+j.Right.Cost)/2 + pairs/2*costCompared, nil
	}
	// Nested loops: the right side is read anew for every row of the left one.
	return left + outer*right + (outer-1)*j.Right.Cost + pairs*costCompared + returned, nil
}

// lookup is what one look-up of a join costs; ok is false if the key's type does not compare as the index does.
func (c *coster) lookup(ctx *sql.Context, scan *memo.IndexScan) (cost float64, ok bool) {
	t := tableOf(scan.Table)
	x, isOurs := undeclared(sql.IndexLookup{Index: scan.Index.SqlIdx()}).Index.(*Index)
	keys := scan.Table.Expressions()
	if t == nil || !isOurs || len(keys) == 0 || len(keys) > len(x.columns) {
		return costLookup + costIndexed, true
	}
	for i, e := range keys {
		// Why not by <=>: the frontend looks up all rows that are not NULL for the first row.
		if scan.Table.NullMask()[i] || !t.info.looksUp(ctx, x.columns[i], e) || x.mixesNull(i) {
			return 0, false
		}
	}
	rows := c.stats.tableRows(ctx, t)
	// The longer key of two that leave as many rows.
	return costLookup + costIndexed*rows/c.stats.distinct(t, rows, x.columns[:len(keys)]) - costKeyColumn*float64(len(keys)), true
}

// ordered is what reading a side of a merge costs.
func (c *coster) ordered(ctx *sql.Context, scan *memo.IndexScan, side *estimate) float64 {
	t := tableOf(scan.Table)
	x, isOurs := undeclared(sql.IndexLookup{Index: scan.Index.SqlIdx()}).Index.(*Index)
	lookup, _, err := scan.Table.GetLookup(ctx, nil)
	ranges, ok := lookup.Ranges.(sql.MySQLRangeCollection)
	if t == nil || !isOurs || err != nil || !ok || len(ranges) != 1 {
		return side.rows*costIndexed + costLookup
	}
	k := 0
	for k < len(ranges[0]) && k < len(x.columns) && isPoint(ctx, ranges[0][k]) {
		k++
	}
	rows := c.stats.tableRows(ctx, t)
	return costLookup + costIndexed*rows/c.stats.distinct(t, rows, x.columns[:k])
}

// mergeable reports whether the two sides of a comparison are sorted alike.
func mergeable(ctx *sql.Context, e sql.Expression) bool {
	eq, ok := e.(expression.Equality)
	if !ok {
		return true
	}
	left, right := []sql.Expression{eq.Left()}, []sql.Expression{eq.Right()}
	if l, ok := eq.Left().(expression.Tuple); ok {
		r, ok := eq.Right().(expression.Tuple)
		if !ok || len(l) != len(r) {
			return false
		}
		// Why: the frontend looks for NULL among the values of a key, and a tuple is never NULL itself.
		for i := range l {
			if l[i].IsNullable(ctx) || r[i].IsNullable(ctx) {
				return false
			}
		}
		left, right = l, r
	}
	for i := range left {
		if !comparesAs(left[i].Type(ctx), right[i].Type(ctx)) || !comparesAs(right[i].Type(ctx), left[i].Type(ctx)) {
			return false
		}
	}
	return true
}

// hashable reports whether equal values of the two sides of a hash join have one hash, and all values have one.
func hashable(ctx *sql.Context, n *memo.HashJoin) bool {
	several := len(n.LeftAttrs) > 1
	for _, e := range n.LeftAttrs {
		_, tuple := e.(expression.Tuple)
		several = several || tuple
	}
	if several && n.Op.IsExcludeNulls() {
		return false // Why: of a key with a NULL the frontend compares the rows of any one bucket
	}
	for i := range n.LeftAttrs {
		l, r := n.LeftAttrs[i].Type(ctx), n.RightAttrs[i].Type(ctx)
		switch {
		case l.Equals(r):
		case types.IsEnum(l), types.IsSet(l), types.IsEnum(r), types.IsSet(r):
			return false
		case types.IsTextOnly(l) && types.IsTextOnly(r):
			if l.(sql.TypeWithCollation).Collation() != r.(sql.TypeWithCollation).Collation() {
				return false // which of them counts is decided for each comparison
			}
		case types.IsNumber(l) && types.IsNumber(r):
			if several && types.IsFloat(l) != types.IsFloat(r) {
				return false // a number that no float is has another hash than the float it is compared as
			}
		case types.IsText(l) && types.IsText(r), types.IsTime(l) && types.IsTime(r):
		case types.IsNumber(l) && types.IsText(r), types.IsText(l) && types.IsNumber(r):
			if several { // they are hashed as the left one's type
				return false
			}
		default:
			return l == types.Null || r == types.Null
		}
	}
	return true
}
