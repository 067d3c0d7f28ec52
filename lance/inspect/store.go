package inspect

import (
	"context"
	"path"

	"lancesql/internal/objstore"
	"lancesql/lance/file"
)

// Store is what inspection needs of the place that holds the objects; an objstore.Store is one. Methods are as
// there. Invariant: I1.
type Store interface {
	List(ctx context.Context, dir string, visit func(objstore.Info) error) error
	Stat(ctx context.Context, name string) (objstore.Info, error)
	ReadAt(ctx context.Context, name string, p []byte, off int64) error
	ReadAll(ctx context.Context, name string, limit int64) ([]byte, error)
}

// objectBytesMax bounds the objects that are read as a whole: manifests, transactions, deletion files.
const objectBytesMax = 1 << 30

// refBytesMax bounds a tag or branch file.
const refBytesMax = 1 << 20

// Join builds an object name below dir; "" is the store's own root.
func Join(dir string, parts ...string) string {
	return path.Join(append([]string{dir}, parts...)...)
}

// source is one object as lance/file reads it.
type source struct {
	st   Store
	name string
	size int64
}

func (s source) ReadAt(ctx context.Context, p []byte, off int64) error {
	return s.st.ReadAt(ctx, s.name, p, off)
}

func (s source) Size() int64  { return s.size }
func (s source) Name() string { return s.name }

var _ file.Source = source{}
