package zonemap_test

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/zonemap"
	"lancesql/internal/predicate"
)

func Example() {
	ctx, dir := context.Background(), memDir()
	values := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range 100 {
		values.Append(int64(i))
	}
	column := values.NewArray()
	defer column.Release()

	b, _ := zonemap.NewBuilder(arrow.PrimitiveTypes.Int64, zonemap.Options{RowsPerZone: 25})
	_ = b.Append(column, 0) // rows 0 to 99 of fragment 7
	w, _ := zonemap.Write(ctx, dir, []zonemap.Part{{Fragment: 7, Stats: b.Finish()}}, zonemap.WriteOptions{})
	s, _ := zonemap.Open(ctx, dir, zonemap.Spec{Version: w.Version, Fragments: w.Fragments, Type: arrow.PrimitiveTypes.Int64})

	filter := predicate.Compare{Column: 3, Op: predicate.Lt, Value: int64(30)}
	left, _ := zonemap.Prune(filter, func(column int) []*zonemap.Segment { return []*zonemap.Segment{s} })
	fmt.Println(left.Ranges, left.ZonesKept, "of", left.Zones)
	// Output: [{7 0 50}] 2 of 4
}
