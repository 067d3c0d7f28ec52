package sqlbackend

import (
	"encoding/binary"
	"io"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/engine"
)

// Conditions of sub-queries on a table no index helps with: WHERE t.a = outside.b reads all of t for every row outside. When
// that has happened once, the rows are kept by the value of t.a, and found by it for the rows outside that follow.

const (
	outerHashFrom  = 64       // rows a condition has to read to be worth it
	outerHashRows  = 1 << 18  // and may have at most
	outerHashBytes = 64 << 20 // about, of the values
)

// outerHash is the rows of a table below one condition of a statement.
type outerHash struct {
	txn   *engine.Txn
	start engine.Mark // what was written before: another mark, other rows

	keys []outerKey
	read int  // rows of the first run; -1 until it has ended
	no   bool // it does not pay, or cannot be
	rows map[string][]sql.Row
}

// outerKey is column = something outside.
type outerKey struct {
	column  *expression.GetField
	outside sql.Expression
	typ     sql.Type // in which the two compare
}

// outerPlace is a condition of a statement. The nodes between are copied for every row outside.
type outerPlace struct {
	leaf      sql.Node
	condition sql.Expression
}

// outerFilter builds a condition on a table in a sub-query; nil if it is for the frontend to build.
func (o *operators) outerFilter(ctx *sql.Context, f *plan.Filter, row sql.Row) (sql.RowIter, error) {
	c := connOf(ctx)
	leaf, before := outerLeaf(f.Child)
	if c == nil || leaf == nil || c.stmt.begun == nil || c.readKind() != engine.Consistent {
		return nil, nil
	}
	switch f.Expression.(type) {
	case *expression.And, *expression.Equals:
	default:
		return nil, nil
	}
	place := outerPlace{leaf, f.Expression}
	h := c.stmt.outside[place]
	if h == nil || h.txn != c.stmt.begun || h.start != h.txn.StatementStart() {
		h = &outerHash{txn: c.stmt.begun, start: c.stmt.begun.StatementStart(), keys: outerKeys(ctx, f.Expression, len(before)), read: -1}
		h.no = len(h.keys) == 0
		if c.stmt.outside == nil {
			c.stmt.outside = make(map[outerPlace]*outerHash)
		}
		c.stmt.outside[place] = h
	}
	if h.rows == nil && !h.no && h.read >= outerHashFrom {
		if err := h.fill(ctx, o, leaf, row, len(before)); err != nil {
			return nil, err
		}
	}
	switch {
	case h.no:
		return nil, nil
	case h.rows != nil:
		key, ok, err := h.keyOf(ctx, func(k outerKey) (any, error) { return k.outside.Eval(ctx, before) })
		if err != nil {
			return nil, nil // a value without a key, such as text that is none: the condition says what it is worth
		}
		it := &keptRows{before: before}
		if ok {
			it.rows = h.rows[key]
		}
		return plan.NewFilterIter(f.Expression, it), nil
	}
	it, err := o.build(ctx, f.Child, row)
	if err != nil {
		return nil, err
	}
	return plan.NewFilterIter(f.Expression, &countedRows{RowIter: it, of: h}), nil
}

// outerLeaf is the table of ours below a condition, read without regard to the row outside, and that row; nil if it is
// something else.
func outerLeaf(n sql.Node) (leaf sql.Node, before sql.Row) {
	for {
		switch at := n.(type) {
		case *plan.TableAlias:
			n = at.Child
			continue
		case *plan.PrependNode:
			if before != nil {
				return nil, nil
			}
			n, before = at.Child, at.Row
			continue
		case *plan.IndexedTableAccess:
			if !at.IsStatic() {
				return nil, nil
			}
		case *plan.ResolvedTable:
		default:
			return nil, nil
		}
		t := tableOf(n)
		if t == nil || len(before) == 0 || t.newest || t.lock.wanted() {
			return nil, nil
		}
		return n, before
	}
}

// outerKeys finds what a condition compares with the row outside, of so many columns.
func outerKeys(ctx *sql.Context, condition sql.Expression, outside int) []outerKey {
	var out []outerKey
	for _, e := range expression.SplitConjunction(ctx, condition) {
		eq, ok := e.(*expression.Equals)
		if !ok {
			continue
		}
		for _, side := range [][2]sql.Expression{{eq.Left(), eq.Right()}, {eq.Right(), eq.Left()}} {
			column, ok := side[0].(*expression.GetField)
			if !ok || column.Index() < outside || !aboutOutside(side[1], outside) {
				continue
			}
			a, b := column.Type(ctx), side[1].Type(ctx)
			if keptType(a) && comparesAs(a, b) {
				out = append(out, outerKey{column: column, outside: side[1], typ: a})
			}
			break
		}
	}
	return out
}

// aboutOutside reports whether an expression is one column of the row outside.
func aboutOutside(e sql.Expression, outside int) bool {
	g, ok := e.(*expression.GetField)
	return ok && g.Index() < outside
}

func keptType(t sql.Type) bool {
	return !types.IsYear(t) && !types.IsBit(t) && !types.IsEnum(t) && !types.IsSet(t) && (types.IsInteger(t) || types.IsDecimal(t) || types.IsTextOnly(t) || types.IsTime(t))
}

// fill reads the table into the map; no is set if it has too many rows.
func (h *outerHash) fill(ctx *sql.Context, o *operators, leaf sql.Node, row sql.Row, outside int) error {
	it, err := o.build(ctx, leaf, row)
	if err != nil {
		return err
	}
	rows, count, size := make(map[string][]sql.Row), 0, 0
	for {
		r, err := it.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			_ = it.Close(ctx)
			return err
		}
		key, ok, err := h.keyOf(ctx, func(k outerKey) (any, error) { return r[k.column.Index()-outside], nil })
		if err != nil {
			h.no = true
			return it.Close(ctx)
		}
		if !ok {
			continue
		}
		rows[key] = append(rows[key], r)
		count, size = count+1, size+len(key)+rowSize(r)
		if h.no = count > outerHashRows || size > outerHashBytes; h.no {
			return it.Close(ctx)
		}
	}
	h.rows = rows
	return it.Close(ctx)
}

// rowSize is about how many bytes a row takes.
func rowSize(r sql.Row) int {
	const each = 24
	n := 0
	for _, v := range r {
		n += each
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// keyOf is the values of the keys as one text, the same for equal values; ok is false if one is NULL, which equals nothing.
func (h *outerHash) keyOf(ctx *sql.Context, value func(outerKey) (any, error)) (key string, ok bool, err error) {
	var b []byte
	for _, k := range h.keys {
		v, err := value(k)
		if err != nil || v == nil {
			return "", false, err
		}
		at := len(b)
		b = binary.BigEndian.AppendUint32(b, 0)
		if b, err = appendKept(ctx, b, k.typ, v); err != nil {
			return "", false, err
		}
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at))
	}
	return string(b), true, nil
}

func appendKept(ctx *sql.Context, b []byte, t sql.Type, v any) ([]byte, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return nil, err
	}
	switch {
	case types.IsTextOnly(t):
		s, _, err := types.LongText.Convert(ctx, v)
		if err != nil {
			return nil, err
		}
		return appendWeights(b, t.(sql.StringType).Collation(), s.(string))
	case types.IsTime(t):
		at, _, err := types.DatetimeMaxPrecision.Convert(ctx, v)
		if err != nil {
			return nil, err
		}
		return binary.BigEndian.AppendUint64(b, uint64(at.(interface{ UnixMicro() int64 }).UnixMicro())), nil
	}
	d, err := toDecimal(v)
	if err != nil {
		return nil, err
	}
	var least apd.Decimal
	least.Reduce(d)
	return append(b, least.Text('f')...), nil
}

// countedRows counts the rows of the first run.
type countedRows struct {
	sql.RowIter
	of   *outerHash
	rows int
}

// Next implements sql.RowIter.
func (r *countedRows) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := r.RowIter.Next(ctx)
	switch err {
	case nil:
		r.rows++
	case io.EOF:
		r.of.read = max(r.of.read, r.rows)
	}
	return row, err
}

// keptRows is rows that were kept, behind the row outside.
type keptRows struct {
	before sql.Row
	rows   []sql.Row
}

// Next implements sql.RowIter. The row belongs to the caller.
func (k *keptRows) Next(ctx *sql.Context) (sql.Row, error) {
	if len(k.rows) == 0 {
		return nil, io.EOF
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	row := append(append(make(sql.Row, 0, len(k.before)+len(k.rows[0])), k.before...), k.rows[0]...)
	k.rows = k.rows[1:]
	return row, nil
}

// Close implements sql.RowIter.
func (k *keptRows) Close(*sql.Context) error { return nil }
