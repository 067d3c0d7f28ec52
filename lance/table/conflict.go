package table

import (
	"fmt"

	"github.com/google/uuid"

	"lancesql/internal/errs"
)

// mayRebase says whether op, prepared on an older version, may be applied on top of a version made by other.
// nil means yes: applying op to the newer parent gives what its caller meant. Otherwise errs.ErrConflict: the caller
// recomputes from the newest version.
//
// Why: the reference knows finer cases (merging deletion sets, comparing filters of inserted keys). Refusing them is
// sound and costs a recomputation. Two rules are stricter than the reference on purpose: an Update that advances
// merged generations is an upsert whose lookups an Append or another Update may have invalidated; and nothing
// passes over an operation this package does not know.
// Spec: table transactions, "Conflicts".
func mayRebase(op Operation, other *Transaction) error {
	if !rebases(op, other) {
		return fmt.Errorf("operation %d over operation %d: %w", int(op.Kind()), int(other.Op.Kind()), errs.ErrConflict)
	}
	return nil
}

func rebases(op Operation, other *Transaction) bool {
	switch o := plain(op).(type) {
	case Append:
		return appendRebases(other)
	case Delete:
		return changeRebases(touchedBy(o.Updated, o.DeletedIDs), other)
	case Update:
		kind := other.Op.Kind()
		if len(o.Merged) > 0 && (kind == KindAppend || kind == KindUpdate) {
			return false
		}
		if len(o.NewFragments) > 0 && other.checksInsertion {
			return false
		}
		return changeRebases(touchedBy(o.UpdatedFragments, o.RemovedFragmentIDs), other)
	case CreateIndex:
		return indexRebases(o, other)
	case UpdateConfig:
		return configRebases(o, other)
	}
	return false
}

// plain turns a pointer to an operation into the operation.
func plain(op Operation) Operation {
	switch o := op.(type) {
	case *Append:
		return *o
	case *Delete:
		return *o
	case *Overwrite:
		return *o
	case *Update:
		return *o
	case *UpdateConfig:
		return *o
	case *CreateIndex:
		return *o
	}
	return op
}

func appendRebases(other *Transaction) bool {
	switch o := other.Op.(type) {
	case Append, Delete, Update, CreateIndex, Rewrite, ReserveFragments, UpdateConfig, DataReplacement:
		return true
	case Merge:
		return o.PreservesNullability
	case Project:
		return o.PreservesNullability
	}
	return false
}

// changeRebases is for operations that set the state of the touched fragments.
func changeRebases(touched map[uint64]bool, other *Transaction) bool {
	free := func(updated []*Fragment, removed []uint64) bool {
		for id := range touchedBy(updated, removed) {
			if touched[id] {
				return false
			}
		}
		return true
	}
	switch o := other.Op.(type) {
	case Append, CreateIndex, ReserveFragments:
		return true
	case UpdateConfig:
		return true
	case Delete:
		return free(o.Updated, o.DeletedIDs)
	case Update:
		return free(o.UpdatedFragments, o.RemovedFragmentIDs)
	case DataReplacement:
		return free(nil, o.FragmentIDs)
	case Rewrite:
		for _, g := range o.Groups {
			if !free(g.Old, nil) {
				return false
			}
		}
		return true
	}
	return false
}

func touchedBy(updated []*Fragment, removed []uint64) map[uint64]bool {
	out := make(map[uint64]bool, len(updated)+len(removed))
	for _, f := range updated {
		out[f.ID] = true
	}
	for _, id := range removed {
		out[id] = true
	}
	return out
}

func indexRebases(op CreateIndex, other *Transaction) bool {
	switch o := other.Op.(type) {
	case Append, Delete, ReserveFragments:
		return true
	case UpdateConfig:
		return !other.touchesSchema
	case Update:
		// A MemWAL entry prepared before generations were merged would take them back.
		return !other.movesColumns && (len(o.Merged) == 0 || !op.installsMemWAL())
	case CreateIndex:
		return !op.sharesEntries(o)
	}
	return false
}

func (o CreateIndex) installsMemWAL() bool {
	for _, e := range o.New {
		if e.MemWAL != nil || e.Name == MemWALName {
			return true
		}
	}
	return false
}

// sharesEntries says whether both operations name one index or one entry.
func (o CreateIndex) sharesEntries(p CreateIndex) bool {
	names, ids := make(map[string]bool), make(map[uuid.UUID]bool)
	for _, e := range o.New {
		names[e.Name], ids[e.UUID] = true, true
	}
	for _, id := range o.Removed {
		ids[id] = true
	}
	delete(ids, uuid.Nil)
	for _, e := range p.New {
		if names[e.Name] || ids[e.UUID] {
			return true
		}
	}
	for _, id := range p.Removed {
		if ids[id] {
			return true
		}
	}
	// Adding a segment to an index that the other side removes cannot be seen from identifiers alone.
	return len(p.Removed) > 0 && len(o.New) > 0 || len(o.Removed) > 0 && len(p.New) > 0
}

func configRebases(op UpdateConfig, other *Transaction) bool {
	schemaToo := op.SchemaMetadata != nil || len(op.FieldMetadata) > 0
	switch o := other.Op.(type) {
	case Append, Delete, Update, CreateIndex, Rewrite, ReserveFragments, DataReplacement:
		return true
	case Merge, Project:
		return !schemaToo
	case UpdateConfig:
		if schemaToo && other.touchesSchema {
			return false
		}
		return !op.Config.overlaps(o.Config) && !op.TableMetadata.overlaps(o.TableMetadata)
	}
	return false
}

// overlaps says whether two updates of one map may depend on each other's order.
func (u *MapUpdate) overlaps(v *MapUpdate) bool {
	if u == nil || v == nil {
		return false
	}
	if u.Replace || v.Replace {
		return true
	}
	keys := make(map[string]bool)
	for k := range u.Set {
		keys[k] = true
	}
	for _, k := range u.Delete {
		keys[k] = true
	}
	for k := range v.Set {
		if keys[k] {
			return true
		}
	}
	for _, k := range v.Delete {
		if keys[k] {
			return true
		}
	}
	return false
}
