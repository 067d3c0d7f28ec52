package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/engine"
	"lancesql/engine/sched"
	"lancesql/internal/arrowx"
	"lancesql/internal/logfile"
	"lancesql/lsm"
)

// valueBytes is the length of a row's text; rowBytes what a row's cells take.
const (
	valueBytes = 96
	rowBytes   = 8 + valueBytes
)

func tableDef() engine.TableDef {
	key := arrow.NewMetadata(
		[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"}, []string{"true", "1"})
	return engine.TableDef{AutoColumn: -1, Shape: []byte(`{}`), Schema: arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key},
		{Name: "v", Type: arrow.BinaryTypes.String},
	}, nil)}
}

// bench is an engine with one table.
type bench struct {
	e     *engine.Engine
	table *engine.TableEntry
	rng   *rand.Rand
}

func open(ctx context.Context, cfg engine.Config) (*bench, error) {
	e, err := engine.Open(ctx, cfg, engine.Components{})
	if err != nil {
		return nil, err
	}
	b := &bench{e: e, rng: rand.New(rand.NewPCG(1, 2))}
	if d := e.Catalog().Database("db"); d != nil {
		b.table = d.Table("t")
		return b, nil
	}
	if err := e.CreateDatabase(ctx, "db", nil); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	if b.table, err = e.CreateTable(ctx, "db", "t", tableDef()); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return b, nil
}

// quiet is a configuration under which nothing happens by itself.
func quiet(dir string) engine.Config {
	return engine.Config{DataDir: dir, Workers: engine.NoWorkers, MemTableRows: 1 << 30, MemTableBytes: 1 << 34, JournalSegmentBytes: 4 << 20, Freshness: engine.NoFreshness,
		FrozenSoft: 1000, FrozenHard: 1000, GenerationsSoft: 1000, GenerationsHard: 1000, MergeAfterGenerations: 1000}
}

// text is a value that does not compress well.
func (b *bench) text() string {
	var s strings.Builder
	for s.Len() < valueBytes {
		fmt.Fprintf(&s, "%016x", b.rng.Uint64())
	}
	return s.String()
}

// insert commits rows first … first+n-1.
func (b *bench) insert(ctx context.Context, first, n int) error {
	x := b.e.Begin(engine.TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	for i := range n {
		if err := x.Insert(ctx, b.table, arrowx.Row{int64(first + i), b.text()}); err != nil {
			return err
		}
	}
	return x.Commit(ctx)
}

// measureCommits lets n writers commit single rows for a while.
func measureCommits(ctx context.Context, dir string, n int, length time.Duration) (f commitFigures, err error) {
	b, err := open(ctx, engine.Config{DataDir: dir, Freshness: engine.NoFreshness})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.e.Close(ctx)) }()
	low, err := newFloor(dir + "-floor")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, low.f.Close()) }()
	if err := b.insert(ctx, 0, 1); err != nil {
		return f, err
	}
	value := b.text()
	var next atomic.Int64
	var mu sync.Mutex
	var took, bare []time.Duration
	var failure error
	commit := func() error {
		x := b.e.Begin(engine.TxnOptions{})
		defer x.Rollback()
		x.BeginStatement()
		if err := x.Insert(ctx, b.table, arrowx.Row{next.Add(1), value}); err != nil {
			return err
		}
		w := start()
		if err := x.Commit(ctx); err != nil {
			return err
		}
		d := w.elapsed()
		mu.Lock()
		defer mu.Unlock()
		took = append(took, d)
		return nil
	}
	for range 100 { // the disk wakes up
		if _, err := low.append(); err != nil {
			return f, err
		}
	}
	before, all := b.e.Journal().Next, start()
	var wg sync.WaitGroup
	if n > 1 {
		wg.Go(func() { // the floor beside the writers, now and then
			for all.elapsed() < length {
				d, err := low.append()
				mu.Lock()
				bare, failure = append(bare, d), errors.Join(failure, err)
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	for range n {
		wg.Go(func() {
			for all.elapsed() < length {
				err := commit()
				if err == nil && n == 1 {
					var d time.Duration
					d, err = low.append()
					bare = append(bare, d)
				}
				if err != nil {
					mu.Lock()
					failure = errors.Join(failure, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	seconds := all.elapsed().Seconds()
	f = commitFigures{Writers: n, P50: percentile(took, 50), P99: percentile(took, 99), Floor: percentile(bare, 50),
		RowsPerSync: float64(len(took)) / float64(max(b.e.Journal().Next-before, 1)), PerSecond: float64(len(took)) / seconds}
	f.Ratio = f.P50 / f.Floor
	return f, failure
}

// floor is what the disk takes for an append of a one-row record's bytes and a data sync.
type floor struct {
	f   *logfile.File
	off int64
	buf []byte
}

func newFloor(dir string) (*floor, error) {
	d, err := logfile.OpenDisk(dir)
	if err != nil {
		return nil, err
	}
	f, err := d.Create(0, 64<<20, 0)
	if err != nil {
		return nil, err
	}
	return &floor{f: f, buf: make([]byte, 4096)}, nil
}

func (f *floor) append() (time.Duration, error) {
	w := start()
	if err := f.f.WriteAt(f.buf, f.off); err != nil {
		return 0, err
	}
	if err := f.f.Sync(); err != nil {
		return 0, err
	}
	f.off = (f.off + int64(len(f.buf))) % (f.f.Size() - int64(len(f.buf)))
	return w.elapsed(), nil
}

// written is how many bytes this process has handed to the operating system; 0 where that is not told.
func written() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var n int64
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	return 0
}

// measureBulk loads rows in four generations and merges them into a table that has as many already.
func measureBulk(ctx context.Context, dir string, n int) (f bulkFigures, amplification float64, err error) {
	b, err := open(ctx, quiet(dir))
	if err != nil {
		return f, 0, err
	}
	defer func() { err = errors.Join(err, b.e.Close(ctx)) }()
	f.Rows, f.MB = n, float64(n)*rowBytes/1e6
	var commit, flush, merge time.Duration
	before := written()
	for g := range 4 {
		w := start()
		for i := 0; i < n/4; i += 500 {
			if err := b.insert(ctx, g*(n/4)+i, min(500, n/4-i)); err != nil {
				return f, 0, err
			}
		}
		commit += w.elapsed()
		if err := b.e.RunUpkeep(ctx, b.table, sched.WriteBehind); err != nil {
			return f, 0, err
		}
		w = start()
		if err := errors.Join(b.e.Freeze(ctx, b.table), b.e.RunUpkeep(ctx, b.table, sched.Flush)); err != nil {
			return f, 0, err
		}
		flush += w.elapsed()
		// So that the journal's files are written over, as they are in the long run, and not made.
		if err := b.e.RunUpkeep(ctx, b.table, sched.Trim); err != nil {
			return f, 0, err
		}
	}
	w := start()
	if err := b.e.RunUpkeep(ctx, b.table, sched.Merge); err != nil {
		return f, 0, err
	}
	merge = w.elapsed()
	f.Commit, f.Flush, f.Merge = f.MB/commit.Seconds(), f.MB/flush.Seconds(), f.MB/merge.Seconds()
	return f, float64(written()-before) / (f.MB * 1e6), nil
}

// measureRecovery opens a copy of a directory whose log holds rows that are in no generation.
func measureRecovery(ctx context.Context, dir string, n int) (f recoveryFigures, err error) {
	b, err := open(ctx, quiet(dir))
	if err != nil {
		return f, err
	}
	for i := 0; i < n; i += 100 {
		if err := b.insert(ctx, i, min(100, n-i)); err != nil {
			return f, errors.Join(err, b.e.Close(ctx))
		}
		if i%10_000 == 0 { // as a server would within 100 ms
			if err := b.e.RunUpkeep(ctx, b.table, sched.WriteBehind); err != nil {
				return f, errors.Join(err, b.e.Close(ctx))
			}
		}
	}
	copied := dir + "-copy" // Why: a process that dies leaves what is there now, not what Close makes of it
	err = os.CopyFS(copied, os.DirFS(dir))
	if err = errors.Join(err, b.e.Close(ctx)); err != nil {
		return f, err
	}
	w := start()
	if b, err = open(ctx, quiet(copied)); err != nil {
		return f, err
	}
	x := b.e.Begin(engine.TxnOptions{})
	x.BeginStatement()
	rows := 0
	r, err := x.Scan(ctx, b.table, engine.Consistent, lsm.ScanSpec{})
	if err == nil {
		rows, err = count(r)
	}
	f.Rows, f.Seconds = rows, w.elapsed().Seconds()
	f.Per = f.Seconds * 100_000 / float64(n)
	x.Rollback()
	if rows != n && err == nil {
		err = fmt.Errorf("%d rows of %d recovered", rows, n)
	}
	return f, errors.Join(err, b.e.Close(ctx))
}

func count(r arrowx.BatchReader) (n int, err error) {
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		n += int(rec.NumRows())
		rec.Release()
	}
}

// measureReads looks base rows up through more and more generations that do not have them.
func measureReads(ctx context.Context, dir string) (list []readFigures, err error) {
	const base, each, reads = 20_000, 2_000, 3_000
	b, err := open(ctx, quiet(filepath.Clean(dir)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.e.Close(ctx)) }()
	if err := b.insert(ctx, 0, base); err != nil {
		return nil, err
	}
	if err := b.e.FlushTables(ctx, nil); err != nil {
		return nil, err
	}
	enc, err := lsm.KeyEncoder(tableDef().Schema, []int{0})
	if err != nil {
		return nil, err
	}
	have := 0
	for _, want := range []int{0, 1, 2, 4, 8} {
		for ; have < want; have++ {
			if err := b.insert(ctx, base+have*each, each); err != nil {
				return nil, err
			}
			if err := errors.Join(b.e.Freeze(ctx, b.table), b.e.RunUpkeep(ctx, b.table, sched.Flush)); err != nil {
				return nil, err
			}
		}
		var took []time.Duration
		for range reads {
			k, err := enc.Row(arrowx.Row{b.rng.Int64N(base), nil}, []int{0})
			if err != nil {
				return nil, err
			}
			w := start()
			x := b.e.Begin(engine.TxnOptions{})
			_, found, err := x.Get(ctx, b.table, k, []int{0, 1})
			x.Rollback()
			if err != nil || !found {
				return nil, fmt.Errorf("point read: found %v, %w", found, err)
			}
			took = append(took, w.elapsed())
		}
		list = append(list, readFigures{Generations: want, P50: percentile(took, 50)})
	}
	return list, nil
}
