package table

import (
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// Fragment is the typed view of one fragment of a version. It is immutable; With… methods return changed copies.
// Rows of a fragment are addressed by their physical offset 0…PhysicalRows-1, deleted or not.
// Spec: DataFragment.
type Fragment struct {
	ID           uint64 // 0 on a fragment not committed yet: the commit assigns it
	PhysicalRows uint64 // rows stored, deleted ones included
	DeletedRows  uint64 // rows named by Deletion
	Files        []DataFile
	Deletion     *DeletionFile // nil: nothing deleted

	raw *pb.DataFragment // as read: row ids, version runs and unknown fields; nil for new fragments
}

// DataFile names one data file of a fragment and which field lies in which of its columns.
type DataFile struct {
	Path         string // base name below data/
	Fields       []int32
	Columns      []int32 // parallel to Fields: physical column, -1 = none
	Major, Minor uint16
	Size         uint64  // bytes, 0 = unknown
	BaseID       *uint32 // nil: this table's root

	raw *pb.DataFile
}

// DeletionKind is the encoding of a deletion file.
type DeletionKind uint8

// The two encodings of deletion files.
const (
	DeletionArrow DeletionKind = iota
	DeletionBitmap
)

// DeletionFile names the file with the complete set of deleted offsets of a fragment.
type DeletionFile struct {
	Kind        DeletionKind
	ReadVersion uint64
	ID          uint64 // random
	Rows        uint64 // cardinality of the set
	BaseID      *uint32

	raw *pb.DeletionFile
}

// LiveRows is PhysicalRows minus DeletedRows.
func (f *Fragment) LiveRows() uint64 { return f.PhysicalRows - f.DeletedRows }

// WithDeletion returns a copy of f whose deletion file is d; nil removes it.
func (f *Fragment) WithDeletion(d *DeletionFile) *Fragment {
	g := *f
	g.Deletion, g.DeletedRows = d, 0
	if d != nil {
		g.DeletedRows = d.Rows
	}
	return &g
}

// column finds the file and physical column of field id: the first listed file wins.
func (f *Fragment) column(id int32) (file int, column int32, ok bool) {
	for i := range f.Files {
		for k, have := range f.Files[i].Fields {
			if have == id && f.Files[i].Columns[k] >= 0 {
				return i, f.Files[i].Columns[k], true
			}
		}
	}
	return 0, 0, false
}

// fragmentFrom validates and converts a message; object names the manifest or transaction it came from.
func fragmentFrom(object string, p *pb.DataFragment) (*Fragment, error) {
	bad := func(format string, args ...any) error {
		return errs.Corrupt(object, -1, "fragment %d: %s", p.GetId(), fmt.Sprintf(format, args...))
	}
	if p == nil {
		return nil, errs.Corrupt(object, -1, "a fragment is absent")
	}
	if p.Id > fragmentIDMax {
		return nil, bad("id does not fit 32 bits")
	}
	if p.PhysicalRows > fragmentRowsMax {
		return nil, bad("%d rows do not fit 32-bit offsets", p.PhysicalRows)
	}
	f := &Fragment{ID: p.Id, PhysicalRows: p.PhysicalRows, raw: p}
	for _, file := range p.Files {
		df, err := dataFileFrom(file)
		if err != nil {
			return nil, bad("%v", err)
		}
		f.Files = append(f.Files, df)
	}
	if d := p.DeletionFile; d != nil {
		df, err := deletionFrom(d)
		if err != nil {
			return nil, bad("%v", err)
		}
		if df.Rows > p.PhysicalRows {
			return nil, bad("%d rows deleted of %d", df.Rows, p.PhysicalRows)
		}
		f.Deletion, f.DeletedRows = df, df.Rows
	}
	return f, nil
}

func dataFileFrom(p *pb.DataFile) (DataFile, error) {
	switch {
	case !plainSegment(p.GetPath()):
		return DataFile{}, fmt.Errorf("data file path %q is not one segment", p.GetPath())
	case len(p.ColumnIndices) != len(p.Fields):
		return DataFile{}, fmt.Errorf("%d fields but %d columns in %s", len(p.Fields), len(p.ColumnIndices), p.Path)
	case p.FileMajorVersion > 1<<16-1 || p.FileMinorVersion > 1<<16-1:
		return DataFile{}, fmt.Errorf("file version %d.%d", p.FileMajorVersion, p.FileMinorVersion)
	}
	return DataFile{
		Path: p.Path, Fields: p.Fields, Columns: p.ColumnIndices,
		Major: uint16(p.FileMajorVersion), Minor: uint16(p.FileMinorVersion),
		Size: p.FileSizeBytes, BaseID: p.BaseId, raw: p,
	}, nil
}

func deletionFrom(d *pb.DeletionFile) (*DeletionFile, error) {
	df := &DeletionFile{ReadVersion: d.ReadVersion, ID: d.Id, Rows: d.NumDeletedRows, BaseID: d.BaseId, raw: d}
	switch d.FileType {
	case pb.DeletionFileType_ARROW_ARRAY:
		df.Kind = DeletionArrow
	case pb.DeletionFileType_BITMAP:
		df.Kind = DeletionBitmap
	default:
		return nil, fmt.Errorf("deletion file type %d", d.FileType)
	}
	if df.Rows == 0 {
		return nil, fmt.Errorf("deletion file of no rows")
	}
	return df, nil
}

// proto returns a fresh message of f, unknown fields of what was read included.
func (f *Fragment) proto() *pb.DataFragment {
	p := &pb.DataFragment{}
	if f.raw != nil {
		p = shallowCopy(f.raw)
	}
	p.Id, p.PhysicalRows = f.ID, f.PhysicalRows
	p.Files = make([]*pb.DataFile, len(f.Files))
	for i := range f.Files {
		p.Files[i] = f.Files[i].proto()
	}
	p.DeletionFile = f.Deletion.proto()
	return p
}

func (d *DataFile) proto() *pb.DataFile {
	p := &pb.DataFile{}
	if d.raw != nil {
		p = shallowCopy(d.raw)
	}
	p.Path, p.Fields, p.ColumnIndices = d.Path, d.Fields, d.Columns
	p.FileMajorVersion, p.FileMinorVersion = uint32(d.Major), uint32(d.Minor)
	p.FileSizeBytes, p.BaseId = d.Size, d.BaseID
	return p
}

func (d *DeletionFile) proto() *pb.DeletionFile {
	if d == nil {
		return nil
	}
	p := &pb.DeletionFile{}
	if d.raw != nil {
		p = shallowCopy(d.raw)
	}
	p.FileType = pb.DeletionFileType_ARROW_ARRAY
	if d.Kind == DeletionBitmap {
		p.FileType = pb.DeletionFileType_BITMAP
	}
	p.ReadVersion, p.Id, p.NumDeletedRows, p.BaseId = d.ReadVersion, d.ID, d.Rows, d.BaseID
	return p
}

// sameFiles says whether two states of a fragment hold the same physical rows in the same files.
func sameFiles(a, b *Fragment) bool {
	return a.PhysicalRows == b.PhysicalRows && slices.EqualFunc(a.Files, b.Files, func(x, y DataFile) bool { return sameFile(&x, &y) })
}

func sameFile(x, y *DataFile) bool {
	return x.Path == y.Path && slices.Equal(x.Fields, y.Fields) && slices.Equal(x.Columns, y.Columns)
}

func fragmentsFrom(object string, list []*pb.DataFragment) ([]*Fragment, error) {
	out := make([]*Fragment, len(list))
	for i, p := range list {
		f, err := fragmentFrom(object, p)
		if err != nil {
			return nil, err
		}
		out[i] = f
	}
	return out, nil
}

func fragmentProtos(list []*Fragment) []*pb.DataFragment {
	out := make([]*pb.DataFragment, len(list))
	for i, f := range list {
		out[i] = f.proto()
	}
	return out
}
