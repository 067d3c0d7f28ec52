package file_test

import (
	"context"
	"errors"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// The benchmarks in this file run over the files in the folder LANCESQL_BENCH_FILES, for instance those of
// bench/format: *.lance to read, *.arrow to write. They are for profiles on exactly the bytes of another writer.

// benchFiles returns the benchmark files with an extension.
func benchFiles(b *testing.B, ext string) []string {
	dir := os.Getenv("LANCESQL_BENCH_FILES")
	if dir == "" {
		b.Skip("LANCESQL_BENCH_FILES is not set")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ext))
	require.NoError(b, err)
	return paths
}

// benchFile is a file on disk, read as a scan of a table reads it.
type benchFile struct {
	f    *os.File
	size int64
}

func (s *benchFile) ReadAt(_ context.Context, p []byte, off int64) error {
	_, err := s.f.ReadAt(p, off)
	return err
}
func (s *benchFile) Size() int64  { return s.size }
func (s *benchFile) Name() string { return s.f.Name() }

func openBenchFile(b *testing.B, path string) *file.Reader {
	f, err := os.Open(path)
	require.NoError(b, err)
	b.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	require.NoError(b, err)
	r, err := file.Open(context.Background(), &benchFile{f, info.Size()}, file.ReaderOptions{Allocator: arrowx.NewRecycler(0)})
	require.NoError(b, err)
	return r
}

func perSecond(b *testing.B, rows uint64) {
	b.ReportMetric(float64(rows)*float64(b.N)/1e6/b.Elapsed().Seconds(), "Mrows/s")
}

// BenchmarkScanFiles scans each file in batches of 8192 rows.
func BenchmarkScanFiles(b *testing.B) {
	for _, path := range benchFiles(b, ".lance") {
		b.Run(filepath.Base(path), func(b *testing.B) {
			r := openBenchFile(b, path)
			b.ReportAllocs()
			for b.Loop() {
				scan, err := r.Scan(context.Background(), r.Schema().Fields, nil, 0, r.Rows(), 8192)
				require.NoError(b, err)
				for {
					rec, err := scan.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					require.NoError(b, err)
					rec.Release()
				}
				require.NoError(b, scan.Close())
			}
			perSecond(b, r.Rows())
		})
	}
}

// BenchmarkTakeFiles takes 1000 random rows of each file.
func BenchmarkTakeFiles(b *testing.B) {
	for _, path := range benchFiles(b, ".lance") {
		b.Run(filepath.Base(path), func(b *testing.B) {
			r := openBenchFile(b, path)
			rng := rand.New(rand.NewSource(1))
			var rows []uint64
			for range 1000 {
				rows = append(rows, uint64(rng.Int63n(int64(r.Rows()))))
			}
			slices.Sort(rows)
			rows = slices.Compact(rows)
			b.ReportAllocs()
			for b.Loop() {
				rec, err := r.Take(context.Background(), r.Schema().Fields, nil, rows)
				require.NoError(b, err)
				rec.Release()
			}
			perSecond(b, uint64(len(rows)))
		})
	}
}

// BenchmarkWriteFiles writes the rows of each Arrow file in batches of 8192 rows.
func BenchmarkWriteFiles(b *testing.B) {
	for _, path := range benchFiles(b, ".arrow") {
		b.Run(filepath.Base(path), func(b *testing.B) {
			recs, rows := readBenchFile(b, path)
			s, err := schema.FromArrow(recs[0].Schema())
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				w, err := file.NewWriter(io.Discard, s, file.WriterOptions{})
				require.NoError(b, err)
				for _, rec := range recs {
					require.NoError(b, w.Write(rec))
				}
				_, err = w.Finish()
				require.NoError(b, err)
			}
			perSecond(b, rows)
		})
	}
}

// readBenchFile returns the batches of an Arrow file, cut to at most 8192 rows.
func readBenchFile(b *testing.B, path string) (recs []arrow.RecordBatch, rows uint64) {
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	require.NoError(b, err)
	for i := range r.NumRecords() {
		rec, err := r.RecordBatchAt(i)
		require.NoError(b, err)
		for at := int64(0); at < rec.NumRows(); at += 8192 {
			recs = append(recs, rec.NewSlice(at, min(at+8192, rec.NumRows())))
		}
		rows += uint64(rec.NumRows())
	}
	return recs, rows
}
