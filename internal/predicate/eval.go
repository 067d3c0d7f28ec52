package predicate

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Mask is the set of rows for which a predicate is true.
type Mask = arrowx.Mask

// truth is the value of an expression for every row: true where t is set, false where f is set, NULL where
// neither is. Bits beyond the last row are arbitrary. A truth belongs to whoever holds it.
type truth struct{ t, f []uint64 }

// evaluator evaluates over the rows of one batch.
type evaluator struct {
	col   func(int) arrow.Array
	rows  int
	words int
}

// Eval evaluates e over rows rows; col(i) is column i with that many cells (asked only for Columns(e), nil = not
// there). The mask holds the rows for which e is true; NULL counts as false. errs.ErrInvalid for a missing or
// short column or a value that is not of its column's Go type, errs.ErrUnsupported for a column type without
// one.
func Eval(e Expr, col func(i int) arrow.Array, rows int) (*Mask, error) {
	ev := &evaluator{col: col, rows: rows, words: (rows + 63) / 64}
	v, err := ev.eval(e)
	if err != nil {
		return nil, err
	}
	return arrowx.MaskOf(v.t, rows), nil
}

// EvalBatch is Eval over a batch whose column i is column i of the table.
func EvalBatch(e Expr, rec arrow.RecordBatch) (*Mask, error) {
	return Eval(e, func(i int) arrow.Array {
		if i < 0 || i >= int(rec.NumCols()) {
			return nil
		}
		return rec.Column(i)
	}, int(rec.NumRows()))
}

func (ev *evaluator) constant(v bool) truth {
	set, unset := make([]uint64, ev.words), make([]uint64, ev.words)
	for i := range set {
		set[i] = ^uint64(0)
	}
	if v {
		return truth{t: set, f: unset}
	}
	return truth{t: unset, f: set}
}

func (ev *evaluator) null() truth {
	return truth{t: make([]uint64, ev.words), f: make([]uint64, ev.words)}
}

func (ev *evaluator) eval(e Expr) (truth, error) {
	switch e := e.(type) {
	case Const:
		return ev.constant(e.Value), nil
	case And:
		return ev.junction(e.Terms, true)
	case Or:
		return ev.junction(e.Terms, false)
	case Not:
		v, err := ev.eval(e.Term)
		return truth{t: v.f, f: v.t}, err
	case IsNull:
		a, err := ev.column(e.Column)
		if err != nil {
			return truth{}, err
		}
		return ev.isNull(a), nil
	case Compare:
		return ev.compare(e)
	case In:
		return ev.in(e)
	default:
		return truth{}, fmt.Errorf("expression %T: %w", e, errs.ErrUnsupported)
	}
}

// junction is the conjunction (and) or disjunction of terms: min or max of false < NULL < true.
func (ev *evaluator) junction(terms []Expr, and bool) (truth, error) {
	acc := ev.constant(and)
	for _, term := range terms {
		v, err := ev.eval(term)
		if err != nil {
			return truth{}, err
		}
		if and {
			intersect(acc.t, v.t)
			unite(acc.f, v.f)
		} else {
			unite(acc.t, v.t)
			intersect(acc.f, v.f)
		}
	}
	return acc, nil
}

func intersect(dst, src []uint64) {
	for i := range dst {
		dst[i] &= src[i]
	}
}

func unite(dst, src []uint64) {
	for i := range dst {
		dst[i] |= src[i]
	}
}

func (ev *evaluator) column(i int) (arrow.Array, error) {
	a := ev.col(i)
	if a == nil {
		return nil, fmt.Errorf("predicate on column %d, which is not there: %w", i, errs.ErrInvalid)
	}
	if a.Len() != ev.rows {
		return nil, fmt.Errorf("predicate on column %d of %d cells, not %d: %w", i, a.Len(), ev.rows, errs.ErrInvalid)
	}
	return a, nil
}

// valid returns the validity of a as words, nil if nothing is NULL.
func (ev *evaluator) valid(a arrow.Array) []uint64 {
	if a.NullN() == 0 {
		return nil
	}
	if a.DataType().ID() == arrow.NULL {
		return make([]uint64, ev.words)
	}
	bitmap, off := a.NullBitmapBytes(), a.Data().Offset()
	out := make([]uint64, ev.words)
	copyBits(out, bitmap, off, ev.rows)
	return out
}

// copyBits sets bit i of dst to bit off+i of src, for i < n.
func copyBits(dst []uint64, src []byte, off, n int) {
	shift := uint(off & 7)
	src = src[off>>3:]
	for w := range dst {
		var word uint64
		for b := range 8 {
			at := w*8 + b
			if at*8 >= n {
				break
			}
			v := src[at] >> shift
			if shift != 0 && at+1 < len(src) {
				v |= src[at+1] << (8 - shift)
			}
			word |= uint64(v) << (8 * b)
		}
		dst[w] = word
	}
}

func (ev *evaluator) isNull(a arrow.Array) truth {
	valid := ev.valid(a)
	if valid == nil {
		return ev.constant(false)
	}
	nulls := make([]uint64, ev.words)
	for i, w := range valid {
		nulls[i] = ^w
	}
	return truth{t: nulls, f: valid}
}

// strict makes a truth of the rows raw for which a test on a's values holds: NULL where a is NULL.
func (ev *evaluator) strict(a arrow.Array, raw []uint64) truth {
	v := truth{t: raw, f: make([]uint64, ev.words)}
	valid := ev.valid(a)
	for i, w := range raw {
		v.f[i] = ^w
		if valid != nil {
			v.t[i] &= valid[i]
			v.f[i] &= valid[i]
		}
	}
	return v
}

func (ev *evaluator) compare(e Compare) (truth, error) {
	a, err := ev.column(e.Column)
	if err != nil {
		return truth{}, err
	}
	if e.Op < Eq || e.Op > NullSafeEq {
		return truth{}, fmt.Errorf("comparison operator %d: %w", e.Op, errs.ErrInvalid)
	}
	if e.Value == nil {
		if e.Op == NullSafeEq {
			return ev.isNull(a), nil
		}
		return ev.null(), nil
	}
	op := e.Op
	if op == NullSafeEq {
		op = Eq
	}
	raw := make([]uint64, ev.words)
	if err := compareColumn(raw, a, op, e.Value); err != nil {
		return truth{}, fmt.Errorf("predicate on column %d: %w", e.Column, err)
	}
	v := ev.strict(a, raw)
	if e.Op == NullSafeEq { // never NULL
		for i, w := range v.t {
			v.f[i] = ^w
		}
	}
	return v, nil
}

func (ev *evaluator) in(e In) (truth, error) {
	a, err := ev.column(e.Column)
	if err != nil {
		return truth{}, err
	}
	if slices.Contains(e.Values, nil) {
		return truth{}, fmt.Errorf("predicate on column %d: NULL among the values of IN: %w", e.Column, errs.ErrInvalid)
	}
	if len(e.Values) == 0 {
		return ev.constant(false), nil
	}
	raw := make([]uint64, ev.words)
	if err := inColumn(raw, a, e.Values); err != nil {
		return truth{}, fmt.Errorf("predicate on column %d: %w", e.Column, err)
	}
	return ev.strict(a, raw), nil
}

// Columns lists the columns e reads, ascending and distinct.
func Columns(e Expr) []int {
	cols := appendColumns(nil, e)
	slices.Sort(cols)
	return slices.Compact(cols)
}

func appendColumns(dst []int, e Expr) []int {
	switch e := e.(type) {
	case Compare:
		return append(dst, e.Column)
	case In:
		return append(dst, e.Column)
	case IsNull:
		return append(dst, e.Column)
	case Not:
		return appendColumns(dst, e.Term)
	case And:
		for _, t := range e.Terms {
			dst = appendColumns(dst, t)
		}
	case Or:
		for _, t := range e.Terms {
			dst = appendColumns(dst, t)
		}
	}
	return dst
}

// typeError says that v is not a value of a's column.
func typeError(v any, a arrow.Array) error {
	if !arrowx.Supported(a.DataType()) {
		return fmt.Errorf("comparison with type %s: %w", a.DataType(), errs.ErrUnsupported)
	}
	return fmt.Errorf("a %T compared with type %s: %w", v, a.DataType(), errs.ErrInvalid)
}

// boolBits returns the values of a as words.
func boolBits(a *array.Boolean, words int) []uint64 {
	out := make([]uint64, words)
	if buf := a.Data().Buffers()[1]; buf != nil && a.Len() > 0 {
		copyBits(out, buf.Bytes(), a.Data().Offset(), a.Len())
	}
	return out
}
