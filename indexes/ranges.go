package indexes

import (
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/predicate"
)

// RangesOf is the set of cells that q asks for. errs.ErrInvalid if its values are nil or of different Go types,
// errs.ErrUnsupported for a question this package does not know.
func RangesOf(q Query) (predicate.Ranges, error) {
	var e predicate.Expr
	switch q := q.(type) {
	case IsNull:
		return predicate.Ranges{Null: true}, nil
	case NotNull:
		return predicate.NotNull(), nil
	case In:
		if slices.Contains(q.Values, nil) {
			return predicate.Ranges{}, fmt.Errorf("NULL among the values of a query: %w", errs.ErrInvalid)
		}
		e = predicate.In{Values: q.Values}
	case Range:
		e = q.expr()
	default:
		return predicate.Ranges{}, fmt.Errorf("query %T: %w", q, errs.ErrUnsupported)
	}
	r, exact := predicate.Bounds(e, 0)
	if !exact {
		return predicate.Ranges{}, fmt.Errorf("query %+v mixes types: %w", q, errs.ErrInvalid)
	}
	return r, nil
}

func (q Range) expr() predicate.Expr {
	terms := []predicate.Expr{predicate.Not{Term: predicate.IsNull{}}}
	if q.Low.Value != nil {
		op := predicate.Ge
		if q.Low.Exclusive {
			op = predicate.Gt
		}
		terms = append(terms, predicate.Compare{Op: op, Value: q.Low.Value})
	}
	if q.High.Value != nil {
		op := predicate.Le
		if q.High.Exclusive {
			op = predicate.Lt
		}
		terms = append(terms, predicate.Compare{Op: op, Value: q.High.Value})
	}
	return predicate.And{Terms: terms}
}
