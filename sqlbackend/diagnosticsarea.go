package sqlbackend

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// GET DIAGNOSTICS outside routines, which have their own: what the statement before has left, in user variables.

// diagnosticItem is @variable = ITEM.
type diagnosticItem struct{ variable, name string }

// getDiagnostics reads [CURRENT | STACKED] DIAGNOSTICS and its items; nil if it is something else.
func (s *tokens) getDiagnostics() sqlparser.Statement {
	stacked := s.takeWord("stacked")
	if !stacked {
		s.takeWord("current")
	}
	if !s.takeWord("diagnostics") {
		return nil
	}
	known := []string{"NUMBER", "ROW_COUNT"}
	number := ""
	if s.takeWord("condition") {
		known = []string{"CLASS_ORIGIN", "SUBCLASS_ORIGIN", "RETURNED_SQLSTATE", "MESSAGE_TEXT", "MYSQL_ERRNO", "CONSTRAINT_CATALOG",
			"CONSTRAINT_SCHEMA", "CONSTRAINT_NAME", "CATALOG_NAME", "SCHEMA_NAME", "TABLE_NAME", "COLUMN_NAME", "CURSOR_NAME"}
		if number = s.text; number == "" {
			return nil
		}
		s.next()
	}
	var items []diagnosticItem
	for {
		variable, ok := strings.CutPrefix(s.text, "@")
		if s.kind == sqlparser.STRING || !ok || variable == "" || strings.HasPrefix(variable, "@") {
			return nil
		}
		s.next()
		if !s.take('=') {
			return nil
		}
		name := strings.ToUpper(s.text)
		if !slices.Contains(known, name) {
			return nil
		}
		s.next()
		items = append(items, diagnosticItem{strings.Trim(variable, "`"), name})
		if !s.take(',') {
			break
		}
	}
	n := &serverStatement{name: "get diagnostics", diagnostics: true, run: func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		if stacked {
			return nil, mysql.NewSQLError(1887, "0Z002", "GET STACKED DIAGNOSTICS when handler not active")
		}
		return nil, c.diagnose(ctx, number, items)
	}}
	return n.inject(anybody())
}

// diagnose sets user variables to items of the statement before, or of one of its conditions.
func (c *Conn) diagnose(ctx *sql.Context, number string, items []diagnosticItem) error {
	list := slices.Clone(c.Warnings())
	slices.Reverse(list) // the last one is first
	if number == "" {
		for _, i := range items {
			n := int64(len(list))
			if i.name == "ROW_COUNT" {
				n = ctx.GetLastQueryInfo().RowCount.Load()
			}
			if err := ctx.SetUserVariable(ctx, i.variable, n, types.Int64); err != nil {
				return err
			}
		}
		return nil
	}
	if name, ok := strings.CutPrefix(number, "@"); ok {
		_, v, err := ctx.GetUserVariable(ctx, name)
		if err != nil {
			return err
		}
		number = fmt.Sprint(v)
	}
	at, err := strconv.Atoi(number)
	if err != nil || at < 1 || at > len(list) {
		return mysql.NewSQLError(1758, "35000", "Invalid condition number")
	}
	for _, i := range items {
		if err := ctx.SetUserVariable(ctx, i.variable, conditionItem(list[at-1], i.name), types.LongText); err != nil {
			return err
		}
	}
	return nil
}

// conditionItem is an item of a condition as GET DIAGNOSTICS shows it.
func conditionItem(w *sql.Warning, name string) string {
	state := sqlState(w.Code)
	switch name {
	case "RETURNED_SQLSTATE":
		return state
	case "MESSAGE_TEXT":
		return w.Message
	case "MYSQL_ERRNO":
		return strconv.Itoa(w.Code)
	case "CLASS_ORIGIN", "SUBCLASS_ORIGIN":
		if strings.HasPrefix(state, "HY") {
			return "MySQL"
		}
		return "ISO 9075"
	}
	return ""
}
