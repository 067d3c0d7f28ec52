package zonemap_test

import (
	"fmt"

	"lancesql/indexes/store"
	"lancesql/indexes/zonemap"
	"lancesql/internal/objstore"
)

func memStore() objstore.Store { return objstore.NewMem() }

// print makes zones comparable, NaN and signed zeros included.
func print(z zonemap.Zone) string { return fmt.Sprintf("%+v", z) }

func memDir() store.Dir { return store.NewDir(objstore.NewMem(), "", nil) }
