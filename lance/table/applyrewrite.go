package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

func (o Rewrite) apply(ctx context.Context, b *builder) error {
	switch {
	case len(o.Groups) == 0:
		return fmt.Errorf("rewrite of nothing: %w", errs.ErrInvalid)
	case b.m.ReaderFeatureFlags&flagStableRowIDs != 0:
		// The moved rows would have to keep their ids, which this package does not track.
		return fmt.Errorf("rewrite in a table with stable row ids: %w", errs.ErrUnsupported)
	}
	op := &pb.RewriteOperation{}
	gone := make(map[uint64]bool)
	for i, g := range o.Groups {
		group, err := b.rewriteGroup(g, gone)
		if err != nil {
			return fmt.Errorf("rewrite, group %d: %w", i, err)
		}
		op.Groups = append(op.Groups, group)
	}
	b.fragments = slices.DeleteFunc(slices.Clone(b.fragments), func(f *Fragment) bool { return gone[f.ID] })
	b.txn.Operation = &pb.Transaction_Rewrite{Rewrite: op}
	for _, id := range o.Removed {
		b.indices = slices.DeleteFunc(b.indices, func(e *pb.IndexMetadata) bool { return string(e.GetUuid().GetUuid()) == string(id[:]) })
	}
	done := make(map[string]bool) // entries of this commit, by identifier
	if err := b.replaceIndexes(o.Remapped, op, done); err != nil {
		return err
	}
	for _, e := range o.Added {
		if e.UUID == uuid.Nil {
			e.UUID = b.env.newUUID()
		}
		p, err := b.newEntry(e)
		if err != nil {
			return err
		}
		done[string(p.Uuid.Uuid)] = true
		b.indices = append(b.indices, p)
	}
	return b.keepReuse(ctx, o, op, done)
}

// rewriteGroup checks and places one group; the old fragments are only noted in gone.
func (b *builder) rewriteGroup(g RewriteGroup, gone map[uint64]bool) (*pb.RewriteOperation_Group, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, errs.ErrInvalid)...)
	}
	if len(g.Old) == 0 {
		return nil, bad("no old fragments")
	}
	var before, after uint64
	for _, f := range g.Old {
		was := b.parent.fragment(f.ID)
		if was == nil || gone[f.ID] || !filesRemain(f, was) || !sameDeletions(f, was) {
			return nil, bad("fragment %d is not, or not as it was, in version %d", f.ID, b.parent.m.Version)
		}
		gone[f.ID] = true
		before += was.LiveRows()
	}
	for _, f := range g.Read {
		if now := b.parent.fragment(f.ID); now != nil && (!gone[f.ID] || !filesRemain(f, now) || f.DeletedRows > now.DeletedRows) {
			return nil, bad("fragment %d was not read as it is in version %d", f.ID, b.parent.m.Version)
		}
	}
	from := len(b.added)
	for _, f := range g.New {
		if f != nil && f.Deletion != nil && (g.Read == nil || f.DeletedRows != f.Deletion.rows() || f.LiveRows() == 0) {
			return nil, bad("new fragment %d with deleted rows", f.ID)
		}
		if err := b.place(f); err != nil {
			return nil, err
		}
		after += f.LiveRows()
	}
	if before != after {
		return nil, bad("%d live rows became %d", before, after)
	}
	return &pb.RewriteOperation_Group{OldFragments: fragmentProtos(g.Old), NewFragments: fragmentProtos(b.added[from:])}, nil
}

// place adds a fragment under its reserved id, or under a new one if it has none.
func (b *builder) place(f *Fragment) error {
	if f == nil || f.ID == 0 {
		return b.add([]*Fragment{f})
	}
	deletion := f.Deletion
	f = f.WithDeletion(nil)
	taken := func(g *Fragment) bool { return g.ID == f.ID }
	if b.m.MaxFragmentId == nil || f.ID > uint64(*b.m.MaxFragmentId) || slices.ContainsFunc(b.fragments, taken) {
		return fmt.Errorf("fragment id %d is not reserved: %w", f.ID, errs.ErrInvalid)
	}
	g := *f
	g.ID = 0
	if err := b.checkNew(&g); err != nil {
		return fmt.Errorf("new fragment: %w", err)
	}
	g.ID, g.raw = f.ID, nil
	placed := g.WithDeletion(deletion)
	b.fragments, b.added = append(b.fragments, placed), append(b.added, placed)
	return nil
}

func (o ReserveFragments) apply(_ context.Context, b *builder) error {
	if o.Count == 0 {
		return fmt.Errorf("reservation of no fragment ids: %w", errs.ErrInvalid)
	}
	next := b.nextFragmentID() + uint64(o.Count) - 1
	if next > fragmentIDMax {
		return fmt.Errorf("fragment id %d: %w", next, errs.ErrLimit)
	}
	b.m.MaxFragmentId = proto.Uint32(uint32(next))
	b.txn.Operation = &pb.Transaction_ReserveFragments{ReserveFragments: &pb.ReserveFragmentsOperation{NumFragments: o.Count}}
	return nil
}

func (o Restore) apply(ctx context.Context, b *builder) error {
	if o.Version == 0 || o.Version > b.parent.m.Version {
		return fmt.Errorf("restore of version %d on version %d: %w", o.Version, b.parent.m.Version, errs.ErrInvalid)
	}
	from, err := b.from.At(ctx, o.Version)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	s := from.state
	if err := checkWritable(s.object, s.m); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	sticky := b.parent.m.ReaderFeatureFlags & stickyFlags
	if missing := sticky &^ s.m.ReaderFeatureFlags; missing&flagStableRowIDs != 0 {
		return fmt.Errorf("restore of version %d from before stable row ids: %w", o.Version, errs.ErrUnsupported)
	}
	if !sameMerged(b.parent.memwal, s.memwal) { // I6
		return fmt.Errorf("restore of version %d takes merged generations back: %w", o.Version, errs.ErrUnsupported)
	}
	m := shallowCopy(s.m)
	if have := b.m.MaxFragmentId; have != nil && (m.MaxFragmentId == nil || *m.MaxFragmentId < *have) { // I3
		m.MaxFragmentId = have
	}
	m.NextRowId = max(m.NextRowId, b.m.NextRowId)
	m.ReaderFeatureFlags |= sticky
	m.WriterFeatureFlags |= sticky
	m.BasePaths, m.Branch = b.m.BasePaths, b.m.Branch
	b.m = m
	b.stamp(b.parent.m.Version + 1)
	b.schema, b.memwal = s.schema, s.memwal
	b.fragments, b.indices = slices.Clone(s.fragments), slices.Clone(s.indices)
	b.txn.Operation = &pb.Transaction_Restore{Restore: &pb.RestoreOperation{Version: o.Version}}
	return nil
}

// sameMerged says whether two MemWAL entries record the same merged generations; either may be nil.
func sameMerged(a, b *MemWAL) bool {
	for _, m := range []*MemWAL{a, b} {
		if m == nil {
			continue
		}
		for _, g := range m.Merged {
			if a.MergedUpTo(g.Shard) != b.MergedUpTo(g.Shard) {
				return false
			}
		}
	}
	return true
}
