package journal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore/faultfs"
)

// relaxedRun writes without sync, syncs now and then, and skips numbers, until the filesystem dies. It returns the
// numbers written and how many of them were durable.
func relaxedRun(fs vfs.FS) (written []J, durable int, err error) {
	w, _, err := openAll(fs)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = w.Close() }()
	ctx := context.Background()
	for i := range 30 {
		if i%11 == 10 {
			if err := w.Skip(ctx, w.Next()+100); err != nil {
				return written, durable, err
			}
			durable = len(written)
		}
		write := w.Write
		if i%8 == 7 {
			write = w.Append
		}
		j, err := write(ctx, record(i))
		if err != nil {
			return written, durable, err
		}
		written = append(written, j)
		if i%8 == 7 {
			durable = len(written)
		}
		if i%5 == 4 {
			if err := w.Sync(ctx); err != nil {
				return written, durable, err
			}
			durable = len(written)
		}
	}
	return written, durable, nil
}

// TestCrashWithUnsyncedRecords: after a crash a prefix of what was written is there, at least what was synced, and
// the journal goes on with numbers nobody has seen.
func TestCrashWithUnsyncedRecords(t *testing.T) {
	lost := 0
	for n := int64(1); ; n++ {
		fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{CrashAt: n})
		written, durable, runErr := relaxedRun(fs)
		for _, percent := range []int{0, 50, 100} {
			where := fmt.Sprintf("operation %d, %d%%", n, percent)
			clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percent, Rand: rand.New(rand.NewPCG(uint64(n), uint64(percent)))})
			require.NoError(t, err)
			w, got, err := openAll(clone)
			require.NoError(t, err, where)
			require.GreaterOrEqual(t, len(got), durable, where)
			require.LessOrEqual(t, len(got), len(written)+1, where)
			lost += max(len(written)-len(got), 0)
			for i, r := range got[:min(len(got), len(written))] {
				require.Equal(t, written[i], r.J, where)
			}
			next := w.Next()
			if len(got) > 0 {
				require.Greater(t, next, got[len(got)-1].J, where)
			}
			// What recovery has seen stays, whatever happens to the machine before anything else is synced.
			require.NoError(t, w.Close())
			w, again, err := openAll(clone)
			require.NoError(t, err, where)
			require.Equal(t, got, again, where)
			j, err := w.Append(t.Context(), record(3))
			require.NoError(t, err)
			require.Equal(t, next, j)
			require.NoError(t, w.Close())
		}
		if runErr == nil {
			require.Positive(t, lost, "nothing unsynced was ever lost: the test sees no crash")
			return
		}
	}
}

func TestSkip(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	require.NoError(t, w.Skip(t.Context(), 1), "nothing to skip")
	require.NoError(t, w.Skip(t.Context(), 50))
	require.Equal(t, J(50), w.Next())
	require.NoError(t, w.Skip(t.Context(), 7), "numbers never go back")
	j, err := w.Append(t.Context(), record(1))
	require.NoError(t, err)
	require.Equal(t, J(50), j)
	require.NoError(t, w.Close())
	w, got, err := openAll(fs)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, J(50), got[0].J)
	require.Equal(t, J(51), w.Next())
	require.NoError(t, w.Skip(t.Context(), 1000))
	require.NoError(t, w.Close(), "a skip may be the last record")
	w, _, err = openAll(fs)
	require.NoError(t, err)
	require.Equal(t, J(1000), w.Next())
	_, err = w.Append(t.Context(), &Record{Kind: skip, From: 5000})
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.NoError(t, w.Close())
}

func TestSizeOfSegments(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	for w.Bytes() < 8*testSegment {
		_, err := w.Append(t.Context(), record(2))
		require.NoError(t, err)
	}
	require.False(t, w.Releasable(1))
	require.True(t, w.Releasable(w.Next()))
	release(t, w, w.Next())
	require.LessOrEqual(t, w.Bytes(), int64(2*testSegment))
	slots, err := w.dir.Slots()
	require.NoError(t, err)
	require.LessOrEqual(t, len(slots), 2+freeKept, "one burst does not hold the disk for ever")
	require.NoError(t, w.Close())
}

func release(t *testing.T, w *Writer, from J) {
	t.Helper()
	_, err := w.Release(t.Context(), from, nil, nil)
	require.NoError(t, err)
	require.Equal(t, from, w.From())
}

func TestStartRecordsCarryCounters(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	for range 30 {
		_, err := w.Append(t.Context(), record(1))
		require.NoError(t, err)
	}
	from := w.Next()
	carried := []Counter{{Table: [16]byte{1}, Kind: RowID, Value: 77}}
	j, err := w.Release(t.Context(), from, carried, nil)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	w, got, err := openAll(fs)
	require.NoError(t, err)
	require.Equal(t, []Record{{Kind: Start, J: j, From: from, Counters: carried}}, got)
	require.Equal(t, from, w.From())
	require.NoError(t, w.Close())
}

// TestCrashInOpen: opening stops at any operation, and again, and then works.
func TestCrashInOpen(t *testing.T) {
	fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
	w, _, err := openAll(fs)
	require.NoError(t, err)
	for w.Bytes() < 6*testSegment {
		_, err := w.Append(t.Context(), record(2))
		require.NoError(t, err)
	}
	last := w.Next() - 1
	// A start record without the removal that follows it, as a crash may leave them.
	_, err = w.Append(t.Context(), &Record{Kind: Start, From: last})
	require.NoError(t, err)
	clone, err := fs.CrashClone(faultfs.CloneConfig{})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for n := int64(1); ; n++ {
		broken := faultfs.New(clone, faultfs.Plan{CrashAt: n})
		w, _, err := openAll(broken)
		if err == nil {
			require.NoError(t, w.Close())
			require.Greater(t, n, int64(3))
			break
		}
		clone, err = broken.CrashClone(faultfs.CloneConfig{UnsyncedPercent: 100})
		require.NoError(t, err)
	}
	w, got, err := openAll(clone)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, last, got[0].J)
	require.NoError(t, w.Close())
}

func TestPrepare(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	for !w.Low() {
		_, err := w.Append(t.Context(), &Record{Kind: Commit})
		require.NoError(t, err)
	}
	require.NoError(t, w.Prepare(t.Context()))
	require.False(t, w.Low())
	require.NoError(t, w.Prepare(t.Context()), "one is enough")
	slots, err := w.dir.Slots()
	require.NoError(t, err)
	require.Len(t, slots, 2)
	for w.Bytes() == testSegment {
		_, err := w.Append(t.Context(), &Record{Kind: Commit})
		require.NoError(t, err)
	}
	again, err := w.dir.Slots()
	require.NoError(t, err)
	require.Equal(t, slots, again, "the prepared file is used")
	require.NoError(t, w.Close())
}
