package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/server"
)

// pylance writes a dataset; CALL lancesql.attach makes it a table; both go on writing, through kill -9 and a restart, and
// both see every row exactly once.
func TestAttach(t *testing.T) {
	srv := server.Start(t, server.Options{Config: small()})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE lake")
	incoming := filepath.Join(srv.DataDir(), "incoming", "events.lance")
	oracle.RunPython(t, "attach.py", "make", incoming)
	_, err := db.Exec("CALL lancesql.attach('lake', 'events', 'incoming/event.lance')")
	requireError(t, err, 1017, "HY000")
	do(t, db, "CALL lancesql.attach('lake', 'events', 'incoming/events.lance')")
	path := filepath.Join(srv.DataDir(), "lake", "events.lance")
	db = srv.Open("lake")

	want := []int{1, 2, 3, 4, 5}
	check := func() {
		t.Helper()
		slices.Sort(want)
		var got []int
		for _, r := range query(t, db, "SELECT id FROM events ORDER BY id") {
			n, err := strconv.Atoi(*r[0])
			require.NoError(t, err)
			got = append(got, n)
		}
		require.Equal(t, want, got)
	}
	// eventually waits for what an outside commit brought: the server looks for them now and then.
	eventually := func() {
		t.Helper()
		require.Eventually(t, func() bool { return one(t, db, "SELECT COUNT(*) FROM events") == fmt.Sprint(len(want)) }, 20*time.Second, 50*time.Millisecond)
		check()
	}
	insert := func(ids ...int) {
		t.Helper()
		for _, id := range ids {
			do(t, db, "INSERT INTO events (id, v) VALUES (?, 'sql')", id)
			want = append(want, id)
		}
	}
	check()
	require.Equal(t, "py2", one(t, db, "SELECT v FROM events WHERE id = 2"))
	require.Equal(t, "2026-01-01 00:00:00.000003", one(t, db, "SELECT at FROM events WHERE id = 3"))
	insert(6, 6, 6)
	do(t, db, "SET GLOBAL local_infile = 1")
	mysql.RegisterReaderHandler("attached", func() io.Reader { return strings.NewReader("10\tloaded\n10\tloaded\n") })
	do(t, db, "LOAD DATA LOCAL INFILE 'Reader::attached' INTO TABLE events (id, v)")
	want = append(want, 10, 10)
	check()
	tx, err := db.Begin()
	require.NoError(t, err)
	do(t, tx, "INSERT INTO events (id) VALUES (7), (7)")
	require.Equal(t, "2", one(t, tx, "SELECT COUNT(*) FROM events WHERE id = 7"))
	require.Equal(t, "0", one(t, db, "SELECT COUNT(*) FROM events WHERE id = 7"))
	require.NoError(t, tx.Commit())
	want = append(want, 7, 7)
	check()
	do(t, db, "FLUSH TABLES events")
	check()

	oracle.RunPython(t, "attach.py", "append", path, "1", "2") // ids that are there: they count again
	want = append(want, 1, 2)
	eventually()
	insert(8, 8)
	srv.Kill()
	srv.Start()
	db = srv.Open("lake")
	check()
	oracle.RunPython(t, "attach.py", "delete", path, "6")
	want = slices.DeleteFunc(want, func(id int) bool { return id == 6 })
	eventually()
	for _, s := range []string{
		"UPDATE events SET v = 'x' WHERE id = 8", "DELETE FROM events WHERE id = 999", "DELETE FROM events", "TRUNCATE TABLE events",
		"REPLACE INTO events (id) VALUES (1)", "INSERT INTO events (id) VALUES (1) ON DUPLICATE KEY UPDATE v = 'x'",
		"ALTER TABLE events ADD COLUMN w INT", "CREATE INDEX i ON events (id)",
	} {
		_, err := db.Exec(s)
		requireError(t, err, 1235, "42000")
	}
	insert(9)
	srv.Kill()
	srv.Start()
	db = srv.Open("lake")
	check()
	do(t, db, "FLUSH TABLES")
	check()
	var got struct {
		IDs      []int
		Versions int
	}
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "attach.py", "read", path), &got))
	require.Equal(t, want, got.IDs)
	for _, r := range query(t, db, "CHECK TABLE events EXTENDED") {
		require.Equal(t, "OK", *r[3])
	}

	// What merges could not write is refused when it is attached, and not later.
	stable := filepath.Join(srv.DataDir(), "incoming", "stable.lance")
	oracle.RunPython(t, "attach.py", "make", stable, "stable")
	_, err = db.Exec("CALL lancesql.attach('lake', 'stable', 'incoming/stable.lance')")
	requireError(t, err, 1235, "42000")

	// A declared key makes an ordinary table.
	oracle.RunPython(t, "attach.py", "keyed", filepath.Join(srv.DataDir(), "lake", "keyed.lance"))
	do(t, db, "CALL lancesql.attach('lake', 'keyed', 'lake/keyed.lance')")
	do(t, db, "UPDATE keyed SET v = 'changed' WHERE id = 2")
	do(t, db, "DELETE FROM keyed WHERE id = 3")
	_, err = db.Exec("INSERT INTO keyed (id) VALUES (1)")
	requireError(t, err, 1062, "23000")
	do(t, db, "FLUSH TABLES keyed")
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "attach.py", "read", filepath.Join(srv.DataDir(), "lake", "keyed.lance")), &got))
	require.Equal(t, []int{1, 2, 4, 5}, got.IDs)
	srv.Stop()
}
