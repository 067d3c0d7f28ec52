package arrowx_test

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
)

func ExampleFilter() {
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "name", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	rec, _ := arrowx.FromRows(memory.DefaultAllocator, schema, []arrowx.Row{{int64(1), "a"}, {int64(2), nil}, {int64(3), "c"}})
	defer rec.Release()
	some, _ := arrowx.Filter(memory.DefaultAllocator, rec, []bool{true, false, true})
	defer some.Release()
	fmt.Println(some.NumRows(), arrowx.RowOf(some, 1))
	// Output: 2 [3 c]
}
