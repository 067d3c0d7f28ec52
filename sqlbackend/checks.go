package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/arrowx"
)

// Checks in ALTER TABLE. The frontend's grammar reads ALTER CHECK c [NOT] ENFORCED and forgets it, and its planner finds no checks of
// tables with virtual columns.

// enforceName begins the name of the check that DROP CHECK names where the client wrote ALTER CHECK … ENFORCED; a digit and the check's
// own name follow.
const enforceName = "lancesql enforce "

// rewriteEnforcement makes ALTER CHECK c [NOT] ENFORCED the DROP CHECK that stands for it.
func rewriteEnforcement(query string, options sqlparser.ParserOptions) string {
	if !strings.EqualFold(firstWord(query), "alter") || !containsFold(query, "enforced") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok || len(list) < 2 || !list[1].isWord("table") {
		return query
	}
	var edits []edit
	for i := 3; i+3 < len(list); i++ {
		if !list[i].isWord("alter") || !list[i+1].isWord("check", "constraint") {
			continue
		}
		on := "1 "
		switch list[i+3].kind {
		case sqlparser.NOT_ENFORCED:
			on = "0 "
		case sqlparser.ENFORCED:
		default:
			continue
		}
		name := "`" + strings.ReplaceAll(enforceName+on+list[i+2].text, "`", "``") + "`"
		edits = append(edits, edit{from: list[i].to - len("alter"), to: list[i+3].to, by: "DROP CHECK " + name})
	}
	return applyEdits(query, edits)
}

// enforcement is what such a DROP CHECK stands for; false if it is none.
func enforcement(n sql.Node) (table sql.Node, name string, on, ok bool) {
	d, ok := n.(*plan.DropCheck)
	if !ok {
		return nil, "", false, false
	}
	rest, ok := strings.CutPrefix(d.Name, enforceName)
	if !ok || len(rest) < 2 {
		return nil, "", false, false
	}
	return d.Table, rest[2:], rest[0] == '1', true
}

// findingChecks is a rule of the frontend about a check that is dropped, for tables with virtual columns too.
func findingChecks(theirs analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		plain, same, err := transform.Node(ctx, n, func(_ *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
			switch n := n.(type) {
			case *plan.DropCheck:
				if t, ok := withoutVirtual(n.Table); ok {
					d := *n
					d.Table = t
					return &d, transform.NewTree, nil
				}
			case *plan.DropConstraint:
				if t, ok := withoutVirtual(n.Child); ok {
					d := *n
					d.Child = t
					return &d, transform.NewTree, nil
				}
			}
			return n, transform.SameTree, nil
		})
		if err != nil {
			return nil, transform.SameTree, err
		}
		if d, ok := plain.(*plan.DropCheck); ok {
			name := d.Name
			if _, of, _, sets := enforcement(d); sets {
				name = of
			}
			if t, ok := ours(d.Table.Table); ok && !t.info.shape.hasCheck(name) {
				return nil, transform.SameTree, newError(3821, "Check constraint '%s' is not found in the table.", name)
			}
			return plain, same, nil
		}
		checked, unchanged, err := theirs(ctx, a, plain, scope, sel, flags)
		return checked, same && unchanged, err
	}
}

// withoutVirtual is a table that does not compute its virtual columns; false if it has none.
func withoutVirtual(n sql.Node) (*plan.ResolvedTable, bool) {
	rt, ok := n.(*plan.ResolvedTable)
	if !ok {
		return nil, false
	}
	v, ok := rt.Table.(*plan.VirtualColumnTable)
	if !ok {
		return nil, false
	}
	plain := *rt
	plain.Table = v.Underlying()
	return &plain, true
}

// enforce switches a check on or off. What is switched on is tried on the rows there are (3819).
func (t *Table) enforce(ctx *sql.Context, name string, on bool) error {
	for _, c := range t.info.shape.Checks {
		if on && !c.Enforced && strings.EqualFold(c.Name, name) {
			if err := t.tryCheck(ctx, c); err != nil {
				return err
			}
		}
	}
	return t.changeShape(ctx, func(s *shape) error {
		for i := range s.Checks {
			if strings.EqualFold(s.Checks[i].Name, name) {
				s.Checks[i].Enforced = on
				return nil
			}
		}
		return newError(3821, "Check constraint '%s' is not found in the table.", name)
	})
}

// tryCheck fails with the first row that violates a check.
func (t *Table) tryCheck(ctx *sql.Context, c shapeCheck) error {
	e, err := resolveOver(ctx, c.Expression, t.Database(), t.Name(), t.info.schema.Schema)
	if err != nil {
		return err
	}
	if e, err = overRows(ctx, e, t.info.schema.Schema); err != nil {
		return err
	}
	columns := make([]int, len(t.info.codecs))
	for i := range columns {
		columns[i] = i
	}
	return t.eachStored(ctx, columns, func(stored arrowx.Row) error {
		row, err := t.info.decodeRow(ctx, stored)
		if err != nil {
			return err
		}
		holds, err := sql.EvaluateCondition(ctx, e, row)
		if err == nil && sql.IsFalse(holds) {
			err = sql.ErrCheckConstraintViolated.New(c.Name)
		}
		return err
	})
}
