package predicate

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
)

// compareColumn sets bit i of out where "cell i op v" holds, op other than NullSafeEq. Bits of NULL cells and
// beyond the last are arbitrary.
func compareColumn(out []uint64, a arrow.Array, op Op, v any) error {
	ok := false
	switch a := a.(type) {
	case *array.Boolean:
		ok = compareBool(out, a, op, v)
	case *array.Int8:
		ok = compareInts(out, a.Int8Values(), op, v)
	case *array.Int16:
		ok = compareInts(out, a.Int16Values(), op, v)
	case *array.Int32:
		ok = compareInts(out, a.Int32Values(), op, v)
	case *array.Int64:
		ok = compareInts(out, a.Int64Values(), op, v)
	case *array.Uint8:
		ok = compareInts(out, a.Uint8Values(), op, v)
	case *array.Uint16:
		ok = compareInts(out, a.Uint16Values(), op, v)
	case *array.Uint32:
		ok = compareInts(out, a.Uint32Values(), op, v)
	case *array.Uint64:
		ok = compareInts(out, a.Uint64Values(), op, v)
	case *array.Date32:
		ok = compareInts(out, a.Date32Values(), op, v)
	case *array.Date64:
		ok = compareInts(out, a.Date64Values(), op, v)
	case *array.Time32:
		ok = compareInts(out, a.Time32Values(), op, v)
	case *array.Time64:
		ok = compareInts(out, a.Time64Values(), op, v)
	case *array.Timestamp:
		ok = compareInts(out, a.TimestampValues(), op, v)
	case *array.Duration:
		ok = compareInts(out, a.DurationValues(), op, v)
	case *array.Float32:
		ok = compareFloats(out, a.Float32Values(), op, v)
	case *array.Float64:
		ok = compareFloats(out, a.Float64Values(), op, v)
	case *array.String:
		ok = compareText(out, a, op, v)
	case *array.LargeString:
		ok = compareText(out, a, op, v)
	case *array.Binary:
		ok = compareBytes(out, a, op, v)
	case *array.LargeBinary:
		ok = compareBytes(out, a, op, v)
	case *array.FixedSizeBinary:
		ok = compareBytes(out, a, op, v)
	case *array.Decimal128:
		ok = compareNums[decimal128.Num](out, a.Len(), a.Value, op, v)
	case *array.Decimal256:
		ok = compareNums[decimal256.Num](out, a.Len(), a.Value, op, v)
	}
	if !ok {
		return typeError(v, a)
	}
	return nil
}

// fill sets bit i of out for every value x at i with test(x). It is small enough to be inlined with test.
func fill[T any](out []uint64, values []T, test func(T) bool) {
	for w := range out {
		part := values[w*64 : min(w*64+64, len(values))]
		var word uint64
		for i, x := range part {
			if test(x) {
				word |= 1 << uint(i)
			}
		}
		out[w] = word
	}
}

// fillAt is fill over cells read by number.
func fillAt(out []uint64, n int, test func(i int) bool) {
	for w := range out {
		var word uint64
		for i := w * 64; i < min(w*64+64, n); i++ {
			if test(i) {
				word |= 1 << uint(i&63)
			}
		}
		out[w] = word
	}
}

func compareInts[T cmp.Ordered](out []uint64, values []T, op Op, v any) bool {
	x, ok := v.(T)
	if ok {
		compareOrdered(out, values, op, x)
	}
	return ok
}

// compareOrdered has one loop per operator, so that the operator is not looked at per row.
func compareOrdered[T cmp.Ordered](out []uint64, values []T, op Op, v T) {
	for w := range out {
		part := values[w*64 : min(w*64+64, len(values))]
		var word uint64
		switch op {
		case Eq:
			for i, x := range part {
				word |= bit(x == v) << uint(i)
			}
		case Ne:
			for i, x := range part {
				word |= bit(x != v) << uint(i)
			}
		case Lt:
			for i, x := range part {
				word |= bit(x < v) << uint(i)
			}
		case Le:
			for i, x := range part {
				word |= bit(x <= v) << uint(i)
			}
		case Gt:
			for i, x := range part {
				word |= bit(x > v) << uint(i)
			}
		case Ge:
			for i, x := range part {
				word |= bit(x >= v) << uint(i)
			}
		}
		out[w] = word
	}
}

// bit is compiled without a branch.
func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// compareFloats puts NaN above everything and equal to itself; IEEE comparison does the rest.
func compareFloats[T float32 | float64](out []uint64, values []T, op Op, v any) bool {
	x, ok := v.(T)
	if !ok {
		return false
	}
	isNaN := func(y T) bool { return y != y }
	notNaN := func(y T) bool { return y == y }
	switch {
	case x == x && op == Gt:
		fill(out, values, func(y T) bool { return !(y <= x) })
	case x == x && op == Ge:
		fill(out, values, func(y T) bool { return !(y < x) })
	case x == x:
		compareOrdered(out, values, op, x)
	case op == Eq || op == Ge:
		fill(out, values, isNaN)
	case op == Ne || op == Lt:
		fill(out, values, notNaN)
	default: // Le: everything, Gt: nothing
		fill(out, values, func(T) bool { return op == Le })
	}
	return true
}

func compareBool(out []uint64, a *array.Boolean, op Op, v any) bool {
	x, ok := v.(bool)
	if !ok {
		return false
	}
	values := boolBits(a, len(out))
	onTrue, onFalse := holds(op, cmpBool(true, x)), holds(op, cmpBool(false, x))
	for i, w := range values {
		out[i] = 0
		if onTrue {
			out[i] |= w
		}
		if onFalse {
			out[i] |= ^w
		}
	}
	return true
}

func compareText(out []uint64, a interface {
	Len() int
	Value(int) string
}, op Op, v any) bool {
	x, ok := v.(string)
	if !ok {
		return false
	}
	switch op {
	case Eq:
		fillAt(out, a.Len(), func(i int) bool { return a.Value(i) == x })
	case Ne:
		fillAt(out, a.Len(), func(i int) bool { return a.Value(i) != x })
	default:
		fillAt(out, a.Len(), func(i int) bool { return holds(op, strings.Compare(a.Value(i), x)) })
	}
	return true
}

func compareBytes(out []uint64, a interface {
	Len() int
	Value(int) []byte
}, op Op, v any) bool {
	x, ok := v.([]byte)
	if !ok {
		return false
	}
	switch op {
	case Eq:
		fillAt(out, a.Len(), func(i int) bool { return bytes.Equal(a.Value(i), x) })
	case Ne:
		fillAt(out, a.Len(), func(i int) bool { return !bytes.Equal(a.Value(i), x) })
	default:
		fillAt(out, a.Len(), func(i int) bool { return holds(op, bytes.Compare(a.Value(i), x)) })
	}
	return true
}

func compareNums[T interface{ Cmp(T) int }](out []uint64, n int, value func(int) T, op Op, v any) bool {
	x, ok := v.(T)
	if ok {
		fillAt(out, n, func(i int) bool { return holds(op, value(i).Cmp(x)) })
	}
	return ok
}

// holds tells what a comparison result (negative, zero, positive) means for op.
func holds(op Op, c int) bool {
	switch op {
	case Eq, NullSafeEq:
		return c == 0
	case Ne:
		return c != 0
	case Lt:
		return c < 0
	case Le:
		return c <= 0
	case Gt:
		return c > 0
	default:
		return c >= 0
	}
}

func cmpBool(a, b bool) int {
	return int(bit(a)) - int(bit(b))
}
