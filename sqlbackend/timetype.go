package sqlbackend

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/sqlbackend/wire"
)

// timeType is TIME(0) to TIME(6): the frontend has but one type without digits. Values are types.Timespan.
//
// The frontend recognises its own type by the Go type; where that decides something (comparisons, date arithmetic),
// exactComparisons hides this one behind asTimespan.
type timeType struct {
	types.TimespanType_
	digits int // of fractions of a second
}

var (
	_ sql.Type       = timeType{}
	_ types.TimeType = timeType{}
)

// newTimeType returns TIME(digits).
func newTimeType(digits int) sql.Type {
	return timeType{digits: min(digits, types.MaxDatetimePrecision)}
}

// parseTimeType reads time and time(n); false if text is another type.
func parseTimeType(text string) (sql.Type, bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(text), "time")
	if !ok {
		return nil, false
	}
	if rest == "" {
		return newTimeType(0), true
	}
	if len(rest) != len("(n)") || rest[0] != '(' || rest[2] != ')' || rest[1] < '0' || rest[1] > '6' {
		return nil, false
	}
	return newTimeType(int(rest[1] - '0')), true
}

// timeDigits returns how many digits of fractions values of a type show; 0 if they are no times.
func timeDigits(t sql.Type) int {
	switch t := t.(type) {
	case timeType:
		return t.digits
	case types.TimespanType_:
		return types.MaxDatetimePrecision
	case sql.DatetimeType:
		return t.Precision()
	case sql.DecimalType:
		return min(int(t.Scale()), types.MaxDatetimePrecision)
	}
	if types.IsInteger(t) || types.IsYear(t) {
		return 0
	}
	return types.MaxDatetimePrecision
}

// round rounds half away from zero, as MySQL does.
func (t timeType) round(v types.Timespan) types.Timespan {
	unit := types.Timespan(1)
	for range types.MaxDatetimePrecision - t.digits {
		unit *= 10
	}
	half := unit / 2
	if v < 0 {
		half = -half
	}
	return types.Time.MicrosecondsToTimespan(int64((v + half) / unit * unit))
}

// Convert implements sql.Type. What is beyond the range is an error in strict mode, else the nearest time.
func (t timeType) Convert(ctx context.Context, v any) (any, sql.ConvertInRange, error) {
	if v == nil {
		return nil, sql.InRange, nil
	}
	s, err := t.ConvertToTimespan(v)
	if sctx, ok := ctx.(*sql.Context); err == nil && ok && clamped(s, v) && sql.LoadSqlMode(sctx).Strict() {
		err = types.ErrConvertingToTimeType.New(v)
	}
	return s, sql.InRange, err
}

// clamped reports whether s is not the time that v says but the last or first one there is.
func clamped(s types.Timespan, v any) bool {
	const limit, number = 3020399000000, 8385959 // 838:59:59
	if s != limit && s != -limit {
		return false
	}
	switch v := v.(type) {
	case string:
		text := strings.TrimPrefix(strings.TrimSpace(v), "-")
		whole, fraction, _ := strings.Cut(text, ".")
		return whole != "838:59:59" && whole != strconv.Itoa(number) || strings.Trim(fraction, "0") != ""
	case types.Timespan:
		return false
	}
	n, ok := int64Of(v)
	return ok && n != number && n != -number
}

// ConvertToTimespan implements types.TimeType.
func (t timeType) ConvertToTimespan(v any) (types.Timespan, error) {
	s, err := types.Time.ConvertToTimespan(withoutDays(v))
	return t.round(s), err
}

var timeWithDays = regexp.MustCompile(`^\s*(-?)(\d{1,3}) +(\d{1,2})((?::\d{1,2}){0,2})(\.\d*)?\s*$`)

// withoutDays writes a text 'D hh', 'D hh:mm' or 'D hh:mm:ss' with hours alone, as the frontend reads it.
func withoutDays(v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	m := timeWithDays.FindStringSubmatch(text)
	if m == nil {
		return v
	}
	days, _ := strconv.Atoi(m[2]) // two or three digits, as above
	hours, _ := strconv.Atoi(m[3])
	return fmt.Sprintf("%s%02d%s%s%s", m[1], days*24+hours, m[4], strings.Repeat(":00", 2-strings.Count(m[4], ":")), m[5])
}

// Equals implements sql.Type: all TIME types are one to the frontend, whatever they show.
func (t timeType) Equals(other sql.Type) bool {
	_, ok := other.(types.TimeType)
	return ok
}

// Promote implements sql.Type.
func (t timeType) Promote() sql.Type { return t }

// String implements fmt.Stringer.
func (t timeType) String() string {
	if t.digits == 0 {
		return "time"
	}
	return "time(" + strconv.Itoa(t.digits) + ")"
}

// MaxTextResponseByteLength implements sql.Type.
func (t timeType) MaxTextResponseByteLength(*sql.Context) uint32 {
	const whole = uint32(len("-838:59:59"))
	if t.digits == 0 {
		return whole
	}
	return whole + 1 + uint32(t.digits)
}

// Precision returns how many digits of fractions of a second values have.
func (t timeType) Precision() int { return t.digits }

// SQL implements sql.Type.
func (t timeType) SQL(_ *sql.Context, dest []byte, v any) (sqltypes.Value, error) {
	if v == nil {
		return sqltypes.NULL, nil
	}
	s, err := t.ConvertToTimespan(v)
	if err != nil {
		return sqltypes.Value{}, err
	}
	const point = len(".000000")
	text := s.AppendBytes(dest)
	text = text[:len(text)-point]
	if t.digits > 0 {
		text = text[:len(text)+1+t.digits]
	}
	return sqltypes.MakeTrusted(sqltypes.Time, text), nil
}

// resolveTypes gives the columns of a definition their TIME(n), FLOAT(m,d) or ZEROFILL before the frontend refuses it, and the binary collation that
// the attribute BINARY asks for, which the frontend forgets.
func resolveTypes(stmt sqlparser.Statement) {
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		if s.TableSpec == nil {
			return
		}
		for _, c := range s.TableSpec.Columns {
			if t, ok := shownNumberOf(&c.Type); ok {
				c.Type.ResolvedType = t
				continue
			}
			resolveType(&c.Type)
		}
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			resolveTypes(d)
		}
	}
}

// resolveType does so for one type.
func resolveType(t *sqlparser.ColumnType) {
	if t.BinaryCollate && t.Collate == "" && (t.Charset == "" || strings.EqualFold(t.Charset, charsetName)) {
		t.Collate = "utf8mb4_bin"
	}
	if !strings.EqualFold(t.Type, "time") {
		return
	}
	text := "time"
	if t.Length != nil {
		text += "(" + string(t.Length.Val) + ")"
	}
	if own, ok := parseTimeType(text); ok {
		t.ResolvedType = own
	}
}

// asTimespan is a TIME(n) as the frontend's own TIME type, and so are the results of functions it is a type of.
type asTimespan struct {
	sql.Expression
}

// Type implements sql.Expression.
func (a *asTimespan) Type(*sql.Context) sql.Type { return types.Time }

// Children implements sql.Expression.
func (a *asTimespan) Children() []sql.Expression { return []sql.Expression{a.Expression} }

// WithChildren implements sql.Expression.
func (a *asTimespan) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(a, len(c), 1)
	}
	return &asTimespan{c[0]}, nil
}

// timeText is a TIME(n), a DATETIME(n) or a number as the text it is shown as, for functions of texts: the frontend would always
// write six digits of the first, leave out zeros at the end of the second, and never write exponents or leading zeros.
type timeText struct {
	sql.Expression
}

// Type implements sql.Expression.
func (t *timeText) Type(*sql.Context) sql.Type { return types.Text }

// Eval implements sql.Expression.
func (t *timeText) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := t.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	typ := t.Expression.Type(ctx)
	if f, ok := toFloat(v); ok && types.IsFloat(typ) {
		bits := 64
		if typ == types.Float32 {
			bits = 32
		}
		return string(wire.AppendFloat(nil, f, bits)), nil
	}
	shown, err := typ.SQL(ctx, nil, v)
	return shown.ToString(), err
}

// Children implements sql.Expression.
func (t *timeText) Children() []sql.Expression { return []sql.Expression{t.Expression} }

// WithChildren implements sql.Expression.
func (t *timeText) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(t, len(c), 1)
	}
	return &timeText{c[0]}, nil
}

// timeNumber is a TIME(n) as the number hhmmss, which arithmetic takes it for: the frontend takes it for 0.
type timeNumber struct {
	sql.Expression
}

// Type implements sql.Expression.
func (t *timeNumber) Type(ctx *sql.Context) sql.Type {
	if digits := timeDigits(t.Expression.Type(ctx)); digits > 0 {
		return decimalOf(len("8385959"), digits)
	}
	return types.Int64
}

// Eval implements sql.Expression.
func (t *timeNumber) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := t.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	typ := t.Expression.Type(ctx).(timeType)
	s, err := typ.ConvertToTimespan(v)
	if err != nil {
		return nil, err
	}
	n := int64(s)
	seconds, micros := n/1_000_000, n%1_000_000
	whole := seconds/3600*10_000 + seconds/60%60*100 + seconds%60
	if typ.digits == 0 {
		return whole, nil
	}
	d := apd.New(whole*1_000_000+micros, -types.MaxDatetimePrecision)
	return sql.DecimalRound(d, int32(typ.digits))
}

// Children implements sql.Expression.
func (t *timeNumber) Children() []sql.Expression { return []sql.Expression{t.Expression} }

// WithChildren implements sql.Expression.
func (t *timeNumber) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(t, len(c), 1)
	}
	return &timeNumber{c[0]}, nil
}

// takesText reports whether an expression takes its operands as texts.
func takesText(ctx *sql.Context, e sql.Expression) bool {
	switch e := e.(type) {
	case *expression.Convert:
		return types.IsText(e.Type(ctx))
	case *expression.Like, *function.Quote:
		return true
	case *function.IfNull, *function.Coalesce:
		return types.IsTextOnly(e.Type(ctx)) // one operand is a text, so all are
	case sql.FunctionExpression:
		switch strings.ToLower(e.FunctionName()) {
		case "greatest", "least", "field":
			return slices.ContainsFunc(e.Children(), func(c sql.Expression) bool { return c.Resolved() && types.IsTextOnly(c.Type(ctx)) })
		case "concat", "concat_ws", "concat_with_separator", "substring", "substr", "mid", "left", "right", "length", "char_length", "character_length",
			"octet_length", "bit_length", "upper", "lower", "ucase", "lcase", "replace", "insert", "lpad", "rpad", "trim", "ltrim", "rtrim",
			"reverse", "repeat", "quote", "hex", "ascii", "ord", "soundex", "instr", "locate", "position", placeName, "substring_index", "find_in_set",
			"elt", "make_set", "export_set", "strcmp", "md5", "sha", "sha1", "sha2", "crc32", "to_base64", "group_concat", "regexp_like", "regexp_replace",
			"regexp_substr", "regexp_instr", "str_to_date", "json_object", "json_array", "json_arrayagg", "json_objectagg":
			return true
		}
	}
	return false
}

// isTextOperand reports whether the i-th operand of a function that takes texts is one: not a position, a length or a count.
func isTextOperand(name string, i int) bool {
	switch name {
	case "substring", "substr", "mid", "left", "right", "repeat", "sha2":
		return i == 0
	case "locate", "position", placeName, "substring_index":
		return i < 2
	case "lpad", "rpad":
		return i != 1
	case "insert":
		return i == 0 || i == 3
	case "elt", "make_set":
		return i > 0
	case "export_set":
		return i > 0 && i < 4
	case "regexp_like", "regexp_instr", "regexp_substr":
		return i < 2
	case "regexp_replace":
		return i < 3
	}
	return true
}

// isTimeType recognises TIME(n).
func isTimeType(t sql.Type) bool {
	_, ok := t.(timeType)
	return ok
}

// showsDigits recognises types whose values the frontend makes other texts of than they are shown as: with another number of digits,
// or dates with a time.
func showsDigits(t sql.Type) bool {
	return isTimeType(t) || isShownNumber(t) || types.IsFloat(t) || types.IsTime(t)
}

// hasMembers recognises ENUM and SET, whose values the frontend takes for numbers where it takes a text of any value.
func hasMembers(t sql.Type) bool { return types.IsEnum(t) || types.IsSet(t) }

// shownOtherwise recognises all types whose values are shown as other texts than the frontend makes of them.
func shownOtherwise(t sql.Type) bool { return showsDigits(t) || hasMembers(t) }

// inVariables recognises types of which user variables hold texts.
func inVariables(t sql.Type) bool { return isTemporal(t) || hasMembers(t) }

// hideTimes puts what by returns in place of operands of some types, see timeType; false if there is none.
func hideTimes(ctx *sql.Context, e sql.Expression, of func(sql.Type) bool, by func(sql.Expression) sql.Expression) (sql.Expression, bool, error) {
	return hideOperands(ctx, e, of, func(int) bool { return true }, by)
}

// hideOperands does so for the operands in some places.
func hideOperands(ctx *sql.Context, e sql.Expression, of func(sql.Type) bool, at func(i int) bool, by func(sql.Expression) sql.Expression) (sql.Expression, bool, error) {
	var out []sql.Expression
	children := e.Children()
	for i, c := range children {
		if c == nil || !c.Resolved() || !at(i) {
			continue
		}
		if of(c.Type(ctx)) {
			if out == nil {
				out = append(out, children...)
			}
			out[i] = by(c)
		}
	}
	if out == nil {
		return e, false, nil
	}
	n, err := e.WithChildren(ctx, out...)
	return n, true, err
}

// timesIn makes the literals that a TIME is looked for among times: the frontend compares the texts. Doing it twice
// changes nothing.
func timesIn(ctx *sql.Context, in *expression.HashInTuple, list expression.Tuple) (sql.Expression, transform.TreeIdentity, error) {
	times := make(expression.Tuple, len(list))
	changed := false
	for i, e := range list {
		l, ok := e.(*expression.Literal)
		if !ok {
			return in, transform.SameTree, nil
		}
		if times[i] = l; l.Value() == nil || types.IsTimespan(l.Type(ctx)) {
			continue
		}
		v, err := types.Time.ConvertToTimespan(l.Value())
		if err != nil {
			return in, transform.SameTree, nil // the frontend says what it is
		}
		times[i], changed = expression.NewLiteral(v, types.Time), true
	}
	if !changed {
		return in, transform.SameTree, nil
	}
	n, err := expression.NewHashInTuple(ctx, in.Left(), times)
	return n, transform.NewTree, err
}

// shown is an expression of the frontend whose values are shown in another type than the frontend thinks, with MySQL's
// number of digits behind the point.
type shown struct {
	sql.Expression
	typ func(ctx *sql.Context, e sql.Expression) sql.Type // of e, which changes while a statement is planned
}

// Type implements sql.Expression.
func (s *shown) Type(ctx *sql.Context) sql.Type { return s.typ(ctx, s.Expression) }

// Eval implements sql.Expression.
func (s *shown) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := s.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return v, err
	}
	typ := s.Type(ctx)
	if was := s.Expression.Type(ctx); types.IsEnum(was) || types.IsSet(was) || types.IsTuple(was) || typ == was { // Why: those do not compare
		return v, nil
	}
	if d, ok := typ.(sql.DecimalType); ok {
		n, err := toDecimal(v)
		if err != nil || n == nil {
			return nil, err
		}
		rounded, err := sql.DecimalRound(n, int32(d.Scale()))
		return plainZero(rounded), err
	}
	c, _, err := typ.Convert(quiet(ctx), v)
	return c, err
}

// Children implements sql.Expression.
func (s *shown) Children() []sql.Expression { return []sql.Expression{s.Expression} }

// WithChildren implements sql.Expression.
func (s *shown) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(c), 1)
	}
	return &shown{Expression: c[0], typ: s.typ}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (s *shown) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, s.Expression)
}

// literalInt returns the value of an integer literal.
func literalInt(ctx *sql.Context, e sql.Expression) (int, bool) {
	if u, ok := e.(*expression.UnaryMinus); ok {
		n, ok := literalInt(ctx, u.Child)
		return -n, ok
	}
	l, ok := e.(*expression.Literal)
	if !ok {
		return 0, false
	}
	n, ok := int64Of(l.Value())
	return int(n), ok
}

// argumentDigits is the TIME or DATETIME with the digits of the first argument, or of all of them.
func argumentDigits(ctx *sql.Context, e sql.Expression, most int) int {
	digits := 0
	for i, c := range e.Children() {
		if i < most {
			digits = max(digits, timeDigitsOf(ctx, c))
		}
	}
	return digits
}

// timeDigitsOf is timeDigits of an expression; of a text literal, those it has.
func timeDigitsOf(ctx *sql.Context, e sql.Expression) int {
	if a, ok := e.(*asTimespan); ok {
		e = a.Expression
	}
	if l, ok := e.(*expression.Literal); ok {
		switch v := l.Value().(type) {
		case nil:
			return 0
		case string:
			_, fraction, _ := strings.Cut(v, ".")
			return min(len(fraction), types.MaxDatetimePrecision)
		}
	}
	return timeDigits(e.Type(ctx))
}

// shiftedType is the type of DATE_ADD and its like: that of the frontend, with the digits of the first argument or of the
// interval.
func shiftedType(ctx *sql.Context, e sql.Expression) sql.Type {
	typ := e.Type(ctx)
	args := e.Children()
	isTime := types.IsTimespan(typ)
	if len(args) != 2 || !isTime && !types.IsDatetimeType(typ) {
		return typ
	}
	digits := 0
	if at := args[0].Type(ctx); !types.IsDateType(at) {
		digits = timeDigitsOf(ctx, args[0])
	}
	digits = max(digits, intervalDigits(args[1]))
	if isTime {
		return newTimeType(digits)
	}
	return types.MustCreateDatetimeType(sqltypes.Datetime, digits)
}

// timeFunction returns the frontend's functions of times with the number of digits MySQL gives them.
func timeFunction(name string) (sql.Function, bool) {
	timeOf := func(most int) func(*sql.Context, sql.Expression) sql.Type {
		return func(ctx *sql.Context, e sql.Expression) sql.Type { return newTimeType(argumentDigits(ctx, e, most)) }
	}
	switch name {
	case castTimeName:
		return sql.Function2{Name: name, Fn: func(ctx *sql.Context, e, n sql.Expression) sql.Expression {
			digits, _ := literalInt(ctx, n)
			return &shown{newTimeOf(name, e), func(*sql.Context, sql.Expression) sql.Type { return newTimeType(digits) }}
		}}, true
	case "date_add":
		return shift{name, 1, false, function.NewDateAdd}.function(), true
	case "date_sub":
		return shift{name, -1, false, function.NewDateSub}.function(), true
	case "adddate":
		return shift{name, 1, false, function.NewAddDate}.function(), true
	case "subdate":
		return shift{name, -1, false, function.NewSubDate}.function(), true
	case "time":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			return &shown{newTimeOf(name, e), timeOf(1)}
		}}, true
	case "timediff":
		return sql.Function2{Name: name, Fn: func(ctx *sql.Context, a, b sql.Expression) sql.Expression {
			return &shown{function.NewTimeDiff(ctx, a, b), timeOf(2)}
		}}, true
	case "curdate", "current_date": // which the frontend says is a text
		return sql.Function0{Name: name, Fn: func(ctx *sql.Context) sql.Expression {
			e := function.NewCurrDate(ctx)
			if name == "current_date" {
				e = function.NewCurrentDate(ctx)
			}
			return &shown{e, func(*sql.Context, sql.Expression) sql.Type { return types.Date }}
		}}, true
	case "curtime", "current_time":
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if err := clockDigits(name, args); err != nil {
				return nil, err
			}
			e, err := function.NewCurrTime(ctx, args...)
			if err != nil {
				return nil, err
			}
			t := &timeNow{CurrTime: e.(*function.CurrTime)}
			if len(args) == 1 {
				t.digits, _ = literalInt(ctx, args[0])
			}
			return t, nil
		}}, true
	case "from_unixtime":
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := function.NewFromUnixtime(ctx, args...)
			if err != nil || len(args) != 1 {
				return e, err
			}
			return &shown{e, func(ctx *sql.Context, e sql.Expression) sql.Type {
				return types.MustCreateDatetimeType(sqltypes.Datetime, argumentDigits(ctx, e, 1))
			}}, nil
		}}, true
	}
	return nil, false
}
