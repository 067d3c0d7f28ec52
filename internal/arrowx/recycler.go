package arrowx

import (
	"math/bits"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	recyclerAlign = 64                   // of every buffer, as Arrow recommends
	recyclerSteps = 4                    // buffer sizes per doubling
	recyclerMax   = 1 << 26              // greatest buffer kept, in bytes
	recyclerBytes = 1 << 26              // memory kept by default
	recyclerKinds = recyclerSteps*20 + 1 // from recyclerAlign to recyclerMax
)

// Recycler is an Arrow allocator that hands out again the memory of buffers that were released, so that a scan works in
// the same few cached pages instead of giving the garbage collector its whole volume. Buffers are not cleared.
//
// It is for callers that release every batch and keep nothing of it: a string or slice into a released batch changes
// its content. Memory that is never released is collected as usual. Safe for concurrent use.
type Recycler struct {
	limit int // bytes

	mu   sync.Mutex
	free [recyclerKinds][][]byte // under mu; buffers of exactly recyclerSize(kind) bytes, last released last
	kept int                     // under mu; bytes in free
}

// NewRecycler returns an allocator that keeps at most limit bytes of released memory; 0 means 64 MiB.
func NewRecycler(limit int) *Recycler {
	if limit <= 0 {
		limit = recyclerBytes
	}
	return &Recycler{limit: limit}
}

// recyclerKind returns the smallest kind of buffer that holds n bytes, recyclerKinds if there is none.
func recyclerKind(n int) int {
	if n <= recyclerAlign {
		return 0
	}
	if n > recyclerMax {
		return recyclerKinds
	}
	// Sizes between 2^k and 2^(k+1) are 2^k + i·2^(k-2).
	k := bits.Len(uint(n-1)) - 1
	part := (n - 1 - 1<<k) >> (k - 2)
	return (k-6)*recyclerSteps + part + 1
}

// recyclerSize returns the bytes of a kind of buffer.
func recyclerSize(kind int) int {
	k, part := kind/recyclerSteps+6, kind%recyclerSteps
	return 1<<k + part<<(k-2)
}

// Allocate implements memory.Allocator. The content is arbitrary.
func (r *Recycler) Allocate(size int) []byte {
	kind := recyclerKind(size)
	if kind >= recyclerKinds {
		return alignedBytes(size)[:size]
	}
	r.mu.Lock()
	if list := r.free[kind]; len(list) > 0 {
		b := list[len(list)-1]
		list[len(list)-1] = nil
		r.free[kind] = list[:len(list)-1]
		r.kept -= len(b)
		r.mu.Unlock()
		return b[:size]
	}
	r.mu.Unlock()
	return alignedBytes(recyclerSize(kind))[:size]
}

// alignedBytes returns n new bytes whose first has an address divisible by recyclerAlign; nothing lies behind them.
func alignedBytes(n int) []byte {
	b := make([]byte, n+recyclerAlign)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (recyclerAlign - 1)
	return b[skip : skip+n : skip+n]
}

// Reallocate implements memory.Allocator.
func (r *Recycler) Reallocate(size int, b []byte) []byte {
	if cap(b) >= size && b != nil {
		return b[:size]
	}
	out := r.Allocate(size)
	copy(out, b)
	r.Free(b)
	return out
}

// Free implements memory.Allocator.
func (r *Recycler) Free(b []byte) {
	b = b[:cap(b)]
	kind := recyclerKind(len(b))
	if kind >= recyclerKinds || recyclerSize(kind) != len(b) {
		return // too large, or not ours
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept+len(b) > r.limit {
		return
	}
	r.free[kind] = append(r.free[kind], b)
	r.kept += len(b)
}

var _ memory.Allocator = (*Recycler)(nil)
