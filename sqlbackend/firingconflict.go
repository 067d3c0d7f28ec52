package sqlbackend

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// Triggers that an INSERT fires for a row that is there already: those of UPDATE before ON DUPLICATE KEY UPDATE changes it, those of
// DELETE when REPLACE takes it away.

// replacing are the triggers of a REPLACE.
type replacing struct {
	table         engine.TableID
	before, after []*firing
}

func fireConflicts(ctx *sql.Context, n *plan.InsertInto, list []*trigger, table *Table, schema sql.Schema) error {
	var updates []sql.Expression
	change := &duplicateChange{columns: len(schema), operators: table.provider.operators}
	deletes := &replacing{table: table.info.entry.ID}
	for _, t := range list {
		switch {
		case n.IsReplace && t.event == sqlparser.DeleteStr:
			f, err := t.firing(ctx, deletedRows, table, schema, "")
			if err != nil {
				return err
			}
			if t.before {
				deletes.before = append(deletes.before, f)
			} else {
				deletes.after = append(deletes.after, f)
			}
		case n.OnDupExprs.HasUpdates() && t.event == sqlparser.UpdateStr && t.before:
			f, err := t.firing(ctx, updatedRows, table, schema, "")
			if err != nil {
				return err
			}
			updates = append(updates, &firedChange{change, f})
		}
	}
	if len(deletes.before)+len(deletes.after) > 0 {
		connOf(ctx).stmt.replacing = deletes
	}
	if len(updates) == 0 {
		return nil
	}
	explicit := append([]sql.Expression{&firedChange{change, nil}}, n.OnDupExprs.ExplicitUpdateExprs()...)
	explicit = append(explicit, updates...)
	n.OnDupExprs = plan.NewUpdateExprs(append(explicit, n.OnDupExprs.DerivedUpdateExprs()...), len(explicit))
	return nil
}

// fire runs triggers for a row that a REPLACE deletes.
func (r *replacing) fire(ctx *sql.Context, o *operators, list []*firing, row sql.Row) error {
	for _, f := range list {
		if _, err := o.fire(ctx, f, row); err != nil {
			return err
		}
	}
	return nil
}

// duplicateChange is the change of a row by ON DUPLICATE KEY UPDATE.
type duplicateChange struct {
	columns   int
	operators *operators
	old       sql.Row // as it was before
}

// firedChange is an assignment of ON DUPLICATE KEY UPDATE that a trigger makes; without one it notes how the row was.
type firedChange struct {
	change  *duplicateChange
	trigger *firing
}

var _ sql.Expression = (*firedChange)(nil)

// Eval implements sql.Expression. The row begins with the one that is there and will be changed.
func (f *firedChange) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	n := f.change.columns
	if len(row) < n {
		return nil, fmt.Errorf("a row of %d values has not %d columns", len(row), n)
	}
	if f.trigger == nil {
		f.change.old = row[:n].Copy()
		return row, nil
	}
	both := append(f.change.old.Copy(), row[:n]...)
	if _, err := f.change.operators.fire(ctx, f.trigger, both); err != nil {
		return nil, err
	}
	return append(both[n:], row[n:]...), nil
}

// Resolved implements sql.Expression.
func (*firedChange) Resolved() bool { return true }

// String implements sql.Expression.
func (*firedChange) String() string { return "trigger" }

// Type implements sql.Expression.
func (*firedChange) Type(*sql.Context) sql.Type { return types.Null }

// IsNullable implements sql.Expression.
func (*firedChange) IsNullable(*sql.Context) bool { return false }

// Children implements sql.Expression.
func (*firedChange) Children() []sql.Expression { return nil }

// WithChildren implements sql.Expression.
func (f *firedChange) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(f, len(c), 0)
	}
	return f, nil
}
