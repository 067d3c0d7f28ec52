package table

import (
	"fmt"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// IndexEntry is the typed view of one entry of the index section: one segment of one logical index.
// Spec: IndexMetadata.
type IndexEntry struct {
	UUID           uuid.UUID // zero on a new entry: the commit draws one
	Name           string
	Fields         []int32         // ids of indexed fields; empty for system entries
	DatasetVersion uint64          // version the segment was built from; 0 on a new entry: the version it is committed on
	Fragments      *roaring.Bitmap // covered fragment ids; nil = not recorded
	DetailsType    string          // type URL
	Details        []byte
	Version        int32 // index format version
	CreatedAt      time.Time
	Files          []IndexFile // names relative to _indices/<uuid>/
	CoveringFields []int32
	BaseID         *uint32
	MemWAL         *MemWAL // set on the MemWAL entry instead of DetailsType and Details
}

// IndexFile is one file of an index segment.
type IndexFile struct {
	Path string
	Size uint64 // bytes
}

func indexEntryFrom(object string, p *pb.IndexMetadata) (IndexEntry, error) {
	id, err := uuid.FromBytes(p.GetUuid().GetUuid())
	if err != nil {
		return IndexEntry{}, errs.Corrupt(object, -1, "index entry %q: identifier: %v", p.GetName(), err)
	}
	e := IndexEntry{
		UUID: id, Name: p.Name, Fields: p.Fields, DatasetVersion: p.DatasetVersion,
		DetailsType: p.GetIndexDetails().GetTypeUrl(), Details: p.GetIndexDetails().GetValue(),
		Version: p.GetIndexVersion(), CoveringFields: p.CoveringFields, BaseID: p.BaseId,
	}
	if p.CreatedAt != nil {
		e.CreatedAt = time.UnixMilli(int64(*p.CreatedAt)).UTC()
	}
	if len(p.FragmentBitmap) > 0 {
		if e.Fragments, err = decodeRoaring(object, p.FragmentBitmap); err != nil {
			return IndexEntry{}, fmt.Errorf("index entry %q: fragment bitmap: %w", p.Name, err)
		}
	}
	for _, f := range p.Files {
		e.Files = append(e.Files, IndexFile{Path: f.GetPath(), Size: f.GetSizeBytes()})
	}
	if isMemWAL(p) {
		if e.MemWAL, err = memWALOf(object, []*pb.IndexMetadata{p}); err != nil {
			return IndexEntry{}, err
		}
	}
	return e, nil
}

// proto builds the message of a new entry; identifier, version and time are the caller's.
func (e *IndexEntry) proto() (*pb.IndexMetadata, error) {
	if e.Name == "" {
		return nil, fmt.Errorf("index entry without a name: %w", errs.ErrInvalid)
	}
	p := &pb.IndexMetadata{
		Uuid: uuidProto(e.UUID), Fields: e.Fields, Name: e.Name, DatasetVersion: e.DatasetVersion,
		IndexVersion: proto.Int32(e.Version), CoveringFields: e.CoveringFields, BaseId: e.BaseID,
	}
	if !e.CreatedAt.IsZero() {
		p.CreatedAt = proto.Uint64(uint64(e.CreatedAt.UnixMilli()))
	}
	for _, f := range e.Files {
		p.Files = append(p.Files, &pb.IndexFile{Path: f.Path, SizeBytes: f.Size})
	}
	if e.MemWAL != nil {
		details, err := e.MemWAL.any()
		p.IndexDetails = details
		return p, err
	}
	p.IndexDetails = &anypb.Any{TypeUrl: e.DetailsType, Value: e.Details}
	if e.Fragments == nil {
		return nil, fmt.Errorf("index entry %q without its fragments: %w", e.Name, errs.ErrInvalid)
	}
	bitmap, err := encodeRoaring(e.Fragments)
	p.FragmentBitmap = bitmap
	return p, err
}
