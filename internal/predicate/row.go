package predicate

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// EvalRow evaluates e over one row whose cell i is column i; NULL counts as false. errs.ErrInvalid for a missing
// cell or a value of another Go type than the cell's.
func EvalRow(e Expr, r arrowx.Row) (bool, error) {
	v, err := evalRow(e, r)
	return v == isTrue, err
}

// logic is a value of three-valued logic, ordered so that AND is min and OR is max.
type logic int8

const (
	isFalse logic = iota - 1
	isUnknown
	isTrue
)

func logicOf(b bool) logic {
	if b {
		return isTrue
	}
	return isFalse
}

func evalRow(e Expr, r arrowx.Row) (logic, error) {
	switch e := e.(type) {
	case Const:
		return logicOf(e.Value), nil
	case Not:
		v, err := evalRow(e.Term, r)
		return -v, err
	case And:
		acc := isTrue
		for _, t := range e.Terms {
			v, err := evalRow(t, r)
			if err != nil {
				return isUnknown, err
			}
			acc = min(acc, v)
		}
		return acc, nil
	case Or:
		acc := isFalse
		for _, t := range e.Terms {
			v, err := evalRow(t, r)
			if err != nil {
				return isUnknown, err
			}
			acc = max(acc, v)
		}
		return acc, nil
	case IsNull:
		c, err := cell(r, e.Column)
		return logicOf(c == nil), err
	case Compare:
		return compareRow(e, r)
	case In:
		return inRow(e, r)
	default:
		return isUnknown, fmt.Errorf("expression %T: %w", e, errs.ErrUnsupported)
	}
}

func cell(r arrowx.Row, i int) (any, error) {
	if i < 0 || i >= len(r) {
		return nil, fmt.Errorf("predicate on column %d of a row of %d: %w", i, len(r), errs.ErrInvalid)
	}
	return r[i], nil
}

func compareRow(e Compare, r arrowx.Row) (logic, error) {
	if e.Op < Eq || e.Op > NullSafeEq {
		return isUnknown, fmt.Errorf("comparison operator %d: %w", e.Op, errs.ErrInvalid)
	}
	c, err := cell(r, e.Column)
	if err != nil {
		return isUnknown, err
	}
	if c == nil || e.Value == nil {
		if e.Op == NullSafeEq {
			return logicOf(c == nil && e.Value == nil), nil
		}
		return isUnknown, nil
	}
	order, ok := CompareCells(c, e.Value)
	if !ok {
		return isUnknown, fmt.Errorf("predicate on column %d: a %T compared with a %T: %w", e.Column, e.Value, c, errs.ErrInvalid)
	}
	return logicOf(holds(e.Op, order)), nil
}

func inRow(e In, r arrowx.Row) (logic, error) {
	c, err := cell(r, e.Column)
	if err != nil {
		return isUnknown, err
	}
	found := false
	for _, v := range e.Values {
		if v == nil {
			return isUnknown, fmt.Errorf("predicate on column %d: NULL among the values of IN: %w", e.Column, errs.ErrInvalid)
		}
		if c == nil {
			continue
		}
		order, ok := CompareCells(c, v)
		if !ok {
			return isUnknown, fmt.Errorf("predicate on column %d: a %T compared with a %T: %w", e.Column, v, c, errs.ErrInvalid)
		}
		found = found || order == 0
	}
	if c == nil && len(e.Values) > 0 {
		return isUnknown, nil
	}
	return logicOf(found), nil
}

// CompareCells orders two cells of one column, neither NULL, as Compare does: -1, 0 or 1. ok is false when their
// Go types differ or are not those of arrowx.Row.
func CompareCells(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case bool:
		b, ok := b.(bool)
		return cmpBool(a, b), ok
	case int8:
		return ordered(a, b)
	case int16:
		return ordered(a, b)
	case int32:
		return ordered(a, b)
	case int64:
		return ordered(a, b)
	case uint8:
		return ordered(a, b)
	case uint16:
		return ordered(a, b)
	case uint32:
		return ordered(a, b)
	case uint64:
		return ordered(a, b)
	case float32:
		b, ok := b.(float32)
		return -cmp.Compare(-a, -b), ok // cmp puts NaN lowest
	case float64:
		b, ok := b.(float64)
		return -cmp.Compare(-a, -b), ok
	case string:
		return ordered(a, b)
	case []byte:
		b, ok := b.([]byte)
		return bytes.Compare(a, b), ok
	case arrow.Date32:
		return ordered(a, b)
	case arrow.Date64:
		return ordered(a, b)
	case arrow.Time32:
		return ordered(a, b)
	case arrow.Time64:
		return ordered(a, b)
	case arrow.Timestamp:
		return ordered(a, b)
	case arrow.Duration:
		return ordered(a, b)
	case decimal128.Num:
		b, ok := b.(decimal128.Num)
		return a.Cmp(b), ok
	case decimal256.Num:
		b, ok := b.(decimal256.Num)
		return a.Cmp(b), ok
	default:
		return 0, false
	}
}

func ordered[T cmp.Ordered](a T, b any) (int, bool) {
	x, ok := b.(T)
	return cmp.Compare(a, x), ok
}
