package pkstore_test

import (
	"fmt"

	"lancesql/indexes/pkstore"
	"lancesql/internal/rowkey"
)

func ExampleSpace_Newest() {
	st, _ := pkstore.Open()
	defer func() { _ = st.Close() }()
	sp := st.New()
	k := rowkey.Key(rowkey.AppendInt64(nil, 42))
	_ = sp.Put([]rowkey.Key{k, k}, []uint64{3, 8}, []bool{false, true})
	fmt.Println(sp.Newest(k, 8)) // what a view that ends before row 8 sees
	fmt.Println(sp.Newest(k, 9))
	// Output:
	// 3 false true <nil>
	// 8 true true <nil>
}
