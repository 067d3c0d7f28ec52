package rowaddr

import (
	"iter"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Treemap is a set of row addresses: for each fragment the offsets in it, or the whole fragment, whose number of rows
// the set does not know. The zero value is not usable; it is not safe for concurrent changes.
type Treemap struct {
	fragments map[uint32]*roaring.Bitmap // nil: the whole fragment; never an empty bitmap
}

// NewTreemap returns an empty set.
func NewTreemap() *Treemap { return &Treemap{fragments: make(map[uint32]*roaring.Bitmap)} }

// Add adds one address.
func (t *Treemap) Add(a Addr) {
	if b := t.part(a.Fragment()); b != nil {
		b.Add(a.Offset())
	}
}

// AddMany adds addresses in any order; runs of one fragment are added together.
func (t *Treemap) AddMany(addrs []Addr) {
	offsets := make([]uint32, 0, min(len(addrs), 4096))
	for from := 0; from < len(addrs); {
		fragment := addrs[from].Fragment()
		offsets = offsets[:0]
		for ; from < len(addrs) && addrs[from].Fragment() == fragment && len(offsets) < 4096; from++ {
			offsets = append(offsets, addrs[from].Offset())
		}
		if b := t.part(fragment); b != nil {
			b.AddMany(offsets)
		}
	}
}

// AddRange adds the offsets from up to, not including, to.
func (t *Treemap) AddRange(fragment uint32, from, to uint64) {
	if from >= to {
		return
	}
	if b := t.part(fragment); b != nil {
		b.AddRange(from, min(to, 1<<32))
	}
}

// AddFragment adds all rows of a fragment.
func (t *Treemap) AddFragment(fragment uint32) { t.fragments[fragment] = nil }

// AddOffsets adds the offsets of a fragment; offsets is borrowed.
func (t *Treemap) AddOffsets(fragment uint32, offsets *roaring.Bitmap) {
	if offsets.IsEmpty() {
		return
	}
	if b := t.part(fragment); b != nil {
		b.Or(offsets)
	}
}

// part returns the bitmap of a fragment to add to, nil if the whole fragment is in the set.
func (t *Treemap) part(fragment uint32) *roaring.Bitmap {
	b, ok := t.fragments[fragment]
	if !ok {
		b = roaring.New()
		t.fragments[fragment] = b
	}
	return b
}

// Contains reports whether a is in the set.
func (t *Treemap) Contains(a Addr) bool {
	b, ok := t.fragments[a.Fragment()]
	return ok && (b == nil || b.Contains(a.Offset()))
}

// Fragments returns the ids of the fragments that have rows in the set, ascending.
func (t *Treemap) Fragments() []uint32 {
	ids := make([]uint32, 0, len(t.fragments))
	for id := range t.fragments {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Offsets returns the offsets of a fragment: a bitmap to read only, or whole if all its rows are in the set. Both are
// zero for a fragment without rows in it.
func (t *Treemap) Offsets(fragment uint32) (offsets *roaring.Bitmap, whole bool) {
	b, ok := t.fragments[fragment]
	return b, ok && b == nil
}

// IsEmpty reports whether the set has no rows.
func (t *Treemap) IsEmpty() bool { return len(t.fragments) == 0 }

// Count returns the number of addresses; exact is false if whole fragments are in the set, which are not counted.
func (t *Treemap) Count() (n uint64, exact bool) {
	exact = true
	for _, b := range t.fragments {
		if b == nil {
			exact = false
			continue
		}
		n += b.GetCardinality()
	}
	return n, exact
}

// All yields the addresses in ascending order. Whole fragments are skipped: ask Offsets.
func (t *Treemap) All() iter.Seq[Addr] {
	return func(yield func(Addr) bool) {
		for _, id := range t.Fragments() {
			b := t.fragments[id]
			if b == nil {
				continue
			}
			for it := b.Iterator(); it.HasNext(); {
				if !yield(New(id, it.Next())) {
					return
				}
			}
		}
	}
}

// Clone returns an independent copy.
func (t *Treemap) Clone() *Treemap {
	c := NewTreemap()
	for id, b := range t.fragments {
		if b != nil {
			b = b.Clone()
		}
		c.fragments[id] = b
	}
	return c
}

// Or adds the addresses of o.
func (t *Treemap) Or(o *Treemap) {
	for id, b := range o.fragments {
		if b == nil {
			t.fragments[id] = nil
		} else {
			t.AddOffsets(id, b)
		}
	}
}

// And keeps the addresses that are also in o.
func (t *Treemap) And(o *Treemap) {
	for id, b := range t.fragments {
		other, ok := o.fragments[id]
		switch {
		case !ok:
			delete(t.fragments, id)
		case other == nil:
		case b == nil:
			t.fragments[id] = other.Clone()
		default:
			if b.And(other); b.IsEmpty() {
				delete(t.fragments, id)
			}
		}
	}
}

// AndNot removes the addresses of o. A whole fragment loses nothing but to a whole fragment: what remains of it cannot
// be said without its number of rows, so the result may be larger than the difference then, never smaller.
func (t *Treemap) AndNot(o *Treemap) {
	for id, b := range t.fragments {
		other, ok := o.fragments[id]
		switch {
		case !ok:
		case other == nil:
			delete(t.fragments, id)
		case b != nil:
			if b.AndNot(other); b.IsEmpty() {
				delete(t.fragments, id)
			}
		}
	}
}

// Retain removes the addresses of fragments that are not in keep.
func (t *Treemap) Retain(keep *roaring.Bitmap) {
	for id := range t.fragments {
		if !keep.Contains(id) {
			delete(t.fragments, id)
		}
	}
}
