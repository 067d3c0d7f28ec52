package program

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// An expression that only computes is planned once and then evaluated again and again, with places in it where the values of variables
// are put. What asks for the time, reads tables or calls stored functions is planned for each turn, as a statement of its own.

// Kept are the planned expressions of one body in one session. They are good as long as the session has the same settings.
type Kept struct {
	settings any
	list     map[*scalar]*kept // nil: it cannot be planned for all times
	seen     map[*scalar]bool  // those that have been evaluated as statements
}

// NewKept returns an empty one.
func NewKept() *Kept { return &Kept{} }

func (k *Kept) evaluated(e *scalar) bool { return k != nil && k.seen[e] }

func (k *Kept) note(e *scalar) {
	if k == nil || k.seen[e] {
		return
	}
	if k.seen == nil {
		k.seen = map[*scalar]bool{}
	}
	k.seen[e] = true
}

// kept is a planned expression.
type kept struct {
	expr  sql.Expression
	typ   sql.Type
	slots []*Slot
	users []userType
	plans int // how often it was planned
}

// plansMax is how often an expression is planned for other types of user variables before it is left to statements.
const plansMax = 8

// userType is the type that a user variable had when an expression with it was planned.
type userType struct {
	name string
	typ  sql.Type
}

// Slot stands for a variable while an expression is planned. Then a field takes its place: the frontend knows that the value of a field
// changes, and of which type is what is computed from it.
type Slot struct {
	name string
	typ  sql.Type
	at   int
}

var (
	_ sql.Expression         = (*Slot)(nil)
	_ sql.CollationCoercible = (*Slot)(nil)
)

// Field is the variable in the rows for which the expression is evaluated.
func (s *Slot) Field() sql.Expression { return expression.NewGetField(s.at, s.typ, s.name, true) }

// Eval implements sql.Expression. Why an error: what is evaluated while it is planned would be kept for all times.
func (s *Slot) Eval(*sql.Context, sql.Row) (any, error) {
	return nil, fmt.Errorf("the variable %s has no value yet", s.name)
}

// Type implements sql.Expression.
func (s *Slot) Type(*sql.Context) sql.Type { return s.typ }

// IsNullable implements sql.Expression.
func (s *Slot) IsNullable(*sql.Context) bool { return true }

// Resolved implements sql.Expression.
func (s *Slot) Resolved() bool { return true }

// String implements sql.Expression.
func (s *Slot) String() string { return s.name }

// Children implements sql.Expression.
func (s *Slot) Children() []sql.Expression { return nil }

// WithChildren implements sql.Expression.
func (s *Slot) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(c), 0)
	}
	return s, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (s *Slot) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	collation, _ := s.typ.CollationCoercibility(ctx)
	return collation, 2 // as in MySQL, which takes variables for columns
}

// WithResolvedChildren implements sqlparser.Injectable.
func (s *Slot) WithResolvedChildren(context.Context, []any) (any, error) { return s, nil }

// planned returns an expression planned before; nil if it has to be planned each time.
func (c *Call) planned(ctx *sql.Context, e *scalar, sc *scope) *kept {
	k := c.env.Kept
	if !e.computes || k == nil {
		return nil
	}
	if now := c.env.Settings(); k.list == nil || k.settings != now {
		k.settings, k.list = now, map[*scalar]*kept{}
	}
	p, known := k.list[e]
	if known && p == nil {
		return nil
	}
	if known && p.fits(ctx, sc) {
		return p
	}
	plans := 1
	if known {
		plans += p.plans
	}
	if p = nil; plans <= plansMax {
		p = c.plan(ctx, e, sc)
	}
	if p != nil {
		p.plans = plans
	}
	k.list[e] = p
	return p
}

// value evaluates it with the values that its variables have now.
func (k *kept) value(ctx *sql.Context, env *Env, sc *scope) (any, error) {
	row := make(sql.Row, len(k.slots))
	for i, s := range k.slots {
		row[i] = sc.variable(s.name).value
	}
	return env.Value(ctx, k.expr, row)
}

// fits reports whether variables have the types they had when the expression was planned.
func (k *kept) fits(ctx *sql.Context, sc *scope) bool {
	for _, s := range k.slots {
		if s.name != caseVariable && !isField(s.name) {
			continue // the types of others are declared
		}
		if t := sc.variable(s.name).typ; t == nil || !s.typ.Equals(t) {
			return false
		}
	}
	for _, u := range k.users {
		t, _, err := ctx.GetUserVariable(ctx, u.name)
		if err != nil || (t == nil) != (u.typ == nil) || t != nil && !t.Equals(u.typ) {
			return false
		}
	}
	return true
}

func (c *Call) plan(ctx *sql.Context, e *scalar, sc *scope) *kept {
	k := &kept{}
	usable := true
	q := replaceNames(e.query, func(col *sqlparser.ColName) sqlparser.Expr {
		name := nameOf(col)
		if user, ok := strings.CutPrefix(name, "@"); ok {
			t, _, err := ctx.GetUserVariable(ctx, user)
			usable = usable && err == nil
			k.users = append(k.users, userType{user, t})
			return nil
		}
		v := sc.variable(name)
		if v == nil || v.typ == nil {
			usable = false
			return nil
		}
		at := slices.IndexFunc(k.slots, func(s *Slot) bool { return s.name == name })
		if at < 0 {
			at = len(k.slots)
			k.slots = append(k.slots, &Slot{name: name, typ: v.typ, at: at})
		}
		return injectedExpr(k.slots[at])
	})
	if !usable {
		return nil
	}
	k.expr = c.env.Plan(ctx, q)
	if k.expr == nil {
		return nil
	}
	k.typ = k.expr.Type(ctx)
	return k
}

// computing are the functions whose value depends on nothing but their arguments, and that keep nothing of one evaluation for the next.
const computing = " abs adddate ascii bit_count ceil ceiling char_length character_length coalesce concat concat_ws crc32 date date_add " +
	"date_format date_sub datediff day dayofmonth dayofweek dayofyear elt exp field find_in_set floor greatest hex hour if ifnull instr " +
	"isnull last_day lcase least left length ln locate log log10 log2 lower lpad ltrim md5 mid minute mod month nullif ord pow power quarter " +
	"repeat replace reverse right round rpad rtrim second sign space sqrt strcmp subdate substr substring substring_index to_days trim " +
	"truncate ucase unhex upper weekday year "

// computes reports whether an expression depends on variables and literals only, whatever the session does.
func (p *parser) computes(e sqlparser.Expr) bool {
	ok := true
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.ColName:
			name := nameOf(n)
			_, local := p.variable(name)
			user := strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "@@")
			ok = ok && (local || user)
			return false, nil
		case *sqlparser.FuncExpr:
			ok = ok && n.Qualifier.IsEmpty() && n.Over == nil && !n.Distinct && strings.Contains(computing, " "+n.Name.Lowered()+" ")
		case *sqlparser.ComparisonExpr:
			switch n.Operator {
			case sqlparser.InStr, sqlparser.NotInStr:
				list, tuple := n.Right.(sqlparser.ValTuple)
				ok = ok && tuple && literals(list...)
			case sqlparser.LikeStr, sqlparser.NotLikeStr: // the pattern is kept once it was read
				ok = ok && literals(n.Right) && (n.Escape == nil || literals(n.Escape))
			case sqlparser.RegexpStr, sqlparser.NotRegexpStr:
				ok = false
			}
		case *sqlparser.SQLVal:
			ok = ok && n.Type != sqlparser.ValArg
		case *sqlparser.NullVal, sqlparser.BoolVal, sqlparser.ValTuple, *sqlparser.AndExpr, *sqlparser.OrExpr, *sqlparser.XorExpr,
			*sqlparser.NotExpr, *sqlparser.ParenExpr, *sqlparser.RangeCond, *sqlparser.IsExpr, *sqlparser.BinaryExpr, *sqlparser.UnaryExpr,
			*sqlparser.IntervalExpr, *sqlparser.CollateExpr, *sqlparser.CaseExpr, *sqlparser.When, *sqlparser.ConvertExpr, *sqlparser.TrimExpr,
			sqlparser.SelectExprs, sqlparser.Exprs, *sqlparser.AliasedExpr, sqlparser.ColIdent, sqlparser.TableIdent, *sqlparser.ConvertType:
		default:
			ok = ok && n == nil
		}
		return ok, nil
	}, e)
	return ok
}

// literals reports whether expressions are nothing but literals.
func literals(list ...sqlparser.Expr) bool {
	for _, e := range list {
		if v, ok := e.(*sqlparser.SQLVal); !ok || v.Type == sqlparser.ValArg {
			return false
		}
	}
	return true
}
