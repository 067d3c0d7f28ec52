package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// TrimOptions helps TrimFragmentReuse to know what index files hold. The zero value is the default.
type TrimOptions struct {
	// Holds returns the fragments of the addresses in an entry's files; ok is false if that is not known. Nil: never known.
	Holds func(ctx context.Context, e IndexEntry) (fragments *roaring.Bitmap, ok bool, err error)
}

// TrimFragmentReuse forgets the steps of the fragment reuse history that no index needs any more, and returns how many.
// When there are none nothing is committed and d is returned. errs.ErrUnsupported if the history cannot be maintained.
// Spec: Fragment Reuse Index, "Expected Use Pattern"; docs/format/fri.md, "Trimming".
func (d *Dataset) TrimFragmentReuse(ctx context.Context, o TrimOptions) (next *Dataset, dropped int, err error) {
	next, err = d.recomputing(ctx, func(ctx context.Context, on *Dataset) (*Dataset, error) {
		b := &builder{from: on, parent: on.state, env: on.env, indices: on.state.indices}
		_, drop, err := b.finishedSteps(ctx, o)
		if dropped = len(drop); err != nil || dropped == 0 {
			return on, err
		}
		return on.CommitRebasing(ctx, trimReuse{o})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("trim the fragment reuse history of %s: %w", d.root, err)
	}
	return next, dropped, nil
}

// trimReuse is the operation behind TrimFragmentReuse. What may go is judged on the version it lands on, so that it
// passes over commits that add to the history or need it. It is recorded as a CreateIndex.
type trimReuse struct{ TrimOptions }

// Kind implements Operation.
func (trimReuse) Kind() Kind { return KindCreateIndex }

func (trimReuse) against(base *state, other *Transaction) verdict {
	return CreateIndex{}.against(base, other)
}

func (o trimReuse) apply(ctx context.Context, b *builder) error {
	h, drop, err := b.finishedSteps(ctx, o.TrimOptions)
	if err != nil {
		return err
	}
	if len(drop) == 0 {
		return fmt.Errorf("nothing to trim any more: %w", errs.ErrConflict)
	}
	old := b.indices[slices.IndexFunc(b.indices, isFragmentReuse)]
	op := &pb.CreateIndexOperation{RemovedIndices: []*pb.IndexMetadata{old}}
	next := &FragmentReuse{IndexVersion: h.IndexVersion, unknown: h.unknown, content: h.without(drop)}
	if len(next.content.LegacyVersions)+len(next.content.Transitions) == 0 && len(next.unknown) == 0 {
		b.indices = slices.DeleteFunc(b.indices, isFragmentReuse)
	} else {
		made, err := decodeRoaring(b.parent.object, old.FragmentBitmap)
		if err != nil {
			return fmt.Errorf("fragment reuse entry: fragment bitmap: %w", err)
		}
		if err := b.putReuse(ctx, next, made, old.DatasetVersion); err != nil {
			return err
		}
		op.NewIndices = append(op.NewIndices, b.indices[len(b.indices)-1])
	}
	b.txn.Operation = &pb.Transaction_CreateIndex{CreateIndex: op}
	return nil
}

// finishedSteps returns the steps that may be dropped, by place in the history. A step goes only with all that made its
// sources, and a legacy version only as a whole.
func (b *builder) finishedSteps(ctx context.Context, o TrimOptions) (*FragmentReuse, map[int]bool, error) {
	h, err := b.reuse(ctx)
	if err != nil || h == nil {
		return nil, nil, err
	}
	drop := make(map[int]bool)
	for i := range h.Steps {
		drop[i] = true
	}
	for _, e := range b.indices {
		if isMemWAL(e) || isFragmentReuse(e) || positional(e) {
			continue
		}
		if err := b.stillNeeded(ctx, h, e, o, drop); err != nil {
			return nil, nil, err
		}
	}
	for changed := true; changed; { // what a kept step leads on to stays, and the rest of its version
		changed = false
		kept, versions := make(map[uint32]bool), make(map[uint64]bool)
		for i, s := range h.Steps {
			if drop[i] {
				continue
			}
			for _, d := range s.Destinations {
				kept[d.ID] = true
			}
			if s.Legacy {
				versions[s.DatasetVersion] = true
			}
		}
		for i, s := range h.Steps {
			follows := slices.ContainsFunc(s.Sources, func(d ReuseDigest) bool { return kept[d.ID] })
			if drop[i] && (follows || s.Legacy && versions[s.DatasetVersion]) {
				delete(drop, i)
				changed = true
			}
		}
	}
	return h, drop, nil
}

// stillNeeded strikes from drop the steps whose translation the entry's files may need.
func (b *builder) stillNeeded(ctx context.Context, h *FragmentReuse, e *pb.IndexMetadata, o TrimOptions, drop map[int]bool) error {
	if len(e.FragmentBitmap) == 0 { // nothing is known of it
		clear(drop)
		return nil
	}
	covered, err := decodeRoaring(b.parent.object, e.FragmentBitmap)
	if err != nil {
		return fmt.Errorf("index entry %q: fragment bitmap: %w", e.Name, err)
	}
	claims := h.Coverage(covered) // of these some may have come through the step
	for it := claims.Clone().Iterator(); it.HasNext(); {
		if id := it.Next(); b.parent.fragment(uint64(id)) == nil {
			claims.Remove(id)
		}
	}
	holds, built, err := b.contentOf(ctx, e, o)
	if err != nil {
		return err
	}
	for i := len(h.Steps) - 1; i >= 0; i-- {
		s := &h.Steps[i]
		leads := slices.ContainsFunc(s.Destinations, func(d ReuseDigest) bool { return claims.Contains(d.ID) })
		if !leads {
			continue // nothing that the entry covers came this way
		}
		for _, d := range s.Sources { // what came before leads there as well
			claims.Add(d.ID)
		}
		seen := func(d ReuseDigest) bool { return covered.Contains(d.ID) }
		if !slices.ContainsFunc(s.Sources, seen) && (s.notIn(holds) || s.goneBy(built)) {
			continue
		}
		delete(drop, i)
	}
	return nil
}

// contentOf says what the entry's files hold: exactly, or by the version they were built from. Both may be nil.
func (b *builder) contentOf(ctx context.Context, e *pb.IndexMetadata, o TrimOptions) (holds *roaring.Bitmap, built *state, err error) {
	if o.Holds != nil {
		entry, err := indexEntryFrom(b.parent.object, e)
		if err != nil {
			return nil, nil, err
		}
		set, ok, err := o.Holds(ctx, entry)
		if err != nil {
			return nil, nil, fmt.Errorf("index entry %q: %w", e.Name, err)
		}
		if ok {
			return set, nil, nil
		}
	}
	if e.DatasetVersion == 0 || e.DatasetVersion > b.parent.m.Version {
		return nil, nil, nil
	}
	d, err := b.from.At(ctx, e.DatasetVersion)
	switch {
	case errors.Is(err, errs.ErrNotFound): // cleaned up: nothing can be said
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return nil, d.state, nil
}

func (s *ReuseStep) notIn(holds *roaring.Bitmap) bool {
	return holds != nil && !slices.ContainsFunc(s.Sources, func(d ReuseDigest) bool { return holds.Contains(d.ID) })
}

// goneBy says whether the sources had been rewritten when the version was made: ids that were given out and name no
// fragment. Why: dataset_version alone does not tell. The reference keeps an old one when it extends an index, and a
// bitmap that it has mapped names only destinations, whatever the files hold.
func (s *ReuseStep) goneBy(built *state) bool {
	if built == nil || built.m.MaxFragmentId == nil || s.DatasetVersion > built.m.Version {
		return false
	}
	for _, d := range s.Sources {
		if d.ID > *built.m.MaxFragmentId || built.fragment(uint64(d.ID)) != nil {
			return false
		}
	}
	return true
}

// without is the content without some steps; everything else, unknown fields included, stays.
func (h *FragmentReuse) without(drop map[int]bool) *pb.FragmentReuseContent {
	type key struct {
		source uint32
		legacy bool
	}
	gone := make(map[key]bool) // a fragment is the source of one step
	for i := range drop {
		gone[key{h.Steps[i].Sources[0].ID, h.Steps[i].Legacy}] = true
	}
	next := proto.Clone(h.content).(*pb.FragmentReuseContent)
	next.LegacyVersions = slices.DeleteFunc(next.LegacyVersions, func(v *pb.FragmentReuseVersion) bool {
		return len(v.Groups) == 0 || gone[key{uint32(v.Groups[0].OldFragments[0].Id), true}]
	})
	next.Transitions = slices.DeleteFunc(next.Transitions, func(t *pb.FragmentReuseTransition) bool {
		return gone[key{uint32(t.Sources[0].Id), false}]
	})
	return next
}

// NeedsReuse says whether the files of an index entry may hold addresses that only the history of d explains. false: the
// segment was built or remapped since. errs.ErrNotFound if d has no such entry; otherwise as TrimFragmentReuse.
func (d *Dataset) NeedsReuse(ctx context.Context, id uuid.UUID, o TrimOptions) (bool, error) {
	b := &builder{from: d, parent: d.state, env: d.env, indices: d.state.indices}
	i := slices.IndexFunc(b.indices, func(e *pb.IndexMetadata) bool { return string(e.GetUuid().GetUuid()) == string(id[:]) })
	if i < 0 {
		return false, fmt.Errorf("index entry %s in version %d: %w", id, d.Version(), errs.ErrNotFound)
	}
	h, err := b.reuse(ctx)
	if err != nil || h == nil {
		return false, err
	}
	drop := make(map[int]bool)
	for i := range h.Steps {
		drop[i] = true
	}
	if err := b.stillNeeded(ctx, h, b.indices[i], o, drop); err != nil {
		return false, err
	}
	return len(drop) < len(h.Steps), nil
}

// IndexEntryByUUID returns the entry with that identifier. errs.ErrNotFound if the version has none.
func (d *Dataset) IndexEntryByUUID(id uuid.UUID) (IndexEntry, error) {
	for _, p := range d.state.indices {
		if string(p.GetUuid().GetUuid()) == string(id[:]) {
			return indexEntryFrom(d.state.object, p)
		}
	}
	return IndexEntry{}, fmt.Errorf("index entry %s in version %d: %w", id, d.Version(), errs.ErrNotFound)
}
