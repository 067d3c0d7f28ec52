package zonebloom

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cespare/xxhash/v2"

	"lancesql/internal/errs"
)

// The hash of a value is XXH64, seed 0, of its bytes: numbers, dates and times little-endian in their own width, text and
// binary as they are. Spec: indexes, "BLOOMFILTER".

// Supported reports whether columns of type t can have this index: the types that Lance 14 takes.
func Supported(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64, arrow.FLOAT32,
		arrow.FLOAT64, arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.DATE32, arrow.DATE64, arrow.TIME32,
		arrow.TIME64, arrow.TIMESTAMP:
		return true
	default:
		return false
	}
}

func hash8(v uint8) uint64 { return xxhash.Sum64([]byte{v}) }

func hash16(v uint16) uint64 {
	var b [2]byte
	binary.LittleEndian.PutUint16(b[:], v)
	return xxhash.Sum64(b[:])
}

func hash32(v uint32) uint64 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	return xxhash.Sum64(b[:])
}

func hash64(v uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return xxhash.Sum64(b[:])
}

// hasher returns the function that hashes cell i of a, which is not NULL. a is of a Supported type.
func hasher(a arrow.Array) func(i int) uint64 {
	switch a := a.(type) {
	case *array.Int8:
		return func(i int) uint64 { return hash8(uint8(a.Value(i))) }
	case *array.Uint8:
		return func(i int) uint64 { return hash8(a.Value(i)) }
	case *array.Int16:
		return func(i int) uint64 { return hash16(uint16(a.Value(i))) }
	case *array.Uint16:
		return func(i int) uint64 { return hash16(a.Value(i)) }
	case *array.Int32:
		return func(i int) uint64 { return hash32(uint32(a.Value(i))) }
	case *array.Uint32:
		return func(i int) uint64 { return hash32(a.Value(i)) }
	case *array.Date32:
		return func(i int) uint64 { return hash32(uint32(a.Value(i))) }
	case *array.Time32:
		return func(i int) uint64 { return hash32(uint32(a.Value(i))) }
	case *array.Float32:
		return func(i int) uint64 { return hash32(math.Float32bits(a.Value(i))) }
	case *array.Int64:
		return func(i int) uint64 { return hash64(uint64(a.Value(i))) }
	case *array.Uint64:
		return func(i int) uint64 { return hash64(a.Value(i)) }
	case *array.Date64:
		return func(i int) uint64 { return hash64(uint64(a.Value(i))) }
	case *array.Time64:
		return func(i int) uint64 { return hash64(uint64(a.Value(i))) }
	case *array.Timestamp:
		return func(i int) uint64 { return hash64(uint64(a.Value(i))) }
	case *array.Float64:
		return func(i int) uint64 { return hash64(math.Float64bits(a.Value(i))) }
	case *array.String:
		return func(i int) uint64 { return xxhash.Sum64String(a.Value(i)) }
	case *array.LargeString:
		return func(i int) uint64 { return xxhash.Sum64String(a.Value(i)) }
	case *array.Binary:
		return func(i int) uint64 { return xxhash.Sum64(a.Value(i)) }
	case *array.LargeBinary:
		return func(i int) uint64 { return xxhash.Sum64(a.Value(i)) }
	default:
		return func(int) uint64 { return 0 }
	}
}

// hashesOf returns the hashes that a cell equal to v may have: both zeros are equal. known is false for NaN, whose bits
// may be any. errs.ErrInvalid for a value that is not of the column's Go type.
func hashesOf(t arrow.DataType, v any) (hashes []uint64, known bool, err error) {
	one := func(ok bool, h uint64) ([]uint64, bool, error) {
		if !ok {
			return nil, false, fmt.Errorf("a %T looked for in a bloom filter of %s: %w", v, t, errs.ErrInvalid)
		}
		return []uint64{h}, true, nil
	}
	switch x := v.(type) {
	case int8:
		return one(t.ID() == arrow.INT8, hash8(uint8(x)))
	case uint8:
		return one(t.ID() == arrow.UINT8, hash8(x))
	case int16:
		return one(t.ID() == arrow.INT16, hash16(uint16(x)))
	case uint16:
		return one(t.ID() == arrow.UINT16, hash16(x))
	case int32:
		return one(t.ID() == arrow.INT32, hash32(uint32(x)))
	case uint32:
		return one(t.ID() == arrow.UINT32, hash32(x))
	case arrow.Date32:
		return one(t.ID() == arrow.DATE32, hash32(uint32(x)))
	case arrow.Time32:
		return one(t.ID() == arrow.TIME32, hash32(uint32(x)))
	case int64:
		return one(t.ID() == arrow.INT64, hash64(uint64(x)))
	case uint64:
		return one(t.ID() == arrow.UINT64, hash64(x))
	case arrow.Date64:
		return one(t.ID() == arrow.DATE64, hash64(uint64(x)))
	case arrow.Time64:
		return one(t.ID() == arrow.TIME64, hash64(uint64(x)))
	case arrow.Timestamp:
		return one(t.ID() == arrow.TIMESTAMP, hash64(uint64(x)))
	case float32:
		if t.ID() == arrow.FLOAT32 && x != x {
			return nil, false, nil
		}
		if t.ID() == arrow.FLOAT32 && x == 0 {
			return []uint64{hash32(0), hash32(1 << 31)}, true, nil
		}
		return one(t.ID() == arrow.FLOAT32, hash32(math.Float32bits(x)))
	case float64:
		if t.ID() == arrow.FLOAT64 && x != x {
			return nil, false, nil
		}
		if t.ID() == arrow.FLOAT64 && x == 0 {
			return []uint64{hash64(0), hash64(1 << 63)}, true, nil
		}
		return one(t.ID() == arrow.FLOAT64, hash64(math.Float64bits(x)))
	case string:
		return one(t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING, xxhash.Sum64String(x))
	case []byte:
		return one(t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY, xxhash.Sum64(x))
	}
	return one(false, 0)
}
