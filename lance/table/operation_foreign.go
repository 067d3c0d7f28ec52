package table

import (
	"fmt"

	"lancesql/internal/errs"
)

// Rewrite replaces groups of fragments by others with the same live rows in the same order. Read only.
type Rewrite struct {
	Groups []RewriteGroup
}

// RewriteGroup is one group of a Rewrite: New holds the live rows of Old, in order.
type RewriteGroup struct {
	Old, New []*Fragment
}

// Merge replaces the fragment list and the schema, usually to add a column. Read only.
type Merge struct {
	Fragments            []*Fragment
	PreservesNullability bool
}

// Project changes the schema without touching data. Read only.
type Project struct {
	PreservesNullability bool
}

// Restore makes an old version the newest. Read only.
type Restore struct {
	Version uint64
}

// ReserveFragments raises the highest used fragment id. Read only.
type ReserveFragments struct {
	Count uint32
}

// DataReplacement swaps data files inside fragments. Read only.
type DataReplacement struct {
	FragmentIDs []uint64
}

// UpdateMemWALState advances merged generations without data. Read only.
type UpdateMemWALState struct {
	Merged []MergedGeneration
}

// Other is an operation of which only the kind is known to this package. Read only.
type Other struct {
	Which Kind
}

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

// Kind implements Operation.
func (UpdateMemWALState) Kind() Kind { return KindUpdateMemWALState }

// Kind implements Operation.
func (o Other) Kind() Kind { return o.Which }

func (Rewrite) apply(*builder) error           { return readOnly(KindRewrite) }
func (Merge) apply(*builder) error             { return readOnly(KindMerge) }
func (Project) apply(*builder) error           { return readOnly(KindProject) }
func (Restore) apply(*builder) error           { return readOnly(KindRestore) }
func (ReserveFragments) apply(*builder) error  { return readOnly(KindReserveFragments) }
func (DataReplacement) apply(*builder) error   { return readOnly(KindDataReplacement) }
func (UpdateMemWALState) apply(*builder) error { return readOnly(KindUpdateMemWALState) }
func (o Other) apply(*builder) error           { return readOnly(o.Which) }

func readOnly(k Kind) error {
	return fmt.Errorf("commit of operation %d: %w", int(k), errs.ErrUnsupported)
}
