package file_test

import (
	"context"
	"errors"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// seedFiles are the golden files and a few of our own.
func seedFiles(t testing.TB) [][]byte {
	var out [][]byte
	paths, err := filepath.Glob(filepath.Join(oracle.Root(t), "testdata", "golden", "file", "*.lance"))
	require.NoError(t, err)
	for _, p := range paths {
		data, err := os.ReadFile(p)
		require.NoError(t, err)
		out = append(out, data)
	}
	rng := rand.New(rand.NewSource(7))
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Boolean)} {
		for _, rows := range []int{3, 300} {
			sc, cols := makeBatch(typ, rows, rng)
			for _, v := range []file.Version{file.V20(), file.V22()} {
				o := file.WriterOptions{MaxPageBytes: 2000, Version: v}
				data, _ := write(t, sc, o, array.NewRecordBatch(sc, cols, int64(rows)))
				out = append(out, data)
			}
		}
	}
	for i, typ := range nestedTypes() {
		sc, cols := nestedBatch(typ, 40, rng)
		o := file.WriterOptions{MaxPageBytes: 1500 * (1 + i%2*100)}
		data, _ := write(t, sc, o, array.NewRecordBatch(sc, cols, 40))
		out = append(out, data)
	}
	// Files of the reference: version 2.0 for its nested types, small newer ones, and what the corpus cannot have.
	corpus := filepath.Join(oracle.Root(t), "testdata", "golden", "corpus", "files")
	for _, from := range []struct {
		dir, glob string
		limit     int
	}{{corpus, "*2.0.lance", 32 << 10}, {corpus, "*2.[12].lance", 6 << 10}, {"testdata", "*.lance", 6 << 10}} {
		paths, err := filepath.Glob(filepath.Join(from.dir, from.glob))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, p := range paths {
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			if len(data) < from.limit {
				out = append(out, data)
			}
		}
	}
	return out
}

// readSome opens a file and reads from every column: the first rows, the last, and a few single ones. Errors must be
// of the documented kinds.
func readSome(t testing.TB, data []byte) {
	ctx := context.Background()
	r, err := file.Open(ctx, &memSource{data: data}, file.ReaderOptions{})
	requireKnown(t, err)
	if err != nil {
		return
	}
	for _, f := range r.Schema().Fields {
		fields := []*schema.Field{f}
		for _, from := range []uint64{0, r.Rows() - min(r.Rows(), 700)} {
			scan, err := r.Scan(ctx, fields, nil, from, min(r.Rows(), from+700), 300)
			requireKnown(t, err)
			if err != nil {
				continue
			}
			for {
				rec, err := scan.Next()
				if err == io.EOF {
					break
				}
				requireKnown(t, err)
				if err != nil {
					break
				}
				rec.Release()
			}
			require.NoError(t, scan.Close())
		}
		var rows []uint64
		for row := uint64(0); row < r.Rows() && len(rows) < 5; row += 1 + r.Rows()/4 {
			rows = append(rows, row)
		}
		rec, err := r.Take(ctx, fields, nil, rows)
		requireKnown(t, err)
		if err == nil {
			rec.Release()
		}
	}
}

func requireKnown(t testing.TB, err error) {
	t.Helper()
	for _, known := range []error{errs.ErrCorruption, errs.ErrUnsupported, errs.ErrLimit, errs.ErrInvalid} {
		if err == nil || errors.Is(err, known) {
			return
		}
	}
	t.Fatalf("error of an undocumented kind: %v", err)
}

func FuzzOpenFile(f *testing.F) {
	for _, data := range seedFiles(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { readSome(t, data) })
}

// TestMutatedFiles damages good files at random places, most of all in the metadata, and reads them.
func TestMutatedFiles(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	seeds := seedFiles(t)
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	for i := range rounds {
		data := append([]byte(nil), seeds[i%len(seeds)]...)
		for range 1 + rng.Intn(4) {
			at := rng.Intn(len(data))
			if rng.Intn(3) > 0 {
				at = len(data) - 1 - rng.Intn(min(len(data), 3000))
			}
			switch rng.Intn(4) {
			case 0:
				data[at] = byte(rng.Intn(256))
			case 1:
				data[at] ^= 1 << rng.Intn(8)
			case 2:
				data[at] = 0xff
			case 3:
				data[at]++
			}
		}
		readSome(t, data)
	}
	for i, seed := range seeds {
		for range 20 {
			readSome(t, seed[:rng.Intn(len(seed))])
			readSome(t, seed[rng.Intn(len(seed)):])
		}
		_ = i
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	if after.Sys > 1<<30 {
		t.Errorf("damaged files of a few KiB made the process take %d MiB", after.Sys>>20)
	}
}
