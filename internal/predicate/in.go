package predicate

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
)

// inColumn sets bit i of out where cell i is one of values, which is not empty.
func inColumn(out []uint64, a arrow.Array, values []any) error {
	var err error
	switch a := a.(type) {
	case *array.Int8:
		err = inFixed(out, a, a.Int8Values(), values)
	case *array.Int16:
		err = inFixed(out, a, a.Int16Values(), values)
	case *array.Int32:
		err = inFixed(out, a, a.Int32Values(), values)
	case *array.Int64:
		err = inFixed(out, a, a.Int64Values(), values)
	case *array.Uint8:
		err = inFixed(out, a, a.Uint8Values(), values)
	case *array.Uint16:
		err = inFixed(out, a, a.Uint16Values(), values)
	case *array.Uint32:
		err = inFixed(out, a, a.Uint32Values(), values)
	case *array.Uint64:
		err = inFixed(out, a, a.Uint64Values(), values)
	case *array.Date32:
		err = inFixed(out, a, a.Date32Values(), values)
	case *array.Date64:
		err = inFixed(out, a, a.Date64Values(), values)
	case *array.Time32:
		err = inFixed(out, a, a.Time32Values(), values)
	case *array.Time64:
		err = inFixed(out, a, a.Time64Values(), values)
	case *array.Timestamp:
		err = inFixed(out, a, a.TimestampValues(), values)
	case *array.Duration:
		err = inFixed(out, a, a.DurationValues(), values)
	case *array.String:
		err = inAt[string](out, a, a.Value, values)
	case *array.LargeString:
		err = inAt[string](out, a, a.Value, values)
	case *array.Binary:
		err = inBytes(out, a, a.Value, values)
	case *array.LargeBinary:
		err = inBytes(out, a, a.Value, values)
	case *array.FixedSizeBinary:
		err = inBytes(out, a, a.Value, values)
	case *array.Decimal128:
		err = inAt[decimal128.Num](out, a, a.Value, values)
	case *array.Decimal256:
		err = inAt[decimal256.Num](out, a, a.Value, values)
	default: // Boolean and floats: few values, or none that a set would find
		err = inEach(out, a, values)
	}
	return err
}

// inEach compares with one value after the other.
func inEach(out []uint64, a arrow.Array, values []any) error {
	one := make([]uint64, len(out))
	for _, v := range values {
		if err := compareColumn(one, a, Eq, v); err != nil {
			return err
		}
		unite(out, one)
	}
	return nil
}

// setFrom is the number of values from which a hash set beats comparing with each.
const setFrom = 5

func setOf[T comparable](a arrow.Array, values []any) (map[T]struct{}, error) {
	set := make(map[T]struct{}, len(values))
	for _, v := range values {
		x, ok := v.(T)
		if !ok {
			return nil, typeError(v, a)
		}
		set[x] = struct{}{}
	}
	return set, nil
}

func inFixed[T comparable](out []uint64, a arrow.Array, cells []T, values []any) error {
	if len(values) < setFrom {
		return inEach(out, a, values)
	}
	set, err := setOf[T](a, values)
	if err != nil {
		return err
	}
	fill(out, cells, func(x T) bool { _, ok := set[x]; return ok })
	return nil
}

func inAt[T comparable](out []uint64, a arrow.Array, cell func(int) T, values []any) error {
	set, err := setOf[T](a, values)
	if err != nil {
		return err
	}
	fillAt(out, a.Len(), func(i int) bool { _, ok := set[cell(i)]; return ok })
	return nil
}

func inBytes(out []uint64, a arrow.Array, cell func(int) []byte, values []any) error {
	set := make(map[string]struct{}, len(values))
	for _, v := range values {
		x, ok := v.([]byte)
		if !ok {
			return typeError(v, a)
		}
		set[string(x)] = struct{}{}
	}
	fillAt(out, a.Len(), func(i int) bool { _, ok := set[string(cell(i))]; return ok })
	return nil
}
