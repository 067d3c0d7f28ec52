package sqlbackend_test

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/testcert"
	"lancesql/sqlbackend"
)

// TestTLSAccounts: authentication methods and accounts that need TLS see it; others do without.
func TestTLSAccounts(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	dial := func(user, parameters string) error {
		db, err := sql.Open("mysql", user+"@tcp("+r.server.Addr().String()+")/"+parameters)
		require.NoError(t, err)
		defer db.Close()
		return db.Ping()
	}
	db := r.open("")
	for _, s := range []string{
		"CREATE USER sha@'%' IDENTIFIED WITH caching_sha2_password BY 'secret'",
		"CREATE USER only@'%' IDENTIFIED WITH mysql_native_password BY 'secret' REQUIRE SSL",
		"CREATE USER any@'%' IDENTIFIED WITH mysql_native_password BY 'secret'",
	} {
		_, err := db.Exec(s)
		require.NoError(t, err, s)
	}
	for _, user := range []string{"sha", "only", "any"} {
		for range 2 { // the second time from the cache of passwords
			require.NoError(t, dial(user+":secret", "?tls=skip-verify"), user)
		}
		require.Error(t, dial(user+":wrong", "?tls=skip-verify"), user)
		if err := dial(user+":secret", ""); user == "any" {
			require.NoError(t, err)
		} else {
			require.Error(t, err, user)
		}
	}
}

// TestTLSModes: a certificate from files is the one that clients verify; off offers nothing; wrong settings are told.
func TestTLSModes(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots := x509.NewCertPool()
	roots.AddCert(testcert.Write(t, cert, key))
	require.NoError(t, mysql.RegisterTLSConfig("verified", &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}))
	defer mysql.DeregisterTLSConfig("verified")
	ping := func(c sqlbackend.ServerConfig, parameters string) error {
		r := start(t, "", c)
		defer r.stop()
		db, err := sql.Open("mysql", "root@tcp("+r.server.Addr().String()+")/"+parameters)
		require.NoError(t, err)
		defer db.Close()
		return db.Ping()
	}
	files := sqlbackend.ServerConfig{TLSCert: cert, TLSKey: key}
	require.NoError(t, ping(files, "?tls=verified"))
	require.Error(t, ping(sqlbackend.ServerConfig{}, "?tls=verified"), "a certificate of its own is nobody's")
	require.ErrorIs(t, ping(sqlbackend.ServerConfig{TLS: sqlbackend.TLSOff}, "?tls=skip-verify"), mysql.ErrNoTLS)
	files.TLS = sqlbackend.TLSRequired
	require.NoError(t, ping(files, "?tls=verified"))
	require.ErrorContains(t, ping(files, ""), "3159")

	for _, c := range []sqlbackend.ServerConfig{{TLS: "maybe"}, {TLSKey: key}, {TLS: sqlbackend.TLSOff, TLSCert: cert, TLSKey: key}} {
		require.Error(t, c.Validate())
		_, err := sqlbackend.NewServer(c, nil, nil)
		require.Error(t, err)
	}
}
