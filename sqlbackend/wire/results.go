package wire

import (
	"context"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
)

// Result is one result of a statement that makes several, as CALL does.
type Result struct {
	Schema sql.Schema
	Rows   []sql.Row
}

// severalResults is a session whose statement may have made several results; TakeResults hands them over, once.
type severalResults interface{ TakeResults() []Result }

// nextResult is what the protocol library is told is left of a text while results wait: it comes back with it as if it were
// a further statement, and says meanwhile that more results follow.
const nextResult = "\x00"

// waitingResults are results not sent yet, and the text behind their statement.
type waitingResults struct {
	results []Result
	rest    string
	form    textForm // how the text was written
	err     error    // which ends the statement in place of its OK packet; nil: none
}

// sendSeveral sends the first of several results and leaves the others to sendNext.
func (h *Handler) sendSeveral(ctx *sql.Context, f *frames, results []Result, rest string, send mysql.ResultSpoolFn) (string, error) {
	f.waiting = &waitingResults{results: results[1:], rest: rest, form: f.texts.textForm}
	return nextResult, sendResult(ctx, results[0], send)
}

// sendBefore sends what a statement has made before it failed with an error, as its client sees it, which is the last of what is sent and
// ends a text of several statements; false if there is nothing to be sent.
func (h *Handler) sendBefore(ctx *sql.Context, c *mysql.Conn, cmd *command, failed error, send mysql.ResultSpoolFn) (sent bool, err error) {
	s, ok := ctx.Session.(severalResults)
	if !ok {
		return false, nil
	}
	results, f := s.TakeResults(), framesOf(c)
	var se *mysql.SQLError
	if len(results) == 0 || f == nil || f.cursor || !errors.As(failed, &se) || h.setStatus(ctx, c) != nil {
		return false, nil
	}
	if cmd.several {
		f.waiting = &waitingResults{results: results[1:], form: f.texts.textForm, err: se}
		if err := sendResult(ctx, results[0], send); err != nil {
			f.waiting = nil
			return true, err
		}
		return true, nil
	}
	last := results[len(results)-1] // Why that: such a client sees it of a statement that does not fail
	sp := spool{ctx: ctx, schema: last.Schema, reuse: cmd.text, send: send, finish: func() error { return nil }}
	if err := sp.run(sql.RowsToRowIter(last.Rows...)); err != nil {
		return true, err
	}
	if err := c.FlushBuffer(); err != nil {
		return true, err
	}
	if f.results {
		f.endResult(c.StatusFlags|mysql.ServerMoreResultsExists, c.Capabilities&mysql.CapabilityClientDeprecateEOF != 0)
	}
	if !f.fail(se) {
		return true, failed
	}
	return true, nil
}

func sendResult(ctx *sql.Context, r Result, send mysql.ResultSpoolFn) error {
	sp := spool{ctx: ctx, schema: r.Schema, reuse: true, more: true, send: send, finish: func() error { return nil }}
	return sp.run(sql.RowsToRowIter(r.Rows...))
}

// sendNext sends the next result that waits, and the OK packet of the statement after the last.
func (h *Handler) sendNext(ctx context.Context, c *mysql.Conn, f *frames, send mysql.ResultSpoolFn) (string, error) {
	w := f.waiting
	if len(w.results) == 0 {
		f.waiting = nil
		if w.err != nil {
			return "", w.err
		}
		f.texts.left(w.rest, w.form)
		return w.rest, send(&sqltypes.Result{}, w.rest != "")
	}
	sqlCtx, err := h.sessions.NewContextWithQuery(ctx, c, "")
	if err != nil {
		return "", h.explain("", nil, err)
	}
	next := w.results[0]
	w.results = w.results[1:]
	if err := sendResult(sqlCtx, next, send); err != nil {
		return "", h.explain("", nil, err)
	}
	return nextResult, nil
}
