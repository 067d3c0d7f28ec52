package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// MemWALName is the name of the index entry that carries a table's MemWAL state.
const MemWALName = "__lance_mem_wal"

const (
	memWALTypeURL    = "/lance.table.MemWalIndexDetails"
	memWALTypeSuffix = "MemWalIndexDetails"
)

// MemWAL is the typed content of the MemWAL entry of a version. A MemWAL handed out by a Dataset is shared and must
// not be changed; Clone first. Spec: MemWalIndexDetails.
type MemWAL struct {
	SnapshotMillis    int64 // when the optional snapshot of shards was taken, ms since the epoch
	NumShards         uint32
	InlineSnapshots   []byte // opaque, nil = absent
	Specs             []ShardingSpec
	MaintainedIndexes []string
	MaintainAll       bool               // MaintainedIndexes is empty and stands for all indexes
	Merged            []MergedGeneration // per shard the highest generation already in the base table
	Catchup           []IndexCatchup
	WriterDefaults    map[string]string

	unknown []byte // fields of newer writers, carried
}

// ShardingSpec says how rows are assigned to shards.
type ShardingSpec struct {
	ID     uint32 // > 0
	Fields []ShardingField

	unknown []byte
}

// ShardingField is one component of a sharding spec.
type ShardingField struct {
	FieldID    string
	SourceIDs  []int32
	Transform  string // "" = absent
	Expression string // "" = absent
	ResultType string
	Parameters map[string]string

	unknown []byte
}

// MergedGeneration says that generations of Shard up to Generation are part of the base table.
type MergedGeneration struct {
	Shard      uuid.UUID
	Generation uint64
}

// IndexCatchup says up to which generation an index covers the merged rows. An absent entry means unknown.
type IndexCatchup struct {
	Index    string
	CaughtUp []MergedGeneration

	unknown []byte
}

// MergedUpTo returns the highest merged generation of shard, 0 if none. It accepts a nil receiver.
func (m *MemWAL) MergedUpTo(shard uuid.UUID) uint64 {
	if m == nil {
		return 0
	}
	for _, g := range m.Merged {
		if g.Shard == shard {
			return g.Generation
		}
	}
	return 0
}

// Clone returns a deep copy.
func (m *MemWAL) Clone() *MemWAL {
	// Only a shard id of the wrong length is refused, and a uuid.UUID has the right one.
	c, _ := memWALFrom("<memory>", m.proto())
	return c
}

// advance returns a copy in which the merged generations moved to those of list. It refuses two entries of a shard
// (errs.ErrInvalid) and a generation that is not greater than the recorded one (errs.ErrConflict: reload).
// Invariant: I6.
func (m *MemWAL) advance(list []MergedGeneration) (*MemWAL, error) {
	c := m.Clone()
	seen := make(map[uuid.UUID]bool, len(list))
	for _, g := range list {
		if seen[g.Shard] {
			return nil, fmt.Errorf("shard %s twice in one commit: %w", g.Shard, errs.ErrInvalid)
		}
		seen[g.Shard] = true
		if have := c.MergedUpTo(g.Shard); g.Generation <= have {
			return nil, fmt.Errorf("shard %s: generation %d is not after the recorded %d: %w", g.Shard, g.Generation, have, errs.ErrConflict)
		}
		i := slices.IndexFunc(c.Merged, func(x MergedGeneration) bool { return x.Shard == g.Shard })
		if i < 0 {
			c.Merged = append(c.Merged, g)
		} else {
			c.Merged[i] = g
		}
	}
	return c, nil
}

// isMemWAL recognises the entry by the suffix of its type, as readers do.
func isMemWAL(e *pb.IndexMetadata) bool {
	return strings.HasSuffix(strings.ToLower(e.GetIndexDetails().GetTypeUrl()), strings.ToLower(memWALTypeSuffix))
}

// memWALOf decodes the entry of a version's index list; nil if there is none.
func memWALOf(object string, indices []*pb.IndexMetadata) (*MemWAL, error) {
	for _, e := range indices {
		if !isMemWAL(e) {
			continue
		}
		details := &pb.MemWalIndexDetails{}
		if err := proto.Unmarshal(e.IndexDetails.GetValue(), details); err != nil {
			return nil, errs.Corrupt(object, -1, "MemWAL details: %v", err)
		}
		return memWALFrom(object, details)
	}
	return nil, nil
}

func memWALFrom(object string, p *pb.MemWalIndexDetails) (*MemWAL, error) {
	m := &MemWAL{
		SnapshotMillis: p.SnapshotTsMillis, NumShards: p.NumShards, InlineSnapshots: slices.Clone(p.InlineSnapshots),
		MaintainedIndexes: slices.Clone(p.MaintainedIndexes), MaintainAll: p.MaintainAllIndexes, WriterDefaults: cloneMap(p.WriterConfigDefaults),
		unknown: unknownOf(p),
	}
	for _, s := range p.ShardingSpecs {
		spec := ShardingSpec{ID: s.SpecId, unknown: unknownOf(s)}
		for _, f := range s.Fields {
			spec.Fields = append(spec.Fields, ShardingField{
				FieldID: f.FieldId, SourceIDs: slices.Clone(f.SourceIds), Transform: f.GetTransform(),
				Expression: f.GetExpression(), ResultType: f.ResultType, Parameters: cloneMap(f.Parameters), unknown: unknownOf(f),
			})
		}
		m.Specs = append(m.Specs, spec)
	}
	var err error
	if m.Merged, err = mergedFrom(object, p.MergedGenerations); err != nil {
		return nil, err
	}
	for _, c := range p.IndexCatchup {
		caught, err := mergedFrom(object, c.CaughtUpGenerations)
		if err != nil {
			return nil, err
		}
		m.Catchup = append(m.Catchup, IndexCatchup{Index: c.IndexName, CaughtUp: caught, unknown: unknownOf(c)})
	}
	return m, nil
}

func mergedFrom(object string, list []*pb.MergedGeneration) ([]MergedGeneration, error) {
	var out []MergedGeneration
	for _, g := range list {
		id, err := uuid.FromBytes(g.GetShardId().GetUuid())
		if err != nil {
			return nil, errs.Corrupt(object, -1, "shard id of a merged generation: %v", err)
		}
		out = append(out, MergedGeneration{Shard: id, Generation: g.Generation})
	}
	return out, nil
}

func mergedProtos(list []MergedGeneration) []*pb.MergedGeneration {
	var out []*pb.MergedGeneration
	for _, g := range list {
		out = append(out, &pb.MergedGeneration{ShardId: uuidProto(g.Shard), Generation: g.Generation})
	}
	return out
}

func (m *MemWAL) proto() *pb.MemWalIndexDetails {
	p := &pb.MemWalIndexDetails{
		SnapshotTsMillis: m.SnapshotMillis, NumShards: m.NumShards, InlineSnapshots: m.InlineSnapshots,
		MaintainedIndexes: m.MaintainedIndexes, MaintainAllIndexes: m.MaintainAll, MergedGenerations: mergedProtos(m.Merged), WriterConfigDefaults: m.WriterDefaults,
	}
	for _, s := range m.Specs {
		spec := &pb.ShardingSpec{SpecId: s.ID}
		for _, f := range s.Fields {
			field := &pb.ShardingField{FieldId: f.FieldID, SourceIds: f.SourceIDs, ResultType: f.ResultType, Parameters: f.Parameters}
			if f.Transform != "" {
				field.Transform = proto.String(f.Transform)
			}
			if f.Expression != "" {
				field.Expression = proto.String(f.Expression)
			}
			setUnknown(field, f.unknown)
			spec.Fields = append(spec.Fields, field)
		}
		setUnknown(spec, s.unknown)
		p.ShardingSpecs = append(p.ShardingSpecs, spec)
	}
	for _, c := range m.Catchup {
		progress := &pb.IndexCatchupProgress{IndexName: c.Index, CaughtUpGenerations: mergedProtos(c.CaughtUp)}
		setUnknown(progress, c.unknown)
		p.IndexCatchup = append(p.IndexCatchup, progress)
	}
	setUnknown(p, m.unknown)
	return p
}

// any packs the details for an index entry.
func (m *MemWAL) any() (*anypb.Any, error) {
	value, err := marshal(m.proto())
	if err != nil {
		return nil, fmt.Errorf("MemWAL details: %w", err)
	}
	return &anypb.Any{TypeUrl: memWALTypeURL, Value: value}, nil
}
