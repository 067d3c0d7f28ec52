package bloom

import (
	"encoding/binary"
	"fmt"

	"lancesql/internal/errs"
)

// A split-block bloom filter:
//
//	filter: blocks of 32 bytes;  block: 8 words u32
//	block of hash h:             (h>>32) * blocks >> 32
//	bit of word i:               uint32(h) * salt[i] >> 27
//
// Spec: MemWAL, "bloom_filter.bin"; Parquet, "Bloom filter".
const (
	blockBytes = 32
	blockWords = 8

	// filterBytesMax is the largest filter that the format writes.
	filterBytesMax = 1 << 27
)

// salts spread the lower half of a hash over the words of a block.
var salts = [blockWords]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// Filter is a set of 64-bit hashes. It is not safe for concurrent changes.
type Filter struct{ bits []byte }

// NewFilter returns an empty filter of so many bytes, a multiple of 32.
func NewFilter(size int) (*Filter, error) {
	if size <= 0 || size%blockBytes != 0 || size > filterBytesMax {
		return nil, fmt.Errorf("bloom filter of %d bytes: %w", size, errs.ErrInvalid)
	}
	return &Filter{make([]byte, size)}, nil
}

// FilterOf wraps the bytes of a stored filter without copying; object names their place in errors. errs.ErrCorruption for
// a length that no filter has.
func FilterOf(object string, bits []byte) (*Filter, error) {
	if len(bits) == 0 || len(bits)%blockBytes != 0 || len(bits) > filterBytesMax {
		return nil, errs.Corrupt(object, -1, "bloom filter of %d bytes", len(bits))
	}
	return &Filter{bits}, nil
}

// Bytes returns the filter as it is stored. Read-only.
func (f *Filter) Bytes() []byte { return f.bits }

func (f *Filter) block(h uint64) []byte {
	n := uint64(len(f.bits) / blockBytes)
	at := (h >> 32) * n >> 32
	return f.bits[at*blockBytes:][:blockBytes]
}

// Add puts a hash in.
func (f *Filter) Add(h uint64) {
	b := f.block(h)
	for i, salt := range salts {
		word := binary.LittleEndian.Uint32(b[4*i:]) | 1<<(uint32(h)*salt>>27)
		binary.LittleEndian.PutUint32(b[4*i:], word)
	}
}

// MayHold reports whether a hash may have been put in; false is certain.
func (f *Filter) MayHold(h uint64) bool {
	b := f.block(h)
	for i, salt := range salts {
		if binary.LittleEndian.Uint32(b[4*i:])>>(uint32(h)*salt>>27)&1 == 0 {
			return false
		}
	}
	return true
}
