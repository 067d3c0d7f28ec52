package suites

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/objstore"
	"lancesql/sqlbackend"
)

// suite is the tests of one module.
type suite struct {
	module   string
	prepare  []string // statements before
	drop     string   // lines of Go files and of go.mod with this text are dropped
	packages string
	args     func(addr string) []string
	env      func(addr string) []string
	passes   int               // at least
	known    map[string]string // tests that fail, with the reason
}

func TestXorm(t *testing.T) {
	suite{
		module:  "xorm.io/xorm@v1.4.3",
		prepare: []string{"CREATE DATABASE xorm_test"},
		// Why: a driver of another database, whose module cannot be fetched everywhere.
		drop:     "gitee.com/travelliu/dm",
		packages: "./tests",
		args: func(addr string) []string {
			return []string{"-show_sql=false", "-db=mysql", "-conn_str=root:@tcp(" + addr + ")/xorm_test"}
		},
		passes: 345, // and one that skips itself, as beside MariaDB
	}.run(t)
}

func TestGoSQLDriver(t *testing.T) {
	suite{
		module:   "github.com/go-sql-driver/mysql@v1.10.1",
		prepare:  []string{"CREATE DATABASE gotest", "SET GLOBAL local_infile = 1"},
		packages: "./...",
		args:     func(string) []string { return []string{"-skip=TestConnectorReturnsTimeout"} }, // it takes a minute
		env: func(addr string) []string {
			return []string{"MYSQL_TEST_ADDR=" + addr, "MYSQL_TEST_USER=root", "MYSQL_TEST_PASS=", "MYSQL_TEST_PROT=tcp", "MYSQL_TEST_DBNAME=gotest"}
		},
		passes: 162,
		known: map[string]string{
			"TestDateTime":         "zero dates and times of day beyond a day as parameters; fails beside MariaDB as well",
			"TestPreparedManyCols": "the protocol library counts parameters with 16 bits: at most 65528",
			"TestMultiResultSet":   "CALL answers with the last result of a procedure only",
		},
	}.run(t)
}

// outcome is a line about a test of the highest level.
var outcome = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)

func (s suite) run(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches a module and builds its tests")
	}
	folder := s.fetch(t)
	addr := serve(t, s.prepare)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args := append([]string{"test", "-mod=mod", "-count=1", "-v", s.packages}, s.args(addr)...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if s.env != nil {
		cmd.Env = append(cmd.Env, s.env(addr)...)
	}
	out, _ := cmd.CombinedOutput() // its status says what the lines say
	var passed, failed []string
	for _, m := range outcome.FindAllSubmatch(out, -1) {
		switch name := string(m[2]); string(m[1]) {
		case "PASS":
			passed = append(passed, name)
		case "FAIL":
			failed = append(failed, name)
		}
	}
	if strings.Contains(string(out), "\npanic: ") {
		t.Errorf("the suite ended early")
	}
	for _, name := range failed {
		if s.known[name] == "" {
			t.Errorf("%s fails", name)
		}
	}
	for name := range s.known {
		if !slices.Contains(failed, name) {
			t.Errorf("%s is listed and does not fail", name)
		}
	}
	if len(passed) < s.passes {
		t.Errorf("%d tests pass, wanted at least %d", len(passed), s.passes)
	}
	t.Logf("%s: %d pass, %d fail", s.module, len(passed), len(failed))
	if t.Failed() {
		t.Logf("%s", tail(out))
	}
}

// tail bounds what a failed suite prints.
func tail(out []byte) []byte {
	const most = 64 << 10
	return out[max(len(out)-most, 0):]
}

// fetch copies the module into a temporary folder.
func (s suite) fetch(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", s.module)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	if jerr := json.Unmarshal(out, &got); err != nil || jerr != nil || got.Dir == "" {
		cannot(t, fmt.Sprintf("%s cannot be fetched: %v %s", s.module, err, got.Error))
	}
	folder := t.TempDir()
	require.NoError(t, filepath.WalkDir(got.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(got.Dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(folder, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if s.drop != "" && (strings.HasSuffix(path, ".go") || filepath.Base(path) == "go.mod") {
			b = dropLines(b, s.drop)
		}
		return os.WriteFile(to, b, 0o644)
	}))
	return folder
}

func dropLines(b []byte, with string) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(b) {
		if !bytes.Contains(line, []byte(with)) {
			out.Write(line)
		}
	}
	return out.Bytes()
}

// serve starts a server over memory and returns its address.
func serve(t *testing.T, statements []string) string {
	return serveAs(t, sqlbackend.ServerConfig{}, statements)
}

// serveAs is serve with settings.
func serveAs(t *testing.T, cfg sqlbackend.ServerConfig, statements []string) string {
	cfg.Addr = "127.0.0.1:0"
	e, err := engine.Open(context.Background(), engine.Config{}, engine.Components{Store: objstore.NewMem()})
	require.NoError(t, err)
	srv, err := sqlbackend.NewServer(cfg, e, nil)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- srv.Start() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, srv.Close(ctx))
		require.NoError(t, <-done)
		require.NoError(t, e.Close(context.Background()))
	})
	addr := srv.Addr().String()
	db, err := sql.Open("mysql", "root@tcp("+addr+")/")
	require.NoError(t, err)
	defer db.Close()
	for _, s := range statements {
		_, err := db.Exec(s)
		require.NoError(t, err, s)
	}
	return addr
}
