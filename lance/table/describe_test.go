package table

import (
	"context"
	"math/rand"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// describedManifest is a manifest file with every part this package writes.
func describedManifest(t testing.TB) (name string, b []byte) {
	t.Helper()
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{MemWAL: testMemWAL(), TableMetadata: map[string]string{"owner": "us"}, Config: map[string]string{"k": "v"}})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10), fakeFragment(5)}})
	d = commit(t, d, &CreateIndex{New: []IndexEntry{{Name: "id_idx", Fields: []int32{0}, DetailsType: "/lance.table.BTreeIndexDetails", Fragments: roaring.BitmapOf(0)}}})
	name = d.FileNames().Manifest
	b, err := st.ReadAll(ctx, name, 1<<20)
	require.NoError(t, err)
	return name, b
}

func TestDescribeManifest(t *testing.T) {
	name, b := describedManifest(t)
	d, problems := DescribeManifest(name, b)
	require.Empty(t, problems)
	require.EqualValues(t, 3, d.Version)
	require.Equal(t, writerLibrary+" "+writerVersion, d.Writer)
	require.Equal(t, "2.2", d.DataVersion)
	require.Equal(t, map[string]string{"owner": "us"}, d.TableMetadata)
	require.Equal(t, []string{"8 table config"}, FlagNames(d.WriterFlags))
	require.Len(t, d.Fragments, 2)
	require.Len(t, d.Indexes, 2)
	require.Equal(t, "create index", d.Transaction.Operation)
	require.EqualValues(t, 2, d.Transaction.ReadVersion)
	end := int64(0)
	for _, s := range d.Sections {
		require.Equal(t, end, s.Offset, s.Name)
		end += s.Size
	}
	require.EqualValues(t, len(b)-manifestFooter, end)
}

func TestDescribeManifestUnknownFlags(t *testing.T) {
	name, b := describedManifest(t)
	s, err := decodeManifest(name, b)
	require.NoError(t, err)
	s.m.ReaderFeatureFlags |= 1 << 40
	changed, err := encodeManifest(s.m, s.indices, nil)
	require.NoError(t, err)
	_, err = decodeManifest(name, changed)
	require.ErrorIs(t, err, errs.ErrUnsupported)
	d, problems := DescribeManifest(name, changed)
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], errs.ErrUnsupported)
	require.Len(t, d.Fragments, 2)
	require.Equal(t, []string{"1099511627776 unknown"}, FlagNames(d.ReaderFlags))
}

func TestDescribeManifestDamaged(t *testing.T) {
	name, good := describedManifest(t)
	rng := rand.New(rand.NewSource(1))
	for range 2000 {
		bad := slices.Clone(good)
		for range 1 + rng.Intn(4) {
			bad[rng.Intn(len(bad))] = byte(rng.Intn(256))
		}
		d, problems := DescribeManifest(name, bad)
		require.True(t, d != nil || len(problems) > 0)
	}
	for n := range good {
		_, problems := DescribeManifest(name, good[:n])
		require.NotEmpty(t, problems)
		var bad *errs.Corruption
		require.ErrorAs(t, problems[0], &bad)
		require.Equal(t, name, bad.Object)
		require.GreaterOrEqual(t, bad.Offset, int64(0))
	}
}

func FuzzDescribeManifest(f *testing.F) {
	name, b := describedManifest(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, problems := DescribeManifest(name, b)
		if d == nil && len(problems) == 0 {
			t.Fatal("neither a description nor a problem")
		}
		_, _ = DescribeTransaction(name, b)
	})
}
