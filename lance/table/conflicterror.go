package table

import (
	"errors"
	"fmt"

	"lancesql/internal/errs"
)

// ErrIncompatible is matched by a ConflictError that recomputing does not cure: what the operation was about is gone.
var ErrIncompatible = errors.New("incompatible with a concurrent commit")

// ConflictError says which concurrent commit stands in the way of an operation. It matches errs.ErrConflict when the
// caller may recompute the operation from the newest version, ErrIncompatible otherwise.
type ConflictError struct {
	Mine, Other Kind
	Version     uint64 // the version that Other made
	Retryable   bool
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Retryable {
		return fmt.Sprintf("%s meets %s at version %d: recompute from the newest version", e.Mine, e.Other, e.Version)
	}
	return fmt.Sprintf("%s is incompatible with %s at version %d", e.Mine, e.Other, e.Version)
}

// Is reports whether target is errs.ErrConflict or ErrIncompatible, whichever fits.
func (e *ConflictError) Is(target error) bool {
	if e.Retryable {
		return target == errs.ErrConflict
	}
	return target == ErrIncompatible
}

// verdict is what one operation makes of another that was committed after the version it was prepared on.
type verdict uint8

const (
	passes       verdict = iota // applying it to the newer parent gives what was meant; deletion sets are joined first
	retryable                   // recompute from the newest version
	incompatible                // refuse
)

// judge answers for op, prepared on base, and a version made by other. Nothing passes over an operation this
// package does not know. Spec: table transactions, "Conflicts".
func judge(op Operation, base *state, other *Transaction) verdict {
	if other.Op.Kind() == KindUnknown {
		return retryable
	}
	if nullabilityClash(op, base, other) {
		return retryable
	}
	return op.against(base, other)
}

// nullabilityClash: one side makes a field required, the other brings rows that may not have it.
func nullabilityClash(op Operation, base *state, other *Transaction) bool {
	demands := func(op Operation, preserves bool) bool {
		k := op.Kind()
		return (k == KindMerge || k == KindProject) && !preserves
	}
	brings := func(k Kind) bool { return k == KindAppend || k == KindUpdate || k == KindDataReplacement }
	switch p := other.Op.(type) {
	case Merge:
		if brings(op.Kind()) && demands(p, p.PreservesNullability) {
			return true
		}
	case Project:
		if brings(op.Kind()) && demands(p, p.PreservesNullability) {
			return true
		}
	}
	next := schemaOf(op)
	return next != nil && brings(other.Op.Kind()) && demands(op, preservesNullability(base.schema, next))
}
