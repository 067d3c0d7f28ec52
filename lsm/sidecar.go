package lsm

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
)

// writeSidecars writes the `_pk_index` of a generation: every row's key, superseded rows and tombstones too, with its
// offset. keyBytes is the size of the keys. Spec: MemWAL, "Primary-key sidecars".
func (t *Table) writeSidecars(ctx context.Context, root string, batches []arrow.RecordBatch) (keyBytes uint64, err error) {
	typ, err := t.pkType()
	if err != nil {
		return 0, err
	}
	sorter, err := btree.NewSorter(typ, 0, t.o.Alloc)
	if err != nil {
		return 0, err
	}
	first := uint64(0)
	for _, rec := range batches {
		values, err := btree.PKValues(t.o.Alloc, rec, t.keyCols)
		if err != nil {
			return 0, err
		}
		ids := make([]uint64, rec.NumRows())
		for i := range ids {
			ids[i] = first + uint64(i)
		}
		first += uint64(rec.NumRows())
		keyBytes += uint64(arrowx.ArrayBytes(values))
		err = sorter.Add(btree.Batch{Values: values, IDs: ids})
		values.Release()
		if err != nil {
			return 0, fmt.Errorf("sort keys: %w", err)
		}
	}
	_, err = btree.BuildPK(ctx, store.NewDir(t.o.Store, root+"/"+btree.PKDir, t.o.Alloc), typ, sorter.Stream())
	return keyBytes, err
}

// pkType is the type of the sidecar's values.
func (t *Table) pkType() (arrow.DataType, error) {
	types := make([]arrow.DataType, len(t.keyCols))
	for i, c := range t.keyCols {
		types[i] = t.physical.Field(c).Type
	}
	return btree.PKType(types)
}
