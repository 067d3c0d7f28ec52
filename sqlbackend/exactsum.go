package sqlbackend

import (
	"math/big"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"
)

// SUM and AVG of integers and decimals are DECIMAL, as in MySQL; the frontend's are DOUBLE or have no scale. Of
// anything else they are the frontend's.

const (
	sumDigits        = 22 // that a sum has more than its values
	averageDigits    = 4  // div_precision_increment
	decimalDigitsMax = 65
	decimalScaleMax  = 30
)

// exactKind returns the digits and the scale of exact numbers; false if t is no type of such.
func exactKind(t sql.Type) (digits, scale int, ok bool) {
	switch t.Type() {
	case query.Type_INT8, query.Type_UINT8:
		return 3, 0, true
	case query.Type_INT16, query.Type_UINT16:
		return 5, 0, true
	case query.Type_INT24, query.Type_UINT24:
		return 8, 0, true
	case query.Type_INT32, query.Type_UINT32:
		return 10, 0, true
	case query.Type_INT64:
		return 19, 0, true
	case query.Type_UINT64:
		return 20, 0, true
	case query.Type_DECIMAL:
		d, ok := t.(sql.DecimalType)
		if !ok {
			return 0, 0, false
		}
		return int(d.Precision()), int(d.Scale()), true
	}
	return 0, 0, false
}

// exactType is the type of SUM (or AVG) of values of type t; nil if it is not exact.
func exactType(t sql.Type, average bool) sql.DecimalType {
	digits, scale, ok := exactKind(t)
	if !ok {
		return nil
	}
	more := sumDigits
	if average {
		more, scale = averageDigits, min(scale+averageDigits, decimalScaleMax)
	}
	return types.MustCreateDecimalType(uint8(min(digits+more, decimalDigitsMax)), uint8(scale))
}

// exactSum is SUM.
type exactSum struct{ *aggregation.Sum }

// exactAverage is AVG.
type exactAverage struct{ *aggregation.Avg }

var (
	_ sql.Aggregation = (*exactSum)(nil)
	_ sql.Aggregation = (*exactAverage)(nil)
)

func newSum(ctx *sql.Context, e sql.Expression) sql.Expression {
	return &exactSum{aggregation.NewSum(timeAsNumber(ctx, e))}
}

func newAverage(ctx *sql.Context, e sql.Expression) sql.Expression {
	return &exactAverage{aggregation.NewAvg(timeAsNumber(ctx, e))}
}

// Type implements sql.Expression.
func (s *exactSum) Type(ctx *sql.Context) sql.Type {
	if t := exactType(s.Child.Type(ctx), false); t != nil {
		return t
	}
	return s.Sum.Type(ctx)
}

// IsNullable implements sql.Expression: the sum of no rows is NULL.
func (s *exactSum) IsNullable(*sql.Context) bool { return true }

// NewBuffer implements sql.Aggregation.
func (s *exactSum) NewBuffer(ctx *sql.Context) (sql.AggregationBuffer, error) {
	if t := exactType(s.Child.Type(ctx), false); t != nil {
		return newSumBuffer(ctx, s.Child, t, false)
	}
	return s.Sum.NewBuffer(ctx)
}

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (s *exactSum) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	w, err := s.Sum.NewWindowFunction(ctx)
	if t := exactType(s.Child.Type(ctx), false); err == nil && t != nil {
		return newSumWindow(ctx, w, s.Child, t, false)
	}
	return w, err
}

// WithChildren implements sql.Expression.
func (s *exactSum) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := s.Sum.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &exactSum{e.(*aggregation.Sum)}, nil
}

// WithWindow implements sql.WindowAdaptableExpression.
func (s *exactSum) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &exactSum{s.Sum.WithWindow(ctx, w).(*aggregation.Sum)}
}

// WithId implements sql.IdExpression.
func (s *exactSum) WithId(id sql.ColumnId) sql.IdExpression {
	return &exactSum{s.Sum.WithId(id).(*aggregation.Sum)}
}

// Type implements sql.Expression.
func (a *exactAverage) Type(ctx *sql.Context) sql.Type {
	if t := exactType(a.Child.Type(ctx), true); t != nil {
		return t
	}
	return a.Avg.Type(ctx)
}

// IsNullable implements sql.Expression: the average of no rows is NULL.
func (a *exactAverage) IsNullable(*sql.Context) bool { return true }

// NewBuffer implements sql.Aggregation.
func (a *exactAverage) NewBuffer(ctx *sql.Context) (sql.AggregationBuffer, error) {
	if t := exactType(a.Child.Type(ctx), true); t != nil {
		return newSumBuffer(ctx, a.Child, t, true)
	}
	return a.Avg.NewBuffer(ctx)
}

// NewWindowFunction implements sql.WindowAdaptableExpression.
func (a *exactAverage) NewWindowFunction(ctx *sql.Context) (sql.WindowFunction, error) {
	w, err := a.Avg.NewWindowFunction(ctx)
	if t := exactType(a.Child.Type(ctx), true); err == nil && t != nil {
		return newSumWindow(ctx, w, a.Child, t, true)
	}
	return w, err
}

// WithChildren implements sql.Expression.
func (a *exactAverage) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := a.Avg.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &exactAverage{e.(*aggregation.Avg)}, nil
}

// WithWindow implements sql.WindowAdaptableExpression.
func (a *exactAverage) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &exactAverage{a.Avg.WithWindow(ctx, w).(*aggregation.Avg)}
}

// WithId implements sql.IdExpression.
func (a *exactAverage) WithId(id sql.ColumnId) sql.IdExpression {
	return &exactAverage{a.Avg.WithId(id).(*aggregation.Avg)}
}

// total is a sum of exact numbers: (large + small) * 10^-scale.
type total struct {
	small int64
	large *big.Int // nil while small suffices
	scale int32
	count int64
}

// add adds a value, which may be nil.
func (t *total) add(ctx *sql.Context, v any) error {
	switch n := v.(type) {
	case nil:
		return nil
	case int8:
		t.addInt(int64(n))
	case int16:
		t.addInt(int64(n))
	case int32:
		t.addInt(int64(n))
	case int64:
		t.addInt(n)
	case uint8:
		t.addInt(int64(n))
	case uint16:
		t.addInt(int64(n))
	case uint32:
		t.addInt(int64(n))
	default:
		d, err := toDecimal(v)
		if err != nil {
			return err
		}
		if d != nil {
			t.addDecimal(d)
		}
	}
	return nil
}

func (t *total) addInt(n int64) {
	if t.scale > 0 {
		t.addDecimal(apd.New(n, 0))
		return
	}
	t.count++
	sum := t.small + n
	if (sum > t.small) == (n > 0) {
		t.small = sum
		return
	}
	t.spill()
	t.small = n
}

func (t *total) spill() {
	if t.large == nil {
		t.large = new(big.Int)
	}
	t.large.Add(t.large, big.NewInt(t.small))
	t.small = 0
}

func (t *total) addDecimal(d *apd.Decimal) {
	t.count++
	t.spill()
	n := signedCoefficient(d)
	switch scale := -d.Exponent; {
	case scale < t.scale:
		n = new(big.Int).Mul(n, tenTo(t.scale-scale))
	case scale > t.scale:
		t.large.Mul(t.large, tenTo(scale-t.scale))
		t.scale = scale
	}
	t.large.Add(t.large, n)
}

func tenTo(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// minus returns t without a part of it.
func (t *total) minus(part *total) *total {
	a, b := t.value(), part.value()
	scale := max(t.scale, part.scale)
	a.Mul(a, tenTo(scale-t.scale))
	b.Mul(b, tenTo(scale-part.scale))
	return &total{large: a.Sub(a, b), scale: scale, count: t.count - part.count}
}

func (t *total) copy() *total {
	c := *t
	if t.large != nil {
		c.large = new(big.Int).Set(t.large)
	}
	return &c
}

// value is the sum as an integer; it belongs to the caller.
func (t *total) value() *big.Int {
	n := big.NewInt(t.small)
	if t.large != nil {
		n.Add(n, t.large)
	}
	return n
}

// result is the sum or the average at the scale of the type, nil if there were no values.
func (t *total) result(typ sql.DecimalType, average bool) any {
	if t.count == 0 {
		return nil
	}
	divisor := big.NewInt(1)
	if average {
		divisor.SetInt64(t.count)
	}
	n, scale := t.value(), int32(typ.Scale())
	if scale == decimalScaleMax { // of values whose scale the frontend does not know: that of the values themselves
		if average {
			scale = min(t.scale+averageDigits, scale)
		} else {
			scale = min(t.scale, scale)
		}
	}
	if scale >= t.scale {
		n.Mul(n, tenTo(scale-t.scale))
	} else {
		divisor.Mul(divisor, tenTo(t.scale-scale))
	}
	return apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(divideRounded(n, divisor)), -scale)
}

// divideRounded is n/d, half away from zero; d is positive.
func divideRounded(n, d *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(n, d, new(big.Int))
	if r.Abs(r).Lsh(r, 1).Cmp(d) >= 0 {
		q.Add(q, big.NewInt(int64(n.Sign())))
	}
	return q
}

// sumBuffer sums the values of one group.
type sumBuffer struct {
	total   total
	child   sql.Expression
	typ     sql.DecimalType
	average bool
}

func newSumBuffer(ctx *sql.Context, e sql.Expression, t sql.DecimalType, average bool) (sql.AggregationBuffer, error) {
	child, err := transform.Clone(ctx, e) // Why: DISTINCT remembers what it has seen
	if err != nil {
		return nil, err
	}
	return &sumBuffer{child: child, typ: t, average: average}, nil
}

// Update implements sql.AggregationBuffer.
func (b *sumBuffer) Update(ctx *sql.Context, row sql.Row) error {
	v, err := b.child.Eval(ctx, row)
	if err != nil {
		return err
	}
	return b.total.add(ctx, v)
}

// Eval implements sql.AggregationBuffer.
func (b *sumBuffer) Eval(*sql.Context) (interface{}, error) {
	return b.total.result(b.typ, b.average), nil
}

// Dispose implements sql.Disposable.
func (b *sumBuffer) Dispose(ctx *sql.Context) {
	if d, ok := b.child.(sql.Disposable); ok {
		d.Dispose(ctx)
	}
}

// sumWindow sums the values of frames: the difference of two sums from the beginning of the partition.
type sumWindow struct {
	sql.WindowFunction // the frontend's: frames
	child              sql.Expression
	typ                sql.DecimalType
	average            bool

	start int
	sums  []*total // up to and with each row of the partition
}

func newSumWindow(ctx *sql.Context, w sql.WindowFunction, e sql.Expression, t sql.DecimalType, average bool) (sql.WindowFunction, error) {
	child, err := transform.Clone(ctx, e)
	return &sumWindow{WindowFunction: w, child: child, typ: t, average: average}, err
}

// StartPartition implements sql.WindowFunction.
func (w *sumWindow) StartPartition(ctx *sql.Context, interval sql.WindowInterval, buf sql.WindowBuffer) error {
	w.start, w.sums = interval.Start, make([]*total, 0, max(interval.End-interval.Start, 0))
	var sum total
	for i := interval.Start; i < interval.End; i++ {
		v, err := w.child.Eval(ctx, buf[i])
		if err != nil {
			return err
		}
		if err := sum.add(ctx, v); err != nil {
			return err
		}
		w.sums = append(w.sums, sum.copy())
	}
	return nil
}

// Compute implements sql.WindowFunction.
func (w *sumWindow) Compute(_ *sql.Context, interval sql.WindowInterval, _ sql.WindowBuffer) (interface{}, error) {
	first, last := interval.Start-w.start, interval.End-w.start-1
	if last < first || last < 0 || last >= len(w.sums) {
		return nil, nil
	}
	sum := w.sums[last]
	if first > 0 {
		sum = sum.minus(w.sums[first-1])
	}
	return sum.result(w.typ, w.average), nil
}
