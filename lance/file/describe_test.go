package file_test

import (
	"context"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lance/file"
)

// describable are files to describe: those of the golden folder that pylance wrote.
func describable(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "testdata", "golden", "file", "*.lance"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	out := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		out[filepath.Base(name)] = b
	}
	return out
}

func TestDescribeGoldens(t *testing.T) {
	for name, b := range describable(t) {
		src := &memSource{data: b}
		d, problems := file.Describe(context.Background(), src)
		require.Empty(t, problems, name)
		r, err := file.Open(context.Background(), src, file.ReaderOptions{})
		require.NoError(t, err)
		require.Equal(t, r.Rows(), d.Rows)
		require.Equal(t, r.Version(), d.Version)
		require.Equal(t, r.Schema(), d.Schema)
		require.Len(t, d.Columns, len(r.Schema().Leaves(nil)), name)
		for _, c := range d.Columns {
			require.Equal(t, d.Rows, c.Rows(), name)
			require.NotEmpty(t, c.Field)
			require.Equal(t, "values", c.Encoding)
			for _, p := range c.Pages {
				require.NotEmpty(t, p.Layout)
				require.NotEmpty(t, p.Encodings)
			}
		}
	}
}

// TestDescribeGoesOn: one damaged column is reported with its place, and the others are described.
func TestDescribeGoesOn(t *testing.T) {
	b := slices.Clone(describable(t)["2.2-mixed.lance"])
	whole, problems := file.Describe(context.Background(), &memSource{data: b})
	require.Empty(t, problems)
	at := whole.Columns[1].Metadata.Position
	for i := range 8 {
		b[at+uint64(i)] = 0xff
	}
	d, problems := file.Describe(context.Background(), &memSource{data: b})
	require.Len(t, problems, 1)
	var bad *errs.Corruption
	require.ErrorAs(t, problems[0], &bad)
	require.Equal(t, int64(at), bad.Offset)
	require.Len(t, d.Columns, len(whole.Columns))
	require.Empty(t, d.Columns[1].Pages)
	require.Equal(t, whole.Columns[0], d.Columns[0])
	require.Equal(t, whole.Columns[2], d.Columns[2])
}

// TestDescribeBoundsWork: column metadata that all lies at the same place is refused before it is parsed again and again.
func TestDescribeBoundsWork(t *testing.T) {
	b := slices.Clone(describable(t)["2.2-mixed.lance"])
	whole, _ := file.Describe(context.Background(), &memSource{data: b})
	cmo := le64(b[len(b)-32:])
	for i := range whole.Columns {
		copy(b[cmo+16*uint64(i):], append(put64(0), put64(uint64(len(b)))...))
	}
	_, problems := file.Describe(context.Background(), &memSource{data: b})
	require.NotEmpty(t, problems)
	require.ErrorIs(t, errors.Join(problems...), errs.ErrCorruption)
}

func le64(b []byte) (n uint64) {
	for i := 7; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

func put64(n uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	return b
}

func TestDescribeDamaged(t *testing.T) {
	for name, good := range describable(t) {
		rng := rand.New(rand.NewSource(1))
		for range 200 {
			bad := slices.Clone(good)
			tail := max(0, len(bad)-2000)
			for range 1 + rng.Intn(3) {
				bad[tail+rng.Intn(len(bad)-tail)] = byte(rng.Intn(256))
			}
			d, problems := file.Describe(context.Background(), &memSource{data: bad})
			require.True(t, d != nil || len(problems) > 0, name)
		}
		for n := range len(good) / 37 {
			_, problems := file.Describe(context.Background(), &memSource{data: good[:37*n]})
			require.NotEmpty(t, problems, name)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	for _, b := range describable(f) {
		if len(b) < 64<<10 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, problems := file.Describe(context.Background(), &memSource{data: b})
		if d == nil && len(problems) == 0 {
			t.Fatal("neither a description nor a problem")
		}
	})
}
