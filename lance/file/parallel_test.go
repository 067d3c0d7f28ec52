package file_test

import (
	"context"
	"errors"
	"io"
	"math/rand"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/lance/file"
)

// wideColumns are enough columns and rows of a batch that several goroutines decode it.
func wideColumns() []column {
	i64, str := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	return []column{{i64, "none", "random"}, {i64, "some", "small"}, {str, "none", "short"}, {str, "some", "lowcard"}, {str, "none", "mid"},
		{arrow.FixedWidthTypes.Boolean, "some", "random"}, {arrow.PrimitiveTypes.Float32, "half", "random"}, {i64, "none", "constant"}}
}

func wideFile(t testing.TB, rows int) ([]byte, []arrow.Array) {
	var fields []arrow.Field
	var arrays []arrow.Array
	for i, c := range wideColumns() {
		fields = append(fields, arrow.Field{Name: string(rune('a' + i)), Type: c.typ, Nullable: true})
		arrays = append(arrays, generate(c, rows, rand.New(rand.NewSource(int64(i)))))
	}
	sc := arrow.NewSchema(fields, nil)
	data, _ := write(t, sc, file.WriterOptions{MaxPageBytes: 100_000}, array.NewRecordBatch(sc, arrays, int64(rows)))
	return data, arrays
}

// flakySource fails from a read on.
type flakySource struct {
	memSource
	left atomic.Int64
}

var errFlaky = errors.New("no more")

func (s *flakySource) ReadAt(ctx context.Context, p []byte, off int64) error {
	if s.left.Add(-1) < 0 {
		return errFlaky
	}
	return s.memSource.ReadAt(ctx, p, off)
}

func TestParallelScanAndTake(t *testing.T) {
	const rows, batch = 50_000, 7000
	data, want := wideFile(t, rows)
	mem := memory.NewCheckedAllocator(arrowx.NewRecycler(0))
	r, err := file.Open(context.Background(), &memSource{data: data}, file.ReaderOptions{Allocator: mem})
	require.NoError(t, err)
	scan, err := r.Scan(context.Background(), r.Schema().Fields, nil, 0, rows, batch)
	require.NoError(t, err)
	at := 0
	for {
		rec, err := scan.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		n := int(rec.NumRows())
		for i, a := range want {
			requireSame(t, a, at, at+n, rec.Column(i))
		}
		at += n
		rec.Release()
	}
	require.Equal(t, rows, at)
	require.NoError(t, scan.Close())
	var picked []uint64
	for row := uint64(0); row < rows; row += 61 {
		picked = append(picked, row)
	}
	rec, err := r.Take(context.Background(), r.Schema().Fields, nil, picked)
	require.NoError(t, err)
	for i, a := range want {
		for k, row := range picked {
			one := array.NewSlice(rec.Column(i), int64(k), int64(k+1))
			requireSame(t, a, int(row), int(row)+1, one)
			one.Release()
		}
	}
	rec.Release()
	mem.AssertSize(t, 0)
}

// TestParallelScanFails: whichever read fails, the scan says so, keeps no memory and leaves no goroutine.
func TestParallelScanFails(t *testing.T) {
	data, _ := wideFile(t, 20_000)
	before := runtime.NumGoroutine()
	for reads := int64(0); ; reads++ {
		src := &flakySource{memSource: memSource{data: data}}
		src.left.Store(1 << 40)
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		r, err := file.Open(context.Background(), src, file.ReaderOptions{Allocator: mem})
		require.NoError(t, err)
		src.left.Store(reads)
		err = drain(r, 20_000)
		mem.AssertSize(t, 0)
		if err == nil {
			require.Greater(t, reads, int64(10))
			break
		}
		require.ErrorIs(t, err, errFlaky)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func drain(r *file.Reader, batch int) error {
	scan, err := r.Scan(context.Background(), r.Schema().Fields, nil, 0, r.Rows(), batch)
	if err != nil {
		return err
	}
	for {
		rec, err := scan.Next()
		if err != nil {
			scan.Close()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		rec.Release()
	}
}

// BenchmarkWideScan scans eight columns with one processor and with all.
func BenchmarkWideScan(b *testing.B) {
	const rows = 200_000
	data, _ := wideFile(b, rows)
	r, err := file.Open(context.Background(), &memSource{data: data}, file.ReaderOptions{Allocator: arrowx.NewRecycler(0)})
	require.NoError(b, err)
	for _, procs := range []int{1, runtime.NumCPU()} {
		b.Run(map[bool]string{true: "one", false: "all"}[procs == 1], func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			for b.Loop() {
				require.NoError(b, drain(r, 8192))
			}
			perSecond(b, rows)
		})
	}
}
