package table_test

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// Version 1 is the empty table, 2 adds three rows, 3 deletes one of them. Each handle keeps seeing its own version.
func Example() {
	ctx := context.Background()
	columns := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	s, err := schema.FromArrow(columns)
	if err != nil {
		fmt.Println(err)
		return
	}
	v1, err := table.Create(ctx, objstore.NewMem(), "t.lance", s, table.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, columns, []arrowx.Row{{int64(1)}, {int64(2)}, {int64(3)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Release()
	w, err := v1.NewFragmentWriter(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Abort()
	if err := w.Write(rec); err != nil {
		fmt.Println(err)
		return
	}
	f, err := w.Finish(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	v2, err := v1.Commit(ctx, table.Append{Fragments: []*table.Fragment{f}})
	if err != nil {
		fmt.Println(err)
		return
	}
	gone, err := v2.WriteDeletions(ctx, 0, roaring.BitmapOf(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	v3, err := v2.Commit(ctx, table.Delete{Updated: []*table.Fragment{v2.Fragment(0).WithDeletion(gone)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v1.CountRows(), v2.CountRows(), v3.CountRows())
	// Output: 0 3 2
}
