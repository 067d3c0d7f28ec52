package lock

import (
	"context"
	"time"

	"lancesql/internal/errs"
)

// Manager grants locks.
type Manager struct{}

// Owner is one transaction's set of locks.
type Owner struct{ id uint64 }

// New returns an empty manager.
func New() *Manager { return &Manager{} }

// NewOwner returns an owner without locks.
func NewOwner(id uint64) *Owner { return &Owner{id: id} }

// Lock takes a lock.
func (m *Manager) Lock(ctx context.Context, o *Owner, res Resource, mode Mode, wait time.Duration) error {
	return errs.ErrUnsupported
}

// ReleaseAll releases every lock of the owner.
func (m *Manager) ReleaseAll(o *Owner) {}

// Held returns the strongest mode the owner holds.
func (m *Manager) Held(o *Owner, res Resource) Mode { return None }
