package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/logfile"
)

// floor is what the disk takes for an append of the bytes of a one-row record and a data sync, on a preallocated file.
type floor struct {
	f   *logfile.File
	off int64
	buf []byte
}

func newFloor(b *testing.B) *floor {
	b.Helper()
	d, err := logfile.OpenDisk(filepath.Join(b.TempDir(), "floor"))
	require.NoError(b, err)
	f, err := d.Create(0, 64<<20, 0)
	require.NoError(b, err)
	b.Cleanup(func() { _ = f.Close() })
	return &floor{f: f, buf: make([]byte, 4096)}
}

func (f *floor) append(b *testing.B) time.Duration {
	began := time.Now()
	if err := f.f.WriteAt(f.buf, f.off); err != nil {
		b.Fatal(err)
	}
	if err := f.f.Sync(); err != nil {
		b.Fatal(err)
	}
	f.off = (f.off + int64(len(f.buf))) % (f.f.Size() - int64(len(f.buf)))
	return time.Since(began)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkCommitWriters measures one-row commits of n writers that wait for nothing else. Of one writer every commit
// is followed by the same append without an engine, so that both see the same disk.
func BenchmarkCommitWriters(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			e := benchEngine(b)
			fl := newFloor(b)
			ctx := context.Background()
			require.NoError(b, put(0, "first").run(ctx, e))
			var next atomic.Int64
			var mu sync.Mutex
			var took, bare []time.Duration
			commit := func() {
				w := put(next.Add(1), "some value of a common length")
				began := time.Now()
				if err := w.run(ctx, e); err != nil {
					b.Error(err)
				}
				d := time.Since(began)
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
			first := e.Journal().Next
			b.ResetTimer()
			if writers == 1 {
				for b.Loop() {
					commit()
					bare = append(bare, fl.append(b))
				}
			} else {
				for range 200 {
					bare = append(bare, fl.append(b))
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							commit()
						}
					})
				}
				wg.Wait()
			}
			b.StopTimer()
			records := e.Journal().Next - first
			p50, low := median(took), median(bare)
			b.ReportMetric(float64(p50.Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(low.Microseconds()), "floor-us")
			b.ReportMetric(float64(p50)/float64(low), "x-floor")
			b.ReportMetric(float64(len(took))/float64(records), "rows/sync")
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "commits/s")
		})
	}
}
