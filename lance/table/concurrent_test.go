package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/schema"
)

// counters is id int64 (key), n int64.
func counters(t testing.TB) *schema.Schema {
	t.Helper()
	s := testSchema(t)
	s.Fields[1] = &schema.Field{ID: 1, Name: "n", LogicalType: "int64", Nullable: true}
	return s
}

// increment is n + 1.
func increment(rec arrow.RecordBatch) (arrow.Array, error) {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	n := rec.Column(1).(*array.Int64)
	for i := range n.Len() {
		b.Append(n.Value(i) + 1)
	}
	return b.NewArray(), nil
}

// TestNoLostUpdate: writers count up rows, upsert, append, delete, add and drop columns and compact at once, each from the
// handle it had. Every change that was acknowledged is there at the end, nothing else is.
func TestNoLostUpdate(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { noLostUpdate(t, seed) })
	}
}

func noLostUpdate(t *testing.T, seed uint64) {
	const writers, steps, rows = 4, 25, 12
	ctx := context.Background()
	d, err := Create(ctx, objstore.NewMem(), testRoot, counters(t), CreateOptions{})
	require.NoError(t, err)
	for i := range int64(rows) {
		d = add(t, d, arrowx.Row{i, int64(0)})
	}
	type outcome struct {
		counts map[int64]int64 // increments by row
		here   map[int64]bool  // rows this writer appended (true) and deleted again (false)
		err    error
	}
	results := make([]outcome, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			o := outcome{counts: make(map[int64]int64), here: make(map[int64]bool)}
			on := d
			for step := range steps {
				mine := int64(1000*(w+1) + step)
				var next *Dataset
				var err error
				switch k := r.IntN(10); {
				case k < 4:
					id := int64(r.IntN(rows))
					if next, _, err = on.UpdateWhere(ctx, idIs(id), []Assignment{{Column: "n", Compute: increment}}); err == nil {
						o.counts[id]++
					}
				case k < 6:
					s := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
					rec, _ := arrowx.FromRows(memory.DefaultAllocator, s, []arrowx.Row{{mine}})
					if next, err = on.Append(ctx, Records(s, rec), WriteOptions{}); err == nil {
						o.here[mine] = true
					}
				case k < 7:
					s := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
					rec, _ := arrowx.FromRows(memory.DefaultAllocator, s, []arrowx.Row{{mine}})
					if next, _, err = on.MergeInsert(ctx, Records(s, rec), MergeOptions{}); err == nil {
						o.here[mine] = true
					}
				case k < 8:
					for id, there := range o.here {
						if there {
							var done Changed // an old handle may not have the row yet
							if next, done, err = on.DeleteWhere(ctx, idIs(id)); err == nil && done.Deleted == 1 {
								o.here[id] = false
							}
							break
						}
					}
				case k < 9:
					next, _, err = on.Compact(ctx, CompactOptions{FragmentRows: 8})
				default:
					name := fmt.Sprint("c", w, "_", step)
					next, err = on.AddColumns(ctx, []NewColumn{{Field: arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}, Compute: times(2)}}, []string{"id"})
				}
				switch {
				case errors.Is(err, errs.ErrSchemaChanged) || errors.Is(err, errs.ErrConflict):
					// not acknowledged; from the newest version it may do
					next, err = on.Latest(ctx)
				case errors.Is(err, ErrIncompatible):
					err = fmt.Errorf("nothing here is incompatible: %w", err)
				}
				if err != nil {
					o.err = fmt.Errorf("step %d: %w", step, err)
					break
				}
				if next != nil && r.IntN(3) > 0 { // sometimes go on from an old handle
					on = next
				}
			}
			results[w] = o
		}()
	}
	wg.Wait()
	counts, here := make(map[int64]int64), make(map[int64]bool)
	for _, o := range results {
		require.NoError(t, o.err)
		for id, n := range o.counts {
			counts[id] += n
		}
		for id, there := range o.here {
			here[id] = there
		}
	}
	want := []string{}
	for id := range int64(rows) {
		want = append(want, fmt.Sprint(arrowx.Row{id, counts[id]}))
	}
	for id, there := range here {
		if there {
			want = append(want, fmt.Sprint(arrowx.Row{id, nil}))
		}
	}
	last, err := d.Latest(ctx)
	require.NoError(t, err)
	r, err := last.Rows(ctx, ScanOptions{Columns: []string{"id", "n"}})
	got := read(t, r, err)
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
	require.Greater(t, len(want), rows)
	// A computed column agrees with the rows it was computed over.
	for _, f := range last.Schema().Fields[2:] {
		r, err := last.Rows(ctx, ScanOptions{Columns: []string{"id", f.Name}})
		for _, line := range read(t, r, err) {
			var id, twice int64
			if n, _ := fmt.Sscanf(line, "[%d %d]", &id, &twice); n == 2 {
				require.Equal(t, 2*id, twice)
			}
		}
	}
}
