package faultstore_test

import (
	"testing"

	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
	"lancesql/internal/objstore/objstoretest"
)

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store {
		return faultstore.New(objstore.NewMem(), faultstore.Plan{CountReads: true, CountWrites: true})
	})
}
