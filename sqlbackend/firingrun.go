package sqlbackend

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/hash"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"lancesql/sqlbackend/program"
)

// firingRun is what a firing needs for each of its rows.
type firingRun struct {
	active  *activation
	program *program.Firing
	values  []any // of the fields
}

// warningsMax is how many warnings of a statement, the first ones, are kept from one firing to the next.
const warningsMax = 1024

// fire runs a trigger for one row of the statement that fires it, and changes the row if the trigger does.
func (o *operators) fire(ctx *sql.Context, f *firing, row sql.Row) (sql.RowIter, error) {
	old, new, ok, err := f.find(ctx, row)
	if err != nil || !ok {
		return sql.RowsToRowIter(), err
	}
	if f.rows == newRows && !f.convert(ctx, new) {
		return sql.RowsToRowIter(), nil // Why: it is not inserted, and who inserts it says why not
	}
	c := connOf(ctx)
	leave, err := o.enterTrigger(ctx, c, f)
	if err != nil {
		return nil, err
	}
	defer leave()
	for i, field := range f.fields {
		from := old
		if field.New {
			from = new
		}
		if f.run.values[i], err = sql.UnwrapAny(ctx, from[f.at[i]]); err != nil {
			return nil, err
		}
	}
	warnings := c.Warnings()
	if len(warnings) > 0 {
		c.BaseSession.ClearWarnings()
	}
	restore := keepQueryInfo(ctx)
	err = f.run.program.Run(insideContext(ctx), f.run.values)
	restore()
	if len(warnings) > 0 {
		all := append(c.Warnings(), warnings...)
		c.restoreWarnings(all[max(len(all)-warningsMax, 0):])
	}
	if err != nil {
		return nil, err
	}
	for i, field := range f.fields {
		if field.New && f.trigger.before { // also what CALL has assigned
			new[f.at[i]] = f.run.values[i]
		}
	}
	if err := f.generate(ctx, row, new); err != nil {
		return nil, err
	}
	return sql.RowsToRowIter(), nil
}

// generate computes the generated columns of a row that a trigger may have changed.
func (f *firing) generate(ctx *sql.Context, row, new sql.Row) error {
	for i, e := range f.generated {
		if e == nil {
			continue
		}
		if f.rows == newRows {
			v, err := e.Eval(ctx, new)
			if err != nil {
				return err
			}
			new[i] = v
			continue
		}
		after := row[len(row)/2:]
		v, err := e.Eval(ctx, after)
		if err != nil {
			return err
		}
		changed, ok := v.(sql.Row)
		if !ok {
			return plan.ErrUpdateUnexpectedSetResult.New(v)
		}
		copy(after, changed)
	}
	return nil
}

// find returns the table's parts of a row; false if the trigger does not fire for it.
func (f *firing) find(ctx *sql.Context, row sql.Row) (old, new sql.Row, ok bool, err error) {
	part := func(r sql.Row) sql.Row {
		r = r[max(len(r)-f.width, 0):]
		return r[f.start : f.start+f.columns]
	}
	half := len(row) / 2
	switch f.rows {
	case newRows:
		return nil, part(row), true, nil
	case deletedRows:
		old = part(row)
		ok, err = f.first(ctx, old)
		return old, nil, ok, err
	case insertedRow:
		return nil, part(row), true, nil
	case freshRow:
		return nil, part(row), len(row) < 2*f.width, nil
	case updatedRows:
		if len(row) < 2*f.width {
			return nil, nil, false, nil
		}
		return part(row[:half]), part(row[half:]), true, nil
	}
	old, new = part(row[:half]), part(row[half:])
	same, err := old.Equals(ctx, new, f.schema)
	return old, new, !same, err
}

// first reports whether a row of a join is one that is there and was not seen before.
func (f *firing) first(ctx *sql.Context, row sql.Row) (bool, error) {
	if f.seen == nil {
		return true, nil
	}
	if !slices.ContainsFunc(row, func(v any) bool { return v != nil }) {
		return false, nil // of an outer join
	}
	h, err := hash.HashOf(ctx, f.schema, row)
	if err != nil {
		return false, err
	}
	for _, other := range f.seen[h] {
		if same, err := other.Equals(ctx, row, f.schema); same || err != nil {
			return false, err
		}
	}
	f.seen[h] = append(f.seen[h], row.Copy())
	return true, nil
}

// convert makes the values of a row that is about to be inserted those of its columns; false if they are none.
func (f *firing) convert(ctx *sql.Context, row sql.Row) bool {
	for i, c := range f.schema {
		if row[i] == nil {
			continue
		}
		v, in, err := asColumn(ctx, c.Type, row[i])
		if err != nil || in != sql.InRange {
			return false
		}
		row[i] = v
	}
	return true
}

// enterTrigger makes the trigger what the session runs.
func (o *operators) enterTrigger(ctx *sql.Context, c *Conn, f *firing) (leave func(), err error) {
	if f.run != nil {
		return c.enterAgain(ctx, f.run.active, f.trigger.mode)
	}
	busy := c.busyTables(ctx)
	a, leave, err := c.enterRoutine(ctx, program.Trigger, f.trigger.database, f.trigger.name, f.trigger.mode)
	if err != nil {
		return nil, err
	}
	a.busy = busy
	names, types := make([]string, len(f.fields)), make([]sql.Type, len(f.fields))
	for i, at := range f.at {
		names[i], types[i] = f.schema[at].Name, f.schema[at].Type
	}
	body := f.body.Body
	f.run = &firingRun{active: a, program: body.NewFiring(o.environment(c, a, body), names, types, f.trigger.before), values: make([]any, len(f.fields))}
	return leave, nil
}

// keepQueryInfo returns a function that makes LAST_INSERT_ID, ROW_COUNT and FOUND_ROWS what they are now: what functions and triggers do
// is not seen there.
func keepQueryInfo(ctx *sql.Context) (restore func()) {
	q := ctx.GetLastQueryInfo()
	rows, found, id, uuid := q.RowCount.Load(), q.FoundRows.Load(), q.LastInsertId.Load(), q.LastInsertUUID.Load()
	return func() {
		q.RowCount.Store(rows)
		q.FoundRows.Store(found)
		q.LastInsertId.Store(id)
		q.LastInsertUUID.Store(uuid)
	}
}
