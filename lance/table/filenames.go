package table

import (
	"context"
	"path"

	"github.com/google/uuid"

	"lancesql/internal/objstore"
	"lancesql/lance/pb"
)

// FileNames are the objects one version needs, as names in the store. Objects under other base paths are not ours
// and not listed.
type FileNames struct {
	Manifest     string
	Transaction  string // "" if the version has no transaction file
	Data         []string
	Deletions    []string
	IndexFolders []string // whole folders _indices/<uuid>; system entries have none
}

// FileNames lists what this version references.
func (d *Dataset) FileNames() FileNames { return d.state.fileNames(d.root) }

// Stats are the sizes of a version as its manifest states them.
type Stats struct {
	Fragments    int
	PhysicalRows uint64
	LiveRows     uint64
	DataBytes    uint64 // sum of the recorded sizes; files of unknown size count 0
	DataFiles    int
	Indexes      int
	ManifestSize int64 // bytes
}

// Stats summarises the version without I/O.
func (d *Dataset) Stats() Stats {
	s := Stats{Fragments: len(d.state.fragments), Indexes: len(d.state.indices), ManifestSize: d.state.size}
	for _, f := range d.state.fragments {
		s.PhysicalRows += f.PhysicalRows
		s.LiveRows += f.LiveRows()
		s.DataFiles += len(f.Files)
		for _, df := range f.Files {
			s.DataBytes += df.Size
		}
	}
	return s
}

func (s *state) fileNames(root string) FileNames {
	n := FileNames{Manifest: join(root, versionsDir, s.naming.manifestName(s.m.Version))}
	if t := s.m.TransactionFile; plainSegment(t) {
		n.Transaction = join(root, transactionsDir, t)
	}
	for _, f := range s.fragments {
		for _, df := range f.Files {
			if df.BaseID == nil {
				n.Data = append(n.Data, join(root, dataDir, df.Path))
			}
		}
		if f.Deletion != nil && f.Deletion.BaseID == nil {
			n.Deletions = append(n.Deletions, join(root, deletionsDir, deletionName(f.ID, f.Deletion)))
		}
	}
	for _, e := range s.indices {
		if e.BaseId == nil && !isMemWAL(e) {
			n.IndexFolders = append(n.IndexFolders, join(root, indicesDir, indexFolder(e)))
		}
	}
	return n
}

func indexFolder(e *pb.IndexMetadata) string {
	id, _ := uuid.FromBytes(e.Uuid.Uuid) // length checked when the version was read
	return id.String()
}

// listObjects visits the objects directly in dir whose base name passes keep.
func listObjects(ctx context.Context, st objstore.Store, dir string, keep func(base string) bool, visit func(objstore.Info)) error {
	return st.List(ctx, dir, func(i objstore.Info) error {
		if !i.Dir && keep(path.Base(i.Name)) {
			visit(i)
		}
		return nil
	})
}
