package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"
)

// rowBytesMax is the most that the columns of a row may take in MySQL's own layout of rows, TEXT and BLOB not counted.
const rowBytesMax = 65535

// checkRowSize refuses columns that MySQL would refuse together. Nothing here needs the limit: a table that keeps to it can
// be moved to MySQL.
func checkRowSize(columns sql.Schema) error {
	size, nullable := 0, 0
	for _, c := range columns {
		if c.HiddenSystem {
			continue
		}
		size += columnBytes(c.Type)
		if c.Nullable {
			nullable++
		}
	}
	if size+(nullable+7)/8 <= rowBytesMax {
		return nil
	}
	return newError(1118, "Row size too large. The maximum row size for the used table type, not counting BLOBs, is %d. "+
		"This includes storage overhead, check the manual. You have to change some columns to TEXT or BLOBs", rowBytesMax)
}

// columnBytes is what a column takes in MySQL's layout.
func columnBytes(t sql.Type) int {
	const pointer = 8 // of a TEXT or BLOB, besides its length
	switch t := t.(type) {
	case sql.StringType:
		n := int(t.MaxByteLength())
		switch t.Type() {
		case query.Type_CHAR, query.Type_BINARY:
			return n
		case query.Type_VARCHAR, query.Type_VARBINARY:
			if n > 255 {
				return n + 2
			}
			return n + 1
		}
		return pointer + lengthBytes(t.MaxByteLength())
	case sql.DecimalType:
		whole, fraction := int(t.Precision())-int(t.Scale()), int(t.Scale())
		return digitBytes(whole) + digitBytes(fraction)
	case sql.EnumType:
		if t.NumberOfElements() > 255 {
			return 2
		}
		return 1
	case sql.SetType:
		n := (int(t.NumberOfElements()) + 7) / 8
		if n > 4 {
			return 8
		}
		return n
	case types.BitType:
		return (int(t.NumberOfBits()) + 7) / 8
	}
	switch t.Type() {
	case query.Type_INT8, query.Type_UINT8, query.Type_YEAR:
		return 1
	case query.Type_INT16, query.Type_UINT16:
		return 2
	case query.Type_INT24, query.Type_UINT24, query.Type_DATE:
		return 3
	case query.Type_INT32, query.Type_UINT32, query.Type_FLOAT32:
		return 4
	case query.Type_JSON, query.Type_GEOMETRY, query.Type_VECTOR:
		return pointer + 4
	case query.Type_TIME:
		return 3 + fractionBytes(t)
	case query.Type_TIMESTAMP:
		return 4 + fractionBytes(t)
	case query.Type_DATETIME:
		return 5 + fractionBytes(t)
	}
	return 8
}

// fractionBytes is what the fractional digits of a second take.
func fractionBytes(t sql.Type) int {
	switch t := t.(type) {
	case timeType:
		return (int(t.digits) + 1) / 2
	case sql.DatetimeType:
		return (t.Precision() + 1) / 2
	}
	return 0
}

// digitBytes is what so many decimal digits take: four bytes for nine.
func digitBytes(n int) int {
	rest := [...]int{0, 1, 1, 2, 2, 3, 3, 4, 4}
	return n/9*4 + rest[n%9]
}

// lengthBytes is what the length of a TEXT or BLOB takes.
func lengthBytes(most int64) int {
	n := 1
	for ; most > 255; most >>= 8 {
		n++
	}
	return min(n, 4)
}
