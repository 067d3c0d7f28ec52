package predicate

import (
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Mask is the set of rows for which a predicate is true.
type Mask = arrowx.Mask

// Eval evaluates e over rows rows.
func Eval(e Expr, col func(i int) arrow.Array, rows int) (*Mask, error) {
	return nil, errs.ErrUnsupported
}

// EvalRow evaluates e over one row.
func EvalRow(e Expr, r arrowx.Row) (bool, error) { return false, errs.ErrUnsupported }

// Columns lists the columns e reads, ascending and distinct.
func Columns(e Expr) []int { return nil }
