package journal

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

// A damaged header of the newest segment is not taken for a free file.
func TestDamagedHeaderIsRefused(t *testing.T) {
	for _, at := range []int64{0, 13, 17, 25} {
		fs := vfs.NewMem()
		w, _, err := openAll(fs)
		require.NoError(t, err)
		for n := 1; n <= 4; n++ {
			_, err := w.Append(context.Background(), record(n))
			require.NoError(t, err)
		}
		slot := w.cur.slot
		require.NoError(t, w.Close())
		dir, err := logfile.Open(fs, "/root/journal")
		require.NoError(t, err)
		f, err := dir.Open(slot)
		require.NoError(t, err)
		b := make([]byte, 1)
		require.NoError(t, f.ReadAt(b, at))
		b[0] ^= 0x10
		require.NoError(t, f.WriteAt(b, at))
		require.NoError(t, f.Close())
		_, _, err = openAll(fs)
		require.ErrorIs(t, err, errs.ErrCorruption, "byte %d", at)
	}
}
