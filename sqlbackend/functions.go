package sqlbackend

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// functions are the SQL functions that the frontend lacks. They are found by name.
func functions() []sql.Function {
	return slices.Concat(dateFunctions(), cryptFunctions(), []sql.Function{
		sql.Function0{Name: "version", Fn: versionFunction},
		sql.Function0{Name: "session_user", Fn: function.NewUser},
		sql.Function0{Name: "system_user", Fn: function.NewUser},
		newScalar("vector_dim", 1, 1, always(types.Int64), vectorDim),
		newScalar("format_bytes", 1, 1, always(types.Text), formatBytes),
		newScalar("format_pico_time", 1, 1, always(types.Text), formatPicoTime),
		newScalar("st_distance_sphere", 2, 3, always(types.Float64), distanceSphere),
		sql.Function2{Name: "benchmark", Fn: func(_ *sql.Context, n, e sql.Expression) sql.Expression { return &benchmark{n, e} }},
	})
}

// replacedFunction returns a function in place of the frontend's own.
func replacedFunction(name string) (sql.Function, bool) {
	name = foldName(name)
	for _, group := range []func(string) (sql.Function, bool){aggregateFunction, timeFunction, timestampFunction, clockFunction, dateChoice, numberFunction, operatorFunction, carriedFunction, typedFunction, matchFunction, textFunction, regexFunction, checkedFunction, realFunction, digitFunction} {
		if f, ok := group(name); ok {
			return f, true
		}
	}
	return nil, false
}

// aggregateFunction returns an aggregate in place of the frontend's own.
func aggregateFunction(name string) (sql.Function, bool) {
	switch name {
	case "sum":
		return sql.Function1{Name: "sum", Fn: newSum}, true
	case "avg":
		return sql.Function1{Name: "avg", Fn: newAverage}, true
	}
	return nil, false
}

// versionCall is VERSION(): a literal, but one that checks and generated columns must not depend on.
type versionCall struct{ *expression.Literal }

func versionFunction(*sql.Context) sql.Expression {
	return versionCall{expression.NewLiteral(ServerVersion, types.MustCreateStringWithDefaults(sqltypes.VarChar, int64(len(ServerVersion))))}
}

// FunctionName implements sql.FunctionExpression.
func (versionCall) FunctionName() string { return "version" }

// Description implements sql.FunctionExpression.
func (versionCall) Description() string { return "returns the server's version." }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (versionCall) IsNonDeterministic() bool { return true }

// String implements sql.Expression.
func (versionCall) String() string { return "version()" }

// WithChildren implements sql.Expression.
func (v versionCall) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(v, len(c), 0)
	}
	return v, nil
}

// benchmark is BENCHMARK(n, expression), which evaluates n times and is 0.
type benchmark struct{ n, of sql.Expression }

// Resolved implements sql.Expression.
func (b *benchmark) Resolved() bool { return b.n.Resolved() && b.of.Resolved() }

// String implements sql.Expression.
func (b *benchmark) String() string { return "benchmark(" + b.n.String() + "," + b.of.String() + ")" }

// Type implements sql.Expression.
func (b *benchmark) Type(*sql.Context) sql.Type { return types.Int64 }

// IsNullable implements sql.Expression.
func (b *benchmark) IsNullable(*sql.Context) bool { return true }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (b *benchmark) IsNonDeterministic() bool { return true }

// Eval implements sql.Expression.
func (b *benchmark) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := b.n.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	n, ok := wholeOf(ctx, v)
	if !ok || n < 0 {
		ctx.Warn(1411, "Incorrect count value: '%v' for function benchmark", v)
		return nil, nil
	}
	for range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, err := b.of.Eval(ctx, row); err != nil {
			return nil, err
		}
	}
	return int64(0), nil
}

// Children implements sql.Expression.
func (b *benchmark) Children() []sql.Expression { return []sql.Expression{b.n, b.of} }

// WithChildren implements sql.Expression.
func (b *benchmark) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 2 {
		return nil, sql.ErrInvalidChildrenNumber.New(b, len(c), 2)
	}
	return &benchmark{c[0], c[1]}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (b *benchmark) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	return sql.Collation_binary, 5
}

// inUnits writes a number in the greatest unit that it is at least one of, or else as a whole number of that width.
func inUnits(v any, width int, names []string, sizes []float64) (any, error) {
	c, _, err := types.Float64.Convert(context.Background(), v)
	n, ok := c.(float64)
	if err != nil || !ok {
		return nil, nil
	}
	at := 0
	for at+1 < len(sizes) && math.Abs(n) >= sizes[at+1] {
		at++
	}
	if at == 0 {
		return fmt.Sprintf("%*d %s", width, int64(n), names[0]), nil
	}
	if n /= sizes[at]; math.Abs(n) >= 100_000 {
		return fmt.Sprintf("%.2e %s", n, names[at]), nil
	}
	return fmt.Sprintf("%.2f %s", n, names[at]), nil
}

func formatBytes(_ *sql.Context, args []any) (any, error) {
	return inUnits(args[0], 4, []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"},
		[]float64{1, 1 << 10, 1 << 20, 1 << 30, 1 << 40, 1 << 50, 1 << 60})
}

func formatPicoTime(_ *sql.Context, args []any) (any, error) {
	return inUnits(args[0], 3, []string{"ps", "ns", "us", "ms", "s", "min", "h", "d"},
		[]float64{1, 1e3, 1e6, 1e9, 1e12, 60e12, 3600e12, 24 * 3600e12})
}

// distanceSphere is the shortest way on a sphere between points of degrees of longitude and latitude, in metres.
func distanceSphere(_ *sql.Context, args []any) (any, error) {
	radius := 6_370_986.0
	if len(args) == 3 {
		c, _, err := types.Float64.Convert(context.Background(), args[2])
		if err != nil {
			return nil, err
		}
		if radius = c.(float64); radius <= 0 {
			return nil, newError(3706, "Invalid radius provided to function st_distance_sphere: Radius must be greater than zero.")
		}
	}
	a, err := pointsOf(args[0])
	if err != nil {
		return nil, err
	}
	b, err := pointsOf(args[1])
	if err != nil {
		return nil, err
	}
	least := math.Inf(1)
	for _, p := range a {
		for _, q := range b {
			if p.SRID != q.SRID {
				return nil, newError(3033, "Binary geometry function st_distance_sphere given two geometries of different srids: %d and %d, which should have been identical.", p.SRID, q.SRID)
			}
			lat1, lat2 := p.Y*math.Pi/180, q.Y*math.Pi/180
			dLat, dLon := (lat2-lat1)/2, (q.X-p.X)*math.Pi/360
			h := math.Sin(dLat)*math.Sin(dLat) + math.Cos(lat1)*math.Cos(lat2)*math.Sin(dLon)*math.Sin(dLon)
			least = min(least, 2*radius*math.Asin(math.Sqrt(min(h, 1))))
		}
	}
	return least, nil
}

// pointsOf are the points of a POINT or MULTIPOINT that lie on the sphere.
func pointsOf(v any) ([]types.Point, error) {
	var list []types.Point
	switch v := v.(type) {
	case types.Point:
		list = []types.Point{v}
	case types.MultiPoint:
		list = v.Points
	case []byte, string:
		g, _, err := types.GeometryType{}.Convert(context.Background(), v)
		if err != nil {
			return nil, newError(3037, "Invalid GIS data provided to function st_distance_sphere.")
		}
		return pointsOf(g)
	default:
		return nil, newError(3064, "Incorrect arguments to st_distance_sphere: only POINT and MULTIPOINT have a distance on a sphere")
	}
	for _, p := range list {
		if !(p.X > -180 && p.X <= 180) {
			return nil, newError(3616, "Longitude %f is out of range in function st_distance_sphere. It must be within (-180.000000, 180.000000].", p.X)
		}
		if !(p.Y >= -90 && p.Y <= 90) {
			return nil, newError(3617, "Latitude %f is out of range in function st_distance_sphere. It must be within [-90.000000, 90.000000].", p.Y)
		}
	}
	return list, nil
}
