package wire

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// batchRows is the number of rows handed to the connection at once. Packets are buffered and flushed by size below, so
// the batch only bounds what is converted ahead of the socket.
const batchRows = 128

// spool sends one result by calling the connection's callback directly.
//
// Why not the frontend's own way: it moves each row through two channels and three goroutines and never reuses its byte
// buffer, so that the whole result stays in memory.
type spool struct {
	ctx    *sql.Context
	schema sql.Schema
	reuse  bool // the callback copies rows before it returns
	more   bool // another result follows
	send   mysql.ResultSpoolFn
	finish func() error // runs after the iterators were closed and before the last packet

	info     func(affected uint64) string // the text of an OK packet that has none; nil: no text
	announce func(n int) bool             // says that an OK packet with a text of n bytes follows; false: it must have none

	fields []*querypb.Field
	exprs  []sql.Expression // deferred projection, or nil
	arena  arena
	batch  *sqltypes.Result
	sent   bool
}

// run drains iter, closes it, and sends everything. It takes ownership of iter.
func (s *spool) run(iter sql.RowIter) error {
	ok, err := s.drain(&iter)
	if err != nil {
		CloseFailed(s.ctx, iter)
		return err
	}
	if err := iter.Close(s.ctx); err != nil {
		return err
	}
	if err := s.finish(); err != nil {
		return err
	}
	if ok != nil {
		packet := okPacket(*ok)
		if packet.Info == "" && s.info != nil {
			packet.Info = s.info(packet.RowsAffected)
		}
		if packet.Info != "" && s.announce != nil && !s.announce(len(packet.Info)) {
			packet.Info = ""
		}
		return s.send(packet, s.more)
	}
	if s.sent && len(s.batch.Rows) == 0 {
		return nil
	}
	return s.send(s.batch, s.more)
}

// drain reads all rows; it returns the OK result of a statement without a result set. It may replace *iter by an
// equivalent one.
func (s *spool) drain(iter *sql.RowIter) (*types.OkResult, error) {
	if !types.IsOkResultSchema(s.schema) {
		s.fields = fieldsOf(s.ctx, s.schema)
		*iter, s.exprs = server.GetDeferredProjections(*iter)
	}
	s.newBatch()
	var ok *types.OkResult
	for {
		row, err := (*iter).Next(s.ctx)
		if err == io.EOF {
			return ok, nil
		}
		if err != nil {
			return nil, err
		}
		if types.IsOkResult(row) {
			if s.sent || ok != nil || len(s.batch.Rows) > 0 {
				return nil, fmt.Errorf("statement returned rows and an OK result")
			}
			res := types.GetOkResult(row)
			ok = &res
			continue
		}
		if err := s.add(row); err != nil {
			return nil, err
		}
	}
}

// add converts one row and sends the batch when it is full.
func (s *spool) add(row sql.Row) error {
	values, err := s.convert(row)
	if err != nil {
		return err
	}
	s.batch.Rows = append(s.batch.Rows, values)
	s.batch.RowsAffected++
	if len(s.batch.Rows) < batchRows {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if err := s.send(s.batch, s.more); err != nil {
		return err
	}
	s.sent = true
	s.newBatch()
	return nil
}

func (s *spool) newBatch() {
	if s.reuse && s.batch != nil {
		s.batch.Rows, s.batch.RowsAffected = s.batch.Rows[:0], 0
		s.arena.reset()
		return
	}
	s.batch = &sqltypes.Result{Fields: s.fields}
	s.arena = arena{}
}

// convert returns the wire values of a row; their bytes live in the arena or in the row.
func (s *spool) convert(row sql.Row) ([]sqltypes.Value, error) {
	values := make([]sqltypes.Value, len(s.schema))
	for i, col := range s.schema {
		var v any
		if s.exprs != nil {
			var err error
			if v, err = s.exprs[i].Eval(s.ctx, row); err != nil {
				return nil, err
			}
		} else {
			v = row[i]
		}
		if v == nil {
			values[i] = sqltypes.NULL
			continue
		}
		value, err := s.value(col.Type, v)
		if err != nil {
			var ok bool
			if value, ok = replaced(s.ctx, col.Type.Type(), v, err); !ok {
				return nil, err
			}
		}
		if t, ok := v.(time.Time); ok && t.Year() < 1000 {
			value = fourDigits(value)
		}
		s.arena.take(value.Len())
		values[i] = value
	}
	return values, nil
}

// value returns the wire value of v; its bytes live in the arena or in the row.
func (s *spool) value(t sql.Type, v any) (sqltypes.Value, error) {
	if s.reuse { // the text protocol; the binary one has the numbers themselves
		switch {
		case t == types.Float64:
			if f, ok := v.(float64); ok {
				return sqltypes.MakeTrusted(sqltypes.Float64, AppendFloat(s.arena.space(), f, 64)), nil
			}
		case t == types.Float32:
			if f, ok := v.(float32); ok {
				return sqltypes.MakeTrusted(sqltypes.Float32, AppendFloat(s.arena.space(), float64(f), 32)), nil
			}
		}
	}
	return t.SQL(s.ctx, s.arena.space(), v)
}

// fourDigits gives the year of a date the zeros in front that the frontend leaves out; the binary protocol takes nothing
// else.
func fourDigits(v sqltypes.Value) sqltypes.Value {
	year, _, ok := strings.Cut(v.ToString(), "-")
	if !ok || year == "" || len(year) >= len("0000") {
		return v
	}
	return sqltypes.MakeTrusted(v.Type(), []byte("0000"[len(year):]+v.ToString()))
}

// CloseFailed closes the iterators of a failed statement without passing the one that would commit what the statement
// did before it failed.
func CloseFailed(ctx *sql.Context, iter sql.RowIter) {
	// Why not reported: the error of the statement says why it failed; closing what failed only repeats it.
	_ = withoutCommit(iter).Close(ctx)
}

func withoutCommit(iter sql.RowIter) sql.RowIter {
	switch it := iter.(type) {
	case *rowexec.ExprCloserIter:
		return it.WithChildIter(withoutCommit(it.GetIter()))
	case *plan.TrackedRowIter:
		return it.WithChildIter(withoutCommit(it.GetIter()))
	case *rowexec.TransactionCommittingIter:
		return it.GetIter()
	}
	return iter
}

// infoMax is the longest text of an OK packet, whose length takes one byte.
const infoMax = 250

// okPacket converts the result of a statement without rows. How long its text is has to be announced, see frames.
func okPacket(r types.OkResult) *sqltypes.Result {
	res := &sqltypes.Result{RowsAffected: r.RowsAffected, InsertID: r.InsertID}
	if r.Info != nil {
		if info := r.Info.String(); len(info) <= infoMax {
			res.Info = info
		}
	}
	return res
}

// arena holds the converted bytes of one batch. Bytes never move once handed out: a full chunk is left to the values
// that point into it.
type arena struct{ buf []byte }

const (
	arenaChunk = 16 << 10 // bytes, first chunk
	arenaKeep  = 1 << 20  // bytes, largest chunk kept for the next batch
)

// space returns an empty slice whose capacity is free.
func (a *arena) space() []byte { return a.buf[len(a.buf):] }

// take marks n bytes as used, if they fitted; otherwise they were allocated elsewhere and a larger chunk follows.
func (a *arena) take(n int) {
	if len(a.buf)+n < cap(a.buf) {
		a.buf = a.buf[:len(a.buf)+n]
		return
	}
	a.buf = make([]byte, 0, max(arenaChunk, min(2*cap(a.buf), arenaKeep)))
}

// reset frees all bytes for reuse.
func (a *arena) reset() { a.buf = a.buf[:0] }
