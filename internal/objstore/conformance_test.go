package objstore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
	"lancesql/internal/objstore/objstoretest"
)

// openLocal opens a store that is closed with the test.
func openLocal(t *testing.T, fs vfs.FS, root string) *objstore.Local {
	t.Helper()
	l, err := objstore.OpenLocal(fs, root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) objstore.Store{
		"Mem":        func(*testing.T) objstore.Store { return objstore.NewMem() },
		"LocalDisk":  func(t *testing.T) objstore.Store { return openLocal(t, vfs.Default, t.TempDir()+"/new/root") },
		"LocalMemFS": func(t *testing.T) objstore.Store { return openLocal(t, vfs.NewMem(), "/root") },
		"LocalCrashableMemFS": func(t *testing.T) objstore.Store {
			return openLocal(t, vfs.NewCrashableMem(), "relative/root")
		},
		"LocalFaultFS": func(t *testing.T) objstore.Store {
			return openLocal(t, faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{}), "/root")
		},
	} {
		t.Run(name, func(t *testing.T) { objstoretest.Run(t, open) })
	}
}
