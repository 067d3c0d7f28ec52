package table

import (
	"fmt"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// assignRowIDs gives a new fragment of a table with stable row ids the next ids and the new version as birth and
// last change. Spec: "Row ids and row versions".
func (b *builder) assignRowIDs(f *Fragment) error {
	from, to := b.m.NextRowId, b.m.NextRowId+f.PhysicalRows
	if to < from {
		return fmt.Errorf("row id %d: %w", from, errs.ErrLimit)
	}
	ids, err := marshal(&pb.RowIdSequence{Segments: []*pb.U64Segment{rangeSegment(from, to)}})
	if err != nil {
		return fmt.Errorf("encode row ids: %w", err)
	}
	versions, err := versionRuns(f.PhysicalRows, b.m.Version)
	if err != nil {
		return err
	}
	f.raw = &pb.DataFragment{
		RowIdSequence:                &pb.DataFragment_InlineRowIds{InlineRowIds: ids},
		CreatedAtVersionSequence:     &pb.DataFragment_InlineCreatedAtVersions{InlineCreatedAtVersions: versions},
		LastUpdatedAtVersionSequence: &pb.DataFragment_InlineLastUpdatedAtVersions{InlineLastUpdatedAtVersions: versions},
	}
	b.m.NextRowId = to
	return nil
}

func rangeSegment(from, to uint64) *pb.U64Segment {
	return &pb.U64Segment{Segment: &pb.U64Segment_Range_{Range: &pb.U64Segment_Range{Start: from, End: to}}}
}

// versionRuns says version of each of rows rows.
func versionRuns(rows, version uint64) ([]byte, error) {
	runs, err := marshal(&pb.RowDatasetVersionSequence{Runs: []*pb.RowDatasetVersionRun{{Span: rangeSegment(0, rows), Version: version}}})
	if err != nil {
		return nil, fmt.Errorf("encode row versions: %w", err)
	}
	return runs, nil
}
