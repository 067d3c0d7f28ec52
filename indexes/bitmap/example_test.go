package bitmap_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lance/rowaddr"
)

func Example() {
	ctx, dir := context.Background(), store.NewDir(objstore.NewMem(), "", nil)
	status := array.NewStringBuilder(memory.DefaultAllocator)
	status.AppendValues([]string{"open", "closed", "open"}, nil)
	status.AppendNull()
	column := status.NewArray()
	defer column.Release()

	b, _ := bitmap.NewBuilder(dir, arrow.BinaryTypes.String, bitmap.Options{})
	_ = b.Append(ctx, column, []rowaddr.Addr{rowaddr.New(2, 0), rowaddr.New(2, 1), rowaddr.New(2, 2), rowaddr.New(2, 3)})
	w, _ := b.Finish(ctx)
	s, _ := bitmap.Open(ctx, dir, bitmap.Spec{Fragments: roaring.BitmapOf(2), Type: arrow.BinaryTypes.String, Size: w.File.Size})
	open, _ := s.Search(ctx, indexes.Equals("open"))
	null, _ := s.Search(ctx, indexes.IsNull{})
	fmt.Println(slices.Collect(open.Addrs.All()), slices.Collect(null.Addrs.All()), open.Exact)
	// Output: [2:0 2:2] [2:3] true
}
