package file

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

const (
	// tailBytes is what Open reads at the end of a file: the metadata of most files in one read.
	tailBytes = 64 << 10
	// maxMetadataBytes bounds one protobuf message read from a file.
	maxMetadataBytes = 256 << 20
	// planCacheBytes bounds the page plans (chunk indexes, dictionaries) a Reader keeps.
	planCacheBytes = 64 << 20
)

// Source is the file to read. ReadAt fills p completely or fails; it must be safe for concurrent use.
type Source interface {
	ReadAt(ctx context.Context, p []byte, off int64) error
	Size() int64  // bytes
	Name() string // for error messages
}

// ReaderOptions configures a Reader. The zero value is the default.
type ReaderOptions struct {
	Allocator memory.Allocator // of the batches handed out, safe for concurrent use; nil: the Go allocator
}

// Reader reads one data file. It is safe for concurrent use and needs no Close; the Source belongs to the caller and
// must stay readable as long as the Reader is used.
type Reader struct {
	src     Source
	size    uint64
	mem     memory.Allocator
	version Version
	rows    uint64
	schema  *schema.Schema
	extents []extent        // metadata of each column
	byID    map[int32]int32 // field id -> physical column by the file's own schema
	tail    []byte          // the last bytes of the file, starting at tailAt
	tailAt  uint64
	cached  atomic.Int64 // bytes of cached page plans
	gbo     uint64       // position of the table of global buffers
	globals uint32       // global buffers

	newest atomic.Pointer[projected]

	windows, small sync.Pool // of *[]byte, of minWindowBytes or more and of smallWindowBytes; memory of finished cursors for the next ones

	mu      sync.Mutex
	columns map[uint32]*column // under mu; loaded column metadata
}

// projected is what the columns of a read look like.
type projected struct {
	fields []*schema.Field
	schema *arrow.Schema
}

// Open reads the metadata of a file. errs.ErrCorruption for malformed files, errs.ErrUnsupported for versions it does
// not know. Column metadata is read when a column is first used.
// Spec: file format, "Container" and "Scanning and taking rows".
func Open(ctx context.Context, src Source, o ReaderOptions) (*Reader, error) {
	r := &Reader{src: src, mem: o.Allocator, columns: make(map[uint32]*column)}
	if r.mem == nil {
		r.mem = memory.DefaultAllocator
	}
	if src.Size() < footerBytes {
		return nil, errs.Corrupt(src.Name(), -1, "file of %d bytes has no footer", src.Size())
	}
	r.size = uint64(src.Size())
	r.tailAt = r.size - min(r.size, tailBytes)
	tail := make([]byte, r.size-r.tailAt)
	if err := src.ReadAt(ctx, tail, int64(r.tailAt)); err != nil {
		return nil, fmt.Errorf("open lance file %s: %w", src.Name(), err)
	}
	r.tail = tail
	f, err := parseFooter(src.Name(), r.tail[len(r.tail)-footerBytes:], r.size)
	if err != nil {
		return nil, err
	}
	version, ok := fromFooter(f.major, f.minor)
	if !ok {
		return nil, fmt.Errorf("open lance file %s: %s: %w", src.Name(), unknownVersion(f.major, f.minor), errs.ErrUnsupported)
	}
	r.version = version
	r.gbo, r.globals = f.gbo, f.globals
	if err := r.loadTables(ctx, f); err != nil {
		return nil, err
	}
	return r, nil
}

// loadTables reads the column metadata offsets and the file descriptor.
func (r *Reader) loadTables(ctx context.Context, f footer) error {
	cmo, err := r.metadata(ctx, extent{f.cmo, uint64(f.columns) * entryBytes})
	if err != nil {
		return err
	}
	r.extents = make([]extent, f.columns)
	for i := range r.extents {
		r.extents[i] = parseExtent(cmo[i*entryBytes:])
	}
	gbo, err := r.metadata(ctx, extent{f.gbo, entryBytes})
	if err != nil {
		return err
	}
	at := parseExtent(gbo)
	raw, err := r.metadata(ctx, at)
	if err != nil {
		return err
	}
	var d pb.FileDescriptor
	if err := proto.Unmarshal(raw, &d); err != nil {
		return errs.Corrupt(r.src.Name(), int64(at.pos), "file descriptor: %v", err)
	}
	r.rows = d.GetLength()
	r.schema, err = schema.FromProto(d.GetSchema().GetFields(), d.GetSchema().GetMetadata())
	if err != nil {
		return errs.Corrupt(r.src.Name(), int64(at.pos), "schema: %v", err)
	}
	r.byID = columnsByID(r.schema, r.version)
	return nil
}

// columnsByID numbers the physical columns of a schema.
// Spec: file format, "Fields and columns".
func columnsByID(s *schema.Schema, v Version) map[int32]int32 {
	out := make(map[int32]int32)
	if v != V20() {
		for i, f := range s.Leaves(nil) {
			out[f.ID] = int32(i)
		}
		return out
	}
	var walk func(f *schema.Field)
	walk = func(f *schema.Field) {
		out[f.ID] = int32(len(out))
		if f.Packed() {
			return
		}
		for _, c := range f.Children {
			walk(c)
		}
	}
	for _, f := range s.Fields {
		walk(f)
	}
	return out
}

// metadata returns a range of metadata bytes, from the tail if it covers the range. The caller must not modify them.
func (r *Reader) metadata(ctx context.Context, e extent) ([]byte, error) {
	if !within(e.pos, e.size, r.size) {
		return nil, errs.Corrupt(r.src.Name(), -1, "metadata of %d bytes at %d in a file of %d", e.size, e.pos, r.size)
	}
	if e.size > maxMetadataBytes {
		return nil, fmt.Errorf("%s: metadata of %d bytes: %w", r.src.Name(), e.size, errs.ErrLimit)
	}
	if e.pos >= r.tailAt {
		return r.tail[e.pos-r.tailAt:][:e.size], nil
	}
	b := make([]byte, e.size)
	return b, r.readAt(ctx, b, e.pos)
}

// readAt fills p from a position that was checked against the file size.
func (r *Reader) readAt(ctx context.Context, p []byte, pos uint64) error {
	if len(p) == 0 {
		return nil
	}
	if err := r.src.ReadAt(ctx, p, int64(pos)); err != nil {
		return fmt.Errorf("read %d bytes at %d of %s: %w", len(p), pos, r.src.Name(), err)
	}
	return nil
}

// window returns n bytes of arbitrary content for a cursor to read into.
func (r *Reader) window(n int) []byte {
	if n <= smallWindowBytes {
		if b, ok := r.small.Get().(*[]byte); ok {
			return (*b)[:n]
		}
		return make([]byte, n, smallWindowBytes)
	}
	if b, ok := r.windows.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:n]
	}
	return make([]byte, n)
}

// giveBack keeps the memory of a window for another cursor; nobody may use it any more.
func (r *Reader) giveBack(b []byte) {
	switch {
	case cap(b) == smallWindowBytes:
		r.small.Put(&b)
	case cap(b) >= minWindowBytes && cap(b) <= windowBytes:
		r.windows.Put(&b)
	}
}

// Rows returns the number of rows.
func (r *Reader) Rows() uint64 { return r.rows }

// Version returns the version of the file.
func (r *Reader) Version() Version { return r.version }

// Schema returns the schema stored in the file; the manifest's schema takes precedence over it. Read-only.
func (r *Reader) Schema() *schema.Schema { return r.schema }
