package lint_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// place is a package's row in the layer table.
type place struct {
	layer    int      // imports reach strictly smaller layers
	siblings []string // packages of the same layer it may import as well
}

// layers is the layer table, docs/decisions/0001-*.md. Packages that exist for tests only are not in it.
func layers() map[string]place {
	return map[string]place{
		"internal/errs":      {layer: 0},
		"internal/invariant": {layer: 0},
		"internal/clock":     {layer: 0},
		"internal/memacct":   {layer: 0},
		"internal/humanize":  {layer: 0},

		"internal/objstore":  {layer: 1},
		"internal/logfile":   {layer: 1},
		"internal/arrowx":    {layer: 1},
		"internal/predicate": {layer: 1, siblings: []string{"internal/arrowx"}},
		"internal/rowkey":    {layer: 1, siblings: []string{"internal/arrowx"}},
		"internal/colexec":   {layer: 1, siblings: []string{"internal/arrowx", "internal/predicate"}},

		"lance/rowaddr":  {layer: 2},
		"lance/pb":       {layer: 2},
		"lance/schema":   {layer: 2, siblings: []string{"lance/rowaddr", "lance/pb"}},
		"lance/encoding": {layer: 2, siblings: []string{"lance/schema", "lance/rowaddr", "lance/pb"}},
		"lance/file":     {layer: 2, siblings: []string{"lance/encoding", "lance/schema", "lance/rowaddr", "lance/pb"}},
		"lance/table":    {layer: 2, siblings: []string{"lance/file", "lance/encoding", "lance/schema", "lance/rowaddr", "lance/pb"}},

		"lance/inspect": {layer: 2, siblings: []string{"lance/table", "lance/file", "lance/encoding", "lance/schema", "lance/rowaddr", "lance/pb"}},

		"wal":               {layer: 3},
		"indexes/pkstore":   {layer: 3},
		"indexes":           {layer: 3},
		"indexes/store":     {layer: 3},
		"indexes/btree":     {layer: 3, siblings: []string{"indexes", "indexes/store"}},
		"indexes/bloom":     {layer: 3, siblings: []string{"indexes", "indexes/store"}},
		"indexes/zonemap":   {layer: 3, siblings: []string{"indexes", "indexes/store"}},
		"indexes/bitmap":    {layer: 3, siblings: []string{"indexes", "indexes/store"}},
		"indexes/fragreuse": {layer: 3, siblings: []string{"indexes", "indexes/store"}},
		"indexes/zonebloom": {layer: 3, siblings: []string{"indexes", "indexes/store", "indexes/bloom"}},
		"memtable":          {layer: 3, siblings: []string{"indexes/pkstore"}},

		"lsm": {layer: 4},

		"engine/lock":    {layer: 5},
		"engine/sched":   {layer: 5},
		"engine/journal": {layer: 5},
		"engine":         {layer: 5, siblings: []string{"engine/lock", "engine/sched", "engine/journal"}},

		"sqlbackend/wire":      {layer: 6},
		"sqlbackend/fulltext":  {layer: 6},
		"sqlbackend/fastpath":  {layer: 6},
		"sqlbackend/program":   {layer: 6},
		"sqlbackend/vectorize": {layer: 6},
		"sqlbackend":           {layer: 6, siblings: []string{"sqlbackend/wire", "sqlbackend/fulltext", "sqlbackend/fastpath", "sqlbackend/program", "sqlbackend/vectorize"}},

		"cmd/lancesql": {layer: 7},
		"bench":        {layer: 7},
		"bench/format": {layer: 7},
		"bench/scan":   {layer: 7},
		"bench/wal":    {layer: 7},
	}
}

// allowed says whether the package from may reach the package to, directly or through others.
func allowed(table map[string]place, from, to string) bool {
	f, okFrom := table[from]
	t, okTo := table[to]
	if !okFrom || !okTo || t.layer >= 7 {
		return false
	}
	if t.layer < f.layer {
		return true
	}
	for _, s := range f.siblings {
		if s == to {
			return true
		}
	}
	return false
}

// layerFaults compares what the packages import with the table.
func layerFaults(table map[string]place, list []listedPackage) []string {
	var faults []string
	for _, p := range list {
		self, _ := ours(p.ImportPath)
		if isTestPackage(self) {
			continue
		}
		if _, ok := table[self]; !ok {
			faults = append(faults, fmt.Sprintf("%s has no row in the layer table", self))
			continue
		}
		for _, d := range p.Deps {
			if dep, ok := ours(d); ok && !allowed(table, self, dep) {
				faults = append(faults, fmt.Sprintf("%s reaches %s, which the layer table does not allow", self, dep))
			}
		}
		tests := append(append([]string(nil), p.TestImports...), p.XTestImports...)
		for _, d := range tests {
			dep, ok := ours(d)
			if ok && dep != self && !isTestPackage(dep) && !allowed(table, self, dep) {
				faults = append(faults, fmt.Sprintf("a test of %s imports %s, which the layer table does not allow", self, dep))
			}
		}
	}
	sort.Strings(faults)
	return faults
}

func TestLayers(t *testing.T) {
	for _, fault := range layerFaults(layers(), packages(t)) {
		t.Error(fault)
	}
}

// TestLayersFindsFaults is the planted fault: the rule must fail when it is broken.
func TestLayersFindsFaults(t *testing.T) {
	pkg := func(name string, deps ...string) listedPackage {
		return listedPackage{ImportPath: module + "/" + name, Deps: deps}
	}
	require.Empty(t, layerFaults(layers(), []listedPackage{pkg("lsm", module+"/lance/table", module+"/internal/errs")}))
	for _, bad := range []listedPackage{
		pkg("lsm", module+"/engine"),
		pkg("wal", module+"/memtable"),
		pkg("indexes/pkstore", module+"/memtable"),
		pkg("lance/file", module+"/lance/table"),
		pkg("internal/objstore", module+"/internal/arrowx"),
		pkg("engine", module+"/cmd/lancesql"),
		pkg("engine/lock", module+"/engine/sched"),
		pkg("internal/lsm2"),
		{ImportPath: module + "/wal", XTestImports: []string{module + "/engine"}},
	} {
		require.NotEmpty(t, layerFaults(layers(), []listedPackage{bad}), "%v", bad)
	}
}

// TestLayerTableIsClosed: if A may import B and B may import C then A may reach C; else no rule could hold transitively.
func TestLayerTableIsClosed(t *testing.T) {
	table := layers()
	for a, pa := range table {
		for _, b := range pa.siblings {
			require.Contains(t, table, b)
			for _, c := range table[b].siblings {
				require.Truef(t, allowed(table, a, c), "%s -> %s -> %s", a, b, c)
			}
		}
	}
}

// foreign lists modules with the only places that may import them.
func foreign() map[string][]string {
	return map[string][]string{
		"github.com/dolthub/":               {"sqlbackend"},
		"gopkg.in/src-d/go-errors":          {"sqlbackend"},
		"github.com/sirupsen/logrus":        {"sqlbackend"},
		"github.com/cockroachdb/apd":        {"sqlbackend"},
		"github.com/cockroachdb/pebble/":    {"indexes/pkstore", "internal/objstore", "internal/logfile"},
		"google.golang.org/protobuf/":       {"lance", "lsm/shardmanifest.go", "lsm/shardmanifest_test.go", "lsm/inspect.go", "indexes"},
		"github.com/go-sql-driver/mysql":    {"bench", "test/e2e", "test/suites", "internal/testkit", "sqlbackend"},
		"github.com/anishathalye/porcupine": {"test/e2e"},
		"gopkg.in/yaml.v3":                  {"cmd/lancesql"},
		"golang.org/x/tools/":               {"internal/lint"},
		"github.com/bits-and-blooms/bloom":  {"indexes", "lsm"},
	}
}

// TestForeignModules keeps each third-party idea in its room. A crash clone of pebble's file system is a test seam of
// every storage package, hence only production code is held to the pebble rule.
func TestForeignModules(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, spec := range f.ast.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			for prefix, places := range foreign() {
				if !strings.HasPrefix(imported, strings.TrimSuffix(prefix, "/")) {
					continue
				}
				ok := strings.HasPrefix(prefix, "github.com/cockroachdb/pebble") && f.isTestCode() && strings.HasPrefix(imported, "github.com/cockroachdb/pebble/v2/vfs")
				for _, p := range places {
					ok = ok || under(f.path, p)
				}
				if !ok {
					t.Errorf("%s:%d imports %s, allowed only in %s", f.path, f.line(spec.Pos()), imported, strings.Join(places, ", "))
				}
			}
		}
	}
}

// TestNoSQLTypeBelowBackend: nothing below L6 may even reach the frontend, whatever the path.
func TestNoSQLTypeBelowBackend(t *testing.T) {
	table := layers()
	for _, p := range packages(t) {
		self, _ := ours(p.ImportPath)
		if row, ok := table[self]; !ok || row.layer >= 6 {
			continue
		}
		for _, d := range p.Deps {
			if strings.HasPrefix(d, "github.com/dolthub/") {
				t.Errorf("%s reaches %s", self, d)
			}
		}
	}
}
