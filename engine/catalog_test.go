package engine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func ddlSchema() *arrow.Schema {
	pk := arrow.NewMetadata([]string{"lance-schema:unenforced-primary-key"}, []string{"true"})
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: pk},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
}

func ddlDef() TableDef {
	return TableDef{Schema: ddlSchema(), Shape: []byte(`{"engine":"lance"}`), AutoColumn: -1}
}

// openTestCatalog opens the catalog of a store with ids from a sequence.
func openTestCatalog(t testing.TB, st objstore.Store) *catalogStore {
	t.Helper()
	s, err := openCatalog(context.Background(), st, clock.NewManual(time.Unix(1_700_000_000, 0)), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return s
}

// fill is a stand-in for the creation of a dataset: two objects.
func fill(st objstore.Store) func(ctx context.Context, path string, id TableID) error {
	return func(ctx context.Context, path string, id TableID) error {
		if err := st.PutIfAbsent(ctx, path+"/data/"+id.String()+".lance", []byte("rows of "+id.String())); err != nil {
			return err
		}
		return st.PutIfAbsent(ctx, path+"/_versions/1.manifest", []byte(id.String()))
	}
}

func noEvict(context.Context, TableID) error { return nil }

// mustTable creates a table.
func mustTable(t testing.TB, s *catalogStore, db, name string) *TableEntry {
	t.Helper()
	e, err := s.createTable(context.Background(), db, name, ddlDef(), fill(s.store))
	require.NoError(t, err)
	return e
}

// names lists all tables of an image as db.table, and empty databases as db.
func names(c *Catalog) string {
	var out []string
	for _, d := range c.Databases() {
		if len(d.Tables()) == 0 {
			out = append(out, d.Name)
		}
		for _, t := range d.Tables() {
			out = append(out, d.Name+"."+t.Name)
		}
	}
	return strings.Join(out, " ")
}

// tree lists every object of a store with its size, our own directory left out.
func tree(t testing.TB, st objstore.Store) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	require.NoError(t, objstore.Walk(context.Background(), st, "", func(i objstore.Info) error {
		if !strings.HasPrefix(i.Name, systemDir+"/") {
			out[i.Name] = i.Size
		}
		return nil
	}))
	return out
}

// requireTidy checks that the store holds the two objects of each table, and nothing else that is ours.
func requireTidy(t testing.TB, s *catalogStore, foreign ...string) {
	t.Helper()
	want := map[string]bool{}
	for _, d := range s.image.Load().Databases() {
		for _, e := range d.Tables() {
			want[e.Path+"/data/"+e.ID.String()+".lance"] = true
			want[e.Path+"/_versions/1.manifest"] = true
		}
	}
	for _, f := range foreign {
		want[f] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(tree(t, s.store))), "objects in the store")
	require.Empty(t, s.image.Load().intents)
}

func TestDatabases(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	s := openTestCatalog(t, st)
	require.Empty(t, s.image.Load().Databases())
	require.NoError(t, s.createDatabase(ctx, "Shop", map[string]string{"collation": "utf8mb4_bin"}))
	require.NoError(t, s.createDatabase(ctx, "archive", nil))
	for _, name := range []string{"Shop", "shop", "SHOP"} {
		require.ErrorIs(t, s.createDatabase(ctx, name, nil), errs.ErrExists)
		require.Equal(t, "Shop", s.image.Load().Database(name).Name, "the name stays as given")
	}
	require.NoError(t, s.alterDatabase(ctx, "sHop", map[string]string{"collation": "x", "comment": "y"}))
	require.NoError(t, s.alterDatabase(ctx, "shop", map[string]string{"comment": ""}))
	require.ErrorIs(t, s.alterDatabase(ctx, "nope", nil), errs.ErrNotFound)
	require.ErrorIs(t, s.dropDatabase(ctx, "nope", noEvict), errs.ErrNotFound)

	s = openTestCatalog(t, st)
	require.Equal(t, "archive Shop", names(s.image.Load()))
	require.Equal(t, DatabaseOptions{"collation": "x"}, s.image.Load().Database("shop").Options)
	require.NoError(t, s.dropDatabase(ctx, "SHOP", noEvict))
	require.Nil(t, s.image.Load().Database("shop"))
	requireTidy(t, openTestCatalog(t, st))
}

func TestTables(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	s := openTestCatalog(t, st)
	require.NoError(t, s.createDatabase(ctx, "db", nil))
	def := ddlDef()
	def.AutoColumn, def.NextAuto = 0, 42
	created, err := s.createTable(ctx, "DB", "Orders", def, fill(st))
	require.NoError(t, err)
	require.Equal(t, "db/Orders.lance", created.Path)
	mustTable(t, s, "db", "über alles")

	s = openTestCatalog(t, st)
	got := s.image.Load().Database("db").Table("oRDERS")
	require.Equal(t, created, got, "everything survives a restart")
	require.True(t, got.Schema.Equal(ddlSchema()))
	require.True(t, got.Schema.Field(0).Metadata.Equal(ddlSchema().Field(0).Metadata))
	require.Same(t, got, s.image.Load().TableByID(created.ID))
	require.NotNil(t, s.image.Load().Database("db").Table("ÜBER alles"))

	for _, name := range []string{"Orders", "ORDERS"} {
		_, err = s.createTable(ctx, "db", name, ddlDef(), fill(st))
		require.ErrorIs(t, err, errs.ErrExists)
	}
	_, err = s.createTable(ctx, "nope", "t", ddlDef(), fill(st))
	require.ErrorIs(t, err, errs.ErrNotFound)
	require.ErrorIs(t, s.dropTable(ctx, "db", "nope", noEvict), errs.ErrNotFound)
	require.ErrorIs(t, s.dropTable(ctx, "nope", "t", noEvict), errs.ErrNotFound)

	var evicted []TableID
	require.NoError(t, s.dropTable(ctx, "db", "orders", func(_ context.Context, id TableID) error {
		require.Nil(t, s.image.Load().TableByID(id), "closed after it can no longer be opened")
		require.NotEmpty(t, tree(t, st)["db/Orders.lance/_versions/1.manifest"], "and before its files go")
		evicted = append(evicted, id)
		return nil
	}))
	require.Equal(t, []TableID{created.ID}, evicted)
	requireTidy(t, s)
	requireTidy(t, openTestCatalog(t, st))
	require.Equal(t, "db.über alles", names(s.image.Load()))
}

func TestCreateTableRefusesBadInput(t *testing.T) {
	ctx := context.Background()
	s := openTestCatalog(t, objstore.NewMem())
	require.NoError(t, s.createDatabase(ctx, "db", nil))
	version := s.image.Load().Version
	for what, change := range map[string]func(d *TableDef){
		"no schema":       func(d *TableDef) { d.Schema = nil },
		"no columns":      func(d *TableDef) { d.Schema = arrow.NewSchema(nil, nil) },
		"auto column":     func(d *TableDef) { d.AutoColumn = 2 },
		"auto column -2":  func(d *TableDef) { d.AutoColumn = -2 },
		"shape too large": func(d *TableDef) { d.Shape = make([]byte, shapeBytesMax+1) },
	} {
		def := ddlDef()
		change(&def)
		_, err := s.createTable(ctx, "db", "t", def, fill(s.store))
		require.Error(t, err, what)
	}
	_, err := s.createTable(ctx, "db", strings.Repeat("x", nameBytesMax+1), ddlDef(), fill(s.store))
	require.ErrorIs(t, err, errs.ErrLimit)
	_, err = s.createTable(ctx, "db", "", ddlDef(), fill(s.store))
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.ErrorIs(t, s.createDatabase(ctx, "\xff", nil), errs.ErrInvalid)
	require.ErrorIs(t, s.createDatabase(ctx, "d2", map[string]string{"a": "\xff"}), errs.ErrInvalid)
	require.ErrorIs(t, s.createDatabase(ctx, "d2", map[string]string{"a": strings.Repeat("x", optionBytesMax)}), errs.ErrLimit)
	require.Equal(t, version, s.image.Load().Version, "nothing was written")
}

func TestFailedCreationLeavesNothing(t *testing.T) {
	ctx := context.Background()
	s := openTestCatalog(t, objstore.NewMem())
	require.NoError(t, s.createDatabase(ctx, "db", nil))
	_, err := s.createTable(ctx, "db", "t", ddlDef(), func(ctx context.Context, path string, id TableID) error {
		require.NoError(t, fill(s.store)(ctx, path, id))
		return errs.ErrNoSpace
	})
	require.ErrorIs(t, err, errs.ErrNoSpace)
	requireTidy(t, s)
	cancelled, cancel := context.WithCancel(ctx)
	_, err = s.createTable(cancelled, "db", "t", ddlDef(), func(ctx context.Context, path string, id TableID) error {
		require.NoError(t, fill(s.store)(ctx, path, id))
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	requireTidy(t, s)
	mustTable(t, s, "db", "t")
	requireTidy(t, s)
}

func TestForeignFilesAreNeverTouched(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	foreign := []string{"db/theirs.lance/_versions/1.manifest", "db/notes.txt", "other/x.lance/data/1.lance"}
	for _, f := range foreign {
		require.NoError(t, st.PutIfAbsent(ctx, f, []byte("foreign")))
	}
	s := openTestCatalog(t, st)
	require.NoError(t, s.createDatabase(ctx, "db", nil), "an existing directory is taken over")
	for _, name := range []string{"theirs", "Theirs"} {
		_, err := s.createTable(ctx, "db", name, ddlDef(), fill(st))
		require.ErrorIs(t, err, errs.ErrExists)
		require.ErrorContains(t, err, "db/theirs.lance")
	}
	mine := mustTable(t, s, "db", "mine")
	require.ErrorIs(t, s.renameTable(ctx, "db", "mine", "db", "theirs", noEvict), errs.ErrExists)

	err := s.dropDatabase(ctx, "db", noEvict)
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.ErrorContains(t, err, "directory not empty")
	require.Equal(t, "db", names(s.image.Load()), "the tables are gone, the database stays")
	require.Nil(t, s.image.Load().TableByID(mine.ID))
	requireTidy(t, s, foreign...)
	require.ErrorContains(t, s.dropDatabase(ctx, "db", noEvict), "directory not empty")

	// Somebody creates the files while we do: they are left to their owner.
	_, err = s.createTable(ctx, "db", "race", ddlDef(), func(ctx context.Context, path string, _ TableID) error {
		foreign = append(foreign, path+"/_versions/1.manifest")
		require.NoError(t, st.PutIfAbsent(ctx, path+"/_versions/1.manifest", []byte("foreign")))
		return fmt.Errorf("create dataset: %w", errs.ErrExists)
	})
	require.ErrorIs(t, err, errs.ErrExists)
	requireTidy(t, s, foreign...)
	requireTidy(t, openTestCatalog(t, st), foreign...)
}

func TestObjectInTheWayOfADatabase(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(ctx, "db", []byte("a file")))
	s := openTestCatalog(t, st)
	require.Error(t, s.createDatabase(ctx, "db", nil))
	require.Empty(t, s.image.Load().Databases())
	require.Len(t, tree(t, st), 1)
}

func TestRename(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	s := openTestCatalog(t, st)
	require.NoError(t, s.createDatabase(ctx, "a", nil))
	require.NoError(t, s.createDatabase(ctx, "b", nil))
	first := mustTable(t, s, "a", "t")
	mustTable(t, s, "a", "u")
	require.ErrorIs(t, s.renameTable(ctx, "a", "t", "a", "U", noEvict), errs.ErrExists)
	require.ErrorIs(t, s.renameTable(ctx, "a", "t", "a", "t", noEvict), errs.ErrExists)
	require.ErrorIs(t, s.renameTable(ctx, "a", "t", "c", "t", noEvict), errs.ErrNotFound)
	require.ErrorIs(t, s.renameTable(ctx, "a", "x", "a", "y", noEvict), errs.ErrNotFound)
	require.ErrorIs(t, s.renameTable(ctx, "a", "t", "a", "", noEvict), errs.ErrInvalid)

	require.NoError(t, s.renameTable(ctx, "A", "T", "B", "Moved", func(_ context.Context, id TableID) error {
		require.Equal(t, first.ID, id)
		require.Nil(t, s.image.Load().TableByID(id), "it cannot be opened while it moves")
		require.NotNil(t, s.image.Load().Database("a").Table("t"), "but it is still listed")
		return nil
	}))
	moved := s.image.Load().TableByID(first.ID)
	require.Equal(t, "b Moved b/Moved.lance", moved.Database+" "+moved.Name+" "+moved.Path)
	require.NoError(t, s.renameTable(ctx, "b", "moved", "b", "MOVED", noEvict), "only the case changes")
	requireTidy(t, s)
	s = openTestCatalog(t, st)
	require.Equal(t, "a.u b.MOVED", names(s.image.Load()))
	requireTidy(t, s)
}

func TestRenameOfATableThatCannotBeClosed(t *testing.T) {
	ctx := context.Background()
	s := openTestCatalog(t, objstore.NewMem())
	require.NoError(t, s.createDatabase(ctx, "a", nil))
	e := mustTable(t, s, "a", "t")
	err := s.renameTable(ctx, "a", "t", "a", "u", func(context.Context, TableID) error { return errs.ErrNoSpace })
	require.ErrorIs(t, err, errs.ErrNoSpace)
	require.Equal(t, e, s.image.Load().TableByID(e.ID))
	requireTidy(t, s)
}

func TestDropOfATableThatCannotBeClosed(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	s := openTestCatalog(t, st)
	require.NoError(t, s.createDatabase(ctx, "a", nil))
	mustTable(t, s, "a", "t")
	stuck := func(context.Context, TableID) error { return errs.ErrNoSpace }
	require.NoError(t, s.dropTable(ctx, "a", "t", stuck), "the commit point is behind us")
	require.Len(t, tree(t, st), 2, "files in use are not moved")
	_, err := s.createTable(ctx, "a", "t", ddlDef(), fill(st))
	require.ErrorIs(t, err, errs.ErrConflict)
	mustTable(t, s, "a", "other")
	require.NoError(t, s.dropDatabase(ctx, "a", noEvict))
	require.Error(t, s.createDatabase(ctx, "a", nil), "its directory is still there")
	s = openTestCatalog(t, st)
	requireTidy(t, s)
	require.NoError(t, s.createDatabase(ctx, "a", nil))
}

func TestLookupFoldsLikeFold(t *testing.T) {
	m := map[string]int{}
	list := []string{"a", "ABC", "Größe", "İstanbul", strings.Repeat("Long", 30), "K", "", "x_9-Z"}
	for i, n := range list {
		m[fold(n)] = i
	}
	for i, n := range list {
		require.Equal(t, i, lookup(m, n), "%q", n)
		require.Equal(t, m[fold(strings.ToUpper(n))], lookup(m, strings.ToUpper(n)), "%q", n)
	}
	c := newCatalog(1, []*Database{newDatabase("Shop", "Shop", nil, nil)}, nil)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Database("SHOP") }))
}

func TestConcurrentStatements(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st := objstore.NewMem()
	s := openTestCatalog(t, st)
	require.NoError(t, s.createDatabase(ctx, "db", nil))
	done := make(chan error, 8)
	for g := range 8 {
		go func() {
			var err error
			for i := 0; i < 10 && err == nil; i++ {
				name := fmt.Sprintf("t%d_%d", g, i)
				if _, err = s.createTable(ctx, "db", name, ddlDef(), fill(st)); err == nil && i%2 == 0 {
					err = s.dropTable(ctx, "db", name, noEvict)
				}
				_ = s.image.Load().Database("db").Tables()
			}
			done <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
	require.Len(t, s.image.Load().Database("db").Tables(), 40)
	requireTidy(t, openTestCatalog(t, st))
	blocked, stop := context.WithTimeout(ctx, 10*time.Millisecond)
	defer stop()
	s.turn <- struct{}{}
	require.ErrorIs(t, s.createDatabase(blocked, "x", nil), context.DeadlineExceeded, "waiting for one's turn can be cancelled")
}
