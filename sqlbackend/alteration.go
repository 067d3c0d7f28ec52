package sqlbackend

import (
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"lancesql/engine"
)

// The frontend performs a DDL statement in steps: the clauses of an ALTER TABLE, a table and its foreign keys, the old view
// and the new one. The steps of one statement go to one engine.Alteration, whose commit is the statement's.

// alters reports whether n is the root of a DDL statement that may have more than one step.
func alters(n sql.Node) bool {
	switch n := n.(type) {
	case *plan.AddColumn, *plan.DropColumn, *plan.RenameColumn, *plan.ModifyColumn, *plan.AlterPK, *plan.AlterIndex,
		*plan.AlterDefaultSet, *plan.AlterDefaultDrop, *plan.AlterAutoIncrement, *plan.AlterTableCollation, *plan.AlterTableComment,
		*plan.CreateForeignKey, *plan.DropForeignKey, *plan.RenameForeignKey, *plan.CreateCheck, *plan.DropCheck, *plan.DropConstraint,
		*plan.RenameTable, *plan.DropTable, *plan.DropIndex:
		return true
	case *plan.CreateTable:
		return len(n.ForeignKeys()) > 0
	case *plan.CreateView:
		return n.IsReplace
	case *plan.Block: // the clauses of an ALTER TABLE; blocks of procedures have other statements and are run elsewhere
		for _, child := range n.Children() {
			if !alters(child) {
				return false
			}
		}
		return len(n.Children()) > 0
	}
	return false
}

// alter runs a statement of several steps to its end and commits it then.
func (b *rootBuilder) alter(ctx *sql.Context, c *Conn, n sql.Node) (sql.RowIter, error) {
	a := c.provider.engine.Alter()
	c.stmt.altering, c.stmt.altered = a, nil
	defer func() {
		c.stmt.altering, c.stmt.altered = nil, nil
		_ = a.Abort(ctx) // after a panic; otherwise it has ended
	}()
	rows, err := b.run(ctx, n)
	if err == nil {
		// Why: steps have read in a transaction of their own, whose views would outlive the tables.
		err = c.implicitCommit(ctx)
	}
	if err != nil {
		return nil, also(err, a.Abort(ctx))
	}
	if err := a.Commit(ctx); err != nil {
		return nil, err
	}
	c.provider.forgetDropped()
	for _, f := range c.stmt.altered {
		f(ctx)
	}
	return sql.RowsToRowIter(rows...), nil
}

// afterAlter has f called once the running DDL statement is committed.
func (p *Provider) afterAlter(ctx *sql.Context, f func(*sql.Context)) {
	if c := connOf(ctx); c != nil && c.stmt.altering != nil {
		c.stmt.altered = append(c.stmt.altered, f)
		return
	}
	f(ctx)
}

// run returns all rows of a plan.
func (b *rootBuilder) run(ctx *sql.Context, n sql.Node) ([]sql.Row, error) {
	it, err := b.inner.Build(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	var rows []sql.Row
	for {
		row, err := it.Next(ctx)
		if err == io.EOF {
			return rows, it.Close(ctx)
		}
		if err != nil {
			return nil, also(err, it.Close(ctx))
		}
		rows = append(rows, row)
	}
}

// catalog returns the catalog as the running statement sees it: with its own changes.
func (p *Provider) catalog(ctx *sql.Context) *engine.Catalog {
	if c := connOf(ctx); c != nil && c.stmt.altering != nil {
		return c.stmt.altering.Catalog()
	}
	return p.engine.Catalog()
}

// alter makes changes of the running DDL statement: part of its alteration, or all it does.
func (p *Provider) alter(ctx *sql.Context, change func(*engine.Alteration) error) error {
	if c := connOf(ctx); c != nil && c.stmt.altering != nil {
		return change(c.stmt.altering)
	}
	a := p.engine.Alter()
	if err := change(a); err != nil {
		return also(err, a.Abort(ctx))
	}
	if err := a.Commit(ctx); err != nil {
		return err
	}
	p.forgetDropped()
	return nil
}

// also adds what failed while err was cleared up. Why not errors.Join at once: the frontend knows its errors unwrapped only.
func also(err, after error) error {
	if after == nil {
		return err
	}
	return errors.Join(err, after)
}
