package rowaddr

import (
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/errs"
)

// A RowAddrTreeMap, as index files hold sets of addresses:
//
//	u32 fragments | fragments x (u32 fragment id | u32 size | size bytes: portable 32-bit Roaring bitmap of offsets)
//
// Fragment ids ascend. Size 0 stands for the whole fragment. All numbers are little-endian.
// Spec: indexes, "Addresses and bitmaps".
const treemapEntryBytes = 8

// Encode serialises the set as a RowAddrTreeMap. errs.ErrLimit if the offsets of one fragment take 4 GiB.
func (t *Treemap) Encode() ([]byte, error) {
	ids := t.Fragments()
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(ids)))
	for _, id := range ids {
		out = binary.LittleEndian.AppendUint32(out, id)
		offsets, whole := t.Offsets(id)
		if whole {
			out = binary.LittleEndian.AppendUint32(out, 0)
			continue
		}
		b, err := EncodeBitmap(offsets)
		if err != nil {
			return nil, err
		}
		if uint64(len(b)) > 1<<32-1 {
			return nil, fmt.Errorf("offsets of fragment %d take %d bytes: %w", id, len(b), errs.ErrLimit)
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(b))), b...)
	}
	return out, nil
}

// DecodeTreemap parses an untrusted RowAddrTreeMap, all of b; object names its place in errors. errs.ErrCorruption if
// it is damaged.
func DecodeTreemap(object string, b []byte) (*Treemap, error) {
	t := NewTreemap()
	err := EachFragment(object, b, func(fragment uint32, offsets *roaring.Bitmap, whole bool) error {
		if whole {
			t.AddFragment(fragment)
		} else {
			t.AddOffsets(fragment, offsets)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// EachFragment hands the fragments of an untrusted RowAddrTreeMap to visit, in order: the offsets, which visit may keep,
// or whole. It stops at the first error.
func EachFragment(object string, b []byte, visit func(fragment uint32, offsets *roaring.Bitmap, whole bool) error) error {
	if len(b) < 4 {
		return errs.Corrupt(object, 0, "set of addresses of %d bytes", len(b))
	}
	n, at, last := binary.LittleEndian.Uint32(b), 4, int64(-1)
	for i := range n {
		if len(b)-at < treemapEntryBytes {
			return errs.Corrupt(object, int64(at), "set of addresses ends after %d of %d fragments", i, n)
		}
		id, size := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])
		at += treemapEntryBytes
		if int64(id) <= last {
			return errs.Corrupt(object, int64(at), "fragment %d follows %d in a set of addresses", id, last)
		}
		last = int64(id)
		if uint64(size) > uint64(len(b)-at) {
			return errs.Corrupt(object, int64(at), "offsets of fragment %d take %d bytes of %d", id, size, len(b)-at)
		}
		if size == 0 {
			if err := visit(id, nil, true); err != nil {
				return err
			}
			continue
		}
		offsets, err := DecodeBitmap(object, b[at:at+int(size)])
		if err != nil {
			return fmt.Errorf("offsets of fragment %d at %d: %w", id, at, err)
		}
		at += int(size)
		if err := visit(id, offsets, false); err != nil {
			return err
		}
	}
	if at != len(b) {
		return errs.Corrupt(object, int64(at), "%d bytes after a set of addresses", len(b)-at)
	}
	return nil
}
