package sqlbackend_test

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/engine"
	"lancesql/internal/objstore"
	"lancesql/sqlbackend"
)

var suite = flag.String("enginetest", "", "run this suite of the frontend's engine tests, or all")

// harness runs the frontend's own test suites over an engine with a memory store. Setup statements this server refuses
// with error 1235 are left out; the suites' data expects the frontend's default collation.
type harness struct {
	t       *testing.T
	scripts []setup.SetupScript
	world   *world
	session *sqlbackend.Conn
}

var (
	_ enginetest.Harness             = (*harness)(nil)
	_ enginetest.TransactionHarness  = (*harness)(nil)
	_ enginetest.KeylessTableHarness = (*harness)(nil)
	_ enginetest.SkippingHarness     = (*harness)(nil)
)

func (h *harness) Setup(data ...[]setup.SetupScript) {
	h.scripts = nil
	for _, d := range data {
		h.scripts = append(h.scripts, d...)
	}
}

func (h *harness) NewEngine(t *testing.T) (enginetest.QueryEngine, error) {
	w := &world{store: objstore.NewMem(), conns: make(map[string]*client)}
	var err error
	w.engine, err = engine.Open(context.Background(), engine.Config{Workers: engine.NoWorkers}, engine.Components{Store: w.store})
	if err != nil {
		return nil, err
	}
	w.provider = sqlbackend.NewProvider(w.engine)
	w.front = sqlbackend.NewSQLEngine(w.engine, w.provider)
	w.front.Analyzer.Catalog.MySQLDb.AddRootAccount()
	h.t.Cleanup(func() { w.close(h.t) })
	h.world, h.session = w, nil
	c := w.conn("setup")
	for _, q := range []string{"SET GLOBAL local_infile = 1", "CREATE DATABASE mydb COLLATE utf8mb4_0900_bin", "CREATE DATABASE foo COLLATE utf8mb4_0900_bin"} {
		if _, _, err := c.exec(context.Background(), q); err != nil {
			return nil, err
		}
	}
	c.session.SetCurrentDatabase("mydb")
	for _, s := range h.scripts {
		for _, q := range s {
			if strings.HasPrefix(strings.ToLower(q), "create database") || strings.HasPrefix(strings.ToLower(q), "drop database") {
				_, _, _ = c.exec(context.Background(), q)
				continue
			}
			if _, _, err := c.exec(context.Background(), q); err != nil {
				if e := sql.CastSQLError(sqlbackend.MapError(err)); e.Num != 1235 && e.Num != 1146 {
					h.t.Logf("setup: %s: %v", q, err)
				}
			}
		}
	}
	return w.front, nil
}

func (h *harness) newSession() *sqlbackend.Conn {
	base := sql.NewBaseSessionWithClientServer("address", sql.Client{Address: "localhost", User: "root"}, 1)
	var p *sqlbackend.Provider
	if h.world != nil {
		p = h.world.provider
	}
	return sqlbackend.NewSession(base, p)
}

func (h *harness) NewContext() *sql.Context {
	if h.session == nil {
		h.session = h.newSession()
	}
	return sql.NewContext(context.Background(), sql.WithSession(h.session))
}

func (h *harness) NewSession() *sql.Context {
	h.session = h.newSession()
	return h.NewContext()
}

func (h *harness) SupportsKeylessTables() bool { return true }

func (h *harness) SkipQueryTest(string) bool { return false }

func TestFrontendSuites(t *testing.T) {
	if *suite == "" {
		t.Skip("pass -enginetest")
	}
	for _, s := range []struct {
		name string
		run  func(*testing.T, enginetest.Harness)
	}{
		{"Queries", func(t *testing.T, h enginetest.Harness) { enginetest.TestQueries(t, h) }},
		{"InsertInto", enginetest.TestInsertInto},
		{"InsertIgnoreInto", enginetest.TestInsertIgnoreInto},
		{"InsertIntoErrors", enginetest.TestInsertIntoErrors},
		{"ReplaceInto", enginetest.TestReplaceInto},
		{"Update", enginetest.TestUpdate},
		{"UpdateErrors", enginetest.TestUpdateErrors},
		{"UpdateIgnore", enginetest.TestUpdateIgnore},
		{"DeleteFrom", enginetest.TestDelete},
		{"DeleteErrors", enginetest.TestDeleteErrors},
		{"Truncate", enginetest.TestTruncate},
		{"CreateTable", enginetest.TestCreateTable},
		{"DropTable", enginetest.TestDropTable},
		{"TransactionScripts", enginetest.TestTransactionScripts},
		{"Scripts", enginetest.TestScripts},
		{"JoinQueries", enginetest.TestJoinQueries},
		{"NullRanges", enginetest.TestNullRanges},
		{"Convert", enginetest.TestConvertPrepared},
		{"Blobs", enginetest.TestBlobs},
		{"ColumnDefaults", enginetest.TestColumnDefaults},
	} {
		if *suite != "all" && !strings.EqualFold(*suite, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) { s.run(t, &harness{t: t}) })
	}
}
