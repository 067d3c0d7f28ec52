package format

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// TestGolden reads the part of the corpus that is checked in; it needs no reference implementation.
func TestGolden(t *testing.T) {
	judge(t, golden(t))
}

// TestCorpus lets the reference implementation generate the whole corpus; we read all of it, and write all of it anew
// for the reference to read.
func TestCorpus(t *testing.T) {
	oracle.Python(t)
	if testing.Short() {
		t.Skip("the golden part is enough for a short run")
	}
	c := generated(t)
	require.GreaterOrEqual(t, len(c.files), 300)
	t.Run("read", func(t *testing.T) { t.Parallel(); judge(t, c) })
	t.Run("write", func(t *testing.T) { t.Parallel(); referenceReads(t, c) })
}

// judge reads everything in a corpus, each way there is.
func judge(t *testing.T, c *corpus) {
	t.Helper()
	var faults []fault
	var checked []string
	var truth arrow.RecordBatch
	last := ""
	for _, e := range c.only("file") {
		if e.Truth != last { // neighbours share it
			truth, last = readTruth(t, c.path(e.Truth)), e.Truth
		}
		for _, f := range truth.Schema().Fields() {
			checked = append(checked, e.Name+"/"+f.Name, e.Name+"/"+f.Name+" bytes")
		}
		checked = append(checked, e.Name+"/*")
		faults = append(faults, readFile(t, c, e, truth)...)
	}
	for _, e := range c.only("dataset") {
		checked = append(checked, e.Name+"/*")
		faults = append(faults, readTable(t, c, e)...)
	}
	for _, e := range c.only("refused") {
		checked = append(checked, e.Name+"/*")
		faults = append(faults, readRefused(c, e)...)
	}
	settle(t, faults, knownReads(), checked)
}

// seeded returns the generator of a name's random choices.
func seeded(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// reading is one file under judgement.
type reading struct {
	e      entry
	truth  arrow.RecordBatch
	src    *memFile
	r      *file.Reader
	mem    *counting
	rng    *rand.Rand
	faults []fault
}

// check runs one way of reading; what it returns besides nil is a fault of the column.
func (d *reading) check(column, step string, f func() error) bool {
	err := guard(f)
	if err != nil {
		d.faults = append(d.faults, fault{d.e.Name, column, step, err.Error()})
	}
	if out := d.mem.now.Load(); out != 0 && err == nil {
		d.faults = append(d.faults, fault{d.e.Name, column, step, fmt.Sprintf("leak of %d bytes", out)})
	}
	d.mem.now.Store(0)
	return err == nil
}

func readFile(t *testing.T, c *corpus, e entry, truth arrow.RecordBatch) []fault {
	t.Helper()
	src := openFile(t, c.path(e.Path))
	d := &reading{e: e, truth: truth, src: src, mem: newCounting(), rng: seeded(e.Name)}
	if !d.check("*", "open", func() (err error) {
		d.r, err = file.Open(context.Background(), src, file.ReaderOptions{Allocator: d.mem})
		if err != nil {
			return err
		}
		return d.header()
	}) {
		return d.faults
	}
	all := d.r.Schema().Fields
	ok := true
	for i, f := range all {
		ok = d.column(i, f) && ok
	}
	if ok && len(all) > 1 {
		n := truth.NumRows()
		from := d.rng.Int64N(n)
		to := from + 1 + d.rng.Int64N(n-from)
		d.check("*", "scan of all columns", func() error { return d.scan(all, 0, from, to, d.batchRows()) })
		d.check("*", "take of all columns", func() error { return d.take(all, 0, d.rows(50)) })
	}
	return d.faults
}

// header compares what a file says about itself.
func (d *reading) header() error {
	if got := d.r.Rows(); got != uint64(d.truth.NumRows()) {
		return fmt.Errorf("%d rows, want %d", got, d.truth.NumRows())
	}
	if got := d.r.Version().String(); got != d.e.Version {
		return fmt.Errorf("version %s, want %s", got, d.e.Version)
	}
	got, err := d.r.Schema().Arrow()
	if err != nil {
		return err
	}
	want := d.truth.Schema()
	if got.NumFields() != want.NumFields() {
		return fmt.Errorf("%d fields, want %d", got.NumFields(), want.NumFields())
	}
	for i, w := range want.Fields() {
		g := got.Field(i)
		if g.Name != w.Name || g.Nullable != w.Nullable {
			return fmt.Errorf("field %q nullable %v, want %q nullable %v", g.Name, g.Nullable, w.Name, w.Nullable)
		}
		for k, v := range w.Metadata.ToMap() {
			if have, _ := g.Metadata.GetValue(k); have != v {
				return fmt.Errorf("field %q: metadata %s = %q, want %q", g.Name, k, have, v)
			}
		}
	}
	return nil
}

// column reads one column by scan, by ranges and by take.
func (d *reading) column(i int, f *schema.Field) bool {
	n := d.truth.NumRows()
	fields := []*schema.Field{f}
	if !d.check(f.Name, "scan", func() error { return d.scan(fields, i, 0, n, d.batchRows()) }) {
		return false // the other ways would say the same
	}
	ok := true
	for range 2 {
		from := d.rng.Int64N(n)
		to := from + 1 + d.rng.Int64N(min(n-from, 5000))
		ok = d.check(f.Name, "range", func() error { return d.scan(fields, i, from, to, d.batchRows()) }) && ok
	}
	for _, count := range []int{1, 20} {
		ok = d.check(f.Name, "take", func() error { return d.take(fields, i, d.rows(count)) }) && ok
	}
	ok = d.check(f.Name, "mask", func() error { return d.take(fields, i, d.mask()) }) && ok
	if ok && n > 50_000 {
		d.check(f.Name+" bytes", "bytes of a take", func() error { return d.amplification(fields, i) })
	}
	return ok
}

// amplification checks that taking a few rows reads a small part of a large column: what was read before is cached.
func (d *reading) amplification(fields []*schema.Field, i int) error {
	size := uint64(0)
	desc, problems := file.Describe(context.Background(), d.src)
	if len(problems) > 0 {
		return problems[0]
	}
	for _, c := range desc.Columns {
		if name, _, _ := strings.Cut(c.Field, "."); name == fields[0].Name {
			size += c.Bytes()
		}
	}
	if size < 500_000 { // a few chunks are much of it
		return nil
	}
	before := d.src.read.Load()
	if err := d.take(fields, i, d.rows(10)); err != nil {
		return err
	}
	if got := uint64(d.src.read.Load() - before); got > size/3 {
		return fmt.Errorf("10 rows read %d of %d bytes", got, size)
	}
	return nil
}

// batchRows is small only for small files, so that time stays bounded.
func (d *reading) batchRows() int {
	sizes := []int{1, 2, 7, 100, 1000, 1024, 4096, 8192, 100_000}
	if d.truth.NumRows() > 2000 {
		sizes = sizes[4:]
	}
	return sizes[d.rng.IntN(len(sizes))]
}

// rows returns up to count distinct rows, ascending.
func (d *reading) rows(count int) []uint64 {
	return chosen(d.rng, int(d.truth.NumRows()), count)
}

// mask returns rows in clusters: runs of wanted and unwanted rows of random lengths, as a filter leaves them.
func (d *reading) mask() []uint64 {
	n := d.truth.NumRows()
	mean := []int64{1, 3, 40, 700, 5000}[d.rng.IntN(5)]
	var out []uint64
	for at := d.rng.Int64N(mean + 1); at < n && len(out) < 20_000; {
		run := 1 + d.rng.Int64N(2*mean)
		for ; run > 0 && at < n; run-- {
			out = append(out, uint64(at))
			at++
		}
		at += 1 + d.rng.Int64N(2*mean)
	}
	return out
}

// chosen returns up to count distinct numbers below n, ascending.
func chosen(rng *rand.Rand, n, count int) []uint64 {
	picked := map[uint64]bool{}
	for len(picked) < min(count, n) {
		picked[uint64(rng.IntN(n))] = true
	}
	out := make([]uint64, 0, len(picked))
	for v := range picked {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// scan reads rows [from, to) and compares them; column numbers the first field in the truth.
func (d *reading) scan(fields []*schema.Field, column int, from, to int64, batch int) error {
	rd, err := d.r.Scan(context.Background(), fields, nil, uint64(from), uint64(to), batch)
	if err != nil {
		return err
	}
	at := from
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, rd.Close())
		}
		n := rec.NumRows()
		if n == 0 || n > int64(batch) || at+n > to {
			return fmt.Errorf("batch of %d rows at %d of %d, asked for %d", n, at, to, batch)
		}
		for k := range fields {
			if s := matchRows(d.truth.Column(column+k), int(at), rec.Column(k), 0, int(n)); s != "" {
				rec.Release()
				_ = rd.Close() // the difference is what counts
				return fmt.Errorf("%s%s", prefix(fields, k), s)
			}
		}
		at += n
		rec.Release()
	}
	if at != to {
		return fmt.Errorf("scan ends at row %d of %d", at, to)
	}
	return rd.Close()
}

func prefix(fields []*schema.Field, k int) string {
	if len(fields) == 1 {
		return ""
	}
	return fmt.Sprintf("column %q: ", fields[k].Name)
}

// take reads single rows and compares them.
func (d *reading) take(fields []*schema.Field, column int, rows []uint64) error {
	rec, err := d.r.Take(context.Background(), fields, nil, rows)
	if err != nil {
		return err
	}
	defer rec.Release()
	if rec.NumRows() != int64(len(rows)) {
		return fmt.Errorf("%d rows, want %d", rec.NumRows(), len(rows))
	}
	for k := range fields {
		if s := matchTaken(d.truth.Column(column+k), rec.Column(k), rows); s != "" {
			return fmt.Errorf("%s%s", prefix(fields, k), s)
		}
	}
	return nil
}

// matchRows compares n rows of got from gotAt with those of want from wantAt, "" if they are equal.
func matchRows(want arrow.Array, wantAt int, got arrow.Array, gotAt, n int) string {
	w, g := want.Data(), got.Data()
	if s := diffTypes(w.DataType(), g.DataType()); s != "" {
		return s
	}
	if g.Len() < gotAt+n {
		return fmt.Sprintf("array of %d values, want %d", g.Len(), gotAt+n)
	}
	return diffRange(w, g, w.Offset()+wantAt, g.Offset()+gotAt, n)
}

// matchTaken compares got with the given rows of want, run by run.
func matchTaken(want, got arrow.Array, rows []uint64) string {
	for i := 0; i < len(rows); {
		n := 1
		for i+n < len(rows) && rows[i+n] == rows[i+n-1]+1 {
			n++
		}
		if s := matchRows(want, int(rows[i]), got, i, n); s != "" {
			return s
		}
		i += n
	}
	return ""
}
