package encoding

import (
	"lancesql/lance/pb"
)

// Block codecs hold a known number of values in one buffer. Levels of chunks, levels of constant pages and dictionary
// items use them.
// Spec: file format, "Compressive encodings", context "block".

// fixedBlock is a compiled block codec for fixed-width values.
type fixedBlock struct {
	kind   blockKind
	bits   int // of one uncompressed value
	width  int // packed bits of blockOutOfLine
	scheme pb.CompressionScheme
	inner  *fixedBlock // of blockGeneral
}

type blockKind uint8

const (
	blockFlat blockKind = iota
	blockInline
	blockOutOfLine
	blockRLE
	blockGeneral
)

// compileFixedBlock checks the description of a block of bits-wide values.
func compileFixedBlock(ce *pb.CompressiveEncoding, bits int) (*fixedBlock, error) {
	return compileFixedBlockAt(ce, bits, true)
}

func compileFixedBlockAt(ce *pb.CompressiveEncoding, bits int, wrappable bool) (*fixedBlock, error) {
	switch c := ce.GetCompression().(type) {
	case *pb.CompressiveEncoding_Flat:
		return &fixedBlock{kind: blockFlat, bits: bits}, checkFlat(c.Flat, bits)
	case *pb.CompressiveEncoding_InlineBitpacking:
		b := &fixedBlock{kind: blockInline, bits: bits}
		return b, checkPackable(c.InlineBitpacking.GetUncompressedBitsPerValue(), bits)
	case *pb.CompressiveEncoding_OutOfLineBitpacking:
		flat := c.OutOfLineBitpacking.GetValues().GetFlat()
		if flat == nil {
			return nil, unsupported("bit packing over %s", nameOf(c.OutOfLineBitpacking.GetValues()))
		}
		w := flat.GetBitsPerValue()
		if err := checkPackable(c.OutOfLineBitpacking.GetUncompressedBitsPerValue(), bits); err != nil {
			return nil, err
		}
		if w == 0 || w >= uint64(bits) {
			return nil, corrupt("packed width %d of %d-bit values", w, bits)
		}
		return &fixedBlock{kind: blockOutOfLine, bits: bits, width: int(w)}, nil
	case *pb.CompressiveEncoding_Rle:
		return &fixedBlock{kind: blockRLE, bits: bits}, checkRLE(c.Rle, bits)
	case *pb.CompressiveEncoding_General:
		if !wrappable {
			return nil, unsupported("general compression inside general compression")
		}
		inner, err := compileFixedBlockAt(c.General.GetValues(), bits, false)
		if err != nil {
			return nil, err
		}
		return &fixedBlock{kind: blockGeneral, bits: bits, scheme: c.General.GetCompression().GetScheme(), inner: inner}, nil
	}
	return nil, unsupported("block codec %s", nameOf(ce))
}

func checkFlat(f *pb.Flat, bits int) error {
	if f.GetBitsPerValue() != uint64(bits) {
		return corrupt("flat values of %d bits where %d are expected", f.GetBitsPerValue(), bits)
	}
	if f.GetData() != nil {
		return unsupported("compressed flat buffer")
	}
	return nil
}

func checkPackable(got uint64, bits int) error {
	if got != uint64(bits) {
		return corrupt("packed values of %d bits where %d are expected", got, bits)
	}
	if !packable(bits) {
		return unsupported("bit packing of %d-bit values", bits)
	}
	return nil
}

// packable reports whether bit packing and run lengths exist for a width.
func packable(bits int) bool { return bits == 8 || bits == 16 || bits == 32 || bits == 64 }

func checkRLE(r *pb.Rle, bits int) error {
	values, lengths := r.GetValues().GetFlat(), r.GetRunLengths().GetFlat()
	if values == nil || lengths == nil || lengths.GetBitsPerValue() != 8 {
		return unsupported("run lengths over %s and %s", nameOf(r.GetValues()), nameOf(r.GetRunLengths()))
	}
	if !packable(bits) {
		return unsupported("run lengths of %d-bit values", bits)
	}
	return checkFlat(values, bits)
}

// decode returns the n values of the block as aligned little-endian words (or a bitmap for bits = 1). The result may
// alias buf when it is flat; scratch is reused when large enough.
func (f *fixedBlock) decode(buf []byte, n int, scratch []byte, d *Decompressor) ([]byte, error) {
	size := n * f.bits
	switch f.kind {
	case blockFlat:
		if len(buf) < bitmapBytes(size) {
			return nil, corrupt("flat block of %d bytes for %d values of %d bits", len(buf), n, f.bits)
		}
		out := alignedScratch(scratch, bitmapBytes(size))
		copy(out, buf)
		return out, nil
	case blockInline:
		if n > blockValues {
			return nil, corrupt("inline bit-packed block of %d values", n)
		}
		w, payload, err := inlinePayload(buf, f.bits)
		if err != nil {
			return nil, err
		}
		out := alignedScratch(scratch, blockValues*f.bits/8)
		unpackBlock(out, payload, f.bits, w)
		return out[:size/8], nil
	case blockOutOfLine:
		return f.decodeOutOfLine(buf, n, scratch)
	case blockRLE:
		if len(buf) < 8 {
			return nil, corrupt("run length block of %d bytes", len(buf))
		}
		valueBytes := u64(buf)
		if valueBytes > uint64(len(buf)-8) {
			return nil, corrupt("run values of %d bytes in a block of %d", valueBytes, len(buf))
		}
		values, lengths := buf[8:8+valueBytes], buf[8+valueBytes:]
		if n > 255*len(lengths) {
			return nil, corrupt("%d runs for %d values", len(lengths), n)
		}
		out := alignedScratch(scratch, size/8)
		return out, expandRuns(out, values, lengths, f.bits, 0, n)
	}
	raw, err := d.expand(nil, f.scheme, buf, -1)
	if err != nil {
		return nil, err
	}
	return f.inner.decode(raw, n, scratch, d)
}

// alignedScratch returns n bytes aligned for any word, reusing scratch if possible. scratch must come from here.
func alignedScratch(scratch []byte, n int) []byte {
	if cap(scratch) >= n {
		return scratch[:n]
	}
	return bytesOf(make([]uint64, (n+7)/8))[:n]
}

// inlinePayload splits an InlineBitpacking buffer: one word with the width, then the packed words.
func inlinePayload(buf []byte, size int) (w int, payload []byte, err error) {
	head := size / 8
	if len(buf) < head {
		return 0, nil, corrupt("bit-packed buffer of %d bytes", len(buf))
	}
	width := uintN(buf, head)
	if width > uint64(size) {
		return 0, nil, corrupt("packed width %d of %d-bit values", width, size)
	}
	n := blockValues / 8 * int(width)
	if len(buf)-head < n {
		return 0, nil, corrupt("bit-packed buffer of %d bytes at width %d", len(buf), width)
	}
	return int(width), buf[head : head+n], nil
}

// decodeOutOfLine expands full blocks of 1024 values and a tail that is packed too or raw, told apart by length.
func (f *fixedBlock) decodeOutOfLine(buf []byte, n int, scratch []byte) ([]byte, error) {
	size := f.bits / 8
	perBlock := (blockValues*f.width + f.bits - 1) / f.bits * size
	full, tail := n/blockValues, n%blockValues
	raw := len(buf) == full*perBlock+tail*size
	if !raw && len(buf) < (n+blockValues-1)/blockValues*perBlock {
		return nil, corrupt("bit-packed block of %d bytes for %d values at width %d", len(buf), n, f.width)
	}
	blocks := full
	if !raw {
		blocks = (n + blockValues - 1) / blockValues
	}
	out := alignedScratch(scratch, max(blocks*blockValues, n)*size)
	for i := range blocks {
		unpackBlock(out[i*blockValues*size:], buf[i*perBlock:(i+1)*perBlock], f.bits, f.width)
	}
	if raw {
		copy(out[full*blockValues*size:], buf[full*perBlock:])
	}
	return out[:n*size], nil
}

// expandRuns writes values [from, to) of a run-length sequence to dst, which has exactly that size. values and lengths
// are parallel; a surplus in the last run is ignored.
func expandRuns(dst, values, lengths []byte, bits, from, to int) error {
	if len(values) < len(lengths)*bits/8 {
		return corrupt("%d bytes of run values for %d runs", len(values), len(lengths))
	}
	var ok bool
	switch bits {
	case 8:
		ok = runs(dst, values, lengths, from, to)
	case 16:
		ok = runs(wordsOf[uint16](dst), values, lengths, from, to)
	case 32:
		ok = runs(wordsOf[uint32](dst), values, lengths, from, to)
	default:
		ok = runs(wordsOf[uint64](dst), values, lengths, from, to)
	}
	if !ok {
		return corrupt("runs end before value %d", to)
	}
	return nil
}

func runs[T word](dst []T, values, lengths []byte, from, to int) bool {
	size := bitsOf[T]() / 8
	at := 0
	for i, length := range lengths {
		if at >= to {
			return true
		}
		lo, hi := max(at, from), min(at+int(length), to)
		at += int(length)
		if lo >= hi {
			continue
		}
		v := T(uintN(values[i*size:], size))
		fill(dst[lo-from:hi-from], v)
	}
	return at >= to
}

// nameOf names an encoding in error messages.
func nameOf(ce *pb.CompressiveEncoding) string {
	if ce == nil || ce.GetCompression() == nil {
		return "nothing"
	}
	m := ce.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().Get(0)); f != nil {
		return string(f.Name())
	}
	return "nothing"
}

// decodeLevels expands the levels of one chunk or page.
func (f *fixedBlock) decodeLevels(buf []byte, n int, scratch []byte, d *Decompressor) ([]uint16, []byte, error) {
	out, err := f.decode(buf, n, scratch, d)
	if err != nil {
		return nil, scratch, err
	}
	return wordsOf[uint16](out)[:n], out, nil
}

// rawLevels reads an array of u16.
func rawLevels(buf []byte) []uint16 {
	out := make([]uint16, len(buf)/2)
	for i := range out {
		out[i] = uint16(u16(buf[2*i:]))
	}
	return out
}

// strings is a decoded dictionary or block of byte strings.
type strings struct {
	offs []uint64 // n+1
	data []byte
}

// decodeStringBlock reads n byte strings in block form.
//
//	w=4: u32 32 | u32 bytes_start | u32 off[n+1] | bytes;  w=8: u64 64 | u64 bytes_start | u64 off[n+1] | bytes
func decodeStringBlock(ce *pb.CompressiveEncoding, offsetBits int, buf []byte, n uint64, d *Decompressor) (*strings, error) {
	if g := ce.GetGeneral(); g != nil {
		raw, err := d.expand(nil, g.GetCompression().GetScheme(), buf, -1)
		if err != nil {
			return nil, err
		}
		buf, ce = raw, g.GetValues()
	}
	v := ce.GetVariable()
	if v == nil {
		return nil, unsupported("string block codec %s", nameOf(ce))
	}
	if err := checkVariable(v, offsetBits); err != nil {
		return nil, err
	}
	w := offsetBits / 8
	if len(buf) < 2*w || n >= uint64(len(buf))/uint64(w) {
		return nil, corrupt("string block of %d bytes for %d values", len(buf), n)
	}
	if bits := uintN(buf, w); bits != uint64(offsetBits) {
		return nil, corrupt("string block with %d-bit offsets where %d are expected", bits, offsetBits)
	}
	start := uintN(buf[w:], w)
	if tableEnd := uint64(2*w) + (n+1)*uint64(w); start < tableEnd || start > uint64(len(buf)) {
		return nil, corrupt("string block of %d bytes with data at %d", len(buf), start)
	}
	s := &strings{offs: make([]uint64, n+1), data: buf[start:]}
	last := uint64(0)
	for i := range s.offs {
		o := uintN(buf[2*w+i*w:], w)
		if o < last || o > uint64(len(s.data)) {
			return nil, corrupt("string block offset %d after %d in %d bytes", o, last, len(s.data))
		}
		s.offs[i], last = o, o
	}
	return s, nil
}

func checkVariable(v *pb.Variable, offsetBits int) error {
	flat := v.GetOffsets().GetFlat()
	if flat == nil {
		return unsupported("string offsets as %s", nameOf(v.GetOffsets()))
	}
	if v.GetValues() != nil {
		return unsupported("compressed string buffer")
	}
	return checkFlat(flat, offsetBits)
}
