package file

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"

	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
	"lancesql/lance/pb"
)

const (
	layoutURL         = "/lance.encodings21.PageLayout"
	arrayEncodingURL  = "/lance.encodings.ArrayEncoding"
	columnEncodingURL = "/lance.encodings.ColumnEncoding"
)

// column is the loaded metadata of one physical column. Immutable except for the plans of its pages.
type column struct {
	index uint32
	rows  uint64 // values: rows of the file, except below lists of version 2.0
	pages []*page
}

// page is one page of a column.
type page struct {
	index   int
	first   uint64 // rows of the column before this page
	rows    uint64
	buffers []extent
	raw     []byte // serialised page description

	mu   sync.Mutex
	plan *plan // under mu; cached, nil if not (yet)
}

// column returns the metadata of a physical column, loading it on first use.
func (r *Reader) column(ctx context.Context, index int32) (*column, error) {
	if index < 0 || int(index) >= len(r.extents) {
		return nil, fmt.Errorf("%s: column %d of %d: %w", r.src.Name(), index, len(r.extents), errs.ErrInvalid)
	}
	r.mu.Lock()
	c := r.columns[uint32(index)]
	r.mu.Unlock()
	if c != nil {
		return c, nil
	}
	at := r.extents[index]
	raw, err := r.metadata(ctx, at)
	if err != nil {
		return nil, err
	}
	var m pb.ColumnMetadata
	if err := proto.Unmarshal(raw, &m); err != nil {
		return nil, errs.Corrupt(r.src.Name(), int64(at.pos), "metadata of column %d: %v", index, err)
	}
	if c, err = r.parseColumn(uint32(index), &m); err != nil {
		return nil, errs.Corrupt(r.src.Name(), int64(at.pos), "metadata of column %d: %v", index, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.columns[uint32(index)]; other != nil {
		return other, nil
	}
	r.columns[uint32(index)] = c
	return c, nil
}

func (r *Reader) parseColumn(index uint32, m *pb.ColumnMetadata) (*column, error) {
	c := &column{index: index}
	first := uint64(0)
	for i, p := range m.GetPages() {
		if len(p.GetBufferOffsets()) != len(p.GetBufferSizes()) {
			return nil, fmt.Errorf("page %d has %d buffer positions and %d sizes", i, len(p.GetBufferOffsets()), len(p.GetBufferSizes()))
		}
		pg := &page{index: i, first: first, rows: p.GetLength(), raw: p.GetEncoding().GetDirect().GetEncoding()}
		for j, pos := range p.GetBufferOffsets() {
			e := extent{pos, p.GetBufferSizes()[j]}
			if !within(e.pos, e.size, r.size) {
				return nil, fmt.Errorf("page %d buffer %d: %d bytes at %d in a file of %d", i, j, e.size, e.pos, r.size)
			}
			pg.buffers = append(pg.buffers, e)
		}
		if pg.rows > 1<<62-first {
			return nil, fmt.Errorf("page %d has %d rows", i, pg.rows)
		}
		first += pg.rows
		c.pages = append(c.pages, pg)
	}
	c.rows = first
	return c, nil
}

// find returns the index of the page that holds a row, len(pages) if none does.
func (c *column) find(row uint64) int {
	return sort.Search(len(c.pages), func(i int) bool { return c.pages[i].first+c.pages[i].rows > row })
}

// plan is everything needed to decode a page apart from its data. Immutable.
type plan struct {
	typ      encoding.Type
	mini     *encoding.MiniBlock
	chunks   []encoding.Chunk     // mini
	lists    []encoding.ListChunk // mini with lists: rows of each chunk
	full     *encoding.FullZip
	index    int // full: bytes of a repetition index entry
	constant *encoding.Constant
	old      *encoding.Old // version 2.0
	blob     bool          // the page says where the values lie in the file
	bytes    int           // memory held, roughly
}

// plan compiles the description of a page and reads what goes with it: chunk index, dictionary, constant.
func (r *Reader) plan(ctx context.Context, c *column, p *page, t encoding.Type) (*plan, error) {
	p.mu.Lock()
	got := p.plan
	p.mu.Unlock()
	if got != nil && sameType(got.typ, t) {
		return got, nil
	}
	pl, err := r.compile(ctx, p, t)
	if err != nil {
		return nil, r.pageError(c, p, err)
	}
	if r.cached.Add(int64(pl.bytes)) > planCacheBytes {
		r.cached.Add(-int64(pl.bytes))
		return pl, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plan != nil {
		r.cached.Add(-int64(pl.bytes))
		return pl, nil
	}
	p.plan = pl
	return pl, nil
}

func sameType(a, b encoding.Type) bool {
	if a.Kind != b.Kind || a.Bits != b.Bits || a.Key != b.Key || len(a.Fields) != len(b.Fields) || len(a.Dims) != len(b.Dims) {
		return false
	}
	for i := range a.Dims {
		if a.Dims[i] != b.Dims[i] {
			return false
		}
	}
	return true
}

// pageError adds the place to an error of the encoding package.
func (r *Reader) pageError(c *column, p *page, err error) error {
	var bad *errs.Corruption
	if errors.As(err, &bad) && bad.Object == "page" {
		at := int64(-1)
		if len(p.buffers) > 0 {
			at = int64(p.buffers[0].pos)
		}
		return errs.Corrupt(r.src.Name(), at, "column %d page %d: %s", c.index, p.index, bad.What)
	}
	return fmt.Errorf("%s column %d page %d: %w", r.src.Name(), c.index, p.index, err)
}

// layout decodes the page description of version 2.1 and later.
func (p *page) layout() (*pb.PageLayout, error) {
	value, err := p.message(layoutURL)
	if err != nil {
		return nil, err
	}
	var l pb.PageLayout
	if err := proto.Unmarshal(value, &l); err != nil {
		return nil, errs.Corrupt("page", -1, "page layout: %v", err)
	}
	return &l, nil
}

// message unwraps the page description, which must be of the given type.
func (p *page) message(url string) ([]byte, error) {
	if len(p.raw) == 0 {
		return nil, errs.Corrupt("page", -1, "page without a description")
	}
	var a pb.AnyMessage
	if err := proto.Unmarshal(p.raw, &a); err != nil {
		return nil, errs.Corrupt("page", -1, "page description: %v", err)
	}
	if a.GetTypeUrl() != url {
		return nil, errs.Corrupt("page", -1, "page description of type %q", a.GetTypeUrl())
	}
	return a.GetValue(), nil
}

func (r *Reader) compile(ctx context.Context, p *page, t encoding.Type) (*plan, error) {
	if r.version == V20() {
		return r.compileOld(ctx, p, t)
	}
	l, err := p.layout()
	if err != nil {
		return nil, err
	}
	pl := &plan{typ: t, bytes: 512 + len(p.raw)}
	if b := l.GetBlob(); b != nil {
		if !encoding.FlatBlob(b) {
			return nil, fmt.Errorf("nested blob column: %w", errs.ErrUnsupported)
		}
		if pl.blob = t.Variable(); pl.blob {
			return pl, nil
		}
		if l = b.GetInnerLayout(); !t.IsBlob() || l.GetBlob() != nil {
			return nil, errs.Corrupt("page", -1, "blob page in a column of another kind")
		}
	}
	switch l := l.GetLayout().(type) {
	case *pb.PageLayout_MiniBlock:
		return pl, r.compileMini(ctx, p, pl, l.MiniBlock)
	case *pb.PageLayout_FullZip:
		return pl, r.compileFullZip(p, pl, l.FullZip)
	case *pb.PageLayout_Constant:
		return pl, r.compileConstant(ctx, p, pl, l.Constant)
	}
	return nil, fmt.Errorf("page layout %T: %w", l.GetLayout(), errs.ErrUnsupported)
}

func (r *Reader) compileMini(ctx context.Context, p *page, pl *plan, l *pb.MiniBlockLayout) (err error) {
	if pl.mini, err = encoding.CompileMiniBlock(l, pl.typ); err != nil {
		return err
	}
	want := 2
	if pl.mini.HasDictionary() {
		want++
	}
	if levels := pl.mini.Levels(); levels.MaxRep > 0 {
		want++ // the repetition index, the last of all
	}
	if len(p.buffers) < want {
		return errs.Corrupt("page", -1, "mini-block page with %d buffers", len(p.buffers))
	}
	if levels := pl.mini.Levels(); levels.MaxRep == 0 && pl.mini.Items() != p.rows {
		return errs.Corrupt("page", -1, "%d values for %d rows", pl.mini.Items(), p.rows)
	}
	meta, err := r.buffer(ctx, p.buffers[0])
	if err != nil {
		return err
	}
	if pl.chunks, err = pl.mini.ParseIndex(meta, p.buffers[1].size); err != nil {
		return err
	}
	pl.bytes += 32 * len(pl.chunks)
	if levels := pl.mini.Levels(); levels.MaxRep > 0 {
		index, err := r.buffer(ctx, p.buffers[len(p.buffers)-1])
		if err != nil {
			return err
		}
		if pl.lists, err = pl.mini.ParseRepetitionIndex(index, l.GetRepetitionIndexDepth(), len(pl.chunks), p.rows); err != nil {
			return err
		}
		pl.bytes += 24 * len(pl.lists)
	}
	if !pl.mini.HasDictionary() {
		return nil
	}
	items, err := r.buffer(ctx, p.buffers[2])
	if err != nil {
		return err
	}
	n, err := pl.mini.SetDictionary(items)
	pl.bytes += n
	return err
}

// maxBufferBytes bounds what is read into memory in one piece.
const maxBufferBytes = 1 << 31

// buffer reads a whole page buffer.
func (r *Reader) buffer(ctx context.Context, e extent) ([]byte, error) {
	if e.size > maxBufferBytes {
		return nil, fmt.Errorf("buffer of %d bytes: %w", e.size, errs.ErrLimit)
	}
	b := make([]byte, e.size)
	return b, r.readAt(ctx, b, e.pos)
}

func (r *Reader) compileFullZip(p *page, pl *plan, l *pb.FullZipLayout) (err error) {
	if pl.full, err = encoding.CompileFullZip(l, pl.typ); err != nil {
		return err
	}
	if levels := pl.full.Levels(); levels.MaxRep == 0 && pl.full.Items() != p.rows {
		return errs.Corrupt("page", -1, "%d entries for %d rows", pl.full.Items(), p.rows)
	}
	if len(p.buffers) < 1 {
		return errs.Corrupt("page", -1, "full-zip page without buffers")
	}
	if stride := uint64(pl.full.Stride()); stride > 0 {
		if p.buffers[0].size/stride != p.rows || p.buffers[0].size%stride != 0 {
			return errs.Corrupt("page", -1, "%d bytes for %d rows of %d", p.buffers[0].size, p.rows, stride)
		}
		return nil
	}
	if len(p.buffers) < 2 {
		return errs.Corrupt("page", -1, "full-zip page without a repetition index")
	}
	pl.index, err = encoding.IndexWidth(p.buffers[1].size, p.rows)
	return err
}

func (r *Reader) compileConstant(ctx context.Context, p *page, pl *plan, l *pb.ConstantLayout) (err error) {
	buffers := make([][]byte, len(p.buffers))
	for i, e := range p.buffers {
		if buffers[i], err = r.buffer(ctx, e); err != nil {
			return err
		}
		pl.bytes += 2 * len(buffers[i])
	}
	pl.constant, err = encoding.CompileConstant(l, pl.typ, buffers, p.rows)
	return err
}
