package logfile_test

import (
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

func TestFilesKeepTheirSize(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			root := "/a/b"
			if name == "disk" {
				root = t.TempDir() + "/a/b"
			}
			d, err := logfile.Open(fs, root)
			require.NoError(t, err)
			_, err = d.Open(3)
			require.ErrorIs(t, err, errs.ErrNotFound)
			_, err = d.Create(3, 0, 0)
			require.ErrorIs(t, err, errs.ErrLimit)
			f, err := d.Create(3, 1<<20+5, 0)
			require.NoError(t, err)
			require.NoError(t, f.WriteAt([]byte("end"), 1<<20+2))
			require.ErrorIs(t, f.WriteAt([]byte("over"), 1<<20+2), errs.ErrLimit)
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())

			d, err = logfile.Open(fs, root)
			require.NoError(t, err)
			slots, err := d.Slots()
			require.NoError(t, err)
			require.Equal(t, []int{3}, slots)
			f, err = d.Open(3)
			require.NoError(t, err)
			require.Equal(t, int64(1<<20+5), f.Size())
			p := make([]byte, 5)
			require.NoError(t, f.ReadAt(p, 1<<20))
			require.Equal(t, "\x00\x00end", string(p))
			require.ErrorIs(t, f.ReadAt(p, 1<<20+1), io.ErrUnexpectedEOF)
			require.NoError(t, f.Close())
			require.NoError(t, d.Remove(3))
			require.NoError(t, d.Remove(3))
		})
	}
}

// tightFS has so many bytes free.
type tightFS struct {
	vfs.FS
	free uint64
}

func (t tightFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: t.free}, nil
}

// A file that leaves too little is not begun.
func TestSpareSpaceIsLeft(t *testing.T) {
	d, err := logfile.Open(tightFS{vfs.NewMem(), 3 << 20}, "/a")
	require.NoError(t, err)
	_, err = d.Create(1, 2<<20, 2<<20)
	require.ErrorIs(t, err, errs.ErrNoSpace)
	slots, err := d.Slots()
	require.NoError(t, err)
	require.Empty(t, slots)
	f, err := d.Create(1, 2<<20, 1<<20)
	require.NoError(t, err)
	require.ErrorIs(t, f.Extend(2<<20, 2<<20), errs.ErrNoSpace)
	require.EqualValues(t, 2<<20, f.Size())
	require.NoError(t, f.Extend(2<<20, 0))
	require.EqualValues(t, 4<<20, f.Size())
	require.NoError(t, f.WriteAt([]byte("end"), 4<<20-3))
	require.ErrorIs(t, f.Extend(2<<30, 0), errs.ErrLimit)
	require.NoError(t, f.Close())
}
