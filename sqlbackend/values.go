package sqlbackend

import (
	"context"
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/internal/errs"
)

// enumCodec stores the member's text, so that other readers see the meaning, not an ordinal.
func enumCodec(t sql.Type) (codec, error) {
	et, ok := t.(sql.EnumType)
	if !ok {
		return codec{}, errUnsupportedType(t)
	}
	ordinal := make(map[string]uint16)
	for i, m := range et.Values() {
		if _, dup := ordinal[m]; !dup {
			ordinal[m] = uint16(i + 1)
		}
	}
	if _, ok := ordinal[""]; !ok {
		ordinal[""] = 0 // MySQL's error value
	}
	return codec{
		arrow: arrow.BinaryTypes.String,
		encode: func(ctx context.Context, v any) (any, error) {
			n, err := convertTo[uint16](ctx, t, v)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				return "", nil
			}
			m, ok := et.At(int(n))
			if !ok {
				return nil, types.ErrConvertingToEnum.New(v)
			}
			return m, nil
		},
		decode: func(cell any) (any, error) {
			s, ok := cell.(string)
			if !ok {
				return nil, cellError(cell, t)
			}
			n, ok := ordinal[s]
			if !ok {
				return nil, fmt.Errorf("%q is not a member of %s: %w", s, t, errs.ErrCorruption)
			}
			return n, nil
		},
	}, nil
}

// setCodec stores the members joined by commas, in the order of their definition.
func setCodec(t sql.Type) (codec, error) {
	st, ok := t.(sql.SetType)
	if !ok {
		return codec{}, errUnsupportedType(t)
	}
	bit := make(map[string]uint64)
	for i, m := range st.Values() {
		if _, dup := bit[m]; !dup {
			bit[m] = 1 << i
		}
	}
	return codec{
		arrow: arrow.BinaryTypes.String,
		encode: func(ctx context.Context, v any) (any, error) {
			n, err := convertTo[uint64](ctx, t, v)
			if err != nil {
				return nil, err
			}
			return st.BitsToString(n)
		},
		decode: func(cell any) (any, error) {
			s, ok := cell.(string)
			if !ok {
				return nil, cellError(cell, t)
			}
			var n uint64
			if s == "" {
				return n, nil
			}
			for m := range strings.SplitSeq(s, ",") {
				b, ok := bit[m]
				if !ok {
					return nil, fmt.Errorf("%q is not a member of %s: %w", m, t, errs.ErrCorruption)
				}
				n |= b
			}
			return n, nil
		},
	}, nil
}

// jsonCodec stores JSON text: as it came when the text is at hand, otherwise as MySQL prints it.
func jsonCodec() codec {
	return codec{
		arrow: arrow.BinaryTypes.String,
		encode: func(ctx context.Context, v any) (any, error) {
			v, err := sql.UnwrapAny(ctx, v)
			if err != nil {
				return nil, err
			}
			doc, err := convertTo[sql.JSONWrapper](ctx, types.JSON, v)
			if err != nil {
				return nil, err
			}
			if raw, ok := doc.(types.JSONBytes); ok {
				b, err := raw.GetBytes(ctx)
				return string(b), err
			}
			return types.JsonToMySqlString(ctx, doc)
		},
		decode: func(cell any) (any, error) {
			s, ok := cell.(string)
			if !ok {
				return nil, cellError(cell, types.JSON)
			}
			return types.NewLazyJSONDocument([]byte(s)), nil
		},
	}
}

// signedCoefficient is the decimal's coefficient with its sign; a negative zero becomes zero.
func signedCoefficient(d *apd.Decimal) *big.Int {
	b := new(big.Int).Set(d.Coeff.MathBigInt())
	if d.Negative {
		b.Neg(b)
	}
	return b
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// printable shows the bytes of a string that is not text, as MySQL does in messages.
func printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s) && i < 64; i++ {
		if c := s[i]; c >= 0x20 && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02X`, c)
		}
	}
	return b.String()
}

func isJSON(t sql.Type) bool { return types.IsJSON(t) }
