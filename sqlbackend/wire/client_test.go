package wire_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/wire"
)

// TestCommandLineClient runs statements whose OK packets carry a text through the installed command line client: it is
// stricter than drivers about packets.
func TestCommandLineClient(t *testing.T) {
	bin, err := exec.LookPath("mysql")
	if err != nil {
		t.Skip("no mysql command line client")
	}
	f := serve(t, wire.ListenConfig{})
	host, port, err := net.SplitHostPort(f.listener.Addr().String())
	require.NoError(t, err)
	cmd := exec.Command(bin, "--no-defaults", "--protocol=tcp", "-h", host, "-P", port, "-u", "root", "-vvv", "d")
	cmd.Stdin = strings.NewReader(`
CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20));
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
UPDATE t SET s = 'z' WHERE id < 3;
PREPARE p FROM 'SELECT s FROM t WHERE id = ?';
SET @i = 3;
EXECUTE p USING @i;
DEALLOCATE PREPARE p;
REPLACE INTO t VALUES (1, 'r');
DELETE FROM t WHERE id = 2;
ALTER TABLE t ADD COLUMN c INT;
SELECT COUNT(*) AS n FROM t;
`)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "ERROR", "%s", out)
	require.Contains(t, string(out), "Rows matched: 2  Changed: 2")
}

// TestHandshakeSaysAutocommit: clients that turn autocommit off send it only if the greeting says that it is on.
func TestHandshakeSaysAutocommit(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	conn, err := net.Dial("tcp", f.listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	header := make([]byte, 4)
	_, err = io.ReadFull(conn, header)
	require.NoError(t, err)
	packet := make([]byte, int(header[0])|int(header[1])<<8)
	_, err = io.ReadFull(conn, packet)
	require.NoError(t, err)
	version := bytes.IndexByte(packet[1:], 0) // after the protocol version
	require.Positive(t, version)
	const fixed = 4 + 8 + 1 + 2 + 1 // thread id, salt, filler, capabilities, character set
	status := binary.LittleEndian.Uint16(packet[1+version+1+fixed:])
	require.EqualValues(t, 2, status)
}
