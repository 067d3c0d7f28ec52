package sqlbackend

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	goerrors "gopkg.in/src-d/go-errors.v1"

	"lancesql/engine"
	"lancesql/internal/errs"
)

// retryRounds bounds how often one statement runs. Every round keeps the row locks of the rounds before, so each makes
// progress; a statement that still meets changed rows after so many is one that many others overtake.
const retryRounds = 128

// rootBuilder sees plans first. At the root of a data-changing statement it puts an iterator that runs the statement
// again when a row it wants to change changed after it was read; every other node goes to operators.
type rootBuilder struct {
	operators sql.NodeExecBuilder
	// inner builds the statement below the retry: it never puts another retry on top of a nested root, whose iterators
	// the frontend recognises by type.
	inner *rowexec.BaseBuilder
}

// Build implements sql.NodeExecBuilder; nil, nil declines the node.
func (b *rootBuilder) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if c := connOf(ctx); len(row) == 0 && c != nil && c.stmt.altering == nil && alters(n) {
		return b.alter(ctx, c, n)
	}
	if c := connOf(ctx); len(row) == 0 && c != nil {
		c.stmt.building = true
		fires, err := fireTriggers(ctx, n)
		if err != nil {
			return nil, err
		}
		if insert, ok := n.(*plan.InsertInto); ok && fires != n && readsStream(insert.Source) {
			return b.once(ctx, c, fires)
		}
		n = fires
	}
	if len(row) == 0 && changesRows(n) {
		if err := refuseAppendOnly(n); err != nil {
			return nil, err
		}
		if txnOf(ctx) != nil {
			return b.retry(ctx, n)
		}
	}
	if len(row) == 0 {
		pushed, same, err := pushOnce(ctx, n)
		if err != nil {
			return nil, err
		}
		locked, locks, err := planLocks(ctx, pushed)
		if err != nil {
			return nil, err
		}
		if locks {
			child, err := b.inner.Build(ctx, locked, row)
			if err != nil {
				return nil, err
			}
			return &heldIter{child: child}, nil
		}
		if !same {
			return b.inner.Build(ctx, pushed, row)
		}
	}
	return b.operators.Build(ctx, n, row)
}

func txnOf(ctx *sql.Context) *engine.Txn {
	if c := connOf(ctx); c != nil {
		return c.Txn()
	}
	return nil
}

// changesRows reports whether n is the root of a statement that may be run again. LOAD DATA may not: its input is read
// once; it writes by full key and meets no conflict of this kind.
func changesRows(n sql.Node) bool {
	switch n := n.(type) {
	case *plan.Update, *plan.DeleteFrom:
		return true
	case *plan.InsertInto:
		return !readsStream(n.Source)
	case *plan.TriggerExecutor:
		return changesRows(n.Left())
	}
	return false
}

// changing is the node that changes rows below the triggers that run after it.
func changing(n sql.Node) sql.Node {
	for {
		t, ok := n.(*plan.TriggerExecutor)
		if !ok {
			return n
		}
		n = t.Left()
	}
}

func readsStream(n sql.Node) bool {
	found := false
	transform.Inspect(n, func(n sql.Node) bool {
		if _, ok := n.(*plan.LoadData); ok {
			found = true
		}
		return !found
	})
	return found
}

func (b *rootBuilder) retry(ctx *sql.Context, n sql.Node) (sql.RowIter, error) {
	c := connOf(ctx)
	mark := c.mark()
	if !c.stmt.prepared {
		var err error
		if n, err = prepareChange(ctx, n); err != nil {
			return nil, err
		}
	}
	n = c.ignoreReferences(n)
	child, err := b.inner.Build(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	return &retryIter{node: n, inner: b.inner, conn: c, mark: mark, child: child}, nil
}

// once runs a statement that cannot be run again, but is undone if a trigger fails.
func (b *rootBuilder) once(ctx *sql.Context, c *Conn, n sql.Node) (sql.RowIter, error) {
	mark := c.mark()
	child, err := b.inner.Build(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	return &retryIter{node: n, inner: b.inner, conn: c, mark: mark, child: child, once: true}, nil
}

// retryIter runs a statement until no row it changes had changed since it was read. It reads all result rows before it
// gives the first away, since a later conflict takes them back; a DML statement has one.
type retryIter struct {
	node  sql.Node
	inner *rowexec.BaseBuilder
	conn  *Conn
	mark  historyMark
	once  bool // it cannot be run again

	child sql.RowIter
	done  bool
	rows  []sql.Row
}

var _ sql.MutableRowIter = (*retryIter)(nil)

// GetChildIter implements sql.MutableRowIter.
func (r *retryIter) GetChildIter() sql.RowIter { return r.child }

// WithChildIter implements sql.MutableRowIter: the frontend puts its accumulator here.
func (r *retryIter) WithChildIter(child sql.RowIter) sql.RowIter {
	c := *r
	c.child = child
	return &c
}

// Next implements sql.RowIter.
func (r *retryIter) Next(ctx *sql.Context) (sql.Row, error) {
	if !r.done {
		if err := r.run(ctx); err != nil {
			return nil, err
		}
		r.done = true
	}
	if len(r.rows) == 0 {
		return nil, io.EOF
	}
	row := r.rows[0]
	r.rows = r.rows[1:]
	return row, nil
}

func (r *retryIter) run(ctx *sql.Context) error {
	warnings := ctx.Session.Warnings()
	for round := 1; ; round++ {
		r.conn.stmt.replaced, r.conn.stmt.inserted, r.conn.stmt.kept = 0, 0, 0
		err := r.drain(ctx)
		if err == nil {
			r.keeping(ctx)
			return r.replacing(ctx)
		}
		if !isConflict(err) || r.once {
			if _, fires := r.node.(*plan.TriggerExecutor); fires { // the frontend undoes nothing for what fails behind a row
				r.conn.rollbackTo(r.mark)
			}
			return r.inColumn(ctx, err)
		}
		if cerr := r.child.Close(ctx); cerr != nil && !isConflict(cerr) {
			return errors.Join(err, cerr)
		}
		r.conn.rollbackTo(r.mark)
		if round >= retryRounds {
			return fmt.Errorf("statement met changed rows %d times: %w", round, errs.ErrDeadlock)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r.conn.refreshStatement()
		fireAgain(r.node)
		restoreWarnings(ctx, warnings)
		child, err := r.inner.Build(ctx, r.node, nil)
		if err != nil {
			return err
		}
		r.child, _ = rowexec.AddAccumulatorIter(ctx, child)
	}
}

// drain reads all rows of one round.
func (r *retryIter) drain(ctx *sql.Context) error {
	r.rows = r.rows[:0]
	for {
		row, err := r.child.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r.rows = append(r.rows, row)
	}
}

// inColumn gives the error of an INSERT whose number does not fit the name of its column, which the frontend leaves out.
func (r *retryIter) inColumn(ctx *sql.Context, err error) error {
	insert, ok := changing(r.node).(*plan.InsertInto)
	var wrapped sql.WrappedInsertError
	if !ok || !errors.As(err, &wrapped) {
		return err
	}
	chain := causes(err)
	bits := tooManyBits(chain)
	schema, row := insert.Destination.Schema(ctx), wrapped.OffendingRow
	if len(row) != len(schema) || !bits && !isKind(chain, sql.ErrValueOutOfRange) {
		return err
	}
	for i, c := range schema {
		if row[i] == nil || bits != types.IsBit(c.Type) {
			continue
		}
		_, in, cerr := asColumn(ctx, c.Type, row[i])
		switch {
		case in == sql.InRange:
		case bits:
			return sql.NewWrappedInsertError(row, bitsTooLong(c.Name, r.conn.stmt.inserted+1))
		case cerr == nil:
			return sql.NewWrappedInsertError(row, sql.ErrValueOutOfRange.New(row[i], inColumn(c.Type, c.Name, r.conn.stmt.inserted+1)))
		}
	}
	return err
}

// tooManyBits reports whether an error is that of a value for which a BIT column is too short, of a kind the frontend does not export.
func tooManyBits(chain []error) bool {
	return slices.ContainsFunc(chain, func(e error) bool {
		return strings.Contains(e.Error(), "is beyond the maximum value that can be held by")
	})
}

func bitsTooLong(column string, row int64) error {
	return newError(1406, "Data too long for column '%s' at row %d", column, row)
}

func isKind(chain []error, kind *goerrors.Kind) bool {
	return slices.ContainsFunc(chain, func(e error) bool { return kind.Is(e) })
}

// keeping corrects what a DELETE IGNORE answers: the frontend counts the rows that stayed.
func (r *retryIter) keeping(ctx *sql.Context) {
	if r.conn.stmt.kept == 0 {
		return
	}
	for i, row := range r.rows {
		if types.IsOkResult(row) {
			ok := types.GetOkResult(row)
			ok.RowsAffected -= uint64(r.conn.stmt.kept)
			r.rows[i] = sql.NewRow(ok)
			ctx.GetLastQueryInfo().RowCount.Store(int64(ok.RowsAffected))
		}
	}
}

// replacing corrects what a REPLACE answers. The frontend counts a row that was there already as two, and one that takes the place
// of several as two as well.
func (r *retryIter) replacing(ctx *sql.Context) error {
	insert, ok := changing(r.node).(*plan.InsertInto)
	if !ok || !insert.IsReplace {
		return nil
	}
	for i, row := range r.rows {
		if !types.IsOkResult(row) {
			continue
		}
		ok := types.GetOkResult(row)
		if n := r.conn.stmt.replaced; n > 0 || !referenced(insert) {
			ok.RowsAffected += uint64(n)
		}
		r.rows[i] = sql.NewRow(ok)
		ctx.GetLastQueryInfo().RowCount.Store(int64(ok.RowsAffected))
	}
	return nil
}

// referenced reports whether the table has foreign keys: MySQL deletes and inserts then, whatever the rows are.
func referenced(insert *plan.InsertInto) bool {
	found := false
	transform.Inspect(insert.Destination, func(n sql.Node) bool {
		_, handler := n.(*plan.ForeignKeyHandler)
		found = found || handler
		return !found
	})
	return found
}

// restoreWarnings drops what a round that did not count has warned about. Warnings are listed newest first.
func restoreWarnings(ctx *sql.Context, warnings []*sql.Warning) {
	ctx.Session.ClearWarnings()
	for i := len(warnings) - 1; i >= 0; i-- {
		ctx.Session.Warn(warnings[i])
	}
}

// Close implements sql.RowIter.
func (r *retryIter) Close(ctx *sql.Context) error {
	r.rows = nil
	return r.child.Close(ctx)
}

func isConflict(err error) bool { return isAny(causes(err), errs.ErrWriteConflict) }
