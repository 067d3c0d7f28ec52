package sqlbackend

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// MySQL reads integers, and texts of nothing but digits, as dates: 20240229, 240229, 20240229235959. The frontend knows
// few of them. What is a date or stands next to one is therefore given to it as a text with separators.

// dateNumber is an expression that is taken for a date: its digits with separators between.
type dateNumber struct{ sql.Expression }

// Type implements sql.Expression.
func (d *dateNumber) Type(*sql.Context) sql.Type { return types.Text }

// Eval implements sql.Expression.
func (d *dateNumber) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := d.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	return dateOfDigits(v), nil
}

// Children implements sql.Expression.
func (d *dateNumber) Children() []sql.Expression { return []sql.Expression{d.Expression} }

// WithChildren implements sql.Expression.
func (d *dateNumber) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(d, len(c), 1)
	}
	return &dateNumber{c[0]}, nil
}

// asDate is an expression for a date where e stands; false if e is fine.
func asDate(ctx *sql.Context, e sql.Expression) (sql.Expression, bool) {
	if e == nil || !e.Resolved() {
		return e, false
	}
	l, literal := e.(*expression.Literal)
	switch {
	case literal:
		text := dateOfDigits(l.Value())
		if _, was := l.Value().(string); !was || text != l.Value() {
			if s, ok := text.(string); ok {
				return expression.NewLiteral(s, types.Text), true
			}
		}
		return e, false
	case types.IsInteger(e.Type(ctx)) && !types.IsYear(e.Type(ctx)), mayBeLong(ctx, e):
		if _, done := e.(*dateNumber); !done {
			return &dateNumber{e}, true
		}
	}
	return e, false
}

// mayBeLong reports whether an expression is a text longer than any date.
func mayBeLong(ctx *sql.Context, e sql.Expression) bool {
	switch e.(type) {
	case *dateNumber, *shortTime, *timeText:
		return false
	}
	const most = 255 // characters
	t, ok := e.Type(ctx).(sql.StringType)
	return ok && (t.MaxCharacterLength() > most || t.MaxCharacterLength() == 0)
}

// shortTime is a text that is taken for a date or a time, of no more than those have.
type shortTime struct{ sql.Expression }

// Eval implements sql.Expression.
func (s *shortTime) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := anyOperand(ctx, row, s.Expression)
	switch v := v.(type) {
	case string:
		return shortMoment(v), err
	case []byte:
		return []byte(shortMoment(string(v))), err
	}
	return v, err
}

// Children implements sql.Expression.
func (s *shortTime) Children() []sql.Expression { return []sql.Expression{s.Expression} }

// WithChildren implements sql.Expression.
func (s *shortTime) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(c), 1)
	}
	return &shortTime{c[0]}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (s *shortTime) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, s.Expression)
}

// shortOperand is an operand next to dates, or a list of them, without texts longer than those; nil if it is fine.
func shortOperand(ctx *sql.Context, e sql.Expression) sql.Expression {
	list, ok := e.(expression.Tuple)
	switch {
	case ok:
		var out expression.Tuple
		for i, c := range list {
			if _, literal := c.(*expression.Literal); literal {
				continue
			}
			if by := shortOperand(ctx, c); by != nil {
				if out == nil {
					out = append(out, list...)
				}
				out[i] = by
			}
		}
		if out == nil {
			return nil
		}
		return out
	case !e.Resolved() || !mayBeLong(ctx, e):
		return nil
	}
	switch e.(type) {
	case *plan.Subquery:
		return nil // IN and ANY look for one
	}
	return &shortTime{e}
}

// shortTimes makes operands that are taken for times no longer than those are.
func shortTimes(ctx *sql.Context, e sql.Expression, children []sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	var out []sql.Expression
	for i, c := range children {
		var by sql.Expression
		if l, ok := c.(*expression.Literal); ok {
			if text, ok := l.Value().(string); ok && len(shortMoment(text)) < len(text) {
				by = expression.NewLiteral(shortMoment(text), l.Type(ctx))
			}
		} else if c != nil && c.Resolved() && mayBeLong(ctx, c) {
			by = &shortTime{c}
		}
		if by == nil {
			continue
		}
		if out == nil {
			out = append(out, children...)
		}
		out[i] = by
	}
	if out == nil {
		return e, transform.SameTree, nil
	}
	n, err := e.WithChildren(ctx, out...)
	return n, transform.NewTree, err
}

// dateArguments is how many of a function's first arguments are dates.
func dateArguments(e sql.FunctionExpression) int {
	switch strings.ToLower(e.FunctionName()) {
	case "date", "year", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekday", "week", "weekofyear", "yearweek",
		"quarter", "monthname", "dayname", "to_days", "last_day", "date_format", "date_add", "date_sub", "adddate", "subdate",
		"datetime", "timestamp", "unix_timestamp":
		return 1
	case "datediff":
		return 2
	}
	return 0
}

// readsTimes reports whether a function takes operands for times and numbers for something else than dates.
func readsTimes(e sql.FunctionExpression) bool {
	switch strings.ToLower(e.FunctionName()) {
	case "hour", "minute", "second", "microsecond", "extract", "convert_tz", "time_format", "timestampdiff", "time_to_sec", "timediff", "time":
		return true
	}
	return false
}

// datesFromNumbers replaces operands of e that are taken for dates.
func datesFromNumbers(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	children := e.Children()
	to := 0
	switch e := e.(type) {
	case *expression.Convert:
		if types.IsTime(e.Type(ctx)) {
			to = 1
		}
	case *expression.SetField:
		if len(children) == 2 && children[0].Resolved() {
			if by := convertsFor(children[0].Type(ctx)); by != nil {
				if out := converted(ctx, children, []convert{nil, by}); out != nil {
					n, err := e.WithChildren(ctx, out...)
					return n, transform.NewTree, err
				}
			}
		}
	case expression.Comparer, *expression.Between: // MySQL compares a column of dates with a number that is one as dates
		return comparedDates(ctx, e, children)
	case sql.FunctionExpression:
		if to = min(dateArguments(e), len(children)); to == 0 && readsTimes(e) {
			return shortTimes(ctx, e, children)
		}
	}
	var out []sql.Expression
	for i := range to {
		if by, ok := asDate(ctx, children[i]); ok {
			if out == nil {
				out = append(out, children...)
			}
			out[i] = by
		}
	}
	if out == nil {
		return e, transform.SameTree, nil
	}
	n, err := e.WithChildren(ctx, out...)
	return n, transform.NewTree, err
}

// comparedDates replaces literals that are dates next to dates.
func comparedDates(ctx *sql.Context, e sql.Expression, children []sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	dated, digits := false, types.MaxDatetimePrecision
	for _, c := range children {
		_, literal := c.(*expression.Literal)
		if !literal && c.Resolved() && types.IsTime(c.Type(ctx)) {
			dated, digits = true, min(digits, timeDigits(c.Type(ctx)))
		}
	}
	if !dated {
		return e, transform.SameTree, nil
	}
	var out []sql.Expression
	for i, c := range children {
		var by sql.Expression
		switch c := c.(type) {
		case *expression.Literal:
			if text, ok := dateLiteral(c.Value(), digits); ok {
				by = expression.NewLiteral(text, types.Text)
			}
		case expression.Tuple:
			if list := datesInList(c, digits); list != nil {
				by = list
			}
		default:
			by = shortOperand(ctx, c)
		}
		if by == nil {
			continue
		}
		if out == nil {
			out = append(out, children...)
		}
		out[i] = by
	}
	if out == nil {
		return e, transform.SameTree, nil
	}
	if in, ok := e.(*expression.HashInTuple); ok { // which keeps what it has hashed
		n, err := expression.NewHashInTuple(ctx, out[0], out[1])
		if err != nil {
			return in, transform.SameTree, nil
		}
		return n, transform.NewTree, nil
	}
	n, err := e.WithChildren(ctx, out...)
	return n, transform.NewTree, err
}

// dateLiteral is a number, or a text of digits, that is a date, as a text with separators. False if it is none, has such separators
// already, or has more digits behind the point than it is compared with: that comparison is one of numbers.
func dateLiteral(v any, digits int) (string, bool) {
	if d, ok := v.(*apd.Decimal); ok && d != nil {
		whole, fraction, _ := strings.Cut(d.Text('f'), ".")
		fraction = strings.TrimRight(fraction, "0")
		n, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || len(fraction) > digits {
			return "", false
		}
		text, ok := dateOfDigits(n).(string)
		switch {
		case !ok:
			return "", false
		case fraction == "":
			return text, true
		}
		return text + "." + fraction, strings.Contains(text, " ")
	}
	text, ok := dateOfDigits(v).(string)
	was, _ := v.(string)
	return text, ok && text != was
}

// datesInList replaces the numbers of a list that are dates; nil if there are none, or others.
func datesInList(list expression.Tuple, digits int) expression.Tuple {
	out := make(expression.Tuple, len(list))
	changed := false
	for i, e := range list {
		l, ok := e.(*expression.Literal)
		if !ok {
			return nil
		}
		out[i] = l
		if text, ok := dateLiteral(l.Value(), digits); ok {
			out[i], changed = expression.NewLiteral(text, types.Text), true
		}
	}
	if !changed {
		return nil
	}
	return out
}

// insertedLiterals does the same for the rows of an INSERT or REPLACE, and gives its columns of byte strings the bytes of
// literals.
func insertedLiterals(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	insert, ok := n.(*plan.InsertInto)
	if !ok {
		return n, transform.SameTree, nil
	}
	inner, adjusts := insert.Source.(*adjustedSource)
	source := insert.Source
	if adjusts {
		source = inner.Child
	}
	source, same, err := exactDefaults(ctx, source)
	if err != nil {
		return nil, transform.SameTree, err
	}
	if !same {
		if adjusts {
			if source, err = inner.WithChildren(ctx, source); err != nil {
				return nil, transform.SameTree, err
			}
		}
		insert = insert.WithSource(source)
	}
	with, unchanged, err := givenLiterals(ctx, insert)
	return with, same && unchanged, err
}

// givenLiterals does so for the rows of one INSERT.
func givenLiterals(ctx *sql.Context, insert *plan.InsertInto) (sql.Node, transform.TreeIdentity, error) {
	var n sql.Node = insert
	names := insert.ColumnNames
	schema := insert.Destination.Schema(ctx)
	if len(names) == 0 {
		for _, c := range schema {
			names = append(names, c.Name)
		}
	}
	given := make([]convert, len(names))
	any := false
	for i, name := range names {
		if at := schema.IndexOfColName(strings.ToLower(name)); at >= 0 {
			given[i] = convertsFor(schema[at].Type)
			any = any || given[i] != nil
		}
	}
	if !any {
		return n, transform.SameTree, nil
	}
	source, same, err := transform.Node(ctx, insert.Source, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		values, ok := n.(*plan.Values)
		if !ok {
			return n, transform.SameTree, nil
		}
		var out [][]sql.Expression
		for r, row := range values.ExpressionTuples {
			if changed := converted(ctx, row, given); changed != nil {
				if out == nil {
					out = append(out, values.ExpressionTuples...)
				}
				out[r] = changed
			}
		}
		if out == nil {
			return n, transform.SameTree, nil
		}
		v := *values
		v.ExpressionTuples = out
		return &v, transform.NewTree, nil
	})
	if err != nil {
		return nil, transform.SameTree, err
	}
	loose, adjusts := source.(*adjustedSource)
	from := source
	if adjusts {
		from = loose.Child
	}
	if p, ok := from.(*plan.Project); ok && len(p.Projections) == len(schema) {
		if selected := selectedDates(ctx, p, schema); selected != nil {
			source, same = plan.NewProject(ctx, selected, p.Child), transform.NewTree
			if adjusts {
				if source, err = loose.WithChildren(ctx, source); err != nil {
					return nil, transform.SameTree, err
				}
			}
		}
	}
	if same {
		return n, transform.SameTree, nil
	}
	return insert.WithSource(source), transform.NewTree, nil
}

// convert returns what is given to a column in place of an expression; false if that is the expression itself.
type convert func(ctx *sql.Context, e sql.Expression) (sql.Expression, bool)

func convertsFor(t sql.Type) convert {
	switch {
	case types.IsTime(t):
		return asDate
	case types.IsBinaryType(t):
		return asBytes
	case types.IsTextOnly(t):
		return asText
	case takesNumbers(t):
		return asNumberOf(t)
	}
	return nil
}

// asText is a value as the text it is shown as; false if the frontend makes the same one of it.
func asText(ctx *sql.Context, e sql.Expression) (sql.Expression, bool) {
	return shownText(ctx, e, false)
}

// asLargeNumber, for integers, is a text of more digits than a BIGINT may have as the number it is, of which the frontend would make another one;
// false if e is none.
func asLargeNumber(_ *sql.Context, e sql.Expression) (sql.Expression, bool) {
	const digits = 19 // of the greatest BIGINT
	l, ok := e.(*expression.Literal)
	if !ok {
		return e, false
	}
	text, ok := l.Value().(string)
	if !ok || len(text) < digits || strings.Trim(strings.TrimLeft(text, "+-"), "0123456789") != "" {
		return e, false
	}
	d, err := toDecimal(text)
	if err != nil || d == nil {
		return e, false
	}
	return expression.NewLiteral(d, types.InternalDecimalType), true
}

// converted returns a row with what its columns are given; nil if that is the row itself.
func converted(ctx *sql.Context, row []sql.Expression, given []convert) []sql.Expression {
	var out []sql.Expression
	for i, e := range row {
		if i >= len(given) || given[i] == nil {
			continue
		}
		if by, ok := given[i](ctx, e); ok {
			if out == nil {
				out = append(out, row...)
			}
			out[i] = by
		}
	}
	return out
}

// selectedDates returns the projections of INSERT … SELECT, in which the frontend says that columns of the query are of the types
// of the table's, with numbers for dates and dates for texts converted; nil if there are none.
func selectedDates(ctx *sql.Context, p *plan.Project, schema sql.Schema) []sql.Expression {
	if _, done := p.Child.(*plan.Values); done {
		return nil
	}
	var out []sql.Expression
	selected := p.Child.Schema(ctx)
	for i, e := range p.Projections {
		f, column := e.(*expression.GetField)
		column = column && f.Table() == ""
		by, ok := e, false
		switch {
		case types.IsTime(schema[i].Type):
			if by, ok = asDate(ctx, e); !ok && column {
				by, ok = &dateNumber{e}, true
			}
		case types.IsTextOnly(schema[i].Type) && column && f.Index() < len(selected):
			by, ok = asText(ctx, expression.NewGetField(f.Index(), selected[f.Index()].Type, f.Name(), f.IsNullable(ctx)))
		case takesNumbers(schema[i].Type) && column && f.Index() < len(selected):
			if t := selected[f.Index()].Type; isTemporal(t) {
				by, ok = &givenNumber{expression.NewGetField(f.Index(), t, f.Name(), f.IsNullable(ctx)), schema[i].Type}, true
			}
		}
		if ok {
			if out == nil {
				out = append(out, p.Projections...)
			}
			out[i] = by
		}
	}
	return out
}

// asBytes is a literal of a client that does not speak Unicode as the bytes it sent, where they are taken for such; false if e is
// none. See wire.
func asBytes(ctx *sql.Context, e sql.Expression) (sql.Expression, bool) {
	l, ok := e.(*expression.Literal)
	if !ok {
		return e, false
	}
	text, ok := l.Value().(string)
	t, collated := l.Type(ctx).(sql.TypeWithCollation)
	if !ok || !collated {
		return e, false
	}
	set := t.Collation().CharacterSet()
	if set == sql.CharacterSet_binary || set == sql.CharacterSet_Unspecified || set.MaxLength() != 1 || set.Encoder() == nil {
		return e, false
	}
	b, ok := set.Encoder().Encode([]byte(text))
	if !ok {
		return e, false
	}
	return expression.NewLiteral(b, types.LongBlob), true
}
