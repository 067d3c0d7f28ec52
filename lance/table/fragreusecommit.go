package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// RemappedIndex replaces an index entry by one whose files hold the addresses after the rewrite, in its manifest.
type RemappedIndex struct {
	Old uuid.UUID
	// New has the identifier, files, details, version and fragments of the new segment; the fragments that the rewrite
	// adds have reserved ids. Name, fields and covering fields are those of the old entry; DatasetVersion 0 keeps its.
	New IndexEntry
}

// remappable lists the kinds whose entries are addresses that readers translate, and up to which index_version.
// Everything else loses the fragments that are rewritten.
func remappable(e *pb.IndexMetadata) bool {
	for _, k := range [...]struct {
		suffix string
		newest int32
	}{{"BTreeIndexDetails", 1}, {"BitmapIndexDetails", 1}, {"LabelListIndexDetails", 2}, {"lancesql.KeyIndexDetails", 0}} {
		if hasTypeSuffix(e, k.suffix) {
			return e.GetIndexVersion() >= 0 && e.GetIndexVersion() <= k.newest
		}
	}
	return false
}

// positional lists the kinds that describe runs of rows by their place: their segments are never translated, whoever
// rewrites a fragment takes it out of them.
func positional(e *pb.IndexMetadata) bool {
	return hasTypeSuffix(e, "ZoneMapIndexDetails") || hasTypeSuffix(e, "BloomFilterIndexDetails")
}

// reuse returns the history of the parent. One that cannot be read or maintained makes the operation unsupported.
func (b *builder) reuse(ctx context.Context) (*FragmentReuse, error) {
	h, err := b.from.fragmentReuse(ctx)
	if err == nil {
		err = h.Maintainable()
	}
	if err != nil {
		return nil, fmt.Errorf("the fragment reuse history cannot be maintained: %w: %w", errs.ErrUnsupported, err)
	}
	return h, nil
}

// replaceIndexes puts remapped entries in place of the old ones. They are marked done: no upkeep touches them.
func (b *builder) replaceIndexes(list []RemappedIndex, op *pb.RewriteOperation, done map[string]bool) error {
	for _, r := range list {
		i := slices.IndexFunc(b.indices, func(e *pb.IndexMetadata) bool { return string(e.GetUuid().GetUuid()) == string(r.Old[:]) })
		if i < 0 {
			return fmt.Errorf("index entry %s was replaced meanwhile: %w", r.Old, errs.ErrConflict)
		}
		old, e := b.indices[i], r.New
		if e.UUID == uuid.Nil || e.UUID == r.Old {
			return fmt.Errorf("remapped index entry %q without an identifier of its own: %w", old.Name, errs.ErrInvalid)
		}
		e.Name, e.Fields, e.CoveringFields = old.Name, old.Fields, old.CoveringFields
		if e.DatasetVersion == 0 {
			e.DatasetVersion = old.DatasetVersion
		}
		p, err := b.newEntry(e)
		if err != nil {
			return err
		}
		b.indices[i] = p
		done[string(p.Uuid.Uuid)] = true
		op.RewrittenIndices = append(op.RewrittenIndices, &pb.RewriteOperation_RewrittenIndex{
			OldId: old.Uuid, NewId: p.Uuid, NewIndexDetails: p.IndexDetails, NewIndexVersion: uint32(p.GetIndexVersion()), NewIndexFiles: p.Files,
		})
	}
	return nil
}

// keepReuse settles the indexes of a rewrite: records where the rows of each group went if an index follows them, and
// takes the old fragments from every other entry. groups are those placed, news their new fragments with ids.
// Spec: Fragment Reuse Index, "Expected Use Pattern".
func (b *builder) keepReuse(ctx context.Context, o Rewrite, op *pb.RewriteOperation, done map[string]bool) error {
	h, err := b.reuse(ctx)
	if err != nil {
		return err
	}
	isDone := func(e *pb.IndexMetadata) bool { return done[string(e.GetUuid().GetUuid())] }
	all, unfollowed := make(map[uint64]bool), make(map[uint64]bool)
	var steps []recordedGroup
	for i, g := range o.Groups {
		follow := false
		if o.DeferRemap {
			if follow, err = b.followed(h, g.Old, done); err != nil {
				return err
			}
		}
		for _, f := range g.Old {
			all[f.ID] = true
			if !follow {
				unfollowed[f.ID] = true
			}
		}
		if follow {
			steps = append(steps, recordedGroup{g, op.Groups[i].NewFragments})
		}
	}
	if err := b.uncover(h, unfollowed, nil, isDone); err != nil {
		return err
	}
	if len(steps) == 0 {
		return nil
	}
	if err := b.uncover(h, all, nil, func(e *pb.IndexMetadata) bool { return isDone(e) || remappable(e) }); err != nil {
		return err
	}
	return b.appendReuse(ctx, h, steps)
}

type recordedGroup struct {
	RewriteGroup
	placed []*pb.DataFragment
}

// followed says whether an entry that can be translated covers one of the fragments.
func (b *builder) followed(h *FragmentReuse, old []*Fragment, done map[string]bool) (bool, error) {
	for _, e := range b.indices {
		if isMemWAL(e) || isFragmentReuse(e) || !remappable(e) || done[string(e.GetUuid().GetUuid())] || len(e.FragmentBitmap) == 0 {
			continue
		}
		covered, err := decodeRoaring(b.parent.object, e.FragmentBitmap)
		if err != nil {
			return false, fmt.Errorf("index entry %q: fragment bitmap: %w", e.Name, err)
		}
		covered = h.Coverage(covered)
		if slices.ContainsFunc(old, func(f *Fragment) bool { return covered.Contains(uint32(f.ID)) }) {
			return true, nil
		}
	}
	return false, nil
}

// appendReuse replaces the fragment reuse entry by one that has the groups as well.
func (b *builder) appendReuse(ctx context.Context, h *FragmentReuse, groups []recordedGroup) error {
	content, tagged := &pb.FragmentReuseContent{}, false
	next := &FragmentReuse{}
	if h != nil {
		content = proto.Clone(h.content).(*pb.FragmentReuseContent)
		tagged, next.unknown = h.IndexVersion > 0, h.unknown
	}
	tagged = tagged || slices.ContainsFunc(groups, func(g recordedGroup) bool { return g.Partition != nil })
	version := &pb.FragmentReuseVersion{DatasetVersion: b.parent.m.Version}
	made := roaring.New()
	for _, g := range groups {
		t, err := b.transition(ctx, g)
		if err != nil {
			return err
		}
		for _, d := range t.Destinations {
			made.Add(uint32(d.Id))
		}
		if tagged {
			content.Transitions = append(content.Transitions, t)
			continue
		}
		// Why: readers of version 0 pair the bitmap in ascending address order with the new rows.
		if !slices.IsSortedFunc(t.Sources, func(x, y *pb.FragmentReuseDigest) int { return compare(x.Id, y.Id) }) {
			return fmt.Errorf("the old fragments of a group are not ascending: %w", errs.ErrInvalid)
		}
		version.Groups = append(version.Groups, &pb.FragmentReuseGroup{
			ChangedRowAddrs: t.GetOrderedCompaction().ChangedRowAddrs, OldFragments: t.Sources, NewFragments: t.Destinations,
		})
	}
	if len(version.Groups) > 0 {
		content.LegacyVersions = append(content.LegacyVersions, version)
		slices.SortStableFunc(content.LegacyVersions, func(x, y *pb.FragmentReuseVersion) int { return compare(x.DatasetVersion, y.DatasetVersion) })
	}
	next.content = content
	if tagged {
		next.IndexVersion = 1
		if err := b.addCovered(made); err != nil {
			return err
		}
	}
	return b.putReuse(ctx, next, made, b.parent.m.Version)
}

// addCovered adds the fragments of the present entry. The bitmap of a tagged entry grows, as the reference has it.
func (b *builder) addCovered(made *roaring.Bitmap) error {
	at := slices.IndexFunc(b.indices, isFragmentReuse)
	if at < 0 || b.indices[at].GetIndexVersion() == 0 {
		return nil
	}
	before, err := decodeRoaring(b.parent.object, b.indices[at].FragmentBitmap)
	if err != nil {
		return fmt.Errorf("fragment reuse entry: fragment bitmap: %w", err)
	}
	made.Or(before)
	return nil
}

// transition describes one group as it is at the parent.
func (b *builder) transition(ctx context.Context, g recordedGroup) (*pb.FragmentReuseTransition, error) {
	t := &pb.FragmentReuseTransition{}
	sources := g.Old
	if g.Read != nil {
		sources = g.Read
	}
	for _, f := range sources {
		t.Sources = append(t.Sources, &pb.FragmentReuseDigest{Id: f.ID, PhysicalRows: f.PhysicalRows, NumDeletedRows: f.DeletedRows})
	}
	for _, f := range g.placed {
		t.Destinations = append(t.Destinations, &pb.FragmentReuseDigest{Id: f.Id, PhysicalRows: f.PhysicalRows})
	}
	if p := g.Partition; p != nil {
		switch {
		case p.MapID == uuid.Nil || p.Size == 0:
			return nil, fmt.Errorf("stable partition without a row map: %w", errs.ErrInvalid)
		case p.BaseID != nil && !slices.ContainsFunc(b.m.BasePaths, func(x *pb.BasePath) bool { return x.GetId() == *p.BaseID }):
			return nil, fmt.Errorf("row map under base path %d, which the table does not have: %w", *p.BaseID, errs.ErrInvalid)
		case len(t.Destinations) == 0 || len(t.Destinations) > PartitionDestinationsMax:
			return nil, fmt.Errorf("stable partition into %d fragments: %w", len(t.Destinations), errs.ErrLimit)
		}
		t.Mapping = &pb.FragmentReuseTransition_StablePartition{StablePartition: &pb.FragmentReuseStablePartition{
			MapId: p.MapID.String(), MapSizeBytes: p.Size, BaseId: p.BaseID,
		}}
		return t, nil
	}
	survivors, err := b.survivors(ctx, sources)
	t.Mapping = &pb.FragmentReuseTransition_OrderedCompaction{OrderedCompaction: &pb.FragmentReuseOrderedCompaction{ChangedRowAddrs: survivors}}
	return t, err
}

// survivors is the RoaringTreemap of the live rows of fragments:
//
//	u64 keys | keys x (u32 fragment | portable 32-bit Roaring of offsets), fragments ascending, none empty
func (b *builder) survivors(ctx context.Context, old []*Fragment) ([]byte, error) {
	sorted := slices.SortedFunc(slices.Values(old), func(x, y *Fragment) int { return compare(x.ID, y.ID) })
	out := make([]byte, 8)
	keys := uint64(0)
	for _, f := range sorted {
		if f.LiveRows() == 0 {
			continue
		}
		live := roaring.New()
		live.AddRange(0, f.PhysicalRows)
		gone, err := b.from.Deletions(ctx, f)
		if err != nil {
			return nil, err
		}
		if gone != nil {
			live.AndNot(gone)
		}
		live.RunOptimize()
		var body bytes.Buffer
		if _, err := live.WriteTo(&body); err != nil {
			return nil, fmt.Errorf("encode surviving rows of fragment %d: %w", f.ID, err)
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(f.ID))
		out = append(out, body.Bytes()...)
		keys++
	}
	binary.LittleEndian.PutUint64(out, keys)
	return out, nil
}

// putReuse makes h the fragment reuse entry, in the manifest or, when it is large, as an object. made are the fragments
// of the newest step, readVersion the version it read.
func (b *builder) putReuse(ctx context.Context, h *FragmentReuse, made *roaring.Bitmap, readVersion uint64) error {
	if h.IndexVersion > 0 && b.m.ReaderFeatureFlags&flagStableRowIDs != 0 {
		return fmt.Errorf("transitions in a table with stable row ids: %w", errs.ErrUnsupported)
	}
	raw, err := marshal(h.content)
	if err != nil {
		return fmt.Errorf("fragment reuse history: %w", err)
	}
	if len(raw) > fragmentReuseBytesMax {
		return fmt.Errorf("fragment reuse history of %d bytes: %w", len(raw), errs.ErrLimit)
	}
	// What cannot be read back must not be committed.
	if _, err := DecodeFragmentReuse("<memory>", raw, h.IndexVersion); err != nil {
		return fmt.Errorf("the history to be written is not readable: %w: %w", errs.ErrInvalid, err)
	}
	id := b.env.newUUID()
	details := &pb.FragmentReuseIndexDetails{Content: &pb.FragmentReuseIndexDetails_Inline{Inline: h.content}}
	if len(raw) > fragmentReuseInlineMax {
		object := join(b.from.root, indicesDir, id.String(), fragmentReuseFile)
		if err := b.env.st.PutIfAbsent(ctx, object, raw); err != nil { // Durable: before the manifest names it
			return fmt.Errorf("fragment reuse history: %w", err)
		}
		b.orphans = append(b.orphans, object)
		details.Content = &pb.FragmentReuseIndexDetails_External{External: &pb.ExternalFile{Path: fragmentReuseFile, Size: uint64(len(raw))}}
	}
	setUnknown(details, h.unknown)
	value, err := marshal(details)
	if err != nil {
		return fmt.Errorf("fragment reuse history: %w", err)
	}
	bitmap, err := encodeRoaring(made)
	if err != nil {
		return err
	}
	b.indices = append(slices.DeleteFunc(b.indices, isFragmentReuse), &pb.IndexMetadata{
		Uuid: uuidProto(id), Name: fragmentReuseName, DatasetVersion: readVersion, FragmentBitmap: bitmap,
		IndexDetails: &anypb.Any{TypeUrl: fragmentReuseTypeURL, Value: value}, IndexVersion: proto.Int32(h.IndexVersion),
		CreatedAt: proto.Uint64(uint64(b.now.UnixMilli())),
	})
	return nil
}
