package rowkey

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
)

// Layout of one column of a tuple; columns follow each other without separators.
//
//	NULL      00
//	others    01 | value
//	int       8 bytes BE of the value as int64 with its sign bit flipped
//	uint      8 bytes BE of the value as uint64
//	bool      00 or 01
//	bytes     the bytes with 00 written as 00 ff, then 00 00
//	float     8 bytes BE: bits of the float64, all flipped if negative, else the sign bit flipped   (*)
//	decimal   16 or 32 bytes BE two's complement with the sign bit flipped                          (*)
//
// (*) ours, only in hidden key columns: the specification's tuple encoding has no such types.
const (
	markNull  = 0x00
	markValue = 0x01
	signBit   = 1 << 63
)

// AppendNull appends NULL, which sorts below every value.
func AppendNull(dst []byte) []byte { return append(dst, markNull) }

// AppendBool appends false (below) or true.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, markValue, 1)
	}
	return append(dst, markValue, 0)
}

// AppendInt64 appends a signed integer; narrower ones, dates and times of one unit are widened first.
func AppendInt64(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, markValue), uint64(v)^signBit)
}

// AppendUint64 appends an unsigned integer; narrower ones are widened first.
func AppendUint64(dst []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, markValue), v)
}

// AppendBytes appends a byte string, which may hold any bytes; strings compare bytewise, prefixes first.
func AppendBytes(dst, v []byte) []byte {
	dst = append(dst, markValue)
	for {
		i := bytes.IndexByte(v, 0)
		if i < 0 {
			break
		}
		dst = append(append(dst, v[:i]...), 0x00, 0xff)
		v = v[i+1:]
	}
	return append(append(dst, v...), 0x00, 0x00)
}

// AppendString is AppendBytes for a string.
func AppendString(dst []byte, v string) []byte {
	dst = append(dst, markValue)
	for i := 0; i < len(v); i++ {
		if dst = append(dst, v[i]); v[i] == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0x00, 0x00)
}

// AppendFloat64 appends a float: -0 equals +0, every NaN is the same and sorts above +Inf.
func AppendFloat64(dst []byte, v float64) []byte {
	bits := math.Float64bits(v)
	switch {
	case v != v:
		bits = 0x7ff8000000000000
	case v == 0:
		bits = 0
	}
	if bits&signBit != 0 {
		bits = ^bits
	} else {
		bits |= signBit
	}
	return binary.BigEndian.AppendUint64(append(dst, markValue), bits)
}

// AppendDecimal128 appends an unscaled decimal; all values of a column have the same scale.
func AppendDecimal128(dst []byte, v decimal128.Num) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, markValue), uint64(v.HighBits())^signBit)
	return binary.BigEndian.AppendUint64(dst, v.LowBits())
}

// AppendDecimal256 appends an unscaled decimal; all values of a column have the same scale.
func AppendDecimal256(dst []byte, v decimal256.Num) []byte {
	words := v.Array() // least significant first
	dst = binary.BigEndian.AppendUint64(append(dst, markValue), words[3]^signBit)
	for i := 2; i >= 0; i-- {
		dst = binary.BigEndian.AppendUint64(dst, words[i])
	}
	return dst
}

// AppendTimestamp appends a point in time as a count of one unit; all values of a column have the same unit.
func AppendTimestamp(dst []byte, v int64) []byte { return AppendInt64(dst, v) }

// After returns the smallest byte string above every key that begins with prefix: the exclusive upper bound of
// a range over a tuple prefix, or of the single key prefix. It is "" (no bound) when there is none.
func After(prefix Key) Key {
	for n := len(prefix); n > 0; n-- {
		if c := prefix[n-1]; c != 0xff {
			return prefix[:n-1] + Key([]byte{c + 1})
		}
	}
	return ""
}
