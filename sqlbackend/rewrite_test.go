package sqlbackend

import (
	"testing"

	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/stretchr/testify/require"
)

func TestRewriteWords(t *testing.T) {
	for _, c := range [][2]string{
		{"SELECT (a = 1) IS UNKNOWN", "SELECT (a = 1) IS NULL"},
		{"SELECT a is not Unknown, b IS NOT NULL", "SELECT a is not NULL, b IS NOT NULL"},
		{"SELECT 'IS UNKNOWN', `unknown`, unknown FROM t -- is unknown", ""},
		{"SELECT a IS /* unknown */ NULL, a IS 'unknown'", ""},
		{"INSERT INTO t VALUES (N'Ada', n'x''y', 'n''z')", "INSERT INTO t VALUES ('Ada', 'x''y', 'n''z')"},
		{"SELECT n 'alias', t.n, 'an''N', `n` FROM n", ""},
		{"SELECT 1 -- N'", ""},
	} {
		want := c[1]
		if want == "" {
			want = c[0]
		}
		require.Equal(t, want, rewriteWords(c[0], sqlparser.ParserOptions{}))
	}
}
