package format

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"lancesql/lance/file"
	"lancesql/lance/schema"
)

const (
	// sweepAllocated bounds what one attempt to read a damaged file may allocate in all, as a base and per byte of the file.
	// The readers' windows and caches have fixed sizes; a run-length page may legally expand 128 times, a scan repeats
	// that once per batch it has to skip.
	sweepAllocatedBase = 48 << 20
	sweepAllocatedPer  = 4096
	// sweepHeld bounds the Arrow memory held at one time.
	sweepHeldBase = 16 << 20
	// sweepTime is how long an attempt may take, on a busy machine.
	sweepTime = 20 * time.Second
	// sweepBatch is small, so that a file that claims many rows is left early.
	sweepBatch = 256
)

// TestDamagedFiles damages the golden files at many places and reads everything: there may be errors and wrong values,
// but no panic, no endless loop, and no memory beyond a set multiple of the file.
func TestDamagedFiles(t *testing.T) {
	c := golden(t)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2 << 30))
	places := 250 // of each file
	if os.Getenv(envSoak) == "1" {
		places = 4000
	}
	s := &sweep{}
	for _, e := range c.only("file") {
		src := openFile(t, c.path(e.Path))
		truth := readTruth(t, c.path(e.Truth))
		s.file(e, src.data, uint64(truth.NumRows()), places)
	}
	t.Logf("%d damaged files read, at most %d KiB allocated and %d KiB held (%s)", s.attempts, s.most>>10, s.mostHeld>>10, s.worst)
	settle(t, s.faults, knownDamage(), s.checked)
}

// sweep reads damaged files and collects what must not happen.
type sweep struct {
	attempts int
	faults   []fault
	checked  []string
	most     uint64 // bytes allocated by one attempt
	mostHeld int64
	worst    string
}

// damage is one way to change a file.
type damage struct {
	name string
	at   int
	data []byte
}

// file sweeps over one file.
func (s *sweep) file(e entry, data []byte, rows uint64, places int) {
	s.checked = append(s.checked, e.Name+"/*")
	rng := seeded(e.Name)
	for k := range places {
		d := damaged(rng, data, k)
		s.attempts++
		before, start := allocated(), time.Now()
		mem := newCounting()
		err := guard(func() error { return readAll(d.data, mem, rows, rng) })
		spent, took := allocated()-before, time.Since(start)
		what := ""
		switch held := mem.peak.Load(); {
		case err != nil && strings.HasPrefix(err.Error(), "panic"):
			what = err.Error()
		case took > sweepTime:
			what = fmt.Sprintf("takes %s", took.Round(time.Second))
		case spent > sweepAllocatedBase+sweepAllocatedPer*uint64(len(data)):
			what = fmt.Sprintf("allocates too much: %d MiB for a file of %d KiB: %v", spent>>20, len(data)>>10, err)
		case held > sweepHeldBase+sweepAllocatedPer*int64(len(data)):
			what = fmt.Sprintf("holds too much: %d MiB for a file of %d KiB: %v", held>>20, len(data)>>10, err)
		case mem.now.Load() != 0:
			what = fmt.Sprintf("leak of %d bytes: %v", mem.now.Load(), err)
		}
		if spent > s.most {
			s.most, s.worst = spent, fmt.Sprintf("%s, %s at %d", e.Name, d.name, d.at)
		}
		s.mostHeld = max(s.mostHeld, mem.peak.Load())
		if what != "" {
			s.faults = append(s.faults, fault{e.Name, "*", "damaged", fmt.Sprintf("%s (%s at %d of %d)", what, d.name, d.at, len(data))})
		}
	}
}

// damaged returns a changed copy. Half of the places lie in the metadata at the end, where a byte means most.
func damaged(rng *rand.Rand, data []byte, k int) damage {
	n := len(data)
	at := rng.IntN(n)
	if k%2 == 0 {
		at = n - 1 - rng.IntN(min(n, 40+metadataBytes(data)))
	}
	if k%9 == 0 {
		return damage{"cut", at, append([]byte(nil), data[:at]...)}
	}
	out := append([]byte(nil), data...)
	switch k % 7 {
	case 0:
		out[at] ^= 0xff
		return damage{"inverted", at, out}
	case 1:
		out[at] = 0xff
		return damage{"ones", at, out}
	case 2:
		out[at] = 0
		return damage{"zero", at, out}
	case 3:
		for i := range min(8, n-at) {
			out[at+i] = byte(rng.Uint32())
		}
		return damage{"noise", at, out}
	case 4: // a huge number, as lengths and offsets are
		if at+8 <= n {
			binary.LittleEndian.PutUint64(out[at:], []uint64{1 << 62, 1 << 40, 1 << 31, 1<<32 - 1}[rng.IntN(4)])
		}
		return damage{"huge", at, out}
	default:
		out[at] ^= 1 << rng.IntN(8)
		return damage{"bit", at, out}
	}
}

// metadataBytes is the size of what follows the pages.
func metadataBytes(data []byte) int {
	start := int64(binary.LittleEndian.Uint64(data[len(data)-40:]))
	return min(len(data)-int(start), 20_000)
}

// allocated is how many bytes the program has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// readAll reads a damaged file in each way, up to a few times the rows it should have. Its errors are expected.
func readAll(data []byte, mem *counting, rows uint64, rng *rand.Rand) error {
	ctx := context.Background()
	r, err := file.Open(ctx, &memFile{name: "damaged", data: data}, file.ReaderOptions{Allocator: mem})
	if err != nil {
		return err
	}
	if _, err := r.Schema().Arrow(); err != nil {
		return err
	}
	var errs []error
	for _, f := range r.Schema().Fields {
		fields := []*schema.Field{f}
		errs = append(errs, drain(ctx, r, fields, rows))
		if n := r.Rows(); n > 0 {
			picked := chosen(rng, int(min(n, 4*rows)), 5)
			rec, err := r.Take(ctx, fields, nil, picked)
			if err == nil {
				rec.Release()
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// drain scans at most four times as many rows as there should be.
func drain(ctx context.Context, r *file.Reader, fields []*schema.Field, rows uint64) error {
	rd, err := r.Scan(ctx, fields, nil, 0, r.Rows(), sweepBatch)
	if err != nil {
		return err
	}
	for seen := uint64(0); seen <= 4*rows+sweepBatch; {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, rd.Close())
		}
		seen += uint64(rec.NumRows())
		rec.Release()
	}
	return rd.Close()
}
