package encoding

import (
	"fmt"
	"math/rand"
	"testing"
)

// fsstBenchVector holds n URLs, or n short random words.
func fsstBenchVector(b *testing.B, urls bool, n int) *Vector {
	rng := rand.New(rand.NewSource(1))
	v := NewVector(Type{Kind: KindVar32}, nil)
	for range n {
		value := fmt.Appendf(nil, "https://www.example%d.org/articles/%d/%d.html", rng.Intn(5), rng.Intn(977), rng.Intn(1e7))
		if !urls {
			value = fmt.Appendf(nil, "%x", rng.Uint64())[:1+rng.Intn(9)]
		}
		if err := v.appendString(value); err != nil {
			b.Fatal(err)
		}
		v.n++
	}
	return v
}

// BenchmarkFSST builds a table, compresses 100,000 values and decodes them. MB/s are of uncompressed bytes.
func BenchmarkFSST(b *testing.B) {
	for _, urls := range []bool{true, false} {
		v := fsstBenchVector(b, urls, 100_000)
		name := map[bool]string{true: "urls", false: "words"}[urls]
		sample := sampleStrings(v)
		e := buildFSST(sample)
		b.Run("build/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buildFSST(sample)
			}
		})
		raw, offs := v.data.bytes(), wordsOf[uint32](v.offs.bytes())
		packed := make([]byte, 2*len(raw))
		b.Run("compress/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				at := 0
				for i := range v.n {
					at += e.compressTo(packed[at:], raw, int(offs[i]), int(offs[i+1]))
				}
			}
		})
		table, err := parseSymbolTable(e.table())
		if err != nil {
			b.Fatal(err)
		}
		n := e.compressTo(packed, raw, 0, len(raw))
		out := make([]byte, expandedRoom(n))
		b.Run("expand/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := table.expand(out, packed[:n]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
