package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore/faultfs"
)

const testSegment = 8 * blockBytes

func openAll(fs vfs.FS) (*Writer, []Record, error) {
	dir, err := logfile.Open(fs, "/root/journal")
	if err != nil {
		return nil, nil, err
	}
	var got []Record
	w, err := Open(context.Background(), dir, Options{SegmentBytes: testSegment}, func(r Record) error {
		got = append(got, r)
		return nil
	})
	return w, got, err
}

// record makes a commit record whose content follows from n.
func record(n int) *Record {
	rng := rand.New(rand.NewPCG(uint64(n), 0))
	r := &Record{Kind: Commit}
	for range 1 + rng.IntN(3) {
		body := make([]byte, rng.IntN(3*blockBytes))
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		r.Parts = append(r.Parts, Part{Table: uuid.UUID{byte(n)}, Shard: uuid.UUID{1}, Schema: uint32(n), Body: body})
	}
	if n%5 == 0 {
		r.Catalog = fmt.Append(nil, "catalog ", n)
	}
	r.Counters = []Counter{{Table: uuid.UUID{9}, Value: uint64(n)}}
	return r
}

func requireRecords(t *testing.T, got []Record, first, last int) {
	t.Helper()
	require.Len(t, got, last-first+1)
	for i, r := range got {
		want := record(first + i)
		want.J = J(first + i)
		for k := range want.Parts {
			if len(want.Parts[k].Body) == 0 {
				want.Parts[k].Body = nil
			}
		}
		require.Equal(t, *want, r)
	}
}

func TestAppendAndReopen(t *testing.T) {
	fs := vfs.NewMem()
	for round := range 6 {
		w, got, err := openAll(fs)
		require.NoError(t, err)
		requireRecords(t, got, 1, round*7)
		for n := round*7 + 1; n <= round*7+7; n++ {
			j, err := w.Append(t.Context(), record(n))
			require.NoError(t, err)
			require.Equal(t, J(n), j)
		}
		require.NoError(t, w.Close())
	}
}

func TestReleaseRecyclesFiles(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	records := 0 // commit records; start records take numbers too
	var from J
	for range 200 {
		j, err := w.Append(t.Context(), record(1))
		require.NoError(t, err)
		records++
		if records%10 == 0 {
			from = j
			release(t, w, from)
		}
	}
	_, err = w.Release(t.Context(), w.Next()+1, nil, nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.NoError(t, w.Close())
	dir, err := logfile.Open(fs, "/root/journal")
	require.NoError(t, err)
	slots, err := dir.Slots()
	require.NoError(t, err)
	require.Less(t, len(slots), 12, "files are reused")
	w, got, err := openAll(fs)
	require.NoError(t, err)
	require.Len(t, got, 1, "only the last record is still needed")
	require.Equal(t, from, got[0].J)
	require.NoError(t, w.Close())
}

func TestConcurrentAppendsShareSyncs(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Plan{})
	w, _, err := openAll(fs)
	require.NoError(t, err)
	before := fs.FileSyncs()
	const writers, each = 16, 25
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[J]bool{}
	for range writers {
		wg.Go(func() {
			for range each {
				j, err := w.Append(context.Background(), &Record{Kind: Commit})
				mu.Lock()
				if err != nil || seen[j] {
					t.Error("append", j, err)
				}
				seen[j] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, writers*each)
	require.Equal(t, J(writers*each+1), w.Next())
	t.Logf("%d records, %d syncs", writers*each, fs.FileSyncs()-before)
	require.NoError(t, w.Close())
	_, got, err := openAll(fs)
	require.NoError(t, err)
	require.Len(t, got, writers*each)
}

// TestCrashAtEveryOperation: whatever was acknowledged and not released is found, in order, nothing else but the
// record in flight.
func TestCrashAtEveryOperation(t *testing.T) {
	for n := int64(1); ; n++ {
		mem := vfs.NewCrashableMem()
		fs := faultfs.New(mem, faultfs.Plan{CrashAt: n})
		acked, from, runErr := crashRun(fs)
		for _, percent := range []int{0, 50, 100} {
			clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percent, Rand: rand.New(rand.NewPCG(uint64(n), uint64(percent)))})
			require.NoError(t, err)
			w, got, err := openAll(clone)
			require.NoError(t, err, "operation %d, %d%%", n, percent)
			checkAfterCrash(t, got, acked, from, fmt.Sprintf("operation %d, %d%%", n, percent))
			// go on, and look once more
			j, err := w.Append(t.Context(), record(3))
			require.NoError(t, err)
			require.NoError(t, w.Close())
			w, again, err := openAll(clone)
			require.NoError(t, err)
			require.Equal(t, j, again[len(again)-1].J)
			require.NoError(t, w.Close())
		}
		if runErr == nil {
			require.Greater(t, n, int64(40))
			return
		}
	}
}

// crashRun appends and releases until the filesystem dies.
func crashRun(fs vfs.FS) (acked []J, from J, err error) {
	w, _, err := openAll(fs)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = w.Close() }()
	for i := range 30 {
		j, err := w.Append(context.Background(), record(i))
		if err != nil {
			return acked, from, err
		}
		acked = append(acked, j)
		if i%7 == 6 {
			if _, err := w.Release(context.Background(), acked[len(acked)-3], nil, nil); err != nil {
				return acked, acked[len(acked)-3], err
			}
			from = acked[len(acked)-3]
		}
	}
	return acked, from, nil
}

func checkAfterCrash(t *testing.T, got []Record, acked []J, from J, where string) {
	t.Helper()
	found := map[J]bool{}
	last := J(0)
	for _, r := range got {
		require.Greater(t, r.J, last, where)
		last = r.J
		found[r.J] = true
	}
	for _, j := range acked {
		if j >= from {
			require.True(t, found[j], "%s: acknowledged record %d is gone", where, j)
		}
	}
	extra := 0
	for _, r := range got {
		if len(acked) > 0 && r.J > acked[len(acked)-1] {
			extra++
		}
	}
	require.LessOrEqual(t, extra, 1, where)
}

func TestDamageInTheMiddleIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	for range 20 {
		_, err := w.Append(t.Context(), record(2))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	dir, err := logfile.Open(fs, "/root/journal")
	require.NoError(t, err)
	f, err := dir.Open(1)
	require.NoError(t, err)
	require.NoError(t, f.WriteAt([]byte{0xff, 0xff, 0xff}, blockBytes+60))
	require.NoError(t, f.Close())
	_, _, err = openAll(fs)
	require.ErrorIs(t, err, errs.ErrCorruption)
	require.ErrorContains(t, err, "would be lost")
}

func TestTornGroupIsCut(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	_, err = w.Append(t.Context(), &Record{Kind: Commit})
	require.NoError(t, err)
	group := []*waiter{{r: &Record{Kind: Commit}}, {r: &Record{Kind: Commit}}, {r: &Record{Kind: Commit}}}
	require.NoError(t, w.write(group))
	require.NoError(t, w.Close())
	dir, err := logfile.Open(fs, "/root/journal")
	require.NoError(t, err)
	f, err := dir.Open(0)
	require.NoError(t, err)
	require.NoError(t, f.WriteAt([]byte{0xff}, 3*blockBytes+50)) // record 3, the second of the group
	require.NoError(t, f.Close())
	w, got, err := openAll(fs)
	require.NoError(t, err, "records of one sync may be torn in any order")
	require.Len(t, got, 2)
	j, err := w.Append(t.Context(), record(3))
	require.NoError(t, err)
	require.Equal(t, J(3), j)
	require.NoError(t, w.Close())
	_, got, err = openAll(fs)
	require.NoError(t, err)
	require.Len(t, got, 3)
}

func TestErrorsOfAppend(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Plan{})
	w, _, err := openAll(fs)
	require.NoError(t, err)
	_, err = w.Append(t.Context(), &Record{Kind: 9})
	require.ErrorIs(t, err, errs.ErrInvalid)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Append(cancelled, &Record{Kind: Commit})
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.Append(t.Context(), &Record{Kind: Commit})
	require.NoError(t, err)
	fs.Reset(faultfs.Plan{FailAt: 2, Err: errors.New("disk says no")}) // the sync of the next append
	_, err = w.Append(t.Context(), &Record{Kind: Commit})
	require.ErrorIs(t, err, errs.ErrSync)
	_, err = w.Append(t.Context(), &Record{Kind: Commit})
	require.ErrorIs(t, err, errs.ErrSync, "nothing is appended after an unknown outcome")
}

// FuzzDecode: any bytes give a record, no record, or an error.
func FuzzDecode(f *testing.F) {
	r := record(5)
	r.J = 7
	f.Add(r.append(nil, 3, 7))
	f.Add((&Record{Kind: Start, J: 2, From: 1}).append(nil, 3, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerBytes {
			return
		}
		h, ok := parseHeader(b, 3)
		if !ok || int64(headerBytes)+int64(h.body) > int64(len(b)) {
			return
		}
		r, ok, err := decode("<fuzz>", 0, b[:headerBytes+int(h.body)], h)
		if err != nil || !ok {
			return
		}
		again := r.append(nil, h.segment, h.group)
		require.Equal(t, b[:headerBytes+int(h.body)], again[:headerBytes+int(h.body)])
	})
}

// Start records bring the ends of WALs along; those of format 1, which have none, are read.
func TestStartRecordsNameEnds(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	_, err = w.Append(t.Context(), record(1))
	require.NoError(t, err)
	ends := []End{{Table: uuid.UUID{1}, Shard: uuid.UUID{2}, Position: 7}, {Table: uuid.UUID{1}, Shard: uuid.UUID{3}, Position: 1 << 40}}
	_, err = w.Release(t.Context(), 2, nil, ends)
	require.NoError(t, err)
	_, err = w.Append(t.Context(), &Record{Kind: Commit, Ends: ends})
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.NoError(t, w.Close())
	w, _, err = openAll(fs)
	require.NoError(t, err)
	require.Equal(t, ends, w.Ends())
	_, err = w.Release(t.Context(), 3, nil, nil)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	w, _, err = openAll(fs)
	require.NoError(t, err)
	require.Empty(t, w.Ends(), "only the newest counts")
	require.NoError(t, w.Close())

	old := Record{Kind: Start, J: 2, From: 2}
	b := old.append(nil, 1, 2)
	size := headerBytes + old.bodySize() - 4
	h, ok := parseHeader(b, 1)
	require.True(t, ok)
	binary.LittleEndian.PutUint32(b[32:], h.body-4)
	h.crc = crc32.Checksum(b[8:size], castagnoli)
	r, ok, err := decode("old", 0, b[:size], h)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, old, r)
}

// A journal that is held grows in its newest file only, and is read as any other.
func TestHeldJournalGrowsInPlace(t *testing.T) {
	fs := vfs.NewMem()
	w, _, err := openAll(fs)
	require.NoError(t, err)
	_, err = w.Append(t.Context(), record(1))
	require.NoError(t, err)
	names, err := fs.List("/root/journal")
	require.NoError(t, err)
	w.Hold(true)
	for n := 2; n <= 40; n++ {
		_, err = w.Append(t.Context(), record(n))
		require.NoError(t, err)
	}
	require.False(t, w.Low())
	held, err := fs.List("/root/journal")
	require.NoError(t, err)
	require.Equal(t, names, held)
	w.Hold(false)
	for n := 41; n <= 60; n++ {
		_, err = w.Append(t.Context(), record(n))
		require.NoError(t, err)
	}
	free, err := fs.List("/root/journal")
	require.NoError(t, err)
	require.Greater(t, len(free), len(names))
	require.NoError(t, w.Close())
	_, got, err := openAll(fs)
	require.NoError(t, err)
	requireRecords(t, got, 1, 60)
}
