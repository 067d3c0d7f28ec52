package encoding

import (
	"lancesql/lance/pb"
)

const (
	dictMinRows   = 100     // smaller pages are not worth a dictionary
	dictMaxItems  = 1 << 16 // indices have at most 16 bits
	dictMinUse    = 4       // rows per item at least
	dictSample    = 1024    // values looked at before building a dictionary
	dictKeep      = 80      // percent of the plain size that dictionary and indices may have at most
	lz4ItemsBytes = 4 << 10 // dictionaries from this size on are compressed
)

// dictionary is a page split into distinct values and indices.
type dictionary struct {
	indices *Vector // shares the validity of the page
	items   *Vector // distinct values in order of first use, all valid
}

// release frees what is not shared with the page.
func (d *dictionary) release() {
	d.indices.releaseShared()
	d.items.Release()
}

// buildDictionary returns nil if a dictionary does not pay; plain is the size of the page without one.
func buildDictionary(v *Vector, plain int, h Hints) *dictionary {
	if v.n < dictMinRows || len(v.typ.Dims) > 0 || len(v.typ.Fields) > 0 {
		return nil
	}
	if !v.typ.Variable() && v.typ.Bits != 64 && v.typ.Bits != 128 {
		return nil
	}
	value := v.fixedValue
	if v.typ.Variable() {
		value = v.stringValue
	}
	seen := make(map[string]uint32)
	step := max(1, v.n/dictSample)
	samples := 0
	for i := 0; i < v.n; i += step {
		seen[string(value(i))] = 0
		samples++
	}
	uses, keep := dictMinUse, dictKeep
	if h.DictionaryUses > 0 {
		uses = h.DictionaryUses
	}
	if h.DictionaryRatio > 0 {
		keep = int(min(h.DictionaryRatio, 1) * 100)
	}
	if len(seen) > samples/min(2, uses) {
		return nil
	}
	clear(seen)
	limit := min(v.n/uses, dictMaxItems)
	idx := make([]uint16, v.n)
	d := &dictionary{items: NewVector(v.typ, v.mem)}
	for i := range idx {
		b := value(i)
		at, ok := seen[string(b)]
		if !ok {
			at = uint32(len(seen))
			if len(seen) == limit || !d.add(b) {
				d.items.Release()
				return nil
			}
			seen[string(b)] = at
		}
		idx[i] = uint16(at)
	}
	d.index(v, idx)
	if (d.items.Bytes()+fixedBytes(d.indices))*100 > plain*keep {
		d.release()
		return nil
	}
	return d
}

// add appends a distinct value.
func (d *dictionary) add(b []byte) bool {
	if d.items.typ.Variable() {
		if d.items.appendString(b) != nil {
			return false
		}
	} else {
		d.items.appendFixed(b)
	}
	d.items.n++
	return true
}

// index stores the indices in the narrowest width.
func (d *dictionary) index(v *Vector, idx []uint16) {
	bits := 16
	if d.items.n <= 256 {
		bits = 8
	}
	d.indices = NewVector(Type{Kind: KindFixed, Bits: bits}, v.mem)
	out := d.indices.growFixed(v.n)
	if bits == 16 {
		copy(out, bytesOf(idx))
	} else {
		for i, x := range idx {
			out[i] = byte(x)
		}
	}
	d.indices.n, d.indices.nulls, d.indices.valid = v.n, v.nulls, v.valid
}

func (v *Vector) fixedValue(i int) []byte {
	w := v.typ.Bits / 8
	return v.data.bytes()[i*w : (i+1)*w]
}

func (v *Vector) stringValue(i int) []byte {
	lo, hi := v.span(i)
	return v.data.bytes()[lo:hi]
}

// encodeItems encodes the dictionary buffer.
func (d *dictionary) encodeItems(compress bool, h Hints) (*pb.CompressiveEncoding, []byte, error) {
	ce, buf := flatCE(d.items.typ.Bits), d.items.data.bytes()
	if d.items.typ.Variable() {
		ce, buf = variableCE(d.items.typ.OffsetBits()), stringBlock(d.items)
	}
	how := h.DictionaryItems
	if how == CompressionAuto && len(buf) >= lz4ItemsBytes {
		how = CompressionLZ4
	}
	c, err := newCompressor(how, 0)
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	if compress && c.on {
		if packed := c.append(nil, buf); len(packed) < len(buf) {
			return c.wrap(ce), packed, nil
		}
	}
	return ce, append([]byte(nil), buf...), nil
}

// stringBlock is the inverse of decodeStringBlock for Variable.
func stringBlock(v *Vector) []byte {
	w := v.typ.OffsetBits() / 8
	start := 2*w + (v.n+1)*w
	b := make([]byte, 0, start+v.data.len())
	b = appendUintN(b, uint64(8*w), w)
	b = appendUintN(b, uint64(start), w)
	b = append(b, v.offs.bytes()...)
	return append(b, v.data.bytes()...)
}

func generalCE(scheme pb.CompressionScheme, inner *pb.CompressiveEncoding) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_General{General: &pb.General{
		Compression: &pb.BufferCompression{Scheme: scheme}, Values: inner}}}
}

// Run lengths.

const maxRun = 255

// runBytes is the size of the values as run lengths; it stops counting beyond limit.
func runBytes(v *Vector, limit int) int {
	w := v.typ.Bits / 8
	total := 0
	for from := 0; from < v.n && total <= limit; from += chunkRows {
		chunk := v.data.bytes()[from*w : min(from+chunkRows, v.n)*w]
		total += countRuns(chunk, v.typ.Bits) * (w + 1)
	}
	return total
}

func countRuns(b []byte, bits int) int {
	switch bits {
	case 8:
		return countRunsOf(b)
	case 16:
		return countRunsOf(wordsOf[uint16](b))
	case 32:
		return countRunsOf(wordsOf[uint32](b))
	}
	return countRunsOf(wordsOf[uint64](b))
}

func countRunsOf[T word](values []T) int {
	n, length := 0, maxRun
	var last T
	for _, x := range values {
		if x != last || length == maxRun {
			n, last, length = n+1, x, 0
		}
		length++
	}
	return n
}

// appendRuns splits values into run values (appended to dst) and run lengths.
func appendRuns(dst []byte, values []byte, bits int) (out, lengths []byte) {
	w := bits / 8
	for at := 0; at < len(values); {
		end := at + w
		for end < len(values) && (end-at)/w < maxRun && string(values[end:end+w]) == string(values[at:at+w]) {
			end += w
		}
		dst = append(dst, values[at:at+w]...)
		lengths = append(lengths, byte((end-at)/w))
		at = end
	}
	return dst, lengths
}

func (w *miniWriter) writeRuns() {
	v := w.v
	size := v.typ.Bits / 8
	for from := 0; from < v.n; from += chunkRows {
		to := min(from+chunkRows, v.n)
		w.begin(from, to, 2)
		start := len(w.data)
		var lengths []byte
		w.data, lengths = appendRuns(w.data, v.data.bytes()[from*size:to*size], v.typ.Bits)
		w.closeBuffer(start)
		start = len(w.data)
		w.data = append(w.data, lengths...)
		w.closeBuffer(start)
		w.end(to-from, to == v.n)
	}
}

func rleCE(bits int) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_Rle{Rle: &pb.Rle{Values: flatCE(bits), RunLengths: flatCE(8)}}}
}

func fsstCE(table []byte, inner *pb.CompressiveEncoding) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_Fsst{Fsst: &pb.Fsst{SymbolTable: table, Values: inner}}}
}

// fixedBytes is the size of the values of a fixed-width vector in the best of the plain encodings.
func fixedBytes(v *Vector) int {
	best := v.data.len()
	if len(v.typ.Dims) == 0 && packable(v.typ.Bits) {
		best = min(best, packedBytes(v))
		best = min(best, runBytes(v, best))
	}
	return best
}
