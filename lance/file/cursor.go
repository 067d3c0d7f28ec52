package file

import (
	"context"
	"sort"

	"lancesql/internal/errs"
	"lancesql/lance/encoding"
)

const (
	// windowBytes is the most data read ahead for one column; a single larger chunk or row is read whole.
	windowBytes = 1 << 20
	// minWindowBytes is what it shrinks to when many columns are read.
	minWindowBytes = 64 << 10
	// smallWindowBytes is what a read of one or a few chunks takes.
	smallWindowBytes = 16 << 10
	// totalWindowBytes is shared by the columns of a scan.
	totalWindowBytes = 64 << 20
	// directBytes is the size from which plain rows are read straight into the vector.
	directBytes = 64 << 10
	// gapBytes is what a take reads in vain rather than issue another read.
	gapBytes = 16 << 10
	// indexRows is the number of repetition index entries a scan reads at once.
	indexRows = 8192
)

// cursor reads rows of one physical column in ascending order into vectors.
type cursor struct {
	r      *Reader
	col    *column
	typ    encoding.Type
	window int            // bytes to read ahead
	leaf   *encoding.Leaf // of a nested column, else nil; then rows go here
	blobs  *cursor        // reads where the values of a blob column lie
	tree   *oldTree       // of a nested field of version 2.0: the cursor only passes requests on
	items  uint64         // rows of the column per row of the file: more than 1 below fixed-size lists of structs

	p  *page
	pl *plan

	bytesPerRow float64 // of strings in the previous batch of a scan, 0 if unknown

	end  uint64   // exclusive bound of the rows that will be asked for
	want []uint64 // the rows still to come if they are known singly (take), else nil

	data   []byte // bytes of the data buffer of the page read so far
	dataAt uint64 // position in the data buffer

	chunk  int // loaded chunk of a mini-block page, -1 for none
	state  encoding.ChunkState
	index  []byte // part of the repetition index
	index0 uint64 // row of its first entry
	index1 uint64 // one past the row of its last entry
	dec    encoding.Decompressor

	oldState encoding.OldState // of the current page of a 2.0 file
}

func (c *cursor) close() {
	if c.tree != nil {
		c.tree.close()
	}
	if c.blobs != nil {
		c.blobs.close()
	}
	c.r.giveBack(c.data)
	c.data = nil
	c.state.Close()
	c.oldState.Close()
	c.dec.Close()
}

// readRows appends rows [from, to) of the file to dst.
func (c *cursor) readRows(ctx context.Context, dst *encoding.Vector, from, to uint64) error {
	return c.read(ctx, dst, from*c.items, to*c.items)
}

// read appends rows [from, to) of the column to dst.
func (c *cursor) read(ctx context.Context, dst *encoding.Vector, from, to uint64) error {
	if c.tree != nil {
		c.tree.exact = c.want != nil
		return c.tree.append(ctx, from, to)
	}
	rows := to - from
	if c.want == nil {
		// A batch is likely to be about as large as the previous one.
		dst.ReserveData(uint64(float64(rows) * c.bytesPerRow * 17 / 16))
	}
	for from < to {
		if c.p == nil || from >= c.p.first+c.p.rows || from < c.p.first {
			if err := c.open(ctx, from); err != nil {
				return err
			}
		}
		upTo := min(to, c.p.first+c.p.rows)
		if err := c.readPage(ctx, dst, from-c.p.first, upTo-c.p.first); err != nil {
			return c.r.pageError(c.col, c.p, err)
		}
		from = upTo
	}
	c.bytesPerRow = float64(dst.DataBytes()) / float64(max(1, rows))
	return nil
}

// open makes the page of a row current.
func (c *cursor) open(ctx context.Context, row uint64) error {
	i := c.col.find(row)
	if i == len(c.col.pages) {
		return errs.Corrupt(c.r.src.Name(), -1, "column %d has no row %d", c.col.index, row)
	}
	c.p = c.col.pages[i]
	c.chunk, c.data, c.index0, c.index1 = -1, c.data[:0], 0, 0
	c.oldState.Close()
	c.oldState = encoding.OldState{}
	var err error
	if c.pl, err = c.r.plan(ctx, c.col, c.p, c.typ); err != nil {
		c.p = nil // a retry must not find a page without a plan
	}
	return err
}

// readPage appends rows of the current page.
func (c *cursor) readPage(ctx context.Context, dst *encoding.Vector, from, to uint64) error {
	switch {
	case c.leaf != nil:
		return c.readLeaf(ctx, from, to)
	case c.pl.blob:
		return c.readBlobs(ctx, dst, c.p.first+from, c.p.first+to)
	case c.pl.mini != nil:
		return c.readMini(ctx, dst, from, to)
	case c.pl.full != nil:
		return c.readFullZip(ctx, dst, from, to)
	case c.pl.old != nil:
		return c.pl.old.AppendRows(dst, from, to, oldSource{ctx: ctx, r: c.r, p: c.p}, &c.oldState)
	}
	return c.pl.constant.AppendRows(dst, from, to)
}

func (c *cursor) readMini(ctx context.Context, dst *encoding.Vector, from, to uint64) error {
	if size := c.p.buffers[1].size; c.bytesPerRow == 0 && c.p.rows < 1<<31 && size < 1<<31 {
		dst.ReserveData((to - from) * size / c.p.rows * 9 / 8)
	}
	for from < to {
		i := c.chunk
		if i < 0 || !holds(c.pl.chunks[i], from) {
			if i+1 < len(c.pl.chunks) && holds(c.pl.chunks[i+1], from) {
				i++
			} else {
				i = sort.Search(len(c.pl.chunks), func(i int) bool { return from < c.pl.chunks[i].First+uint64(c.pl.chunks[i].Values) })
			}
			if err := c.loadChunk(ctx, i); err != nil {
				return err
			}
		}
		ch := c.pl.chunks[i]
		upTo := min(to, ch.First+uint64(ch.Values))
		lo, hi := int(from-ch.First), int(upTo-ch.First)
		var err error
		if c.leaf != nil {
			err = c.pl.mini.AppendLeaf(c.leaf, &c.state, lo, hi)
		} else {
			err = c.pl.mini.AppendRows(dst, &c.state, lo, hi)
		}
		if err != nil {
			return err
		}
		from = upTo
	}
	return nil
}

func holds(ch encoding.Chunk, slot uint64) bool {
	return slot >= ch.First && slot < ch.First+uint64(ch.Values)
}

func (c *cursor) loadChunk(ctx context.Context, i int) error {
	c.chunk = -1
	if i >= len(c.pl.chunks) {
		return errs.Corrupt("page", -1, "chunks end before the rows of the page")
	}
	ch := c.pl.chunks[i]
	b, err := c.bytes(ctx, uint64(ch.Offset), uint64(ch.Offset)+uint64(ch.Size), func() uint64 { return c.chunksAhead(i) })
	if err != nil {
		return err
	}
	if err := c.pl.mini.Load(&c.state, b, ch.Values); err != nil {
		return err
	}
	c.chunk = i
	return nil
}

// chunksAhead returns where a read that begins with chunk i should end: behind as many of the following wanted chunks
// as the window allows.
func (c *cursor) chunksAhead(i int) uint64 {
	if c.pl.lists != nil {
		return c.listsAhead(i)
	}
	chunks := c.pl.chunks
	start := uint64(chunks[i].Offset)
	end := start + uint64(chunks[i].Size)
	if c.want == nil {
		for i++; i < len(chunks) && c.p.first+chunks[i].First < c.end; i++ {
			next := uint64(chunks[i].Offset) + uint64(chunks[i].Size)
			if next-start > uint64(c.window) {
				break
			}
			end = next
		}
		return end
	}
	for _, row := range c.want {
		if row < c.p.first || row-c.p.first < chunks[i].First {
			continue
		}
		slot := row - c.p.first
		if slot >= c.p.rows {
			break
		}
		if !holds(chunks[i], slot) {
			i += sort.Search(len(chunks)-i, func(k int) bool { return slot < chunks[i+k].First+uint64(chunks[i+k].Values) })
		}
		next := uint64(chunks[i].Offset) + uint64(chunks[i].Size)
		if uint64(chunks[i].Offset) > end+gapBytes || next-start > uint64(c.window) {
			break
		}
		end = next
	}
	return end
}

// bytes returns bytes [from, to) of the page's data buffer, reading on to ahead() if they are not in memory. They are
// valid until the next call.
func (c *cursor) bytes(ctx context.Context, from, to uint64, ahead func() uint64) ([]byte, error) {
	if from < c.dataAt || to > c.dataAt+uint64(len(c.data)) {
		buf := c.p.buffers[c.dataBuffer()]
		end := max(to, ahead())
		if end > buf.size || from > to || end-from > maxBufferBytes {
			return nil, errs.Corrupt("page", -1, "bytes %d..%d of a buffer of %d", from, end, buf.size)
		}
		n := int(end - from)
		if cap(c.data) < n {
			c.data = c.r.window(n)
		}
		c.data, c.dataAt = c.data[:n], from
		if err := c.r.readAt(ctx, c.data, buf.pos+from); err != nil {
			c.data = c.data[:0]
			return nil, err
		}
	}
	return c.data[from-c.dataAt : to-c.dataAt], nil
}

// dataBuffer is the index of the page buffer with the data.
func (c *cursor) dataBuffer() int {
	if c.pl.mini != nil {
		return 1
	}
	return 0
}

func (c *cursor) readFullZip(ctx context.Context, dst *encoding.Vector, from, to uint64) error {
	stride := uint64(c.pl.full.Stride())
	if n := (to - from) * stride; c.want == nil && c.leaf == nil && c.pl.full.Plain() && n >= directBytes {
		buf := c.p.buffers[0]
		if n > maxBufferBytes || to*stride > buf.size {
			return errs.Corrupt("page", -1, "rows %d..%d of %d bytes in a buffer of %d", from, to, stride, buf.size)
		}
		return c.r.readAt(ctx, dst.AppendPlain(int(to-from)), buf.pos+from*stride)
	}
	for from < to {
		if stride > 0 {
			upTo := min(to, from+max(1, uint64(c.window)/stride))
			b, err := c.bytes(ctx, from*stride, upTo*stride, func() uint64 { return c.rowsAhead(from, upTo, stride) })
			if err != nil {
				return err
			}
			if err := c.zipped(dst, b, int(upTo-from)); err != nil {
				return err
			}
			from = upTo
			continue
		}
		upTo, start, end, err := c.rowRange(ctx, from, to)
		if err != nil {
			return err
		}
		b, err := c.bytes(ctx, start, end, func() uint64 { return c.rangesAhead(upTo, start, end) })
		if err != nil {
			return err
		}
		if err := c.zipped(dst, b, int(upTo-from)); err != nil {
			return err
		}
		from = upTo
	}
	return nil
}

// zipped appends whole rows of a full-zip page.
func (c *cursor) zipped(dst *encoding.Vector, b []byte, rows int) error {
	if c.leaf != nil {
		return c.pl.full.AppendLeaf(c.leaf, b, rows, &c.dec)
	}
	return c.pl.full.AppendRows(dst, b, rows, &c.dec)
}

// rowsAhead returns where a read of fixed-width rows [from, to) should end.
func (c *cursor) rowsAhead(from, to, stride uint64) uint64 {
	if c.want == nil {
		limit := min(c.p.rows, c.end-c.p.first, from+max(1, uint64(c.window)/stride))
		return max(to, limit) * stride
	}
	end := to
	for _, row := range c.want {
		if row < c.p.first+end {
			continue
		}
		slot := row - c.p.first
		if slot >= c.p.rows || (slot-end)*stride > gapBytes || (slot+1-from)*stride > uint64(c.window) {
			break
		}
		end = slot + 1
	}
	return end * stride
}

// rowRange finds the bytes of as many rows from from on (at most to) as fit the window, at least one.
func (c *cursor) rowRange(ctx context.Context, from, to uint64) (upTo, start, end uint64, err error) {
	if from < c.index0 || from+1 >= c.index1 {
		if err := c.loadIndex(ctx, from); err != nil {
			return 0, 0, 0, err
		}
	}
	upTo = min(to, c.index1-1)
	start = c.entry(from)
	size := c.p.buffers[0].size
	within := func(row uint64) bool { e := c.entry(row); return e >= start && e-start <= uint64(c.window) }
	if !within(upTo) {
		n := sort.Search(int(upTo-from), func(i int) bool { return !within(from + 1 + uint64(i)) })
		upTo = from + max(1, uint64(n))
	}
	end = c.entry(upTo)
	if start > end || end > size {
		return 0, 0, 0, errs.Corrupt("page", -1, "rows %d..%d at bytes %d..%d of %d", from, upTo, start, end, size)
	}
	return upTo, start, end, nil
}

// rangesAhead returns where a read of the rows ending before next should end.
func (c *cursor) rangesAhead(next, start, end uint64) uint64 {
	size := c.p.buffers[0].size
	if c.want == nil {
		for row := next + 1; row < c.index1 && c.p.first+row <= c.end; row++ {
			e := c.entry(row)
			if e < end || e > size || e-start > uint64(c.window) {
				break
			}
			end = e
		}
		return end
	}
	for _, row := range c.want {
		if row < c.p.first+next {
			continue
		}
		slot := row - c.p.first
		if slot < c.index0 || slot+1 >= c.index1 {
			break
		}
		lo, hi := c.entry(slot), c.entry(slot+1)
		if lo < end || hi < lo || hi > size || lo-end > gapBytes || hi-start > uint64(c.window) {
			break
		}
		end = hi
	}
	return end
}

func (c *cursor) entry(row uint64) uint64 {
	return encoding.IndexEntry(c.index, c.pl.index, int(row-c.index0))
}

// loadIndex reads repetition index entries from row on: those of the following rows that will be wanted, and one more.
func (c *cursor) loadIndex(ctx context.Context, row uint64) error {
	last := min(row+indexRows, c.p.rows)
	if c.want == nil {
		last = min(last, c.end-c.p.first)
	} else {
		reach := row + 1
		for _, w := range c.want {
			if w < c.p.first+reach {
				continue
			}
			slot := w - c.p.first
			if slot >= last || (slot-reach)*uint64(c.pl.index) > gapBytes {
				break
			}
			reach = slot + 1
		}
		last = reach
	}
	w := uint64(c.pl.index)
	n := (last + 1 - row) * w
	if uint64(cap(c.index)) < n {
		c.index = make([]byte, n)
	}
	c.index = c.index[:n]
	c.index0, c.index1 = row, last+1
	if err := c.r.readAt(ctx, c.index, c.p.buffers[1].pos+row*w); err != nil {
		c.index0, c.index1 = 0, 0
		return err
	}
	return nil
}
