package sqlbackend

import (
	"context"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// shownNumber is FLOAT(m,d) or DOUBLE(m,d), whose values have d digits behind the decimal point and m in all, or an integer with
// ZEROFILL, whose values are shown with zeros in front. The frontend has neither.
//
// It recognises its own types by the Go type; plainNumbers therefore hides this one from whatever looks at values.
type shownNumber struct {
	types.NumberTypeImpl_
	digits   int // in all; of an integer the width
	decimals int // -1: an integer
}

var _ sql.RoundingNumberType = shownNumber{}

// widths of integers whose definition does not say one.
func zerofillWidth(t sql.Type) int {
	switch t {
	case types.Uint8:
		return 3
	case types.Uint16:
		return 5
	case types.Uint24:
		return 8
	case types.Uint32:
		return 10
	}
	return 20
}

var (
	fixedFloat = regexp.MustCompile(`^(float|double)\((\d{1,3}),(\d{1,2})\)$`)
	zerofilled = regexp.MustCompile(`^(tinyint|smallint|mediumint|int|bigint)(?:\((\d{1,3})\))? unsigned zerofill$`)
)

// parseShownNumber is the inverse of shownNumber.String; false if text is another type, or one MySQL does not have.
func parseShownNumber(text string) (sql.Type, bool) {
	base := map[string]sql.Type{"float": types.Float32, "double": types.Float64, "tinyint": types.Uint8, "smallint": types.Uint16,
		"mediumint": types.Uint24, "int": types.Uint32, "bigint": types.Uint64}
	if m := fixedFloat.FindStringSubmatch(text); m != nil {
		digits, _ := strconv.Atoi(m[2]) // few digits, as above
		decimals, _ := strconv.Atoi(m[3])
		if digits == 0 || digits > 255 || decimals > 30 || decimals > digits {
			return nil, false
		}
		return shownNumber{base[m[1]].(types.NumberTypeImpl_), digits, decimals}, true
	}
	if m := zerofilled.FindStringSubmatch(text); m != nil {
		t := base[m[1]].(types.NumberTypeImpl_)
		width, _ := strconv.Atoi(m[2])
		if width > 255 {
			return nil, false
		}
		if width == 0 {
			width = zerofillWidth(t)
		}
		return shownNumber{t, width, -1}, true
	}
	return nil, false
}

// shownNumberOf is the type a definition of a column asks for.
func shownNumberOf(c *sqlparser.ColumnType) (sql.Type, bool) {
	name := strings.ToLower(c.Type)
	switch name {
	case "integer":
		name = "int"
	case "real", "double precision":
		name = "double"
	}
	length := ""
	if c.Length != nil {
		length = string(c.Length.Val)
	}
	switch {
	case c.Scale != nil && !bool(c.Unsigned):
		return parseShownNumber(name + "(" + length + "," + string(c.Scale.Val) + ")")
	case bool(c.Zerofill) && length != "":
		return parseShownNumber(name + "(" + length + ") unsigned zerofill")
	case bool(c.Zerofill):
		return parseShownNumber(name + " unsigned zerofill")
	}
	return nil, false
}

// plain is the type without what is shown.
func (t shownNumber) plain() sql.Type { return t.NumberTypeImpl_ }

// String implements fmt.Stringer.
func (t shownNumber) String() string {
	if t.decimals < 0 {
		name, _, _ := strings.Cut(t.NumberTypeImpl_.String(), " ")
		return name + "(" + strconv.Itoa(t.digits) + ") unsigned zerofill"
	}
	return t.NumberTypeImpl_.String() + "(" + strconv.Itoa(t.digits) + "," + strconv.Itoa(t.decimals) + ")"
}

// Equals implements sql.Type.
func (t shownNumber) Equals(other sql.Type) bool { return t == other }

// Convert implements sql.Type.
func (t shownNumber) Convert(ctx context.Context, v any) (any, sql.ConvertInRange, error) {
	c, in, err := t.NumberTypeImpl_.Convert(ctx, v)
	return t.rounded(c, in, err)
}

// ConvertRound implements sql.RoundingNumberType.
func (t shownNumber) ConvertRound(ctx context.Context, v any) (any, sql.ConvertInRange, error) {
	c, in, err := t.NumberTypeImpl_.ConvertRound(ctx, v)
	return t.rounded(c, in, err)
}

func (t shownNumber) rounded(v any, in sql.ConvertInRange, err error) (any, sql.ConvertInRange, error) {
	if v == nil || err != nil || in != sql.InRange || t.decimals < 0 {
		return v, in, err
	}
	f, _ := toFloat(v)
	unit := math.Pow10(t.decimals)
	if scaled := math.Round(f * unit); !math.IsInf(scaled, 0) {
		f = scaled / unit
	}
	if limit := math.Pow10(t.digits-t.decimals) - 1/unit; math.Abs(f) > limit {
		f, in = math.Copysign(limit, f), sql.Overflow
	}
	if t.ValueType() == reflect.TypeFor[float32]() {
		return float32(f), in, nil
	}
	return f, in, nil
}

// Promote implements sql.Type.
func (t shownNumber) Promote() sql.Type { return t.NumberTypeImpl_.Promote() }

// Precision returns how many digits values have behind the decimal point; -1 for integers.
func (t shownNumber) Precision() int { return t.decimals }

// Zerofill reports whether values have zeros in front.
func (t shownNumber) Zerofill() bool { return t.decimals < 0 }

// MaxTextResponseByteLength implements sql.Type. Of an integer it is the width, to which clients of the binary protocol put zeros in
// front.
func (t shownNumber) MaxTextResponseByteLength(*sql.Context) uint32 { return uint32(t.digits) }

// SQL implements sql.Type.
func (t shownNumber) SQL(ctx *sql.Context, dest []byte, v any) (sqltypes.Value, error) {
	if v == nil {
		return sqltypes.NULL, nil
	}
	if t.decimals >= 0 {
		f, ok := toFloat(v)
		if !ok {
			c, _, err := types.Float64.Convert(ctx, v)
			if err != nil {
				return sqltypes.Value{}, err
			}
			f, _ = toFloat(c)
		}
		return sqltypes.MakeTrusted(t.Type(), strconv.AppendFloat(dest, f, 'f', t.decimals, 64)), nil
	}
	value, err := t.NumberTypeImpl_.SQL(ctx, nil, v)
	if err != nil {
		return value, err
	}
	for range t.digits - value.Len() {
		dest = append(dest, '0')
	}
	return sqltypes.MakeTrusted(t.Type(), append(dest, value.Raw()...)), nil
}

// plainNumber is an expression of a shownNumber as the number it is.
type plainNumber struct{ sql.Expression }

// Type implements sql.Expression.
func (p *plainNumber) Type(ctx *sql.Context) sql.Type {
	if t, ok := p.Expression.Type(ctx).(shownNumber); ok {
		return t.plain()
	}
	return p.Expression.Type(ctx)
}

// Children implements sql.Expression.
func (p *plainNumber) Children() []sql.Expression { return []sql.Expression{p.Expression} }

// WithChildren implements sql.Expression.
func (p *plainNumber) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(p, len(c), 1)
	}
	return &plainNumber{c[0]}, nil
}

func isShownNumber(t sql.Type) bool {
	_, ok := t.(shownNumber)
	return ok
}

// plainNumbers hides operands of a shownNumber from what computes with them. What only passes values on shows them.
func plainNumbers(ctx *sql.Context, e sql.Expression) (sql.Expression, bool, error) {
	switch e.(type) {
	case *expression.Alias, *expression.Wrapper, *sql.ColumnDefaultValue, *plainNumber, *timeText, *asPlainText, *assigned, *adjusted, *expression.SetField:
		return e, false, nil
	}
	return hideTimes(ctx, e, isShownNumber, func(c sql.Expression) sql.Expression { return &plainNumber{c} })
}
