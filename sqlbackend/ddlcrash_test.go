package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
)

// ddlKinds is one DDL statement of each kind and each way to be performed, on top of ddlWorld.
func ddlKinds() []string {
	return []string{
		"CREATE DATABASE x COLLATE utf8mb4_bin",
		"ALTER DATABASE d COLLATE utf8mb4_bin",
		"DROP DATABASE d",
		"CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9), UNIQUE KEY u (v), CHECK (id < 9)) AUTO_INCREMENT = 5",
		"CREATE TABLE x (id INT PRIMARY KEY, p INT, CONSTRAINT f1 FOREIGN KEY (p) REFERENCES p (id), CONSTRAINT f2 FOREIGN KEY (p) REFERENCES x (id))",
		"CREATE TABLE x LIKE t",
		"DROP TABLE t",
		"DROP TABLE t, c, p",
		"DROP TABLE IF EXISTS none, t",
		"TRUNCATE TABLE t",
		"TRUNCATE TABLE c",
		"RENAME TABLE t TO x",
		"RENAME TABLE t TO x, p TO t, x TO p",
		"ALTER TABLE p RENAME TO parent",
		"ALTER TABLE t ADD COLUMN x INT DEFAULT 4 FIRST",
		"ALTER TABLE t DROP COLUMN n",
		"ALTER TABLE t MODIFY v VARCHAR(90)",
		"ALTER TABLE t MODIFY n BIGINT NOT NULL",
		"ALTER TABLE t CHANGE v m VARCHAR(8)",
		"ALTER TABLE p RENAME COLUMN id TO pid",
		"ALTER TABLE t ALTER n SET DEFAULT 3",
		"ALTER TABLE c DROP PRIMARY KEY",
		"ALTER TABLE k ADD PRIMARY KEY (v)",
		"CREATE INDEX x ON t (n)",
		"CREATE UNIQUE INDEX x ON t (n)",
		"DROP INDEX i ON t",
		"ALTER TABLE t RENAME INDEX i TO x",
		"ALTER TABLE t ADD CONSTRAINT x CHECK (n < 100)",
		"ALTER TABLE t DROP CHECK small",
		"ALTER TABLE t ALTER CHECK small NOT ENFORCED",
		"CREATE INDEX x ON t ((n + 1))",
		"ALTER TABLE t ADD COLUMN y INT DEFAULT 2, ADD INDEX x ((n + y)), ALTER CHECK small NOT ENFORCED",
		"DROP INDEX e ON k",
		"CREATE TABLE x LIKE k",
		"ALTER TABLE c DROP FOREIGN KEY f",
		"ALTER TABLE k ADD CONSTRAINT x FOREIGN KEY (v) REFERENCES p (id)",
		"ALTER TABLE t AUTO_INCREMENT = 500",
		"ALTER TABLE t COMMENT = 'x'",
		"ALTER TABLE t COLLATE utf8mb4_bin",
		"ALTER TABLE t ADD COLUMN x INT DEFAULT 4, DROP COLUMN v, ADD UNIQUE KEY u (n), AUTO_INCREMENT = 70, COMMENT = 'x', RENAME TO y",
		"ALTER TABLE p RENAME COLUMN id TO pid, ADD INDEX x (pid), RENAME TO parent",
		"ALTER TABLE t COMMENT = 'x', ALTER n SET DEFAULT 3, RENAME TO y",
		"CREATE TABLE x (PRIMARY KEY (id)) SELECT id, v FROM t",
		"CREATE VIEW x AS SELECT 1",
		"CREATE OR REPLACE VIEW w AS SELECT 2",
		"DROP VIEW w",
		"CREATE TRIGGER x BEFORE DELETE ON t FOR EACH ROW SET @a = 1",
		"DROP TRIGGER tr",
		"CREATE PROCEDURE x() SELECT 1",
		"DROP PROCEDURE pr",
		"CREATE FUNCTION x(a INT) RETURNS INT RETURN a + 1",
		"DROP FUNCTION fn",
		"CREATE EVENT x ON SCHEDULE EVERY 1 DAY DO SELECT 1",
		"DROP EVENT ev",
	}
}

func ddlWorld() []string {
	return []string{
		"CREATE DATABASE d",
		"USE d",
		"CREATE TABLE p (id INT PRIMARY KEY)",
		"INSERT INTO p VALUES (1), (2)",
		"CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES p (id))",
		"INSERT INTO c VALUES (10, 1)",
		"CREATE TABLE k (v INT, INDEX e ((v + 1)))",
		"INSERT INTO k VALUES (1), (2)",
		"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(9), n INT, INDEX i (v), CONSTRAINT small CHECK (n < 50))",
		"INSERT INTO t (v, n) VALUES ('a', 1), ('b', 2)",
		"FLUSH TABLES t",
		"INSERT INTO t (v, n) VALUES ('c', 3)",
		"CREATE VIEW w AS SELECT id FROM t",
		"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.n = NEW.n",
		"CREATE PROCEDURE pr() SELECT 2",
		"CREATE FUNCTION fn(a INT) RETURNS INT RETURN a + 2",
		"CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO SELECT 1",
	}
}

// ddlServer is an engine on a disk that can crash, with the frontend over it and one session.
type ddlServer struct {
	engine *engine.Engine
	front  *sqle.Engine
	conn   *Conn
}

func openDDL(fs vfs.FS) (*ddlServer, error) {
	store, err := objstore.OpenLocal(fs, "/data")
	if err != nil {
		return nil, err
	}
	journal, err := logfile.Open(fs, "/data/_lancesql/journal")
	if err != nil {
		return nil, err
	}
	cfg := engine.Config{Workers: engine.NoWorkers, ManifestRetention: engine.NoRetention, JournalSegmentBytes: 64 << 10, JournalBytes: 1 << 20}
	e, err := engine.Open(context.Background(), cfg, engine.Components{Store: store, Journal: journal, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	p := NewProvider(e)
	return &ddlServer{engine: e, front: NewSQLEngine(e, p), conn: NewSession(sql.NewBaseSession(), p)}, nil
}

func (s *ddlServer) close() error {
	s.conn.SessionEnd()
	return errors.Join(s.front.Close(), s.engine.Close(context.Background()))
}

// rows runs a statement and returns its rows as text.
func (s *ddlServer) rows(text string) (rows []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if err := s.conn.CommandBegin(); err != nil {
		return nil, err
	}
	defer s.conn.CommandEnd()
	ctx := sql.NewContext(context.Background(), sql.WithSession(s.conn), sql.WithQuery(text))
	_, it, _, err := s.front.Query(ctx, text)
	if err != nil {
		return nil, err
	}
	for {
		row, err := it.Next(ctx)
		if err == io.EOF {
			return rows, it.Close(ctx)
		}
		if err != nil {
			_ = it.Close(ctx)
			return nil, err
		}
		rows = append(rows, fmt.Sprint(row...))
	}
}

// state is everything the statements can change, as text. It fails if something is left that no statement made.
func (s *ddlServer) state() (string, error) {
	var b strings.Builder
	for _, d := range s.engine.Catalog().Databases() {
		fmt.Fprintln(&b, "database", d.Name)
		for _, k := range slices.Sorted(maps.Keys(d.Options)) {
			fmt.Fprintln(&b, k, withoutTimes(d.Options[k]))
		}
		for _, t := range d.Tables() {
			if t.IsRebuild() || t.Path != d.Name+"/"+t.Name+".lance" {
				return "", fmt.Errorf("table %s lies at %s", t.Name, t.Path)
			}
			for _, text := range []string{"SHOW CREATE TABLE", "SELECT * FROM"} {
				rows, err := s.rows(fmt.Sprintf("%s `%s`.`%s`", text, d.Name, t.Name))
				if err != nil {
					return "", fmt.Errorf("%s %s: %w", text, t.Name, err)
				}
				slices.Sort(rows)
				fmt.Fprintln(&b, strings.Join(rows, "\n"))
			}
		}
	}
	return b.String(), nil
}

// withoutTimes takes the time of day out of a stored text.
func withoutTimes(text string) string {
	parts := strings.Split(text, `"`)
	for i, p := range parts {
		if len(p) > 10 && p[4:5] == "-" && p[10:11] == "T" {
			parts[i] = "time"
		}
	}
	return strings.Join(parts, `"`)
}

// copyDisk is the disk with everything on it synced or not.
func copyDisk(t *testing.T, fs *faultfs.FS, percent int, rng *rand.Rand) *vfs.MemFS {
	t.Helper()
	clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percent, Rand: rng})
	require.NoError(t, err)
	return clone
}

// A crash at every operation of every kind of DDL statement (in the plain run at some of them): afterwards the statement has
// happened or not, as a whole, and it has if it was acknowledged.
func TestCrashInEveryDDL(t *testing.T) {
	stride := int64(7)
	if os.Getenv("LANCESQL_SOAK") != "" {
		stride = 1
	} else if testing.Short() {
		stride = 31
	}
	base := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
	s, err := openDDL(base)
	require.NoError(t, err)
	for _, text := range ddlWorld() {
		_, err := s.rows(text)
		require.NoError(t, err, text)
	}
	before, err := s.state()
	require.NoError(t, err)
	require.NoError(t, s.close())

	total := int64(0)
	for kind, text := range ddlKinds() {
		whole := faultfs.New(copyDisk(t, base, 100, nil), faultfs.Plan{})
		after, calls, err := performDDL(whole, text)
		require.NoError(t, err, text)
		require.NotEqual(t, before, after, text)
		total += calls
		for n := 1 + int64(kind)%stride; n <= calls; n += stride {
			percent := []int{0, 50, 100}[n%3]
			rng := rand.New(rand.NewPCG(uint64(n), uint64(percent)))
			fs := faultfs.New(copyDisk(t, base, 100, nil), faultfs.Plan{})
			acked := crashDDL(fs, text, n)
			where := fmt.Sprintf("%s: operation %d of %d, %d %% of the unsynced survive", text, n, calls, percent)
			again, err := openDDL(copyDisk(t, fs, percent, rng))
			require.NoError(t, err, where)
			got, err := again.state()
			require.NoError(t, err, where)
			if got != after {
				if got != before {
					require.Equal(t, after, got, "half of a statement, %s", where)
				}
				require.False(t, acked, where)
				_, err = again.rows("USE d")
				require.NoError(t, err, where)
				_, err = again.rows(text)
				require.NoError(t, err, where)
				got, err = again.state()
				require.NoError(t, err, where)
				require.Equal(t, after, got, where)
			}
			require.NoError(t, again.close(), where)
		}
	}
	t.Logf("%d statements, %d operations", len(ddlKinds()), total)
}

// performDDL runs the statement and returns what is there after a restart, and how many operations it took.
func performDDL(fs *faultfs.FS, text string) (after string, calls int64, err error) {
	s, err := openDDL(fs)
	if err != nil {
		return "", 0, err
	}
	if _, err := s.rows("USE d"); err != nil {
		return "", 0, err
	}
	fs.Reset(faultfs.Plan{})
	if _, err = s.rows(text); err != nil {
		return "", 0, errors.Join(err, s.close())
	}
	calls = fs.Count()
	if err := s.close(); err != nil {
		return "", 0, err
	}
	if s, err = openDDL(fs); err != nil {
		return "", 0, err
	}
	after, err = s.state()
	return after, calls, errors.Join(err, s.close())
}

// crashDDL runs the statement on a disk that dies at the n-th operation.
func crashDDL(fs *faultfs.FS, text string, n int64) (acked bool) {
	s, err := openDDL(fs)
	if err != nil {
		return false
	}
	if _, err := s.rows("USE d"); err != nil {
		return false
	}
	fs.Reset(faultfs.Plan{CrashAt: n})
	_, err = s.rows(text)
	_ = s.close() // fails as everything does
	return err == nil
}
