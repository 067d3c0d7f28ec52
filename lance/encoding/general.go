package encoding

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// Spec: file format, "General".
//
//	LZ4   u32 uncompressed_size | one raw LZ4 block
//	zstd  u64 uncompressed_size | one zstd frame      (readers also accept the bare frame)

const (
	// freeExpansion is what any compressed buffer may expand to, maxExpansion the factor beyond it. They stop
	// compression bombs; no honest encoder is near them.
	freeExpansion = 64 << 20
	maxExpansion  = 1024
	// lz4Ratio is what a byte of an LZ4 block can stand for at most.
	lz4Ratio = 255
	// zstdBlock is the most one zstd block can hold.
	zstdBlock = 128 << 10
	// maxExpanded is the absolute bound of one uncompressed buffer.
	maxExpanded = 1<<31 - 1
)

var zstdMagic = [4]byte{0x28, 0xb5, 0x2f, 0xfd}

// Decompressor expands General buffers. It keeps decoder state for reuse and is not safe for concurrent use.
type Decompressor struct {
	zstd *zstd.Decoder
}

// Close frees the decoder state; the Decompressor may be used again.
func (d *Decompressor) Close() {
	if d.zstd != nil {
		d.zstd.Close()
		d.zstd = nil
	}
}

// expand appends the uncompressed form of src to dst. want is the exact expected size, -1 if unknown.
func (d *Decompressor) expand(dst []byte, scheme pb.CompressionScheme, src []byte, want int) ([]byte, error) {
	switch scheme {
	case pb.CompressionScheme_COMPRESSION_LZ4:
		return expandLZ4(dst, src, want)
	case pb.CompressionScheme_COMPRESSION_ZSTD:
		return d.expandZstd(dst, src, want)
	}
	return nil, unsupported("compression scheme %d", scheme)
}

// checkExpansion refuses claimed sizes that are wrong or hostile.
func checkExpansion(claimed uint64, compressed, want int) error {
	if want >= 0 && claimed != uint64(want) {
		return corrupt("compressed buffer claims %d bytes, %d expected", claimed, want)
	}
	if claimed > maxExpanded || claimed > freeExpansion && claimed/maxExpansion > uint64(compressed) {
		return fmt.Errorf("compressed buffer of %d bytes claims %d: %w", compressed, claimed, errs.ErrLimit)
	}
	return nil
}

func expandLZ4(dst, src []byte, want int) ([]byte, error) {
	if len(src) < 4 {
		return nil, corrupt("lz4 buffer of %d bytes has no size", len(src))
	}
	claimed := uint64(u32(src))
	if err := checkExpansion(claimed, len(src), want); err != nil {
		return nil, err
	}
	if claimed > lz4Ratio*uint64(len(src)) {
		return nil, corrupt("lz4 block of %d bytes claims %d", len(src), claimed)
	}
	if claimed == 0 {
		return dst, nil
	}
	at := len(dst)
	dst = append(dst, make([]byte, claimed)...)
	n, err := lz4.UncompressBlock(src[4:], dst[at:])
	if err != nil {
		return nil, corrupt("lz4 block: %v", err)
	}
	if uint64(n) != claimed {
		return nil, corrupt("lz4 block of %d bytes, %d claimed", n, claimed)
	}
	return dst, nil
}

func (d *Decompressor) expandZstd(dst, src []byte, want int) ([]byte, error) {
	bare := len(src) < 8 || [4]byte(src[:4]) == zstdMagic && src[4]&0x10 == 0
	if bare && len(src) == 0 {
		return dst, nil
	}
	claimed := uint64(0)
	if !bare {
		claimed, src = u64(src), src[8:]
		if claimed == 0 && len(src) == 0 {
			return dst, nil
		}
	}
	var header zstd.Header
	if err := header.Decode(src); err != nil {
		return nil, corrupt("zstd header: %v", err)
	}
	switch {
	case header.HasFCS && bare:
		claimed = header.FrameContentSize
	case header.HasFCS && header.FrameContentSize != claimed:
		return nil, corrupt("zstd frame of %d bytes, %d claimed", header.FrameContentSize, claimed)
	case !bare:
	case want >= 0:
		claimed = uint64(want)
	default:
		return nil, unsupported("zstd frame of unknown size")
	}
	if err := checkExpansion(claimed, len(src), want); err != nil {
		return nil, err
	}
	if most := zstdContentMax(src[min(len(src), header.HeaderSize):]); claimed > most {
		return nil, corrupt("zstd frame of at most %d bytes, %d claimed", most, claimed)
	}
	if d.zstd == nil {
		// The capacity limit makes the claimed size the bound of what a frame may expand to.
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, fmt.Errorf("zstd decoder: %w", err)
		}
		d.zstd = dec
	}
	at := len(dst)
	dst = slices.Grow(dst, int(claimed))
	out, err := d.zstd.DecodeAll(src, dst[:at:at+int(claimed)])
	if err != nil {
		return nil, corrupt("zstd frame: %v", err)
	}
	if n := uint64(len(out) - at); n != claimed {
		return nil, corrupt("zstd frame of %d bytes, %d claimed", n, claimed)
	}
	return out, nil
}

// zstdContentMax bounds what the blocks of a frame can hold, by their headers alone: a claimed size is memory only if
// there are bytes to fill it.
func zstdContentMax(blocks []byte) uint64 {
	most := uint64(0)
	for len(blocks) >= 3 {
		head := u32([]byte{blocks[0], blocks[1], blocks[2], 0})
		last, kind, size := head&1 != 0, head>>1&3, uint64(head>>3)
		stored := size
		switch kind {
		case 1: // one byte, size times
			most, stored = most+min(size, zstdBlock), 1
		case 0:
			most += min(size, zstdBlock)
		default:
			most += zstdBlock
		}
		if last || stored > uint64(len(blocks)-3) {
			break
		}
		blocks = blocks[3+stored:]
	}
	return most
}

// compressLZ4 appends the LZ4 form of src to dst, ok = false if it does not shrink.
func compressLZ4(dst, src []byte) (out []byte, ok bool) {
	if len(src) > maxExpanded {
		return dst, false
	}
	at := len(dst)
	dst = appendLZ4(dst, src)
	return dst, len(dst)-at < len(src)
}

// appendLZ4 appends the LZ4 form of src, which must not be larger than maxExpanded.
func appendLZ4(dst, src []byte) []byte {
	at := len(dst) + 4
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	bound := lz4.CompressBlockBound(len(src))
	dst = slices.Grow(dst, bound)[:at+bound]
	n, err := lz4.CompressBlock(src, dst[at:], nil)
	if err != nil || n == 0 { // an empty block, or one that the library gives up on: literals only
		return appendLiterals(dst[:at], src)
	}
	return dst[:at+n]
}

// appendLiterals appends src as an LZ4 block of one sequence.
func appendLiterals(dst, src []byte) []byte {
	n := len(src)
	if n < 15 {
		return append(append(dst, byte(n<<4)), src...)
	}
	dst = append(dst, 0xf0)
	for n -= 15; n >= 255; n -= 255 {
		dst = append(dst, 255)
	}
	return append(append(dst, byte(n)), src...)
}
