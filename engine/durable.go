package engine

import (
	"context"

	"lancesql/lsm"
)

// Group is what becomes durable as one step: the staged writes of one or more transactions on one table.
type Group struct {
	Table  *lsm.Table
	Staged *lsm.Staged
}

// Durable is the seam between a commit and what makes it durable. When Commit returns nil the group survives
// any crash. A definite failure (nothing written) is any error except errs.ErrSync and errs.ErrPoisoned, after
// which the outcome is unknown until recovery.
type Durable interface {
	Commit(ctx context.Context, g *Group) error
}

// walDurable writes one WAL entry per group: the first milestone's form (docs/decisions/0002). A commit
// journal replaces it behind the same seam.
type walDurable struct{}

// Commit appends the group's WAL entry.
func (walDurable) Commit(ctx context.Context, g *Group) error {
	return g.Table.Append(ctx, g.Staged)
}
