package sqlbackend_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/objstore"
)

func TestTemporaryTables(t *testing.T) {
	for name, script := range map[string]string{
		"take no locks": `
			A: CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)
			A: BEGIN
			A: INSERT INTO t VALUES (1)
			A: SELECT * FROM t FOR UPDATE -> 1
			B: ALTER TABLE t ADD COLUMN w INT
			B: SELECT id FROM t WHERE id = 3 -> 3
			B: DROP TABLE t
			A: SELECT * FROM t -> 1
			A: COMMIT
			A: DROP TABLE t
			A: SELECT * FROM t -> error 1146`,
		"commit nothing, unless without TEMPORARY": `
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			A: CREATE TEMPORARY TABLE x SELECT id FROM t
			A: CREATE TEMPORARY TABLE y LIKE t
			A: DROP TEMPORARY TABLE y
			A: DROP TEMPORARY TABLE y -> error 1051
			A: DROP TEMPORARY TABLE t -> error 1051
			B: SELECT v FROM t WHERE id = 1 -> 10
			A: ROLLBACK
			A: SELECT v FROM t WHERE id = 1 -> 10
			A: SELECT COUNT(*) FROM x -> 0
			A: BEGIN
			A: UPDATE t SET v = 11 WHERE id = 1
			A: DROP TABLE x
			B: SELECT v FROM t WHERE id = 1 -> 11`,
		"locked tables": `
			A: CREATE TEMPORARY TABLE x (a INT)
			A: LOCK TABLES t READ, x WRITE
			A: INSERT INTO x SELECT id FROM t
			A: CREATE TEMPORARY TABLE y (a INT)
			A: SELECT COUNT(*) FROM u -> error 1100
			A: DROP TABLE x, y
			A: UNLOCK TABLES`,
		"deadlock takes their rows back too": `
			A: CREATE TEMPORARY TABLE x (a INT)
			B: CREATE TEMPORARY TABLE x (a INT)
			A: BEGIN
			B: BEGIN
			A: UPDATE t SET v = 1 WHERE id = 1
			B: UPDATE t SET v = 1 WHERE id = 2
			B: INSERT INTO x VALUES (1)
			A& UPDATE t SET v = 1 WHERE id = 2
			B: UPDATE t SET v = 1 WHERE id = 1 -> error 1213
			A? -> ok
			B: SELECT COUNT(*) FROM x -> 0
			A: COMMIT`,
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, "", script) })
	}
}

// TestTemporaryTablesGo: they leave nothing behind, in memory or in the store, when their session ends in any way.
func TestTemporaryTablesGo(t *testing.T) {
	store := objstore.NewMem()
	e, err := engine.Open(context.Background(), engine.Config{TemporaryBytes: 4 << 20, MemTableBytes: 1 << 20}, engine.Components{Store: store})
	require.NoError(t, err)
	r := serve(t, e)
	run(t, r.open(""), "CREATE DATABASE d")
	objects := func() (n int) {
		var walk func(dir string)
		walk = func(dir string) {
			require.NoError(t, store.List(context.Background(), dir, func(i objstore.Info) error {
				if n++; i.Dir {
					walk(i.Name)
				}
				return nil
			}))
		}
		walk("")
		return n
	}
	before := objects()
	gone := func() {
		t.Helper()
		require.Eventually(t, func() bool { return r.engine.Memory().Temporary == 0 }, time.Minute, time.Millisecond)
		require.Equal(t, before, objects())
	}

	db := r.open("d")
	c, err := db.Conn(context.Background())
	require.NoError(t, err)
	require.NoError(t, on(c, "CREATE TEMPORARY TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGBLOB)"))
	require.Positive(t, r.engine.Memory().Temporary)
	full := 0
	for n := 0; n < 2000 && full < 20; n++ { // until the flushes have come after; a slow machine takes longer
		if _, err := c.ExecContext(context.Background(), "INSERT INTO t (v) VALUES (RANDOM_BYTES(1024)), (REPEAT('x', 300000))"); err != nil {
			require.Equal(t, 1114, errorNumber(err))
			full++
		}
		time.Sleep(time.Millisecond)
	}
	require.Positive(t, full, "nothing bounds temporary tables")
	require.NoError(t, on(c, "DELETE FROM t WHERE id > 1"))
	require.Equal(t, before, objects())
	_ = c.Raw(func(any) error { return context.Canceled })
	_ = c.Close()
	require.NoError(t, db.Close())
	gone()

	raw := dialRaw(t, r.server.Addr())
	raw.ok("USE d")
	raw.ok("CREATE TEMPORARY TABLE t (a INT)")
	raw.ok("INSERT INTO t VALUES (1)")
	require.Positive(t, r.engine.Memory().Temporary)
	require.Equal(t, byte(0), raw.command(0x1f, "")[0]) // COM_RESET_CONNECTION
	gone()
	require.Equal(t, byte(0xff), raw.command(3, "INSERT INTO t VALUES (1)")[0])
}

// rawClient speaks the protocol packet by packet.
type rawClient struct {
	t testing.TB
	net.Conn
}

// dialRaw logs in as root without a database.
func dialRaw(t testing.TB, addr net.Addr) rawClient {
	conn, err := net.Dial(addr.Network(), addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c := rawClient{t, conn}
	c.packet()                                                // the greeting
	const capabilities = 1<<9 | 1<<15 | 1<<16 | 1<<17 | 1<<19 // 4.1, secure, several statements and results, plugin
	login := binary.LittleEndian.AppendUint32(nil, capabilities)
	login = binary.LittleEndian.AppendUint32(login, 1<<24)
	login = append(login, 45)
	login = append(login, make([]byte, 23)...)
	login = append(login, "root\x00\x00mysql_native_password\x00"...)
	c.send(1, login)
	require.Equal(t, byte(0), c.packet()[0])
	return c
}

func (c rawClient) send(number byte, payload []byte) {
	header := []byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), number}
	_, err := c.Write(append(header, payload...))
	require.NoError(c.t, err)
}

func (c rawClient) packet() []byte {
	header := make([]byte, 4)
	_, err := io.ReadFull(c, header)
	require.NoError(c.t, err)
	payload := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	_, err = io.ReadFull(c, payload)
	require.NoError(c.t, err)
	return payload
}

// command sends a command and returns the first packet of its answer.
func (c rawClient) command(number byte, text string) []byte {
	c.send(0, append([]byte{number}, text...))
	return c.packet()
}

// ok runs a statement that answers with an OK packet.
func (c rawClient) ok(statement string) {
	c.t.Helper()
	p := c.command(3, statement)
	require.Equal(c.t, byte(0), p[0], "%s: %q", statement, p)
}
