package wire_test

import (
	"crypto/tls"
	"database/sql"
	"encoding/binary"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/wire"
)

// overTLS opens a pool whose connections use TLS.
func overTLS(t *testing.T, f *fixture, user, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", user+"@tcp("+f.listener.Addr().String()+")/d?tls=skip-verify"+parameters)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func secured(t *testing.T, must bool) *fixture {
	t.Helper()
	config, err := wire.LoadTLS("", "")
	require.NoError(t, err)
	return serve(t, wire.ListenConfig{TLS: config, RequireTLS: must})
}

// TestTLS: whatever the frames do, they do for encrypted connections.
func TestTLS(t *testing.T) {
	f := secured(t, false)
	plain, err := sql.Open("mysql", "root@tcp("+f.listener.Addr().String()+")/d")
	require.NoError(t, err)
	defer plain.Close()
	cipher := func(db *sql.DB) (value string) {
		var name string
		require.NoError(t, db.QueryRow("SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &value))
		return value
	}
	require.Empty(t, cipher(plain))
	db := overTLS(t, f, "root", "")
	require.Contains(t, cipher(db), "TLS_")
	require.Empty(t, cipher(plain))

	// Packets of many records, prepared statements, and an error behind rows of a result, after which the connection lives on.
	var text string
	long := strings.Repeat("lance ", 1<<20)
	require.NoError(t, db.QueryRow("SELECT ?", long).Scan(&text))
	require.Equal(t, long, text)
	var id, again int
	require.NoError(t, db.QueryRow("SELECT CONNECTION_ID()").Scan(&id))
	fill(t, plain, 1000)
	rows, err := db.Query("SELECT IF(id < 900, id, explode(id)) FROM t")
	require.NoError(t, err)
	n := 0
	for ; rows.Next(); n++ {
	}
	require.ErrorContains(t, rows.Err(), "internal error")
	require.Positive(t, n)
	require.NoError(t, db.QueryRow("SELECT CONNECTION_ID()").Scan(&again))
	require.Equal(t, id, again)

	// What a client may send is bounded as well.
	bounded := overTLS(t, f, "root", "&maxAllowedPacket=67108864")
	_, err = bounded.Exec("SET max_allowed_packet = 1048576")
	require.NoError(t, err)
	require.Error(t, bounded.QueryRow("SELECT LENGTH('"+long+"')").Scan(&text))
}

// TestTLSClientGone: a statement ends when its client leaves, though the farewell of TLS lies unread before the end.
func TestTLSClientGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	f := secured(t, false)
	watch := f.open(t, "")
	running := func() (n int) {
		require.NoError(t, watch.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(300)%'").Scan(&n))
		return n
	}
	c := dial(t, f)
	c.send(1, append(binary.LittleEndian.AppendUint32(nil, 1<<9|1<<11), make([]byte, 28)...))
	c.conn = tls.Client(c.conn, &tls.Config{InsecureSkipVerify: true})
	c.login(2, 0)
	c.send(0, []byte{0x1f}) // reset: the session is a new one, its connection is not
	_, body, err := c.read()
	require.NoError(t, err)
	require.Zero(t, body[0])
	c.send(0, append([]byte{0x03}, "SELECT SLEEP(300)"...))
	require.Eventually(t, func() bool { return running() == 1 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, c.conn.Close())
	require.Eventually(t, func() bool { return running() == 0 }, time.Minute, 10*time.Millisecond)
}

func TestTLSRequired(t *testing.T) {
	f := secured(t, true)
	require.NoError(t, overTLS(t, f, "root", "").Ping())
	c := dial(t, f)
	c.send(1, append(binary.LittleEndian.AppendUint32(nil, 1<<9), make([]byte, 60)...))
	c.fails(3159, "insecure transport")
}

// TestTLSHandshakeFails: a client that asks for TLS and then speaks something else is let go.
func TestTLSHandshakeFails(t *testing.T) {
	f := secured(t, false)
	c := dial(t, f)
	c.send(1, append(binary.LittleEndian.AppendUint32(nil, 1<<9|1<<11), make([]byte, 28)...))
	_, err := c.conn.Write([]byte("this is no ClientHello, whatever it looks like"))
	require.NoError(t, err)
	for err == nil {
		_, err = c.conn.Read(make([]byte, 512)) // an alert may come first
	}
	require.NoError(t, overTLS(t, f, "root", "").Ping())
}

// TestTLSCommandLineClient: a client library that is stricter than the driver's about packets and their numbers.
func TestTLSCommandLineClient(t *testing.T) {
	bin, err := exec.LookPath("mysql")
	if err != nil {
		t.Skip("no mysql command line client")
	}
	f := secured(t, false)
	host, port, err := net.SplitHostPort(f.listener.Addr().String())
	require.NoError(t, err)
	out, err := exec.Command(bin, "--no-defaults", "--ssl", "--protocol=tcp", "-h", host, "-P", port, "-u", "root", "-N", "-e",
		"SHOW STATUS LIKE 'Ssl_version'", "d").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "TLSv1.3")
}

func TestLoadTLS(t *testing.T) {
	_, err := wire.LoadTLS("cert.pem", "")
	require.ErrorContains(t, err, "key")
	_, err = wire.LoadTLS("absent.pem", "absent.key")
	require.ErrorContains(t, err, "absent.pem")
	config, err := wire.LoadTLS("", "")
	require.NoError(t, err)
	require.EqualValues(t, tls.VersionTLS12, config.MinVersion)
}
