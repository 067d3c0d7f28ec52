package rowaddr

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/errs"
)

// The portable serialisation of a 32-bit Roaring bitmap:
//
//	without runs: u32 12346 | u32 containers | containers x (u16 key | u16 cardinality-1) | containers x u32 offset | containers
//	with runs:    u32 12347|(containers-1)<<16 | run flags, one bit per container | containers x (u16 key | u16 cardinality-1)
//	              | containers x u32 offset, only if containers >= 4 | containers
//	container:    run: u16 n | n x (u16 start | u16 length-1);  cardinality <= 4096: u16 values;  else 8192 bytes of bits
//
// Spec: RoaringFormatSpec.
const (
	roaringCookie     = 12346
	roaringCookieRuns = 12347
	roaringOffsetsMin = 4 // containers from which a stream with runs has offsets
	roaringArrayMax   = 4096
	roaringBitsBytes  = 8192
	roaringKeysMax    = 1 << 16
)

// EncodeBitmap serialises offsets (or fragment ids) in the portable form; readers accept one with and without runs.
func EncodeBitmap(b *roaring.Bitmap) ([]byte, error) {
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("encode bitmap: %w", err)
	}
	return out.Bytes(), nil
}

// roaringReader walks a serialised bitmap; every read is checked against the rest.
type roaringReader struct {
	object string
	b      []byte
	at     int
}

func (r *roaringReader) bad(format string, args ...any) error {
	return errs.Corrupt(r.object, int64(r.at), "bitmap: "+format, args...)
}

func (r *roaringReader) take(n int) ([]byte, error) {
	if n > len(r.b)-r.at {
		return nil, r.bad("%d bytes wanted, %d left", n, len(r.b)-r.at)
	}
	p := r.b[r.at : r.at+n]
	r.at += n
	return p, nil
}

// DecodeBitmap parses untrusted bytes, all of them; object names their place in errors. errs.ErrCorruption if they are damaged.
// Why: the library's own decoder trusts counts and order inside containers; a damaged file must be an error, not a
// bitmap that misbehaves later.
func DecodeBitmap(object string, b []byte) (*roaring.Bitmap, error) {
	r := &roaringReader{object: object, b: b}
	containers, runs, err := r.header()
	if err != nil {
		return nil, err
	}
	keys, err := r.take(4 * containers)
	if err != nil {
		return nil, err
	}
	if runs == nil || containers >= roaringOffsetsMin {
		if _, err := r.take(4 * containers); err != nil { // offsets repeat what the order says
			return nil, err
		}
	}
	out := roaring.New()
	last := -1
	for i := range containers {
		key := int(binary.LittleEndian.Uint16(keys[4*i:]))
		count := int(binary.LittleEndian.Uint16(keys[4*i+2:])) + 1
		if key <= last {
			return nil, r.bad("container key %d follows %d", key, last)
		}
		last = key
		if err := r.container(out, uint32(key)<<16, count, runs != nil && runs[i/8]>>(i%8)&1 == 1); err != nil {
			return nil, err
		}
	}
	if r.at != len(b) {
		return nil, r.bad("%d bytes after the last container", len(b)-r.at)
	}
	return out, nil
}

func (r *roaringReader) header() (containers int, runs []byte, err error) {
	head, err := r.take(4)
	if err != nil {
		return 0, nil, err
	}
	cookie := binary.LittleEndian.Uint32(head)
	if cookie&0xffff == roaringCookieRuns {
		containers = int(cookie>>16) + 1
		runs, err = r.take((containers + 7) / 8)
		return containers, runs, err
	}
	if cookie != roaringCookie {
		return 0, nil, r.bad("cookie %d", cookie)
	}
	if head, err = r.take(4); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head)
	if n > roaringKeysMax {
		return 0, nil, r.bad("%d containers", n)
	}
	return int(n), nil, nil
}

func (r *roaringReader) container(out *roaring.Bitmap, base uint32, count int, run bool) error {
	switch {
	case run:
		return r.runs(out, base, count)
	case count <= roaringArrayMax:
		return r.array(out, base, count)
	}
	return r.bits(out, base, count)
}

func (r *roaringReader) runs(out *roaring.Bitmap, base uint32, count int) error {
	head, err := r.take(2)
	if err != nil {
		return err
	}
	body, err := r.take(4 * int(binary.LittleEndian.Uint16(head)))
	if err != nil {
		return err
	}
	next, total := 0, 0
	for ; len(body) > 0; body = body[4:] {
		start := int(binary.LittleEndian.Uint16(body))
		end := start + int(binary.LittleEndian.Uint16(body[2:])) + 1
		if start < next || end > 1<<16 {
			return r.bad("run %d to %d out of order or range", start, end)
		}
		out.AddRange(uint64(base)+uint64(start), uint64(base)+uint64(end))
		next, total = end, total+end-start
	}
	if total != count {
		return r.bad("runs hold %d values, %d announced", total, count)
	}
	return nil
}

func (r *roaringReader) array(out *roaring.Bitmap, base uint32, count int) error {
	body, err := r.take(2 * count)
	if err != nil {
		return err
	}
	values := make([]uint32, count)
	for i := range values {
		values[i] = base | uint32(binary.LittleEndian.Uint16(body[2*i:]))
		if i > 0 && values[i] <= values[i-1] {
			return r.bad("array values are not ascending")
		}
	}
	out.AddMany(values)
	return nil
}

func (r *roaringReader) bits(out *roaring.Bitmap, base uint32, count int) error {
	body, err := r.take(roaringBitsBytes)
	if err != nil {
		return err
	}
	values := make([]uint32, 0, count)
	for w := 0; w < roaringBitsBytes; w += 8 {
		for word := binary.LittleEndian.Uint64(body[w:]); word != 0; word &= word - 1 {
			if len(values) == count {
				return r.bad("more than %d bits", count)
			}
			values = append(values, base|uint32(w*8+bits.TrailingZeros64(word)))
		}
	}
	if len(values) != count {
		return r.bad("%d bits, %d announced", len(values), count)
	}
	out.AddMany(values)
	return nil
}
