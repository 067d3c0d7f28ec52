package bloom

import (
	"errors"
	"testing"

	"lancesql/internal/errs"
)

// FuzzFilter: bytes become a filter or corruption, and a filter that was given a hash has it.
func FuzzFilter(f *testing.F) {
	f.Add(NewPK().Bytes(), uint64(0x54fe547feaf614e5))
	f.Add(make([]byte, 32), uint64(1))
	f.Add([]byte{1}, uint64(0))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, h uint64) {
		if _, err := decodePK("x", data); err != nil && !errors.Is(err, errs.ErrCorruption) {
			t.Fatal(err)
		}
		filter, err := FilterOf("x", data)
		if err != nil {
			if !errors.Is(err, errs.ErrCorruption) {
				t.Fatal(err)
			}
			return
		}
		filter.MayHold(h)
		filter.Add(h)
		if !filter.MayHold(h) {
			t.Fatalf("%x was added", h)
		}
	})
}
