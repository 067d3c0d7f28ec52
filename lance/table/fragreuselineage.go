package table

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"lancesql/internal/errs"
)

// sort puts the steps into an order in which fragments are made before they are used, and checks the lineage: at most
// one producer and one consumer of a fragment, equal row counts on both sides, no cycle.
// Spec: Fragment Reuse Index, "Shared Transition Metadata".
func (h *FragmentReuse) sort(object string) error {
	producer, consumer := make(map[uint32]int), make(map[uint32]int)
	for i := range h.Steps {
		for _, d := range h.Steps[i].Sources {
			if j, twice := consumer[d.ID]; twice {
				return errs.Corrupt(object, -1, "fragment %d was rewritten twice (steps %d and %d)", d.ID, j, i)
			}
			consumer[d.ID] = i
		}
		for _, d := range h.Steps[i].Destinations {
			if j, twice := producer[d.ID]; twice {
				return errs.Corrupt(object, -1, "fragment %d was made twice (steps %d and %d)", d.ID, j, i)
			}
			producer[d.ID] = i
		}
	}
	waits := make([]int, len(h.Steps)) // how many sources are made by steps not placed yet
	rows := make(map[uint32]ReuseDigest)
	for i := range h.Steps {
		for _, d := range h.Steps[i].Destinations {
			rows[d.ID] = d
		}
	}
	inOrder := true
	for i := range h.Steps {
		for _, d := range h.Steps[i].Sources {
			made, ok := rows[d.ID]
			if !ok {
				continue
			}
			inOrder = inOrder && producer[d.ID] < i
			if made.PhysicalRows != d.PhysicalRows || d.DeletedRows < made.DeletedRows {
				return errs.Corrupt(object, -1, "fragment %d was made with %d rows and used with %d", d.ID, made.PhysicalRows, d.PhysicalRows)
			}
			waits[i]++
		}
	}
	if inOrder {
		return nil
	}
	order := make([]int, 0, len(h.Steps))
	for i, n := range waits {
		if n == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, d := range h.Steps[order[k]].Destinations {
			if next, ok := consumer[d.ID]; ok {
				if waits[next]--; waits[next] == 0 {
					order = append(order, next)
				}
			}
		}
	}
	if len(order) < len(h.Steps) {
		return errs.Corrupt(object, -1, "the history goes round in a circle")
	}
	sorted := make([]ReuseStep, len(order))
	for k, i := range order {
		sorted[k] = h.Steps[i]
	}
	h.Steps = sorted
	return nil
}

func unsupportedRecord(object string, number protowire.Number) error {
	return fmt.Errorf("%s: the fragment reuse history has a record of an unknown kind (field %d): %w", object, number, errs.ErrUnsupported)
}

// Coverage maps the fragments that an index segment covers by its entry to those that it covers after translation: a
// step whose sources are all covered makes its destinations covered; of any other step the sources are lost and nothing
// is gained. Destinations of a step of an unknown kind are never covered, even if the entry names them: other writers
// store bitmaps that went through the history already. covered is not changed; h may be nil.
//
// Entries of kinds that hold positions (zone maps, bloom filters) must not be mapped: see PositionalCoverage.
// Spec: Fragment Reuse Index; docs/format/fri.md, "Coverage".
func (h *FragmentReuse) Coverage(covered *roaring.Bitmap) *roaring.Bitmap {
	out := covered.Clone()
	if h == nil {
		return out
	}
	for i := range h.Steps {
		s := &h.Steps[i]
		have := 0
		for _, d := range s.Sources {
			if out.CheckedRemove(d.ID) {
				have++
			}
		}
		for _, d := range s.Destinations {
			switch {
			case !s.Known():
				out.Remove(d.ID)
			case have == len(s.Sources):
				out.Add(d.ID)
			}
		}
	}
	return out
}

// PositionalCoverage is Coverage for kinds whose content cannot be translated: fragments that were rewritten are lost.
// An entry may still name destinations of a step because another writer mapped its bitmap. Whoever opens such a segment
// must therefore treat a covered fragment of which the file says nothing as not covered.
func (h *FragmentReuse) PositionalCoverage(covered *roaring.Bitmap) *roaring.Bitmap {
	out := covered.Clone()
	if h == nil {
		return out
	}
	for i := range h.Steps {
		for _, d := range h.Steps[i].Sources {
			out.Remove(d.ID)
		}
	}
	return out
}

// ancestors adds to ids every fragment whose rows may have ended in one of them.
func (h *FragmentReuse) ancestors(ids map[uint64]bool) map[uint64]bool {
	if h == nil {
		return ids
	}
	out := make(map[uint64]bool, len(ids))
	for id := range ids {
		out[id] = true
	}
	for i := len(h.Steps) - 1; i >= 0; i-- { // destinations first
		s := &h.Steps[i]
		if !slices.ContainsFunc(s.Destinations, func(d ReuseDigest) bool { return out[uint64(d.ID)] }) {
			continue
		}
		for _, d := range s.Sources {
			out[uint64(d.ID)] = true
		}
	}
	return out
}
