package encoding

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"

	"lancesql/lance/pb"
)

// Compression is what a field asks for; the zero value leaves the choice to statistics.
type Compression uint8

// The compressions a field can ask for.
const (
	CompressionAuto Compression = iota
	CompressionNone
	CompressionLZ4
	CompressionZstd
	CompressionFSST
)

// Structure is the page structure a field asks for; the zero value leaves it to the width of the values.
type Structure uint8

// The page structures a field can ask for.
const (
	StructureAuto Structure = iota
	StructureMiniBlock
	StructureFullZip
)

// Hints are what the metadata of a field asks of the writer. They are wishes: what does not shrink a page, or does not
// fit its type or version, is left out. The zero value asks for nothing.
// Spec: file format, "What the reference writer picks".
type Hints struct {
	Compression     Compression
	Level           int  // of zstd; 0: its default
	NoSplit         bool // no byte stream split under a compression
	Structure       Structure
	RunThreshold    float64     // run lengths if there are fewer runs than values times this; 0: if they are smallest
	DictionaryUses  int         // rows per distinct value at least; 0: 4
	DictionaryRatio float64     // part of the plain size that dictionary and indices may have at most; 0: 0.8
	DictionaryItems Compression // of the distinct values, 2.2 only
}

// general returns the scheme of general compression that is asked for.
func (c Compression) general() (pb.CompressionScheme, bool) {
	switch c {
	case CompressionLZ4:
		return pb.CompressionScheme_COMPRESSION_LZ4, true
	case CompressionZstd:
		return pb.CompressionScheme_COMPRESSION_ZSTD, true
	}
	return 0, false
}

const (
	zstdAutoBytes  = 32 << 10  // values from this width on are compressed unasked, if a sample shrinks
	zstdSample     = 256 << 10 // bytes of that sample
	zstdKeep       = 90        // percent of it that may be left
	miniWidestOld  = 8000      // widest value of a mini-block page before 2.2, whose chunks have 32 KiB at most
	miniWidest     = 64 << 10
	fsstHintedMin  = 4 << 10 // bytes of a page from which FSST is tried if it is asked for
	zstdHeaderSize = 8
)

// zips says whether the rows of v, of which there is at least one, go into a full-zip page.
func (o PageOptions) zips(v *Vector) bool {
	widest := v.widest()
	switch o.Hints.Structure {
	case StructureFullZip:
		return true
	case StructureMiniBlock:
		limit := miniWidestOld
		if o.Large {
			limit = miniWidest
		}
		return widest > limit
	}
	return widest >= fullZipBytes
}

// compressor makes the General form of buffers. The zero value does nothing.
type compressor struct {
	scheme pb.CompressionScheme
	on     bool
	level  int
	zstd   *zstd.Encoder
}

// newCompressor returns what h asks for, switched off if that is no general compression.
func newCompressor(c Compression, level int) (*compressor, error) {
	out := &compressor{level: level}
	if out.scheme, out.on = c.general(); out.scheme != pb.CompressionScheme_COMPRESSION_ZSTD {
		return out, nil
	}
	speed := zstd.SpeedDefault
	if level != 0 {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	var err error
	out.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(speed))
	return out, err
}

// append appends the General form of src, which need not be smaller.
func (c *compressor) append(dst, src []byte) []byte {
	if c.zstd == nil {
		return appendLZ4(dst, src)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(src)))
	return c.zstd.EncodeAll(src, dst)
}

func (c *compressor) close() {
	if c.zstd != nil {
		_ = c.zstd.Close() // nothing is pending
	}
}

// wrap describes General over an encoding.
func (c *compressor) wrap(inner *pb.CompressiveEncoding) *pb.CompressiveEncoding {
	ce := generalCE(c.scheme, inner)
	if c.zstd != nil {
		level := int32(c.level)
		ce.GetGeneral().Compression.Level = &level
	}
	return ce
}

// compressValues returns a vector with each value of v compressed on its own, sharing v's validity, and the encoding; nil
// if it is not asked for or does not shrink.
func compressValues(v *Vector, o PageOptions) (*Vector, *pb.CompressiveEncoding, error) {
	asked := o.Hints.Compression
	if asked == CompressionAuto && v.widest() > zstdAutoBytes && shrinks(v) {
		asked = CompressionZstd
	}
	c, err := newCompressor(asked, o.Hints.Level)
	if err != nil || !c.on {
		return nil, nil, err
	}
	defer c.close()
	out := NewVector(v.typ, v.mem)
	var buf []byte
	for i := range v.n {
		lo, hi := v.span(i)
		if buf = buf[:0]; hi > lo {
			buf = c.append(buf, v.data.bytes()[lo:hi])
		}
		if err := out.appendString(buf); err != nil || out.data.len() >= v.data.len() {
			out.Release()
			return nil, nil, err
		}
	}
	out.n, out.nulls, out.valid = v.n, v.nulls, v.valid
	return out, c.wrap(variableCE(v.typ.OffsetBits())), nil
}

// shrinks tries zstd on the first values of v.
func shrinks(v *Vector) bool {
	sample := v.data.bytes()
	sample = sample[:min(len(sample), zstdSample)]
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return false
	}
	defer e.Close()
	return len(e.EncodeAll(sample, nil))*100 < len(sample)*zstdKeep
}
