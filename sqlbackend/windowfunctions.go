package sqlbackend

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation/window"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// Window functions that the frontend lacks. carriedFunction makes them.

// cumeDist is CUME_DIST(): how much of its partition comes before a row or is equal to it.
type cumeDist struct{ *window.PercentRank }

var _ sql.WindowAdaptableExpression = (*cumeDist)(nil)

func newCumeDist(ctx *sql.Context) sql.Expression {
	return &cumeDist{window.NewPercentRank(ctx).(*window.PercentRank)}
}

// FunctionName implements sql.FunctionExpression.
func (c *cumeDist) FunctionName() string { return "CUME_DIST" }

// String implements fmt.Stringer.
func (c *cumeDist) String() string {
	return cumeDistName + strings.TrimPrefix(c.PercentRank.String(), "percent_rank")
}

// WithChildren implements sql.Expression.
func (c *cumeDist) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := c.PercentRank.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &cumeDist{e.(*window.PercentRank)}, nil
}

// WithWindow implements sql.WindowAdaptableExpression.
func (c *cumeDist) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &cumeDist{c.PercentRank.WithWindow(ctx, w).(*window.PercentRank)}
}

// WithId implements sql.IdExpression.
func (c *cumeDist) WithId(id sql.ColumnId) sql.IdExpression {
	return &cumeDist{c.PercentRank.WithId(id).(*window.PercentRank)}
}

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (c *cumeDist) NewWindowFunction(*sql.Context) (sql.WindowFunction, error) {
	return &cumeDistWindow{PercentRank: aggregation.NewPercentRank(c.Window().OrderBy.ToExpressions())}, nil
}

// cumeDistWindow computes CUME_DIST. Its intervals are the rows equal to the current one.
type cumeDistWindow struct {
	*aggregation.PercentRank
	partition sql.WindowInterval
}

// StartPartition implements sql.WindowFunction.
func (c *cumeDistWindow) StartPartition(ctx *sql.Context, in sql.WindowInterval, b sql.WindowBuffer) error {
	c.partition = in
	return c.PercentRank.StartPartition(ctx, in, b)
}

// Compute implements sql.WindowFunction.
func (c *cumeDistWindow) Compute(_ *sql.Context, in sql.WindowInterval, _ sql.WindowBuffer) (any, error) {
	if in.End <= in.Start {
		return nil, nil
	}
	return float64(in.End-c.partition.Start) / float64(c.partition.End-c.partition.Start), nil
}

// nthValue is NTH_VALUE(x, n): x of the n-th row of the frame.
type nthValue struct {
	*window.FirstValue
	n int
}

var _ sql.WindowAdaptableExpression = (*nthValue)(nil)

func newNthValue(ctx *sql.Context, e, n sql.Expression) (sql.Expression, error) {
	i, _ := literalInt(ctx, n) // checked later: the frontend takes an error here for another
	return &nthValue{window.NewFirstValue(ctx, e).(*window.FirstValue), i}, nil
}

// FunctionName implements sql.FunctionExpression.
func (v *nthValue) FunctionName() string { return "NTH_VALUE" }

// IsNullable implements sql.Expression: a frame may have fewer rows.
func (v *nthValue) IsNullable(*sql.Context) bool { return true }

// String implements fmt.Stringer.
func (v *nthValue) String() string {
	text := fmt.Sprintf("%s(%s, %s)", nthValueName, v.Child, strconv.Itoa(v.n))
	if w := v.Window(); w != nil {
		text += " " + w.String()
	}
	return text
}

// WithChildren implements sql.Expression.
func (v *nthValue) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := v.FirstValue.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &nthValue{e.(*window.FirstValue), v.n}, nil
}

// WithWindow implements sql.WindowAdaptableExpression.
func (v *nthValue) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &nthValue{v.FirstValue.WithWindow(ctx, w).(*window.FirstValue), v.n}
}

// WithId implements sql.IdExpression.
func (v *nthValue) WithId(id sql.ColumnId) sql.IdExpression {
	return &nthValue{v.FirstValue.WithId(id).(*window.FirstValue), v.n}
}

// NewWindowFunction implements sql.WindowAdaptableExpression. Frames are those of any aggregate.
func (v *nthValue) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	if v.n < 1 {
		return nil, newError(1210, "Incorrect arguments to nth_value")
	}
	child, err := transform.Clone(ctx, v.Child)
	if err != nil {
		return nil, err
	}
	frames, err := aggregation.NewSumAgg(child).WithWindow(ctx, v.Window())
	if err != nil {
		return nil, err
	}
	return &nthValueWindow{WindowFunction: frames, child: child, n: v.n}, nil
}

// nthValueWindow computes NTH_VALUE.
type nthValueWindow struct {
	sql.WindowFunction // frames
	child              sql.Expression
	n                  int
}

// StartPartition implements sql.WindowFunction.
func (v *nthValueWindow) StartPartition(*sql.Context, sql.WindowInterval, sql.WindowBuffer) error {
	return nil
}

// Compute implements sql.WindowFunction.
func (v *nthValueWindow) Compute(ctx *sql.Context, in sql.WindowInterval, b sql.WindowBuffer) (any, error) {
	i := in.Start + v.n - 1
	if i >= in.End {
		return nil, nil
	}
	return v.child.Eval(ctx, b[i])
}
