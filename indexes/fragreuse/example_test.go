package fragreuse_test

import (
	"context"
	"fmt"
	"log"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/indexes/fragreuse"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// Fragments 1 and 2 of two rows each became fragment 3; row 1:1 had been deleted. An index still holds the old addresses.
func Example() {
	survivors := []byte{
		2, 0, 0, 0, 0, 0, 0, 0, // fragments
		1, 0, 0, 0, 0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, // fragment 1: row 0
		2, 0, 0, 0, 0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 16, 0, 0, 0, 0, 0, 1, 0, // fragment 2: rows 0 and 1
	}
	history := fragreuse.New(&table.FragmentReuse{Steps: []table.ReuseStep{{
		Sources:      []table.ReuseDigest{{ID: 1, PhysicalRows: 2, DeletedRows: 1}, {ID: 2, PhysicalRows: 2}},
		Destinations: []table.ReuseDigest{{ID: 3, PhysicalRows: 3}},
		Ordered:      &table.ReuseOrdered{Survivors: survivors},
	}}}, fragreuse.Options{})

	t, err := history.For(context.Background(), roaring.BitmapOf(1, 2, 7))
	if err != nil {
		log.Fatal(err)
	}
	addrs := []rowaddr.Addr{rowaddr.New(1, 0), rowaddr.New(1, 1), rowaddr.New(2, 1), rowaddr.New(7, 0)}
	addrs, err = t.Sorted(context.Background(), addrs)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(addrs, t.Coverage())
	// Output: [3:0 3:2 7:0] {3,7}
}
