package sqlbackend

import (
	"math"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"

	"lancesql/engine"
)

var (
	_ sql.AutoIncrementTable  = (*Table)(nil)
	_ sql.AutoIncrementSetter = (*autoSetter)(nil)
)

func (t *Table) sequence(ctx *sql.Context) (*engine.Sequence, error) {
	if t.info.entry.AutoColumn < 0 {
		return nil, sql.ErrNoAutoIncrementCol
	}
	s, err := t.provider.engine.AutoIncrement(ctx, t.info.entry)
	if err != nil {
		return nil, wrapTable(t.info.entry, "AUTO_INCREMENT of", err)
	}
	return s, nil
}

// PeekNextAutoIncrementValue implements sql.AutoIncrementGetter.
func (t *Table) PeekNextAutoIncrementValue(ctx *sql.Context) (uint64, error) {
	s, err := t.sequence(ctx)
	if err != nil {
		return 0, err
	}
	return min(s.Peek(), greatestAuto(t.schema[t.info.entry.AutoColumn].Type)), nil
}

// greatestAuto is the greatest value of an AUTO_INCREMENT column, at which its counter stays.
func greatestAuto(t sql.Type) uint64 {
	switch t.Type() {
	case query.Type_INT8:
		return math.MaxInt8
	case query.Type_UINT8:
		return math.MaxUint8
	case query.Type_INT16:
		return math.MaxInt16
	case query.Type_UINT16:
		return math.MaxUint16
	case query.Type_INT24:
		return 1<<23 - 1
	case query.Type_UINT24:
		return 1<<24 - 1
	case query.Type_INT32:
		return math.MaxInt32
	case query.Type_UINT32:
		return math.MaxUint32
	case query.Type_INT64:
		return math.MaxInt64
	}
	return math.MaxUint64
}

// GetNextAutoIncrementValue implements sql.AutoIncrementTable: a given value moves the counter past it, nil asks
// for a new one.
func (t *Table) GetNextAutoIncrementValue(ctx *sql.Context, given interface{}) (uint64, error) {
	if t.info.entry.AutoColumn < 0 {
		// Why: a statement that adds such a column numbers the rows by the table that has it not.
		if n, in, err := types.Uint64.Convert(ctx, given); err == nil && in == sql.InRange && n != nil {
			return n.(uint64), nil
		}
	}
	s, err := t.sequence(ctx)
	if err != nil {
		return 0, err
	}
	if given == nil {
		return s.Next(0), nil
	}
	// Why ConvertRound: 2.5 is stored as 3, and the counter has to be past what is stored.
	typ := t.schema[t.info.entry.AutoColumn].Type
	var v any
	var in sql.ConvertInRange
	if rt, ok := typ.(sql.RoundingNumberType); ok {
		v, in, err = rt.ConvertRound(ctx, given)
	} else {
		v, in, err = typ.Convert(ctx, given)
	}
	if err != nil {
		return 0, err
	}
	if in != sql.InRange {
		return 0, sql.ErrValueOutOfRange.New(given, typ)
	}
	n := positiveValue(v)
	if n == 0 {
		return 0, nil
	}
	return s.Next(n), nil
}

// positiveValue is a number as an AUTO_INCREMENT value, 0 if it is none.
func positiveValue(v any) uint64 {
	switch v := v.(type) {
	case uint8:
		return uint64(v)
	case uint16:
		return uint64(v)
	case uint32:
		return uint64(v)
	case uint64:
		return v
	case float32:
		return uint64(max(v, 0))
	case float64:
		return uint64(max(v, 0))
	default:
		n, _ := toInt64(v)
		return uint64(max(n, 0))
	}
}

// AutoIncrementSetter implements sql.AutoIncrementTable.
func (t *Table) AutoIncrementSetter(*sql.Context) sql.AutoIncrementSetter {
	return &autoSetter{table: t}
}

type autoSetter struct{ table *Table }

// SetAutoIncrementValue implements sql.AutoIncrementSetter. A value that is taken already moves up, as in MySQL.
func (a *autoSetter) SetAutoIncrementValue(ctx *sql.Context, v uint64) error {
	if a.table.creating(ctx) {
		return nil // the table was made with it
	}
	if in := a.table.provider.alteration(ctx); in != nil {
		return in.SetAutoIncrement(a.table.info.entry.Database, a.table.Name(), v)
	}
	return a.table.provider.engine.SetAutoIncrement(ctx, a.table.info.entry, v)
}

// AcquireAutoIncrementLock implements sql.AutoIncrementSetter. Lock mode 2 is what the counter does.
func (a *autoSetter) AcquireAutoIncrementLock(*sql.Context) (func(), error) { return func() {}, nil }

// Close implements sql.AutoIncrementSetter.
func (a *autoSetter) Close(*sql.Context) error { return nil }
