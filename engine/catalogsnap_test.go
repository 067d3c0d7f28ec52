package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

const goldenSnapshot = "testdata/catalog/00000000000000000007.snap"

func written() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

// goldenCatalog is the image in goldenSnapshot: names of all kinds, most column types, one intent of each kind.
func goldenCatalog(t testing.TB) *Catalog {
	t.Helper()
	id := func(n byte) TableID { return TableID{0: n, 15: n} }
	wide := arrow.NewSchema([]arrow.Field{
		{Name: "k", Type: arrow.BinaryTypes.Binary, Metadata: arrow.NewMetadata([]string{"lance-schema:unenforced-primary-key"}, []string{"true"})},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true},
		{Name: "vec", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "größe", Type: arrow.PrimitiveTypes.Uint64},
	}, nil)
	tables := []*TableEntry{
		{ID: id(1), Database: "Shop", Name: "Orders", Path: "Shop/Orders.lance", Schema: ddlSchema(), Shape: []byte(`{"v":1}`), AutoColumn: 0, NextAuto: 1000},
		{ID: id(2), Database: "Shop", Name: "../x y", Path: tablePath("Shop", "../x y"), Schema: wide, AutoColumn: -1, NextAuto: 1},
	}
	for _, e := range tables {
		require.NoError(t, e.seal())
	}
	return newCatalog(7, []*Database{
		newDatabase("Shop", "Shop", DatabaseOptions{"collation": "utf8mb4_bin", "comment": "<&>"}, tables),
		newDatabase("empty", "empty", nil, nil),
	}, []intent{
		{Kind: intentCreate, ID: id(3), Path: "Shop/new.lance"},
		{Kind: intentDrop, ID: id(4), Path: "Shop/old.lance"},
		{Kind: intentRemove, ID: id(5)},
		{Kind: intentRename, ID: id(2), Path: tablePath("Shop", "../x y"), To: "empty/z.lance", Database: "empty", Table: "z"},
		{Kind: intentRmdir, ID: id(6), Path: "gone"},
	})
}

func TestGoldenSnapshot(t *testing.T) {
	want := goldenCatalog(t)
	data, err := encodeSnapshot(want, written())
	require.NoError(t, err)
	if os.Getenv("LANCESQL_REWRITE") != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(goldenSnapshot), 0o755))
		require.NoError(t, os.WriteFile(goldenSnapshot, data, 0o644))
	}
	golden, err := os.ReadFile(goldenSnapshot)
	require.NoError(t, err)
	require.Equal(t, string(golden), string(data), "the format changed; it needs a new number, or LANCESQL_REWRITE=1 before the first release")
	got, err := decodeSnapshot("golden", 7, golden)
	require.NoError(t, err)
	requireSameCatalog(t, want, got)
	require.Nil(t, got.TableByID(TableID{0: 2, 15: 2}), "a table being renamed cannot be opened")
}

func requireSameCatalog(t testing.TB, want, got *Catalog) {
	t.Helper()
	require.Equal(t, want.Version, got.Version)
	require.Equal(t, names(want), names(got))
	require.Equal(t, append([]intent{}, want.intents...), append([]intent{}, got.intents...))
	for _, d := range want.Databases() {
		g := got.Database(d.Name)
		require.Equal(t, d.dir, g.dir)
		require.Equal(t, len(d.Options), len(g.Options))
		for k, v := range d.Options {
			require.Equal(t, v, g.Options[k])
		}
		for i, e := range d.Tables() {
			o := g.Tables()[i]
			require.True(t, e.Schema.Equal(o.Schema), "%s", o.Schema)
			require.Equal(t, string(e.encoded), string(o.encoded))
		}
	}
}

func TestSnapshotDamage(t *testing.T) {
	data, err := encodeSnapshot(goldenCatalog(t), written())
	require.NoError(t, err)
	for n := range data {
		_, err := decodeSnapshot("x", 7, data[:n])
		require.ErrorIs(t, err, errTorn, "cut after %d bytes", n)
	}
	for i := range data {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[i] ^= bit
			_, err := decodeSnapshot("x", 7, bad)
			require.Error(t, err, "byte %d", i)
		}
	}
	_, err = decodeSnapshot("x", 7, append(bytes.Clone(data), 0))
	require.ErrorIs(t, err, errs.ErrCorruption)
	_, err = decodeSnapshot("x", 7, make([]byte, len(data)))
	require.ErrorIs(t, err, errs.ErrCorruption, "zeros of full length are no cut")
	_, err = decodeSnapshot("x", 8, data)
	require.ErrorIs(t, err, errs.ErrCorruption, "under a name that is not its own")
	newer := bytes.Clone(data[:40])
	binary.LittleEndian.PutUint32(newer[8:], snapshotFormat+1)
	_, err = decodeSnapshot("x", 7, newer)
	require.ErrorIs(t, err, errs.ErrNewerFormat, "whatever follows the format number")
	huge := bytes.Clone(data)
	binary.LittleEndian.PutUint64(huge[12:], 1<<60)
	_, err = decodeSnapshot("x", 7, huge)
	require.ErrorIs(t, err, errs.ErrCorruption)
}

// TestSnapshotMeaning changes a correct body in ways a checksum does not see.
func TestSnapshotMeaning(t *testing.T) {
	data, err := encodeSnapshot(goldenCatalog(t), written())
	require.NoError(t, err)
	body := string(data[snapshotHeaderSize:])
	for what, change := range map[string][2]string{
		"unknown field":           {`"intents":`, `"news":1,"intents":`},
		"path out of the root":    {`"path":"Shop/Orders.lance"`, `"path":"../../etc.lance"`},
		"our own directory":       {`"path":"Shop/Orders.lance"`, `"path":"_lancesql/catalog.lance"`},
		"absolute path":           {`"path":"Shop/Orders.lance"`, `"path":"/etc/x.lance"`},
		"path of another table":   {`"path":"Shop/Orders.lance"`, `"path":"Shop/-2e-2e-2fx-20y.lance"`},
		"no path":                 {`"path":"Shop/Orders.lance",`, ``},
		"directory":               {`"dir":"Shop"`, `"dir":".."`},
		"same directory":          {`"dir":"Shop"`, `"dir":"empty"`},
		"same database":           {`"name":"Shop"`, `"name":"EMPTY"`},
		"same table":              {`"name":"Orders"`, `"name":"../X Y"`},
		"no name":                 {`"name":"Orders"`, `"name":""`},
		"same id":                 {`"id":"01000000-0000-0000-0000-000000000001","name"`, `"id":"02000000-0000-0000-0000-000000000002","name"`},
		"no id":                   {`"id":"01000000-0000-0000-0000-000000000001","name"`, `"id":"00000000-0000-0000-0000-000000000000","name"`},
		"auto column":             {`"auto_column":0`, `"auto_column":2`},
		"schema":                  {`"schema":"`, `"schema":"AAAA`},
		"intent kind":             {`"kind":"drop"`, `"kind":"burn"`},
		"intent path":             {`"path":"Shop/old.lance"`, `"path":"Shop"`},
		"intent outside":          {`"path":"gone"`, `"path":"../gone"`},
		"rename without a target": {`"to":"empty/z.lance",`, ``},
		"a second value":          {`]}`, `]}{}`},
	} {
		changed := strings.Replace(body, change[0], change[1], 1)
		if what == "a second value" {
			changed = body + "{}"
		}
		require.NotEqual(t, body, changed, what)
		sealed, err := sealSnapshot(append(make([]byte, snapshotHeaderSize), changed...))
		require.NoError(t, err)
		_, err = decodeSnapshot("x", 7, sealed)
		require.ErrorIs(t, err, errs.ErrCorruption, what)
	}
}

func TestSnapshotNames(t *testing.T) {
	require.Equal(t, "_lancesql/catalog/00000000000000000042.snap", snapshotName(42))
	for _, v := range []uint64{1, 42, 1 << 63, ^uint64(0)} {
		got, ok := parseSnapshotName(snapshotName(v))
		require.True(t, ok)
		require.Equal(t, v, got)
	}
	for _, bad := range []string{"", "_lancesql/catalog/1.snap", "_lancesql/catalog/00000000000000000000.snap", "_lancesql/catalog/+0000000000000000001.snap",
		"_lancesql/catalog/00000000000000000001.snap.bak", "other/00000000000000000001.snap", "_lancesql/catalog/99999999999999999999.snap"} {
		_, ok := parseSnapshotName(bad)
		require.False(t, ok, bad)
	}
}

// damage replaces the newest snapshot of a store.
func damage(t *testing.T, st objstore.Store, s *catalogStore, change func([]byte) []byte) string {
	t.Helper()
	name := snapshotName(s.versions[len(s.versions)-1])
	data, err := st.ReadAll(t.Context(), name, snapshotBytesMax)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), name, change(data)))
	return name
}

func TestTornSnapshotFallsBack(t *testing.T) {
	ctx := context.Background()
	for _, keep := range []int{0, 5, 30, 100} {
		st := objstore.NewMem()
		s := openTestCatalog(t, st)
		require.NoError(t, s.createDatabase(ctx, "db", nil))
		e := mustTable(t, s, "db", "t")
		before := s.image.Load().Version
		damage(t, st, s, func(data []byte) []byte { return data[:keep] })
		// The snapshot before the damaged one says that the table is only being created. Its files are real rows now.
		s = openTestCatalog(t, st)
		require.Equal(t, "db", names(s.image.Load()))
		require.Empty(t, s.image.Load().intents)
		require.Contains(t, tree(t, st), e.Path+"/_versions/1.manifest", "files of a damaged catalog are left alone")
		require.NoError(t, s.createDatabase(ctx, "other", nil))
		require.Greater(t, s.image.Load().Version, before, "the damaged number is not used again")
		require.Equal(t, "db other", names(openTestCatalog(t, st).image.Load()))
	}
}

func TestTornFirstSnapshot(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(ctx, snapshotName(1), nil))
	s := openTestCatalog(t, st)
	require.NoError(t, s.createDatabase(ctx, "db", nil))
	require.Equal(t, "db", names(openTestCatalog(t, st).image.Load()))
}

func TestUnreadableCatalogIsRefused(t *testing.T) {
	ctx := context.Background()
	prepare := func() (*objstore.Mem, *catalogStore) {
		st := objstore.NewMem()
		s := openTestCatalog(t, st)
		require.NoError(t, s.createDatabase(ctx, "a", nil))
		require.NoError(t, s.createDatabase(ctx, "b", nil))
		require.NoError(t, s.createDatabase(ctx, "c", nil))
		return st, s
	}
	st, s := prepare()
	name := damage(t, st, s, func(data []byte) []byte { data[30] ^= 1; return data })
	_, err := tryOpenCatalog(st)
	require.ErrorIs(t, err, errs.ErrCorruption, "whole but wrong: somebody must decide")
	require.ErrorContains(t, err, name)

	st, s = prepare()
	damage(t, st, s, func(data []byte) []byte { data[8]++; return data })
	_, err = tryOpenCatalog(st)
	require.ErrorIs(t, err, errs.ErrNewerFormat)

	st, s = prepare()
	for _, v := range s.versions {
		require.NoError(t, st.Put(ctx, snapshotName(v), []byte("LSQL")))
	}
	_, err = tryOpenCatalog(st)
	require.ErrorIs(t, err, errs.ErrCorruption, "an empty catalog would be a lie")
}

func TestTwoSnapshotsAreKept(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	s := openTestCatalog(t, st)
	require.NoError(t, st.PutIfAbsent(ctx, catalogDir+"/README", []byte("not ours")))
	for i := range 7 {
		require.NoError(t, s.createDatabase(ctx, fmt.Sprintf("d%d", i), nil))
	}
	var list []string
	require.NoError(t, st.List(ctx, catalogDir, func(i objstore.Info) error { list = append(list, i.Name); return nil }))
	require.Equal(t, []string{snapshotName(6), snapshotName(7), catalogDir + "/README"}, list)
}

func TestAnotherWriterOfTheCatalogIsNoticed(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	s, other := openTestCatalog(t, st), openTestCatalog(t, st)
	require.NoError(t, other.createDatabase(ctx, "theirs", nil))
	require.ErrorIs(t, s.createDatabase(ctx, "ours", nil), errs.ErrPoisoned)
	require.ErrorIs(t, s.createDatabase(ctx, "ours", nil), errs.ErrPoisoned)
	require.Equal(t, "theirs", names(openTestCatalog(t, st).image.Load()))
}

func TestCatalogLimits(t *testing.T) {
	many := make([]*Database, databasesMax+1)
	for i := range many {
		many[i] = newDatabase(fmt.Sprint(i), fmt.Sprint(i), nil, nil)
	}
	require.ErrorIs(t, newCatalog(1, many, nil).checkLimits(), errs.ErrLimit)
	require.NoError(t, newCatalog(1, slices.Clone(many[1:]), nil).checkLimits())
}

func FuzzDecodeSnapshot(f *testing.F) {
	data, err := encodeSnapshot(goldenCatalog(f), written())
	require.NoError(f, err)
	f.Add(data, false)
	f.Add(data[snapshotHeaderSize:], true)
	f.Add([]byte(`{"version":7,"written":"2026-01-01T00:00:00Z","databases":[],"intents":[]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, body bool) {
		if body { // lets the fuzzer pass the checksum
			sealed, err := sealSnapshot(append(make([]byte, snapshotHeaderSize), data...))
			require.NoError(t, err)
			data = sealed
		}
		c, err := decodeSnapshot("fuzz", 7, data)
		if err != nil {
			return
		}
		again, err := encodeSnapshot(c, written())
		require.NoError(t, err)
		back, err := decodeSnapshot("again", 7, again)
		require.NoError(t, err)
		requireSameCatalog(t, c, back)
		require.True(t, json.Valid(again[snapshotHeaderSize:]))
	})
}
