package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/sqlbackend/program"
)

// Statements that change rows fire triggers: an executor of the frontend's, with a firing in it, is put around the node that changes the
// rows (AFTER) or around the node below it that makes them (BEFORE).

// firing is what a trigger does for one row of a statement. It belongs to one run of the statement.
type firing struct {
	trigger *trigger
	body    *routineBody
	rows    firingRows
	start   int   // where the table's columns begin in a row, or in each half of it
	columns int   // how many columns the table has
	width   int   // of a row, or of half of one, without those of an outer scope
	at      []int // the columns of Fields
	fields  []program.Field
	schema  sql.Schema // of the table

	// generated are, for rows to be inserted, the expressions of generated columns, nil for others; for rows to be updated the assignments.
	generated []sql.Expression

	run  *firingRun           // once it has fired
	seen map[uint64][]sql.Row // rows of a join that it has fired for, by hash; nil: each row comes once
}

// firingRows are the rows that the executor sees.
type firingRows int

const (
	newRows     firingRows = iota // about to be inserted: not converted yet
	insertedRow                   // a new row; an old and a new one if it has taken the place of another
	freshRow                      // the same, but the other one has been changed instead
	updatedRows                   // an old and a new row; by ON DUPLICATE KEY UPDATE also new ones alone
	joinedRows                    // old and new rows of several tables
	deletedRows                   // of one table, or of a join of several
)

var _ sql.Node = (*firing)(nil)

// Resolved implements sql.Node.
func (*firing) Resolved() bool { return true }

// IsReadOnly implements sql.Node.
func (*firing) IsReadOnly() bool { return false }

// String implements fmt.Stringer.
func (f *firing) String() string { return "Trigger(" + f.trigger.name + ")" }

// Schema implements sql.Node.
func (*firing) Schema(*sql.Context) sql.Schema { return nil }

// Children implements sql.Node.
func (*firing) Children() []sql.Node { return nil }

// WithChildren implements sql.Node.
func (f *firing) WithChildren(_ *sql.Context, c ...sql.Node) (sql.Node, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(f, len(c), 0)
	}
	return f, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (*firing) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	return sql.Collation_binary, 7
}

// fireTriggers makes a statement that changes rows fire the triggers of its tables. It sees the roots of plans. Why not a rule of the
// analyzer: the frontend plans some statements by short lists of rules of its own.
func fireTriggers(ctx *sql.Context, n sql.Node) (sql.Node, error) {
	switch n := n.(type) {
	case *plan.InsertInto:
		return fireInsert(ctx, n)
	case *plan.Update:
		return fireUpdate(ctx, n)
	case *plan.DeleteFrom:
		return fireDelete(ctx, n)
	}
	return n, nil
}

// fireAgain prepares a statement that has fired triggers to run once more.
func fireAgain(n sql.Node) {
	transform.Inspect(n, func(n sql.Node) bool {
		if f, ok := n.(*firing); ok {
			clear(f.seen)
		}
		return true
	})
}

// triggersOn returns the triggers of the table that a node stands for.
func triggersOn(ctx *sql.Context, n sql.Node) ([]*trigger, *Table, error) {
	var found *Table
	transform.Inspect(n, func(n sql.Node) bool {
		if t, ok := n.(sql.TableNode); ok && found == nil {
			found, _ = sql.GetUnderlyingTable(t.UnderlyingTable()).(*Table)
		}
		return found == nil
	})
	if found == nil || found.provider.temporary {
		return nil, nil, nil
	}
	db, err := found.provider.Database(ctx, found.info.entry.Database)
	if err != nil {
		return nil, nil, err
	}
	d, ok := db.(*Database)
	if !ok {
		return nil, nil, nil
	}
	list, err := d.triggersOf(ctx, found.info.entry.Name)
	return list, found, err
}

// firing makes what the trigger does for a row. The columns of its table are those of a source in a schema; all of it if that is empty.
func (t *trigger) firing(ctx *sql.Context, rows firingRows, table *Table, schema sql.Schema, source string) (*firing, error) {
	body, err := t.body(ctx, table.provider.parser)
	if err != nil {
		return nil, err
	}
	f := &firing{trigger: t, body: body, rows: rows, width: len(schema)}
	for i, c := range schema {
		if source != "" && !strings.EqualFold(c.Source, source) {
			continue
		}
		if len(f.schema) == 0 {
			f.start = i
		}
		f.schema = append(f.schema, c)
	}
	f.columns = len(f.schema)
	if source != "" && rows == deletedRows {
		f.seen = map[uint64][]sql.Row{}
	}
	f.fields, f.at, err = fieldsOf(body.Body, f.schema)
	return f, err
}

// executor puts a trigger around a node.
func (t *trigger) executor(ctx *sql.Context, n sql.Node, rows firingRows, table *Table, schema sql.Schema, source string) (sql.Node, error) {
	f, err := t.firing(ctx, rows, table, schema, source)
	if err != nil {
		return nil, err
	}
	return f.around(n), nil
}

func (f *firing) around(n sql.Node) sql.Node {
	t, at := f.trigger, plan.AfterTrigger
	if t.before {
		at = plan.BeforeTrigger
	}
	return plan.NewTriggerExecutor(n, f, plan.TriggerEvent(t.event), at, sql.TriggerDefinition{Name: t.name, CreateStatement: t.text})
}

// generatedInserts are the expressions of the generated columns that an INSERT fills; nil if there are none.
func generatedInserts(n *plan.InsertInto, schema sql.Schema) []sql.Expression {
	p, ok := n.Source.(*plan.Project)
	if !ok || len(p.Projections) != len(schema) {
		return nil
	}
	var list []sql.Expression
	for i, c := range schema {
		if c.Generated != nil {
			if list == nil {
				list = make([]sql.Expression, len(schema))
			}
			list[i] = p.Projections[i]
		}
	}
	return list
}

// generatedUpdates are the assignments of the generated columns of a table, which has a name of its own in a join, that an UPDATE changes.
func generatedUpdates(source *plan.UpdateSource, table *Table, name string) []sql.Expression {
	var list []sql.Expression
	for _, e := range source.UpdateExprs.AllExpressions() {
		set, ok := e.(*expression.SetField)
		if !ok {
			continue
		}
		column, ok := set.LeftChild.(*expression.GetField)
		if !ok || name != "" && !strings.EqualFold(column.Table(), name) {
			continue
		}
		if i := table.info.shape.column(column.Name()); i >= 0 && table.info.shape.Columns[i].Generated != nil {
			list = append(list, e)
		}
	}
	return list
}

func fireInsert(ctx *sql.Context, n *plan.InsertInto) (sql.Node, error) {
	list, table, err := triggersOn(ctx, n.Destination)
	if err != nil || len(list) == 0 {
		return n, err
	}
	schema := n.Destination.Schema(ctx)
	insert := *n
	for _, t := range list {
		if t.before && t.event == sqlparser.InsertStr {
			f, err := t.firing(ctx, newRows, table, schema, "")
			if err != nil {
				return nil, err
			}
			f.generated = generatedInserts(n, schema)
			insert.Source = f.around(insert.Source)
		}
	}
	if err := fireConflicts(ctx, &insert, list, table, schema); err != nil {
		return nil, err
	}
	var out sql.Node = &insert
	for _, t := range list {
		rows := insertedRow
		switch {
		case t.before:
			continue
		case t.event == sqlparser.UpdateStr && n.OnDupExprs.HasUpdates():
			rows = updatedRows
		case t.event != sqlparser.InsertStr:
			continue
		case n.OnDupExprs.HasUpdates():
			rows = freshRow
		}
		if out, err = t.executor(ctx, out, rows, table, schema, ""); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func fireUpdate(ctx *sql.Context, n *plan.Update) (sql.Node, error) {
	type target struct {
		list   []*trigger
		table  *Table
		rows   firingRows
		schema sql.Schema
		source string
	}
	var targets []target
	if join, ok := n.Child.(*plan.UpdateJoin); ok {
		source, ok := join.Child.(*plan.UpdateSource)
		if !ok {
			return n, nil
		}
		schema := source.Child.Schema(ctx)
		for name, node := range join.UpdateTargets {
			list, table, err := triggersOn(ctx, node)
			if err != nil {
				return nil, err
			}
			if len(list) > 0 {
				targets = append(targets, target{list, table, joinedRows, schema, name})
			}
		}
	} else {
		list, table, err := triggersOn(ctx, n.Child)
		if err != nil || len(list) == 0 {
			return n, err
		}
		updatable, err := plan.GetUpdatable(n.Child)
		if err != nil {
			return nil, err
		}
		schema := updatable.Schema(ctx)
		if keys, ok := updatable.(*plan.ForeignKeyHandler); ok { // whose own is that of the rows, which are two
			schema = keys.Sch
		}
		targets = []target{{list, table, updatedRows, schema, ""}}
	}
	var err error
	child, fires := n.Child, false
	for _, g := range targets {
		for _, t := range g.list {
			if !t.before || t.event != sqlparser.UpdateStr {
				continue
			}
			fires = true
			f, err := t.firing(ctx, g.rows, g.table, g.schema, g.source)
			if err != nil {
				return nil, err
			}
			transform.Inspect(n.Child, func(n sql.Node) bool {
				if s, ok := n.(*plan.UpdateSource); ok {
					f.generated = generatedUpdates(s, g.table, g.source)
				}
				return true
			})
			child = f.around(child)
		}
	}
	var out sql.Node = n
	if fires {
		if out, err = n.WithChildren(ctx, child); err != nil {
			return nil, err
		}
	}
	for _, g := range targets {
		for _, t := range g.list {
			if t.before || t.event != sqlparser.UpdateStr {
				continue
			}
			if out, err = t.executor(ctx, out, g.rows, g.table, g.schema, g.source); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func fireDelete(ctx *sql.Context, n *plan.DeleteFrom) (sql.Node, error) {
	if stand, ok := n.Child.(*plan.TriggerExecutor); ok { // see standIns
		with, err := n.WithChildren(ctx, stand.Left())
		if err != nil {
			return nil, err
		}
		n = with.(*plan.DeleteFrom)
	}
	child, fires, err := n.Child, false, error(nil)
	schema := n.Child.Schema(ctx)
	var after []func(sql.Node) (sql.Node, error)
	for _, node := range n.GetDeleteTargets() {
		list, table, err := triggersOn(ctx, node)
		if err != nil {
			return nil, err
		}
		source := ""
		if n.HasExplicitTargets() {
			source = targetName(ctx, node, table)
		}
		for _, t := range list {
			if t.event != sqlparser.DeleteStr {
				continue
			}
			fires = true
			put := func(child sql.Node) (sql.Node, error) {
				return t.executor(ctx, child, deletedRows, table, schema, source)
			}
			if !t.before {
				after = append(after, put)
				continue
			}
			if child, err = put(child); err != nil {
				return nil, err
			}
		}
	}
	if !fires {
		return n, nil
	}
	out, err := n.WithChildren(ctx, child)
	for _, put := range after {
		if err == nil {
			out, err = put(out)
		}
	}
	return out, err
}

// targetName is the name of a target of DELETE in the rows that it reads.
func targetName(ctx *sql.Context, n sql.Node, table *Table) string {
	name := ""
	if table != nil {
		name = table.Name()
	}
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		if a, ok := n.(*plan.TableAlias); ok {
			name = a.Name()
		}
		return true
	})
	return name
}
