package sqlbackend

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/proto/query"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// keyPart is one column of a primary key.
type keyPart struct {
	column int // physical position
	length int // leading characters (bytes of binaries) that count, 0 = all
	append func(dst []byte, cell any) ([]byte, error)
}

// appendCell appends a part of a hidden key; NULL, which only secondary indexes have, sorts first.
func (p *keyPart) appendCell(dst []byte, cell any) ([]byte, error) {
	if cell == nil {
		return rowkey.AppendNull(dst), nil
	}
	return p.append(dst, cell)
}

// keyMap turns rows and bounds into the rowkey.Keys the engine locks and looks up.
//
// Three shapes: a natural key is the key columns themselves; any other key is one hidden Binary column holding
// the parts in an order-preserving form; a table without a key has a hidden row id.
type keyMap struct {
	parts   []keyPart
	hidden  int  // physical position of the hidden key column, -1 if the key is natural or a row id
	ordered bool // keys sort as the frontend sorts the parts, so that ranges and ORDER BY may use them

	columns []int             // physical positions of the Lance primary key
	types   []arrow.DataType  // their types
	prefix  []*rowkey.Encoder // encoders of the first 1..n primary key columns
}

// naturalKeyPart reports whether a key column may be the Lance primary key as it is: other writers and readers
// compare such values as SQL does.
func naturalKeyPart(t sql.Type, a arrow.DataType, length int) bool {
	if length > 0 {
		return false
	}
	switch a.ID() {
	case arrow.INT32, arrow.INT64:
		return true
	case arrow.STRING:
		st, ok := t.(sql.StringType)
		return ok && byteOrdered(st.Collation())
	case arrow.BINARY:
		return true
	default:
		return false
	}
}

// keyPartEncoder returns the encoder of a part of a hidden key. Cells are Arrow cells of the column.
func keyPartEncoder(t sql.Type, c codec, length int) (func([]byte, any) ([]byte, error), error) {
	switch t.Type() {
	case query.Type_ENUM:
		return func(dst []byte, cell any) ([]byte, error) {
			v, err := c.decode(cell)
			if err != nil {
				return nil, err
			}
			return appendScalar(dst, v)
		}, nil
	case query.Type_SET:
		return func(dst []byte, cell any) ([]byte, error) {
			v, err := c.decode(cell)
			if err != nil {
				return nil, err
			}
			return appendScalar(dst, v)
		}, nil
	case query.Type_CHAR, query.Type_VARCHAR, query.Type_TEXT:
		collation := t.(sql.StringType).Collation()
		return func(dst []byte, cell any) ([]byte, error) {
			s, ok := cell.(string)
			if !ok {
				return nil, cellError(cell, t)
			}
			return appendWeights(dst, collation, leading(s, length))
		}, nil
	case query.Type_BINARY, query.Type_VARBINARY, query.Type_BLOB:
		return func(dst []byte, cell any) ([]byte, error) {
			b, ok := cell.([]byte)
			if !ok {
				return nil, cellError(cell, t)
			}
			if length > 0 && len(b) > length {
				b = b[:length]
			}
			return rowkey.AppendBytes(dst, b), nil
		}, nil
	case query.Type_JSON:
		return nil, sql.ErrJSONIndex.New("")
	case query.Type_GEOMETRY:
		return nil, notSupported("keys of spatial columns")
	case query.Type_VECTOR:
		return nil, notSupported("keys of VECTOR columns")
	default:
		return appendScalar, nil
	}
}

// appendScalar appends a number, date or time.
func appendScalar(dst []byte, cell any) ([]byte, error) {
	switch v := cell.(type) {
	case int8:
		return rowkey.AppendInt64(dst, int64(v)), nil
	case int16:
		return rowkey.AppendInt64(dst, int64(v)), nil
	case int32:
		return rowkey.AppendInt64(dst, int64(v)), nil
	case int64:
		return rowkey.AppendInt64(dst, v), nil
	case uint8:
		return rowkey.AppendUint64(dst, uint64(v)), nil
	case uint16:
		return rowkey.AppendUint64(dst, uint64(v)), nil
	case uint32:
		return rowkey.AppendUint64(dst, uint64(v)), nil
	case uint64:
		return rowkey.AppendUint64(dst, v), nil
	case float32:
		return rowkey.AppendFloat64(dst, float64(v)), nil
	case float64:
		return rowkey.AppendFloat64(dst, v), nil
	case decimal128.Num:
		return rowkey.AppendDecimal128(dst, v), nil
	case decimal256.Num:
		return rowkey.AppendDecimal256(dst, v), nil
	case arrow.Date32:
		return rowkey.AppendInt64(dst, int64(v)), nil
	case arrow.Timestamp:
		return rowkey.AppendInt64(dst, int64(v)), nil
	case arrow.Duration:
		return rowkey.AppendInt64(dst, int64(v)), nil
	default:
		return nil, fmt.Errorf("a %T in a key: %w", cell, errs.ErrInvalid)
	}
}

// leading returns the first n characters of s, all of it for n = 0.
func leading(s string, n int) string {
	if n <= 0 {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// newKeyMap completes a key map whose parts and hidden column are set. schema is the physical schema.
func newKeyMap(m keyMap, schema *arrow.Schema) (keyMap, error) {
	for _, c := range m.columns {
		m.types = append(m.types, schema.Field(c).Type)
	}
	for n := range m.types {
		e, err := rowkey.NewEncoder(m.types[:n+1])
		if err != nil {
			return m, fmt.Errorf("primary key of type %s: %w", m.types[n], err)
		}
		m.prefix = append(m.prefix, e)
	}
	return m, nil
}

// fill computes the hidden key column of a physical row, if the table has one.
func (m *keyMap) fill(row arrowx.Row) error {
	if m.hidden < 0 {
		return nil
	}
	var b []byte
	var err error
	for _, p := range m.parts {
		if b, err = p.appendCell(b, row[p.column]); err != nil {
			return err
		}
	}
	row[m.hidden] = b
	return nil
}

// encode returns the encoding of the first len(cells) key parts: the start of every key that begins with them,
// and the key itself when all parts are given.
func (m *keyMap) encode(cells []any) (rowkey.Key, error) {
	if len(cells) == 0 {
		return "", nil
	}
	if m.hidden < 0 {
		row := make(arrowx.Row, len(cells))
		cols := make([]int, len(cells))
		for i, c := range cells {
			row[i], cols[i] = c, i
		}
		return m.prefix[len(cells)-1].Row(row, cols)
	}
	var b []byte
	var err error
	for i, c := range cells {
		if b, err = m.parts[i].appendCell(b, c); err != nil {
			return "", err
		}
	}
	k, err := m.prefix[0].Row(arrowx.Row{b}, []int{0})
	if err != nil || len(cells) == len(m.parts) {
		return k, err
	}
	// The hidden column is bytes ended by a terminator; without it, the start of all longer values.
	return k[:len(k)-binaryTerminatorBytes], nil
}

// binaryTerminatorBytes is the length of what ends a Binary value in a rowkey.Key.
// Spec: MemWAL, "Primary-key sidecars" (composite tuple encoding).
const binaryTerminatorBytes = 2

// after returns the smallest key above every key that starts with k, "" (open) if there is none.
func after(k rowkey.Key) rowkey.Key {
	b := []byte(k)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0xFF {
			b[i]++
			return rowkey.Key(b[:i+1])
		}
	}
	return ""
}
