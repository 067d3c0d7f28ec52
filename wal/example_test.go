package wal_test

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/wal"
)

func ExampleRead() {
	ctx, st := context.Background(), objstore.NewMem()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: meta("lance-schema:unenforced-primary-key:position", "1")},
		{Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
	epoch := func(context.Context) (wal.Epoch, error) { return 2, nil } // of the shard manifest
	l := wal.Open(st, dir, 2, 1, epoch)
	_, _ = l.Fence(ctx)
	rec, _ := arrowx.FromRows(memory.DefaultAllocator, schema, []arrowx.Row{{int64(7), false}, {int64(8), true}})
	defer rec.Release()
	_, _ = l.Append(ctx, schema, 1, []arrow.RecordBatch{rec})

	tail, err := wal.Read(ctx, st, dir, 1, 0, func(e wal.Entry) error {
		fmt.Println(e.Position, e.Epoch, e.Sentinel, e.Generation, len(e.Batches))
		return nil
	})
	fmt.Println(tail, err)
	// Output:
	// 1 2 true 0 0
	// 2 2 false 1 1
	// 2 <nil>
}
