package predicate

// Expr is a filter over the columns of one table under SQL's three-valued logic. Column numbers are
// positions in the table's physical schema. It is one of Compare, In, IsNull, And, Or, Not, Const.
type Expr interface{ isExpr() }

// Op is a comparison operator.
type Op uint8

// Comparison operators. NullSafeEq is MySQL's <=>.
const (
	Eq Op = iota + 1
	Ne
	Lt
	Le
	Gt
	Ge
	NullSafeEq
)

// Compare is column Op value; Value is a cell as described at arrowx.Row with the column's own Go type, or nil.
// Strings and binaries compare bytewise, floats by value (NaN above everything, -0 = +0).
type Compare struct {
	Column int
	Op     Op
	Value  any
}

// In is column IN (values), none of them nil.
type In struct {
	Column int
	Values []any
}

// IsNull is column IS NULL.
type IsNull struct{ Column int }

// And is the conjunction of its terms (true when empty).
type And struct{ Terms []Expr }

// Or is the disjunction of its terms (false when empty).
type Or struct{ Terms []Expr }

// Not negates; NULL stays NULL.
type Not struct{ Term Expr }

// Const is a literal truth value.
type Const struct{ Value bool }

func (Compare) isExpr() {}
func (In) isExpr()      {}
func (IsNull) isExpr()  {}
func (And) isExpr()     {}
func (Or) isExpr()      {}
func (Not) isExpr()     {}
func (Const) isExpr()   {}
