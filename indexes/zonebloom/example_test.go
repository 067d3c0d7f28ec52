package zonebloom_test

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonebloom"
	"lancesql/internal/objstore"
)

func Example() {
	ctx, dir := context.Background(), store.NewDir(objstore.NewMem(), "", nil)
	numbers, offsets := array.NewInt64Builder(memory.DefaultAllocator), make([]uint32, 100)
	for i := range offsets {
		numbers.Append(int64(i * 7919 % 100)) // no order a zone map could use
		offsets[i] = uint32(i)
	}
	column := numbers.NewArray()
	defer column.Release()

	b, _ := zonebloom.NewBuilder(ctx, dir, arrow.PrimitiveTypes.Int64, zonebloom.Options{Items: 10})
	_ = b.Begin(0)
	_ = b.Append(column, offsets)
	w, _ := b.Finish(ctx)
	s, _ := zonebloom.Open(ctx, dir, zonebloom.Spec{Fragments: w.Fragments, Type: arrow.PrimitiveTypes.Int64})
	found, _ := s.Search(ctx, indexes.Equals(int64(19))) // in row 1
	rows, _ := found.Addrs.Count()
	fmt.Println(rows, found.Exact)
	// Output: 10 false
}
