package sqlbackend

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/proto/query"

	"lancesql/internal/errs"
)

// codec carries the values of one MySQL type to and from its Arrow type, without loss.
//
// The frontend's cell has exactly the Go type the MySQL type prescribes (int8 for TINYINT, time.Time for dates,
// *apd.Decimal, ...); the Arrow cell is as arrowx.Row describes. Neither function sees nil.
type codec struct {
	arrow  arrow.DataType
	encode func(ctx context.Context, v any) (any, error) // frontend cell to Arrow cell
	decode func(cell any) (any, error)                   // Arrow cell to frontend cell; nil = the same Go value
}

// decimal128Digits is the largest precision a Decimal128 can hold.
const decimal128Digits = 38

// newCodec returns the codec of a column of type t; errUnsupportedType if the type has no Arrow form here.
// The table of types and the reasons for each choice is docs/types.md.
func newCodec(t sql.Type) (codec, error) {
	switch t.Type() {
	case query.Type_INT8:
		return sameCodec[int8](t, arrow.PrimitiveTypes.Int8), nil
	case query.Type_INT16:
		return sameCodec[int16](t, arrow.PrimitiveTypes.Int16), nil
	case query.Type_INT24, query.Type_INT32:
		return sameCodec[int32](t, arrow.PrimitiveTypes.Int32), nil
	case query.Type_INT64:
		return sameCodec[int64](t, arrow.PrimitiveTypes.Int64), nil
	case query.Type_UINT8:
		return sameCodec[uint8](t, arrow.PrimitiveTypes.Uint8), nil
	case query.Type_UINT16:
		return sameCodec[uint16](t, arrow.PrimitiveTypes.Uint16), nil
	case query.Type_UINT24, query.Type_UINT32:
		return sameCodec[uint32](t, arrow.PrimitiveTypes.Uint32), nil
	case query.Type_UINT64, query.Type_BIT:
		return sameCodec[uint64](t, arrow.PrimitiveTypes.Uint64), nil
	case query.Type_YEAR:
		return sameCodec[int16](t, arrow.PrimitiveTypes.Int16), nil
	case query.Type_FLOAT32:
		return floatCodec[float32](t, arrow.PrimitiveTypes.Float32), nil
	case query.Type_FLOAT64:
		return floatCodec[float64](t, arrow.PrimitiveTypes.Float64), nil
	case query.Type_DECIMAL:
		return decimalCodec(t)
	case query.Type_DATE:
		return dateCodec(t), nil
	case query.Type_DATETIME:
		return timestampCodec(t, ""), nil
	case query.Type_TIMESTAMP:
		return timestampCodec(t, "UTC"), nil
	case query.Type_TIME:
		return timeCodec(t), nil
	case query.Type_CHAR, query.Type_VARCHAR, query.Type_TEXT:
		return textCodec(t), nil
	case query.Type_BINARY, query.Type_VARBINARY, query.Type_BLOB:
		return binaryCodec(t), nil
	case query.Type_VECTOR:
		return vectorCodec(t)
	case query.Type_ENUM:
		return enumCodec(t)
	case query.Type_SET:
		return setCodec(t)
	case query.Type_JSON:
		return jsonCodec(), nil
	case query.Type_GEOMETRY:
		return geometryCodec(t), nil
	default:
		return codec{}, errUnsupportedType(t)
	}
}

// errUnsupportedType is what CREATE TABLE answers for a type that cannot be stored.
func errUnsupportedType(t sql.Type) error {
	return notSupported("columns of type " + t.String())
}

// notSupported is MySQL error 1235 for a feature of this server that does not exist yet.
func notSupported(what string) error {
	return mysql.NewSQLError(mysql.ERNotSupportedYet, "42000", "This version of lancesql doesn't yet support '%s'", what)
}

// convertTo converts a cell that does not have the column's Go type and insists on the type afterwards.
func convertTo[T any](ctx context.Context, t sql.Type, v any) (T, error) {
	if x, ok := v.(T); ok {
		return x, nil
	}
	var zero T
	c, in, err := t.Convert(ctx, v)
	if err != nil {
		return zero, err
	}
	if in != sql.InRange {
		return zero, sql.ErrValueOutOfRange.New(v, t)
	}
	x, ok := c.(T)
	if !ok {
		return zero, fmt.Errorf("a %T for a column of type %s: %w", c, t, errs.ErrInvalid)
	}
	return x, nil
}

// sameCodec serves types whose frontend cell and Arrow cell are the same Go value.
func sameCodec[T any](t sql.Type, a arrow.DataType) codec {
	return codec{arrow: a, encode: func(ctx context.Context, v any) (any, error) { return convertTo[T](ctx, t, v) }}
}

func floatCodec[T float32 | float64](t sql.Type, a arrow.DataType) codec {
	return codec{arrow: a, encode: func(ctx context.Context, v any) (any, error) {
		x, err := convertTo[T](ctx, t, v)
		if err != nil {
			return nil, err
		}
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, sql.ErrValueOutOfRange.New(v, t) // Why: MySQL has no such values
		}
		return x, nil
	}}
}

func decimalCodec(t sql.Type) (codec, error) {
	dt, ok := t.(sql.DecimalType)
	if !ok {
		return codec{}, errUnsupportedType(t)
	}
	precision, scale := int32(dt.Precision()), int32(dt.Scale())
	coefficient := func(ctx context.Context, v any) (*apd.Decimal, error) {
		d, err := convertTo[*apd.Decimal](ctx, t, v)
		if err != nil {
			return nil, err
		}
		if d.Form != apd.Finite {
			return nil, sql.ErrValueOutOfRange.New(v, t)
		}
		if d.Exponent != -scale {
			if d, err = sql.DecimalRound(d, scale); err != nil {
				return nil, err
			}
		}
		if d.NumDigits() > int64(precision) {
			return nil, sql.ErrValueOutOfRange.New(v, t)
		}
		return d, nil
	}
	if precision <= decimal128Digits {
		return codec{
			arrow: &arrow.Decimal128Type{Precision: precision, Scale: scale},
			encode: func(ctx context.Context, v any) (any, error) {
				d, err := coefficient(ctx, v)
				if err != nil {
					return nil, err
				}
				return decimal128.FromBigInt(signedCoefficient(d)), nil
			},
			decode: func(cell any) (any, error) {
				n, ok := cell.(decimal128.Num)
				if !ok {
					return nil, cellError(cell, t)
				}
				return apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(n.BigInt()), -scale), nil
			},
		}, nil
	}
	return codec{
		arrow: &arrow.Decimal256Type{Precision: precision, Scale: scale},
		encode: func(ctx context.Context, v any) (any, error) {
			d, err := coefficient(ctx, v)
			if err != nil {
				return nil, err
			}
			return decimal256.FromBigInt(signedCoefficient(d)), nil
		},
		decode: func(cell any) (any, error) {
			n, ok := cell.(decimal256.Num)
			if !ok {
				return nil, cellError(cell, t)
			}
			return apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(n.BigInt()), -scale), nil
		},
	}, nil
}

func dateCodec(t sql.Type) codec {
	return codec{
		arrow: arrow.FixedWidthTypes.Date32,
		encode: func(ctx context.Context, v any) (any, error) {
			d, err := convertTo[time.Time](ctx, t, v)
			if err != nil {
				return nil, err
			}
			return arrow.Date32(floorDiv(d.Unix(), 86400)), nil
		},
		decode: func(cell any) (any, error) {
			d, ok := cell.(arrow.Date32)
			if !ok {
				return nil, cellError(cell, t)
			}
			return time.Unix(int64(d)*86400, 0).UTC(), nil
		},
	}
}

func timestampCodec(t sql.Type, zone string) codec {
	return codec{
		arrow: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone},
		encode: func(ctx context.Context, v any) (any, error) {
			d, err := convertTo[time.Time](ctx, t, v)
			if err != nil {
				return nil, err
			}
			return arrow.Timestamp(d.UnixMicro()), nil
		},
		decode: func(cell any) (any, error) {
			us, ok := cell.(arrow.Timestamp)
			if !ok {
				return nil, cellError(cell, t)
			}
			return time.UnixMicro(int64(us)).UTC(), nil
		},
	}
}

func timeCodec(t sql.Type) codec {
	return codec{
		arrow: arrow.FixedWidthTypes.Duration_us,
		encode: func(ctx context.Context, v any) (any, error) {
			d, err := convertTo[types.Timespan](ctx, t, v)
			if tt, ok := t.(timeType); ok {
				d = tt.round(d)
			}
			return arrow.Duration(d), err
		},
		decode: func(cell any) (any, error) {
			us, ok := cell.(arrow.Duration)
			if !ok {
				return nil, cellError(cell, t)
			}
			return types.Timespan(us), nil
		},
	}
}

func textCodec(t sql.Type) codec {
	// Why: MySQL gives CHAR values back without trailing spaces, so they are not stored.
	trim := t.Type() == query.Type_CHAR
	return codec{
		arrow: arrow.BinaryTypes.String,
		encode: func(ctx context.Context, v any) (any, error) {
			v, err := sql.UnwrapAny(ctx, v)
			if err != nil {
				return nil, err
			}
			s, err := convertTo[string](ctx, t, v)
			if err != nil {
				return nil, err
			}
			if !utf8.ValidString(s) {
				return nil, mysql.NewSQLError(mysql.ERTruncatedWrongValueForField, "HY000", "Incorrect string value: '%s'", printable(s))
			}
			if st, ok := t.(sql.StringType); ok && !fitsCharset(st, s) {
				return nil, mysql.NewSQLError(mysql.ERTruncatedWrongValueForField, "HY000", "Incorrect string value: '%s'", printable(s))
			}
			if trim {
				s = strings.TrimRight(s, " ")
			}
			return s, nil
		},
	}
}

// vectorCodec keeps a VECTOR(n) as a fixed-size list of n float32, as other Lance writers keep embeddings.
func vectorCodec(t sql.Type) (codec, error) {
	vt, ok := t.(types.VectorType)
	if !ok || vt.Dimensions <= 0 {
		return codec{}, errUnsupportedType(t)
	}
	return codec{
		arrow:  arrow.FixedSizeListOf(int32(vt.Dimensions), arrow.PrimitiveTypes.Float32),
		encode: func(ctx context.Context, v any) (any, error) { return convertTo[[]byte](ctx, t, v) },
	}, nil
}

func binaryCodec(t sql.Type) codec {
	width := 0
	if st, ok := t.(sql.StringType); ok && t.Type() == query.Type_BINARY {
		width = int(st.MaxByteLength())
	}
	return codec{
		arrow: arrow.BinaryTypes.Binary,
		encode: func(ctx context.Context, v any) (any, error) {
			v, err := sql.UnwrapAny(ctx, v)
			if err != nil {
				return nil, err
			}
			if s, ok := v.(string); ok {
				v = []byte(s)
			}
			b, err := convertTo[[]byte](ctx, t, v)
			if err != nil {
				return nil, err
			}
			if len(b) < width {
				b = append(b[:len(b):len(b)], make([]byte, width-len(b))...)
			}
			if b == nil {
				b = []byte{} // Why: nil would read as NULL
			}
			return b, nil
		},
	}
}

func cellError(cell any, t sql.Type) error {
	return fmt.Errorf("a stored %T for a column of type %s: %w", cell, t, errs.ErrCorruption)
}
