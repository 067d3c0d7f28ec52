package sqlbackend

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Dates and times beside numbers. MySQL takes 2024-02-03 for 20240203 and 10:11:12 for 101112 wherever a number is wanted; the frontend
// takes some for numbers of seconds, some for zero, and fails over others.

// exactTimes gives what computes with numbers the numbers that its operands are, and what compares or shifts times those the frontend
// recognises.
func exactTimes(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	if sum, ok, err := shiftOf(ctx, e); ok || err != nil {
		return sum, transform.NewTree, err
	}
	if c, ok := e.(*expression.Convert); ok && takesNumbers(c.Type(ctx)) {
		to := c.Type(ctx)
		numbers, changed, err := hideTimes(ctx, e, isTemporal, func(c sql.Expression) sql.Expression { return &givenNumber{c, to} })
		if err != nil {
			return nil, transform.SameTree, err
		}
		if changed {
			exact, _, err := exactOne(ctx, numbers)
			return exact, transform.NewTree, err
		}
	}
	if wantsNumbers(ctx, e) && !slices.ContainsFunc(e.Children(), isInterval) {
		number := func(c sql.Expression) sql.Expression { return timeAsNumber(ctx, c) }
		which, at := func(t sql.Type) bool { return isTimeType(t) || types.IsTime(t) }, func(int) bool { return true }
		if isAggregation(e) { // behind its operand stands the order of a window
			at = func(i int) bool { return i == 0 }
		}
		numbers, changed, err := hideOperands(ctx, e, which, at, number)
		if err != nil {
			return nil, transform.SameTree, err
		}
		if changed {
			exact, _, err := exactOne(ctx, numbers)
			return exact, transform.NewTree, err
		}
	}
	switch e.(type) {
	case *expression.HashInTuple, *expression.InTuple, *expression.Between, expression.Comparer,
		*function.DateAdd, *function.DateSub:
		plain, changed, err := hideTimes(ctx, e, isTimeType, func(c sql.Expression) sql.Expression { return &asTimespan{c} })
		if err != nil {
			return nil, transform.SameTree, err
		}
		if changed {
			exact, _, err := exactOne(ctx, plain)
			return exact, transform.NewTree, err
		}
	}
	return exactOne(ctx, e)
}

// timeAsNumber is a date or time as the number it is; e itself if it is neither.
func timeAsNumber(ctx *sql.Context, e sql.Expression) sql.Expression {
	if !e.Resolved() {
		return e
	}
	switch t := e.Type(ctx); {
	case isTimeType(t):
		return &timeNumber{e}
	case types.IsTime(t):
		return &dateValue{e}
	}
	return e
}

// wantsNumbers reports whether an expression takes its operands, or the first one if it is an aggregate, as numbers.
func wantsNumbers(ctx *sql.Context, e sql.Expression) bool {
	switch e := e.(type) {
	case *expression.Arithmetic, *expression.Div, *expression.IntDiv, *expression.Mod, *expression.UnaryMinus, *negated, *exactSum, *exactAverage,
		*expression.BitOp, *wholeNumber:
		return true
	case *expression.Convert:
		t := e.Type(ctx)
		return types.IsNumber(t) && !types.IsYear(t)
	case sql.FunctionExpression:
		switch strings.ToLower(e.FunctionName()) {
		case bitNotName, "abs", "ceil", "floor", "round", "truncate", "sign", "sqrt", "power", "exp", "ln", "log", "log2", "log10", "mod",
			"sin", "cos", "tan", "cot", "asin", "acos", "atan", "degrees", "radians", "format", "bit_count", "bitand", "bitor", "bitxor",
			"std", "stddev", "stddevpop", "stddev_pop", "stddevsamp", "stddev_samp", "variance", "varpop", "var_pop", "varsamp", "var_samp":
			return true
		}
	}
	return false
}

func isAggregation(e sql.Expression) bool {
	_, ok := e.(sql.Aggregation)
	return ok
}

func isInterval(e sql.Expression) bool {
	_, ok := e.(*expression.Interval)
	return ok
}

// exactDefaults makes defaults and generated columns of rows that are inserted exact, which are not among the expressions of a plan.
func exactDefaults(ctx *sql.Context, source sql.Node) (sql.Node, transform.TreeIdentity, error) {
	p, ok := source.(*plan.Project)
	if !ok {
		return source, transform.SameTree, nil
	}
	var out []sql.Expression
	for i, e := range p.Projections {
		if d, ok := e.(*sql.ColumnDefaultValue); !ok || d == nil || d.Literal {
			continue
		}
		exact, same, err := transform.Expr(ctx, e, exactComparison)
		if err != nil {
			return nil, transform.SameTree, err
		}
		if !same {
			if out == nil {
				out = append(out, p.Projections...)
			}
			out[i] = exact
		}
	}
	if out == nil {
		return source, transform.SameTree, nil
	}
	return plan.NewProject(ctx, out, p.Child), transform.NewTree, nil
}
