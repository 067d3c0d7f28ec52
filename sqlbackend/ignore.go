package sqlbackend

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// adjustedSource is the rows an INSERT inserts: in strict mode without texts that are no numbers or times, where such are wanted;
// without it, and with IGNORE, each value the nearest its column can hold.
// With IGNORE the frontend adjusts as well, but cuts texts inside a character, stores the greatest value for a negative number in an unsigned column and
// zero for a DECIMAL out of range, and panics on a binary value that is too long.
type adjustedSource struct {
	plan.UnaryNode
	columns sql.Schema // of the destination
	given   []bool     // the columns that the statement gives a value; nil: all
	several bool       // not one row alone: NULL is adjusted where it must not be
	strict  bool
}

var _ sql.Node = (*adjustedSource)(nil)

// String implements fmt.Stringer.
func (a *adjustedSource) String() string { return a.Child.String() }

// IsReadOnly implements sql.Node.
func (a *adjustedSource) IsReadOnly() bool { return a.Child.IsReadOnly() }

// WithChildren implements sql.Node.
func (a *adjustedSource) WithChildren(_ *sql.Context, c ...sql.Node) (sql.Node, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(a, len(c), 1)
	}
	return &adjustedSource{UnaryNode: plan.UnaryNode{Child: c[0]}, columns: a.columns, given: a.given, several: a.several, strict: a.strict}, nil
}

// adjustSource puts an adjustedSource below an INSERT.
func adjustSource(ctx *sql.Context, n *plan.InsertInto, strict bool) sql.Node {
	source := &adjustedSource{UnaryNode: plan.UnaryNode{Child: n.Source}, columns: n.Destination.Schema(ctx), strict: strict}
	if strict {
		return n.WithSource(source)
	}
	values, rows := valuesOf(n.Source)
	source.several = values == nil || rows > 1
	if len(n.ColumnNames) > 0 {
		source.given = make([]bool, len(source.columns))
		for _, name := range n.ColumnNames {
			if at := source.columns.IndexOfColName(strings.ToLower(name)); at >= 0 {
				source.given[at] = true
			}
		}
	}
	for _, tuple := range values {
		for i, e := range tuple {
			if !missingDefault(e) {
				continue
			}
			if source.given == nil {
				source.given = slices.Repeat([]bool{true}, len(source.columns))
			}
			source.given[givenColumn(n, source.columns, i)] = false
		}
	}
	source.Child = belowTriggers(n.Source, func(child sql.Node) sql.Node {
		below := *source
		below.Child, below.several = child, false // NULL is what the triggers see
		return &below
	})
	return n.WithSource(source)
}

// belowTriggers puts a node below the triggers that run before rows are inserted, if there are any.
func belowTriggers(source sql.Node, put func(sql.Node) sql.Node) sql.Node {
	t, ok := source.(*plan.TriggerExecutor)
	if !ok {
		return source
	}
	left := belowTriggers(t.Left(), put)
	if left == t.Left() {
		left = put(left)
	}
	return plan.NewTriggerExecutor(left, t.Right(), t.TriggerEvent, t.TriggerTime, t.TriggerDefinition)
}

// valuesOf finds the rows of INSERT … VALUES; nil if there are none.
func valuesOf(source sql.Node) (tuples [][]sql.Expression, rows int) {
	transform.Inspect(source, func(n sql.Node) bool {
		if v, ok := n.(*plan.Values); ok {
			tuples, rows = v.ExpressionTuples, len(v.ExpressionTuples)
		}
		return tuples == nil
	})
	return tuples, rows
}

// givenColumn is the position of the column that the i-th value of VALUES is for.
func givenColumn(n *plan.InsertInto, schema sql.Schema, i int) int {
	if len(n.ColumnNames) == 0 {
		return i
	}
	return schema.IndexOfColName(strings.ToLower(n.ColumnNames[i]))
}

// missingDefault recognises DEFAULT of a column that has none.
func missingDefault(e sql.Expression) bool {
	w, wrapped := e.(*expression.Wrapper)
	if !wrapped {
		return false
	}
	d, ok := w.Unwrap().(*sql.ColumnDefaultValue)
	return ok && d == nil
}

type adjustedIter struct {
	child   sql.RowIter
	columns sql.Schema
	given   []bool
	several bool
	strict  bool
	texts   []bool // the columns that take texts for something else
	rows    int64
}

// Next implements sql.RowIter.
func (a *adjustedIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := a.child.Next(ctx)
	if err != nil {
		return nil, err
	}
	a.rows++
	skip := len(row) - len(a.columns) // an outer scope comes first
	if skip < 0 {
		return row, nil
	}
	if a.texts == nil {
		a.texts = make([]bool, len(a.columns))
		for i, c := range a.columns {
			a.texts[i] = takesTexts(c.Type)
		}
	}
	if a.strict {
		for i, c := range a.columns {
			v, text := row[skip+i].(string)
			if !text || !a.texts[i] {
				continue
			}
			if isWild(v) {
				row = row.Copy()
				row[skip+i] = tamed(v)
			}
			if err := refusal(ctx, c.Name, c.Type, row[skip+i], a.rows); err != nil {
				return nil, err
			}
		}
		return row, nil
	}
	copied := false
	for i, c := range a.columns {
		v := row[skip+i]
		if a.texts[i] && isWild(v) {
			if !copied {
				row, copied = row.Copy(), true
			}
			v = tamed(v)
			row[skip+i] = v
		}
		adjusted, warning := nearest(ctx, c.Type, v)
		if v == nil && !c.Nullable && !c.AutoIncrement && c.Generated == nil {
			switch given := a.given == nil || a.given[i]; {
			case !given && c.Default == nil:
				adjusted, warning = c.Type.Zero(), 1364
			case given && a.several:
				adjusted, warning = c.Type.Zero(), 1048
			}
		}
		if warning == 0 {
			continue
		}
		if !copied {
			row, copied = row.Copy(), true
		}
		row[skip+i] = adjusted
		warnAdjusted(ctx, warning, c, v, a.rows)
	}
	return row, nil
}

// Close implements sql.RowIter.
func (a *adjustedIter) Close(ctx *sql.Context) error { return a.child.Close(ctx) }

// warnAdjusted says that v is not stored as it is in a column.
func warnAdjusted(ctx *sql.Context, code int, c *sql.Column, v any, row int64) {
	switch code {
	case 1264:
		ctx.Warn(code, "Out of range value for column '%s' at row %d", c.Name, row)
	case 1048:
		ctx.Warn(code, "Column '%s' cannot be null", c.Name)
	case 1364:
		ctx.Warn(code, "Field '%s' doesn't have a default value", c.Name)
	case 1366:
		kind := "string"
		if text, ok := v.(string); ok && types.IsText(c.Type) {
			v = printable(text)
		} else {
			kind = numberWord(c.Type)
		}
		ctx.Warn(code, "Incorrect %s value: '%v' for column '%s' at row %d", kind, v, c.Name, row)
	default:
		ctx.Warn(code, "Data truncated for column '%s' at row %d", c.Name, row)
	}
}

// nearest returns the value next to v that a column can hold, with the number of the warning that says so; 0 if v fits.
func nearest(ctx *sql.Context, typ sql.Type, v any) (any, int) {
	if v == nil {
		return v, 0
	}
	if t, ok := typ.(sql.StringType); ok {
		return nearestText(ctx, t, v)
	}
	if _, in, err := asColumn(ctx, typ, v); err == nil && in == sql.InRange {
		return v, 0
	}
	switch {
	case sql.IsNumberType(typ) || types.IsDecimal(typ):
		return nearestNumber(ctx, typ, v)
	case types.IsBit(typ):
		if t, ok := typ.(types.BitType_); ok {
			return uint64(math.MaxUint64) >> (64 - t.NumberOfBits()), 1264
		}
	case types.IsTime(typ):
		return nearestDate(ctx, typ, v), 1265
	case types.IsTimespan(typ), isTimeType(typ):
		c, _, err := typ.Convert(quiet(ctx), v)
		if s, ok := c.(types.Timespan); ok && err == nil {
			return s, 1264
		}
		return types.Timespan(0), 1265
	case types.IsYear(typ):
		return int16(0), 1264
	case types.IsEnum(typ):
		return uint16(0), 1265
	case types.IsSet(typ):
		return uint64(0), 1265
	}
	return v, 0
}

// dateAtStart is what a text that is no date may begin with.
var dateAtStart = regexp.MustCompile(`^\s*(\d{1,4}[-/.:]\d{1,2}[-/.:]\d{1,2})(?:[ T](\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?))?`)

// nearestDate is the date, with its time if there is one, that a text begins with; else the zero date.
func nearestDate(ctx *sql.Context, typ sql.Type, v any) any {
	text, _ := v.(string)
	m := dateAtStart.FindStringSubmatch(text)
	if m == nil {
		return types.ZeroTime
	}
	for _, begin := range []string{strings.TrimSpace(m[1] + " " + m[2]), m[1]} {
		if d, in, err := typ.Convert(quiet(ctx), begin); err == nil && in == sql.InRange && d != nil {
			return d
		}
	}
	return types.ZeroTime
}

// asColumn is v as a value of a type, rounded where an assignment rounds.
func asColumn(ctx *sql.Context, typ sql.Type, v any) (any, sql.ConvertInRange, error) {
	if t, ok := typ.(sql.RoundingNumberType); ok {
		return t.ConvertRound(quiet(ctx), v)
	}
	return typ.Convert(quiet(ctx), v)
}

var numberAtStart = regexp.MustCompile(`^\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)`)

// nearestNumber is nearest for a value that a column of numbers cannot hold: of a text the number at its start, of a number beyond
// the column's range the end of that.
func nearestNumber(ctx *sql.Context, typ sql.Type, v any) (any, int) {
	if text, ok := v.(string); ok {
		m := numberAtStart.FindStringSubmatch(text)
		if m == nil && types.IsFloat(typ) {
			return typ.Zero(), 1265
		}
		if m == nil {
			return typ.Zero(), 1366
		}
		if rest := text[len(m[0]):]; strings.TrimSpace(rest) != "" {
			n, code := nearest(ctx, typ, m[1])
			return n, max(code, 1265)
		}
	}
	d, err := toDecimal(v)
	if err != nil || d == nil {
		return typ.Zero(), 1366
	}
	if t, ok := typ.(sql.DecimalType); ok {
		if t.Precision() == 0 {
			return v, 0
		}
		limit := new(apd.Decimal)
		for range t.Precision() {
			limit.Coeff.Mul(&limit.Coeff, apd.NewBigInt(10))
			limit.Coeff.Add(&limit.Coeff, apd.NewBigInt(9))
		}
		limit.Exponent = -int32(t.Scale())
		limit.Negative = d.Negative
		return limit, 1264
	}
	if types.IsUnsigned(typ) && d.Sign() < 0 {
		return typ.Zero(), 1264
	}
	if c, in, err := asColumn(ctx, typ, v); err == nil && in != sql.InRange && c != nil {
		return c, 1264
	}
	return typ.Zero(), 1264
}

func nearestText(ctx *sql.Context, t sql.StringType, v any) (any, int) {
	if text, ok := v.(string); ok && !fitsCharset(t, text) {
		cut, code := nearestText(ctx, t, inCharset(t, text))
		return cut, max(code, 1366)
	}
	if _, _, err := t.Convert(quiet(ctx), v); err == nil || !types.ErrLengthBeyondLimit.Is(err) {
		return v, 0
	}
	long, _, err := types.LongBlob.Convert(quiet(ctx), v)
	if err != nil {
		return v, 0
	}
	b, ok := long.([]byte)
	if !ok {
		return v, 0
	}
	if types.IsBinaryType(t) {
		return b[:min(int64(len(b)), t.MaxByteLength())], 1265
	}
	n, chars := 0, int64(0)
	for n < len(b) && chars < t.MaxCharacterLength() {
		_, size := utf8.DecodeRune(b[n:])
		if int64(n+size) > t.MaxByteLength() {
			break
		}
		n += size
		chars++
	}
	return string(b[:n]), 1265
}

// inCharset is a text with question marks for the characters that a column's character set lacks.
func inCharset(t sql.StringType, text string) string {
	encoder := t.CharacterSet().Encoder()
	return strings.Map(func(r rune) rune {
		if _, ok := encoder.EncodeRune([]byte(string(r))); ok {
			return r
		}
		return '?'
	}, text)
}

// fitsCharset reports whether a column's character set has all characters of a text.
func fitsCharset(t sql.StringType, text string) bool {
	switch t.CharacterSet() {
	case sql.CharacterSet_utf8mb4, sql.CharacterSet_binary, sql.CharacterSet_Unspecified:
		return true
	}
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			encoder := t.CharacterSet().Encoder()
			if encoder == nil {
				return true
			}
			_, ok := encoder.Encode([]byte(text))
			return ok
		}
	}
	return true
}
