package sqlbackend

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// exactDistinct makes DISTINCT see texts as their collation does: the frontend takes 'a' and 'A' for two values under
// every collation.
func exactDistinct(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	switch n := n.(type) {
	case *plan.Distinct:
		if len(n.DistinctOn()) > 0 {
			return n, transform.SameTree, nil
		}
		if on := collatedColumns(n.Child.Schema(ctx)); on != nil {
			return plan.NewDistinct(n.Child, on...), transform.NewTree, nil
		}
	case *plan.SetOp:
		if !n.Distinct || n.SetOpType != plan.UnionType {
			return n, transform.SameTree, nil
		}
		if on := collatedColumns(n.Schema(ctx)); on != nil {
			all := *n
			all.Distinct, all.Limit, all.Offset, all.SortConditions = false, nil, nil, nil
			var out sql.Node = plan.NewDistinct(&all, on...)
			if len(n.SortConditions) > 0 {
				out = plan.NewSort(n.SortConditions, out)
			}
			if n.Offset != nil {
				out = plan.NewOffset(n.Offset, out)
			}
			if n.Limit != nil {
				out = plan.NewLimit(n.Limit, out)
			}
			return out, transform.NewTree, nil
		}
	case *plan.HashLookup:
		return exactHash(ctx, n)
	}
	return n, transform.SameTree, nil
}

// exactHash is exactDistinct for the keys of a hash join: texts of different lengths are hashed as bytes.
func exactHash(ctx *sql.Context, n *plan.HashLookup) (sql.Node, transform.TreeIdentity, error) {
	left, ok := n.LeftProbeKey.(expression.Tuple)
	right, ok2 := n.RightEntryKey.(expression.Tuple)
	if !ok || !ok2 || len(left) != len(right) {
		return n, transform.SameTree, nil
	}
	left, right = slices.Clone(left), slices.Clone(right)
	same := transform.SameTree
	for i := range left {
		if l, r := left[i].Type(ctx), right[i].Type(ctx); weighed(l) && weighed(r) && l.(sql.StringType).Collation() == r.(sql.StringType).Collation() {
			left[i], right[i], same = &collated{child: left[i]}, &collated{child: right[i]}, transform.NewTree
		}
	}
	if same {
		return n, same, nil
	}
	return plan.NewHashLookup(ctx, n.Child, right, left, n.JoinType), same, nil
}

// collatedColumns returns what tells rows of the schema apart; nil if the frontend's hash of their values does.
func collatedColumns(s sql.Schema) []sql.Expression {
	on := make([]sql.Expression, len(s))
	needed := false
	for i, c := range s {
		on[i] = expression.NewGetField(i, c.Type, c.Name, c.Nullable)
		if weighed(c.Type) {
			on[i], needed = &collated{child: on[i]}, true
		}
	}
	if !needed {
		return nil
	}
	return on
}

// weighed reports whether texts of a type may be equal without being the same.
func weighed(t sql.Type) bool {
	st, ok := t.(sql.StringType)
	return ok && types.IsTextOnly(t) && !byteOrdered(st.Collation())
}

// exactCount is exactDistinct for COUNT(DISTINCT …), which refuses bytes that are no text besides.
func exactCount(ctx *sql.Context, c *aggregation.CountDistinct) (sql.Expression, transform.TreeIdentity, error) {
	children := c.Children()
	needed := false
	out := make([]sql.Expression, len(children))
	for i, e := range children {
		out[i] = e
		if _, done := e.(*collated); !done && (weighed(e.Type(ctx)) || types.IsBinaryType(e.Type(ctx))) {
			out[i], needed = &collated{child: e}, true
		}
	}
	if !needed {
		return c, transform.SameTree, nil
	}
	n, err := c.WithChildren(ctx, out...)
	return n, transform.NewTree, err
}

// distinctConcat is GROUP_CONCAT(DISTINCT …) that tells texts apart as their collation does.
type distinctConcat struct{ *aggregation.GroupConcat }

// exactConcat returns it for one whose texts need it; false for others. Why the text: whether it is DISTINCT is told nowhere else.
func exactConcat(ctx *sql.Context, g *aggregation.GroupConcat) (sql.Expression, bool) {
	if !strings.HasPrefix(g.String(), "group_concat(distinct distinct ") {
		return g, false
	}
	for _, e := range g.OutputExpressions() {
		if weighed(e.Type(ctx)) {
			return &distinctConcat{g}, true
		}
	}
	return g, false
}

// NewBuffer implements sql.Aggregation.
func (d *distinctConcat) NewBuffer(ctx *sql.Context) (sql.AggregationBuffer, error) {
	b, err := d.GroupConcat.NewBuffer(ctx)
	if err != nil {
		return nil, err
	}
	buffer := &distinctBuffer{AggregationBuffer: b, seen: map[string]bool{}}
	for _, e := range d.OutputExpressions() {
		if weighed(e.Type(ctx)) {
			e = &collated{child: e}
		}
		buffer.parts = append(buffer.parts, e)
	}
	return buffer, nil
}

// WithChildren implements sql.Expression.
func (d *distinctConcat) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := d.GroupConcat.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &distinctConcat{e.(*aggregation.GroupConcat)}, nil
}

// WithId implements sql.IdExpression.
func (d *distinctConcat) WithId(id sql.ColumnId) sql.IdExpression {
	return &distinctConcat{d.GroupConcat.WithId(id).(*aggregation.GroupConcat)}
}

// WithWindow implements sql.WindowAdaptableExpression.
func (d *distinctConcat) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &distinctConcat{d.GroupConcat.WithWindow(ctx, w).(*aggregation.GroupConcat)}
}

type distinctBuffer struct {
	sql.AggregationBuffer
	parts []sql.Expression
	seen  map[string]bool
}

// Update implements sql.AggregationBuffer.
func (b *distinctBuffer) Update(ctx *sql.Context, row sql.Row) error {
	var key strings.Builder
	for _, e := range b.parts {
		v, err := e.Eval(ctx, row)
		if err != nil {
			return err
		}
		if v == nil {
			return b.AggregationBuffer.Update(ctx, row) // which leaves it out
		}
		text, _, err := types.ConvertToCollatedString(ctx, v, e.Type(ctx))
		if err != nil {
			return err
		}
		fmt.Fprintf(&key, "%d:%s", len(text), text)
	}
	if b.seen[key.String()] {
		return nil
	}
	b.seen[key.String()] = true
	return b.AggregationBuffer.Update(ctx, row)
}

// collated is a text as its weights in hexadecimal, equal exactly when the texts are equal under their collation; or
// bytes in hexadecimal.
type collated struct {
	child sql.Expression
}

var _ sql.Expression = (*collated)(nil)

// Eval implements sql.Expression.
func (c *collated) Eval(ctx *sql.Context, row sql.Row) (interface{}, error) {
	v, err := c.child.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	if b, ok, err := sql.Unwrap[[]byte](ctx, v); ok || err != nil {
		return hex.EncodeToString(b), err
	}
	s, ok, err := sql.Unwrap[string](ctx, v)
	if err != nil || !ok {
		return v, err
	}
	collated, ok := c.child.Type(ctx).(sql.StringType)
	if !ok {
		return v, nil
	}
	weights, err := appendWeights(nil, collated.Collation(), s)
	if err != nil {
		return nil, err
	}
	return hex.EncodeToString(weights), nil
}

// Children implements sql.Expression.
func (c *collated) Children() []sql.Expression { return []sql.Expression{c.child} }

// WithChildren implements sql.Expression.
func (c *collated) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(c, len(children), 1)
	}
	return &collated{child: children[0]}, nil
}

// Type implements sql.Expression: bytes, so that a second look finds nothing to weigh.
func (c *collated) Type(*sql.Context) sql.Type {
	return types.CreateLongText(sql.Collation_utf8mb4_bin)
}

// IsNullable implements sql.Expression.
func (c *collated) IsNullable(ctx *sql.Context) bool { return c.child.IsNullable(ctx) }

// Resolved implements sql.Expression.
func (c *collated) Resolved() bool { return c.child.Resolved() }

// String implements fmt.Stringer.
func (c *collated) String() string { return c.child.String() }
