package wire_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/wire"
)

// TestStreamingMemory: a large result needs memory for a batch, not for the result.
func TestStreamingMemory(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "")
	const side = 700 // rows of the table; the result has side*side rows
	fill(t, db, side)
	for _, query := range []string{
		"SELECT REPEAT('x', 200) FROM t a CROSS JOIN t b",
		"SELECT REPEAT('x', ?) FROM t a CROSS JOIN t b", // binary protocol
	} {
		var args []any
		if query[len("SELECT REPEAT('x', ")] == '?' {
			args = append(args, 200)
		}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		var peak atomic.Uint64
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		rows, err := db.Query(query, args...)
		require.NoError(t, err)
		n := 0
		for rows.Next() {
			n++
		}
		require.NoError(t, rows.Err())
		close(stop)
		<-stopped
		require.Equal(t, side*side, n)
		const bound = 60 << 20 // bytes; the result is about 100 MB
		require.Less(t, int64(peak.Load())-int64(before.HeapAlloc), int64(bound), query)
	}
}
