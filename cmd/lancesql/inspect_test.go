package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/arrowx"
	"lancesql/lance/inspect"
	"lancesql/lsm"
)

// rewrite makes testdata/inspect anew: the data directory and what inspect says about it.
var rewrite = flag.Bool("rewrite", false, "rewrite the data directory and the golden texts of testdata/inspect")

const (
	goldenDir   = "testdata/inspect"
	goldenTable = "shop/orders.lance"
)

func ordersSchema() *arrow.Schema {
	key := arrow.MetadataFrom(map[string]string{"lance-schema:unenforced-primary-key": "true", "lance-schema:unenforced-primary-key:position": "1"})
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key},
		{Name: "item", Type: arrow.BinaryTypes.String},
		{Name: "paid", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil)
}

func order(id int64) arrowx.Row {
	if id%3 == 0 {
		return arrowx.Row{id, fmt.Sprintf("item %d", id%5), nil}
	}
	return arrowx.Row{id, fmt.Sprintf("item %d", id%5), int32(100 * id)}
}

func openEngine(t testing.TB, dir string) *engine.Engine {
	t.Helper()
	e, err := engine.Open(context.Background(), engine.Config{DataDir: dir, MemTableRows: 8, MergeAfterGenerations: 16, Workers: 1}, engine.Components{})
	require.NoError(t, err)
	return e
}

// put commits the orders from to to-1, one transaction each.
func put(ctx context.Context, e *engine.Engine, from, to int64) error {
	tbl := e.Catalog().Database("shop").Table("orders")
	for id := from; id < to; id++ {
		txn := e.Begin(engine.TxnOptions{})
		txn.BeginStatement()
		if err := txn.Insert(ctx, tbl, order(id)); err != nil {
			return err
		}
		if err := txn.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// makeStore writes a data directory with everything inspect knows: merged rows with deletions, a generation, WAL
// entries of two epochs and a fence sentinel.
func makeStore(t testing.TB, dir string) {
	t.Helper()
	ctx := context.Background()
	e := openEngine(t, dir)
	require.NoError(t, e.CreateDatabase(ctx, "shop", nil))
	require.NoError(t, e.CreateDatabase(ctx, "unused & odd", nil))
	_, err := e.CreateTable(ctx, "shop", "orders", engine.TableDef{Schema: ordersSchema(), Shape: []byte(`{}`), AutoColumn: -1})
	require.NoError(t, err)
	_, err = e.CreateTable(ctx, "shop", "Müll", engine.TableDef{Schema: ordersSchema(), Shape: []byte(`{}`), AutoColumn: -1})
	require.NoError(t, err)
	require.NoError(t, put(ctx, e, 1, 7))
	require.NoError(t, e.FlushTables(ctx, nil))
	tbl := e.Catalog().Database("shop").Table("orders")
	txn := e.Begin(engine.TxnOptions{})
	txn.BeginStatement()
	require.NoError(t, txn.Delete(ctx, tbl, order(2)))
	require.NoError(t, txn.Update(ctx, tbl, order(4), arrowx.Row{int64(4), "changed", nil}))
	require.NoError(t, txn.Commit(ctx))
	require.NoError(t, e.FlushTables(ctx, nil))
	require.NoError(t, put(ctx, e, 10, 20))
	st := readStore{dir}
	require.Eventually(t, func() bool {
		r := inspect.NewReport("", "")
		shards := lsm.SummarizeShards(ctx, st, goldenTable, r)
		return r.Err() == nil && len(shards) == 1 && shards[0].Generations == 1
	}, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, e.Close(ctx))
	e = openEngine(t, dir)
	require.NoError(t, put(ctx, e, 20, 22))
	require.NoError(t, e.Close(ctx))
	require.NoError(t, os.Remove(filepath.Join(dir, "_lancesql", "LOCK")))
}

// one returns the only match of a pattern below dir, or the k-th of several.
func one(t testing.TB, dir, pattern string, k int) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	require.NoError(t, err)
	require.Greater(t, len(found), k, pattern)
	slices.Sort(found)
	return found[k]
}

// goldens are the things of the data directory that are inspected.
func goldens(t testing.TB, store string) map[string]string {
	table := filepath.Join(store, filepath.FromSlash(goldenTable))
	return map[string]string{
		"directory":      store,
		"dataset":        table,
		"data_file":      one(t, table, "data/*.lance", 0),
		"manifest":       one(t, table, "_versions/*.manifest", 0),
		"transaction":    one(t, table, "_transactions/*.txn", 0),
		"deletions":      one(t, table, "_deletions/*.arrow", 0),
		"wal_entry":      one(t, table, "_mem_wal/*/wal/*.arrow", 0),
		"wal_sentinel":   sentinel(t, table),
		"shard_manifest": one(t, table, "_mem_wal/*/manifest/*.binpb", 0),
	}
}

// sentinel is the smallest WAL entry: it holds no rows.
func sentinel(t testing.TB, table string) string {
	found, err := filepath.Glob(filepath.Join(table, "_mem_wal", "*", "wal", "*.arrow"))
	require.NoError(t, err)
	return slices.MinFunc(found, func(a, b string) int { return size(t, a) - size(t, b) })
}

func size(t testing.TB, name string) int {
	info, err := os.Stat(name)
	require.NoError(t, err)
	return int(info.Size())
}

func TestInspectGolden(t *testing.T) {
	store := filepath.Join(goldenDir, "store")
	if *rewrite {
		require.NoError(t, os.RemoveAll(store))
		makeStore(t, store)
	}
	for name, target := range goldens(t, store) {
		for _, form := range []struct{ suffix, flag string }{{".txt", ""}, {".json", "--json"}} {
			args := []string{"inspect", target}
			if form.flag != "" {
				args = append(args, form.flag)
			}
			code, out, text := call(args...)
			require.Zero(t, code, "%s: %s", name, text)
			require.Empty(t, text, name)
			file := filepath.Join(goldenDir, name+form.suffix)
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), out, "%s; -rewrite makes it anew", file)
		}
	}
}

func TestInspectCommandLine(t *testing.T) {
	code, out, _ := call("inspect", "--help")
	require.Zero(t, code)
	require.Contains(t, out, "lancesql inspect PATH")
	strange := filepath.Join(t.TempDir(), "notes.md")
	require.NoError(t, os.WriteFile(strange, []byte("hello"), 0o600))
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "no path"},
		{[]string{"--nope", "x"}, "-nope"},
		{[]string{"a", "b"}, `"b"`},
		{[]string{filepath.Join(t.TempDir(), "absent")}, "not found"},
		{[]string{t.TempDir()}, "neither a table nor a data directory"},
		{[]string{strange}, "not a file of a Lance table"},
	} {
		code, out, text := call(append([]string{"inspect"}, c.args...)...)
		require.Equal(t, 1, code, c.args)
		require.Contains(t, text, c.says, c.args)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(text, "\n"), text)
	}
	store := filepath.Join(goldenDir, "store")
	_, before, _ := call("inspect", "--json", store)
	_, after, _ := call("inspect", store, "--json")
	require.Equal(t, before, after, "the flag may stand on either side")
}

// tree maps the files below dir to their content, size and time.
func tree(t testing.TB, dir string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		text := ""
		if !d.IsDir() {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			text = string(b)
		}
		out[path] = fmt.Sprint(info.Mode(), info.ModTime(), text)
		return nil
	}))
	return out
}

func TestInspectChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, "store"))))
	before := tree(t, dir)
	for _, target := range goldens(t, dir) {
		code, _, text := call("inspect", target)
		require.Zero(t, code, text)
	}
	require.Equal(t, before, tree(t, dir))
}

// TestInspectBesideWriter inspects while commits, flushes, merges and clean-up go on: nothing it sees is damage.
func TestInspectBesideWriter(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "data")
	e, err := engine.Open(ctx, engine.Config{
		DataDir: dir, MemTableRows: 8, MergeAfterGenerations: 2, Workers: 2, ManifestRetention: engine.NoRetention,
	}, engine.Components{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	require.NoError(t, e.CreateDatabase(ctx, "shop", nil))
	_, err = e.CreateTable(ctx, "shop", "orders", engine.TableDef{Schema: ordersSchema(), Shape: []byte(`{}`), AutoColumn: -1})
	require.NoError(t, err)
	done := make(chan error, 1)
	var looks atomic.Int64
	go func() { // goes on until there have been a few looks, however the two are scheduled
		var err error
		for id := int64(0); err == nil && !t.Failed() && (id < 150 || looks.Load() < 3); id += 50 {
			err = put(ctx, e, id, id+50)
		}
		done <- err
	}()
	for running := true; running; looks.Add(1) {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
		}
		for _, target := range []string{dir, filepath.Join(dir, filepath.FromSlash(goldenTable))} {
			code, out, text := call("inspect", target)
			require.Zero(t, code, "%s\n%s", text, out)
		}
	}
}

// damage changes one file of a copy of the store and says what inspect must say.
type damage struct {
	name    string
	pattern string // of the file, below the table unless it begins with _lancesql
	k       int
	change  func(b []byte) []byte // nil: the file is removed
	says    string                // on standard error
	shows   []string              // still on standard output
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0xff
		return b
	}
}

func half(b []byte) []byte { return b[:len(b)/2] }

func TestInspectDamage(t *testing.T) {
	for _, d := range []damage{
		{"data file cut", "data/*.lance", 0, half, "corruption in data/", []string{"transactions", "flushed generations", "fragment 1", "WAL entries"}},
		{"data file footer", "data/*.lance", 0, flip(-1), "corruption in data/", []string{"transactions", "flushed generations"}},
		{"data file missing", "data/*.lance", 0, nil, "not found", []string{"transactions", "flushed generations"}},
		{"manifest cut", "_versions/*.manifest", 0, half, "corruption in _versions/", []string{"transactions", "schema", "flushed generations"}},
		{"manifest empty", "_versions/*.manifest", 0, func([]byte) []byte { return nil }, "at byte 0", []string{"transactions", "schema"}},
		{"all manifests cut", "_versions/*.manifest", -1, half, "corruption in _versions/", []string{"problems"}},
		{"transaction", "_transactions/*.txn", 0, half, "corruption in _transactions/", []string{"transactions", "schema", "flushed generations"}},
		{"deletions", "_deletions/*.arrow", 0, flip(-1), "corruption in _deletions/", []string{"transactions", "schema"}},
		{"shard manifest", "_mem_wal/*/manifest/*.binpb", -1, flip(0), "corruption in _mem_wal/", []string{"transactions", "WAL entries"}},
		{"WAL entry", "_mem_wal/*/wal/*.arrow", 1, flip(200), "corruption in _mem_wal/", []string{"damaged", "flushed generations"}},
		{"WAL entry empty", "_mem_wal/*/wal/*.arrow", 1, func([]byte) []byte { return nil }, "at byte 0: WAL entry", []string{"damaged"}},
		{"generation", "_mem_wal/*/*_gen_*/_versions/*.manifest", 0, half, "corruption in _mem_wal/", []string{"flushed generations", "WAL entries"}},
		{"catalog", "_lancesql/catalog/*.snap", -1, flip(100), "corruption in _lancesql/catalog/", []string{"database shop", "orders"}},
		{"format", "_lancesql/FORMAT", 0, flip(0), "corruption in _lancesql/FORMAT at byte 0", []string{"database shop", "orders"}},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, "store"))))
		target, base := filepath.Join(dir, filepath.FromSlash(goldenTable)), filepath.Join(dir, filepath.FromSlash(goldenTable))
		if strings.HasPrefix(d.pattern, "_lancesql") {
			target, base = dir, dir
		}
		files := []string{one(t, base, d.pattern, max(d.k, 0))}
		if d.k < 0 {
			var err error
			files, err = filepath.Glob(filepath.Join(base, filepath.FromSlash(d.pattern)))
			require.NoError(t, err)
		}
		for _, f := range files {
			if d.change == nil {
				require.NoError(t, os.Remove(f))
				continue
			}
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(f, d.change(b), 0o600))
		}
		code, out, text := call("inspect", target)
		require.Equal(t, 1, code, d.name)
		require.Contains(t, text, d.says, d.name)
		require.Contains(t, out, "problems", d.name)
		for _, s := range d.shows {
			require.Contains(t, out, s, d.name)
		}
	}
}

// TestInspectRandomDamage: whatever the bytes are, inspect answers, with valid JSON.
func TestInspectRandomDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, "store"))))
	var files []string
	for name := range tree(t, dir) {
		if info, err := os.Stat(name); err == nil && !info.IsDir() && filepath.Ext(name) != "" {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for seed := range rounds {
		rng := rand.New(rand.NewSource(int64(seed)))
		name := files[rng.Intn(len(files))]
		good, err := os.ReadFile(name)
		require.NoError(t, err)
		bad := slices.Clone(good)
		for range 1 + rng.Intn(4) {
			if len(bad) > 0 {
				bad[rng.Intn(len(bad))] = byte(rng.Intn(256))
			}
		}
		if rng.Intn(3) == 0 {
			bad = bad[:rng.Intn(len(bad)+1)]
		}
		require.NoError(t, os.WriteFile(name, bad, 0o600))
		targets := []string{dir, filepath.Join(dir, filepath.FromSlash(goldenTable))}
		if filepath.Ext(name) != ".json" && filepath.Ext(name) != ".snap" {
			targets = append(targets, name)
		}
		for _, target := range targets {
			code, out, text := call("inspect", target, "--json")
			require.True(t, json.Valid([]byte(out)), "seed %d: %s\n%s", seed, target, text)
			require.Equal(t, code == 0, text == "", "seed %d", seed)
			_, _, _ = call("inspect", target)
		}
		require.NoError(t, os.WriteFile(name, good, 0o600))
	}
}
