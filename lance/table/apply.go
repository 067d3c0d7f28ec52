package table

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

func (o Append) apply(_ context.Context, b *builder) error {
	if len(o.Fragments) == 0 {
		return fmt.Errorf("append of nothing: %w", errs.ErrInvalid)
	}
	b.txn.Operation = &pb.Transaction_Append{Append: &pb.AppendOperation{Fragments: fragmentProtos(o.Fragments)}}
	return b.add(o.Fragments)
}

func (o Delete) apply(_ context.Context, b *builder) error {
	updated, gone, err := b.replaceAndRemove(o.Updated, o.DeletedIDs)
	if err != nil {
		return err
	}
	b.txn.Operation = &pb.Transaction_Delete{Delete: &pb.DeleteOperation{
		UpdatedFragments: fragmentProtos(updated), DeletedFragmentIds: gone, Predicate: o.Predicate,
	}}
	return nil
}

func (o Overwrite) apply(_ context.Context, b *builder) error {
	if o.Schema == nil {
		return fmt.Errorf("overwrite without a schema: %w", errs.ErrInvalid)
	}
	fields := o.Schema.ToProto()
	metadata := bytesMap(o.Schema.Metadata)
	checked, err := schema.FromProto(fields, metadata) // what we write must be readable
	if err != nil {
		return fmt.Errorf("overwrite: schema: %w", err)
	}
	b.schema, b.m.Fields, b.m.SchemaMetadata = checked, fields, metadata
	b.fragments, b.indices, b.memwal = nil, nil, nil
	if len(o.ConfigUpsert) > 0 {
		config := make(map[string]string, len(b.m.Config)+len(o.ConfigUpsert))
		maps.Copy(config, b.m.Config)
		maps.Copy(config, o.ConfigUpsert)
		b.m.Config = config
	}
	b.txn.Operation = &pb.Transaction_Overwrite{Overwrite: &pb.OverwriteOperation{
		Fragments: fragmentProtos(o.Fragments), Schema: fields, SchemaMetadata: metadata, ConfigUpsertValues: cloneMap(o.ConfigUpsert),
	}}
	return b.add(o.Fragments)
}

func (o Update) apply(_ context.Context, b *builder) error {
	if b.m.ReaderFeatureFlags&flagStableRowIDs != 0 && len(o.NewFragments) > 0 {
		// The moved rows would have to keep their ids, which this package does not track.
		return fmt.Errorf("update of a table with stable row ids: %w", errs.ErrUnsupported)
	}
	updated, gone, err := b.replaceAndRemove(o.UpdatedFragments, o.RemovedFragmentIDs)
	if err != nil {
		return err
	}
	if err := b.advanceMemWAL(o.Merged); err != nil {
		return err
	}
	b.txn.Operation = &pb.Transaction_Update{Update: &pb.UpdateOperation{
		RemovedFragmentIds: gone, UpdatedFragments: fragmentProtos(updated), NewFragments: fragmentProtos(o.NewFragments),
		MergedGenerations: mergedProtos(o.Merged), FieldsForPreservingFragBitmap: o.FieldsForPreservingFragBitmap,
		UpdateMode: pb.UpdateMode_REWRITE_ROWS,
	}}
	if err := b.add(o.NewFragments); err != nil {
		return err
	}
	return b.alongside(o)
}

// alongside puts the index segments of an update into the new version.
func (b *builder) alongside(o Update) error {
	for _, id := range o.ReplacedIndexes {
		i := slices.IndexFunc(b.indices, func(e *pb.IndexMetadata) bool { return string(e.Uuid.Uuid) == string(id[:]) })
		if i < 0 {
			return fmt.Errorf("index entry %s is not in version %d: %w", id, b.m.Version-1, errs.ErrConflict)
		}
		b.indices = slices.Delete(b.indices, i, i+1)
	}
	have := make(map[uint64]bool, len(b.fragments))
	for _, f := range b.fragments {
		have[f.ID] = true
	}
	for _, e := range o.NewIndexes {
		if e.DatasetVersion == 0 {
			e.DatasetVersion = b.m.Version
		}
		for _, id := range e.Fragments.ToArray() {
			if !have[uint64(id)] {
				return fmt.Errorf("index segment %s covers fragment %d, which version %d does not have: %w", e.Name, id, b.m.Version, errs.ErrConflict)
			}
		}
		p, err := b.newEntry(e)
		if err != nil {
			return err
		}
		b.indices = append(b.indices, p)
	}
	return b.caughtUp(o.CaughtUp)
}

// caughtUp records that indexes cover everything merged. Spec: MemWAL, "Index catch-up".
func (b *builder) caughtUp(names []string) error {
	if len(names) == 0 || b.memwal == nil {
		return nil
	}
	next := b.memwal.Clone()
	for _, name := range names {
		next.Catchup = slices.DeleteFunc(next.Catchup, func(c IndexCatchup) bool { return c.Index == name })
		next.Catchup = append(next.Catchup, IndexCatchup{Index: name, CaughtUp: slices.Clone(next.Merged)})
	}
	return b.setMemWAL(next)
}

func (o CreateIndex) apply(_ context.Context, b *builder) error {
	op := &pb.CreateIndexOperation{}
	changed := make(map[string]bool) // names whose catch-up is no longer known
	drop := func(id uuid.UUID) bool {
		i := slices.IndexFunc(b.indices, func(e *pb.IndexMetadata) bool { return string(e.Uuid.Uuid) == string(id[:]) })
		if i < 0 {
			return false
		}
		op.RemovedIndices = append(op.RemovedIndices, b.indices[i])
		changed[b.indices[i].Name] = true
		if isMemWAL(b.indices[i]) {
			b.memwal = nil
		}
		b.indices = slices.Delete(b.indices, i, i+1)
		return true
	}
	for _, id := range o.Removed {
		if !drop(id) {
			return fmt.Errorf("index entry %s is not in version %d: %w", id, b.m.Version-1, errs.ErrNotFound)
		}
	}
	for _, e := range o.New {
		if e.UUID == uuid.Nil {
			e.UUID = b.env.newUUID()
		} else {
			drop(e.UUID)
		}
		p, err := b.newEntry(e)
		if err != nil {
			return err
		}
		changed[e.Name] = true
		op.NewIndices = append(op.NewIndices, p)
		b.indices = append(b.indices, p)
	}
	b.txn.Operation = &pb.Transaction_CreateIndex{CreateIndex: op}
	return b.forgetCatchup(changed)
}

func (b *builder) newEntry(e IndexEntry) (*pb.IndexMetadata, error) {
	if e.MemWAL != nil {
		if b.memwal != nil {
			return nil, fmt.Errorf("MemWAL entry: %w", errs.ErrExists)
		}
		e.Name = MemWALName
		b.memwal = e.MemWAL.Clone()
	}
	if e.DatasetVersion == 0 {
		e.DatasetVersion = max(b.m.Version-1, 1)
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = b.now
	}
	return e.proto()
}

// forgetCatchup removes what the MemWAL entry says about indexes that changed: an absent entry means "unknown",
// which is safe. Spec: MemWAL, "Index catch-up".
func (b *builder) forgetCatchup(names map[string]bool) error {
	if b.memwal == nil || !slices.ContainsFunc(b.memwal.Catchup, func(c IndexCatchup) bool { return names[c.Index] }) {
		return nil
	}
	next := b.memwal.Clone()
	next.Catchup = slices.DeleteFunc(next.Catchup, func(c IndexCatchup) bool { return names[c.Index] })
	return b.setMemWAL(next)
}

func (o UpdateConfig) apply(_ context.Context, b *builder) error {
	op := &pb.UpdateConfigOperation{
		ConfigUpdates: o.Config.proto(), TableMetadataUpdates: o.TableMetadata.proto(), SchemaMetadataUpdates: o.SchemaMetadata.proto(),
	}
	b.m.Config = o.Config.on(b.m.Config)
	b.m.TableMetadata = o.TableMetadata.on(b.m.TableMetadata)
	b.m.SchemaMetadata = bytesMap(o.SchemaMetadata.on(stringsMap(b.m.SchemaMetadata)))
	if len(o.FieldMetadata) > 0 {
		op.FieldMetadataUpdates = make(map[int32]*pb.UpdateMap, len(o.FieldMetadata))
		b.m.Fields = slices.Clone(b.m.Fields)
	}
	for id, u := range o.FieldMetadata {
		i := slices.IndexFunc(b.m.Fields, func(f *pb.Field) bool { return f.Id == id })
		if i < 0 {
			return fmt.Errorf("field %d is not in version %d: %w", id, b.m.Version-1, errs.ErrInvalid)
		}
		f := shallowCopy(b.m.Fields[i])
		// The schema's copy of the metadata has the key marks in it even where the message has them only as fields.
		f.Metadata = bytesMap(u.on(b.schema.FieldByID(id).Metadata))
		f.UnenforcedPrimaryKey, f.UnenforcedPrimaryKeyPosition, f.UnenforcedClusteringKeyPosition = false, 0, 0
		b.m.Fields[i] = f
		op.FieldMetadataUpdates[id] = u.proto()
	}
	if err := b.reschema(o.FieldMetadata); err != nil {
		return err
	}
	b.txn.Operation = &pb.Transaction_UpdateConfig{UpdateConfig: op}
	return nil
}

// reschema derives the schema again after metadata changed, and the key marks of the touched fields from it.
// A primary key is for ever.
func (b *builder) reschema(touched map[int32]*MapUpdate) error {
	next, err := schema.FromProto(b.m.Fields, b.m.SchemaMetadata)
	if err != nil {
		return fmt.Errorf("schema metadata: %w", err)
	}
	before := b.schema.PrimaryKey()
	same := slices.EqualFunc(before, next.PrimaryKey(), func(x, y *schema.Field) bool { return x.ID == y.ID })
	if len(before) > 0 && !same {
		return fmt.Errorf("change of the primary key: %w", errs.ErrInvalid)
	}
	b.schema = next
	if len(touched) == 0 {
		return nil
	}
	for _, p := range next.ToProto() {
		if _, ok := touched[p.Id]; !ok {
			continue
		}
		i := slices.IndexFunc(b.m.Fields, func(f *pb.Field) bool { return f.Id == p.Id })
		b.m.Fields[i] = p
	}
	return nil
}

// on returns m with the update applied; m itself is not changed. A nil update changes nothing.
func (u *MapUpdate) on(m map[string]string) map[string]string {
	if u == nil {
		return m
	}
	if u.Replace {
		return cloneMap(u.Set)
	}
	next := make(map[string]string, len(m)+len(u.Set))
	maps.Copy(next, m)
	maps.Copy(next, u.Set)
	for _, k := range u.Delete {
		delete(next, k)
	}
	return cloneMap(next)
}

func (u *MapUpdate) proto() *pb.UpdateMap {
	if u == nil {
		return nil
	}
	p := &pb.UpdateMap{Replace: u.Replace}
	for _, k := range slices.Sorted(maps.Keys(u.Set)) {
		p.UpdateEntries = append(p.UpdateEntries, &pb.UpdateMapEntry{Key: k, Value: proto.String(u.Set[k])})
	}
	for _, k := range u.Delete {
		p.UpdateEntries = append(p.UpdateEntries, &pb.UpdateMapEntry{Key: k})
	}
	return p
}

func bytesMap(m map[string]string) map[string][]byte {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string][]byte, len(m))
	for k, v := range m {
		out[k] = []byte(v)
	}
	return out
}

func stringsMap(m map[string][]byte) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}
