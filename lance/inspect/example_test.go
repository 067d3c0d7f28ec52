package inspect_test

import (
	"context"
	"fmt"

	"lancesql/internal/objstore"
	"lancesql/lance/inspect"
)

// A report goes on past what it cannot read; Err and Problems say what that was.
func ExampleReport() {
	st := objstore.NewMem()
	ctx := context.Background()
	_ = st.PutIfAbsent(ctx, "a.lance", make([]byte, 100))
	r := inspect.NewReport("a.lance", inspect.KindDataFile)
	r.InspectDataFile(ctx, st, "a.lance")
	fmt.Println(r.Err())
	// Output: corruption in a.lance at byte 96: footer magic "\x00\x00\x00\x00"
}
