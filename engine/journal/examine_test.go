package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/engine/journal"
	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

// examined writes twelve records into segments of three and returns their directory.
func examined(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	dir, err := logfile.OpenDisk(path)
	require.NoError(t, err)
	w, err := journal.Open(t.Context(), dir, journal.Options{SegmentBytes: 4 * 4096, FirstBytes: 4 * 4096}, func(journal.Record) error { return nil })
	require.NoError(t, err)
	for range 12 {
		_, err := w.Append(t.Context(), &journal.Record{Kind: journal.Commit, Catalog: []byte("x")})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return path
}

func examine(t *testing.T, path string) (x *journal.Examination, whole, lost []journal.J) {
	t.Helper()
	x, err := journal.Examine(logfile.LookAt(path), func(f journal.Found) error {
		if f.Lost {
			lost = append(lost, f.J)
		} else {
			whole = append(whole, f.J)
		}
		return nil
	})
	require.NoError(t, err)
	return x, whole, lost
}

func numbers(from, to journal.J) (out []journal.J) {
	for j := from; j <= to; j++ {
		out = append(out, j)
	}
	return out
}

// TestExamine: what Open refuses is found with the place and the records behind it, and nothing is changed.
func TestExamine(t *testing.T) {
	segment := func(path string, slot int) string { return filepath.Join(path, fmt.Sprintf("%d.log", slot)) }
	for _, c := range []struct {
		name  string
		harm  func(t *testing.T, path string)
		whole []journal.J
		lost  []journal.J
		next  journal.J // first lost record, 0 = no damage
	}{
		{"whole", func(*testing.T, string) {}, numbers(1, 12), nil, 0},
		{"torn tail", func(t *testing.T, p string) { flip(t, segment(p, 3), 3*4096+20) }, numbers(1, 11), nil, 0},
		{"record in a segment", func(t *testing.T, p string) { flip(t, segment(p, 1), 2*4096+50) }, numbers(1, 4), numbers(6, 12), 5},
		{"last record of a segment", func(t *testing.T, p string) { flip(t, segment(p, 1), 3*4096+50) }, numbers(1, 5), numbers(7, 12), 6},
		{"segment missing", func(t *testing.T, p string) { require.NoError(t, os.Remove(segment(p, 1))) }, nil, numbers(7, 12), 1},
		{"header of the newest", func(t *testing.T, p string) { flip(t, segment(p, 3), 17) }, numbers(1, 9), nil, 10},
		{"none", func(t *testing.T, p string) { require.NoError(t, os.RemoveAll(p)) }, nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := examined(t)
			c.harm(t, path)
			x, whole, lost := examine(t, path)
			require.Equal(t, c.whole, whole)
			require.Equal(t, c.lost, lost)
			if c.next == 0 {
				require.Nil(t, x.Damage)
				return
			}
			require.NotNil(t, x.Damage)
			require.Equal(t, c.next, x.Damage.Next)
			require.ErrorIs(t, x.Damage.Err, errs.ErrCorruption)
		})
	}
}

func flip(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[at] ^= 0xff
	require.NoError(t, os.WriteFile(name, b, 0o600))
}
