package engine

import (
	"context"
	"fmt"
)

// Cleanup removes what no reader of a table needs any more: merged generations, and base versions past retention that no
// tag names. It returns the names of files and directories, sorted; with dry it removes nothing, and returns the names that
// the same call without dry would.
func (e *Engine) Cleanup(ctx context.Context, id TableID, dry bool) (names []string, err error) {
	err = e.withTable(ctx, id, func(ot *openTable) (err error) {
		low := e.views.lowWater(&e.seq)
		if dry {
			names, err = ot.table.Removable(ctx, low)
		} else {
			names, err = ot.table.CleanupNow(ctx, low)
		}
		return err
	})
	if err != nil {
		return names, fmt.Errorf("clean up table %s: %w", id, err)
	}
	return names, nil
}

// MergeTable brings the flushed generations of a table into its base; rows in memory stay there.
func (e *Engine) MergeTable(ctx context.Context, id TableID) error {
	return e.withTable(ctx, id, func(ot *openTable) error { return ot.merge(ctx) })
}
