package store

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// Dir is one directory of index files, which need not exist before the first file is written. It is immutable and safe
// for concurrent use.
type Dir struct {
	st   objstore.Store
	path string
	mem  memory.Allocator
}

// NewDir names a directory of a store; path is "" for the root. mem is the allocator of the batches read, nil: the Go
// allocator.
func NewDir(st objstore.Store, path string, mem memory.Allocator) Dir {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return Dir{st: st, path: path, mem: mem}
}

// Path returns the directory's name in the store.
func (d Dir) Path() string { return d.path }

// Object returns the name of one of the directory's files in the store.
func (d Dir) Object(name string) string {
	if d.path == "" {
		return name
	}
	return d.path + "/" + name
}

// Info says what an index entry must know about a file.
type Info struct {
	Name string // relative to the directory
	Rows uint64
	Size uint64 // bytes
}

// Writer streams one file. Exactly one of Finish and Abort ends it. It is not safe for concurrent use.
type Writer struct {
	name string
	out  objstore.Writer
	w    *file.Writer
}

// Create starts a file with the columns and metadata of s. Nothing is visible before Finish. errs.ErrUnsupported for
// types a version 2.0 file cannot hold.
func (d Dir) Create(ctx context.Context, name string, s *arrow.Schema) (*Writer, error) {
	sc, err := schema.FromArrow(s)
	if err != nil {
		return nil, fmt.Errorf("create index file %s: %w", name, err)
	}
	out, err := d.st.Create(ctx, d.Object(name))
	if err != nil {
		return nil, fmt.Errorf("create index file %s: %w", name, err)
	}
	w, err := file.NewWriter(out, sc, file.WriterOptions{Version: file.V20(), AllowEmpty: true})
	if err != nil {
		_ = out.Abort()
		return nil, fmt.Errorf("create index file %s: %w", name, err)
	}
	return &Writer{name: name, out: out, w: w}, nil
}

// Write appends the rows of rec, which is borrowed; see file.Writer.
func (w *Writer) Write(rec arrow.RecordBatch) error {
	if err := w.w.Write(rec); err != nil {
		return fmt.Errorf("write index file %s: %w", w.name, err)
	}
	return nil
}

// AddBuffer writes a global buffer and returns its number, from 1. b is borrowed.
func (w *Writer) AddBuffer(b []byte) (uint32, error) {
	n, err := w.w.AddBuffer(b)
	if err != nil {
		return 0, fmt.Errorf("write index file %s: %w", w.name, err)
	}
	return n, nil
}

// SetMetadata sets an entry of the schema's metadata.
func (w *Writer) SetMetadata(key, value string) { w.w.SetMetadata(key, value) }

// Finish completes the file, which may have no rows. errs.ErrExists if somebody else has written it.
func (w *Writer) Finish(ctx context.Context) (Info, error) {
	sum, err := w.w.Finish()
	if err != nil {
		w.Abort()
		return Info{}, fmt.Errorf("finish index file %s: %w", w.name, err)
	}
	// Durable: the file, once Commit has returned.
	if err := w.out.Commit(ctx); err != nil {
		return Info{}, fmt.Errorf("finish index file %s: %w", w.name, err)
	}
	return Info{Name: w.name, Rows: sum.Rows, Size: sum.Size}, nil
}

// Abort gives the file up. It is a no-op after Finish.
func (w *Writer) Abort() {
	w.w.Abort()
	_ = w.out.Abort()
}

// Put writes a whole object that is no Lance file, durable on return. errs.ErrExists if it is there.
func (d Dir) Put(ctx context.Context, name string, data []byte) (Info, error) {
	if err := d.st.PutIfAbsent(ctx, d.Object(name), data); err != nil {
		return Info{}, fmt.Errorf("write index file %s: %w", name, err)
	}
	return Info{Name: name, Size: uint64(len(data))}, nil
}

// Get reads a whole object that is no Lance file; limit bounds it in bytes. errs.ErrNotFound, errs.ErrLimit.
func (d Dir) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	b, err := d.st.ReadAll(ctx, d.Object(name), limit)
	if err != nil {
		return nil, fmt.Errorf("read index file %s: %w", name, err)
	}
	return b, nil
}

// source is a file as lance/file reads it.
type source struct {
	st   objstore.Store
	name string
	size int64
}

func (s *source) ReadAt(ctx context.Context, p []byte, off int64) error {
	return s.st.ReadAt(ctx, s.name, p, off)
}
func (s *source) Size() int64  { return s.size }
func (s *source) Name() string { return s.name }

// Open opens a file for reading. size is the recorded size in bytes, 0 if it is not known; a file of another size is
// errs.ErrCorruption. errs.ErrNotFound if there is no such file.
func (d Dir) Open(ctx context.Context, name string, size uint64) (*Reader, error) {
	object := d.Object(name)
	info, err := d.st.Stat(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("open index file %s: %w", object, err)
	}
	if size > 0 && uint64(info.Size) != size {
		return nil, errs.Corrupt(object, -1, "%d bytes, %d recorded", info.Size, size)
	}
	r, err := file.Open(ctx, &source{st: d.st, name: object, size: info.Size}, file.ReaderOptions{Allocator: d.mem})
	if err != nil {
		return nil, fmt.Errorf("open index file %s: %w", object, err)
	}
	return &Reader{object: object, r: r}, nil
}
