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
	return e.Name == fragmentReuseName || strings.HasSuffix(strings.ToLower(e.GetIndexDetails().GetTypeUrl()), fragmentReuseTypeSuffix)
}

// uncover takes fragments out of the bitmaps of entries on any of the fields (nil: of all entries): their rows are
// scanned from then on. Why: an entry whose bitmap becomes empty stays; dropping it would lose that somebody wanted it.
// Spec: table index section, "Maintenance".
func (b *builder) uncover(gone map[uint64]bool, fields []int32) error {
	for i, e := range b.indices {
		if isMemWAL(e) || isFragmentReuse(e) {
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
