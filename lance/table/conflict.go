package table

import (
	"slices"

	"github.com/google/uuid"

	"lancesql/lance/schema"
)

// The methods below are the rows of the conflict table, proved on the reference by testdata/oracle/table_conflicts.py.
// Four cells are stricter than the reference, which loses data in the first two (docs/format/manifest.md):
//
//   - Append over a Merge that retyped a column of the appended rows: their values would read as null.
//   - Project over an UpdateConfig of field metadata: the metadata would be lost, the projection carries its own.
//   - CreateIndex over a commit that dropped its column: the entry would name nothing.
//   - Update with merged generations, or with keys looked up, over commits that add rows: the look-ups are stale.

func (o Append) against(_ *state, other *Transaction) verdict {
	switch p := other.Op.(type) {
	case Overwrite, Restore, UpdateMemWALState:
		return incompatible
	case Merge:
		if !hasFieldsOf(p, o.Fragments) {
			return retryable
		}
	}
	return passes
}

// hasFieldsOf says whether the merged schema still has every field of the new fragments.
func hasFieldsOf(m Merge, list []*Fragment) bool {
	for _, f := range list {
		for _, df := range f.Files {
			for _, id := range df.Fields {
				if id >= 0 && m.Schema != nil && m.Schema.FieldByID(id) == nil {
					return false
				}
			}
		}
	}
	return true
}

func (o Delete) against(_ *state, other *Transaction) verdict {
	return changeAgainst(touchedBy(o.Updated, o.DeletedIDs), other)
}

func (o Update) against(base *state, other *Transaction) verdict {
	switch p := other.Op.(type) {
	case Append:
		if len(o.Merged) > 0 || o.InsertsByKey {
			return retryable
		}
	case Update:
		if len(o.Merged) > 0 || o.InsertsByKey && len(p.NewFragments) > 0 {
			return retryable
		}
	case UpdateMemWALState:
		if sharesShard(o.Merged, p.Merged) {
			return retryable
		}
		return passes
	}
	return changeAgainst(touchedBy(o.UpdatedFragments, o.RemovedFragmentIDs), other)
}

// changeAgainst is for operations that set the deletions of the touched fragments. Rows that both sides touch are
// found when the sets are joined (rebase.go).
func changeAgainst(touched map[uint64]bool, other *Transaction) verdict {
	switch p := other.Op.(type) {
	case Overwrite, Restore, UpdateMemWALState:
		return incompatible
	case Merge:
		return retryable
	case Update:
		if other.movesColumns && overlap(touched, touchedBy(p.UpdatedFragments, p.RemovedFragmentIDs)) {
			return retryable
		}
	case Rewrite:
		if overlap(touched, p.oldIDs()) {
			return retryable
		}
	case DataReplacement:
		if overlap(touched, p.fragmentIDs()) {
			return retryable
		}
	}
	return passes
}

func (o Overwrite) against(_ *state, other *Transaction) verdict {
	switch p := other.Op.(type) {
	case UpdateMemWALState:
		return incompatible
	case Overwrite:
		for k := range o.ConfigUpsert {
			if _, both := p.ConfigUpsert[k]; both {
				return incompatible
			}
		}
		return retryable
	case UpdateConfig:
		if upsertOf(o.ConfigUpsert).overlaps(p.Config) {
			return incompatible
		}
	}
	return passes
}

func (o CreateIndex) against(base *state, other *Transaction) verdict {
	switch p := other.Op.(type) {
	case Overwrite, Restore:
		return incompatible
	case UpdateMemWALState:
		if !o.installsMemWAL() {
			return incompatible
		}
		return retryable
	case CreateIndex:
		if o.sharesEntries(base, p) {
			return retryable
		}
	case Rewrite:
		if o.covers(p.oldIDs()) {
			return retryable
		}
	case Merge:
		return o.whileFieldsExist(p.Schema.FieldByID)
	case Project:
		return o.whileFieldsExist(p.Schema.FieldByID)
	case DataReplacement:
		for _, r := range p.Replacements {
			if o.indexesAny(r.File.Fields) {
				return retryable
			}
		}
	case Update:
		// An entry prepared before generations were merged would take them back.
		if len(p.Merged) > 0 && o.installsMemWAL() {
			return retryable
		}
	}
	return passes
}

func (o Rewrite) against(_ *state, other *Transaction) verdict {
	old := o.oldIDs()
	touches := func(ids map[uint64]bool) verdict {
		if overlap(old, ids) {
			return retryable
		}
		return passes
	}
	switch p := other.Op.(type) {
	case Overwrite, Restore:
		return incompatible
	case Merge:
		return retryable
	case Delete:
		return touches(touchedBy(p.Updated, p.DeletedIDs))
	case Update:
		return touches(touchedBy(p.UpdatedFragments, p.RemovedFragmentIDs))
	case Rewrite:
		return touches(p.oldIDs())
	case DataReplacement:
		return touches(p.fragmentIDs())
	case CreateIndex:
		// A deferred remap is computed on the newest version, so it follows a new entry as well.
		if !o.DeferRemap && p.covers(old) {
			return retryable
		}
	}
	return passes
}

func (o Merge) against(_ *state, other *Transaction) verdict {
	switch other.Op.(type) {
	case Overwrite, Restore, Project, UpdateMemWALState:
		return incompatible
	case Append, Delete, Rewrite, Merge, Update, DataReplacement:
		return retryable
	case UpdateConfig:
		if other.touchesSchema {
			return retryable
		}
	}
	return passes
}

func (o Restore) against(_ *state, other *Transaction) verdict {
	switch other.Op.(type) {
	case UpdateMemWALState:
		return incompatible
	case UpdateConfig:
		if other.touchesSchema {
			return incompatible
		}
	}
	return passes
}

func (o ReserveFragments) against(_ *state, other *Transaction) verdict {
	switch other.Op.(type) {
	case Overwrite, Restore:
		return incompatible
	}
	return passes
}

func (o Project) against(_ *state, other *Transaction) verdict {
	switch p := other.Op.(type) {
	case Overwrite, Restore, UpdateMemWALState:
		return incompatible
	case Merge, Project:
		return retryable
	case UpdateConfig:
		if len(p.FieldMetadata) > 0 {
			return retryable
		}
	}
	return passes
}

func (o UpdateConfig) against(_ *state, other *Transaction) verdict {
	schemaToo := o.SchemaMetadata != nil || len(o.FieldMetadata) > 0
	switch p := other.Op.(type) {
	case Overwrite:
		if schemaToo || o.Config.overlaps(upsertOf(p.ConfigUpsert)) {
			return incompatible
		}
	case Restore:
		if schemaToo {
			return incompatible
		}
	case Merge:
		if schemaToo {
			return retryable
		}
	case Project:
		for id := range o.FieldMetadata {
			if p.Schema.FieldByID(id) == nil {
				return incompatible
			}
		}
	case UpdateConfig:
		if o.clashes(p) {
			return incompatible
		}
	}
	return passes
}

func (o UpdateConfig) clashes(p UpdateConfig) bool {
	for id := range o.FieldMetadata {
		if _, both := p.FieldMetadata[id]; both {
			return true
		}
	}
	return o.SchemaMetadata != nil && p.SchemaMetadata != nil || o.Config.overlaps(p.Config) || o.TableMetadata.overlaps(p.TableMetadata)
}

func (o DataReplacement) against(_ *state, other *Transaction) verdict {
	mine := o.fragmentIDs()
	switch p := other.Op.(type) {
	case Overwrite, Restore, UpdateMemWALState:
		return incompatible
	case Merge:
		return retryable
	case Delete:
		if overlap(mine, touchedBy(nil, p.DeletedIDs)) {
			return incompatible
		}
	case Update:
		if overlap(mine, touchedBy(nil, p.RemovedFragmentIDs)) {
			return incompatible
		}
		moves := len(p.NewFragments) > 0 || other.movesColumns
		if moves && overlap(mine, touchedBy(p.UpdatedFragments, nil)) {
			return retryable
		}
	case Rewrite:
		if overlap(mine, p.oldIDs()) {
			return retryable
		}
	case CreateIndex:
		for _, r := range o.Replacements {
			if p.indexesAny(r.File.Fields) {
				return retryable
			}
		}
	case Project:
		for _, r := range o.Replacements {
			if slices.ContainsFunc(r.File.Fields, func(id int32) bool { return id >= 0 && p.Schema.FieldByID(id) == nil }) {
				return incompatible
			}
		}
	case DataReplacement:
		if o.sharesFields(p) {
			return retryable
		}
	}
	return passes
}

func (o DataReplacement) sharesFields(p DataReplacement) bool {
	for _, r := range o.Replacements {
		for _, q := range p.Replacements {
			if r.FragmentID == q.FragmentID && slices.ContainsFunc(r.File.Fields, func(id int32) bool { return slices.Contains(q.File.Fields, id) }) {
				return true
			}
		}
	}
	return false
}

func (o DataReplacement) fragmentIDs() map[uint64]bool {
	ids := make(map[uint64]bool, len(o.Replacements))
	for _, r := range o.Replacements {
		ids[r.FragmentID] = true
	}
	return ids
}

func (o Rewrite) oldIDs() map[uint64]bool {
	ids := make(map[uint64]bool)
	for _, g := range o.Groups {
		for _, f := range g.Old {
			ids[f.ID] = true
		}
	}
	return ids
}

func overlap(a, b map[uint64]bool) bool {
	for id := range b {
		if a[id] {
			return true
		}
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

func (o CreateIndex) installsMemWAL() bool {
	return slices.ContainsFunc(o.New, func(e IndexEntry) bool { return e.MemWAL != nil || e.Name == MemWALName })
}

func (o CreateIndex) indexesAny(fields []int32) bool {
	return slices.ContainsFunc(o.New, func(e IndexEntry) bool {
		return slices.ContainsFunc(e.Fields, func(id int32) bool { return slices.Contains(fields, id) })
	})
}

// covers says whether a new entry covers, or may cover, one of the fragments.
func (o CreateIndex) covers(ids map[uint64]bool) bool {
	for _, e := range o.New {
		if e.MemWAL != nil || e.Name == MemWALName {
			continue
		}
		if e.Fragments == nil {
			return true
		}
		for id := range ids {
			if e.Fragments.Contains(uint32(id)) {
				return true
			}
		}
	}
	return false
}

// whileFieldsExist lets a new entry pass when its columns are still there.
func (o CreateIndex) whileFieldsExist(field func(id int32) *schema.Field) verdict {
	for _, e := range o.New {
		if slices.ContainsFunc(e.Fields, func(id int32) bool { return field(id) == nil }) {
			return retryable
		}
	}
	return passes
}

// sharesEntries says whether both operations touch one index, by name, or one entry.
func (o CreateIndex) sharesEntries(base *state, p CreateIndex) bool {
	names, ids := make(map[string]bool), make(map[uuid.UUID]bool)
	for _, e := range o.New {
		names[e.Name], ids[e.UUID] = true, true
	}
	for _, id := range o.Removed {
		ids[id] = true
		for _, e := range base.indices {
			if string(e.Uuid.Uuid) == string(id[:]) {
				names[e.Name] = true
			}
		}
	}
	delete(ids, uuid.Nil)
	for _, e := range p.New {
		if names[e.Name] || ids[e.UUID] {
			return true
		}
	}
	return slices.ContainsFunc(p.Removed, func(id uuid.UUID) bool { return ids[id] }) ||
		slices.ContainsFunc(p.removedNames, func(n string) bool { return names[n] })
}

func upsertOf(set map[string]string) *MapUpdate {
	if len(set) == 0 {
		return nil
	}
	return &MapUpdate{Set: set}
}

// overlaps says whether two updates of one map may depend on each other's order.
func (u *MapUpdate) overlaps(v *MapUpdate) bool {
	if u == nil || v == nil {
		return false
	}
	keys := make(map[string]bool)
	for k := range u.Set {
		keys[k] = true
	}
	for _, k := range u.Delete {
		keys[k] = true
	}
	if u.Replace || v.Replace {
		return true
	}
	for k := range v.Set {
		if keys[k] {
			return true
		}
	}
	return slices.ContainsFunc(v.Delete, func(k string) bool { return keys[k] })
}
