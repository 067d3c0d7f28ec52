package program

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// The rows of a trigger: its body knows their columns as variables NEW.column and OLD.column.

// Event is what fires a trigger: INSERT has a new row, DELETE an old one and UPDATE both. A trigger that runs before it may change the
// new one.
type Event struct {
	Name     string // upper case
	New, Old bool
	Before   bool
}

// Field is a column of such a row that a body names.
type Field struct {
	New      bool
	Column   string // lower case
	Assigned bool   // by SET
}

// fieldMark stands between the row and the column in the name of a field: no name of a client has it.
const fieldMark = "\x00"

func fieldName(row, column string) string { return row + fieldMark + column }

func isField(name string) bool { return strings.Contains(name, fieldMark) }

func (f Field) name() string { return fieldName(strings.ToLower(f.Row()), f.Column) }

// Row is NEW or OLD.
func (f Field) Row() string {
	if f.New {
		return "NEW"
	}
	return "OLD"
}

// Fields are the columns that the body of a trigger names, each once.
func (b *Body) Fields() []Field { return slices.Clone(b.fields) }

// field reports whether a name is one of a column, which it notes.
func (p *parser) field(name string) bool {
	e := p.source.Event
	if e == nil {
		return false
	}
	row, column, _ := strings.Cut(name, fieldMark)
	f := Field{New: row == "new", Column: column}
	if f.New && !e.New || !f.New && !e.Old {
		p.wrong(sql.ErrInvalidUseOfOldNew.New(f.Row(), e.Name))
	}
	if !slices.ContainsFunc(p.fields, func(o Field) bool { return o.name() == name }) {
		p.fields = append(p.fields, f)
	}
	return true
}

// assigned notes that SET assigns a variable; it must not be a column of a row that cannot be changed.
func (p *parser) assigned(name string) {
	at := slices.IndexFunc(p.fields, func(f Field) bool { return f.name() == name })
	switch {
	case !isField(name) || at < 0:
	case !p.fields[at].New:
		p.wrong(sql.ErrInvalidUpdateOfOldRow.New())
	case !p.source.Event.Before:
		p.wrong(sql.ErrInvalidUpdateInAfterTrigger.New())
	default:
		p.fields[at].Assigned = true
	}
}

// Firing is the body of a trigger, ready to run for one row after the other.
type Firing struct {
	env    *Env
	body   *Body
	fields []variable
	params scope
	plans  map[*query]*repeated
}

// NewFiring prepares it. Names and types are those of the columns that Fields are about; before says whether the new row may be changed.
func (b *Body) NewFiring(env *Env, names []string, types []sql.Type, before bool) *Firing {
	f := &Firing{env: env, body: b, fields: make([]variable, len(b.fields)), plans: map[*query]*repeated{}}
	f.params.variables = make(map[string]*variable, len(b.fields))
	for i, field := range b.fields {
		f.fields[i] = variable{name: names[i], typ: types[i], fixed: !field.New || !before}
		f.params.variables[field.name()] = &f.fields[i]
	}
	return f
}

// Run runs the body. The values are those of Fields, each one of its type; Run puts those that it assigned in their places.
func (f *Firing) Run(ctx *sql.Context, values []any) error {
	for i := range f.fields {
		f.fields[i].value = values[i]
	}
	c := &Call{env: f.env, body: f.body, params: &f.params, plans: f.plans}
	if _, err := c.list(ctx, []statement{f.body.root}, c.params); err != nil {
		return plain(err)
	}
	for i := range f.fields {
		values[i] = f.fields[i].value
	}
	return nil
}
