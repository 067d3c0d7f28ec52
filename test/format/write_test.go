package format

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/file"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// task is one line of the list for corpus_check.py.
type task struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // file, table, size
	Path    string `json:"path"`
	Truth   string `json:"truth"`
	Version string `json:"version"`
}

// askMost is how many tasks one run of the reference gets: a run has a time limit.
const askMost = 700

// ask gives tasks to the reference implementation and returns its answers by name.
func ask[T any](t *testing.T, dir string, tasks []task) map[string]T {
	t.Helper()
	list := filepath.Join(dir, "list.json")
	answers := map[string]T{}
	for part := range slices.Chunk(tasks, askMost) {
		text, err := json.Marshal(part)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(list, text, 0o644))
		require.NoError(t, json.Unmarshal(oracle.RunPython(t, "corpus_check.py", list), &answers)) // adds to the map
	}
	require.Len(t, answers, len(tasks))
	return answers
}

// versions that we write.
func written() []file.Version { return []file.Version{file.V22(), file.V21()} }

// writeFile returns rec as a data file, in batches of batch rows.
func writeFile(rec arrow.RecordBatch, o file.WriterOptions, batch int64) ([]byte, error) {
	s, err := schema.FromArrow(rec.Schema())
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := file.NewWriter(&out, s, o)
	if err != nil {
		return nil, err
	}
	for at := int64(0); at < rec.NumRows(); at += batch {
		part := rec.NewSlice(at, min(at+batch, rec.NumRows()))
		err := w.Write(part)
		part.Release()
		if err != nil {
			w.Abort()
			return nil, err
		}
	}
	sum, err := w.Finish()
	if err == nil && (sum.Size != uint64(out.Len()) || sum.Rows != uint64(rec.NumRows())) {
		err = fmt.Errorf("summary %+v of a file of %d bytes and %d rows", sum, out.Len(), rec.NumRows())
	}
	return out.Bytes(), err
}

// TestWrittenByUs writes the truths of the golden part and reads them back ourselves; it needs no reference.
func TestWrittenByUs(t *testing.T) {
	c := golden(t)
	var faults []fault
	var checked []string
	for _, name := range truths(c, "file") {
		rec := readTruth(t, c.path(name))
		for _, v := range written() {
			label := stem(name) + "." + v.String()
			checked = append(checked, label+"/*")
			for _, o := range []file.WriterOptions{{Version: v}, {Version: v, MaxPageBytes: 3000}} {
				err := guard(func() error {
					data, err := writeFile(rec, o, 64)
					if err != nil {
						return err
					}
					return readBack(data, rec)
				})
				if err != nil {
					faults = append(faults, fault{label, "*", "write", err.Error()})
				}
			}
		}
	}
	settle(t, faults, knownWrites(), checked)
}

// readBack compares a data file with the truth.
func readBack(data []byte, truth arrow.RecordBatch) error {
	d := &reading{truth: truth, mem: newCounting()}
	var err error
	if d.r, err = file.Open(context.Background(), &memFile{name: "ours", data: data}, file.ReaderOptions{Allocator: d.mem}); err != nil {
		return err
	}
	if err := d.scan(d.r.Schema().Fields, 0, 0, truth.NumRows(), 1000); err != nil {
		return err
	}
	if out := d.mem.now.Load(); out != 0 {
		return fmt.Errorf("leak of %d bytes", out)
	}
	return nil
}

// truths lists the different truth files of a kind.
func truths(c *corpus, kind string) []string {
	var out []string
	for _, e := range c.only(kind) {
		if len(out) == 0 || out[len(out)-1] != e.Truth {
			out = append(out, e.Truth)
		}
	}
	return out
}

func stem(p string) string {
	base := filepath.Base(p)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// referenceReads writes every truth of the corpus as a data file and many as tables; pylance and lancedb read all of it
// by scan, take and filter, lancedb for Node some.
func referenceReads(t *testing.T, c *corpus) {
	t.Helper()
	dir := t.TempDir()
	m := &matrix{c: c, dir: dir, long: os.Getenv(envSoak) == "1"}
	for _, name := range truths(c, "file") {
		m.add(t, name)
	}
	answers := ask[string](t, dir, m.tasks)
	for _, task := range m.tasks {
		if a := answers[task.Name]; a != "ok" {
			m.faults = append(m.faults, fault{task.Name, "*", "reference reads our " + task.Kind, a})
		}
	}
	settle(t, m.faults, knownWrites(), m.checked)
	nodeReads(t, m)
}

// matrix is what we wrote for the reference.
type matrix struct {
	c       *corpus
	dir     string
	long    bool
	tasks   []task
	tables  []task
	faults  []fault
	checked []string
}

// add writes one truth in each version, as a file and as a table.
func (m *matrix) add(t *testing.T, name string) {
	t.Helper()
	rec := readTruth(t, m.c.path(name))
	defer rec.Release()
	rng := seeded(name)
	for i, v := range written() {
		if rec.NumRows() > 50_000 && i != rng.IntN(len(written())) && !m.long {
			continue // one version each
		}
		label := stem(name) + "." + v.String()
		path := filepath.Join(m.dir, label+".file")
		m.write(label, task{Name: label, Kind: "file", Path: path, Truth: m.c.path(name)}, func() error {
			o := file.WriterOptions{Version: v, MaxPageBytes: []int{0, 0, 300_000, 20_000}[rng.IntN(4)]}
			data, err := writeFile(rec, o, []int64{100_000, 8192, 999}[rng.IntN(3)])
			if err != nil {
				return err
			}
			return os.WriteFile(path, data, 0o644)
		})
		if !m.wantsTable(stem(name), rec.NumRows(), i) {
			continue
		}
		label = "t_" + stem(name) + "." + v.String()
		path = filepath.Join(m.dir, label+".lance")
		truth := filepath.Join(m.dir, label+".arrow")
		m.write(label, task{Name: label, Kind: "table", Path: path, Truth: truth, Version: v.String()}, func() error {
			return writeTable(path, truth, rec, v)
		})
	}
}

// wantsTable chooses the truths that become tables as well: reading those takes a while.
func (m *matrix) wantsTable(name string, rows int64, version int) bool {
	switch {
	case strings.HasPrefix(name, "blob-"):
		return false // a table's reader sees their descriptions
	case m.long:
		return rows < 1_000_000
	case strings.Contains(name, "_zstd-"), strings.Contains(name, "_lz4-"), strings.Contains(name, "_none-"), strings.Contains(name, "_bss-"), strings.Contains(name, "_bssoff-"),
		strings.Contains(name, "_fsst-"), strings.Contains(name, "_fullzip-"), strings.Contains(name, "_miniblock-"):
		return false
	case rows == 1000:
		return version == 0 || seeded(name).IntN(4) == 0
	case rows > 50_000:
		return version == 0 && seeded(name).IntN(6) == 0
	default:
		return version == 0 && seeded(name).IntN(12) == 0
	}
}

// write does one piece of writing and remembers it for the reference unless it failed.
func (m *matrix) write(label string, work task, f func() error) {
	m.checked = append(m.checked, label+"/*")
	if err := guard(f); err != nil {
		m.faults = append(m.faults, fault{label, "*", "write " + work.Kind, err.Error()})
		return
	}
	m.tasks = append(m.tasks, work)
	if work.Kind == "table" {
		m.tables = append(m.tables, work)
	}
}

// withID puts a column id with the row numbers before the others.
func withID(rec arrow.RecordBatch) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range rec.NumRows() {
		b.Append(i)
	}
	ids := b.NewArray()
	defer ids.Release()
	fields := append([]arrow.Field{{Name: "id", Type: ids.DataType()}}, rec.Schema().Fields()...)
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), append([]arrow.Array{ids}, rec.Columns()...), rec.NumRows())
}

// writeTable makes a table of several fragments with deleted rows, and the truth of its live rows.
func writeTable(dir, truth string, rec arrow.RecordBatch, v file.Version) error {
	ctx := context.Background()
	rec = withID(rec)
	defer rec.Release()
	s, err := schema.FromArrow(rec.Schema())
	if err != nil {
		return err
	}
	st, err := objstore.OpenDisk(filepath.Dir(dir))
	if err != nil {
		return err
	}
	d, err := table.Create(ctx, st, filepath.Base(dir), s, table.CreateOptions{DataVersion: v.String()})
	if err != nil {
		return err
	}
	n := rec.NumRows()
	step := max(1, (n+2)/3)
	var live []arrow.RecordBatch
	for at := int64(0); at < n; at += step {
		part := rec.NewSlice(at, min(at+step, n))
		if d, err = appendFragment(ctx, d, part); err != nil {
			return err
		}
		if part.NumRows() < 30 {
			live = append(live, part)
			continue
		}
		deleted := roaring.New()
		deleted.AddRange(0, 2)
		deleted.AddRange(10, 17)
		f := d.NewFragments()[0]
		file, err := d.WriteDeletions(ctx, f.ID, deleted)
		if err != nil {
			return err
		}
		if d, err = d.Commit(ctx, table.Delete{Updated: []*table.Fragment{f.WithDeletion(file)}, Predicate: "id < 0"}); err != nil {
			return err
		}
		live = append(live, part.NewSlice(2, 10), part.NewSlice(17, part.NumRows()))
	}
	return writeIPC(truth, rec.Schema(), live)
}

func appendFragment(ctx context.Context, d *table.Dataset, rec arrow.RecordBatch) (*table.Dataset, error) {
	w, err := d.NewFragmentWriter(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.Write(rec); err != nil {
		w.Abort()
		return nil, err
	}
	f, err := w.Finish(ctx)
	if err != nil {
		return nil, err
	}
	return d.Commit(ctx, table.Append{Fragments: []*table.Fragment{f}})
}

func writeIPC(path string, s *arrow.Schema, recs []arrow.RecordBatch) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(s))
	for _, r := range recs {
		if err == nil {
			err = w.Write(r)
		}
	}
	if err == nil {
		err = w.Close()
	}
	return errors.Join(err, f.Close())
}
