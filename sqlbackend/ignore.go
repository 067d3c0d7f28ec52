package sqlbackend

import (
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// adjustedSource is the rows an INSERT IGNORE inserts, each value the nearest its column can hold. The frontend adjusts
// as well, but cuts texts inside a character, stores the greatest value for a negative number in an unsigned column and
// zero for a DECIMAL out of range, and panics on a binary value that is too long.
type adjustedSource struct {
	plan.UnaryNode
	columns sql.Schema // of the destination
}

var _ sql.Node = (*adjustedSource)(nil)

// String implements fmt.Stringer.
func (a *adjustedSource) String() string { return a.Child.String() }

// IsReadOnly implements sql.Node.
func (a *adjustedSource) IsReadOnly() bool { return a.Child.IsReadOnly() }

// WithChildren implements sql.Node.
func (a *adjustedSource) WithChildren(_ *sql.Context, c ...sql.Node) (sql.Node, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(a, len(c), 1)
	}
	return &adjustedSource{UnaryNode: plan.UnaryNode{Child: c[0]}, columns: a.columns}, nil
}

type adjustedIter struct {
	child   sql.RowIter
	columns sql.Schema
	rows    int64
}

// Next implements sql.RowIter.
func (a *adjustedIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := a.child.Next(ctx)
	if err != nil {
		return nil, err
	}
	a.rows++
	skip := len(row) - len(a.columns) // an outer scope comes first
	if skip < 0 {
		return row, nil
	}
	for i, c := range a.columns {
		adjusted, warning := nearest(ctx, c.Type, row[skip+i])
		if warning == 0 {
			continue
		}
		row = row.Copy()
		row[skip+i] = adjusted
		warnAdjusted(ctx, warning, c.Name, a.rows)
	}
	return row, nil
}

// Close implements sql.RowIter.
func (a *adjustedIter) Close(ctx *sql.Context) error { return a.child.Close(ctx) }

func warnAdjusted(ctx *sql.Context, code int, column string, row int64) {
	if code == 1264 {
		ctx.Warn(code, "Out of range value for column '%s' at row %d", column, row)
		return
	}
	ctx.Warn(code, "Data truncated for column '%s' at row %d", column, row)
}

// nearest returns the value next to v that a column can hold, with the number of the warning that says so; 0 if v fits
// or if what does not fit is left to the frontend. Values that are no number become zero there.
func nearest(ctx *sql.Context, typ sql.Type, v any) (any, int) {
	if v == nil {
		return v, 0
	}
	switch t := typ.(type) {
	case sql.StringType:
		return nearestText(ctx, t, v)
	case sql.DecimalType:
		_, in, err := t.Convert(quiet(ctx), v)
		if err == nil && in == sql.InRange {
			return v, 0
		}
		d, err := types.InternalDecimalType.ConvertToDecimal(v)
		if err != nil || d == nil || t.Precision() == 0 {
			return v, 0
		}
		limit := new(apd.Decimal)
		for range t.Precision() {
			limit.Coeff.Mul(&limit.Coeff, apd.NewBigInt(10))
			limit.Coeff.Add(&limit.Coeff, apd.NewBigInt(9))
		}
		limit.Exponent = -int32(t.Scale())
		limit.Negative = d.Negative
		return limit, 1264
	}
	if !types.IsUnsigned(typ) {
		return v, 0
	}
	d, err := types.InternalDecimalType.ConvertToDecimal(v)
	if err != nil || d == nil || d.Sign() >= 0 {
		return v, 0
	}
	if c, in, err := typ.Convert(quiet(ctx), v); err == nil && in == sql.InRange && c != nil {
		return v, 0 // rounds to zero
	}
	return typ.Zero(), 1264
}

func nearestText(ctx *sql.Context, t sql.StringType, v any) (any, int) {
	if _, _, err := t.Convert(quiet(ctx), v); err == nil || !types.ErrLengthBeyondLimit.Is(err) {
		return v, 0
	}
	long, _, err := types.LongBlob.Convert(quiet(ctx), v)
	if err != nil {
		return v, 0
	}
	b, ok := long.([]byte)
	if !ok {
		return v, 0
	}
	if types.IsBinaryType(t) {
		return b[:min(int64(len(b)), t.MaxByteLength())], 1265
	}
	n, chars := 0, int64(0)
	for n < len(b) && chars < t.MaxCharacterLength() {
		_, size := utf8.DecodeRune(b[n:])
		if int64(n+size) > t.MaxByteLength() {
			break
		}
		n += size
		chars++
	}
	return string(b[:n]), 1265
}
