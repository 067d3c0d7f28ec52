package bitmap

import (
	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/lance/rowaddr"
)

// union collects sets and joins them fragment by fragment at the end, which is much cheaper than one after the other.
type union struct {
	whole     map[uint32]bool
	fragments map[uint32][]*roaring.Bitmap
}

// add takes in a set, which must not change afterwards.
func (u *union) add(set *rowaddr.Treemap) {
	if u.fragments == nil {
		u.fragments, u.whole = make(map[uint32][]*roaring.Bitmap), make(map[uint32]bool)
	}
	for _, f := range set.Fragments() {
		if offsets, whole := set.Offsets(f); whole {
			u.whole[f] = true
		} else {
			u.fragments[f] = append(u.fragments[f], offsets)
		}
	}
}

// join returns the union, which the caller owns.
func (u *union) join() *rowaddr.Treemap {
	out := rowaddr.NewTreemap()
	for f := range u.whole {
		out.AddFragment(f)
	}
	for f, sets := range u.fragments {
		if !u.whole[f] {
			out.AddOffsets(f, roaring.FastOr(sets...))
		}
	}
	return out
}
