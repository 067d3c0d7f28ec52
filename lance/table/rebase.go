package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/errs"
)

// CommitRebasing is Commit that, when others committed since d was read, applies op on top of them as long as that
// gives what the caller meant: deletions of different rows of one fragment are joined, ids assigned anew. Otherwise a
// *ConflictError: errs.ErrConflict if the caller may recompute from Latest, ErrIncompatible if that has no sense.
// Spec: table transactions, "Conflicts".
func (d *Dataset) CommitRebasing(ctx context.Context, op Operation) (*Dataset, error) {
	r := rebasing{base: d, op: op}
	parent, current := d, op
	for range commitAttemptsMax {
		next, err := parent.Commit(ctx, current)
		if parent != d && errors.Is(err, errs.ErrInvalid) {
			// It fitted d when the caller made it; what changed since is the table.
			return nil, fmt.Errorf("%w: %w", errs.ErrConflict, err)
		}
		if !errors.Is(err, errTaken) {
			return next, err
		}
		r.dropWritten(ctx)
		latest, err := parent.Latest(ctx)
		if err != nil {
			return nil, err
		}
		for v := parent.Version() + 1; v <= latest.Version(); v++ {
			if err := r.pass(ctx, v, latest); err != nil {
				return nil, fmt.Errorf("commit on version %d: %w", d.Version(), err)
			}
		}
		if current, err = r.onto(ctx, latest); err != nil {
			return nil, fmt.Errorf("commit on version %d: %w", d.Version(), err)
		}
		parent = latest
	}
	return nil, fmt.Errorf("commit on version %d: %d attempts: %w", d.Version(), commitAttemptsMax, errs.ErrConflict)
}

// rebasing carries an operation from the version it was prepared on to newer ones.
type rebasing struct {
	base    *Dataset
	op      Operation // as the caller gave it
	over    []passed
	written []string // deletion files of the attempt under way
}

// passed is a version the operation passed over.
type passed struct {
	version uint64
	*Transaction
}

// pass asks whether the operation may pass over version v.
func (r *rebasing) pass(ctx context.Context, v uint64, latest *Dataset) error {
	made := latest
	if v != latest.Version() {
		var err error
		if made, err = latest.At(ctx, v); err != nil {
			return notFoundIsConflict(err)
		}
	}
	t, err := made.Transaction(ctx)
	if err != nil {
		return notFoundIsConflict(err)
	}
	if v := judge(r.op, r.base.state, t); v != passes {
		return &ConflictError{Mine: r.op.Kind(), Other: t.Op.Kind(), Version: made.Version(), Retryable: v == retryable}
	}
	r.over = append(r.over, passed{made.Version(), t})
	return nil
}

// notFoundIsConflict: a version without a trace of what it did cannot be passed over.
func notFoundIsConflict(err error) error {
	if errors.Is(err, errs.ErrNotFound) {
		return fmt.Errorf("%w: %w", err, errs.ErrConflict)
	}
	return err
}

// onto returns the operation as it is to be applied to latest.
func (r *rebasing) onto(ctx context.Context, latest *Dataset) (Operation, error) {
	switch o := r.op.(type) {
	case Delete:
		return r.deleteOnto(ctx, o, latest)
	case *Delete:
		return r.deleteOnto(ctx, *o, latest)
	case Update:
		return r.updateOnto(ctx, o, latest)
	case *Update:
		return r.updateOnto(ctx, *o, latest)
	case CreateIndex:
		return r.indexOnto(o), nil
	case *CreateIndex:
		return r.indexOnto(*o), nil
	}
	return r.op, nil
}

func (r *rebasing) deleteOnto(ctx context.Context, o Delete, latest *Dataset) (Operation, error) {
	var err error
	o.Updated, o.DeletedIDs, err = r.join(ctx, latest, o.Updated, o.DeletedIDs)
	return o, err
}

func (r *rebasing) updateOnto(ctx context.Context, o Update, latest *Dataset) (Operation, error) {
	var err error
	o.UpdatedFragments, o.RemovedFragmentIDs, err = r.join(ctx, latest, o.UpdatedFragments, o.RemovedFragmentIDs)
	return o, err
}

// indexOnto takes fragments whose indexed values were rewritten meanwhile out of the new entries.
func (r *rebasing) indexOnto(o CreateIndex) Operation {
	for _, t := range r.over {
		u, ok := t.Op.(Update)
		if !ok || !t.movesColumns {
			continue
		}
		next := slices.Clone(o.New)
		for i, e := range next {
			moved := slices.ContainsFunc(e.Fields, func(id int32) bool { return slices.Contains(t.movedFields, uint32(id)) })
			if e.Fragments == nil || len(t.movedFields) > 0 && !moved {
				continue
			}
			next[i].Fragments = e.Fragments.Clone()
			for _, f := range u.UpdatedFragments {
				next[i].Fragments.Remove(uint32(f.ID))
			}
		}
		o.New = next
	}
	return o
}

// join carries new deletion states of fragments over to latest. A row that both sides touched, or a fragment that is
// gone, is a retryable conflict.
func (r *rebasing) join(ctx context.Context, latest *Dataset, updated []*Fragment, removed []uint64) ([]*Fragment, []uint64, error) {
	gone := slices.Clone(removed)
	for _, id := range removed {
		was, now := r.base.Fragment(id), latest.Fragment(id)
		if was == nil || now == nil || !sameDeletions(was, now) || !filesRemain(was, now) {
			return nil, nil, r.conflict(id)
		}
	}
	out := make([]*Fragment, 0, len(updated))
	for _, f := range updated {
		was, now := r.base.Fragment(f.ID), latest.Fragment(f.ID)
		if was == nil || now == nil || !filesRemain(was, now) {
			return nil, nil, r.conflict(f.ID)
		}
		if sameDeletions(was, now) {
			out = append(out, now.WithDeletion(f.Deletion))
			continue
		}
		all, err := r.union(ctx, latest, f, was, now)
		if err != nil {
			return nil, nil, err
		}
		if all == nil {
			return nil, nil, r.conflict(f.ID)
		}
		if all.GetCardinality() == now.PhysicalRows {
			gone = append(gone, f.ID)
			continue
		}
		df, err := r.base.env.writeDeletions(ctx, r.base.root, f.ID, now.PhysicalRows, latest.Version(), all, DeletionBitmap)
		if err != nil {
			return nil, nil, fmt.Errorf("deletions of fragment %d: %w", f.ID, err)
		}
		r.written = append(r.written, join(r.base.root, deletionsDir, deletionName(f.ID, df)))
		out = append(out, now.WithDeletion(df))
	}
	return out, gone, nil
}

// conflict names the newest version that touched a fragment.
func (r *rebasing) conflict(fragment uint64) error {
	e := &ConflictError{Mine: r.op.Kind(), Retryable: true}
	one := map[uint64]bool{fragment: true}
	for _, p := range r.over {
		ids := map[uint64]bool{}
		switch o := p.Op.(type) {
		case Delete:
			ids = touchedBy(o.Updated, o.DeletedIDs)
		case Update:
			ids = touchedBy(o.UpdatedFragments, o.RemovedFragmentIDs)
		case Rewrite:
			ids = o.oldIDs()
		}
		if e.Version == 0 || overlap(one, ids) {
			e.Other, e.Version = p.Op.Kind(), p.version
		}
	}
	return e
}

// union is what both sides deleted; nil if they deleted a row in common.
func (r *rebasing) union(ctx context.Context, latest *Dataset, mine, was, now *Fragment) (*roaring.Bitmap, error) {
	sets := [3]*roaring.Bitmap{}
	for i, f := range []*Fragment{mine, was, now} {
		set, err := latest.Deletions(ctx, f)
		if err != nil {
			return nil, err
		}
		sets[i] = roaring.New()
		if set != nil {
			sets[i] = set
		}
	}
	before := sets[1]
	if roaring.AndNot(sets[0], before).Intersects(roaring.AndNot(sets[2], before)) {
		return nil, nil
	}
	return roaring.Or(sets[0], sets[2]), nil
}

// dropWritten removes deletion files of an attempt that lost: nobody names them. Best effort, clean-up finds the rest.
func (r *rebasing) dropWritten(ctx context.Context) {
	for _, name := range r.written {
		_ = r.base.env.st.Delete(ctx, name)
	}
	r.written = nil
}

func sameDeletions(a, b *Fragment) bool {
	if a.Deletion == nil || b.Deletion == nil {
		return a.Deletion == b.Deletion
	}
	x, y := a.Deletion, b.Deletion
	return x.Kind == y.Kind && x.ReadVersion == y.ReadVersion && x.ID == y.ID && x.Rows == y.Rows
}

// filesRemain says whether now holds the rows of was in the same files, save those whose last column was dropped.
func filesRemain(was, now *Fragment) bool {
	if was.PhysicalRows != now.PhysicalRows {
		return false
	}
	for i := range now.Files {
		same := func(f DataFile) bool { return sameFile(&f, &now.Files[i]) }
		if !slices.ContainsFunc(was.Files, same) {
			return false
		}
	}
	return true
}
