package sqlbackend

import (
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// placeName is the function that stands for LOCATE(part, text[, from]) and INSTR(text, part). Why: the frontend's count bytes, and
// compare as no collation does.
const placeName = "lancesql place"

// replacedPlace returns what stands for a call of LOCATE, POSITION or INSTR; nil if it is none.
func replacedPlace(n *sqlparser.FuncExpr) sqlparser.Expr {
	from := sqlparser.SelectExpr(&sqlparser.AliasedExpr{Expr: sqlparser.NewIntVal([]byte("1"))})
	var args sqlparser.SelectExprs
	switch name, count := n.Name.Lowered(), len(n.Exprs); {
	case name == "instr" && count == 2:
		args = sqlparser.SelectExprs{n.Exprs[1], n.Exprs[0], from}
	case (name == "locate" || name == "position") && count == 2:
		args = sqlparser.SelectExprs{n.Exprs[0], n.Exprs[1], from}
	case name == "locate" && count == 3:
		args = n.Exprs
	default:
		return nil
	}
	return &sqlparser.FuncExpr{Name: sqlparser.NewColIdent(placeName), Exprs: args}
}

// evalPlace is where a text first has a part, from 1; 0 if it does not.
func evalPlace(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	var texts [2]string
	binary := false
	for i := range texts {
		v, err := args[i].Eval(ctx, row)
		if err != nil || v == nil {
			return nil, err
		}
		t := args[i].Type(ctx)
		binary = binary || types.IsBinaryType(t)
		if s, ok := t.(sql.StringType); !ok || s == nil {
			t = types.LongText
			if v, _, err = t.Convert(ctx, v); err != nil {
				return nil, err
			}
		}
		if v, err = sql.UnwrapAny(ctx, v); err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case string:
			texts[i] = v
		case []byte:
			texts[i] = string(v)
		}
	}
	v, err := args[2].Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	if v, _, err = types.Int64.Convert(ctx, v); err != nil {
		return nil, err
	}
	from, ok := v.(int64)
	if !ok || from < 1 {
		return int64(0), nil
	}
	same := func(a, b rune) bool { return a == b }
	if !binary {
		l, lc := sql.GetCoercibility(ctx, args[0])
		r, rc := sql.GetCoercibility(ctx, args[1])
		if c, _ := sql.ResolveCoercibility(l, lc, r, rc); c != sql.Collation_binary && c != sql.Collation_Unspecified {
			weight := c.Sorter()
			same = func(a, b rune) bool { return a == b || weight(a) == weight(b) }
		}
	}
	return int64(place(units(texts[0], binary), units(texts[1], binary), from, same)), nil
}

// units are the bytes or the characters of a text.
func units(text string, binary bool) []rune {
	if !binary && utf8.ValidString(text) {
		return []rune(text)
	}
	out := make([]rune, len(text))
	for i := range out {
		out[i] = rune(text[i])
	}
	return out
}

// place finds part in text; both are counted from 1.
func place(part, text []rune, from int64, same func(a, b rune) bool) int {
	for i := from - 1; i <= int64(len(text)-len(part)); i++ {
		k := 0
		for k < len(part) && same(part[k], text[i+int64(k)]) {
			k++
		}
		if k == len(part) {
			return int(i) + 1
		}
	}
	return 0
}
