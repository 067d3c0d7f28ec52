package table

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// The fragment reuse entry says where rewrites moved the rows of fragments, for indexes that still hold the old
// addresses. Its details, drawn in docs/format/fri.md:
//
//	FragmentReuseIndexDetails { inline = content | external = place of the content's bytes }
//	content { legacy_versions { dataset_version, groups }, transitions { sources, destinations, mapping } }
//
// Spec: Fragment Reuse Index, "Index Details".
const (
	FragmentReuseName = fragmentReuseName
	// FragmentReuseDir holds the row maps of stable partitions, below the table's root: _fri/<map id>/.
	FragmentReuseDir = "_fri"
	// StablePartitionFile is the name of a row map in its folder.
	StablePartitionFile = "stable_partition.lance"
	// PartitionDestinationsMax bounds the destinations of one stable partition: a label is a uint16.
	PartitionDestinationsMax = 1 << 16

	fragmentReuseTypeURL = "/lance.table.FragmentReuseIndexDetails"
	fragmentReuseFile    = "details.binpb"
	// fragmentReuseInlineMax is the size of the content up to which it lies in the manifest.
	fragmentReuseInlineMax = 200 << 10
	// fragmentReuseVersionMax is the highest index_version of the entry that is understood.
	fragmentReuseVersionMax = 1

	fragmentReuseBytesMax = 512 << 20
	fragmentReuseStepsMax = 1 << 20
)

// FragmentReuse is the history that a version's fragment reuse entry records. It is immutable: the slices are shared.
type FragmentReuse struct {
	UUID           uuid.UUID // of the entry; another history has another one
	IndexVersion   int32     // 0: legacy groups only; 1: with transitions
	DatasetVersion uint64    // that of the entry: the version the newest rewrite read
	External       bool      // the content is an object of its own
	// Steps are in an order in which a fragment is made before it is used. No fragment is the destination of two steps
	// or the source of two.
	Steps []ReuseStep

	content *pb.FragmentReuseContent
	unknown []byte // of the details message, carried
}

// ReuseStep is one rewrite: the rows of Sources that were live became those of Destinations. Exactly one of Ordered and
// Partition is set, or neither when the mapping is of a kind this package does not know.
// Spec: Fragment Reuse Index, "Shared Transition Metadata".
type ReuseStep struct {
	DatasetVersion uint64 // that the rewrite read; 0 for transitions, which do not record it
	Legacy         bool   // a group of a version 0 record
	Sources        []ReuseDigest
	Destinations   []ReuseDigest
	Ordered        *ReuseOrdered
	Partition      *ReusePartition
}

// ReuseDigest is what a step records of a fragment, as it was when the step was made.
type ReuseDigest struct {
	ID           uint32
	PhysicalRows uint32
	DeletedRows  uint32
}

// LiveRows is PhysicalRows minus DeletedRows.
func (d ReuseDigest) LiveRows() uint32 { return d.PhysicalRows - d.DeletedRows }

// ReuseOrdered says that the surviving rows kept their order.
type ReuseOrdered struct {
	Survivors []byte // portable RoaringTreemap of their source addresses; not decoded, read-only
}

// ReusePartition names the row map of a stable partition.
type ReusePartition struct {
	MapID  uuid.UUID
	Size   uint64  // bytes of the file, > 0
	BaseID *uint32 // nil: below the table's root; else an entry of the manifest's base paths
}

// Object is the place of the row map below its root.
func (p *ReusePartition) Object() string {
	return join(FragmentReuseDir, p.MapID.String(), StablePartitionFile)
}

// FragmentReuse returns the history of the version, nil if it has none. errs.ErrCorruption for a history that cannot be
// right; errs.ErrUnsupported for one of a newer kind, or whose bytes lie where nothing leads to. After any error no
// index of the version may be used: what its entries cover is not known.
func (d *Dataset) FragmentReuse(ctx context.Context) (*FragmentReuse, error) {
	h, err := d.fragmentReuse(ctx)
	if err != nil {
		return nil, fmt.Errorf("fragment reuse history of %s version %d: %w", d.root, d.Version(), err)
	}
	return h, nil
}

// FragmentReuseUUID names the history of the version without reading it: equal names are equal histories. ok is false if
// the version has none.
func (d *Dataset) FragmentReuseUUID() (id uuid.UUID, ok bool) {
	at := slices.IndexFunc(d.state.indices, isFragmentReuse)
	if at < 0 {
		return uuid.Nil, false
	}
	id, err := uuid.FromBytes(d.state.indices[at].GetUuid().GetUuid())
	return id, err == nil
}

func (d *Dataset) fragmentReuse(ctx context.Context) (*FragmentReuse, error) {
	s := d.state
	at := slices.IndexFunc(s.indices, isFragmentReuse)
	if at < 0 {
		return nil, nil
	}
	entry := s.indices[at]
	if slices.ContainsFunc(s.indices[at+1:], isFragmentReuse) {
		return nil, errs.Corrupt(s.object, -1, "two fragment reuse entries")
	}
	if entry.GetIndexVersion() != 0 && s.m.ReaderFeatureFlags&s.m.WriterFeatureFlags&flagFragmentReuse == 0 {
		return nil, errs.Corrupt(s.object, -1, "fragment reuse entry of version %d without feature flag %d", entry.GetIndexVersion(), flagFragmentReuse)
	}
	details, err := decodeReuseDetails(s.object, entry.GetIndexDetails().GetValue())
	if err != nil {
		return nil, err
	}
	object, raw := s.object, []byte(nil)
	if x := details.GetExternal(); x != nil {
		if object, raw, err = d.readReuseContent(ctx, entry, x); err != nil {
			return nil, err
		}
	} else if raw, err = inlineReuse(s.object, entry.GetIndexDetails().GetValue()); err != nil {
		return nil, err
	}
	h, err := DecodeFragmentReuse(object, raw, entry.GetIndexVersion())
	if err != nil {
		return nil, err
	}
	id, err := uuid.FromBytes(entry.GetUuid().GetUuid())
	if err != nil {
		return nil, errs.Corrupt(s.object, -1, "fragment reuse entry: %v", err)
	}
	h.UUID, h.DatasetVersion, h.External, h.unknown = id, entry.DatasetVersion, details.GetExternal() != nil, unknownOf(details)
	return h, nil
}

// readReuseContent reads the content that lies outside the manifest. Its size is recorded and must be right.
func (d *Dataset) readReuseContent(ctx context.Context, entry *pb.IndexMetadata, x *pb.ExternalFile) (string, []byte, error) {
	id, err := uuid.FromBytes(entry.GetUuid().GetUuid())
	switch {
	case err != nil || !plainSegment(x.Path):
		return "", nil, errs.Corrupt(d.state.object, -1, "fragment reuse entry: external content at %q", x.Path)
	case x.Size > fragmentReuseBytesMax || x.Offset > fragmentReuseBytesMax:
		return "", nil, fmt.Errorf("external content of %d bytes at %d: %w", x.Size, x.Offset, errs.ErrLimit)
	}
	at, err := d.place(entry.BaseId, indicesDir, join(id.String(), x.Path))
	if err != nil {
		return "", nil, err
	}
	b, err := at.st.ReadAll(ctx, at.name, 2*fragmentReuseBytesMax)
	if err != nil {
		return "", nil, err
	}
	if end := x.Offset + x.Size; uint64(len(b)) < end || x.Offset == 0 && uint64(len(b)) != end {
		return "", nil, errs.Corrupt(at.name, -1, "%d bytes, the manifest says %d at %d", len(b), x.Size, x.Offset)
	}
	return at.name, b[x.Offset : x.Offset+x.Size], nil
}

// ReuseBase returns the directory below which the row maps with a base id lie; nil stands for the table's own. It fails
// where nothing says where a base path leads (errs.ErrUnsupported), or the version does not have it (errs.ErrCorruption).
func (d *Dataset) ReuseBase(id *uint32) (Base, error) {
	at, err := d.place(id, FragmentReuseDir, "")
	if err != nil {
		return Base{}, err
	}
	return Base{Store: at.st, Dir: strings.TrimSuffix(strings.TrimSuffix(at.name, FragmentReuseDir), "/")}, nil
}

// DecodeFragmentReuse parses the serialised content of a fragment reuse entry of the given index_version: untrusted
// bytes, named object in errors. The UUID and the entry's version are left zero. Errors as of Dataset.FragmentReuse.
func DecodeFragmentReuse(object string, b []byte, indexVersion int32) (*FragmentReuse, error) {
	if indexVersion < 0 || indexVersion > fragmentReuseVersionMax {
		return nil, fmt.Errorf("%s: fragment reuse entry of version %d: %w", object, indexVersion, errs.ErrUnsupported)
	}
	content := &pb.FragmentReuseContent{}
	if err := proto.Unmarshal(b, content); err != nil {
		return nil, errs.Corrupt(object, -1, "fragment reuse content: %v", err)
	}
	mappings, err := checkReuseWire(object, b, content)
	if err != nil {
		return nil, err
	}
	h := &FragmentReuse{IndexVersion: indexVersion, content: content}
	if indexVersion == 0 && len(content.Transitions) > 0 {
		return nil, errs.Corrupt(object, -1, "a fragment reuse entry of version 0 has transitions")
	}
	for _, v := range content.LegacyVersions {
		for i, g := range v.GetGroups() {
			step, err := groupFrom(object, g)
			if err != nil {
				return nil, fmt.Errorf("group %d of version %d: %w", i, v.GetDatasetVersion(), err)
			}
			step.DatasetVersion = v.GetDatasetVersion()
			h.Steps = append(h.Steps, step)
		}
	}
	for i, t := range content.Transitions {
		step, err := transitionFrom(object, t, mappings[i])
		if err != nil {
			return nil, fmt.Errorf("transition %d: %w", i, err)
		}
		h.Steps = append(h.Steps, step)
	}
	if len(h.Steps) > fragmentReuseStepsMax {
		return nil, fmt.Errorf("%s: %d steps: %w", object, len(h.Steps), errs.ErrLimit)
	}
	return h, h.sort(object)
}

func groupFrom(object string, g *pb.FragmentReuseGroup) (s ReuseStep, err error) {
	s = ReuseStep{Legacy: true, Ordered: &ReuseOrdered{Survivors: g.GetChangedRowAddrs()}}
	if s.Sources, err = digestsFrom(object, g.GetOldFragments()); err != nil {
		return s, err
	}
	if s.Destinations, err = digestsFrom(object, g.GetNewFragments()); err != nil {
		return s, err
	}
	return s, s.check(object)
}

func transitionFrom(object string, t *pb.FragmentReuseTransition, known bool) (s ReuseStep, err error) {
	if s.Sources, err = digestsFrom(object, t.GetSources()); err != nil {
		return s, err
	}
	if s.Destinations, err = digestsFrom(object, t.GetDestinations()); err != nil {
		return s, err
	}
	for _, d := range s.Destinations {
		if d.DeletedRows != 0 {
			return s, errs.Corrupt(object, -1, "destination %d has deleted rows", d.ID)
		}
	}
	switch {
	case !known:
		return s, s.check(object)
	case t.GetOrderedCompaction() != nil:
		s.Ordered = &ReuseOrdered{Survivors: t.GetOrderedCompaction().ChangedRowAddrs}
	case t.GetStablePartition() != nil:
		p := t.GetStablePartition()
		id, err := uuid.Parse(p.MapId)
		switch {
		case err != nil:
			return s, errs.Corrupt(object, -1, "row map id %q: %v", p.MapId, err)
		case p.MapSizeBytes == 0:
			return s, errs.Corrupt(object, -1, "row map of no bytes")
		case len(s.Destinations) == 0 || len(s.Destinations) > PartitionDestinationsMax:
			return s, errs.Corrupt(object, -1, "stable partition into %d fragments", len(s.Destinations))
		}
		s.Partition = &ReusePartition{MapID: id, Size: p.MapSizeBytes, BaseID: p.BaseId}
	}
	return s, s.check(object)
}

func digestsFrom(object string, list []*pb.FragmentReuseDigest) ([]ReuseDigest, error) {
	out := make([]ReuseDigest, len(list))
	for i, p := range list {
		// The last id is left out: readers mark "no address" with it.
		if p.GetId() >= fragmentIDMax || p.GetPhysicalRows() > fragmentRowsMax || p.GetNumDeletedRows() > p.GetPhysicalRows() {
			return nil, errs.Corrupt(object, -1, "fragment %d: %d of %d rows deleted", p.GetId(), p.GetNumDeletedRows(), p.GetPhysicalRows())
		}
		out[i] = ReuseDigest{ID: uint32(p.GetId()), PhysicalRows: uint32(p.GetPhysicalRows()), DeletedRows: uint32(p.GetNumDeletedRows())}
	}
	return out, nil
}

// check: sources exist, ids are distinct within a list, no row is lost or made.
func (s *ReuseStep) check(object string) error {
	if len(s.Sources) == 0 {
		return errs.Corrupt(object, -1, "a step without source fragments")
	}
	var before, after uint64
	for i, list := range [][]ReuseDigest{s.Sources, s.Destinations} {
		seen := make(map[uint32]bool, len(list))
		for _, d := range list {
			if seen[d.ID] {
				return errs.Corrupt(object, -1, "fragment %d twice in a step", d.ID)
			}
			seen[d.ID] = true
			if i == 0 {
				before += uint64(d.LiveRows())
			} else {
				after += uint64(d.PhysicalRows)
			}
		}
	}
	if before != after {
		return errs.Corrupt(object, -1, "%d live rows became %d", before, after)
	}
	return nil
}

// Known says whether the mapping of the step is of a kind this package knows.
func (s *ReuseStep) Known() bool { return s.Ordered != nil || s.Partition != nil }

// Maintainable returns errs.ErrUnsupported if the history has a mapping of an unknown kind: then nothing may be done
// that has to interpret or change it. h may be nil.
// Spec: Fragment Reuse Index, "FRI Index Versions".
func (h *FragmentReuse) Maintainable() error {
	if h == nil {
		return nil
	}
	for _, s := range h.Steps {
		if !s.Known() {
			return fmt.Errorf("a rewrite of fragment %d is recorded in a way this version does not know: %w", s.Sources[0].ID, errs.ErrUnsupported)
		}
	}
	return nil
}
