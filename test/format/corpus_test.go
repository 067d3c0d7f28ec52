package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
)

const (
	envCorpus = "LANCESQL_CORPUS" // a folder that keeps the generated corpus between runs; docs/testing.md
	envSoak   = "LANCESQL_SOAK"
	envSeed   = "LANCESQL_SEED" // a number; another one is another corpus of the same shapes
)

// entry is one file or table of a corpus, as its manifest.json lists it.
type entry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // file, dataset, refused
	Path    string `json:"path"`
	Truth   string `json:"truth"`
	Version string `json:"version"`
	Rows    int    `json:"rows"`
}

// corpus is a folder with a manifest.
type corpus struct {
	dir   string
	files []entry
}

func (c *corpus) path(rel string) string { return filepath.Join(c.dir, filepath.FromSlash(rel)) }

// only returns the entries of a kind.
func (c *corpus) only(kind string) []entry {
	var out []entry
	for _, e := range c.files {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

func openCorpus(t testing.TB, dir string) *corpus {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	require.NoError(t, err)
	c := &corpus{dir: dir}
	require.NoError(t, json.Unmarshal(text, &struct {
		Files *[]entry `json:"files"`
	}{&c.files}))
	return c
}

// golden is the part of the corpus that is checked in.
func golden(t testing.TB) *corpus {
	return openCorpus(t, filepath.Join(oracle.Root(t), "testdata", "golden", "corpus"))
}

// generated makes the whole corpus with the reference implementation, or finds it where an earlier run left it.
func generated(t testing.TB) *corpus {
	t.Helper()
	oracle.Python(t)
	var args []string
	if os.Getenv(envSoak) == "1" {
		args = append(args, "--large")
	}
	if seed := os.Getenv(envSeed); seed != "" {
		args = append(args, "--seed", seed)
	}
	dir := os.Getenv(envCorpus)
	if dir == "" {
		dir = t.TempDir()
		oracle.RunPython(t, "corpus.py", append([]string{dir}, args...)...)
		return openCorpus(t, dir)
	}
	stamp := filepath.Join(dir, "stamp")
	want := sourceHash(t, args)
	if have, err := os.ReadFile(stamp); err != nil || string(have) != want {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		_ = os.Remove(stamp) // absent on the first run
		oracle.RunPython(t, "corpus.py", append([]string{dir}, args...)...)
		require.NoError(t, os.WriteFile(stamp, []byte(want), 0o644))
	}
	return openCorpus(t, dir)
}

// sourceHash identifies what makes the corpus: the scripts, the pinned versions and the arguments.
func sourceHash(t testing.TB, args []string) string {
	t.Helper()
	h := sha256.New()
	names, err := filepath.Glob(filepath.Join(oracle.Root(t), "testdata", "oracle", "corpus*.py"))
	require.NoError(t, err)
	for _, name := range append(names, filepath.Join(oracle.Root(t), "scripts", "requirements.txt")) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		h.Write(text)
	}
	for _, a := range args {
		h.Write([]byte(a))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// readTruth returns the single batch of an Arrow IPC file.
func readTruth(t testing.TB, path string) arrow.RecordBatch {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	r, err := ipc.NewFileReader(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, 1, r.NumRecords(), path)
	rec, err := r.RecordBatchAt(0)
	require.NoError(t, err)
	return rec
}

// memFile is a data file in memory.
type memFile struct {
	name string
	data []byte
	read atomic.Int64 // bytes
}

func openFile(t testing.TB, path string) *memFile {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return &memFile{name: filepath.Base(path), data: data}
}

// ReadAt implements file.Source.
func (m *memFile) ReadAt(_ context.Context, p []byte, off int64) error {
	if off < 0 || off > int64(len(m.data)) || len(p) > len(m.data)-int(off) {
		return io.ErrUnexpectedEOF
	}
	copy(p, m.data[off:])
	m.read.Add(int64(len(p)))
	return nil
}

// Size implements file.Source.
func (m *memFile) Size() int64 { return int64(len(m.data)) }

// Name implements file.Source.
func (m *memFile) Name() string { return m.name }

// counting is an allocator that knows how much is out and how much was out at most.
type counting struct {
	mem       memory.Allocator
	now, peak atomic.Int64 // bytes
}

func newCounting() *counting { return &counting{mem: memory.NewGoAllocator()} }

func (c *counting) add(n int) {
	now := c.now.Add(int64(n))
	for {
		peak := c.peak.Load()
		if now <= peak || c.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

// Allocate implements memory.Allocator.
func (c *counting) Allocate(size int) []byte {
	c.add(size)
	return c.mem.Allocate(size)
}

// Reallocate implements memory.Allocator.
func (c *counting) Reallocate(size int, b []byte) []byte {
	c.add(size - len(b))
	return c.mem.Reallocate(size, b)
}

// Free implements memory.Allocator.
func (c *counting) Free(b []byte) {
	c.add(-len(b))
	c.mem.Free(b)
}
