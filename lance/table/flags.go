package table

import (
	"fmt"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// Feature flags of the two words of a manifest. Spec: table versioning.
const (
	flagDeletionFiles  uint64 = 1 << 0 // both words
	flagStableRowIDs   uint64 = 1 << 1 // both words, sticky
	flagV2Format       uint64 = 1 << 2 // deprecated, harmless
	flagTableConfig    uint64 = 1 << 3 // writer word
	flagBasePaths      uint64 = 1 << 4 // both words
	flagNoTxnFile      uint64 = 1 << 5 // writer word
	flagCoveredIndex   uint64 = 1 << 7 // both words
	flagMixedDataFiles uint64 = 1 << 8 // both words or neither, sticky

	flagReuseWithRowIDs uint64 = 1 << 9  // both words or neither: a fragment reuse entry beside stable row ids
	flagFragmentReuse   uint64 = 1 << 10 // both words or neither, sticky: a fragment reuse entry of version 1 was there

	knownReaderFlags = flagDeletionFiles | flagStableRowIDs | flagV2Format | flagTableConfig | flagBasePaths | flagNoTxnFile | flagCoveredIndex | flagMixedDataFiles | flagReuseWithRowIDs | flagFragmentReuse
	knownWriterFlags = knownReaderFlags
	stickyFlags      = flagStableRowIDs | flagMixedDataFiles | flagFragmentReuse
	pairedFlags      = flagMixedDataFiles | flagReuseWithRowIDs | flagFragmentReuse
)

// checkReadable refuses a table whose reader word has a bit we do not know. object names the manifest.
func checkReadable(object string, m *pb.Manifest) error {
	if unknown := m.ReaderFeatureFlags &^ knownReaderFlags; unknown != 0 {
		return fmt.Errorf("%s: reader feature flags %#x: %w", object, unknown, errs.ErrUnsupported)
	}
	if single := (m.ReaderFeatureFlags ^ m.WriterFeatureFlags) & pairedFlags; single != 0 {
		return errs.Corrupt(object, -1, "feature flags %#x are in one word only", single)
	}
	return nil
}

// checkWritable refuses to commit on a table whose writer word has a bit we do not know.
func checkWritable(object string, m *pb.Manifest) error {
	if unknown := m.WriterFeatureFlags &^ knownWriterFlags; unknown != 0 {
		return fmt.Errorf("%s: writer feature flags %#x: %w", object, unknown, errs.ErrUnsupported)
	}
	return nil
}

// setFlags recomputes both words from content; sticky bits of the parent (carried in m) stay.
func setFlags(m *pb.Manifest, indices []*pb.IndexMetadata) {
	both := m.ReaderFeatureFlags & m.WriterFeatureFlags & stickyFlags
	var writer uint64
	for _, f := range m.Fragments {
		if f.DeletionFile != nil {
			both |= flagDeletionFiles
			break
		}
	}
	if len(m.BasePaths) > 0 {
		both |= flagBasePaths
	}
	for _, e := range indices {
		if len(e.CoveringFields) > 0 {
			both |= flagCoveredIndex
		}
		if !isFragmentReuse(e) {
			continue
		}
		if both&flagStableRowIDs != 0 {
			both |= flagReuseWithRowIDs
		}
		if e.GetIndexVersion() != 0 {
			both |= flagFragmentReuse
		}
	}
	if len(m.Config) > 0 {
		writer |= flagTableConfig
	}
	// Why: flagNoTxnFile is a wish of the table's owner about later writers; we always write the file and
	// therefore may not claim to follow it, but dropping it would change the table for others.
	writer |= m.WriterFeatureFlags & flagNoTxnFile
	m.ReaderFeatureFlags, m.WriterFeatureFlags = both, both|writer
}
