package memtable_test

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/memtable"
)

func ExampleMemTable_Batches() {
	st, _ := pkstore.Open()
	defer func() { _ = st.Close() }()
	m, _ := memtable.New(1, schema(), []int{0}, st.New())
	defer m.Release()
	for seq := uint64(10); seq < 13; seq++ {
		rec, _ := arrowx.FromRows(memory.DefaultAllocator, schema(), []arrowx.Row{{int64(seq), "row", false}})
		_, _ = m.Append(rec, seq)
		rec.Release()
	}
	for _, c := range m.Batches(m.Births().At(11)) { // a view at 11
		for i := range int(c.Batch.NumRows()) {
			fmt.Println(c.First+uint32(i), arrowx.RowOf(c.Batch, i))
		}
		c.Batch.Release()
	}
	// Output:
	// 0 [10 row false]
	// 1 [11 row false]
}
