package table

import (
	"context"
	"fmt"

	"lancesql/internal/errs"
)

// UpdateMemWALState advances merged generations without data. Read only.
type UpdateMemWALState struct {
	Merged []MergedGeneration
}

// Other is an operation of which only the kind is known to this package. Read only.
type Other struct {
	Which Kind
}

// Kind implements Operation.
func (UpdateMemWALState) Kind() Kind { return KindUpdateMemWALState }

// Kind implements Operation.
func (o Other) Kind() Kind { return o.Which }

func (UpdateMemWALState) apply(context.Context, *builder) error {
	return readOnly(KindUpdateMemWALState)
}
func (o Other) apply(context.Context, *builder) error { return readOnly(o.Which) }

func (UpdateMemWALState) against(*state, *Transaction) verdict { return incompatible }
func (Other) against(*state, *Transaction) verdict             { return incompatible }

func readOnly(k Kind) error {
	return fmt.Errorf("commit of operation %s: %w", k, errs.ErrUnsupported)
}
