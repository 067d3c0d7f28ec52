package rowkey

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
)

// Cell decodes column i of a key of this Encoder: nil, int64 for signed integers and dates, uint64, bool, or
// []byte for every kind of string. errs.ErrInvalid if k is no such key.
func (e *Encoder) Cell(k Key, i int) (any, error) {
	rest := []byte(k)
	for c, t := range e.types {
		v, n := cell(rest, t)
		if n == 0 {
			break
		}
		if c == i {
			return v, nil
		}
		rest = rest[n:]
	}
	return nil, fmt.Errorf("column %d of a key of %d bytes: %w", i, len(k), errs.ErrInvalid)
}

// cell decodes the first column of b and returns how many bytes it takes, 0 if b does not begin with one.
func cell(b []byte, t arrow.DataType) (v any, size int) {
	switch {
	case len(b) > 0 && b[0] == markNull:
		return nil, 1
	case len(b) == 0 || b[0] != markValue:
		return nil, 0
	}
	b = b[1:]
	switch t.ID() {
	case arrow.BOOL:
		if len(b) < 1 {
			return nil, 0
		}
		return b[0] == 1, 2
	case arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		if len(b) < 8 {
			return nil, 0
		}
		return binary.BigEndian.Uint64(b), 9
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return bytesCell(b)
	}
	if len(b) < 8 {
		return nil, 0
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63), 9
}

func bytesCell(b []byte) (v any, size int) {
	out := make([]byte, 0, len(b))
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			out = append(out, b[i])
			continue
		}
		switch b[i+1] {
		case 0:
			return out, i + 3
		case 0xff:
			out = append(out, 0)
			i++
		default:
			return nil, 0
		}
	}
	return nil, 0
}
