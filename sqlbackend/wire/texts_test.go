package wire_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/wire"
)

// TestOKPacketText: the text of an OK packet comes with its own length, also behind a result that is still buffered.
func TestOKPacketText(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	c := login(t, f, 1<<16) // several statements
	query := func(text string) { c.send(0, append([]byte{3}, text...)) }
	ok := func() string {
		t.Helper()
		_, body, err := c.read()
		require.NoError(t, err)
		require.EqualValues(t, 0, body[0], "%q", body)
		rest := body[7:] // two numbers of one byte, status, warnings
		if len(rest) == 0 {
			return ""
		}
		require.EqualValues(t, rest[0], len(rest)-1, "%q", rest)
		return string(rest[1:])
	}
	query("USE d")
	require.Equal(t, "", ok())
	query("CREATE TABLE d.t (id INT PRIMARY KEY, s VARCHAR(20))")
	require.Equal(t, "", ok())
	query("INSERT INTO d.t VALUES (1, 'a')")
	require.Equal(t, "", ok())
	query("INSERT INTO d.t VALUES (2, 'b'), (3, 'c')")
	require.Equal(t, "Records: 2  Duplicates: 0  Warnings: 0", ok())
	query("INSERT INTO d.t SELECT id + 10, s FROM d.t WHERE id = 1")
	require.Equal(t, "Records: 1  Duplicates: 0  Warnings: 0", ok())
	query("UPDATE d.t SET s = 'x' WHERE id < 3")
	require.Equal(t, "Rows matched: 2  Changed: 2  Warnings: 0", ok())
	query("SELECT 1; UPDATE d.t SET s = 'y'; INSERT INTO d.t VALUES (20, 'b'), (30, 'c'); DELETE FROM d.t")
	for range 5 { // the result: how many columns, the column, its end, a row, its end
		_, _, err := c.read()
		require.NoError(t, err)
	}
	require.Equal(t, "Rows matched: 4  Changed: 4  Warnings: 0", ok())
	require.Equal(t, "Records: 2  Duplicates: 0  Warnings: 0", ok())
	require.Equal(t, "", ok())
	c.pings("afterwards")
}

func TestStatistics(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	c := login(t, f, 0)
	c.send(0, []byte{9})
	_, body, err := c.read()
	require.NoError(t, err)
	require.Regexp(t, `^Uptime: \d+  Threads: [1-9]\d*  Questions: \d+  Slow queries: \d+  Opens: \d+  Flush tables: \d+  Open tables: \d+  Queries per second avg: [\d.]+$`,
		string(body))
	c.pings("afterwards")
}

// TestTimeParameter: microseconds with zeros in front.
func TestTimeParameter(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	c := login(t, f, 0)
	for want, value := range map[string][]byte{
		"-34:05:06.000007":           {12, 1, 1, 0, 0, 0, 10, 5, 6, 7, 0, 0, 0},
		"2024-02-29 10:05:06.004321": {11, 0xe8, 7, 2, 29, 10, 5, 6, 0xe1, 0x10, 0, 0},
		"2024-02-29 10:05:06":        {7, 0xe8, 7, 2, 29, 10, 5, 6},
	} {
		kind := byte(0x0b)
		if value[0] != 12 {
			kind = 0x0c
		}
		as := "TIME(6)"
		if kind == 0x0c {
			as = "DATETIME(6)"
		}
		id := c.prepare("SELECT CAST(CAST(? AS " + as + ") AS CHAR)")
		c.send(0, append(binary.LittleEndian.AppendUint32([]byte{0x17}, id), append([]byte{0, 1, 0, 0, 0, 0, 1, kind, 0}, value...)...))
		var row []byte
		for i := range 5 {
			_, body, err := c.read()
			require.NoError(t, err)
			require.NotEqualValues(t, 0xff, body[0], "%q", body)
			if i == 3 {
				row = body
			}
		}
		require.True(t, bytes.Contains(row, []byte(want)), "%q in %q", want, row)
	}
}

// TestLongColumnName: an expression's text is not a name of any length, and it is no column of a table.
func TestLongColumnName(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	rows, err := f.open(t, "d").Query("SELECT '" + strings.Repeat("é", 300) + "'")
	require.NoError(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	require.NoError(t, err)
	require.Equal(t, []string{strings.Repeat("é", 255)}, names)
}
