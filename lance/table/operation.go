package table

import (
	"context"

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
	apply(ctx context.Context, b *builder) error
	// against says whether the operation, prepared on base, may be applied on top of a version that other made.
	against(base *state, other *Transaction) verdict
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

// String is the operation's name in the reference.
func (k Kind) String() string {
	names := [...]string{"Append", "Delete", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Restore", "ReserveFragments", "Update",
		"Project", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone", "UpdateBases"}
	if i := int(k - KindAppend); i >= 0 && i < len(names) {
		return names[i]
	}
	return "an unknown operation"
}

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
	// NewIndexes are segments over the fragments of the new version, NewFragments among them, whose ids follow the
	// greatest one ever used; ReplacedIndexes are those they stand for. They are part of the new version and not of its
	// transaction file, so they go only with Dataset.Commit: a rebase gives the fragments other ids (errs.ErrConflict).
	NewIndexes      []IndexEntry
	ReplacedIndexes []uuid.UUID
	// CaughtUp names indexes that cover every fragment of the new version: the MemWAL entry records it.
	CaughtUp []string
	// InsertsByKey says that NewFragments hold rows which were inserted because no row had their key. Such a commit
	// does not pass over one that added rows: they may have the key. It is not recorded.
	InsertsByKey bool
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

	removedNames []string // of a transaction that was read
}

// Rewrite replaces groups of fragments by others with the same live rows. Index entries lose the old fragments, so that
// the moved rows are scanned, except those that are remapped in the same commit and, with DeferRemap, those of kinds whose
// addresses readers translate (BTREE, BITMAP, LABEL_LIST, and this engine's KEY): where their rows went is recorded in the
// fragment reuse entry. It is refused in tables with stable row ids or a history that cannot be maintained
// (errs.ErrUnsupported).
// Spec: Fragment Reuse Index, "Use Case 1" and "Use Case 2".
type Rewrite struct {
	Groups     []RewriteGroup
	DeferRemap bool
	Remapped   []RemappedIndex // errs.ErrConflict if an old entry is there no more
	// Added are entries over the new fragments, such as zone maps; their ids are reserved, or, with Dataset.Commit, follow
	// the greatest one ever used. Removed are entries they stand for. Like Update.NewIndexes they are part of the new
	// version and not of its transaction file.
	Added   []IndexEntry
	Removed []uuid.UUID
}

// RewriteGroup is one group of a Rewrite: New holds the live rows of Old, in order of Old (ascending ids when a remap is
// deferred). Old are fragments of the read version. The ids of New are reserved ones (ReserveFragments), or 0: assigned
// by the commit.
type RewriteGroup struct {
	Old, New []*Fragment
	// Read are the sources as they were in an older version, from which the rows were copied, in order; nil: they are Old.
	// Rows that were deleted since have to be in deletion files of New (WriteNewDeletions); sources that lost all of theirs
	// may be missing in Old.
	Read []*Fragment
	// Partition says that the rows were distributed over New by labels instead, keeping their order inside each. If an
	// index follows them (DeferRemap) the first such commit shuts readers of Lance 12 out of the table for good.
	Partition *ReusePartition
}

// Merge replaces the fragment list and the schema, usually to add a column. Fragments holds every fragment of the read
// version in its new state (same rows, same deletions), then possibly new ones with id 0. A field that is not in the
// read version must have an id that was never used (Dataset.NextFieldID). Index entries on fields that are gone go.
type Merge struct {
	Schema    *schema.Schema
	Fragments []*Fragment
	// PreservesNullability is computed by the commit: no field became or came as not nullable.
	PreservesNullability bool
}

// Project changes the schema without touching data: it drops, renames and reorders fields and changes nullability.
// That no value of a field that becomes not nullable is null is the caller's to know.
type Project struct {
	Schema *schema.Schema
	// PreservesNullability is computed by the commit, as in Merge.
	PreservesNullability bool
}

// Restore makes an old version the newest: schema, rows, indexes, configuration and metadata.
type Restore struct {
	Version uint64
}

// ReserveFragments raises the highest used fragment id by Count; the ids are free to use by a Rewrite.
type ReserveFragments struct {
	Count uint32
}

// DataReplacement swaps the data of some fields inside fragments.
type DataReplacement struct {
	Replacements []Replacement
}

// Replacement gives fragment FragmentID the file File, which holds the fragment's physical rows of the fields it lists.
type Replacement struct {
	FragmentID uint64
	File       DataFile
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

// Kind implements Operation.
func (Rewrite) Kind() Kind { return KindRewrite }

// Kind implements Operation.
func (Merge) Kind() Kind { return KindMerge }

// Kind implements Operation.
func (Project) Kind() Kind { return KindProject }

// Kind implements Operation.
func (Restore) Kind() Kind { return KindRestore }

// Kind implements Operation.
func (ReserveFragments) Kind() Kind { return KindReserveFragments }

// Kind implements Operation.
func (DataReplacement) Kind() Kind { return KindDataReplacement }
