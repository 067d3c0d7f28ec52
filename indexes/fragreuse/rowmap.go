package fragreuse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// A row map is a Lance file of one nullable UInt16 column "label", a row for each physical row of the sources in order:
// the place of its destination in the list of destinations, null if it was deleted. A global buffer, named by the
// schema's metadata, counts the rows sent to each destination up to the end of each block of rows:
//
//	"LSPC" | u32 version 1 | u32 representation 0 | u32 destinations | u32 rows of a block | u64 rows | u32 counts…
//
// counts are block after block, a count for each destination. Spec: Fragment Reuse Index, "Stable Partition".
const (
	countsKey        = "lance:stable_partition:counts_buffer_index"
	countsMagic      = "LSPC"
	countsVersion    = 1
	countsHeader     = 28
	labelColumn      = "label"
	blockRowsDefault = 1 << 16

	// countsBytesMax bounds the counts of a row map, which are held in memory: a thousand blocks of 65,536 destinations.
	countsBytesMax = 256 << 20
	// blockRowsMax bounds what is decoded at a time.
	blockRowsMax = 1 << 22

	rowsMax = 1 << 52 // labels of one file

	unsent = 1<<32 - 1 // the offset of a row that was deleted; no fragment has so many rows
)

// counts is the decoded counts matrix.
type counts struct {
	destinations int
	blockRows    uint64
	rows         uint64
	grid         []uint32 // cumulative, block-major
}

// blocks is the number of blocks.
func (c *counts) blocks() uint64 { return blocksOf(c.rows, c.blockRows) }

func blocksOf(rows, blockRows uint64) uint64 { return (rows + blockRows - 1) / blockRows }

// encode is the buffer's bytes.
func (c *counts) encode() []byte {
	out := make([]byte, 0, countsHeader+4*len(c.grid))
	out = append(out, countsMagic...)
	out = binary.LittleEndian.AppendUint32(out, countsVersion)
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(c.destinations))
	out = binary.LittleEndian.AppendUint32(out, uint32(c.blockRows))
	out = binary.LittleEndian.AppendUint64(out, c.rows)
	for _, n := range c.grid {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return out
}

// decodeCounts parses untrusted bytes and checks them against the destinations of the step. object names the file.
// Spec: Fragment Reuse Index, "Counts Matrix".
func decodeCounts(object string, b []byte, destinations []table.ReuseDigest) (*counts, error) {
	bad := func(at int64, format string, args ...any) error {
		return errs.Corrupt(object, at, "counts of a stable partition: "+format, args...)
	}
	if len(b) < countsHeader || string(b[:4]) != countsMagic {
		return nil, bad(0, "%d bytes that do not begin with %s", len(b), countsMagic)
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	if u32(4) != countsVersion || u32(8) != 0 {
		return nil, fmt.Errorf("%s: counts of version %d, representation %d: %w", object, u32(4), u32(8), errs.ErrUnsupported)
	}
	c := &counts{destinations: int(u32(12)), blockRows: uint64(u32(16)), rows: binary.LittleEndian.Uint64(b[20:])}
	switch {
	case c.destinations != len(destinations):
		return nil, bad(12, "%d destinations, the step has %d", c.destinations, len(destinations))
	case c.blockRows == 0:
		return nil, bad(16, "blocks of no rows")
	case c.rows > rowsMax: // keeps sums and products from overflowing
		return nil, bad(20, "%d rows", c.rows)
	}
	width := uint64(4 * c.destinations)
	if n := c.blocks(); n > uint64(len(b))/width || n*width != uint64(len(b)-countsHeader) {
		return nil, bad(countsHeader, "%d bytes for %d blocks of %d destinations", len(b)-countsHeader, n, c.destinations)
	}
	c.grid = make([]uint32, (len(b)-countsHeader)/4)
	for i := range c.grid {
		c.grid[i] = u32(countsHeader + 4*i)
	}
	return c, c.check(bad, destinations)
}

// check: counts never fall, no block sends more rows than it has, the last block's are those of the destinations.
func (c *counts) check(bad func(int64, string, ...any) error, destinations []table.ReuseDigest) error {
	before := make([]uint32, c.destinations)
	for k := range c.blocks() {
		row := c.grid[k*uint64(c.destinations):][:c.destinations]
		at := int64(countsHeader) + int64(k)*int64(4*c.destinations)
		var sent uint64
		for d, n := range row {
			if n < before[d] {
				return bad(at, "the count of destination %d falls in block %d", d, k)
			}
			sent += uint64(n - before[d])
		}
		if length := min(c.blockRows, c.rows-k*c.blockRows); sent > length {
			return bad(at, "block %d of %d rows sends %d", k, length, sent)
		}
		before = row
	}
	for d, n := range before {
		if n != destinations[d].PhysicalRows {
			return bad(-1, "destination %d gets %d rows, its digest says %d", d, n, destinations[d].PhysicalRows)
		}
	}
	return nil
}

// RowMap is an opened row map. It is safe for concurrent use and needs no Close.
type RowMap struct {
	object string
	r      *store.Reader
	col    store.Columns
	counts *counts
	ids    []uint32 // of the destinations

	cache *store.Cache
	owner store.Owner
}

// OpenRowMap opens the row map that a step names, below root, and checks it against the step. cache keeps decoded
// blocks. errs.ErrNotFound if the file is not there, errs.ErrCorruption, errs.ErrUnsupported for newer versions,
// errs.ErrLimit for sizes that are not served.
func OpenRowMap(ctx context.Context, root store.Dir, p *table.ReusePartition, s table.ReuseStep, cache *store.Cache) (*RowMap, error) {
	name := p.Object()
	r, err := root.Open(ctx, name, p.Size)
	if err != nil {
		return nil, fmt.Errorf("row map %s: %w", p.MapID, err)
	}
	m := &RowMap{object: root.Object(name), r: r, cache: cache, owner: cache.NewOwner()}
	var physical uint64
	for _, d := range s.Sources {
		physical += uint64(d.PhysicalRows)
	}
	for _, d := range s.Destinations {
		m.ids = append(m.ids, d.ID)
	}
	if r.Rows() != physical {
		return nil, errs.Corrupt(m.object, -1, "labels of %d rows, the sources have %d", r.Rows(), physical)
	}
	if m.col, err = r.Columns(labelColumn); err == nil {
		err = r.Require(m.col, 0, arrow.PrimitiveTypes.Uint16)
	}
	if err != nil {
		return nil, err
	}
	text, ok := r.Metadata(countsKey)
	number, err := strconv.ParseUint(text, 10, 32)
	if !ok || err != nil {
		return nil, errs.Corrupt(m.object, -1, "metadata %s is %q", countsKey, text)
	}
	raw, err := r.Buffer(ctx, uint32(number), countsBytesMax+countsHeader)
	if err != nil {
		if errors.Is(err, errs.ErrInvalid) {
			err = errs.Corrupt(m.object, -1, "counts in global buffer %d, which is not there", number)
		}
		return nil, fmt.Errorf("row map %s: %w", p.MapID, err)
	}
	if m.counts, err = decodeCounts(m.object, raw, s.Destinations); err != nil {
		return nil, err
	}
	if m.counts.rows != physical {
		return nil, errs.Corrupt(m.object, -1, "counts of %d rows, the sources have %d", m.counts.rows, physical)
	}
	if min(m.counts.blockRows, physical) > blockRowsMax {
		return nil, fmt.Errorf("row map %s: blocks of %d rows: %w: %w", p.MapID, m.counts.blockRows, errs.ErrUnsupported, errs.ErrLimit)
	}
	return m, nil
}

// block is a decoded block: for each row the destination and the offset in it.
type block struct {
	labels  []uint16
	offsets []uint32 // unsent: the row was deleted
}

// addr is where row i of the block went, Gone if it was deleted.
func (m *RowMap) addr(b *block, i uint32) rowaddr.Addr {
	if b.offsets[i] == unsent {
		return Gone
	}
	return rowaddr.New(m.ids[b.labels[i]], b.offsets[i])
}

// block reads block k of the labels, or takes it from the cache.
func (m *RowMap) block(ctx context.Context, k uint64) (*block, error) {
	if v, ok := m.cache.Get(m.owner, k); ok {
		return v.(*block), nil
	}
	c := m.counts
	from := k * c.blockRows
	to := min(from+c.blockRows, c.rows)
	b := &block{labels: make([]uint16, 0, to-from), offsets: make([]uint32, 0, to-from)}
	next := make([]uint32, c.destinations) // the offset of the next row of each destination
	if k > 0 {
		copy(next, c.grid[(k-1)*uint64(c.destinations):])
	}
	err := m.r.Read(ctx, m.col, from, to, blockRowsDefault, func(rec arrow.RecordBatch) error {
		labels, ok := rec.Column(0).(*array.Uint16)
		if !ok {
			return errs.Corrupt(m.object, -1, "labels of type %s", rec.Column(0).DataType())
		}
		for i := range labels.Len() {
			if labels.IsNull(i) {
				b.labels, b.offsets = append(b.labels, 0), append(b.offsets, unsent)
				continue
			}
			d := labels.Value(i)
			if int(d) >= len(next) {
				return errs.Corrupt(m.object, -1, "label %d of row %d, there are %d destinations", d, from+uint64(len(b.labels)), len(next))
			}
			b.labels, b.offsets = append(b.labels, d), append(b.offsets, next[d])
			next[d]++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if uint64(len(b.labels)) != to-from {
		return nil, errs.Corrupt(m.object, -1, "%d labels in block %d of %d rows", len(b.labels), k, to-from)
	}
	for d, n := range c.grid[k*uint64(c.destinations):][:c.destinations] {
		if next[d] != n {
			return nil, errs.Corrupt(m.object, -1, "block %d brings destination %d to %d rows, the counts say %d", k, d, next[d], n)
		}
	}
	m.cache.Put(m.owner, k, b, int64(6*len(b.labels)))
	return b, nil
}
