package sqlbackend

import (
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
	"github.com/dolthub/go-mysql-server/sql/types"

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
	case *plan.TableCopier: // CREATE TABLE … SELECT
		_, ok := n.Destination.(*plan.CreateTable)
		return ok
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
	if tc, ok := n.(*plan.TableCopier); ok && c.madeAlready(ctx, tc.Destination.(*plan.CreateTable)) {
		return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
	}
	a := &alterations{shared: c.provider.engine.Alter()}
	c.stmt.altering, c.stmt.altered = a, nil
	defer func() {
		c.stmt.altering, c.stmt.altered = nil, nil
		_ = a.abort(ctx) // after a panic; otherwise it has ended
	}()
	run := func() ([]sql.Row, error) { return b.runClause(ctx, n) }
	if block, ok := n.(*plan.Block); ok {
		run = func() ([]sql.Row, error) { return b.runClauses(ctx, block) }
	}
	rows, err := run()
	if err == nil {
		// Why: steps have read in a transaction of their own, whose views would outlive the tables.
		err = c.implicitCommit(ctx)
	}
	if err != nil {
		return nil, also(err, a.abort(ctx))
	}
	if err := a.commit(ctx); err != nil {
		return nil, err
	}
	c.provider.forgetDropped()
	if c.temps != nil {
		c.temps.provider.forgetDropped()
	}
	for _, f := range c.stmt.altered {
		f(ctx)
	}
	return sql.RowsToRowIter(rows...), nil
}

// madeAlready reports whether CREATE TABLE IF NOT EXISTS … SELECT has nothing to do. The frontend would add rows.
func (c *Conn) madeAlready(ctx *sql.Context, n *plan.CreateTable) bool {
	if !n.IfNotExists() {
		return false
	}
	catalog := c.provider.catalog(ctx)
	if n.Temporary() {
		if c.temps == nil {
			return false
		}
		catalog = c.temps.provider.catalog(ctx)
	}
	d := catalog.Database(n.Db.Name())
	if d == nil || d.Table(n.Name()) == nil {
		return false
	}
	ctx.Warn(1050, "Table '%s' already exists", n.Name())
	return true
}

// alterations are what a DDL statement changes: of the server's tables, and of temporary ones.
type alterations struct {
	shared *engine.Alteration
	own    *engine.Alteration // nil: nothing
}

// of returns the alteration of the tables of p; nil if there is none.
func (a *alterations) of(p *Provider) *engine.Alteration {
	switch {
	case a == nil:
		return nil
	case !p.temporary:
		return a.shared
	case a.own == nil:
		a.own = p.engine.Alter()
	}
	return a.own
}

// commit makes the changes. Those of temporary tables, which no crash can part from the others, come last and are undone
// by nobody.
func (a *alterations) commit(ctx *sql.Context) error {
	if err := a.shared.Commit(ctx); err != nil {
		return also(err, a.abort(ctx))
	}
	if a.own == nil {
		return nil
	}
	return a.own.Commit(ctx)
}

func (a *alterations) abort(ctx *sql.Context) error {
	err := a.shared.Abort(ctx)
	if a.own != nil {
		err = errors.Join(err, a.own.Abort(ctx))
	}
	return err
}

// alteration returns the running DDL statement's changes to the tables of p, nil if it makes each by itself.
func (p *Provider) alteration(ctx *sql.Context) *engine.Alteration {
	if c := connOf(ctx); c != nil {
		return c.stmt.altering.of(p)
	}
	return nil
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
	it, _ = rowexec.AddAccumulatorIter(ctx, it) // which counts the rows of CREATE TABLE … SELECT
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
	if a := p.alteration(ctx); a != nil {
		return a.Catalog()
	}
	return p.engine.Catalog()
}

// alter makes changes of the running DDL statement: part of its alteration, or all it does.
func (p *Provider) alter(ctx *sql.Context, change func(*engine.Alteration) error) error {
	if a := p.alteration(ctx); a != nil {
		return change(a)
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
