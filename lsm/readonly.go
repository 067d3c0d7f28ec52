package lsm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
	"lancesql/memtable"
	"lancesql/wal"
)

// A table opened for reading only follows another process that writes it. It claims nothing, fences nobody and removes
// nothing; it has no Store method to do so with. What it shows is, for each shard, a prefix of what was written: the
// newest shard manifest's generations, the base, and the WAL entries behind the replay cursor. Shards are read one
// after another, so a commit over several may be seen in part.
//
// Order of reading, and why it is safe beside flushes, merges and clean-up: shard manifests, then the base, then
// generations and WAL, then the shard manifests again. Generations leave a manifest, and entries leave the WAL, only after
// the base or a newer manifest holds their rows. If no cursor moved between the two looks at the manifests, no entry
// behind the first look's cursors was removed; if one did, or if a file is gone, everything is read again.

// Bounds of looking again because the writer was faster.
const (
	followAttemptsMax = 30
	followPauseMin    = 2 * time.Millisecond
	followPauseMax    = 100 * time.Millisecond
)

// follower is the state of a table that is opened for reading only. mu is held over a refresh and guards the rest; it is
// taken before Table.mu.
type follower struct {
	mu      sync.Mutex
	sharder *sharder
	shards  []followed // by ordinal, of the newest Version
	loaded  uint64     // keys put into the newest base's key space since it was new
}

// followed is how far one shard has been read.
type followed struct {
	dir      shardDir
	manifest *pb.ShardManifest
	next     wal.Position // first entry not read yet
}

// FollowHooks connects a table that is opened for reading only with its owner's numbering of states.
type FollowHooks struct {
	// Publish calls apply with the next CommitSeq and makes it visible if apply returns nil.
	Publish func(apply func(seq uint64) error) error
	// LowWater is the smallest CommitSeq a present or future view can have.
	LowWater func() uint64
}

// OpenReadOnly opens the table at root beside the process that writes it. o.Journal is not used. Errors: errs.ErrNotFound
// if there is no table, errs.ErrVanished if the writer removed what was being read too often in a row.
// Spec: MemWAL, "Reader consistency".
func OpenReadOnly(ctx context.Context, o Options, root string) (*Table, error) {
	o.Store = objstore.Metered(o.Store)
	t := &Table{root: root, alive: make(map[*Version]struct{}), follow: &follower{}}
	ds, err := table.Open(ctx, o.Store, root)
	if err != nil {
		return nil, err
	}
	if ds.MemWAL() == nil {
		return nil, fmt.Errorf("dataset %s has no MemWAL entry: %w", root, errs.ErrUnsupported)
	}
	t.o = o.withDefaults()
	if t.follow.sharder, err = t.bind(ds); err != nil {
		return nil, err
	}
	r, err := t.load(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer r.releaseMemTables()
	r.v.floor = o.Floor
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publishLocked(r.v)
	return t, nil
}

// ReadOnly reports whether the table was opened by OpenReadOnly.
func (t *Table) ReadOnly() bool { return t.follow != nil }

// Refresh takes in what the writer has done since the last look: new WAL entries are appended, anything else makes a new
// Version, whose Floor is a fresh CommitSeq; views older than that go on reading the Version they began with. Errors as
// for OpenReadOnly, and errs.ErrSchemaChanged if the table has other columns now: it must be reopened.
func (t *Table) Refresh(ctx context.Context, h FollowHooks) error {
	f := t.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	v, err := t.newest()
	if err != nil {
		return err
	}
	defer t.release(v)
	changed, err := t.changed(ctx, v)
	if err != nil {
		return err
	}
	if !changed {
		if changed, err = t.followWAL(ctx, v, h); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	r, err := t.load(ctx, v)
	if err != nil {
		return err
	}
	defer r.releaseMemTables()
	err = h.Publish(func(seq uint64) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.closed {
			t.retainLocked(r.v)
			t.freeLocked(r.v)
			return fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
		}
		r.v.floor = seq
		t.publishLocked(r.v)
		return nil
	})
	if err != nil {
		return err
	}
	t.prune(h.LowWater())
	return nil
}

// changed reports whether anything but the WAL differs from what v was made of.
func (t *Table) changed(ctx context.Context, v *Version) (bool, error) {
	ids, err := shardIDs(ctx, t.o.Store, t.root)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		if _, known := v.set.byID[id]; known {
			continue
		}
		_, err := newShardDir(t.o.Store, t.root, id).latest(ctx)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, errs.ErrNotFound) {
			return false, err
		}
	}
	if same, err := t.sameManifests(ctx, t.follow.shards); err != nil || !same {
		return !same, err
	}
	latest, err := v.base.ds.Latest(ctx)
	if errors.Is(err, errs.ErrNotFound) {
		return true, nil // clean-up passed us by
	}
	return err == nil && latest.Version() != v.base.ds.Version(), err
}

// sameManifests reports whether no shard's cursor or generation has moved since list was read. The manifests of list are
// brought up to date otherwise.
func (t *Table) sameManifests(ctx context.Context, list []followed) (bool, error) {
	for i := range list {
		s := &list[i]
		newer, err := s.dir.exists(ctx, s.manifest.Version+1)
		if err != nil {
			return false, err
		}
		if !newer {
			continue
		}
		m, err := s.dir.latest(ctx)
		if err != nil {
			return false, err
		}
		if m.ReplayAfterWalEntryPosition != s.manifest.ReplayAfterWalEntryPosition || m.CurrentGeneration != s.manifest.CurrentGeneration {
			return false, nil
		}
		s.manifest = m // a claim, or a clean-up of generations that v does not read
	}
	return true, nil
}

// followWAL appends the entries written since the last look; changed is true if that cannot be done to v.
func (t *Table) followWAL(ctx context.Context, v *Version, h FollowHooks) (changed bool, err error) {
	f := t.follow
	for o := range f.shards {
		s := &f.shards[o]
		_, err := wal.Read(ctx, t.o.Store, s.dir.path, s.next, walReplayBytesMax, func(e wal.Entry) error {
			if !e.Sentinel && (e.Generation == 0 || e.Generation >= s.manifest.CurrentGeneration) {
				for _, rec := range e.Batches {
					if err := t.followBatch(ctx, v, v.active(o), rec, h); err != nil {
						return fmt.Errorf("follow WAL entry %d: %w", e.Position, err)
					}
				}
			}
			s.next = e.Position + 1
			return nil
		})
		if vanished(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	// Why again: entries that were removed while we read look like a log that ends early.
	same, err := t.sameManifests(ctx, f.shards)
	return !same, err
}

// followBatch makes the rows of one batch visible in the active MemTable g.
func (t *Table) followBatch(ctx context.Context, v *Version, g *generation, rec arrow.RecordBatch, h FollowHooks) error {
	conf, err := wal.Conform(rec, t.memSchema, t.keyCols)
	if err != nil {
		return err
	}
	defer conf.Release()
	keys, err := t.keysOf(conf)
	if err != nil {
		return err
	}
	if _, ok := conf.Column(len(t.memSchema.Fields()) - 1).(*array.Boolean); !ok {
		return errs.Corrupt(g.sh.dir.path, -1, "tombstone column is not boolean")
	}
	dying, err := t.replacedBy(ctx, v, g, keys)
	if err != nil {
		return err
	}
	// Why outside: nobody but us appends, so what was located does not move.
	return h.Publish(func(seq uint64) error {
		first, err := g.mem.Append(conf, seq)
		if err == nil {
			err = t.indexRows(g, conf, first)
		}
		if err != nil {
			return err
		}
		for _, loc := range dying {
			v.deaths(loc.Source).Kill(loc.Addr, seq, g.id)
		}
		return nil
	})
}

// replacedBy locates the rows that die by rows with those keys, which are about to follow the rows of g.
func (t *Table) replacedBy(ctx context.Context, v *Version, g *generation, keys []rowkey.Key) ([]Location, error) {
	first := g.mem.Rows()
	inBatch := make(map[rowkey.Key]uint32, len(keys))
	var dying []Location
	var fresh []rowkey.Key
	for i, k := range keys {
		if prev, twice := inBatch[k]; twice {
			dying = append(dying, Location{Source: g.id, Addr: rowaddr.New(0, prev)})
		} else {
			fresh = append(fresh, k)
		}
		inBatch[k] = first + uint32(i)
	}
	stored, err := v.locate(ctx, fresh, ^uint64(0))
	if err != nil {
		return nil, err
	}
	for _, s := range stored {
		if s.ok && (s.loc.Source != 0 || !v.base.deaths.Known(s.loc.Addr)) {
			dying = append(dying, s.loc)
		}
	}
	return dying, nil
}

// vanished reports whether an error means that the writer removed what was being read. A hole in the WAL is one: entries
// are removed oldest first.
func vanished(err error) bool { return errors.Is(err, errs.ErrNotFound) || errors.Is(err, wal.ErrHole) }

// load reads the table as it is now into a Version that is not published yet. prev (may be nil) gives what need not be
// read again. The caller publishes and then calls releaseMemTables.
func (t *Table) load(ctx context.Context, prev *Version) (*recovery, error) {
	pause := followPauseMin
	for attempt := 1; ; attempt++ {
		r := &recovery{t: t, v: &Version{set: &shardSet{sharder: t.follow.sharder}}}
		shards, loaded, err := t.loadOnce(ctx, r, prev)
		same := false
		if err == nil {
			same, err = t.sameManifests(ctx, shards)
		}
		if same && err == nil {
			t.follow.shards, t.follow.loaded = shards, loaded
			return r, nil
		}
		t.discardLoad(r)
		switch {
		case err != nil && !vanished(err):
			return nil, err
		case attempt == followAttemptsMax && err != nil && !errors.Is(err, errs.ErrNotFound):
			return nil, err // Why: a hole that stays is damage
		case attempt == followAttemptsMax:
			return nil, fmt.Errorf("read %s: its writer was faster %d times (%v): %w", t.root, attempt, err, errs.ErrVanished)
		case err != nil:
			// Why: a table that is gone altogether does not come back.
			if _, gone := table.Open(ctx, t.o.Store, t.root); gone != nil {
				return nil, gone
			}
		}
		if err := sleepFor(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, followPauseMax)
	}
}

// sleepFor returns after d, or with the error of a context that ends before.
func sleepFor(ctx context.Context, d time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-wait.Done()
	return ctx.Err()
}

// discardLoad frees what was read for a Version that is not published. Generations are read after the base.
func (t *Table) discardLoad(r *recovery) {
	if r.v.base != nil {
		t.mu.Lock()
		t.retainLocked(r.v)
		t.freeLocked(r.v)
		t.mu.Unlock()
	}
	r.releaseMemTables()
}

// loadOnce is one attempt of load: shard manifests, base, generations, WAL.
func (t *Table) loadOnce(ctx context.Context, r *recovery, prev *Version) (shards []followed, loaded uint64, err error) {
	ids, err := shardIDs(ctx, t.o.Store, t.root)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		s, err := t.followShard(ctx, id)
		if errors.Is(err, errs.ErrNotFound) {
			continue // a directory without a manifest: its first claim is under way
		}
		if err != nil {
			return nil, 0, err
		}
		m := s.manifest
		shards = append(shards, s)
		r.v.set = r.v.set.with(&shard{
			ordinal: len(r.v.set.list), dir: s.dir, epoch: wal.Epoch(m.WriterEpoch), manual: m.ShardSpecId == 0,
			ends: make(map[uint64]wal.Position), cursor: wal.Position(m.ReplayAfterWalEntryPosition),
		})
		r.v.gens = append(r.v.gens, nil)
	}
	ds, err := table.Open(ctx, t.o.Store, t.root)
	if err != nil {
		return nil, 0, err
	}
	if loaded, err = t.followBase(ctx, r, prev, ds); err != nil {
		return nil, 0, err
	}
	for o := range shards {
		if err := t.followGenerations(ctx, r, prev, &shards[o], o); err != nil {
			return nil, 0, err
		}
	}
	return shards, loaded, nil
}

func (t *Table) followShard(ctx context.Context, id uuid.UUID) (followed, error) {
	s := followed{dir: newShardDir(t.o.Store, t.root, id)}
	var err error
	s.manifest, err = s.dir.latest(ctx)
	return s, err
}

// followBase opens the base version ds, with what prev knows of the keys of its fragments.
func (t *Table) followBase(ctx context.Context, r *recovery, prev *Version, ds *table.Dataset) (loaded uint64, err error) {
	s, err := ds.Schema().Arrow()
	if err != nil {
		return 0, err
	}
	if !s.Equal(t.physical) || ds.MemWAL() == nil {
		return 0, fmt.Errorf("version %d of %s has other columns: %w", ds.Version(), t.root, errs.ErrSchemaChanged)
	}
	var old *base
	var keys *keySpace
	known := func(uint32) bool { return false }
	if prev != nil {
		old = prev.base
		fresh, comparable := changedFragments(old, ds)
		// Why a bound: keys of fragments that are gone stay in the space.
		if comparable && old.bare && t.follow.loaded <= 2*ds.CountRows()+1<<16 {
			keys, loaded = old.keys, t.follow.loaded
			known = func(id uint32) bool { return !fresh.Contains(id) && !old.pk.covered.Contains(id) }
		}
	}
	b, err := t.openBase(ctx, ds, old, keys)
	if err != nil {
		return 0, err
	}
	r.v.base = b
	for _, f := range b.frags {
		id := uint32(f.ID)
		if b.pk.covered.Contains(id) || known(id) {
			continue
		}
		err := t.eachKey(ctx, ds, f, b.fieldIDs, false, func(first uint64, keys []rowkey.Key, _ *array.Boolean) error {
			loaded += uint64(len(keys))
			return b.index(id, first, keys)
		})
		if err != nil {
			return 0, fmt.Errorf("index keys of fragment %d: %w", f.ID, err)
		}
	}
	return loaded, nil
}

// followGenerations reads the generations of one shard that the base does not hold, then the WAL behind the cursor into
// one MemTable.
func (t *Table) followGenerations(ctx context.Context, r *recovery, prev *Version, s *followed, o int) error {
	sh := r.v.set.list[o]
	merged := r.v.base.ds.MemWAL().MergedUpTo(sh.dir.id)
	for _, g := range s.manifest.FlushedGenerations {
		if g.Generation <= merged {
			continue
		}
		gen, err := t.followGeneration(ctx, prev, sh, g)
		if err != nil {
			return fmt.Errorf("open generation %d: %w", g.Generation, err)
		}
		r.v.gens[o] = append(r.v.gens[o], gen)
		if err := r.rebuild(ctx, gen); err != nil {
			return fmt.Errorf("rebuild generation %d: %w", g.Generation, err)
		}
	}
	current := max(s.manifest.CurrentGeneration, 1)
	if err := r.newMemTable(sh, current); err != nil {
		return err
	}
	tail, err := wal.Read(ctx, t.o.Store, sh.dir.path, sh.cursor+1, walReplayBytesMax, func(e wal.Entry) error {
		if e.Sentinel || e.Generation != 0 && e.Generation < current {
			return nil
		}
		for _, rec := range e.Batches {
			if err := r.append(ctx, sh, rec); err != nil {
				return fmt.Errorf("replay WAL entry %d: %w", e.Position, err)
			}
		}
		return nil
	})
	s.next = tail + 1
	return err
}

// followGeneration opens a generation, or takes it from prev with births and deaths of its own.
func (t *Table) followGeneration(ctx context.Context, prev *Version, sh *shard, g *pb.FlushedGeneration) (*generation, error) {
	if prev != nil {
		for have := range prev.all() {
			if have.dir != g.Path || have.mem != nil || have.sh.dir.id != sh.dir.id {
				continue
			}
			gs := &genState{
				sh: sh, number: g.Generation, id: sourceID(sh.ordinal, g.Generation), births: &memtable.Births{}, deaths: NewDeathLog(), dir: g.Path,
			}
			gs.births.Add(0, uint32(have.frag.PhysicalRows))
			again := *have
			again.genState = gs
			return &again, nil
		}
	}
	return t.openGeneration(ctx, sh, g.Generation, g.Path)
}
