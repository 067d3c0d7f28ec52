package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// Rows 0…counterRows-1 are counted up by everybody, rows sharedFirst… are upserted by everybody, the others have an owner.
const (
	counterRows = 12
	sharedFirst = 500
	sharedRows  = 6
)

// countersTable is id int64 (key), n int64, with the counters at 0, three rows a fragment.
func countersTable(t testing.TB, st objstore.Store, o Options) *Dataset {
	t.Helper()
	s := testSchema(t)
	s.Fields[1] = &schema.Field{ID: 1, Name: "n", LogicalType: "int64", Nullable: true}
	d, err := Create(t.Context(), st, testRoot, s, CreateOptions{Options: o})
	require.NoError(t, err)
	rows := []arrowx.Row{}
	for i := range int64(counterRows) {
		rows = append(rows, arrowx.Row{i, int64(0)})
	}
	a := arrowSchema(t, d)
	d, err = d.Append(t.Context(), Records(a, batch(t, a, rows...)), WriteOptions{FragmentRows: 3})
	require.NoError(t, err)
	return d
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

// report is what one writer had acknowledged, and which conflicts it met.
type report struct {
	Counts    map[int64]int64 // increments by counter
	Here      map[int64]bool  // own rows that were added (true) and deleted again (false)
	Shared    map[int64]bool  // shared rows that were upserted
	Conflicts []conflictSeen
	Others    []string // conflicts of another form
}

type conflictSeen struct {
	During      string // the call
	Mine, Other Kind
	Retryable   bool
}

// worker is one writer. It keeps to its own handle, which is often old.
type worker struct {
	number int
	r      *rand.Rand
	on     *Dataset
	during string
	report report
}

func newWorker(number int, seed uint64) *worker {
	return &worker{number: number, r: rand.New(rand.NewPCG(seed, uint64(number))),
		report: report{Counts: make(map[int64]int64), Here: make(map[int64]bool), Shared: make(map[int64]bool)}}
}

// saw notes a conflict.
func (w *worker) saw(err error) {
	var c *ConflictError
	if errors.As(err, &c) {
		w.report.Conflicts = append(w.report.Conflicts, conflictSeen{w.during, c.Mine, c.Other, c.Retryable})
		return
	}
	w.report.Others = append(w.report.Others, w.during+": "+err.Error())
}

// oneID is a source of one row that has only an id.
func oneID(id int64) arrowx.BatchReader {
	s := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Append(id)
	col := b.NewArray()
	return Records(s, array.NewRecordBatch(s, []arrow.Array{col}, 1))
}

// step makes one change.
func (w *worker) step(ctx context.Context, step int) error {
	next, err := w.change(ctx, int64(1000*(w.number+1)+step))
	switch {
	case errors.Is(err, errs.ErrSchemaChanged) || errors.Is(err, errs.ErrConflict) || errors.Is(err, ErrIncompatible):
		w.saw(err)
		next, err = w.on.Latest(ctx) // not acknowledged; from the newest version it may do
	case err != nil:
		return fmt.Errorf("%s: %w", w.during, err)
	}
	if next != nil && w.r.IntN(3) > 0 { // sometimes go on from an old handle
		w.on = next
	}
	return err
}

func (w *worker) change(ctx context.Context, mine int64) (next *Dataset, err error) {
	o := &w.report
	switch k := w.r.IntN(12); {
	case k < 4:
		w.during = "update"
		id := int64(w.r.IntN(counterRows))
		if next, _, err = w.on.UpdateWhere(ctx, idIs(id), []Assignment{{Column: "n", Compute: increment}}); err == nil {
			o.Counts[id]++
		}
	case k < 6:
		w.during = "append"
		if next, err = w.on.Append(ctx, oneID(mine), WriteOptions{}); err == nil {
			o.Here[mine] = true
		}
	case k < 8:
		w.during = "merge"
		id := int64(sharedFirst + w.r.IntN(sharedRows))
		if next, _, err = w.on.MergeInsert(ctx, oneID(id), MergeOptions{}); err == nil {
			o.Shared[id] = true
		}
	case k < 9:
		w.during = "delete"
		for id, there := range o.Here {
			if there {
				var done Changed // an old handle may not have the row yet
				if next, done, err = w.on.DeleteWhere(ctx, idIs(id)); err == nil && done.Deleted == 1 {
					o.Here[id] = false
				}
				break
			}
		}
	case k < 10:
		w.during = "compact"
		next, _, err = w.on.Compact(ctx, CompactOptions{FragmentRows: 8})
	case k < 11:
		w.during = "add column"
		field := arrow.Field{Name: fmt.Sprint("c", mine), Type: arrow.PrimitiveTypes.Int64, Nullable: true}
		next, err = w.on.AddColumns(ctx, []NewColumn{{Field: field, Compute: times(2)}}, []string{"id"})
	default:
		w.during = "drop column"
		fields := w.on.Schema().Fields
		if len(fields) < 3 {
			return nil, nil
		}
		next, err = w.on.DropColumns(ctx, fields[2+w.r.IntN(len(fields)-2)].Name)
		if errors.Is(err, errs.ErrInvalid) { // somebody else dropped it
			next, err = nil, nil
		}
	}
	return next, err
}

// requireNothingLost holds a table against what its writers had acknowledged.
func requireNothingLost(t *testing.T, d *Dataset, reports ...report) {
	t.Helper()
	counts, want := make(map[int64]int64), []string{}
	shared := make(map[int64]bool)
	for _, o := range reports {
		for id, n := range o.Counts {
			counts[id] += n
		}
		for id, there := range o.Here {
			if there {
				want = append(want, fmt.Sprint(arrowx.Row{id, nil}))
			}
		}
		for id := range o.Shared {
			shared[id] = true
		}
	}
	for id := range int64(counterRows) {
		want = append(want, fmt.Sprint(arrowx.Row{id, counts[id]}))
	}
	for id := range shared {
		want = append(want, fmt.Sprint(arrowx.Row{id, nil}))
	}
	r, err := d.Rows(t.Context(), ScanOptions{Columns: []string{"id", "n"}})
	got := read(t, r, err)
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
	for _, f := range d.Schema().Fields[2:] { // a computed column agrees with the rows it was computed over
		r, err := d.Rows(t.Context(), ScanOptions{Columns: []string{"id", f.Name}})
		for _, line := range read(t, r, err) {
			var id, twice int64
			if n, _ := fmt.Sscanf(line, "[%d %d]", &id, &twice); n == 2 {
				require.Equal(t, 2*id, twice)
			}
		}
	}
}

// requireConflictsOfTheTable: each conflict was between operations that the table lets conflict.
func requireConflictsOfTheTable(t *testing.T, o report) {
	t.Helper()
	cells := make(map[string]string)
	for line := range strings.Lines(strings.TrimSpace(conflictRows)) {
		words := strings.Fields(line)
		for i, other := range conflictColumns() {
			cells[words[0]+" "+other.String()] = words[i+1]
		}
	}
	for _, c := range o.Conflicts {
		stale := c.During == "merge" && c.Mine == KindUpdate && (c.Other == KindAppend || c.Other == KindUpdate)
		if cell := cells[c.Mine.String()+" "+c.Other.String()]; !stale && (cell == "ok" || c.Retryable == strings.HasPrefix(cell, "I")) {
			t.Errorf("%s: %s over %s, retryable %t, is %q in the table", c.During, c.Mine, c.Other, c.Retryable, cell)
		}
	}
	for _, other := range o.Others {
		if !strings.Contains(other, "attempts") && !strings.Contains(other, "other columns than") {
			t.Errorf("conflict without its reason: %s", other)
		}
	}
}

// TestNoLostUpdate: goroutines count up, upsert, append, delete, add and drop columns and compact at once. Every change that
// was acknowledged is there at the end, nothing else is.
func TestNoLostUpdate(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const writers, steps = 4, 25
			st := objstore.NewMem()
			countersTable(t, st, Options{})
			workers, failed := make([]*worker, writers), make([]error, writers)
			var wg sync.WaitGroup
			for i := range writers {
				w := newWorker(i, seed)
				d, err := OpenWith(t.Context(), st, testRoot, Options{OnConflict: w.saw})
				require.NoError(t, err)
				w.on, workers[i] = d, w
				wg.Go(func() {
					for n := range steps {
						if failed[i] = w.step(t.Context(), n); failed[i] != nil {
							return
						}
					}
				})
			}
			wg.Wait()
			reports, conflicts := []report{}, 0
			for i, w := range workers {
				require.NoError(t, failed[i])
				requireConflictsOfTheTable(t, w.report)
				reports = append(reports, w.report)
				conflicts += len(w.report.Conflicts)
			}
			requireNothingLost(t, reopen(t, st), reports...)
			t.Logf("%d conflicts", conflicts)
		})
	}
}
