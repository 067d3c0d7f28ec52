package suites

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/testcert"
	"lancesql/sqlbackend"
)

// dbdPasses is how many tests of DBD::MariaDB 1.22 pass. Beside MariaDB 10.11 all 3,586 of the 82 files that do not skip
// themselves do.
const dbdPasses = 3551

// dbdKnown lists the files in which tests fail, with the reason.
func dbdKnown() map[string]string {
	return map[string]string{
		"55utf8_jp": "it wants error messages in Japanese",
	}
}

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
	// Why a certificate: the driver refuses one that it cannot check, in words its test does not know.
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	testcert.Write(t, cert, key)
	addr := serveAs(t, sqlbackend.ServerConfig{TLSCert: cert, TLSKey: key}, []string{"CREATE DATABASE dbdtest CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"})
	host, port, _ := strings.Cut(addr, ":")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(cache, pkg, "t", "*.t"))
	require.NoError(t, err)
	for i, f := range files {
		files[i] = filepath.Join("t", filepath.Base(f))
	}
	cmd := exec.CommandContext(ctx, "prove", append([]string{"-j2"}, files...)...)
	cmd.Dir = filepath.Join(cache, pkg)
	cmd.Env = append(os.Environ(), "DBI_DSN=DBI:MariaDB:database=dbdtest;host="+host+";port="+port+";mariadb_ssl_ca_file="+cert, "DBI_USER=root", "DBI_PASS=")
	out, _ := cmd.CombinedOutput() // its status says what the lines say
	known, failures := dbdKnown(), 0
	for _, m := range dbdFile.FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(m[2]))
		require.NoError(t, err)
		failures += n
		if _, ok := known[string(m[1])]; !ok {
			t.Errorf("%s fails", m[1])
		}
		delete(known, string(m[1]))
	}
	for _, file := range slices.Sorted(maps.Keys(known)) {
		t.Errorf("%s is listed and does not fail", file)
	}
	passed := -failures
	if m := dbdTotal.FindSubmatch(out); m != nil {
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
