package table

import (
	"context"
	"fmt"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/file"
)

// storeSource is one data file of the store as lance/file reads it.
type storeSource struct {
	st   objstore.Store
	name string
	size int64
}

func (s *storeSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	return s.st.ReadAt(ctx, s.name, p, off)
}

func (s *storeSource) Size() int64 { return s.size }

func (s *storeSource) Name() string { return s.name }

// reader opens data file df of fragment f, or returns it from the cache, and checks it against the manifest.
func (d *Dataset) reader(ctx context.Context, f *Fragment, df *DataFile) (*file.Reader, error) {
	at, err := d.place(df.BaseID, dataDir, df.Path)
	if err != nil {
		return nil, fmt.Errorf("data file: %w", err)
	}
	object := at.name
	r, err := d.env.readers.get(at.key, func() (*file.Reader, error) {
		size := int64(df.Size)
		if size == 0 { // not recorded
			info, err := at.st.Stat(ctx, object)
			if err != nil {
				return nil, err
			}
			size = info.Size
		}
		if size < 0 {
			return nil, errs.Corrupt(object, -1, "recorded size %d", df.Size)
		}
		return file.Open(ctx, &storeSource{st: at.st, name: object, size: size}, file.ReaderOptions{Allocator: d.env.alloc})
	})
	if err != nil {
		return nil, err
	}
	if r.Rows() != f.PhysicalRows {
		return nil, errs.Corrupt(object, -1, "%d rows, the manifest says %d", r.Rows(), f.PhysicalRows)
	}
	if v := r.Version(); v != (file.Version{Major: df.Major, Minor: df.Minor}) {
		return nil, errs.Corrupt(object, -1, "file version %s, the manifest says %d.%d", v, df.Major, df.Minor)
	}
	return r, nil
}
