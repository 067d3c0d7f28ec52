package sqlbackend

import (
	"slices"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// existence finishes EXISTS, whose subquery begins at i: it drops parentheses too many around the subquery, and puts some around
// EXISTS (…) next to an operator, which the frontend's grammar takes for no operand.
func (r *textRewriter) existence(i int) {
	if r.kind(i) != '(' || r.match[i] < 0 {
		return
	}
	if before, after := r.list[max(i-2, 0)].kind, r.match[i]+1; operandBefore(before) || r.endsBetween(i-2) || operandAfter(r.kind(after)) {
		r.edit(r.start(i-1), r.start(i-1), "(")
		end := r.list[r.match[i]].to
		r.edit(end, end, ")")
	}
	for r.kind(i) == '(' && r.kind(i+1) == '(' && r.match[i] > 0 && r.match[i+1] == r.match[i]-1 {
		i++
		r.edit(r.list[i].to-1, r.list[i].to, " ")
		r.edit(r.list[r.match[i]].to-1, r.list[r.match[i]].to, " ")
	}
}

// operandBefore reports whether an operand follows a token of that kind.
func operandBefore(kind int) bool {
	return operandAfter(kind) && kind != sqlparser.NOT && kind != sqlparser.IN ||
		slices.Contains([]int{'!', '~', sqlparser.BINARY, sqlparser.INTERVAL}, kind)
}

// operandAfter reports whether a token of that kind follows an operand.
func operandAfter(kind int) bool {
	return slices.Contains([]int{'=', '<', '>', sqlparser.LE, sqlparser.GE, sqlparser.NE, sqlparser.NULL_SAFE_EQUAL,
		'+', '-', '*', '/', '%', '&', '|', '^', sqlparser.SHIFT_LEFT, sqlparser.SHIFT_RIGHT, sqlparser.DIV, sqlparser.MOD,
		sqlparser.IN, sqlparser.NOT, sqlparser.LIKE, sqlparser.REGEXP, sqlparser.BETWEEN}, kind)
}

// endsBetween reports whether token i is the AND of a BETWEEN.
func (r *textRewriter) endsBetween(i int) bool {
	if r.kind(i) != sqlparser.AND {
		return false
	}
	depth := 0
	for i--; i >= 0; i-- {
		switch r.kind(i) {
		case ')':
			depth++
		case '(':
			if depth--; depth < 0 {
				return false
			}
		case sqlparser.BETWEEN:
			if depth == 0 {
				return true
			}
		case sqlparser.AND, sqlparser.OR, sqlparser.SELECT, sqlparser.WHERE:
			if depth == 0 {
				return false
			}
		}
	}
	return false
}
