package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// catalogStore owns the catalog: the image that readers load, and the snapshots that make it last.
//
// A DDL statement is a sequence of snapshots and changes on disk, one of the snapshots being its commit point. What
// has to happen on disk before or after it is written into the snapshot as an intent, so that at any crash the
// newest snapshot says what to finish or undo (see intentKind). settle does that, both at open and within the
// statement itself: there is one code path.
//
// Invariant: the image equals the newest snapshot, except that intents already settled may still be in the snapshot;
// settling one again changes nothing.
//
// turn is held by the running DDL statement, over its I/O; it is the outermost lock of the engine. Everything below
// turn in the struct is used only by its holder.
type catalogStore struct {
	store objstore.Store
	log   *slog.Logger
	clock clock.Clock
	newID func() TableID
	image atomic.Pointer[Catalog]

	readOnly bool      // set before the first use: nothing is ever written
	guard    *dirGuard // set before the first use; nil: nobody else can have the catalog

	turn     chan struct{} // capacity 1; full while a statement runs
	versions []uint64      // snapshots on disk, ascending
	inUse    map[TableID]bool
	broken   error // set once the outcome of a snapshot write is unknown
}

// snapshotsKept is how many of the newest snapshots stay on disk: the valid one and one to fall back to.
const snapshotsKept = 2

// openCatalog loads the newest image of the store, or an empty one, and settles what a crash left behind.
// Errors: errs.ErrNewerFormat, errs.ErrCorruption, errors of the store.
func openCatalog(ctx context.Context, store objstore.Store, clk clock.Clock, log *slog.Logger) (*catalogStore, error) {
	s := newCatalogStore(store, clk, log)
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// newCatalogStore returns a store with an empty image that has not looked at the disk.
func newCatalogStore(store objstore.Store, clk clock.Clock, log *slog.Logger) *catalogStore {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &catalogStore{store: store, log: log, clock: clk, newID: randomTableID, turn: make(chan struct{}, 1), inUse: make(map[TableID]bool)}
	s.image.Store(newCatalog(0, nil, nil))
	return s
}

// begin waits for the statement before, and tries again to settle what earlier statements could not.
func (s *catalogStore) begin(ctx context.Context) error {
	if s.readOnly {
		return fmt.Errorf("change the catalog: %w", errs.ErrReadOnly)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.broken == nil {
		s.broken = s.guard.check()
	}
	if s.broken != nil {
		s.end()
		return fmt.Errorf("the catalog cannot change until restart: %w", s.broken)
	}
	if len(s.image.Load().intents) > 0 {
		s.settleLater(ctx)
	}
	return nil
}

func (s *catalogStore) end() { <-s.turn }

// recover loads the newest snapshot and settles its intents.
func (s *catalogStore) recover(ctx context.Context) error {
	s.turn <- struct{}{}
	defer s.end()
	versions, err := s.list(ctx)
	if err != nil {
		return err
	}
	s.versions = versions
	c, err := s.newest(ctx)
	if err != nil {
		return err
	}
	s.image.Store(c)
	if len(c.intents) > 0 {
		s.settleLater(ctx)
	}
	return nil
}

// list returns the numbers of the snapshots on disk, ascending.
func (s *catalogStore) list(ctx context.Context) ([]uint64, error) {
	var versions []uint64
	err := s.store.List(ctx, catalogDir, func(i objstore.Info) error {
		if v, ok := parseSnapshotName(i.Name); ok && !i.Dir {
			versions = append(versions, v)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list catalog snapshots: %w", err)
	}
	slices.Sort(versions)
	return versions, nil
}

// newest reads the newest snapshot that is whole.
func (s *catalogStore) newest(ctx context.Context) (*Catalog, error) {
	torn := 0
	for _, v := range slices.Backward(s.versions) {
		name := snapshotName(v)
		data, err := s.store.ReadAll(ctx, name, snapshotBytesMax)
		if err != nil {
			return nil, fmt.Errorf("read catalog snapshot: %w", err)
		}
		c, err := decodeSnapshot(name, v, data)
		if errors.Is(err, errTorn) {
			s.log.Warn("catalog snapshot is cut short, using the one before", "snapshot", name, "error", err)
			torn++
			continue
		}
		if err != nil {
			return nil, err
		}
		if torn > 0 {
			return s.fallBack(c), nil
		}
		return c, nil
	}
	switch {
	case torn == 0:
		return newCatalog(0, nil, nil), nil
	case len(s.versions) == 1 && s.versions[0] == 1:
		return newCatalog(1, nil, nil), nil // Why: before the first snapshot there was nothing
	default:
		return nil, errs.Corrupt(catalogDir, -1, "%d snapshots, none of them whole", torn)
	}
}

// fallBack makes an older image current. Its intents are dropped without touching the paths they name: the
// snapshot that is cut short may have completed them, so that what they name may be in use.
func (s *catalogStore) fallBack(c *Catalog) *Catalog {
	for _, in := range c.intents {
		s.log.Warn("statement before the damaged snapshot is left as it is", "intent", in.String())
	}
	return newCatalog(s.versions[len(s.versions)-1], c.databases, nil)
}

// commit makes the draft the newest snapshot and then the image. On an error the image is unchanged and so is the
// disk, except after errs.ErrPoisoned: then only the next open will tell.
func (s *catalogStore) commit(ctx context.Context, d *draft) error {
	next := d.image()
	if err := next.checkLimits(); err != nil {
		return err
	}
	if err := s.put(ctx, next); err != nil {
		return err
	}
	s.image.Store(next)
	s.prune(ctx)
	return nil
}

// put writes the snapshot of next under its version or, if that attempt came to nothing certain, the one after.
func (s *catalogStore) put(ctx context.Context, next *Catalog) error {
	written, err := s.putVersion(ctx, next)
	switch {
	case err == nil:
		return nil
	case !written:
		return fmt.Errorf("write catalog: %w", err)
	}
	// Why: the snapshot is there, but perhaps not yet its name on the disk. A further one with the same content
	// syncs the directory for both.
	next.Version++
	if _, again := s.putVersion(context.WithoutCancel(ctx), next); again != nil {
		return s.poison(snapshotName(next.Version), errors.Join(err, again))
	}
	return nil
}

// putVersion writes one snapshot. On an error, written tells whether it is there nevertheless; if that is not
// certain, or the disk is no longer to be trusted, the error is errs.ErrPoisoned.
func (s *catalogStore) putVersion(ctx context.Context, c *Catalog) (written bool, err error) {
	data, err := encodeSnapshot(c, s.clock.Now())
	if err != nil {
		return false, err
	}
	name := snapshotName(c.Version)
	err = s.store.PutIfAbsent(ctx, name, data)
	if err == nil {
		s.versions = append(s.versions, c.Version)
		return true, nil
	}
	written, unsure := s.readBack(ctx, name, data)
	if unsure != nil || errors.Is(err, errs.ErrSync) {
		return false, s.poison(name, errors.Join(err, unsure))
	}
	if !written {
		return false, err
	}
	s.versions = append(s.versions, c.Version)
	if errors.Is(err, errs.ErrExists) {
		return true, nil // Why: an earlier attempt below us wrote it, and a store that finds an object syncs its name
	}
	return true, err
}

// readBack looks at what a failed write left: true if exactly our bytes are there, false if nothing is, and
// otherwise the error it met.
func (s *catalogStore) readBack(ctx context.Context, name string, data []byte) (bool, error) {
	found, err := s.store.ReadAll(context.WithoutCancel(ctx), name, snapshotBytesMax)
	switch {
	case errors.Is(err, errs.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Equal(found, data):
		return false, fmt.Errorf("somebody else wrote it: %w", errs.ErrConflict)
	}
	return true, nil
}

func (s *catalogStore) poison(name string, err error) error {
	s.broken = fmt.Errorf("%w: outcome of writing %s is unknown: %w", errs.ErrPoisoned, name, err)
	s.log.Error("catalog stopped accepting changes", "snapshot", name, "error", err)
	return s.broken
}

// prune deletes old snapshots. One that comes back after a crash does no harm: the newest wins.
func (s *catalogStore) prune(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for len(s.versions) > snapshotsKept {
		if err := s.store.Delete(ctx, snapshotName(s.versions[0])); err != nil {
			s.log.Warn("delete old catalog snapshot", "version", s.versions[0], "error", err)
			return
		}
		s.versions = s.versions[1:]
	}
}

func (c *Catalog) checkLimits() error {
	tables := 0
	for _, d := range c.databases {
		tables += len(d.tables)
	}
	switch {
	case len(c.databases) > databasesMax:
		return fmt.Errorf("%d databases, at most %d: %w", len(c.databases), databasesMax, errs.ErrLimit)
	case tables > tablesMax:
		return fmt.Errorf("%d tables, at most %d: %w", tables, tablesMax, errs.ErrLimit)
	case len(c.intents) > intentsMax:
		return fmt.Errorf("%d unfinished statements, at most %d: %w", len(c.intents), intentsMax, errs.ErrLimit)
	}
	return nil
}
