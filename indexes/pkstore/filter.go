package pkstore

import (
	"sync"
	"unsafe"

	"github.com/bits-and-blooms/bloom/v3"

	"lancesql/internal/rowkey"
)

const (
	// filterFalse is the share of other keys that seem to be in a part of a Filter: 10 bits a key.
	filterFalse = 0.01
	// filterKeysMin is the least number of keys a part is made for.
	filterKeysMin = 4096
)

// Filter says for certain that a key was not added, at a tenth of the cost of a look-up. It grows: each part that is full
// is followed by one for twice as many keys, so that a MemTable needs no estimate and wastes at most half.
// It is safe for concurrent use. mu guards everything; readers hold it shared for the time of a few hashes.
type Filter struct {
	mu    sync.RWMutex
	parts []*bloom.BloomFilter
	room  int // keys the last part still takes
	size  int // keys the last part is made for
}

// NewFilter returns an empty filter; keys is how many are expected, 0: not known.
func NewFilter(keys int) *Filter {
	f := &Filter{}
	f.grow(max(keys, filterKeysMin))
	return f
}

// grow appends a part. The caller holds mu.
func (f *Filter) grow(keys int) {
	f.parts = append(f.parts, bloom.NewWithEstimates(uint(keys), filterFalse))
	f.room, f.size = keys, keys
}

// Add puts keys in. Adding one again costs room but changes nothing.
func (f *Filter) Add(keys ...rowkey.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range keys {
		if f.room == 0 {
			f.grow(2 * f.size)
		}
		f.parts[len(f.parts)-1].Add(keyBytes(k))
		f.room--
	}
}

// MayHold reports whether k may have been added; false is certain.
func (f *Filter) MayHold(k rowkey.Key) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, p := range f.parts {
		if p.Test(keyBytes(k)) {
			return true
		}
	}
	return false
}

// Bytes returns the memory held.
func (f *Filter) Bytes() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := int64(0)
	for _, p := range f.parts {
		n += int64(p.Cap() / 8)
	}
	return n
}

// keyBytes is k without a copy; nobody changes it.
func keyBytes(k rowkey.Key) []byte { return unsafe.Slice(unsafe.StringData(string(k)), len(k)) }
