package table

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// Transaction is what a version records about the commit that made it.
type Transaction struct {
	ReadVersion uint64 // version the committer read, 0 for the first
	UUID        string
	Op          Operation

	movesColumns  bool     // the operation rewrites values in place
	movedFields   []uint32 // the fields it rewrites, if it says so
	touchesSchema bool     // schema or field metadata change
}

// Transaction returns the transaction of this version: from its file, else the inline copy.
// errs.ErrNotFound if the version has neither.
func (d *Dataset) Transaction(ctx context.Context) (*Transaction, error) {
	s := d.state
	if s.inlineTxn != nil {
		return decodeTransaction(s.object, s.inlineTxn)
	}
	name := s.m.TransactionFile
	if name == "" {
		return nil, fmt.Errorf("transaction of version %d: %w", d.Version(), errs.ErrNotFound)
	}
	if !plainSegment(name) {
		return nil, errs.Corrupt(s.object, -1, "transaction file %q is not one segment", name)
	}
	object := join(d.root, transactionsDir, name)
	b, err := d.env.st.ReadAll(ctx, object, transactionBytesMax)
	if err != nil {
		return nil, fmt.Errorf("transaction of version %d: %w", d.Version(), err)
	}
	return decodeTransaction(object, b)
}

// decodeTransaction parses untrusted bytes: a bare Transaction message.
func decodeTransaction(object string, b []byte) (*Transaction, error) {
	p := &pb.Transaction{}
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, errs.Corrupt(object, -1, "transaction: %v", err)
	}
	t := &Transaction{ReadVersion: p.ReadVersion, UUID: p.Uuid}
	var err error
	if t.Op, err = t.operation(object, p); err != nil {
		return nil, fmt.Errorf("transaction: %w", err)
	}
	return t, nil
}

func (t *Transaction) operation(object string, p *pb.Transaction) (Operation, error) {
	switch o := p.Operation.(type) {
	case *pb.Transaction_Append:
		list, err := fragmentsFrom(object, o.Append.GetFragments())
		return Append{Fragments: list}, err
	case *pb.Transaction_Delete:
		list, err := fragmentsFrom(object, o.Delete.GetUpdatedFragments())
		return Delete{Updated: list, DeletedIDs: o.Delete.GetDeletedFragmentIds(), Predicate: o.Delete.GetPredicate()}, err
	case *pb.Transaction_Overwrite:
		list, err := fragmentsFrom(object, o.Overwrite.GetFragments())
		return Overwrite{Fragments: list, ConfigUpsert: o.Overwrite.GetConfigUpsertValues()}, err
	case *pb.Transaction_CreateIndex:
		return createIndexFrom(object, o.CreateIndex)
	case *pb.Transaction_Rewrite:
		return rewriteFrom(object, o.Rewrite)
	case *pb.Transaction_Merge:
		list, err := fragmentsFrom(object, o.Merge.GetFragments())
		if err != nil {
			return nil, err
		}
		s, err := schemaFrom(object, o.Merge.GetSchema(), o.Merge.GetSchemaMetadata())
		return Merge{Schema: s, Fragments: list, PreservesNullability: o.Merge.GetPreservesNullability()}, err
	case *pb.Transaction_Restore:
		return Restore{Version: o.Restore.GetVersion()}, nil
	case *pb.Transaction_ReserveFragments:
		return ReserveFragments{Count: o.ReserveFragments.GetNumFragments()}, nil
	case *pb.Transaction_Update:
		t.movesColumns = len(o.Update.GetFieldsModified()) > 0 || o.Update.GetUpdateMode() != pb.UpdateMode_REWRITE_ROWS
		t.movedFields = o.Update.GetFieldsModified()
		return updateFrom(object, o.Update)
	case *pb.Transaction_Project:
		s, err := schemaFrom(object, o.Project.GetSchema(), nil)
		return Project{Schema: s, PreservesNullability: o.Project.GetPreservesNullability()}, err
	case *pb.Transaction_UpdateConfig:
		return t.updateConfigFrom(o.UpdateConfig), nil
	case *pb.Transaction_DataReplacement:
		return dataReplacementFrom(object, o.DataReplacement)
	case *pb.Transaction_UpdateMemWalState:
		merged, err := mergedFrom(object, o.UpdateMemWalState.GetMergedGenerations())
		return UpdateMemWALState{Merged: merged}, err
	case *pb.Transaction_Clone:
		return Other{Which: KindClone}, nil
	case *pb.Transaction_UpdateBases:
		return updateBasesFrom(o.UpdateBases), nil
	}
	return Other{Which: KindUnknown}, nil
}

func createIndexFrom(object string, p *pb.CreateIndexOperation) (Operation, error) {
	var o CreateIndex
	for _, e := range p.GetNewIndices() {
		entry, err := indexEntryFrom(object, e)
		if err != nil {
			return nil, err
		}
		o.New = append(o.New, entry)
	}
	for _, e := range p.GetRemovedIndices() {
		entry, err := indexEntryFrom(object, e)
		if err != nil {
			return nil, err
		}
		o.Removed = append(o.Removed, entry.UUID)
		o.removedNames = append(o.removedNames, entry.Name)
	}
	return o, nil
}

func rewriteFrom(object string, p *pb.RewriteOperation) (Operation, error) {
	groups := p.GetGroups()
	if len(groups) == 0 && len(p.GetOldFragments()) > 0 {
		groups = []*pb.RewriteOperation_Group{{OldFragments: p.OldFragments, NewFragments: p.NewFragments}}
	}
	var o Rewrite
	for _, g := range groups {
		before, err := fragmentsFrom(object, g.GetOldFragments())
		if err != nil {
			return nil, err
		}
		after, err := fragmentsFrom(object, g.GetNewFragments())
		if err != nil {
			return nil, err
		}
		o.Groups = append(o.Groups, RewriteGroup{Old: before, New: after})
	}
	return o, nil
}

func updateFrom(object string, p *pb.UpdateOperation) (Operation, error) {
	o := Update{RemovedFragmentIDs: p.GetRemovedFragmentIds(), FieldsForPreservingFragBitmap: p.GetFieldsForPreservingFragBitmap()}
	var err error
	if o.UpdatedFragments, err = fragmentsFrom(object, p.GetUpdatedFragments()); err != nil {
		return nil, err
	}
	if o.NewFragments, err = fragmentsFrom(object, p.GetNewFragments()); err != nil {
		return nil, err
	}
	o.Merged, err = mergedFrom(object, p.GetMergedGenerations())
	return o, err
}

func (t *Transaction) updateConfigFrom(p *pb.UpdateConfigOperation) Operation {
	o := UpdateConfig{
		Config: mapUpdateFrom(p.GetConfigUpdates()), TableMetadata: mapUpdateFrom(p.GetTableMetadataUpdates()),
		SchemaMetadata: mapUpdateFrom(p.GetSchemaMetadataUpdates()),
	}
	if o.Config == nil && len(p.GetUpsertValues())+len(p.GetDeleteKeys()) > 0 { // the deprecated form
		o.Config = &MapUpdate{Set: p.GetUpsertValues(), Delete: p.GetDeleteKeys()}
	}
	for id, u := range p.GetFieldMetadataUpdates() {
		if o.FieldMetadata == nil {
			o.FieldMetadata = make(map[int32]*MapUpdate)
		}
		o.FieldMetadata[id] = mapUpdateFrom(u)
	}
	t.touchesSchema = o.SchemaMetadata != nil || len(o.FieldMetadata)+len(p.GetSchemaMetadata())+len(p.GetFieldMetadata()) > 0
	return o
}

func mapUpdateFrom(p *pb.UpdateMap) *MapUpdate {
	if p == nil {
		return nil
	}
	u := &MapUpdate{Replace: p.Replace, Set: make(map[string]string)}
	for _, e := range p.UpdateEntries {
		if e.GetValue() == "" && e.Value == nil {
			u.Delete = append(u.Delete, e.GetKey())
			continue
		}
		u.Set[e.Key] = e.GetValue()
	}
	return u
}

func dataReplacementFrom(object string, p *pb.DataReplacementOperation) (Operation, error) {
	var o DataReplacement
	for _, g := range p.GetReplacements() {
		f, err := dataFileFrom(g.GetNewFile())
		if err != nil {
			return nil, errs.Corrupt(object, -1, "replacement in fragment %d: %v", g.GetFragmentId(), err)
		}
		o.Replacements = append(o.Replacements, Replacement{FragmentID: g.GetFragmentId(), File: f})
	}
	return o, nil
}

// schemaFrom decodes the schema of an operation; damage to it is damage to the object.
func schemaFrom(object string, fields []*pb.Field, metadata map[string][]byte) (*schema.Schema, error) {
	s, err := schema.FromProto(fields, metadata)
	if errors.Is(err, errs.ErrInvalid) {
		return nil, errs.Corrupt(object, -1, "schema of the operation: %v", err)
	}
	return s, err
}
