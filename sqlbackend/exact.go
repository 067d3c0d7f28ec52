package sqlbackend

import (
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// The frontend compares some pairs of types inexactly: a DECIMAL with a value of more digits at the column's scale, a
// BIGINT with an UNSIGNED literal as doubles, texts in an IN list under the server's collation, numbers in an IN list
// in the type of the first; DISTINCT ignores collations. exactComparisons replaces such comparisons in a plan by exact ones; guardLiterals keeps the
// frontend from rounding literals while it builds the plan.

// exactComparisons rewrites the expressions of a plan. Doing it twice changes nothing.
func exactComparisons(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	n, compared, err := transform.NodeExprsWithOpaque(ctx, n, exactComparison)
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, distinct, err := transform.NodeWithOpaque(ctx, n, exactDistinct)
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, dates, err := transform.NodeWithOpaque(ctx, n, insertedLiterals)
	return n, compared && distinct && dates, err
}

func exactComparison(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	dated, same, err := datesFromNumbers(ctx, e)
	if err != nil {
		return nil, transform.SameTree, err
	}
	texts, shown, err := textOperands(ctx, dated)
	if err != nil {
		return nil, transform.SameTree, err
	}
	plain, hidden, err := plainNumbers(ctx, texts)
	if err != nil {
		return nil, transform.SameTree, err
	}
	if shown {
		return plain, transform.NewTree, nil
	}
	exact, also, err := exactTimes(ctx, plain)
	return exact, same && also && !transform.TreeIdentity(hidden), err
}

// textOperands gives functions of texts what is shown of their operands.
func textOperands(ctx *sql.Context, e sql.Expression) (sql.Expression, bool, error) {
	switch e := e.(type) {
	case *expression.Case:
		return textBranches(ctx, e)
	case *function.If:
		return textChoice(ctx, e)
	case *aggregation.JsonArray:
		return hideOperands(ctx, e, hasMembers, func(int) bool { return true }, func(c sql.Expression) sql.Expression { return &timeText{c} })
	case *expression.SetField:
		if _, ok := e.LeftChild.(*expression.UserVar); ok && e.RightChild.Resolved() && inVariables(e.RightChild.Type(ctx)) { // which hold no dates and no members
			return expression.NewSetField(e.LeftChild, &timeText{e.RightChild}), true, nil
		}
	}
	if !takesText(ctx, e) {
		return e, false, nil
	}
	which, name := shownOtherwise, ""
	if f, ok := e.(sql.FunctionExpression); ok { // some have a form of their own for numbers
		switch name = strings.ToLower(f.FunctionName()); {
		case name == "hex":
			which = func(t sql.Type) bool { return shownOtherwise(t) && !sql.IsNumberType(t) }
		case name == "group_concat": // which shows members, and is ordered by their numbers
			which = showsDigits
		case name == "greatest", name == "least", name == "field":
			which = func(t sql.Type) bool { return types.IsTime(t) || hasMembers(t) }
		case strings.HasPrefix(name, "json_"):
			which = func(t sql.Type) bool {
				return isTimeType(t) || types.IsDateType(t) || types.IsTime(t) && timeDigits(t) > 0 || hasMembers(t)
			}
		}
	}
	return hideOperands(ctx, e, which, func(i int) bool { return isTextOperand(name, i) }, func(c sql.Expression) sql.Expression { return &timeText{c} })
}

// textBranches is a CASE whose results are texts with what is shown of them.
func textBranches(ctx *sql.Context, c *expression.Case) (sql.Expression, bool, error) {
	if !types.IsTextOnly(c.Type(ctx)) {
		return c, false, nil
	}
	shown := *c
	shown.Branches = slices.Clone(c.Branches)
	changed := false
	for i, b := range c.Branches {
		shown.Branches[i].Value, changed = shownText(ctx, b.Value, changed)
	}
	if c.Else != nil {
		shown.Else, changed = shownText(ctx, c.Else, changed)
	}
	if !changed {
		return c, false, nil
	}
	return &shown, true, nil
}

// textChoice is IF of texts with what is shown of them.
func textChoice(ctx *sql.Context, e *function.If) (sql.Expression, bool, error) {
	if !types.IsTextOnly(e.Type(ctx)) {
		return e, false, nil
	}
	children, changed := slices.Clone(e.Children()), false
	for i := 1; i < len(children); i++ { // after the condition
		children[i], changed = shownText(ctx, children[i], changed)
	}
	if !changed {
		return e, false, nil
	}
	n, err := e.WithChildren(ctx, children...)
	return n, true, err
}

// shownText is a value as the text it is shown as, where the frontend would make another one of it; changed is true then.
func shownText(ctx *sql.Context, e sql.Expression, changed bool) (sql.Expression, bool) {
	if !e.Resolved() || !shownOtherwise(e.Type(ctx)) {
		return e, changed
	}
	return &timeText{e}, true
}

func exactOne(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	switch e := e.(type) {
	case *expression.Convert:
		if e.Type(ctx) == types.Int64 {
			return &signedCast{e}, transform.NewTree, nil
		}
		if _, done := e.Child.(*tamedText); !done && types.IsDecimal(e.Type(ctx)) && types.IsText(e.Child.Type(ctx)) {
			n, err := e.WithChildren(ctx, &tamedText{e.Child})
			return n, transform.NewTree, err
		}
	case *expression.ConvertUsing:
		return &convertedText{e}, transform.NewTree, nil
	case *expression.HashInTuple:
		return exactIn(ctx, e)
	case *expression.InTuple:
		if list, ok := e.Right().(expression.Tuple); ok {
			if wide, ok := unroundedLeft(ctx, e.Left(), list); ok {
				return expression.NewInTuple(wide, list), transform.NewTree, nil
			}
		}
	case *expression.Case:
		if column, ok := decimalColumn(ctx, e.Expr); ok && slices.ContainsFunc(e.Branches, func(b expression.CaseBranch) bool { return rounds(ctx, column, b.Cond) }) {
			exact := *e
			exact.Expr = &unscaled{child: column}
			return &exact, transform.NewTree, nil
		}
	case *function.NullIf:
		if column, ok := decimalColumn(ctx, e.LeftChild); ok && rounds(ctx, column, e.RightChild) {
			return &ownValue{e, exactNullIf}, transform.NewTree, nil
		}
	case *aggregation.CountDistinct:
		return exactCount(ctx, e)
	case *aggregation.GroupConcat:
		if concat, ok := exactConcat(ctx, e); ok {
			return concat, transform.NewTree, nil
		}
	case *function.Now:
		if now, ok := withDigits(ctx, e); ok {
			return now, transform.NewTree, nil
		}
	case *expression.Div:
		return plainModulos(ctx, e)
	case *expression.Mod:
		plain, _, err := plainModulos(ctx, e)
		if err != nil {
			return nil, transform.SameTree, err
		}
		return &modulo{plain.(*expression.Mod)}, transform.NewTree, nil
	case *expression.IntDiv:
		return &wholeQuotient{e}, transform.NewTree, nil
	case *function.UnixTimestamp:
		if zoned, ok := zonedUnixTimestamp(ctx, e); ok {
			return zoned, transform.NewTree, nil
		}
	case *expression.Arithmetic:
		if checked, ok := checkArithmetic(ctx, e); ok {
			return checked, transform.NewTree, nil
		}
		if e.Op == sqlparser.MultStr && types.IsDecimal(e.Type(ctx)) {
			return &product{e}, transform.NewTree, nil
		}
	case *plainLiteral:
		return e.Literal, transform.NewTree, nil
	case *expression.UnaryMinus:
		if inner, ok := e.Child.(*expression.UnaryMinus); ok {
			if l, ok := inner.Child.(*expression.Literal); ok && types.IsDecimal(l.Type(ctx)) {
				return l, transform.NewTree, nil // what guardLiterals made of it
			}
		}
		if _, literal := e.Child.(*expression.Literal); !literal { // in definitions, whose text is not rewritten
			return &negated{e}, transform.NewTree, nil
		}
	case *function.Trim:
		if trim, changed, err := trimsText(ctx, e); changed || err != nil {
			return trim, transform.NewTree, err
		}
	case *plan.Subquery:
		q, same, err := exactComparisons(ctx, e.Query)
		if err != nil || same {
			return e, transform.SameTree, err
		}
		return e.WithQuery(q), transform.NewTree, nil
	case *expression.NullSafeEquals:
		if types.IsTextOnly(e.Left().Type(ctx)) && types.IsTextOnly(e.Right().Type(ctx)) {
			return &nullSafeText{Equals: expression.NewEquals(e.Left(), e.Right())}, transform.NewTree, nil
		}
		return exactOperands(ctx, e)
	case *expression.Equals, *expression.LessThan, *expression.LessThanOrEqual,
		*expression.GreaterThan, *expression.GreaterThanOrEqual, *expression.Between:
		return exactOperands(ctx, e)
	}
	return e, transform.SameTree, nil
}

// exactOperands replaces operands: DECIMAL columns lose their scale, large integers next to integers of the other sign
// become DECIMAL.
func exactOperands(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	children := e.Children()
	if out := datesAsNumbers(ctx, children); out != nil {
		n, err := e.WithChildren(ctx, out...)
		return n, transform.NewTree, err
	}
	if out := tamedTexts(ctx, children); out != nil {
		n, err := e.WithChildren(ctx, out...)
		return n, transform.NewTree, err
	}
	switch e.(type) {
	case *expression.LessThan, *expression.LessThanOrEqual, *expression.GreaterThan, *expression.GreaterThanOrEqual, *expression.Between:
		if out := membersAsTexts(ctx, children); out != nil {
			n, err := e.WithChildren(ctx, out...)
			return n, transform.NewTree, err
		}
	}
	var out []sql.Expression
	replace := func(i int, by sql.Expression) {
		if out == nil {
			out = append(out, children...)
		}
		out[i] = by
	}
	signed, unsigned := false, false
	for _, c := range children {
		typ := c.Type(ctx)
		signed = signed || types.IsSigned(typ)
		unsigned = unsigned || types.IsUnsigned(typ)
	}
	for i, c := range children {
		switch c := c.(type) {
		case expression.Tuple: // of a comparison of rows
			wide := slices.Clone(c)
			for j, cell := range c {
				if column, ok := decimalColumn(ctx, cell); ok {
					wide[j] = &unscaled{child: column}
					replace(i, wide)
				}
			}
		case *expression.GetField:
			if types.IsDecimal(c.Type(ctx)) && !sameColumnTypes(ctx, children) {
				replace(i, &unscaled{child: c})
			}
		case *expression.Literal:
			if signed && unsigned && isLargeInteger(c.Value()) {
				if d := decimalLiteral(c.Value()); d != nil {
					replace(i, d)
				}
			}
		}
	}
	if out == nil {
		return e, transform.SameTree, nil
	}
	n, err := e.WithChildren(ctx, out...)
	return n, transform.NewTree, err
}

// decimalColumn is an operand that is a DECIMAL column.
func decimalColumn(ctx *sql.Context, e sql.Expression) (*expression.GetField, bool) {
	f, ok := e.(*expression.GetField)
	return f, ok && types.IsDecimal(f.Type(ctx))
}

// rounds reports whether the frontend may round an operand to the scale of a column that it is compared with.
func rounds(ctx *sql.Context, column *expression.GetField, e sql.Expression) bool {
	l, ok := e.(*expression.Literal)
	if !ok {
		return true
	}
	t, ok := column.Type(ctx).(sql.DecimalType)
	d, err := toDecimal(l.Value())
	return !ok || err == nil && d != nil && (-d.Exponent > int32(t.Scale()) || d.NumDigits()+int64(d.Exponent) > int64(t.Precision())-int64(t.Scale()))
}

// unroundedIn are the operands of an IN with a list of literals, such that none of these is rounded; false if none would be.
func unroundedIn(ctx *sql.Context, left sql.Expression, list expression.Tuple) (operands [2]sql.Expression, needed bool) {
	row, rows := left.(expression.Tuple)
	if !rows {
		row = expression.Tuple{left}
	}
	wide := slices.Clone(row)
	exact := make([]expression.Tuple, len(list))
	for j, e := range list {
		cells, ok := e.(expression.Tuple)
		if !rows {
			cells = expression.Tuple{e}
		} else if !ok || len(cells) != len(row) {
			return operands, false
		}
		exact[j] = slices.Clone(cells)
	}
	for i, e := range row {
		column, ok := decimalColumn(ctx, e)
		if !ok || !slices.ContainsFunc(exact, func(cells expression.Tuple) bool { return rounds(ctx, column, cells[i]) }) {
			continue
		}
		for _, cells := range exact {
			l, ok := cells[i].(*expression.Literal)
			if !ok {
				return operands, false
			}
			if l.Value() == nil {
				continue
			}
			if cells[i] = decimalLiteral(l.Value()); cells[i] == nil {
				return operands, false
			}
		}
		wide[i], needed = &unscaled{child: column}, true
	}
	if !needed {
		return operands, false
	}
	out := make(expression.Tuple, len(list))
	for j, cells := range exact {
		if out[j] = cells; !rows {
			out[j] = cells[0]
		}
	}
	if operands = [2]sql.Expression{wide, out}; !rows {
		operands[0] = wide[0]
	}
	return operands, true
}

// unroundedLeft is the left side of an IN with a list of any operands, such that none of these is rounded; false if none would be.
func unroundedLeft(ctx *sql.Context, left sql.Expression, list expression.Tuple) (sql.Expression, bool) {
	row, rows := left.(expression.Tuple)
	if !rows {
		row = expression.Tuple{left}
	}
	wide, needed := slices.Clone(row), false
	for i, e := range row {
		column, ok := decimalColumn(ctx, e)
		if !ok {
			continue
		}
		if slices.ContainsFunc(list, func(e sql.Expression) bool {
			if cells, ok := e.(expression.Tuple); ok && rows && len(cells) == len(row) {
				e = cells[i]
			}
			return rounds(ctx, column, e)
		}) {
			wide[i], needed = &unscaled{child: column}, true
		}
	}
	if !rows {
		return wide[0], needed
	}
	return wide, needed
}

// exactNullIf is NULLIF(DECIMAL column, x).
func exactNullIf(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	equals, _, err := exactOperands(ctx, expression.NewEquals(args[0], args[1]))
	if err != nil {
		return nil, err
	}
	if same, err := equals.Eval(ctx, row); err != nil || same == true {
		return nil, err
	}
	return args[0].Eval(ctx, row)
}

// sameColumnTypes reports whether all operands are columns of one type, which compare exactly.
func sameColumnTypes(ctx *sql.Context, operands []sql.Expression) bool {
	for _, o := range operands {
		if _, ok := o.(*expression.GetField); !ok || !o.Type(ctx).Equals(operands[0].Type(ctx)) {
			return false
		}
	}
	return true
}

// isLargeInteger reports whether v is an integer that a double may not hold.
func isLargeInteger(v any) bool {
	switch v := v.(type) {
	case int64:
		return v > 1<<53 || v < -1<<53
	case uint64:
		return v > 1<<53
	}
	return false
}

// decimalLiteral is the number v as DECIMAL, nil if v is no exact number.
func decimalLiteral(v any) sql.Expression {
	if _, float := toFloat(v); float || !isNumber(v) {
		return nil
	}
	d, err := toDecimal(v)
	if err != nil || d == nil {
		return nil
	}
	return expression.NewLiteral(d, types.InternalDecimalType)
}

// exactIn replaces IN lists that the frontend hashes in a type or under a collation that is not the comparison's.
func exactIn(ctx *sql.Context, in *expression.HashInTuple) (sql.Expression, transform.TreeIdentity, error) {
	list, ok := in.Right().(expression.Tuple)
	if !ok {
		return in, transform.SameTree, nil
	}
	if wide, ok := unroundedIn(ctx, in.Left(), list); ok {
		n, err := expression.NewHashInTuple(ctx, wide[0], wide[1])
		return n, transform.NewTree, err
	}
	left := in.Left().Type(ctx)
	switch {
	case types.IsTextOnly(left):
		t, err := newTextIn(ctx, in, list)
		if err != nil || t == nil {
			return in, transform.SameTree, err
		}
		return t, transform.NewTree, nil
	case types.IsTimespan(left):
		return timesIn(ctx, in, list)
	case types.IsInteger(left):
		exact := make(expression.Tuple, len(list))
		needed := false
		for i, e := range list {
			l, ok := e.(*expression.Literal)
			if !ok {
				return in, transform.SameTree, nil
			}
			if exact[i] = l; l.Value() == nil || l.Type(ctx) == types.InternalDecimalType {
				continue
			}
			_, isDecimal := l.Value().(*apd.Decimal)
			needed = needed || isDecimal || isLargeInteger(l.Value())
			if exact[i] = decimalLiteral(l.Value()); exact[i] == nil {
				return in, transform.SameTree, nil
			}
		}
		if !needed {
			return in, transform.SameTree, nil
		}
		n, err := expression.NewHashInTuple(ctx, in.Left(), exact)
		return n, transform.NewTree, err
	}
	return in, transform.SameTree, nil
}

// unscaled is a DECIMAL column as a DECIMAL of any scale, so that comparing with it rounds nothing.
type unscaled struct {
	child sql.Expression
}

var _ sql.Expression = (*unscaled)(nil)

// Eval implements sql.Expression.
func (u *unscaled) Eval(ctx *sql.Context, row sql.Row) (interface{}, error) {
	return u.child.Eval(ctx, row)
}

// Children implements sql.Expression.
func (u *unscaled) Children() []sql.Expression { return []sql.Expression{u.child} }

// WithChildren implements sql.Expression.
func (u *unscaled) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(u, len(c), 1)
	}
	return &unscaled{child: c[0]}, nil
}

// Type implements sql.Expression.
func (u *unscaled) Type(*sql.Context) sql.Type { return types.InternalDecimalType }

// IsNullable implements sql.Expression.
func (u *unscaled) IsNullable(ctx *sql.Context) bool { return u.child.IsNullable(ctx) }

// Resolved implements sql.Expression.
func (u *unscaled) Resolved() bool { return u.child.Resolved() }

// String implements fmt.Stringer.
func (u *unscaled) String() string { return u.child.String() }

// nullSafeText is text <=> text. The frontend's own compares under the server's collation.
type nullSafeText struct {
	*expression.Equals
}

// Eval implements sql.Expression.
func (n *nullSafeText) Eval(ctx *sql.Context, row sql.Row) (interface{}, error) {
	l, err := n.Left().Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	r, err := n.Right().Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	if l == nil || r == nil {
		return l == nil && r == nil, nil
	}
	return n.Equals.Eval(ctx, row)
}

// IsValueExpression implements sql.ValueExpression: rows only.
func (n *nullSafeText) IsValueExpression(*sql.Context) bool { return false }

// WithChildren implements sql.Expression.
func (n *nullSafeText) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 2 {
		return nil, sql.ErrInvalidChildrenNumber.New(n, len(c), 2)
	}
	return &nullSafeText{Equals: expression.NewEquals(c[0], c[1])}, nil
}

// String implements fmt.Stringer.
func (n *nullSafeText) String() string {
	return "(" + n.Left().String() + " <=> " + n.Right().String() + ")"
}

// textIn is text IN (literals) under the collation of the comparison.
type textIn struct {
	*expression.HashInTuple
	collation sql.CollationID
	hashes    map[uint64][]string
	hasNull   bool
}

var _ sql.Expression = (*textIn)(nil)

// newTextIn returns nil if the list has anything but texts and NULL, or if the frontend's hash serves as well.
func newTextIn(ctx *sql.Context, in *expression.HashInTuple, list expression.Tuple) (*textIn, error) {
	t := &textIn{HashInTuple: in, hashes: map[uint64][]string{}}
	t.collation, _ = sql.GetCoercibility(ctx, in.Left())
	if byteOrdered(t.collation) {
		return nil, nil
	}
	for _, e := range list {
		l, ok := e.(*expression.Literal)
		if !ok {
			return nil, nil
		}
		if l.Value() == nil {
			t.hasNull = true
			continue
		}
		s, ok := l.Value().(string)
		if !ok {
			return nil, nil
		}
		if c, strength := sql.GetCoercibility(ctx, l); strength < 2 && c != t.collation {
			return nil, nil // an explicit collation in the list
		}
		h, err := t.collation.HashToUint(s)
		if err != nil {
			return nil, err
		}
		t.hashes[h] = append(t.hashes[h], s)
	}
	return t, nil
}

// Eval implements sql.Expression.
func (t *textIn) Eval(ctx *sql.Context, row sql.Row) (interface{}, error) {
	v, err := t.Left().Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	s, ok, err := sql.Unwrap[string](ctx, v)
	if err != nil {
		return nil, err
	}
	if !ok {
		return t.HashInTuple.Eval(ctx, row)
	}
	h, err := t.collation.HashToUint(s)
	if err != nil {
		return nil, err
	}
	typ := types.CreateLongText(t.collation)
	for _, known := range t.hashes[h] {
		n, err := typ.Compare(ctx, s, known)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return true, nil
		}
	}
	if t.hasNull {
		return nil, nil
	}
	return false, nil
}

// Children implements sql.Expression. The list stays inside: it is made of literals.
func (t *textIn) Children() []sql.Expression { return []sql.Expression{t.Left()} }

// WithChildren implements sql.Expression.
func (t *textIn) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(t, len(c), 1)
	}
	n, err := t.HashInTuple.WithChildren(ctx, c[0], t.Right())
	if err != nil {
		return nil, err
	}
	copied := *t
	copied.HashInTuple = n.(*expression.HashInTuple)
	return &copied, nil
}

// guardLiterals hides DECIMAL literals that are compared with something from the frontend's plan builder, which rounds them to the
// scale of a column: x becomes -(-x), folded later.
func guardLiterals(stmt sqlparser.SQLNode) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		guardOperands(n, func(v *sqlparser.SQLVal) sqlparser.Expr {
			return &sqlparser.UnaryExpr{Operator: sqlparser.MinusStr, Expr: &sqlparser.UnaryExpr{Operator: sqlparser.MinusStr, Expr: v}}
		})
		if c, ok := n.(*sqlparser.ComparisonExpr); ok {
			escapeLike(c)
		}
		return true, nil
	}, stmt)
}

// guardOperands puts what stands for them in the place of DECIMAL literals among the operands of one comparison, IN, CASE or NULLIF.
func guardOperands(n sqlparser.SQLNode, by func(*sqlparser.SQLVal) sqlparser.Expr) {
	switch n := n.(type) {
	case *sqlparser.ComparisonExpr:
		n.Left, n.Right = guarded(n.Left, by), guarded(n.Right, by)
	case *sqlparser.CaseExpr:
		if n.Expr == nil {
			return
		}
		n.Expr = guarded(n.Expr, by)
		for _, w := range n.Whens {
			w.Cond = guarded(w.Cond, by)
		}
	case *sqlparser.FuncExpr:
		if !n.Name.EqualString("nullif") {
			return
		}
		for _, e := range n.Exprs {
			if a, ok := e.(*sqlparser.AliasedExpr); ok {
				a.Expr = guarded(a.Expr, by)
			}
		}
	}
}

// guarded returns e, or its guarded form if e is a literal with a decimal point or a list of operands that may be such.
func guarded(e sqlparser.Expr, by func(*sqlparser.SQLVal) sqlparser.Expr) sqlparser.Expr {
	switch v := e.(type) {
	case *sqlparser.SQLVal:
		if v.Type == sqlparser.FloatVal && !strings.ContainsAny(string(v.Val), "eE") {
			return by(v)
		}
	case sqlparser.ValTuple:
		for i := range v {
			v[i] = guarded(v[i], by)
		}
	}
	return e
}
