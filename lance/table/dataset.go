package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// Options are the components and settings of a handle and of all handles made from it. The zero value is the default.
type Options struct {
	// Allocator of every batch read; nil: the Go allocator. An arrowx.Recycler makes scans two to five times as fast for
	// callers that keep nothing, no string either, of a batch they released; it is not the default because many do.
	Allocator memory.Allocator
	Clock     clock.Clock      // nil: the system clock
	NewUUID   func() uuid.UUID // nil: random
	// CachedFiles bounds how many data files keep their metadata, and how many deletion sets stay decoded. 0: 4096.
	CachedFiles int
	// OnConflict, if set, hears of each conflict that makes an operation be computed anew. It must not block.
	OnConflict func(error)
	// Bases says where a base path leads, spelled as its writer did. Without it, only branches find what they share with
	// their table. Its error is returned where an object under the path is needed.
	Bases func(path string) (Base, error)
}

// Dataset is an immutable handle on one version of a table. It is safe for concurrent use, needs no Close, and
// shares its caches with every handle made from it.
type Dataset struct {
	env   *env
	root  string
	state *state
	added []*Fragment // fragments the commit behind this handle added, in the operation's order
}

// env is what the handles of one chain share.
type env struct {
	st       objstore.Store
	alloc    memory.Allocator
	clock    clock.Clock
	newUUID  func() uuid.UUID
	readers  *cache[*file.Reader]
	deleted  *cache[*deletedSet]
	conflict func(error) // nil: nobody asks
	bases    func(string) (Base, error)
}

const cachedFilesDefault = 4096

func newEnv(st objstore.Store, o Options) *env {
	e := &env{st: st, alloc: o.Allocator, clock: o.Clock, newUUID: o.NewUUID, conflict: o.OnConflict, bases: o.Bases}
	if e.alloc == nil {
		e.alloc = memory.DefaultAllocator
	}
	if e.clock == nil {
		e.clock = clock.System()
	}
	if e.newUUID == nil {
		e.newUUID = uuid.New
	}
	size := o.CachedFiles
	if size <= 0 {
		size = cachedFilesDefault
	}
	e.readers, e.deleted = newCache[*file.Reader](size), newCache[*deletedSet](size)
	return e
}

// Open opens the newest version of the table at root. errs.ErrNotFound if there is none.
func Open(ctx context.Context, st objstore.Store, root string) (*Dataset, error) {
	return OpenWith(ctx, st, root, Options{})
}

// OpenWith is Open with options.
func OpenWith(ctx context.Context, st objstore.Store, root string, o Options) (*Dataset, error) {
	return openLatest(ctx, newEnv(st, o), root, nil)
}

// OpenVersion opens version v. errs.ErrNotFound if it does not exist (any more).
func OpenVersion(ctx context.Context, st objstore.Store, root string, v uint64) (*Dataset, error) {
	return (&Dataset{env: newEnv(st, Options{}), root: root}).At(ctx, v)
}

// At opens version v of the same table, sharing this handle's caches. errs.ErrNotFound if it does not exist.
func (d *Dataset) At(ctx context.Context, v uint64) (*Dataset, error) {
	if d.state != nil && d.state.m.Version == v {
		return d, nil
	}
	schemes := []naming{namingV2, namingV1}
	if d.state != nil {
		schemes = []naming{d.state.naming}
	}
	for _, n := range schemes {
		s, err := loadManifest(ctx, d.env.st, d.root, v, n)
		if err == nil {
			return &Dataset{env: d.env, root: d.root, state: s}, nil
		}
		if !errors.Is(err, errs.ErrNotFound) {
			return nil, fmt.Errorf("open table %s version %d: %w", d.root, v, err)
		}
	}
	return nil, fmt.Errorf("open table %s version %d: %w", d.root, v, errs.ErrNotFound)
}

// Latest returns a handle on the newest version, d itself if it still is.
func (d *Dataset) Latest(ctx context.Context) (*Dataset, error) {
	return openLatest(ctx, d.env, d.root, d)
}

// openTriesMax bounds how often a listed version may vanish before it is read: each time a newer one was committed
// and the listed one cleaned up.
const openTriesMax = 5

// openLatest lists the versions and loads the newest. have, if not nil, is returned when it is the newest.
func openLatest(ctx context.Context, e *env, root string, have *Dataset) (*Dataset, error) {
	for try := 1; ; try++ {
		list, err := listVersions(ctx, e.st, root)
		if err != nil {
			return nil, fmt.Errorf("open table %s: %w", root, err)
		}
		if len(list.versions) == 0 {
			return nil, fmt.Errorf("open table %s: no version: %w", root, errs.ErrNotFound)
		}
		v := list.versions[len(list.versions)-1]
		if have != nil && have.state.m.Version == v {
			return have, nil
		}
		s, err := loadManifest(ctx, e.st, root, v, list.naming)
		if errors.Is(err, errs.ErrNotFound) && try < openTriesMax {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open table %s version %d: %w", root, v, err)
		}
		return &Dataset{env: e, root: root, state: s}, nil
	}
}

// Root is the name of the table's directory in the store.
func (d *Dataset) Root() string { return d.root }

// Version is the version number, from 1.
func (d *Dataset) Version() uint64 { return d.state.m.Version }

// Timestamp is when the version was committed, by the committer's clock.
func (d *Dataset) Timestamp() time.Time { return d.state.timestamp() }

// Schema is the schema of the version. It is shared: do not change it.
func (d *Dataset) Schema() *schema.Schema { return d.state.schema }

// TableMetadata returns a copy of the user's key/value pairs of the version.
func (d *Dataset) TableMetadata() map[string]string { return cloneMap(d.state.m.TableMetadata) }

// Config returns a copy of the table configuration.
func (d *Dataset) Config() map[string]string { return cloneMap(d.state.m.Config) }

// DataVersion is the version of the table's data files.
func (d *Dataset) DataVersion() (file.Version, error) {
	v, err := d.state.fileVersion()
	if err == nil && v == (file.Version{}) {
		v = file.V22()
	}
	return v, err
}

// StableRowIDs says whether the table uses stable row ids.
func (d *Dataset) StableRowIDs() bool { return d.state.m.ReaderFeatureFlags&flagStableRowIDs != 0 }

// Fragments returns the fragments by ascending id. The slice is shared: do not change it.
func (d *Dataset) Fragments() []*Fragment { return d.state.fragments }

// Fragment returns the fragment with that id, or nil.
func (d *Dataset) Fragment(id uint64) *Fragment { return d.state.fragment(id) }

// NewFragments returns the fragments that the commit which returned this handle added, with their ids, in the
// order the operation listed them. Nil on handles that were opened.
func (d *Dataset) NewFragments() []*Fragment { return d.added }

// CountRows is the number of live rows.
func (d *Dataset) CountRows() uint64 {
	var n uint64
	for _, f := range d.state.fragments {
		n += f.LiveRows()
	}
	return n
}

// MemWAL is the content of the MemWAL entry, nil if the version has none. It is shared: Clone before changing.
func (d *Dataset) MemWAL() *MemWAL { return d.state.memwal }

// Indexes returns the entries of the index section in stored order.
func (d *Dataset) Indexes() ([]IndexEntry, error) {
	out := make([]IndexEntry, 0, len(d.state.indices))
	for _, p := range d.state.indices {
		e, err := indexEntryFrom(d.state.object, p)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
