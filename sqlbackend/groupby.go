package sqlbackend

import (
	"io"
	"slices"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/hash"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
)

// operators builds the nodes that lancesql executes itself instead of the frontend.
type operators struct {
	build func(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) // builds children

	stock      *rowexec.BaseBuilder // the frontend's own
	statistics *statistics
	runner     sql.StatementRunner // of statements inside statements
	front      *sqle.Engine
}

// Build implements sql.NodeExecBuilder; nil, nil declines the node.
func (o *operators) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if f, ok := n.(*firing); ok {
		return o.fire(ctx, f, row)
	}
	if f, ok := n.(*plan.Filter); ok && len(row) > 0 {
		return o.outerFilter(ctx, f, row)
	}
	return o.build1(ctx, n, row)
}

// build1 is Build for what is no statement.
func (o *operators) build1(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if call, ok := n.(*plan.Call); ok {
		return o.call(ctx, call, row)
	}
	if u, ok := n.(*plan.CreateUser); ok && u.Locked {
		it, err := o.stock.Build(ctx, n, row)
		if err != nil {
			return nil, err
		}
		return it, connOf(ctx).lockNew(ctx, u)
	}
	if d, ok := n.(*plan.DescribeQuery); ok {
		return o.describe(ctx, d, row)
	}
	if g, ok := n.(*plan.GroupBy); ok {
		if len(g.GroupByExprs) > 0 {
			return o.groupBy(ctx, g, row)
		}
		return o.wholeTable(ctx, g)
	}
	if t, ok := n.(*plan.TopN); ok {
		return o.top(ctx, t, row)
	}
	if l, ok := n.(*plan.Limit); ok {
		return o.limited(ctx, l, row)
	}
	if s, ok := n.(*plan.SetOp); ok {
		return o.sortedSet(ctx, s, row)
	}
	if s, ok := n.(*plan.Sort); ok {
		child, err := o.build(ctx, s.Child, row)
		if err != nil {
			return nil, err
		}
		return &sortIter{child: child, by: s.SortConditions}, nil
	}
	if t, ok := n.(*plan.ResolvedTable); ok {
		return o.infoTable(ctx, t, row)
	}
	if s, ok := n.(*plan.ShowColumns); ok {
		return o.showColumns(ctx, s, row)
	}
	if s, ok := n.(*plan.ShowCreateTable); ok {
		return o.showCreate(ctx, s, row)
	}
	if w, ok := n.(plan.ShowWarnings); ok { // the last one first, but MySQL shows them as they came
		w = slices.Clone(w)
		slices.Reverse(w)
		return o.stock.Build(ctx, w, row)
	}
	if _, ok := n.(*plan.ShowProcessList); ok {
		return processList(ctx), nil
	}
	if v, ok := n.(*plan.ShowVariables); ok && v.Global {
		return globalVariables(ctx, v)
	}
	if l, ok := n.(*lockNode); ok {
		child, err := o.build(ctx, l.Child, row)
		if err != nil {
			return nil, err
		}
		return &lockIter{child: child, filter: l.filter}, nil
	}
	if a, ok := n.(*adjustedSource); ok {
		child, err := o.build(ctx, a.Child, row)
		if err != nil {
			return nil, err
		}
		return &adjustedIter{child: child, columns: a.columns, given: a.given, several: a.several, strict: a.strict}, nil
	}
	return nil, nil
}

func (o *operators) groupBy(ctx *sql.Context, n *plan.GroupBy, row sql.Row) (sql.RowIter, error) {
	child, err := o.build(ctx, n.Child, row)
	if err != nil {
		return nil, err
	}
	by, rollup := rolledKeys(n.GroupByExprs)
	it := &groupIter{child: child, selected: n.SelectDeps, by: by, rollup: rollup, index: map[uint64][]*group{}}
	for _, e := range by {
		it.types = append(it.types, &sql.Column{Type: e.Type(ctx)})
	}
	return it, nil
}

// groupIter is GROUP BY over rows, groups in the order of their first rows. The frontend's aggregation buffers do the
// aggregation.
//
// Why not the frontend's operator: when an expression fails, its reader blocks for ever on a channel nobody reads, deaf
// to KILL; and it takes two keys of one hash for the same group.
type groupIter struct {
	child    sql.RowIter
	selected []sql.Expression
	by       []sql.Expression
	types    sql.Schema // types of by
	rollup   bool       // WITH ROLLUP: rows for all that have the first keys in common as well

	index  map[uint64][]*group // by hash of the key
	groups []*group
	read   bool
	pos    int
}

type group struct {
	key     sql.Row
	buffers []sql.AggregationBuffer
}

// Next implements sql.RowIter.
func (g *groupIter) Next(ctx *sql.Context) (sql.Row, error) {
	if !g.read {
		if err := g.fill(ctx); err != nil {
			return nil, err
		}
		if g.rollup {
			if err := g.sortRollup(ctx); err != nil {
				return nil, err
			}
		}
		g.read = true
	}
	if g.pos >= len(g.groups) {
		return nil, io.EOF
	}
	buffers := g.groups[g.pos].buffers
	g.pos++
	row := make(sql.Row, len(buffers))
	for i, b := range buffers {
		v, err := b.Eval(ctx)
		if err != nil {
			return nil, err
		}
		row[i] = v
	}
	return row, nil
}

// fill reads all rows of the child into the groups.
func (g *groupIter) fill(ctx *sql.Context) error {
	const checkEvery = 1024 // rows
	for n := 1; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		row, err := g.child.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		key, err := g.keyOf(ctx, row)
		if err != nil {
			return err
		}
		least := len(key)
		if g.rollup {
			least = 0
		}
		for keys := len(key); keys >= least; keys-- {
			to, err := g.groupOf(ctx, key[:keys])
			if err != nil {
				return err
			}
			for _, b := range to.buffers {
				if err := b.Update(ctx, row); err != nil {
					return err
				}
			}
		}
	}
}

func (g *groupIter) keyOf(ctx *sql.Context, row sql.Row) (sql.Row, error) {
	key := make(sql.Row, len(g.by))
	for i, e := range g.by {
		v, err := e.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		if key[i], err = sql.UnwrapAny(ctx, v); err != nil {
			return nil, err
		}
	}
	return key, nil
}

// groupOf returns the group of a key, or of the first parts of one; a new one if there is none yet.
func (g *groupIter) groupOf(ctx *sql.Context, key sql.Row) (*group, error) {
	h, err := hash.HashOf(ctx, g.types[:len(key)], key)
	if err != nil {
		return nil, err
	}
	for _, known := range g.index[h] {
		same, err := g.sameKey(ctx, known.key, key)
		if err != nil {
			return nil, err
		}
		if same {
			return known, nil
		}
	}
	fresh := &group{key: key, buffers: make([]sql.AggregationBuffer, len(g.selected))}
	for i, e := range g.selected {
		if fresh.buffers[i], err = newBuffer(ctx, e, len(key)); err != nil {
			return nil, err
		}
	}
	g.index[h] = append(g.index[h], fresh)
	g.groups = append(g.groups, fresh)
	return fresh, nil
}

func (g *groupIter) sameKey(ctx *sql.Context, a, b sql.Row) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if a[i] == nil || b[i] == nil {
			if a[i] == nil && b[i] == nil {
				continue // NULLs form one group
			}
			return false, nil
		}
		c, err := g.types[i].Type.Compare(ctx, a[i], b[i])
		if err != nil || c != 0 {
			return false, err
		}
	}
	return true, nil
}

// newBuffer returns the buffer of a selected expression; one without an aggregate has the value of the group's first
// row. keys is how many parts the key of the group has.
func newBuffer(ctx *sql.Context, e sql.Expression, keys int) (sql.AggregationBuffer, error) {
	switch e := e.(type) {
	case *grouping:
		return constant{e.bits(keys)}, nil
	case *rollupKey:
		if e.key >= keys {
			return constant{nil}, nil
		}
	}
	if a, ok := e.(sql.Aggregation); ok {
		return a.NewBuffer(ctx)
	}
	return aggregation.NewFirst(e).NewBuffer(ctx)
}

// Close implements sql.RowIter.
func (g *groupIter) Close(ctx *sql.Context) error {
	for _, gr := range g.groups {
		for _, b := range gr.buffers {
			if b != nil {
				b.Dispose(ctx)
			}
		}
	}
	g.groups, g.index = nil, map[uint64][]*group{}
	return g.child.Close(ctx)
}
