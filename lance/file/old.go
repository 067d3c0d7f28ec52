package file

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
	"lancesql/lance/pb"
)

// oldSource gives the page decoder of version 2.0 access to the buffers of one page.
type oldSource struct {
	ctx context.Context // Why: lives for one call of the decoder only
	r   *Reader
	p   *page
}

// Size implements encoding.OldSource.
func (s oldSource) Size(buffer int) (uint64, bool) {
	if buffer < 0 || buffer >= len(s.p.buffers) {
		return 0, false
	}
	return s.p.buffers[buffer].size, true
}

// Read implements encoding.OldSource.
func (s oldSource) Read(buffer int, off, n uint64) ([]byte, error) {
	size, ok := s.Size(buffer)
	if !ok || !within(off, n, size) {
		return nil, errs.Corrupt("page", -1, "%d bytes at %d of buffer %d", n, off, buffer)
	}
	return s.r.buffer(s.ctx, extent{s.p.buffers[buffer].pos + off, n})
}

// compileOld compiles a page description of version 2.0.
func (r *Reader) compileOld(ctx context.Context, p *page, t encoding.Type) (*plan, error) {
	value, err := p.message(arrayEncodingURL)
	if err != nil {
		return nil, err
	}
	var a pb.ArrayEncoding20
	if err := proto.Unmarshal(value, &a); err != nil {
		return nil, errs.Corrupt("page", -1, "array encoding: %v", err)
	}
	pl := &plan{typ: t, bytes: 512 + len(p.raw)}
	if a.GetPackedStruct() != nil && t.Variable() {
		pl.blob = true
		return pl, nil
	}
	if pl.old, err = encoding.CompileOld(&a, t, p.rows); err != nil {
		return nil, err
	}
	n, err := pl.old.LoadItems(oldSource{ctx: ctx, r: r, p: p})
	if err != nil {
		return nil, fmt.Errorf("dictionary: %w", err)
	}
	pl.bytes += n
	return pl, nil
}
