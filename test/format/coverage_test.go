package format

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lancesql/lance/file"
)

// encodingsOf lists "version layout part: encoding" of every page of a corpus, without numbers.
func encodingsOf(t *testing.T, c *corpus) map[string]int {
	t.Helper()
	numbers := regexp.MustCompile(`\b(0x[0-9a-f]+|\d+(\.\d+)?)\b`)
	out := map[string]int{}
	for _, e := range c.only("file") {
		d, problems := file.Describe(context.Background(), openFile(t, c.path(e.Path)))
		for _, p := range problems {
			t.Errorf("describe %s: %v", e.Name, p)
		}
		for _, col := range d.Columns {
			for _, p := range col.Pages {
				for _, part := range p.Encodings {
					out[fmt.Sprintf("%s %s %s: %s", e.Version, p.Layout, part.Part, numbers.ReplaceAllString(part.Encoding, "N"))]++
				}
				out[fmt.Sprintf("%s %s levels: %s", e.Version, p.Layout, strings.Join(p.Levels, ","))]++
			}
		}
	}
	return out
}

// wantedEncodings is what the golden files must have, so that the reader is tested on it without the reference.
func wantedEncodings() []string {
	var out []string
	for _, e := range strings.Split(strings.TrimSpace(`
		array values: all-null
		array values: binary(flat(N), flat(N))
		array values: binary(flat(N), zstd(flat(N)))
		array values: dictionary(flat(N), binary(flat(N), flat(N)), N)
		array values: fixed-size-list(N, flat(N))
		array values: fixed-size-list(N, nullable(flat(N), flat(N)))
		array values: flat(N)
		array values: fsst(binary(flat(N), flat(N)))
		array values: list(flat(N))
		array values: nullable(fixed-size-list(N, flat(N)), flat(N))
		array values: nullable(flat(N), flat(N))
		array values: packed-struct(flat(N), flat(N), flat(N))
		array values: struct`), "\n") {
		out = append(out, "2.0 "+strings.TrimSpace(e))
	}
	for _, e := range strings.Split(strings.TrimSpace(`
		constant value: null
		full-zip definition: flat(N)
		full-zip values: fixed-size-list(N, flat(N))
		full-zip values: fixed-size-list(N, flat(N), nullable)
		full-zip values: flat(N)
		full-zip values: fsst(variable(flat(N)))
		full-zip values: variable(flat(N))
		full-zip values: zstd(variable(flat(N)))
		mini-block definition: bitpacked(N, flat(N))
		mini-block definition: flat(N)
		mini-block definition: inline-bitpacked(N)
		mini-block repetition: bitpacked(N, flat(N))
		mini-block repetition: flat(N)
		mini-block repetition: inline-bitpacked(N)
		mini-block values: byte-stream-split(flat(N))
		mini-block values: fixed-size-list(N, flat(N))
		mini-block values: fixed-size-list(N, flat(N), nullable)
		mini-block values: flat(N)
		mini-block values: fsst(variable(flat(N)))
		mini-block values: inline-bitpacked(N)
		mini-block values: lz4(byte-stream-split(flat(N)))
		mini-block values: lz4(variable(flat(N)))
		mini-block values: packed-struct(flat(N))
		mini-block values: rle(flat(N), flat(N))
		mini-block values: variable(flat(N))
		mini-block values: zstd(byte-stream-split(flat(N)))
		mini-block values: zstd(flat(N))
		mini-block values: zstd(variable(flat(N)))`), "\n") {
		out = append(out, "2.1 "+strings.TrimSpace(e), "2.2 "+strings.TrimSpace(e))
	}
	return append(out,
		"2.1 blob(mini-block) values: packed-struct(flat(N))",
		"2.1 mini-block dictionary: flat(N) of N",
		"2.1 mini-block dictionary: variable(flat(N)) of N",
		"2.2 constant definition: flat(N)",
		"2.2 constant definition: rle(flat(N), flat(N))",
		"2.2 constant repetition: flat(N)",
		"2.2 constant repetition: rle(flat(N), flat(N))",
		"2.2 constant value: N",
		"2.2 constant value: stored",
		"2.2 full-zip values: packed-struct(flat(N), variable(flat(N)), variable(flat(N)))",
		"2.2 mini-block definition: rle(flat(N), flat(N))",
		"2.2 mini-block dictionary: lz4(flat(N)) of N",
		"2.2 mini-block dictionary: lz4(variable(flat(N))) of N",
		"2.2 mini-block dictionary: variable(flat(N)) of N",
		"2.2 mini-block dictionary: zstd(variable(flat(N))) of N",
		"2.2 mini-block repetition: rle(flat(N), flat(N))",
		"2.2 mini-block values: fixed-size-list(N, fixed-size-list(N, flat(N)))",
		"2.2 mini-block values: fixed-size-list(N, fixed-size-list(N, flat(N), nullable), nullable)",
	)
}

// TestGoldenHasEveryEncoding: nothing that the reference writes is missing from the golden files.
func TestGoldenHasEveryEncoding(t *testing.T) {
	have := encodingsOf(t, golden(t))
	for _, want := range wantedEncodings() {
		if have[want] == 0 {
			t.Errorf("no golden page has %s", want)
		}
	}
	layers := []string{"all-valid-item", "nullable-item", "all-valid-list", "nullable-list", "emptyable-list", "null-and-empty-list"}
	for _, v := range []string{"2.1", "2.2"} {
		for _, layer := range layers {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(have)), func(k string) bool {
				return strings.HasPrefix(k, v+" mini-block levels: ") && strings.Contains(k, layer)
			}) {
				t.Errorf("no golden page of version %s has a layer %s", v, layer)
			}
		}
	}
}
