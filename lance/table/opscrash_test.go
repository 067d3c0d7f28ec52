package table

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
	"lancesql/internal/predicate"
)

// crashed are operations whose every store operation fails in turn.
func crashed() map[string]func(ctx context.Context, d *Dataset) (*Dataset, error) {
	source := func() arrowx.BatchReader { return oneID(77) }
	return map[string]func(ctx context.Context, d *Dataset) (*Dataset, error){
		"append": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			return d.Append(ctx, source(), WriteOptions{})
		},
		"merge": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			next, _, err := d.MergeInsert(ctx, source(), MergeOptions{DeleteNotInSource: true})
			return next, err
		},
		"update": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			next, _, err := d.UpdateWhere(ctx, idBelow(3), []Assignment{{Column: "name", Value: "x"}})
			return next, err
		},
		"delete": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			next, _, err := d.DeleteWhere(ctx, predicate.IsNull{Column: 1})
			return next, err
		},
		"compact": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			next, _, err := d.Compact(ctx, CompactOptions{})
			return next, err
		},
		"add column": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			return d.AddColumns(ctx, []NewColumn{{Field: arrow.Field{Name: "c", Type: arrow.PrimitiveTypes.Int64}, Compute: times(2)}}, nil)
		},
		"cast": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			return d.CastColumn(ctx, "name", arrow.BinaryTypes.LargeString)
		},
		"restore": func(ctx context.Context, d *Dataset) (*Dataset, error) {
			return d.CommitRebasing(ctx, Restore{Version: 2})
		},
	}
}

// TestOperationsCrash: wherever an operation stops, the table is as before or as after; what was acknowledged is there.
func TestOperationsCrash(t *testing.T) {
	ctx := t.Context()
	for name, run := range crashed() {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				finished := false
				for _, performed := range []bool{false, true} {
					inner := objstore.NewMem()
					d := add(t, create(t, inner, CreateOptions{}), arrowx.Row{int64(1), "a"}, arrowx.Row{int64(2), nil})
					d = add(t, d, arrowx.Row{int64(3), "c"})
					before := all(t, d)
					want, err := run(ctx, reopenOn(t, d, objstoreCopy(t, inner)))
					require.NoError(t, err)
					after := all(t, want)

					st := faultstore.New(inner, faultstore.CrashAt(n, performed))
					on, err := Open(ctx, st, testRoot)
					require.NoError(t, err)
					next, err := run(ctx, on)
					now := reopen(t, inner)
					finished = !st.Crashed()
					if err == nil {
						require.Equal(t, after, all(t, now))
						require.Equal(t, next.Version(), now.Version())
						continue
					}
					require.False(t, errors.Is(err, errs.ErrConflict), "%v", err)
					if now.Version() == d.Version() {
						require.Equal(t, before, all(t, now))
					} else {
						require.Equal(t, after, all(t, now))
					}
					require.NoError(t, namedObjectsExist(ctx, now))
				}
				if finished {
					return
				}
			}
		})
	}
}

// objstoreCopy copies a store.
func objstoreCopy(t *testing.T, from objstore.Store) objstore.Store {
	t.Helper()
	to := objstore.NewMem()
	require.NoError(t, objstore.Walk(t.Context(), from, "", func(i objstore.Info) error {
		b, err := from.ReadAll(t.Context(), i.Name, i.Size)
		if err != nil {
			return err
		}
		return to.PutIfAbsent(t.Context(), i.Name, b)
	}))
	return to
}

func reopenOn(t *testing.T, d *Dataset, st objstore.Store) *Dataset {
	t.Helper()
	on, err := Open(t.Context(), st, d.Root())
	require.NoError(t, err)
	return on
}

// namedObjectsExist looks for everything the version names.
func namedObjectsExist(ctx context.Context, d *Dataset) error {
	n := d.FileNames()
	for _, name := range append(append([]string{n.Manifest, n.Transaction}, n.Data...), n.Deletions...) {
		if _, err := d.env.st.Stat(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
