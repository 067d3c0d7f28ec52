package table_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/clock"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// places is a small table in memory: version 1 is empty, versions 2 and 3 add rows, an hour apart.
func places(ctx context.Context) (objstore.Store, *table.Dataset, error) {
	at := clock.NewManual(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
	st := objstore.NewMemClock(at)
	columns := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "height", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil)
	s, err := schema.FromArrow(columns)
	if err != nil {
		return nil, nil, err
	}
	d, err := table.Create(ctx, st, "places.lance", s, table.CreateOptions{Options: table.Options{Clock: at}})
	if err != nil {
		return nil, nil, err
	}
	for _, rows := range [][]arrowx.Row{
		{{int64(1), "Zugspitze", int32(2962)}, {int64(2), "Brocken", int32(1141)}, {int64(3), "nowhere", nil}},
		{{int64(4), "Feldberg", int32(1493)}, {int64(5), "Wasserkuppe", int32(950)}},
	} {
		at.Advance(time.Hour)
		rec, err := arrowx.FromRows(memory.DefaultAllocator, columns, rows)
		if err != nil {
			return nil, nil, err
		}
		d, err = d.Append(ctx, table.Records(columns, rec), table.WriteOptions{})
		rec.Release()
		if err != nil {
			return nil, nil, err
		}
	}
	return st, d, nil
}

// show prints the rows of a reader.
func show(rows arrowx.BatchReader, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	for {
		rec, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		for i := range int(rec.NumRows()) {
			fmt.Println(arrowx.RowOf(rec, i)...)
		}
		rec.Release()
	}
}

func ExampleOpen() {
	ctx := context.Background()
	st, _, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := table.Open(ctx, st, "places.lance")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", d.Version(), "rows", d.CountRows(), "fragments", len(d.Fragments()))
	for _, f := range d.Schema().Fields {
		fmt.Println(f.Name, f.LogicalType)
	}
	// Output:
	// version 3 rows 5 fragments 2
	// id int64
	// name string
	// height int32
}

func ExampleDataset_Rows() {
	ctx := context.Background()
	_, d, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	high := predicate.Compare{Column: 2, Op: predicate.Gt, Value: int32(1200)}
	show(d.Rows(ctx, table.ScanOptions{Columns: []string{"name", "id"}, Filter: high}))
	// Output:
	// Zugspitze 1
	// Feldberg 4
}

func ExampleDataset_Take() {
	ctx := context.Background()
	_, d, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	rec, err := d.Take(ctx, []string{"name"}, []uint64{4, 0})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Release()
	fmt.Println(arrowx.Value(rec.Column(0), 0), arrowx.Value(rec.Column(0), 1))
	// Output: Wasserkuppe Zugspitze
}

func ExampleDataset_Append() {
	ctx := context.Background()
	_, d, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Columns are matched by name; nullable ones may be missing.
	columns := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	rec, err := arrowx.FromRows(memory.DefaultAllocator, columns, []arrowx.Row{{int64(6)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Release()
	next, err := d.Append(ctx, table.Records(columns, rec), table.WriteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.CountRows(), next.CountRows())
	show(next.Rows(ctx, table.ScanOptions{Offset: 5}))
	// Output:
	// 5 6
	// 6 <nil> <nil>
}

func ExampleDataset_MergeInsert() {
	ctx := context.Background()
	_, d, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	columns, err := d.Schema().Arrow()
	if err != nil {
		fmt.Println(err)
		return
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, columns, []arrowx.Row{
		{int64(3), "Kekes", int32(1014)}, {int64(7), "Snezka", int32(1603)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Release()
	next, done, err := d.MergeInsert(ctx, table.Records(columns, rec), table.MergeOptions{On: []string{"id"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", done)
	show(next.Rows(ctx, table.ScanOptions{Offset: 4}))
	// Output:
	// {Deleted:0 Updated:1 Inserted:1}
	// 3 Kekes 1014
	// 7 Snezka 1603
}

func ExampleDataset_DeleteWhere() {
	ctx := context.Background()
	_, d, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	next, done, err := d.DeleteWhere(ctx, predicate.IsNull{Column: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Deleted, "deleted;", d.CountRows(), "rows before,", next.CountRows(), "after")
	// Output: 1 deleted; 5 rows before, 4 after
}

func ExampleDataset_Compact() {
	ctx := context.Background()
	_, d, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, _, err = d.DeleteWhere(ctx, predicate.In{Column: 0, Values: []any{int64(1), int64(3)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	before := d.Stats()
	d, done, err := d.Compact(ctx, table.CompactOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	after := d.Stats()
	fmt.Println(before.Fragments, "fragments of", before.PhysicalRows, "rows became", after.Fragments, "of", after.PhysicalRows)
	fmt.Println(done.Rows, "rows moved")
	// Output:
	// 2 fragments of 5 rows became 1 of 3
	// 3 rows moved
}

// Old versions stay readable by number, by time and by tag, until they are cleaned up.
func ExampleDataset_AsOf() {
	ctx := context.Background()
	_, d, err := places(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	versions, err := d.Versions(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range versions {
		fmt.Println(v.Version, v.Timestamp.Format(time.TimeOnly), v.Rows)
	}
	old, err := d.AsOf(ctx, time.Date(2026, 1, 1, 10, 30, 0, 0, time.UTC))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("at half past ten:", old.Version())
	if err := d.CreateTag(ctx, "first", old.Version()); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := d.CleanupOlderThan(ctx, 0); err != nil {
		fmt.Println(err)
		return
	}
	tagged, err := d.OpenTag(ctx, "first")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("tagged:", tagged.CountRows())
	_, err = d.At(ctx, 1)
	fmt.Println("version 1 is gone:", err != nil)
	// Output:
	// 1 09:00:00 0
	// 2 10:00:00 3
	// 3 11:00:00 5
	// at half past ten: 2
	// tagged: 3
	// version 1 is gone: true
}
