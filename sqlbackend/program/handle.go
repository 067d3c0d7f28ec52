package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// Conditions: what happens to errors and warnings, and how a program raises its own.

func lower(s string) string { return strings.ToLower(s) }

// textMax is the number of characters of MESSAGE_TEXT, nameMax that of the other items.
const (
	textMax = 128
	nameMax = 64
)

// raised is an error that SIGNAL or RESIGNAL made; it keeps the items.
type raised struct {
	*mysql.SQLError
	items map[string]string
}

// Unwrap returns the error without its items.
func (r raised) Unwrap() error { return r.SQLError }

// conditionOf describes an error.
func (c *Call) conditionOf(err error) *condition {
	se := c.env.Condition(err)
	cond := &condition{number: se.Num, state: se.State, text: se.Message, err: err}
	if r, ok := err.(raised); ok {
		cond.items = r.items
	}
	return cond
}

// failed runs the handler for an error of a statement; without one the error is unhandled.
func (c *Call) failed(ctx *sql.Context, err error, sc *scope) (flow, error) {
	if ctx.Err() != nil { // KILL and time limits end the program
		return flow{}, unhandled{err}
	}
	cond := c.conditionOf(err)
	c.last = []*condition{cond}
	h, owner := sc.find(cond)
	if h == nil {
		return flow{}, unhandled{err}
	}
	return c.handle(ctx, cond, h, owner)
}

// warned runs the handler for the last of the warnings of a statement that has one; before are those there were already.
func (c *Call) warned(ctx *sql.Context, before []*sql.Warning, sc *scope) (flow, error) {
	warnings := c.env.Warnings()
	c.last = nil
	for i := len(warnings) - 1; i >= 0; i-- {
		w := warnings[i]
		state := c.warningState(w.Code)
		// Why not all notes: the frontend makes notes of what IGNORE makes warnings of.
		note := strings.EqualFold(w.Level, "note") && !strings.HasPrefix(state, "23")
		c.last = append(c.last, &condition{number: w.Code, state: state, text: w.Message, warning: true, note: note})
	}
	for i := len(c.last) - 1; i >= 0; i-- {
		if slices.Contains(before, warnings[len(warnings)-1-i]) {
			continue
		}
		if h, owner := sc.find(c.last[i]); h != nil {
			return c.handle(ctx, c.last[i], h, owner)
		}
	}
	return flow{}, nil
}

// warningState is the state of a warning: that of its number, but no class of errors.
func (c *Call) warningState(number int) string {
	if s := c.env.State(number); s != mysql.SSUnknownSQLState {
		return s
	}
	return "01000"
}

// handle runs a handler.
func (c *Call) handle(ctx *sql.Context, cond *condition, h *handler, owner *scope) (flow, error) {
	c.handled = append(c.handled, cond)
	defer func() { c.handled = c.handled[:len(c.handled)-1] }()
	if cond.err != nil { // SHOW WARNINGS shows it to the handler
		defer c.env.Note(cond.number, cond.text)()
	}
	f, err := c.list(ctx, []statement{h.body}, &scope{parent: owner, handling: true})
	if err != nil || f.kind != next {
		return f, err
	}
	if h.exit {
		return flow{kind: exits, block: owner}, nil
	}
	return flow{}, nil
}

// signal runs SIGNAL and RESIGNAL.
func (c *Call) signal(ctx *sql.Context, s *signal, sc *scope) error {
	cond := &condition{items: map[string]string{}}
	if s.again {
		if len(c.handled) == 0 {
			return mysql.NewSQLError(1645, "0K000", "RESIGNAL when handler not active")
		}
		*cond = *c.handled[len(c.handled)-1]
		if s.state == "" && len(s.items) == 0 && cond.err != nil {
			return cond.err
		}
		items := make(map[string]string, len(cond.items))
		for k, v := range cond.items {
			items[k] = v
		}
		cond.items = items
	}
	if s.state != "" {
		cond.state, cond.warning = s.state, strings.HasPrefix(s.state, "01")
		number, text := unhandledText(s.state)
		cond.number = number
		if !s.again {
			cond.text = text
		}
	}
	for _, item := range s.items {
		if err := c.setItem(ctx, cond, item, sc); err != nil {
			return err
		}
	}
	if cond.warning {
		ctx.Warn(cond.number, "%s", cond.text)
		return nil
	}
	return raised{mysql.NewSQLError(cond.number, cond.state, "%s", cond.text), cond.items}
}

// unhandledText are the number and the text of a condition that SIGNAL raises by its state.
func unhandledText(state string) (int, string) {
	switch state[:2] {
	case "01":
		return 1642, "Unhandled user-defined warning condition"
	case "02":
		return 1643, "Unhandled user-defined not found condition"
	}
	return 1644, "Unhandled user-defined exception condition"
}

func (c *Call) setItem(ctx *sql.Context, cond *condition, item signalItem, sc *scope) error {
	v, typ, err := c.eval(ctx, item.value, sc)
	if err != nil {
		return err
	}
	if v == nil {
		return fault(1231, "Variable '%s' can't be set to the value of 'NULL'", item.name)
	}
	if item.name == "MYSQL_ERRNO" {
		n, in, err := types.Int64.Convert(ctx, v)
		number, ok := n.(int64)
		if err != nil || !ok || in != sql.InRange || number < 1 || number > 65535 {
			return fault(1231, "Variable 'MYSQL_ERRNO' can't be set to the value of '%v'", v)
		}
		cond.number = int(number)
		return nil
	}
	text, err := textOf(ctx, v, typ)
	if err != nil {
		return err
	}
	most := nameMax
	if item.name == "MESSAGE_TEXT" {
		most = textMax
	}
	if r := []rune(text); len(r) > most {
		if sql.LoadSqlMode(ctx).Strict() {
			return mysql.NewSQLError(1648, "22001", "Data too long for condition item '%s'", item.name)
		}
		text = string(r[:most])
		ctx.Warn(1647, "Data truncated for condition item '%s'", item.name)
	}
	if item.name == "MESSAGE_TEXT" {
		cond.text = text
		return nil
	}
	cond.items[item.name] = text
	return nil
}

// textOf is a value as a client would see it.
func textOf(ctx *sql.Context, v any, typ sql.Type) (string, error) {
	if typ == nil {
		return fmt.Sprint(v), nil
	}
	s, err := typ.SQL(ctx, nil, v)
	if err != nil {
		return "", err
	}
	return s.ToString(), nil
}

// diagnose runs GET DIAGNOSTICS.
func (c *Call) diagnose(ctx *sql.Context, d *diagnostics, sc *scope) error {
	list := c.last
	if len(c.handled) > 0 && (d.stacked || len(list) == 0) {
		list = c.handled[len(c.handled)-1:]
	}
	if d.stacked && len(c.handled) == 0 {
		return mysql.NewSQLError(1887, "0Z002", "GET STACKED DIAGNOSTICS when handler not active")
	}
	if d.number == nil {
		for _, item := range d.items {
			n := int64(len(list))
			if item.name == "ROW_COUNT" {
				n = int64(c.counts.RowsAffected)
			}
			if err := c.storeOne(ctx, item.to, n, types.Int64, sc); err != nil {
				return err
			}
		}
		return nil
	}
	v, _, err := c.eval(ctx, d.number, sc)
	if err != nil {
		return err
	}
	converted, _, err := types.Int64.Convert(ctx, v)
	n, ok := converted.(int64)
	if err != nil || !ok || n < 1 || n > int64(len(list)) {
		return mysql.NewSQLError(1758, "35000", "Invalid condition number")
	}
	cond := list[n-1]
	for _, item := range d.items {
		if err := c.storeOne(ctx, item.to, cond.item(item.name), types.LongText, sc); err != nil {
			return err
		}
	}
	return nil
}

// item is an item of a condition as GET DIAGNOSTICS shows it.
func (c *condition) item(name string) any {
	switch name {
	case "RETURNED_SQLSTATE":
		return c.state
	case "MESSAGE_TEXT":
		return c.text
	case "MYSQL_ERRNO":
		return fmt.Sprint(c.number)
	}
	if v, ok := c.items[name]; ok {
		return v
	}
	if origin := "ISO 9075"; name == "CLASS_ORIGIN" || name == "SUBCLASS_ORIGIN" {
		if strings.HasPrefix(c.state, "HY") {
			origin = "MySQL"
		}
		return origin
	}
	return ""
}
