package suites

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/testcert"
	"lancesql/sqlbackend"
)

// dbdPasses is how many tests of DBD::MariaDB 1.22 pass; none fails. Beside MariaDB 10.11 without TLS 3,586 pass. Of them 12 are of MyISAM
// tables and 21 of error messages in Japanese: these skip themselves here, where there is neither. Two of TLS are here but not there.
const dbdPasses = 3555

var (
	dbdFile  = regexp.MustCompile(`(?m)^t/(\S+)\.t\s+\(Wstat: \d+ .*?Tests: \d+ Failed: (\d+)\)`)
	dbdTotal = regexp.MustCompile(`(?m)^Files=(\d+), Tests=(\d+),`)
)

// TestDBDMariaDB runs the tests of Perl's driver.
func TestDBDMariaDB(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches a source package")
	}
	if out, err := exec.CommandContext(t.Context(), "perl", "-MDBD::MariaDB 1.22", "-MTest::Deep", "-e1").CombinedOutput(); err != nil {
		cannot(t, "Perl lacks DBD::MariaDB or Test::Deep: "+string(out))
	}
	cache, err := filepath.Abs("../../.cache/sources")
	require.NoError(t, err)
	const pkg = "libdbd-mariadb-perl"
	if out, err := exec.CommandContext(t.Context(), "../../scripts/debian-source.sh", cache, pkg).CombinedOutput(); err != nil {
		cannot(t, pkg+" cannot be fetched: "+err.Error()+" "+string(out))
	}
	create := []string{"CREATE DATABASE dbdtest CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"}
	// Why without TLS: so was MariaDB, and several files skip themselves otherwise. The one that wants TLS has a server of its own,
	// whose certificate the driver can check.
	plain := serveAs(t, sqlbackend.ServerConfig{TLS: sqlbackend.TLSOff}, create)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(cache, pkg, "t", "*.t"))
	require.NoError(t, err)
	for i, f := range files {
		files[i] = filepath.Join("t", filepath.Base(f))
	}
	prove := func(addr, options string, files ...string) []byte {
		host, port, _ := strings.Cut(addr, ":")
		cmd := exec.CommandContext(ctx, "prove", append([]string{"-j2"}, files...)...)
		cmd.Dir = filepath.Join(cache, pkg)
		cmd.Env = append(os.Environ(), "DBI_DSN=DBI:MariaDB:database=dbdtest;host="+host+";port="+port+options, "DBI_USER=root", "DBI_PASS=")
		out, _ := cmd.CombinedOutput() // its status says what the lines say
		return out
	}
	out := prove(plain, "", files...)
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	testcert.Write(t, cert, key)
	encrypted := serveAs(t, sqlbackend.ServerConfig{TLSCert: cert, TLSKey: key}, create) // from here on have_ssl is YES
	out = append(out, prove(encrypted, ";mariadb_ssl_ca_file="+cert, filepath.Join("t", "92ssl_connection.t"))...)
	failures := 0
	for _, m := range dbdFile.FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(m[2]))
		require.NoError(t, err)
		failures += n
		t.Errorf("%s fails", m[1])
	}
	passed := -failures
	for _, m := range dbdTotal.FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(m[2]))
		require.NoError(t, err)
		passed += n
	}
	if passed < dbdPasses {
		t.Errorf("%d tests pass, wanted at least %d", passed, dbdPasses)
	}
	t.Logf("%d pass, %d fail", passed, failures)
	if t.Failed() {
		t.Logf("%s", tail(out))
	}
}
