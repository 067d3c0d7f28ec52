package sqlbackend

import (
	"errors"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/sqlbackend/program"
)

// trigger is a trigger of a database, without its body. It is immutable.
type trigger struct {
	database string
	name     string
	table    string
	before   bool
	event    string // insert, update or delete
	order    *sqlparser.TriggerOrder
	text     string
	mode     string
}

// plannedBody stands for a body in the plan of CREATE TRIGGER.
type plannedBody struct{ plan.Nothing }

var _ sql.ExecSourceRel = plannedBody{}

// RowIter implements sql.ExecSourceRel.
func (plannedBody) RowIter(*sql.Context, sql.Row) (sql.RowIter, error) {
	return nil, errors.New("the body of a trigger is no statement of its own")
}

// WithChildren implements sql.Node.
func (b plannedBody) WithChildren(_ *sql.Context, c ...sql.Node) (sql.Node, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(b, len(c), 0)
	}
	return b, nil
}

// trigger reads a definition of a trigger behind the word TRIGGER.
func (r *routineReader) trigger(original string) (*routine, error) {
	ddl, err := r.triggerHead()
	if err != nil {
		return nil, err
	}
	spec := ddl.TriggerSpec
	source := r.source()
	source.Event = &program.Event{
		Name: strings.ToUpper(spec.Event), New: spec.Event != sqlparser.DeleteStr, Old: spec.Event != sqlparser.InsertStr,
		Before: spec.Time == sqlparser.BeforeStr,
	}
	bodyAt := r.at
	parsed, next, err := program.Parse(source, bodyAt, program.Trigger, spec.TrigName.Name.String(), nil)
	if err != nil {
		return nil, err
	}
	body := &routineBody{Body: parsed, trigger: true}
	spec.Body = sqlparser.InjectedStatement{Statement: body, Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE}}
	out := &routine{kind: program.Trigger, ddl: ddl, body: body, end: r.list[next-1].To, rest: r.list[next].To}
	ddl.SubStatementPositionStart, ddl.SubStatementPositionEnd = r.list[bodyAt-1].To, out.end
	out.text = original[:out.end]
	return out, nil
}

// triggerHead reads up to the body, and lets the frontend read what that is.
func (r *routineReader) triggerHead() (*sqlparser.DDL, error) {
	for !r.take("for", "each", "row") {
		if k := r.peek(0).Kind; k == 0 || k == ';' {
			return nil, r.fail()
		}
		r.at++
	}
	if r.peek(0).Is("follows", "precedes") {
		r.at += 2
	}
	stmt, _, _, err := r.parser.inner.ParseWithOptions(r.ctx, r.slice(0, r.at)+" BEGIN END", ';', false, r.options)
	if err != nil {
		return nil, err
	}
	ddl, ok := stmt.(*sqlparser.DDL)
	if !ok || ddl.TriggerSpec == nil {
		return nil, r.fail()
	}
	return ddl, nil
}

// readTrigger reads a stored definition up to the body.
func (p *parser) readTrigger(ctx *sql.Context, database string, s *storedText) (*trigger, error) {
	options := sql.NewSqlModeFromString(s.SQLMode).ParserOptions()
	text := withoutMarks(s.Text, options)
	tokens, ok := allTokens(text, options)
	r := &routineReader{parser: p, ctx: ctx, options: options, text: text, list: programTokens(text, tokens)}
	if !ok || r.kind() != program.Trigger {
		return nil, triggerUnreadable(database, s.Name)
	}
	ddl, err := r.triggerHead()
	if err != nil {
		return nil, triggerUnreadable(database, s.Name)
	}
	spec := ddl.TriggerSpec
	return &trigger{
		database: database, name: s.Name, table: ddl.Table.Name.String(), before: spec.Time == sqlparser.BeforeStr, event: spec.Event,
		order: spec.Order, text: s.Text, mode: s.SQLMode,
	}, nil
}

func triggerUnreadable(database, name string) error {
	return newError(1457, "Failed to load trigger %s.%s. The definition of it cannot be read.", database, name)
}

// triggers returns the triggers of a database in the order in which they were made.
func (d *Database) triggers(ctx *sql.Context) ([]*trigger, error) {
	t, err := d.texts(ctx)
	if err != nil {
		return nil, err
	}
	if list := t.triggers.Load(); list != nil {
		return *list, nil
	}
	list := make([]*trigger, 0, len(t.byKind[triggerText]))
	for i := range t.byKind[triggerText] {
		one, err := d.provider.parser.readTrigger(ctx, d.name, &t.byKind[triggerText][i])
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	t.triggers.Store(&list)
	return list, nil
}

// standIns are what the frontend learns about triggers while it plans a statement that changes rows: nothing, but for a DELETE of all
// rows one trigger of each table that has any, lest it empties the table at once.
func (d *Database) standIns(ctx *sql.Context, stmt sqlparser.Statement) ([]sql.TriggerDefinition, error) {
	if s, ok := stmt.(*sqlparser.Delete); !ok || len(s.Targets) > 0 || s.Where != nil {
		return nil, nil
	}
	all, err := d.triggers(ctx)
	if err != nil {
		return nil, err
	}
	var list []sql.TriggerDefinition
	for i, t := range all {
		same := func(o *trigger) bool { return o.event == t.event && strings.EqualFold(o.table, t.table) }
		if t.event != sqlparser.DeleteStr || slices.ContainsFunc(all[:i], same) {
			continue
		}
		table := strings.ReplaceAll(t.table, "`", "``")
		list = append(list, sql.TriggerDefinition{Name: "t", CreateStatement: "CREATE TRIGGER t BEFORE DELETE ON `" + table + "` FOR EACH ROW BEGIN END"})
	}
	return list, nil
}

// triggersOf returns the triggers of a table in the order in which they run.
func (d *Database) triggersOf(ctx *sql.Context, table string) ([]*trigger, error) {
	all, err := d.triggers(ctx)
	if err != nil {
		return nil, err
	}
	var list []*trigger
	for _, t := range all {
		if !strings.EqualFold(t.table, table) {
			continue
		}
		at := len(list)
		if t.order != nil {
			if other := slices.IndexFunc(list, func(o *trigger) bool { return t.beside(o) && strings.EqualFold(o.name, t.order.OtherTriggerName) }); other >= 0 {
				at = other
				if strings.EqualFold(t.order.PrecedesOrFollows, sqlparser.FollowsStr) {
					at++
				}
			}
		}
		list = slices.Insert(list, at, t)
	}
	return list, nil
}

// beside reports whether two triggers of a table run for the same event, at the same time.
func (t *trigger) beside(o *trigger) bool { return t.before == o.before && t.event == o.event }

// body reads the body of a trigger.
func (t *trigger) body(ctx *sql.Context, p *parser) (*routineBody, error) {
	r, err := p.parseRoutine(ctx, t.text, sql.NewSqlModeFromString(t.mode).ParserOptions())
	if err == nil && r != nil {
		err = r.body.Check()
	}
	if err != nil || r == nil || r.kind != program.Trigger {
		return nil, triggerUnreadable(t.database, t.name)
	}
	return r.body, nil
}

// checkTrigger says what is wrong with a trigger that is to be made.
func (d *Database) checkTrigger(ctx *sql.Context, def sql.TriggerDefinition) error {
	r, err := d.provider.parser.parseRoutine(ctx, def.CreateStatement, sql.NewSqlModeFromString(def.SqlMode).ParserOptions())
	if err != nil {
		return err
	}
	if r == nil || r.kind != program.Trigger {
		return sql.ErrTriggerCreateStatementInvalid.New(def.CreateStatement)
	}
	if err := r.body.Check(); err != nil {
		return err
	}
	spec := r.ddl.TriggerSpec
	table, ok, err := d.GetTableInsensitive(ctx, r.ddl.Table.Name.String())
	if err != nil {
		return err
	}
	if !ok {
		return sql.ErrTableNotFound.New(r.ddl.Table.Name.String())
	}
	if _, _, err := fieldsOf(r.body.Body, table.Schema(ctx)); err != nil {
		return err
	}
	if spec.Order == nil {
		return nil
	}
	list, err := d.triggersOf(ctx, r.ddl.Table.Name.String())
	if err != nil {
		return err
	}
	made := &trigger{before: spec.Time == sqlparser.BeforeStr, event: spec.Event}
	if !slices.ContainsFunc(list, func(o *trigger) bool { return made.beside(o) && strings.EqualFold(o.name, spec.Order.OtherTriggerName) }) {
		return newError(3011, "Referenced trigger '%s' for the given action time and event type does not exist.", spec.Order.OtherTriggerName)
	}
	return nil
}

// fieldsOf finds the columns that a body names in the schema of its table.
func fieldsOf(body *program.Body, schema sql.Schema) (fields []program.Field, at []int, err error) {
	fields = body.Fields()
	at = make([]int, len(fields))
	for i, f := range fields {
		at[i] = slices.IndexFunc(schema, func(c *sql.Column) bool { return strings.EqualFold(c.Name, f.Column) && !c.HiddenSystem })
		if at[i] < 0 {
			return nil, nil, sql.ErrUnknownColumn.New(f.Column, f.Row())
		}
		if c := schema[at[i]]; f.Assigned && c.Generated != nil {
			return nil, nil, newError(3105, "The value specified for generated column '%s' in table '%s' is not allowed.", c.Name, c.Source)
		}
	}
	return fields, at, nil
}
