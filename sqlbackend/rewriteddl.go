package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Clauses of definitions that the frontend's grammar lacks. As in rewritestmt.go, all work on tokens.

// definesText reports whether a statement begins with CREATE or ALTER.
func definesText(query string) bool {
	word := firstWord(query)
	return strings.EqualFold(word, "create") || strings.EqualFold(word, "alter")
}

// rewriteIndexTypes drops USING BTREE and USING HASH from definitions, which the frontend's grammar knows in some places only.
// Indexes are what they are here, as in InnoDB.
func rewriteIndexTypes(query string, options sqlparser.ParserOptions) string {
	if !definesText(query) || !containsFold(query, "using") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok {
		return query
	}
	var out strings.Builder
	done := 0
	for i := 0; i+1 < len(list); i++ {
		if list[i].kind != sqlparser.USING || !list[i+1].isWord("btree", "hash") || !endsWith(query, list[i].to, "using") {
			continue
		}
		// Why the blanks before it: they are no loss, and what is in an executable comment must stay in it.
		from := list[i].to - len("using")
		out.WriteString(strings.TrimRight(query[done:from], " "))
		done = list[i+1].to
	}
	return out.String() + query[done:]
}

// rewriteReferences drops REFERENCES t (a) ON DELETE … ON UPDATE … from definitions of columns. MySQL 8 reads and ignores it there:
// foreign keys are made by FOREIGN KEY only (Reference Manual, 15.1.20.5).
func rewriteReferences(query string, options sqlparser.ParserOptions) string {
	if !definesText(query) || !containsFold(query, "references") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok || !changesTables(list) {
		return query
	}
	var out strings.Builder
	done, foreign := 0, false
	for i := 0; i < len(list); i++ {
		switch {
		case list[i].kind == sqlparser.FOREIGN:
			foreign = true
		case list[i].kind == sqlparser.REFERENCES && foreign:
			foreign = false
		case list[i].kind == sqlparser.REFERENCES:
			end := referenceEnd(list, i)
			if end < 0 {
				return query // the frontend's parser says what is wrong
			}
			out.WriteString(query[done:list[i-1].to])
			done = list[end-1].to
			i = end - 1
		}
	}
	return out.String() + query[done:]
}

// changesTables reports whether a statement is CREATE [TEMPORARY] TABLE or ALTER TABLE.
func changesTables(list []token) bool {
	i := 1
	if i < len(list) && list[i].isWord("temporary") {
		i++
	}
	return i < len(list) && list[i].kind == sqlparser.TABLE
}

// referenceEnd returns the index of the token behind the clause that begins with REFERENCES at i; -1 if it is none.
func referenceEnd(list []token, i int) int {
	at := func(k int) token { return list[min(k, len(list)-1)] } // the last one ends the statement
	i += 2
	if at(i).kind == '.' {
		i += 2
	}
	if at(i).kind == '(' {
		for at(i).kind != ')' {
			if i++; i >= len(list) {
				return -1
			}
		}
		i++
	}
	if at(i).isWord("match") {
		i += 2
	}
	for at(i).kind == sqlparser.ON && at(i+1).isWord("delete", "update") {
		switch {
		case at(i+2).isWord("restrict", "cascade"):
			i += 3
		case at(i+2).isWord("set") && at(i+3).isWord("null", "default"), at(i+2).isWord("no") && at(i+3).isWord("action"):
			i += 4
		default:
			return -1
		}
	}
	if i >= len(list) {
		return -1
	}
	return i
}

// rewriteLabels puts a blank between a label's colon and BEGIN, LOOP, REPEAT or WHILE. Without one the frontend's tokenizer loses
// the colon.
func rewriteLabels(query string, options sqlparser.ParserOptions) string {
	if !definesText(query) || !strings.Contains(query, ":") || !containsFold(query, "begin") {
		return query
	}
	var out strings.Builder
	done := 0
	s := newTokens(query, options)
	for s.kind != 0 && s.kind != sqlparser.LEX_ERROR {
		label := s.kind == sqlparser.ID
		s.next()
		if !label || !(token{kind: s.kind, text: s.text}).isWord("begin", "loop", "repeat", "while") {
			continue
		}
		if end := tokenEnd(query, s); endsWith(query, end, ":"+s.text) {
			out.WriteString(query[done:end-len(s.text)] + " ")
			done = end - len(s.text)
		}
	}
	return out.String() + query[done:]
}

// rewriteGenerated puts the expressions of generated columns and of defaults into parentheses of their own, without which the frontend's
// grammar knows no conditions there, and takes those around the query of CREATE TABLE … AS (SELECT …) away.
func rewriteGenerated(query string, options sqlparser.ParserOptions) string {
	if !definesText(query) || !containsFold(query, "as") && !containsFold(query, "default") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok || !changesTables(list) {
		return query
	}
	match := matches(list)
	var edits []edit
	for i := 3; i+2 < len(list); i++ {
		if list[i].kind != '(' || match[i] < 0 || !list[i-1].isWord("as", "default") || !endsWith(query, list[i-1].to, list[i-1].text) {
			continue
		}
		first := i + 1
		for first < match[i] && list[first].kind == '(' {
			first++
		}
		query := list[first].isWord("select", "with", "values", "table")
		if query && first == i+1 && match[i] == len(list)-2 { // CREATE TABLE … AS (SELECT …)
			edits = append(edits, edit{from: list[i].to - 1, to: list[i].to, by: " ", silent: true}, edit{from: list[match[i]].to - 1, to: list[match[i]].to, silent: true})
		}
		if query || match[i+1] == match[i]-1 {
			continue // enough of them
		}
		end := list[match[i]].to
		edits = append(edits, edit{from: list[i].to, to: list[i].to, by: "(", silent: true}, edit{from: end, to: end, by: ")", silent: true})
	}
	return applyEdits(query, edits)
}

// defineOperators makes MEMBER OF and SOUNDS LIKE of what stands for them in the expressions of a definition. Other replacements have
// no place there: they would be in the text that is kept.
func defineOperators(d *sqlparser.DDL) {
	if d.TableSpec == nil {
		return
	}
	define := func(e *sqlparser.Expr) {
		if *e != nil {
			*e = definedOperator(*e)
			rewriteExpressions(*e, definedOperator)
		}
	}
	for _, c := range d.TableSpec.Columns {
		define(&c.Type.Default)
		define(&c.Type.GeneratedExpr)
	}
	for _, c := range d.TableSpec.Constraints {
		if check, ok := c.Details.(*sqlparser.CheckConstraintDefinition); ok {
			define(&check.Expr)
		}
	}
}

// literalName is the function that stands for a DECIMAL literal in a definition that the frontend's plan builder would round.
const literalName = "lancesql literal"

// plainLiteral is such a literal: it is printed as it is, and is one again where it is evaluated (exactOne).
type plainLiteral struct{ *expression.Literal }

// WithChildren implements sql.Expression.
func (l *plainLiteral) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(l, len(c), 0)
	}
	return l, nil
}

// definedOperator is replacedOperator for those that a definition may have.
func definedOperator(e sqlparser.Expr) sqlparser.Expr {
	guardOperands(e, func(v *sqlparser.SQLVal) sqlparser.Expr { return call(literalName, v) })
	switch e := e.(type) {
	case *sqlparser.ComparisonExpr:
		if e.Operator == sqlparser.LikeStr {
			return replacedLike(e)
		}
	case *sqlparser.ExtractFuncExpr:
		return extractCall(e)
	}
	return e
}
