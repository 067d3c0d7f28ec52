package encoding

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

const (
	lz4Scheme  = pb.CompressionScheme_COMPRESSION_LZ4
	zstdScheme = pb.CompressionScheme_COMPRESSION_ZSTD
)

func TestExpandForms(t *testing.T) {
	plain := bytes.Repeat([]byte("all the king's horses "), 100)
	packed, ok := compressLZ4(nil, plain)
	require.True(t, ok)
	var d Decompressor
	defer d.Close()
	out, err := d.expand([]byte("x"), lz4Scheme, packed, len(plain))
	require.NoError(t, err)
	require.Equal(t, append([]byte("x"), plain...), out)

	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	frame := enc.EncodeAll(plain, nil)
	for _, form := range [][]byte{frame, append(binary.LittleEndian.AppendUint64(nil, uint64(len(plain))), frame...)} {
		out, err = d.expand(nil, zstdScheme, form, -1)
		require.NoError(t, err)
		require.Equal(t, plain, out)
	}
	for _, bad := range [][]byte{nil, {1}, packed[:7], append([]byte{255, 255, 255, 127}, packed[4:]...)} {
		_, err := d.expand(nil, lz4Scheme, bad, len(plain))
		require.Error(t, err)
	}
	bomb := binary.LittleEndian.AppendUint64(nil, 1<<40)
	_, err = d.expand(nil, zstdScheme, append(bomb, frame...), -1)
	require.ErrorIs(t, err, errs.ErrCorruption)
	short := append(binary.LittleEndian.AppendUint64(nil, 10), frame...)
	_, err = d.expand(nil, zstdScheme, short, -1)
	require.ErrorIs(t, err, errs.ErrCorruption)
}

// TestExpandBelievesNoPrefix flips each bit of the size before small frames: no claim is worth memory that the bytes
// behind it cannot fill.
func TestExpandBelievesNoPrefix(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789abcdef"), 2000)
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	var sized bytes.Buffer
	stream, err := zstd.NewWriter(&sized) // a frame without its size
	require.NoError(t, err)
	_, err = stream.Write(plain)
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	prefix := binary.LittleEndian.AppendUint64(nil, uint64(len(plain)))
	packed, ok := compressLZ4(nil, plain)
	require.True(t, ok)
	var d Decompressor
	defer d.Close()
	_, err = d.expand(nil, zstdScheme, append(prefix, sized.Bytes()...), -1)
	require.NoError(t, err)
	for bit := range 64 {
		for _, frame := range [][]byte{enc.EncodeAll(plain, nil), sized.Bytes()} {
			form := append(bytes.Clone(prefix), frame...)
			form[bit/8] ^= 1 << (bit % 8)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := d.expand(nil, zstdScheme, form, -1)
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20), "bit %d", bit)
		}
		if bit < 32 {
			form := bytes.Clone(packed)
			form[bit/8] ^= 1 << (bit % 8)
			_, err := d.expand(nil, lz4Scheme, form, -1)
			require.Error(t, err)
		}
	}
}

func TestFSSTRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewSource(4))
	inputs := map[string]func() []byte{
		"urls":    func() []byte { return fmt.Appendf(nil, "https://example.org/item/%d?ref=home", rng.Intn(1e6)) },
		"random":  func() []byte { b := make([]byte, rng.Intn(40)); rng.Read(b); return b },
		"tiny":    func() []byte { return []byte("ab")[:rng.Intn(3)] },
		"one":     func() []byte { return bytes.Repeat([]byte{7}, rng.Intn(100)) },
		"escapes": func() []byte { return []byte{255, 255, 0, byte(rng.Intn(256))} },
	}
	for name, next := range inputs {
		v := NewVector(Type{Kind: KindVar32}, nil)
		for range 3000 {
			require.NoError(t, v.appendString(next()))
			v.n++
		}
		e := buildFSST(sampleStrings(v))
		table, err := parseSymbolTable(e.table())
		require.NoError(t, err)
		total := 0
		for i := range v.n {
			want := v.stringValue(i)
			packed := e.compress(nil, want)
			total += len(packed)
			out := make([]byte, 8*len(packed)+8)
			n, err := table.expand(out, packed)
			require.NoError(t, err)
			require.Equal(t, string(want), string(out[:n]), name)
		}
		t.Logf("%s: %d of %d bytes", name, total, v.data.len())
	}
}

func TestSymbolTableRefusals(t *testing.T) {
	good := buildFSST([][]byte{[]byte("abcabcabc")}).table()
	for name, damage := range map[string]func(b []byte) []byte{
		"short":  func(b []byte) []byte { return b[:20] },
		"magic":  func(b []byte) []byte { b[4] = 0; return b },
		"length": func(b []byte) []byte { b[8+8*int(b[0])] = 9; return b },
		"empty":  func(b []byte) []byte { return nil },
	} {
		_, err := parseSymbolTable(damage(bytes.Clone(good)))
		require.ErrorIs(t, err, errs.ErrCorruption, name)
	}
	table, err := parseSymbolTable(good)
	require.NoError(t, err)
	for _, bad := range [][]byte{{255}, {254}} {
		_, err := table.expand(make([]byte, 32), bad)
		require.ErrorIs(t, err, errs.ErrCorruption)
	}
}

// blockCodecs are descriptions of blocks of bits-wide values.
func blockCodecs(bits int) []*pb.CompressiveEncoding {
	out := []*pb.CompressiveEncoding{flatCE(bits), generalCE(lz4Scheme, flatCE(bits)), generalCE(zstdScheme, flatCE(bits))}
	if packable(bits) {
		out = append(out, inlineCE(bits), outOfLineCE(bits, bits/2), outOfLineCE(bits, 1), rleCE(bits))
	}
	return out
}

func TestLevelsInEveryBlockCodec(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 1000, 1024, 1025, 1088, 1089, 3000} {
		valid := make([]byte, bitmapBytes(n))
		rand.New(rand.NewSource(int64(n))).Read(valid)
		packed := packValidity(nil, valid, 0, n)
		block, err := compileFixedBlock(outOfLineCE(16, 1), 16)
		require.NoError(t, err)
		levels, _, err := block.decodeLevels(packed, n, nil, &Decompressor{})
		require.NoError(t, err)
		back := make([]byte, len(valid))
		nulls, err := validityOf(back, levels)
		require.NoError(t, err)
		want := 0
		for i := range n {
			require.Equal(t, getBit(valid, i), getBit(back, i))
			if !getBit(valid, i) {
				want++
			}
		}
		require.Equal(t, want, nulls)
	}
}

func FuzzBlock(f *testing.F) {
	f.Add(uint8(0), uint8(1), uint16(65), packValidity(nil, make([]byte, 20), 0, 65))
	f.Add(uint8(4), uint8(1), uint16(1024), packValidity(nil, make([]byte, 128), 0, 1024))
	f.Add(uint8(3), uint8(3), uint16(100), appendInline(nil, make([]byte, 800), 64))
	f.Fuzz(func(t *testing.T, codec, width uint8, n uint16, buf []byte) {
		bits := []int{8, 16, 32, 64, 128}[width%5]
		all := blockCodecs(bits)
		block, err := compileFixedBlock(all[int(codec)%len(all)], bits)
		require.NoError(t, err)
		var d Decompressor
		defer d.Close()
		out, err := block.decode(buf, int(n), nil, &d)
		if err == nil && len(out) != int(n)*bits/8 {
			t.Fatalf("%d bytes for %d values of %d bits", len(out), n, bits)
		}
		requireKind(t, err)
	})
}

func FuzzStringBlock(f *testing.F) {
	v := NewVector(Type{Kind: KindVar32}, nil)
	for _, s := range []string{"", "one", "two"} {
		if v.appendString([]byte(s)) != nil {
			f.Fatal("no room")
		}
		v.n++
	}
	f.Add(uint16(3), stringBlock(v))
	f.Fuzz(func(t *testing.T, n uint16, buf []byte) {
		for _, ce := range []*pb.CompressiveEncoding{variableCE(32), variableCE(64), generalCE(lz4Scheme, variableCE(32))} {
			var d Decompressor
			s, err := decodeStringBlock(ce, int(max(ce.GetVariable().GetOffsets().GetFlat().GetBitsPerValue(), 32)), buf, uint64(n), &d)
			if err == nil && len(s.offs) != int(n)+1 {
				t.Fatalf("%d offsets for %d values", len(s.offs), n)
			}
			requireKind(t, err)
		}
	})
}

func requireKind(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, errs.ErrCorruption) && !errors.Is(err, errs.ErrUnsupported) && !errors.Is(err, errs.ErrLimit) {
		t.Fatalf("error of an undocumented kind: %v", err)
	}
}

// TestVectorLimit asks a constant page for more memory than a batch may take.
func TestVectorLimit(t *testing.T) {
	v := NewVector(Type{Kind: KindFixed, Bits: 8 << 20}, nil)
	require.ErrorIs(t, v.AppendNulls(1<<20), errs.ErrLimit)
	v = NewVector(Type{Kind: KindVar64}, nil)
	require.ErrorIs(t, v.repeat(make([]byte, 1<<20), 1<<20), errs.ErrLimit)
}
