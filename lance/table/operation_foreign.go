package table

import (
	"context"
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// UpdateMemWALState advances merged generations without data: those that were merged by other means. Each must be
// strictly after the recorded one (else errs.ErrConflict); the version must have the MemWAL entry (else
// errs.ErrInvalid).
type UpdateMemWALState struct {
	Merged []MergedGeneration // at least one, at most one per shard
}

// Other is an operation that is read and not committed (errs.ErrUnsupported): a Clone, which is the first version of
// another table or branch, or one of a newer writer.
type Other struct {
	Which Kind
}

// Kind implements Operation.
func (UpdateMemWALState) Kind() Kind { return KindUpdateMemWALState }

// Kind implements Operation.
func (o Other) Kind() Kind { return o.Which }

func (o UpdateMemWALState) apply(_ context.Context, b *builder) error {
	if len(o.Merged) == 0 {
		return fmt.Errorf("no merged generation: %w", errs.ErrInvalid)
	}
	if err := b.advanceMemWAL(o.Merged); err != nil {
		return err
	}
	b.txn.Operation = &pb.Transaction_UpdateMemWalState{UpdateMemWalState: &pb.UpdateMemWalStateOperation{MergedGenerations: mergedProtos(o.Merged)}}
	return nil
}

// against mirrors the column of the operation: what does not pass over it, it does not pass either.
func (o UpdateMemWALState) against(_ *state, other *Transaction) verdict {
	switch p := other.Op.(type) {
	case CreateIndex:
		if p.installsMemWAL() {
			return retryable
		}
		return incompatible
	case Update:
		if sharesShard(o.Merged, p.Merged) {
			return retryable
		}
	case UpdateMemWALState:
		if sharesShard(o.Merged, p.Merged) {
			return retryable
		}
	case Append, Delete, Overwrite, Merge, Restore, Project, DataReplacement:
		return incompatible
	}
	return passes
}

func sharesShard(a, b []MergedGeneration) bool {
	return slices.ContainsFunc(a, func(g MergedGeneration) bool {
		return slices.ContainsFunc(b, func(h MergedGeneration) bool { return h.Shard == g.Shard })
	})
}

func (o Other) apply(context.Context, *builder) error {
	return fmt.Errorf("commit of operation %s: %w", o.Which, errs.ErrUnsupported)
}

func (Other) against(*state, *Transaction) verdict { return incompatible }
