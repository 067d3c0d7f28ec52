package table

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/rowaddr"
)

// TestOracleBlobs reads blob v2 columns of the reference: descriptors by scan, bytes by address, and refuses to write them.
func TestOracleBlobs(t *testing.T) {
	ctx := ctxOf(t)
	dir, st := local(t)
	type row struct {
		ID         int64
		SHA256     *string
		Descriptor []any
	}
	var want map[string][]row
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "table_blobs.py", dir), &want))
	require.Len(t, want, 2)
	for name, rows := range want {
		d, err := Open(ctx, st, name)
		require.NoError(t, err, name)
		require.Len(t, rows, 20)
		var addrs []rowaddr.Addr
		var got [][]any
		rd, err := d.Rows(ctx, ScanOptions{Columns: []string{"id", "b"}, RowAddress: true})
		require.NoError(t, err)
		for rec := range batches(t, rd) {
			b := rec.Column(1).(*array.Struct)
			for i := range b.Len() {
				addrs = append(addrs, rowaddr.Addr(rec.Column(2).(*array.Uint64).Value(i)))
				if b.IsNull(i) {
					got = append(got, nil)
					continue
				}
				got = append(got, []any{float64(b.Field(0).(*array.Uint8).Value(i)), float64(b.Field(1).(*array.Uint64).Value(i)),
					float64(b.Field(2).(*array.Uint64).Value(i)), float64(b.Field(3).(*array.Uint32).Value(i)), b.Field(4).(*array.String).Value(i)})
			}
		}
		require.NoError(t, rd.Close())
		blobs, err := d.Blobs(ctx, "b", addrs)
		require.NoError(t, err)
		for i, w := range rows {
			require.Equal(t, w.Descriptor, got[i], "%s row %d", name, i)
			require.Equal(t, w.SHA256 == nil, blobs[i] == nil, "%s row %d", name, i)
			if w.SHA256 != nil {
				sum := sha256.Sum256(blobs[i])
				require.Equal(t, *w.SHA256, hex.EncodeToString(sum[:]), "%s row %d", name, i)
			}
		}
		_, err = d.Blobs(ctx, "id", addrs)
		require.ErrorIs(t, err, errs.ErrInvalid)

		// What would write the column anew is refused by name; what does not, works.
		_, _, err = d.Compact(ctx, CompactOptions{})
		require.ErrorIs(t, err, errs.ErrUnsupported)
		require.ErrorContains(t, err, "blob v2")
		next, _, err := d.DeleteWhere(ctx, idBelow(2))
		require.NoError(t, err)
		require.Equal(t, uint64(18), next.CountRows())
		next, err = next.DropColumns(ctx, "b")
		require.NoError(t, err)
		require.Len(t, scan(t, next, 0), 18)
		_, err = next.Overwrite(ctx, Records(arrowSchema(t, next)), WriteOptions{})
		require.NoError(t, err)
		require.NotEmpty(t, blobFolders(t, st, name))
		_, err = Cleanup(ctx, st, name, keepNone)
		require.NoError(t, err)
		require.Empty(t, blobFolders(t, st, name))
	}
}

func blobFolders(t *testing.T, st objstore.Store, root string) (out []string) {
	t.Helper()
	require.NoError(t, st.List(ctxOf(t), root+"/data", func(i objstore.Info) error {
		if i.Dir {
			out = append(out, i.Name)
		}
		return nil
	}))
	return out
}
