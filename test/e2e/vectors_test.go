package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/server"
)

// A VECTOR is what other Lance programs take for an embedding: pylance finds neighbours in our table, and we read vectors that it
// wrote. They live through kill -9 in the WAL and through flushes.
func TestVectors(t *testing.T) {
	srv := server.Start(t, server.Options{Config: small()})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE lake")
	do(t, db, "CREATE TABLE lake.v (id BIGINT PRIMARY KEY, e VECTOR(3))")
	for i := range 50 {
		do(t, db, "INSERT INTO lake.v VALUES (?, STRING_TO_VECTOR(?))", i, fmt.Sprintf("[%d, %d.5, -%d]", i, i, i))
	}
	do(t, db, "INSERT INTO lake.v VALUES (50, NULL)")
	srv.Kill()
	srv.Start()
	db = srv.Open("lake")
	require.Equal(t, "[7, 7.5, -7]", one(t, db, "SELECT VECTOR_TO_STRING(e) FROM v WHERE id = 7"))
	do(t, db, "UPDATE v SET e = STRING_TO_VECTOR('[100, 100, 100]') WHERE id = 8")
	do(t, db, "FLUSH TABLES")
	nearest := func(table string) string {
		return string(oracle.RunPython(t, "vectors.py", "nearest", filepath.Join(srv.DataDir(), "lake", table+".lance"), "7", "7", "-7"))
	}
	var got struct {
		Type string `json:"type"`
		IDs  []int  `json:"ids"`
	}
	require.NoError(t, json.Unmarshal([]byte(nearest("v")), &got))
	require.Equal(t, "fixed_size_list<item: float>[3]", got.Type)
	require.Equal(t, []int{7, 6}, got.IDs)
	require.Equal(t, "7", one(t, db, "SELECT id FROM v ORDER BY VEC_DISTANCE_L2_SQUARED(e, STRING_TO_VECTOR('[7, 7, -7]')) IS NULL, VEC_DISTANCE_L2_SQUARED(e, STRING_TO_VECTOR('[7, 7, -7]')) LIMIT 1"))

	oracle.RunPython(t, "vectors.py", "make", filepath.Join(srv.DataDir(), "incoming", "theirs.lance"))
	do(t, db, "CALL lancesql.attach('lake', 'theirs', 'incoming/theirs.lance')")
	require.Equal(t, "[1, 2.5, -3]", one(t, db, "SELECT VECTOR_TO_STRING(e) FROM theirs WHERE id = 1"))
	require.Equal(t, "1", one(t, db, "SELECT COUNT(*) FROM theirs WHERE e IS NULL"))
	do(t, db, "INSERT INTO theirs VALUES (5, STRING_TO_VECTOR('[7, 7, -6]'))")
	do(t, db, "FLUSH TABLES")
	require.NoError(t, json.Unmarshal([]byte(nearest("theirs")), &got))
	require.Equal(t, 5, got.IDs[0])
	srv.Stop()
	checked(t, srv)
}
