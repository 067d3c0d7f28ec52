package table

import (
	"github.com/google/uuid"

	"lancesql/lance/schema"
)

// Operation is one change of a table: what a transaction records. The concrete types of this package implement it,
// as values and as pointers. Those of operation_foreign.go can be read but not committed (errs.ErrUnsupported).
// Spec: table transactions.
type Operation interface {
	// Kind says which operation it is.
	Kind() Kind
	// apply makes the next version's content and the transaction's operation in b, or returns errs.ErrInvalid,
	// errs.ErrConflict, errs.ErrUnsupported.
	apply(b *builder) error
}

// Kind names an operation; the values are the numbers of the transaction message.
type Kind int

// The operations of the reference.
const (
	KindAppend            Kind = 100
	KindDelete            Kind = 101
	KindOverwrite         Kind = 102
	KindCreateIndex       Kind = 103
	KindRewrite           Kind = 104
	KindMerge             Kind = 105
	KindRestore           Kind = 106
	KindReserveFragments  Kind = 107
	KindUpdate            Kind = 108
	KindProject           Kind = 109
	KindUpdateConfig      Kind = 110
	KindDataReplacement   Kind = 111
	KindUpdateMemWALState Kind = 112
	KindClone             Kind = 113
	KindUpdateBases       Kind = 114
	KindUnknown           Kind = 0 // an operation of a newer writer
)

// Append adds fragments; their ids are assigned by the commit.
type Append struct {
	Fragments []*Fragment
}

// Delete marks rows as deleted. Updated are fragments of the read version with their new deletion file
// (WithDeletion); one whose rows are all deleted is removed instead.
type Delete struct {
	Updated    []*Fragment
	DeletedIDs []uint64
	Predicate  string // for humans, may be empty
}

// Overwrite replaces schema and rows. Indexes are dropped, the MemWAL entry included; configuration and table
// metadata stay.
type Overwrite struct {
	Schema       *schema.Schema
	Fragments    []*Fragment
	ConfigUpsert map[string]string
}

// Update rewrites rows: old places are deleted (Updated, RemovedFragmentIDs), new ones added (New).
type Update struct {
	RemovedFragmentIDs []uint64
	UpdatedFragments   []*Fragment // as in Delete
	NewFragments       []*Fragment // ids are assigned by the commit
	// FieldsForPreservingFragBitmap lists the ids of fields whose values changed: all of them for an upsert.
	FieldsForPreservingFragBitmap []uint32
	// Merged advances the MemWAL entry: at most one per shard, each strictly after the recorded generation
	// (else errs.ErrConflict). The version must have the entry (else errs.ErrInvalid).
	Merged []MergedGeneration
}

// MapUpdate changes a string map. Replace: the map becomes exactly Set. Otherwise Set is merged in and Delete removed.
type MapUpdate struct {
	Set     map[string]string
	Delete  []string
	Replace bool
}

// UpdateConfig changes the maps of a table; nil leaves one alone.
type UpdateConfig struct {
	Config         *MapUpdate
	TableMetadata  *MapUpdate
	SchemaMetadata *MapUpdate
	FieldMetadata  map[int32]*MapUpdate // by field id
}

// CreateIndex adds and removes entries of the index section. An entry whose UUID is already present replaces it.
type CreateIndex struct {
	New     []IndexEntry
	Removed []uuid.UUID
}

// InstallMemWAL is the operation that adds the MemWAL entry. Committing it fails with errs.ErrExists if there is one.
func InstallMemWAL(m *MemWAL) *CreateIndex {
	return &CreateIndex{New: []IndexEntry{{Name: MemWALName, MemWAL: m}}}
}

// Kind implements Operation.
func (Append) Kind() Kind { return KindAppend }

// Kind implements Operation.
func (Delete) Kind() Kind { return KindDelete }

// Kind implements Operation.
func (Overwrite) Kind() Kind { return KindOverwrite }

// Kind implements Operation.
func (Update) Kind() Kind { return KindUpdate }

// Kind implements Operation.
func (UpdateConfig) Kind() Kind { return KindUpdateConfig }

// Kind implements Operation.
func (CreateIndex) Kind() Kind { return KindCreateIndex }
