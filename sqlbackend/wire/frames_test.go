package wire_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/wire"
)

// rawClient speaks the protocol packet by packet.
type rawClient struct {
	t    *testing.T
	conn net.Conn
}

func dial(t *testing.T, f *fixture) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", f.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	c := &rawClient{t: t, conn: conn}
	_, greeting, err := c.read()
	require.NoError(t, err)
	require.EqualValues(t, 10, greeting[0])
	return c
}

func (c *rawClient) send(sequence byte, body []byte) {
	p := append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), sequence}, body...)
	_, err := c.conn.Write(p)
	require.NoError(c.t, err)
}

func (c *rawClient) read() (sequence byte, body []byte, err error) {
	var h [4]byte
	if _, err := io.ReadFull(c.conn, h[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(h[0])|int(h[1])<<8|int(h[2])<<16)
	_, err = io.ReadFull(c.conn, body)
	return h[3], body, err
}

// login logs in as root without a password.
func login(t *testing.T, f *fixture, flags uint32) *rawClient {
	t.Helper()
	c := dial(t, f)
	c.login(1, flags)
	return c
}

// login sends the answer to the greeting as the packet of that number, and what the server asks for then.
func (c *rawClient) login(sequence byte, flags uint32) { c.loginWith(sequence, flags, "") }

// loginWith is login with what follows the method's name.
func (c *rawClient) loginWith(sequence byte, flags uint32, tail string) {
	const protocol41, secure, plugin = 1 << 9, 1 << 15, 1 << 19
	body := binary.LittleEndian.AppendUint32(nil, protocol41|secure|plugin|flags)
	body = binary.LittleEndian.AppendUint32(body, 1<<24)
	body = append(body, 45)
	body = append(body, make([]byte, 23)...)
	body = append(body, "root\x00\x00mysql_native_password\x00"+tail...)
	c.send(sequence, body)
	for {
		sequence, answer, err := c.read()
		require.NoError(c.t, err)
		switch answer[0] {
		case 0xfe: // another method: no password for that either
			c.send(sequence+1, nil)
		case 0:
			return
		default:
			c.t.Fatalf("login: %q", answer)
		}
	}
}

// fails requires an error packet of that number.
func (c *rawClient) fails(number int, what string) {
	c.t.Helper()
	_, body, err := c.read()
	require.NoError(c.t, err, what)
	require.EqualValues(c.t, 0xff, body[0], "%s: %q", what, body)
	require.Equal(c.t, number, int(binary.LittleEndian.Uint16(body[1:])), "%s: %q", what, body)
}

func (c *rawClient) pings(what string) {
	c.t.Helper()
	c.send(0, []byte{0x0e})
	_, body, err := c.read()
	require.NoError(c.t, err, what)
	require.EqualValues(c.t, 0, body[0], what)
}

// prepare prepares a statement without columns or parameters to speak of and returns its number.
func (c *rawClient) prepare(text string) uint32 {
	c.t.Helper()
	c.send(0, append([]byte{0x16}, text...))
	_, body, err := c.read()
	require.NoError(c.t, err)
	require.EqualValues(c.t, 0, body[0], "%q", body)
	packets := 0
	for _, at := range []int{5, 7} { // columns, parameters
		if n := int(binary.LittleEndian.Uint16(body[at:])); n > 0 {
			packets += n + 1
		}
	}
	for range packets {
		_, _, err := c.read()
		require.NoError(c.t, err)
	}
	return binary.LittleEndian.Uint32(body[1:])
}

// TestMalformedPackets: each is answered by an error or by a clean end of the connection, and others are served.
func TestMalformedPackets(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	other := f.open(t, "")
	withID := func(command byte, id uint32, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte{command}, id), rest...)
	}
	c := login(t, f, 0)
	for name, m := range map[string]struct {
		body   []byte
		number int
	}{
		"no bytes":                       {nil, 1047},
		"an unknown command":             {[]byte{0xee, 1, 2, 3}, 1047},
		"change of user":                 {[]byte("\x11root\x00\x00d\x00"), 1047},
		"reset of a dead statement":      {withID(0x1a, 99), 1243},
		"a syntax error in PREPARE":      {append([]byte{0x16}, "SELEKT ?"...), 1105},
		"execution of a dead statement":  {withID(0x17, 99, 0, 1, 0, 0, 0), 1105},
		"a short execution":              {[]byte{0x17, 1}, 1105},
		"a fetch from a dead statement":  {withID(0x1c, 99, 1, 0, 0, 0), 1047},
		"a short fetch":                  {[]byte{0x1c}, 1047},
		"an option that does not exist":  {[]byte{0x1b, 7, 0}, 1047},
		"a database that does not exist": {append([]byte{0x02}, "nowhere"...), 1049},
	} {
		c.send(0, m.body)
		_, body, err := c.read()
		require.NoError(t, err, name)
		require.EqualValues(t, 0xff, body[0], "%s: %q", name, body)
		got := int(binary.LittleEndian.Uint16(body[1:]))
		if m.number != 1105 {
			require.Equal(t, m.number, got, "%s: %q", name, body)
		}
		if name == "an option that does not exist" {
			c = login(t, f, 0) // the library says more than it should
			continue
		}
		c.pings(name)
	}
	c.send(0, withID(0x18, 99, 0, 0, 'x')) // long data for a dead statement has no answer
	c.pings("long data")

	// executions of a living statement that do not fit it
	for name, rest := range map[string][]byte{
		"nothing":             {},
		"a wrong count":       {0, 1, 0, 0, 0, 0xff, 1, 0xfe, 0, 200, 'x'},
		"an impossible type":  {0, 1, 0, 0, 0, 0, 1, 0x77, 0x77, 1},
		"no types":            {0, 1, 0, 0, 0, 0, 0},
		"a length that lies":  {0, 1, 0, 0, 0, 0, 1, 0xfd, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a number cut short":  {0, 1, 0, 0, 0, 0, 1, 0x08, 0, 1},
		"only the null bits":  {0, 1, 0, 0, 0, 0},
		"a date of 200 bytes": {0, 1, 0, 0, 0, 0, 1, 0x0c, 0, 200, 1},
	} {
		c := login(t, f, 0)
		id := c.prepare("SELECT ?")
		c.send(0, withID(0x17, id, rest...))
		_, _, err := c.read() // an error, or the end
		if err != nil {
			require.ErrorIs(t, err, io.EOF, name)
		}
		require.NoError(t, other.Ping(), name)
	}
}

// TestBeforeLogin: a client that has not logged in gets little memory and little time.
func TestBeforeLogin(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	other := f.open(t, "")
	for name, packet := range map[string][]byte{
		"a packet of 16 MB announced": {0xfe, 0xff, 0xff, 1},
		"a chain of full packets":     {0xff, 0xff, 0xff, 1},
		"an empty packet":             {0, 0, 0, 1},
	} {
		c := dial(t, f)
		_, err := c.conn.Write(packet)
		require.NoError(t, err)
		c.fails(1043, name)
		_, _, err = c.read()
		require.ErrorIs(t, err, io.EOF, name)
	}
	for name, body := range map[string][]byte{
		"text without an end": append([]byte{0, 0x82, 0, 0, 0, 0, 0, 1, 45}, strings.Repeat("x", 300)...),
		"one byte":            {1},
		"a bad database":      append(append([]byte{0x08, 0x82, 0, 0, 0, 0, 0, 1, 45}, make([]byte, 23)...), "root\x00\x00no\xffwhere"...),
		"a user of 255 bytes": append(append([]byte{0, 0x82, 0, 0, 0, 0, 0, 1, 45}, make([]byte, 23)...), strings.Repeat("\xff", 255)+"\x00\x00"...),
	} {
		c := dial(t, f)
		c.send(1, body)
		for {
			_, answer, err := c.read()
			if err != nil {
				break // an error before that, or not
			}
			require.NotContains(t, string(answer), "goroutine", name)
			if answer[0] == 0xfe {
				c.send(3, nil)
			}
			if answer[0] == 0 { // logged in after all
				_ = c.conn.Close()
				break
			}
		}
	}
	require.NoError(t, other.Ping())
}

// TestIdleClient: wait_timeout ends the connection, with the reason.
func TestIdleClient(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	c := login(t, f, 0)
	c.send(0, append([]byte{0x03}, "SET wait_timeout = 1"...))
	_, body, err := c.read()
	require.NoError(t, err)
	require.EqualValues(t, 0, body[0], "%q", body)
	began := time.Now()
	c.fails(4031, "idle")
	require.Greater(t, time.Since(began), 900*time.Millisecond)
	_, _, err = c.read()
	require.ErrorIs(t, err, io.EOF)
}

// TestIdleClientOfMariaDB: its clients connect again if the connection just ends.
func TestIdleClientOfMariaDB(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	const attributes = 1 << 20
	for name, want := range map[string]int{"libmariadb": 0, "libmysql": 4031, "": 4031} {
		c := dial(t, f)
		flags, tail := uint32(0), ""
		if name != "" {
			pairs := "\x03_os\x05Linux\x0c_client_name" + string(rune(len(name))) + name
			flags, tail = attributes, string(rune(len(pairs)))+pairs
		}
		c.loginWith(1, flags, tail)
		c.send(0, append([]byte{0x03}, "SET wait_timeout = 1"...))
		_, body, err := c.read()
		require.NoError(t, err)
		require.EqualValues(t, 0, body[0], "%q", body)
		if want != 0 {
			c.fails(want, name)
		}
		_, _, err = c.read()
		require.ErrorIs(t, err, io.EOF, name)
	}
}

func TestPacketTooLarge(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	c := login(t, f, 0)
	c.send(0, append([]byte{0x03}, "SET max_allowed_packet = 1024"...))
	_, body, err := c.read()
	require.NoError(t, err)
	require.NotEqual(t, byte(0xff), body[0], "%q", body)
	c.send(0, append([]byte{0x03}, "SELECT '"+strings.Repeat("x", 2000)+"'"...))
	c.fails(1153, "too large")
}

// TestErrorInTheMiddle: a result that has begun ends with an error, and the connection lives on.
func TestErrorInTheMiddle(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "")
	fill(t, db, 1000)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	defer conn.Close()
	for _, query := range []string{
		"SELECT IF(id < 900, id, explode(id)) FROM t",
		"SELECT IF(id < 900, id, (SELECT id FROM t)) FROM t",
	} {
		for _, args := range [][]any{nil, {0}} {
			q := query
			if args != nil {
				q += " WHERE id >= ?" // binary protocol
			}
			rows, err := conn.QueryContext(context.Background(), q, args...)
			require.NoError(t, err, q)
			n := 0
			for rows.Next() {
				n++
			}
			require.Positive(t, n, q)
			require.NotZero(t, number(t, rows.Err()), q)
			_ = rows.Close()
			var one int
			require.NoError(t, conn.QueryRowContext(context.Background(), "SELECT 1").Scan(&one), q)
		}
	}
	require.Contains(t, f.log.String(), "digest=")
}

// TestPanicsStayApart: statements of others run on while one after the other panics.
func TestPanicsStayApart(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	fill(t, f.open(t, ""), 10)
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() {
			db := f.open(t, "")
			defer db.Close()
			for range 30 {
				if i%2 == 0 {
					if _, err := db.Exec("SELECT explode(id) FROM t"); err == nil {
						done <- fmt.Errorf("no error")
						return
					}
					continue
				}
				var n int
				if err := db.QueryRow("SELECT COUNT(*) FROM t").Scan(&n); err != nil || n != 10 {
					done <- fmt.Errorf("%d rows: %w", n, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
}
