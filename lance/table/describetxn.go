package table

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// TransactionDescription is what a transaction records, in short: which operation on which version, and how many
// things it touches. It is for people and tools.
type TransactionDescription struct {
	ReadVersion uint64
	UUID        string
	Operation   string // Kind.Name
	Effects     []Effect
	Merged      []MergedGeneration
	Predicate   string // of a delete, "" if not recorded
	Properties  map[string]string
}

// Effect counts the things of one sort that an operation names.
type Effect struct {
	What  string // plural, e.g. "new fragments"
	Count uint64
}

// Name is the operation in words, for example "update" or "create index".
func (k Kind) Name() string {
	names := [...]string{
		"append", "delete", "overwrite", "create index", "rewrite", "merge", "restore", "reserve fragments", "update",
		"project", "update config", "data replacement", "update MemWAL state", "clone", "update bases",
	}
	if i := int(k - KindAppend); i >= 0 && i < len(names) {
		return names[i]
	}
	return "unknown"
}

// DescribeTransaction parses a Transaction message, the whole content of a transaction file. object names the file
// in errors. errs.ErrCorruption.
func DescribeTransaction(object string, b []byte) (*TransactionDescription, error) {
	p := &pb.Transaction{}
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, errs.Corrupt(object, -1, "transaction: %v", err)
	}
	t := &TransactionDescription{ReadVersion: p.ReadVersion, UUID: p.Uuid, Properties: cloneMap(p.TransactionProperties)}
	kind, err := t.effects(object, p)
	t.Operation = kind.Name()
	if kind == KindUnknown {
		if numbers := unknownNumbers(p.ProtoReflect().GetUnknown()); len(numbers) > 0 {
			t.Operation = fmt.Sprintf("unknown %d", numbers[0])
		}
	}
	return t, err
}

func (t *TransactionDescription) effect(what string, n int) {
	if n > 0 {
		t.Effects = append(t.Effects, Effect{what, uint64(n)})
	}
}

func (t *TransactionDescription) effects(object string, p *pb.Transaction) (kind Kind, err error) {
	switch o := p.Operation.(type) {
	case *pb.Transaction_Append:
		t.effect("new fragments", len(o.Append.GetFragments()))
		return KindAppend, nil
	case *pb.Transaction_Delete:
		t.effect("updated fragments", len(o.Delete.GetUpdatedFragments()))
		t.effect("removed fragments", len(o.Delete.GetDeletedFragmentIds()))
		t.Predicate = o.Delete.GetPredicate()
		return KindDelete, nil
	case *pb.Transaction_Overwrite:
		t.effect("new fragments", len(o.Overwrite.GetFragments()))
		t.effect("fields", len(o.Overwrite.GetSchema()))
		return KindOverwrite, nil
	case *pb.Transaction_CreateIndex:
		t.effect("new index entries", len(o.CreateIndex.GetNewIndices()))
		t.effect("removed index entries", len(o.CreateIndex.GetRemovedIndices()))
		return KindCreateIndex, nil
	case *pb.Transaction_Rewrite:
		before, after := len(o.Rewrite.GetOldFragments()), len(o.Rewrite.GetNewFragments())
		for _, g := range o.Rewrite.GetGroups() {
			before += len(g.GetOldFragments())
			after += len(g.GetNewFragments())
		}
		t.effect("removed fragments", before)
		t.effect("new fragments", after)
		t.effect("rewritten indexes", len(o.Rewrite.GetRewrittenIndices()))
		return KindRewrite, nil
	case *pb.Transaction_Update:
		t.effect("new fragments", len(o.Update.GetNewFragments()))
		t.effect("updated fragments", len(o.Update.GetUpdatedFragments()))
		t.effect("removed fragments", len(o.Update.GetRemovedFragmentIds()))
		t.Merged, err = mergedFrom(object, o.Update.GetMergedGenerations())
		return KindUpdate, err
	case *pb.Transaction_UpdateMemWalState:
		t.Merged, err = mergedFrom(object, o.UpdateMemWalState.GetMergedGenerations())
		return KindUpdateMemWALState, err
	}
	return t.schemaEffects(p), nil
}

// schemaEffects describes the operations that move no rows.
func (t *TransactionDescription) schemaEffects(p *pb.Transaction) Kind {
	switch o := p.Operation.(type) {
	case *pb.Transaction_Merge:
		t.effect("fragments", len(o.Merge.GetFragments()))
		t.effect("fields", len(o.Merge.GetSchema()))
		return KindMerge
	case *pb.Transaction_Restore:
		t.Effects = append(t.Effects, Effect{"restored version", o.Restore.GetVersion()})
		return KindRestore
	case *pb.Transaction_ReserveFragments:
		t.effect("reserved fragment ids", int(o.ReserveFragments.GetNumFragments()))
		return KindReserveFragments
	case *pb.Transaction_Project:
		t.effect("fields", len(o.Project.GetSchema()))
		return KindProject
	case *pb.Transaction_UpdateConfig:
		c := o.UpdateConfig
		t.effect("config keys", len(c.GetConfigUpdates().GetUpdateEntries())+len(c.GetUpsertValues())+len(c.GetDeleteKeys()))
		t.effect("table metadata keys", len(c.GetTableMetadataUpdates().GetUpdateEntries()))
		t.effect("schema metadata keys", len(c.GetSchemaMetadataUpdates().GetUpdateEntries())+len(c.GetSchemaMetadata()))
		t.effect("fields with changed metadata", len(c.GetFieldMetadataUpdates())+len(c.GetFieldMetadata()))
		return KindUpdateConfig
	case *pb.Transaction_DataReplacement:
		t.effect("replaced data files", len(o.DataReplacement.GetReplacements()))
		return KindDataReplacement
	case *pb.Transaction_Clone:
		return KindClone
	case *pb.Transaction_UpdateBases:
		t.effect("new base paths", len(o.UpdateBases.GetNewBases()))
		return KindUpdateBases
	}
	return KindUnknown
}
