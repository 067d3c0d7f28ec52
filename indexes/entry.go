package indexes

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/lance/table"
)

// SegmentDir returns the directory of a segment's files, for a table at root.
func SegmentDir(root string, id uuid.UUID) string {
	dir := "_indices/" + id.String()
	if root != "" {
		dir = root + "/" + dir
	}
	return dir
}

// NewEntry returns the entry of a new segment of kind k over fields (one, but for Key), with the version that Lance 12 to 15 read. id
// names the directory its files are in, files are relative to it; details is the kind's message, nil: empty. cover holds
// the ids of the fragments whose rows are in it; the caller must not change it afterwards. errs.ErrInvalid for kinds that
// are not written.
func NewEntry(k Kind, id uuid.UUID, name string, fields []int32, cover *roaring.Bitmap, details []byte, files []table.IndexFile) (table.IndexEntry, error) {
	info, ok := InfoOf(k)
	if !ok || info.VersionsRead < 0 || k == FragmentReuse || k == MemWAL {
		return table.IndexEntry{}, fmt.Errorf("index %q of kind %s: %w", name, k, errs.ErrInvalid)
	}
	return table.IndexEntry{UUID: id, Name: name, Fields: slices.Clone(fields), Fragments: cover, DetailsType: info.TypeURL, Details: details,
		Version: info.VersionWritten, Files: files}, nil
}
