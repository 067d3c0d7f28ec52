package suites

import (
	"bytes"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// zeroDates is a sql_mode in which '0000-00-00' is a default: MariaDB's, for which these schemas were written. MySQL's default
// refuses them (1067).
const zeroDates = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// schema is the SQL with which a program makes its tables, from a Debian package.
type schema struct {
	name, pkg string
	files     []string
	mode      string // sql_mode; empty: the default
	tables    int    // made
	known     []string
}

const (
	dbconfig   = "usr/share/dbconfig-common/data/"
	freeradius = "etc/freeradius/3.0/mods-config/sql/"
)

func schemas() []schema {
	return []schema{
		{name: "bacula", pkg: "bacula-director-mysql", files: []string{dbconfig + "bacula-director-mysql/install/mysql"}, tables: 26},
		{name: "cacti", pkg: "cacti", files: []string{"usr/share/cacti/conf_templates/cacti.sql"}, tables: 113},
		{name: "freeradius", pkg: "freeradius-config", files: []string{
			freeradius + "main/mysql/schema.sql", freeradius + "main/mysql/process-radacct.sql", freeradius + "main/mysql/extras/wimax/schema.sql",
			freeradius + "dhcp/mysql/schema.sql", freeradius + "moonshot-targeted-ids/mysql/schema.sql",
			freeradius + "ippool/mysql/schema.sql", freeradius + "ippool/mysql/procedure.sql",
		}, tables: 16},
		{name: "freeradius cui", pkg: "freeradius-config", files: []string{freeradius + "cui/mysql/schema.sql"}, mode: zeroDates, tables: 1},
		{name: "freeradius dhcp pool", pkg: "freeradius-config", files: []string{
			freeradius + "ippool-dhcp/mysql/schema.sql", freeradius + "ippool-dhcp/mysql/procedure.sql",
		}, tables: 1},
		{name: "freeradius without SKIP LOCKED", pkg: "freeradius-config", files: []string{
			freeradius + "ippool/mysql/schema.sql", freeradius + "ippool/mysql/procedure-no-skip-locked.sql",
			freeradius + "ippool-dhcp/mysql/schema.sql",
		}, tables: 2},
		{name: "gammu", pkg: "gammu-smsd", files: []string{"usr/share/doc/gammu-smsd/examples/mysql.sql"}, tables: 6},
		{name: "gammu for old servers", pkg: "gammu-smsd", files: []string{"usr/share/doc/gammu-smsd/examples/mysql-legacy.sql"}, mode: zeroDates, tables: 6},
		{name: "icinga", pkg: "icinga2-ido-mysql", files: []string{"usr/share/icinga2-ido-mysql/schema/mysql.sql"}, tables: 61},
		{name: "mediawiki", pkg: "mediawiki", files: []string{
			"usr/share/mediawiki/maintenance/tables.sql", "usr/share/mediawiki/maintenance/tables-generated.sql",
		}, tables: 58},
		{name: "pdns", pkg: "pdns-backend-mysql", files: []string{"usr/share/pdns-backend-mysql/schema/schema.mysql.sql"}, tables: 7},
		{name: "phpmyadmin", pkg: "phpmyadmin", files: []string{dbconfig + "phpmyadmin/install/mysql"}, tables: 19},
		{name: "roundcube", pkg: "roundcube-core", files: []string{dbconfig + "roundcube/install/mysql"}, tables: 17},
		{name: "rsyslog", pkg: "rsyslog-mysql", files: []string{dbconfig + "rsyslog-mysql/install/mysql"}, tables: 2},
		{name: "tt-rss", pkg: "tt-rss", files: []string{dbconfig + "tt-rss/install/mysql"}, tables: 32},
	}
}

// TestSchemas loads what programs load when they are installed, with the mysql client, and makes every table once more from its
// SHOW CREATE TABLE.
func TestSchemas(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches packages")
	}
	if _, err := exec.LookPath("mysql"); err != nil {
		cannot(t, "mysql is not installed")
	}
	cache, err := filepath.Abs("../../.cache/schemas")
	require.NoError(t, err)
	addr := serve(t, nil)
	db, err := sql.Open("mysql", "root@tcp("+addr+")/")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range schemas() {
		t.Run(s.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "../../scripts/debian-files.sh", append([]string{cache, s.pkg}, s.files...)...).CombinedOutput()
			if err != nil {
				cannot(t, fmt.Sprintf("%s cannot be fetched: %v %s", s.pkg, err, out))
			}
			s.load(t, db, addr, cache)
			s.again(t, db)
		})
	}
}

// cannot skips a test for what is missing, or fails it where everything must be there.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("LANCESQL_REQUIRE_ORACLE") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// clientError is how the mysql client reports an error and goes on.
var clientError = regexp.MustCompile(`(?m)^(ERROR \d+ \(\w+\)) at line \d+(: .*)$`)

func (s schema) database() string { return strings.NewReplacer(" ", "_", "-", "_").Replace(s.name) }

// load runs the files and looks at what the client says.
func (s schema) load(t *testing.T, db *sql.DB, addr, cache string) {
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	_, err = db.Exec("CREATE DATABASE " + s.database())
	require.NoError(t, err)
	args := []string{"--no-defaults", "-h" + host, "-P" + port, "-uroot", "--force", "--default-character-set=utf8mb4"}
	if s.mode != "" {
		args = append(args, "--init-command=SET sql_mode='"+s.mode+"'")
	}
	var failed []string
	for _, file := range s.files {
		text, err := os.ReadFile(filepath.Join(cache, s.pkg, file))
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), "mysql", append(args, s.database())...)
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.CombinedOutput()
		n := len(failed)
		for _, m := range clientError.FindAllSubmatch(out, -1) {
			failed = append(failed, string(m[1])+string(m[2]))
		}
		if err != nil && len(failed) == n {
			t.Errorf("%s: %v %s", file, err, tail(out))
		}
	}
	if !slices.Equal(failed, s.known) {
		t.Errorf("errors: %q, wanted %q", failed, s.known)
	}
}

// again makes every table once more from what SHOW CREATE TABLE says; it must say the same of the copy.
func (s schema) again(t *testing.T, db *sql.DB) {
	tables := map[string]string{}
	rows, err := db.Query("SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_type = 'BASE TABLE'", s.database())
	require.NoError(t, err)
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		tables[name] = ""
	}
	require.NoError(t, rows.Err())
	if len(tables) != s.tables {
		t.Errorf("%d tables, wanted %d", len(tables), s.tables)
	}
	show := func(database, table string) (text string) {
		var name string
		require.NoError(t, db.QueryRow("SHOW CREATE TABLE `"+database+"`.`"+table+"`").Scan(&name, &text))
		return text
	}
	again := s.database() + "_again"
	for _, statement := range []string{"CREATE DATABASE " + again, "USE " + again, "SET foreign_key_checks = 0", "SET sql_mode = '" + zeroDates + "'"} {
		_, err := db.Exec(statement)
		require.NoError(t, err, statement)
	}
	for name := range tables {
		tables[name] = show(s.database(), name)
		_, err := db.Exec(tables[name])
		require.NoError(t, err, tables[name])
	}
	for name, text := range tables {
		require.Equal(t, text, show(again, name))
	}
}
