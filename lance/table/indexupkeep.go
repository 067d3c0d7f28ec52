package table

import (
	"fmt"
	"slices"
	"strings"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

const (
	fragmentReuseName       = "__lance_frag_reuse"
	fragmentReuseTypeSuffix = "fragmentreuseindexdetails"
)

// isFragmentReuse recognises the system entry that says where compaction moved rows.
func isFragmentReuse(e *pb.IndexMetadata) bool {
	return e.Name == fragmentReuseName || hasTypeSuffix(e, fragmentReuseTypeSuffix)
}

// hasTypeSuffix compares the end of the type of an entry's details, whatever its letter case.
func hasTypeSuffix(e *pb.IndexMetadata, suffix string) bool {
	return strings.HasSuffix(strings.ToLower(e.GetIndexDetails().GetTypeUrl()), strings.ToLower(suffix))
}

// uncover takes fragments out of the bitmaps of entries on any of the fields (nil: of all entries) that keep does not
// spare (nil: none): their rows are scanned from then on. A bitmap may name, instead of a fragment, those it came from by
// the history h; they go as well. Why: an entry whose bitmap becomes empty stays; dropping it would lose that somebody
// wanted it. Spec: table index section, "Maintenance".
func (b *builder) uncover(h *FragmentReuse, gone map[uint64]bool, fields []int32, keep func(e *pb.IndexMetadata) bool) error {
	gone = h.ancestors(gone)
	for i, e := range b.indices {
		if isMemWAL(e) || isFragmentReuse(e) || keep != nil && keep(e) {
			continue
		}
		if fields != nil && !slices.ContainsFunc(e.Fields, func(id int32) bool { return slices.Contains(fields, id) }) {
			continue
		}
		if len(e.FragmentBitmap) == 0 {
			return fmt.Errorf("index entry %q does not say which fragments it covers: %w", e.Name, errs.ErrUnsupported)
		}
		covered, err := decodeRoaring(b.parent.object, e.FragmentBitmap)
		if err != nil {
			return fmt.Errorf("index entry %q: fragment bitmap: %w", e.Name, err)
		}
		before := covered.GetCardinality()
		for id := range gone {
			covered.Remove(uint32(id))
		}
		if covered.GetCardinality() == before {
			continue
		}
		bitmap, err := encodeRoaring(covered)
		if err != nil {
			return fmt.Errorf("index entry %q: fragment bitmap: %w", e.Name, err)
		}
		next := shallowCopy(e)
		next.FragmentBitmap = bitmap
		b.indices[i] = next
	}
	return nil
}

// dropVanished removes entries on fields that the schema no longer has.
func (b *builder) dropVanished() {
	b.indices = slices.DeleteFunc(b.indices, func(e *pb.IndexMetadata) bool {
		return slices.ContainsFunc(e.Fields, func(id int32) bool { return b.schema.FieldByID(id) == nil })
	})
}
