package btree_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lance/rowaddr"
)

func exampleValues(v ...string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(v, nil)
	return b.NewArray()
}

// An index of a table: built from rows in any order, asked for a range.
func Example() {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "t.lance/_indices/5a1c", nil)
	sorter, _ := btree.NewSorter(arrow.BinaryTypes.String, 0, nil)
	addrs := []uint64{uint64(rowaddr.New(0, 0)), uint64(rowaddr.New(0, 1)), uint64(rowaddr.New(2, 0))}
	_ = sorter.Add(btree.Batch{Values: exampleValues("pear", "apple", "quince"), IDs: addrs})
	sum, err := btree.Build(ctx, dir, arrow.BinaryTypes.String, sorter.Stream(), btree.Options{})
	fmt.Println(sum.Rows, sum.Files[0].Name, sum.Files[1].Name, err)

	x, _ := btree.Open(ctx, dir, btree.OpenOptions{Fragments: roaring.BitmapOf(0, 1, 2)})
	defer x.Close()
	found, err := x.Search(ctx, indexes.Range{Low: indexes.Bound{Value: "b"}})
	fmt.Println(slices.Collect(found.Addrs.All()), found.Exact, err)
	// Output:
	// 3 page_data.lance page_lookup.lance <nil>
	// [0:0 2:0] true <nil>
}

// The sidecar of a generation: the newest row of a key among the first rows.
func ExampleBuildPK() {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "9f3a01bc_gen_4/"+btree.PKDir, nil)
	sorter, _ := btree.NewSorter(arrow.BinaryTypes.String, 0, nil)
	_ = sorter.Add(btree.Batch{Values: exampleValues("b", "a", "b", "b"), IDs: []uint64{0, 1, 2, 3}})
	_, err := btree.BuildPK(ctx, dir, arrow.BinaryTypes.String, sorter.Stream())
	fmt.Println(err)

	pk, _ := btree.OpenPK(ctx, dir, arrow.BinaryTypes.String, 4, nil)
	keys, _ := btree.NewKeys(exampleValues("a", "b", "c"))
	for _, bound := range []uint64{4, 3, 1, 0} {
		hits, err := pk.Last(ctx, keys, bound, nil)
		fmt.Println(bound, hits, err)
	}
	// Output:
	// <nil>
	// 4 [{0 1} {1 3}] <nil>
	// 3 [{0 1} {1 2}] <nil>
	// 1 [{1 0}] <nil>
	// 0 [] <nil>
}
