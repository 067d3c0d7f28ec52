package engine

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

// decodeName inverts encodeName for names that were not cut; ok is false for anything encodeName does not make.
func decodeName(s string) (name string, ok bool) {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '-' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		b, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", false
		}
		out = append(out, b...)
		i += 2
	}
	return string(out), encodeName(string(out)) == s
}

// requireSafe checks what the invariant of names.go promises for one encoded name.
func requireSafe(t *testing.T, name, encoded string) {
	t.Helper()
	require.NotEmpty(t, encoded, "%q", name)
	require.LessOrEqual(t, len(encoded), encodedBytesMax, "%q", name)
	require.NotContains(t, []string{".", ".."}, encoded)
	for _, c := range []byte(encoded) {
		require.True(t, isPlain(c) || c == '-', "%q has byte %q", encoded, c)
	}
	require.False(t, strings.HasPrefix(strings.ToLower(encoded), systemPrefix), "%q", encoded)
	require.True(t, isDirName(encoded), "%q", encoded)
	require.True(t, isTablePath(tablePath(encoded, name)))
}

func TestEncodeName(t *testing.T) {
	for name, want := range map[string]string{
		"users":                  "users",
		"Users_2":                "Users_2",
		"_x":                     "_x",
		"_lancesq":               "_lancesq",
		"_lancesql":              "-5flancesql",
		"_LanceSQL":              "-5fLanceSQL",
		"_lancesql_more":         "-5flancesql_more",
		"x_lancesql":             "x_lancesql",
		"-5flancesql":            "-2d5flancesql",
		"..":                     "-2e-2e",
		".":                      "-2e",
		".dropped":               "-2edropped",
		"a/b":                    "a-2fb",
		"../../etc/passwd":       "-2e-2e-2f-2e-2e-2fetc-2fpasswd",
		"nul\x00":                "nul-00",
		"t.lance":                "t-2elance",
		"with space":             "with-20space",
		"größe":                  "gr-c3-b6-c3-9fe",
		"表":                      "-e8-a1-a8",
		"🦭":                      "-f0-9f-a6-ad",
		"a-h-b":                  "a-2dh-2db",
		"\\":                     "-5c",
		"%":                      "-25",
		"~":                      "-7e",
		"\n":                     "-0a",
		"\x7f":                   "-7f",
		strings.Repeat("a", 200): strings.Repeat("a", 200),
	} {
		require.Equal(t, want, encodeName(name), "%q", name)
		requireSafe(t, name, want)
		back, ok := decodeName(want)
		require.True(t, ok, "%q", want)
		require.Equal(t, name, back)
	}
}

func TestEncodeLongNames(t *testing.T) {
	// The hash is part of the format: a change would make existing tables unfindable.
	require.Equal(t, strings.Repeat("a", 120)+"-h-a92efd82109373e58f9a2056dee01e80", encodeName(strings.Repeat("a", 201)))
	require.Equal(t, strings.Repeat("-e8-a1-a8", 13)+"-e8-h-"+hashOf(strings.Repeat("表", 64)), encodeName(strings.Repeat("表", 64)))
	seen := map[string]string{}
	for n := 180; n <= nameBytesMax; n++ {
		for _, c := range []string{"a", "-", "é", "_"} {
			for _, tail := range []string{"", "a", "b", "/"} {
				name := strings.Repeat(c, n/len(c)) + tail
				encoded := encodeName(name)
				requireSafe(t, name, encoded)
				if other, ok := seen[encoded]; ok {
					require.Equal(t, other, name, "both are %q", encoded)
				}
				seen[encoded] = name
			}
		}
	}
}

func hashOf(name string) string {
	e := encodeName(name)
	return e[len(e)-2*hashBytes:]
}

// TestEncodeIsInjective goes through every name of up to three bytes over the bytes that matter, and random ones.
func TestEncodeIsInjective(t *testing.T) {
	alphabet := []byte{0, 1, '-', '.', '/', '0', '2', '5', 'A', '_', 'a', 'f', 'h', 'l', 0x80, 0xff}
	seen := map[string]string{}
	add := func(name string) {
		encoded := encodeName(name)
		requireSafe(t, name, encoded)
		other, ok := seen[encoded]
		require.False(t, ok, "%q and %q are both %q", name, other, encoded)
		seen[encoded] = name
		back, ok := decodeName(encoded)
		require.True(t, ok && back == name, "%q does not decode", encoded)
	}
	for i := range 256 {
		add(string([]byte{byte(i)}))
	}
	for _, a := range alphabet {
		for _, b := range alphabet {
			add(string([]byte{a, b}))
			for _, c := range alphabet {
				add(string([]byte{a, b, c}))
			}
		}
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 20_000 {
		name := make([]byte, 4+rng.IntN(8))
		for i := range name {
			name[i] = alphabet[rng.IntN(len(alphabet))]
		}
		if _, dup := seen[encodeName(string(name))]; !dup {
			add(string(name))
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "..", "/", "\x00", strings.Repeat("表", 64), strings.Repeat("a", nameBytesMax), "_lancesql"} {
		require.NoError(t, checkName("table", good), "%q", good)
	}
	require.ErrorIs(t, checkName("table", ""), errs.ErrInvalid)
	require.ErrorIs(t, checkName("table", "\xff"), errs.ErrInvalid)
	require.ErrorIs(t, checkName("table", "a\xc3"), errs.ErrInvalid)
	require.ErrorIs(t, checkName("table", strings.Repeat("a", nameBytesMax+1)), errs.ErrLimit)
}

func TestPathChecks(t *testing.T) {
	for _, bad := range []string{"", "a", "a/b", "a/.lance", "/b.lance", "../b.lance", "a/../b.lance", "a/b.lance/c.lance",
		"_lancesql/b.lance", "_LANCESQL2/b.lance", ".dropped/b.lance", "a/b.LANCE", "a b/c.lance", "a/b.lance/", "a/" + strings.Repeat("b", 201) + ".lance"} {
		require.False(t, isTablePath(bad), "%q", bad)
	}
	require.True(t, isTablePath("a-2f/b.lance"))
	require.Equal(t, ".dropped/01020304-0000-0000-0000-000000000000", droppedPath(TableID{1, 2, 3, 4}))
}

func Example_encodeName() {
	for _, name := range []string{"orders", "order items", "../etc", "_lancesql"} {
		fmt.Println(tablePath("shop", name))
	}
	// Output:
	// shop/orders.lance
	// shop/order-20items.lance
	// shop/-2e-2e-2fetc.lance
	// shop/-5flancesql.lance
}

func FuzzEncodeName(f *testing.F) {
	f.Add("users")
	f.Add("../x")
	f.Add("_lancesql")
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" {
			return
		}
		encoded := encodeName(name)
		requireSafe(t, name, encoded)
		if back, ok := decodeName(encoded); ok && back != name && len(encoded) <= encodedBytesMax {
			t.Fatalf("%q and %q are both %q", name, back, encoded)
		}
	})
}
