package sqlbackend

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/stretchr/testify/require"

	"lancesql/internal/rowkey"
)

// keyCase is one key column; values are drawn from its domain.
type keyCase struct {
	text, collation string
	draw            func(r *rand.Rand) any
}

func keyCases() []keyCase {
	ints := func(lo, hi int64) func(*rand.Rand) any {
		return func(r *rand.Rand) any {
			if r.IntN(3) == 0 {
				return lo + r.Int64N(3)
			}
			return lo + r.Int64N(hi-lo+1)
		}
	}
	alphabet := []rune("aAbBzZäÄéeEßsS 0_-日本\x00\t\U0001F600")
	text := func(r *rand.Rand) any {
		var b strings.Builder
		for range r.IntN(5) {
			b.WriteRune(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	trimmed := func(r *rand.Rand) any { return strings.TrimRight(text(r).(string), " ") }
	return []keyCase{
		{"tinyint", "", ints(-128, 127)},
		{"smallint unsigned", "", ints(0, 65535)},
		{"int", "", ints(-5, 5)},
		{"int unsigned", "", ints(0, 1<<32-1)},
		{"bigint", "", ints(-1<<40, 1<<40)},
		{"bigint unsigned", "", func(r *rand.Rand) any { return r.Uint64() }},
		{"float", "", func(r *rand.Rand) any { return float32(r.IntN(9)-4) / 4 }},
		{"double", "", func(r *rand.Rand) any {
			return []any{math.Copysign(0, -1), 0.0, r.NormFloat64(), r.NormFloat64() * 1e300}[r.IntN(4)]
		}},
		{"decimal(6,2)", "", func(r *rand.Rand) any { return float64(r.IntN(2001)-1000) / 8 }},
		{"decimal(60,20)", "", func(r *rand.Rand) any { return r.IntN(2001) - 1000 }},
		{"date", "", func(r *rand.Rand) any { return date("1969-12-30").AddDate(0, 0, r.IntN(5)) }},
		{"datetime(6)", "", func(r *rand.Rand) any { return date("1969-12-31").Add(time.Duration(r.IntN(5)-2) * 36 * time.Hour / 5) }},
		{"year", "", ints(1901, 2155)},
		{"enum('z','a','m')", "utf8mb4_0900_ai_ci", func(r *rand.Rand) any { return []any{"z", "a", "m"}[r.IntN(3)] }},
		{"set('z','a','m')", "utf8mb4_0900_ai_ci", func(r *rand.Rand) any { return uint64(r.IntN(8)) }},
		{"bit(9)", "", func(r *rand.Rand) any { return uint64(r.IntN(512)) }},
		{"varchar(20)", "utf8mb4_0900_ai_ci", text},
		{"varchar(20)", "utf8mb4_0900_as_cs", text},
		{"varchar(20)", "utf8mb4_0900_bin", text},
		{"varchar(20)", "utf8mb4_bin", text},
		{"varchar(20)", "utf8mb4_general_ci", trimmed},
		{"varchar(20)", "utf8mb4_unicode_ci", trimmed},
		{"varbinary(20)", "", func(r *rand.Rand) any { return []byte(text(r).(string)) }},
	}
}

// buildKey makes the layout of a table whose key is the given columns.
func buildKey(t testing.TB, cases []keyCase) (layout, sql.Schema, []codec) {
	t.Helper()
	s := &shape{Collation: "utf8mb4_0900_ai_ci"}
	var columns sql.Schema
	var codecs []codec
	for i, c := range cases {
		typ, err := parseType(sql.NewEmptyContext(), c.text, c.collation)
		require.NoError(t, err)
		k, err := newCodec(typ)
		require.NoError(t, err)
		name := string(rune('a' + i))
		columns = append(columns, &sql.Column{Name: name, Type: typ})
		codecs = append(codecs, k)
		s.Key = append(s.Key, shapePart{Column: name})
	}
	l, err := newLayout(s, columns, codecs)
	require.NoError(t, err)
	return l, columns, codecs
}

// tuple draws one value per column: as the frontend has it, and as an Arrow cell.
func tuple(t testing.TB, r *rand.Rand, cases []keyCase, columns sql.Schema, codecs []codec) (values, cells []any) {
	ctx := context.Background()
	for i, c := range cases {
		v, _, err := columns[i].Type.Convert(ctx, c.draw(r))
		require.NoError(t, err)
		cell, err := codecs[i].encode(ctx, v)
		require.NoError(t, err)
		values, cells = append(values, v), append(cells, cell)
	}
	return values, cells
}

func compareTuples(t testing.TB, columns sql.Schema, a, b []any) int {
	for i, c := range columns {
		n, err := c.Type.Compare(context.Background(), a[i], b[i])
		require.NoError(t, err)
		if n != 0 {
			return n
		}
	}
	return 0
}

// TestKeysSortAsSQL: for random tuples of every key type and of random composites, bytewise comparison of the keys is
// the frontend's comparison of the tuples, and keys are equal exactly when the tuples are.
func TestKeysSortAsSQL(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	all := keyCases()
	keys := make([][]keyCase, 0, 60)
	for _, c := range all {
		keys = append(keys, []keyCase{c})
	}
	for range 40 {
		var composite []keyCase
		for range 2 + r.IntN(2) {
			composite = append(composite, all[r.IntN(len(all))])
		}
		keys = append(keys, composite)
	}
	for _, cases := range keys {
		l, columns, codecs := buildKey(t, cases)
		for range 300 {
			a, ca := tuple(t, r, cases, columns, codecs)
			b, cb := tuple(t, r, cases, columns, codecs)
			if r.IntN(3) == 0 {
				copy(b, a[:1])
				copy(cb, ca[:1])
			}
			ka, err := l.key.encode(ca)
			require.NoError(t, err)
			kb, err := l.key.encode(cb)
			require.NoError(t, err)
			want := compareTuples(t, columns, a, b)
			got := cmp.Compare(ka, kb)
			if (want == 0) != (got == 0) {
				t.Fatalf("seed %d, key %v: %q and %q compare %d, their keys %d", seed, cases, a, b, want, got)
			}
			if l.key.ordered {
				require.Equal(t, want, got, "key %v: %q and %q", cases, a, b)
			}
			checkPrefix(t, &l.key, ca, ka)
		}
	}
}

// checkPrefix: the encoding of leading parts starts every key that has them, and after() encloses it.
func checkPrefix(t *testing.T, m *keyMap, cells []any, key rowkey.Key) {
	for n := range cells {
		p, err := m.encode(cells[:n])
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(key), string(p)))
		if hi := after(p); hi != "" {
			require.Less(t, key, hi)
		}
	}
	require.Less(t, key, after(key))
}

func TestPaddedKeys(t *testing.T) {
	ctx := context.Background()
	for collation, equal := range map[string]bool{
		"utf8mb4_general_ci": true, "latin1_swedish_ci": true, "utf8mb4_0900_ai_ci": false, "utf8mb4_0900_bin": false,
	} {
		l, _, codecs := buildKey(t, []keyCase{{text: "varchar(20)", collation: collation}})
		a, err := codecs[0].encode(ctx, "x")
		require.NoError(t, err)
		b, err := codecs[0].encode(ctx, "x  ")
		require.NoError(t, err)
		ka, err := l.key.encode([]any{a})
		require.NoError(t, err)
		kb, err := l.key.encode([]any{b})
		require.NoError(t, err)
		require.Equal(t, equal, ka == kb, collation)
	}
}

func TestPrefixKeys(t *testing.T) {
	s := &shape{Key: []shapePart{{Column: "a", Length: 2}}}
	typ, err := parseType(sql.NewEmptyContext(), "text", "utf8mb4_0900_ai_ci")
	require.NoError(t, err)
	k, err := newCodec(typ)
	require.NoError(t, err)
	l, err := newLayout(s, sql.Schema{{Name: "a", Type: typ}}, []codec{k})
	require.NoError(t, err)
	require.False(t, l.key.ordered)
	a, err := l.key.encode([]any{"äbc"})
	require.NoError(t, err)
	b, err := l.key.encode([]any{"ÄBx"})
	require.NoError(t, err)
	require.Equal(t, a, b)
}

func TestNaturalKeys(t *testing.T) {
	for _, c := range []struct {
		text, collation string
		natural         bool
	}{
		{"int", "", true}, {"bigint", "", true}, {"mediumint", "", true}, {"varchar(9)", "utf8mb4_bin", true},
		{"varchar(9)", "utf8mb4_0900_bin", true}, {"varbinary(9)", "", true}, {"int unsigned", "", false},
		{"varchar(9)", "utf8mb4_0900_ai_ci", false}, {"smallint", "", false}, {"double", "", false},
		{"datetime", "", false}, {"enum('a')", "utf8mb4_0900_bin", false}, {"decimal(5,0)", "", false},
	} {
		l, _, _ := buildKey(t, []keyCase{{text: c.text, collation: c.collation}})
		require.Equal(t, c.natural, l.key.hidden < 0, c.text)
		key := l.schema.Field(l.key.columns[0])
		pos, ok := key.Metadata.GetValue(keyPosMetadata)
		require.True(t, ok)
		require.Equal(t, "1", pos)
		require.False(t, key.Nullable)
	}
}
