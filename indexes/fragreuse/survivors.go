package fragreuse

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"lancesql/internal/errs"
	"lancesql/lance/table"
)

// The surviving source rows of an ordered compaction, a RoaringTreemap:
//
//	u64 keys | keys x (u32 fragment | portable 32-bit Roaring of offsets), fragments ascending
//
// It is not decoded into bitmaps but into a form that answers ranks. Spec: Fragment Reuse Index, "Ordered Compaction".

const (
	chunkRows    = 1 << 16
	chunkWords   = chunkRows / 64
	chunkRunsMax = 256 // runs of a chunk above which it becomes bits: they take as much memory

	roaringPlain      = 12346
	roaringRuns       = 12347
	roaringOffsetsMin = 4
	roaringArrayMax   = 4096
)

// ranks tells for each offset of one fragment whether the row survived and how many before it did.
type ranks struct {
	keys   []uint16 // upper halves of offsets that have survivors, ascending; nil if they are 0, 1, 2, …
	chunks []chunk
}

// chunk is 65,536 offsets of a fragment: runs, or bits.
type chunk struct {
	before uint32 // survivors in earlier chunks
	runs   []run
	bits   *chunkBits
}

// run is the offsets [first, last] of a chunk; before counts the survivors of earlier runs.
type run struct {
	first, last uint16
	before      uint32
}

type chunkBits struct {
	words  [chunkWords]uint64
	before [chunkWords]uint16 // survivors in earlier words; 65536 cannot occur before the last word
}

// rank returns how many rows before offset survived; ok is false if the row itself did not.
func (r *ranks) rank(offset uint32) (n uint32, ok bool) {
	k := int(offset >> 16)
	if r.keys != nil {
		if k, ok = slices.BinarySearch(r.keys, uint16(k)); !ok {
			return 0, false
		}
	} else if k >= len(r.chunks) {
		return 0, false
	}
	c := &r.chunks[k]
	low := uint16(offset)
	if c.bits != nil {
		w := c.bits.words[low>>6]
		if w>>(low&63)&1 == 0 {
			return 0, false
		}
		return c.before + uint32(c.bits.before[low>>6]) + uint32(bits.OnesCount64(w&(1<<(low&63)-1))), true
	}
	if len(c.runs) == 1 {
		x := &c.runs[0]
		return c.before + uint32(low-x.first), low >= x.first && low <= x.last
	}
	i, found := slices.BinarySearchFunc(c.runs, low, func(x run, at uint16) int { return int(x.first) - int(at) })
	if !found {
		i--
	}
	if i < 0 || low > c.runs[i].last {
		return 0, false
	}
	return c.before + c.runs[i].before + uint32(low-c.runs[i].first), true
}

// decodeSurvivors parses untrusted bytes against the digests of the sources; object names them in errors. The result is
// in the order of sources. A source without survivors has no chunks.
func decodeSurvivors(object string, b []byte, sources []table.ReuseDigest) ([]ranks, error) {
	r := &bitmapReader{object: object, b: b}
	head, err := r.take(8)
	if err != nil {
		return nil, err
	}
	keys := binary.LittleEndian.Uint64(head)
	at := make(map[uint32]int, len(sources))
	for i, d := range sources {
		at[d.ID] = i
	}
	if keys > uint64(len(sources)) {
		return nil, r.bad("survivors of %d fragments, the step has %d", keys, len(sources))
	}
	out := make([]ranks, len(sources))
	live := make([]uint64, len(sources))
	last := int64(-1)
	for range keys {
		head, err := r.take(4)
		if err != nil {
			return nil, err
		}
		id := binary.LittleEndian.Uint32(head)
		i, known := at[id]
		if !known || int64(id) <= last {
			return nil, r.bad("survivors of fragment %d, which is no source or out of order", id)
		}
		last = int64(id)
		if live[i], err = r.fragment(&out[i], sources[i].PhysicalRows); err != nil {
			return nil, err
		}
	}
	if r.at != len(b) {
		return nil, r.bad("%d bytes after the surviving rows", len(b)-r.at)
	}
	for i, d := range sources {
		if live[i] != uint64(d.LiveRows()) {
			return nil, r.bad("%d survivors of fragment %d, its digest says %d", live[i], d.ID, d.LiveRows())
		}
	}
	return out, nil
}

// bitmapReader walks serialised bitmaps; every read is checked against the rest.
type bitmapReader struct {
	object string
	b      []byte
	at     int
}

func (r *bitmapReader) bad(format string, args ...any) error {
	return errs.Corrupt(r.object, int64(r.at), format, args...)
}

func (r *bitmapReader) take(n int) ([]byte, error) {
	if n > len(r.b)-r.at {
		return nil, r.bad("surviving rows: %d bytes wanted, %d left", n, len(r.b)-r.at)
	}
	p := r.b[r.at : r.at+n]
	r.at += n
	return p, nil
}

// fragment reads one bitmap into out and returns its cardinality.
func (r *bitmapReader) fragment(out *ranks, rows uint32) (total uint64, err error) {
	head, err := r.take(4)
	if err != nil {
		return 0, err
	}
	cookie := binary.LittleEndian.Uint32(head)
	containers, isRun := 0, []byte(nil)
	switch {
	case cookie&0xffff == roaringRuns:
		containers = int(cookie>>16) + 1
		if isRun, err = r.take((containers + 7) / 8); err != nil {
			return 0, err
		}
	case cookie == roaringPlain:
		if head, err = r.take(4); err != nil {
			return 0, err
		}
		n := binary.LittleEndian.Uint32(head)
		if n > chunkRows {
			return 0, r.bad("bitmap of %d containers", n)
		}
		containers = int(n)
	default:
		return 0, r.bad("bitmap cookie %d", cookie)
	}
	heads, err := r.take(4 * containers)
	if err != nil {
		return 0, err
	}
	if isRun == nil || containers >= roaringOffsetsMin {
		if _, err := r.take(4 * containers); err != nil { // offsets repeat what the order says
			return 0, err
		}
	}
	out.chunks = make([]chunk, containers)
	keys, dense := make([]uint16, containers), true
	for i := range containers {
		keys[i] = binary.LittleEndian.Uint16(heads[4*i:])
		count := int(binary.LittleEndian.Uint16(heads[4*i+2:])) + 1
		if i > 0 && keys[i] <= keys[i-1] {
			return 0, r.bad("bitmap container %d follows %d", keys[i], keys[i-1])
		}
		dense = dense && int(keys[i]) == i
		c := &out.chunks[i]
		c.before = uint32(total)
		top, err := r.container(c, count, isRun != nil && isRun[i/8]>>(i%8)&1 == 1)
		if err != nil {
			return 0, err
		}
		if uint64(keys[i])<<16|uint64(top) >= uint64(rows) {
			return 0, r.bad("surviving row %d of %d", uint64(keys[i])<<16|uint64(top), rows)
		}
		total += uint64(count)
	}
	if !dense {
		out.keys = keys
	}
	return total, nil
}

// container reads count values into c and returns the greatest.
func (r *bitmapReader) container(c *chunk, count int, isRun bool) (top uint16, err error) {
	switch {
	case isRun:
		err = r.runs(c, count)
	case count <= roaringArrayMax:
		err = r.array(c, count)
	default:
		err = r.bitset(c, count)
	}
	if err != nil {
		return 0, err
	}
	if c.bits == nil {
		return c.runs[len(c.runs)-1].last, nil
	}
	for w := chunkWords - 1; ; w-- {
		if x := c.bits.words[w]; x != 0 {
			return uint16(w*64 + 63 - bits.LeadingZeros64(x)), nil
		}
	}
}

func (r *bitmapReader) runs(c *chunk, count int) error {
	head, err := r.take(2)
	if err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint16(head))
	body, err := r.take(4 * n)
	if err != nil {
		return err
	}
	list := make([]run, 0, n)
	next, total := 0, 0
	for ; len(body) > 0; body = body[4:] {
		first := int(binary.LittleEndian.Uint16(body))
		last := first + int(binary.LittleEndian.Uint16(body[2:]))
		if first < next || last >= chunkRows {
			return r.bad("bitmap run %d to %d out of order or range", first, last)
		}
		list = append(list, run{uint16(first), uint16(last), uint32(total)})
		next, total = last+1, total+last+1-first
	}
	if total != count {
		return r.bad("bitmap runs hold %d values, %d announced", total, count)
	}
	c.set(list)
	return nil
}

func (r *bitmapReader) array(c *chunk, count int) error {
	body, err := r.take(2 * count)
	if err != nil {
		return err
	}
	var list []run
	for i := range count {
		v := binary.LittleEndian.Uint16(body[2*i:])
		switch n := len(list); {
		case n > 0 && v <= list[n-1].last:
			return r.bad("bitmap values are not ascending")
		case n > 0 && v == list[n-1].last+1:
			list[n-1].last = v
		default:
			list = append(list, run{v, v, uint32(i)})
		}
	}
	c.set(list)
	return nil
}

func (r *bitmapReader) bitset(c *chunk, count int) error {
	body, err := r.take(chunkRows / 8)
	if err != nil {
		return err
	}
	c.bits = new(chunkBits)
	total := 0
	for w := range chunkWords {
		c.bits.words[w] = binary.LittleEndian.Uint64(body[8*w:])
		c.bits.before[w] = uint16(total)
		total += bits.OnesCount64(c.bits.words[w])
	}
	if total != count {
		return r.bad("bitmap of %d values, %d announced", total, count)
	}
	return nil
}

// set keeps the runs, which are not empty, or turns them into bits when they are many.
func (c *chunk) set(list []run) {
	if len(list) <= chunkRunsMax {
		c.runs = slices.Clip(list)
		return
	}
	c.bits = new(chunkBits)
	for _, x := range list {
		for v := int(x.first); v <= int(x.last); v++ {
			c.bits.words[v>>6] |= 1 << (v & 63)
		}
	}
	total := 0
	for w := range chunkWords {
		c.bits.before[w] = uint16(total)
		total += bits.OnesCount64(c.bits.words[w])
	}
}
