package lsm

import (
	"encoding/json"
	"errors"
	"path"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/inspect"
	"lancesql/lance/pb"
	"lancesql/lance/table"
	"lancesql/wal"
)

// shards checks every shard directory and what the base manifest says of shards.
func (c *tableCheck) shards() error {
	if c.t == nil {
		return nil
	}
	ids, err := shardIDs(c.ctx, c.st, c.root)
	if err != nil {
		return c.problem(c.root+"/"+memWALDir, err)
	}
	there := make(map[uuid.UUID]bool, len(ids))
	for i, id := range ids {
		there[id] = true
		if err := c.ctx.Err(); err != nil {
			return err
		}
		s := &shardCheck{tableCheck: c, dir: newShardDir(c.st, c.root, id), ordinal: i, merged: c.ds.MemWAL().MergedUpTo(id)}
		if err := s.run(); err != nil {
			return err
		}
		c.state.Shards[id] = s.state
	}
	for _, g := range c.ds.MemWAL().Merged {
		if !there[g.Shard] {
			c.add(Warning, c.root+"/"+memWALDir+"/"+g.Shard.String(), "the base holds generation %d of a shard that is not there", g.Generation)
		}
	}
	return nil
}

// shardCheck is the check of one shard.
type shardCheck struct {
	*tableCheck
	dir     shardDir
	ordinal int
	merged  uint64

	newest *pb.ShardManifest // nil if unreadable
	name   string            // its object
	sh     *shard
	state  ShardState
}

func (s *shardCheck) run() error {
	s.o.Progress(s.dir.path)
	if err := s.manifests(); err != nil || s.newest == nil {
		return err
	}
	s.sh = &shard{ordinal: s.ordinal, dir: s.dir, manual: s.newest.ShardSpecId == 0}
	s.state.Cursor = s.newest.ReplayAfterWalEntryPosition
	for _, step := range []func() error{s.generations, s.wal, s.left} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// manifests reads all versions of the shard manifest: what must never fall does not.
func (s *shardCheck) manifests() error {
	type object struct {
		version uint64
		name    string
	}
	var list []object
	dir := s.dir.path + "/manifest"
	err := s.st.List(s.ctx, dir, func(i objstore.Info) error {
		stem, ok := strings.CutSuffix(path.Base(i.Name), ".binpb")
		if n, valid := wal.ParseBitReversed(stem); ok && valid && n > 0 && !i.Dir {
			list = append(list, object{n, i.Name})
		}
		return nil
	})
	if err := s.problem(dir, err); err != nil {
		return err
	}
	walkOrder(list, func(o object) uint64 { return o.version })
	if len(list) == 0 {
		s.add(Warning, dir, "a shard without a manifest does not exist: left over by a claim that failed")
		return nil
	}
	var last *pb.ShardManifest
	for i, o := range list {
		if i > 0 && o.version != list[i-1].version+1 {
			s.add(Error, dir, "manifest version %d is missing: readers stop at version %d", list[i-1].version+1, list[i-1].version)
		}
		b, err := s.st.ReadAll(s.ctx, o.name, shardManifestBytesMax)
		if err != nil {
			if err := s.problem(o.name, err); err != nil {
				return err
			}
			continue
		}
		_, problems := describeShardManifest(o.name, b)
		for _, p := range problems {
			f := FindingOf(o.name, p)
			if i < len(list)-1 {
				f.Severity = Warning // an older version; nobody needs it
			}
			s.found(f)
		}
		if len(problems) > 0 {
			continue
		}
		m, err := decodeShardManifest(o.name, b)
		if err != nil {
			return s.problem(o.name, err)
		}
		if last != nil {
			s.follows(o.name, last, m)
		}
		last = m
		if i == len(list)-1 {
			s.newest, s.name = m, o.name
		}
	}
	if s.newest == nil {
		s.add(Error, list[len(list)-1].name, "the newest shard manifest cannot be read: the shard cannot be opened")
		return nil
	}
	if id, _ := uuid.FromBytes(s.newest.GetShardId().GetUuid()); id != s.dir.id {
		s.add(Error, s.name, "is of shard %s", id)
	}
	return s.hint(list[0].version, list[len(list)-1].version)
}

// follows checks that what may only grow from one version of a shard manifest to the next has not fallen.
func (s *shardCheck) follows(name string, was, is *pb.ShardManifest) {
	for _, x := range []struct {
		what    string
		old, to uint64
	}{
		{"writer epoch", was.WriterEpoch, is.WriterEpoch},
		{"replay cursor", was.ReplayAfterWalEntryPosition, is.ReplayAfterWalEntryPosition},
		{"current generation", was.CurrentGeneration, is.CurrentGeneration},
	} {
		if x.to < x.old {
			s.add(Error, name, "the %s fell from %d to %d", x.what, x.old, x.to)
		}
	}
}

// hint checks that a reader that starts at the hint finds the newest version.
func (s *shardCheck) hint(oldest, newest uint64) error {
	name := s.dir.hintName()
	b, err := s.st.ReadAll(s.ctx, name, 1<<10)
	hinted := uint64(1)
	switch {
	case errors.Is(err, errs.ErrNotFound):
	case err != nil:
		return s.problem(name, err)
	default:
		var h struct {
			Version uint64 `json:"version"`
		}
		if json.Unmarshal(b, &h) != nil {
			s.add(Warning, name, "is not a hint; readers start at version 1")
		} else {
			hinted = h.Version
		}
	}
	switch {
	case hinted > newest:
		s.add(Error, name, "names version %d, the newest is %d", hinted, newest)
	case hinted < oldest:
		s.add(Error, name, "leads to version %d, the oldest is %d: readers find no shard", hinted, oldest)
	}
	return nil
}

// generations checks what the newest manifest says of generations, and each of them.
func (s *shardCheck) generations() error {
	m := s.newest
	if s.merged > 0 && s.merged >= max(m.CurrentGeneration, 1) {
		s.add(Error, s.name, "generation %d is merged into the base, the current one is %d: what is written next would be taken for merged", s.merged, m.CurrentGeneration)
	}
	next := s.merged + 1
	for _, g := range m.FlushedGenerations {
		if g.Generation >= m.CurrentGeneration {
			s.add(Error, s.name, "names generation %d, the current one is %d", g.Generation, m.CurrentGeneration)
		}
		if g.Generation > s.merged {
			if g.Generation != next {
				s.add(Error, s.name, "generation %d follows generation %d: those between are neither here nor merged", g.Generation, next-1)
			}
			next = g.Generation + 1
		}
		if err := s.generation(g); err != nil {
			return err
		}
	}
	if next < m.CurrentGeneration {
		s.add(Error, s.name, "generations %d to %d are neither here nor merged", next, m.CurrentGeneration-1)
	}
	return nil
}

// generation checks one generation: a dataset of one fragment whose deletion vector is what its keys say.
func (s *shardCheck) generation(g *pb.FlushedGeneration) error {
	dir := s.dir.path + "/" + g.Path
	s.o.Progress(dir)
	gen, err := s.open(g)
	if err != nil {
		if errors.Is(err, errs.ErrNotFound) && g.Generation <= s.merged {
			s.add(Warning, dir, "a merged generation is missing: its removal did not finish")
			return nil
		}
		return s.problem(dir, err)
	}
	if g.PhysicalRows != nil && *g.PhysicalRows != gen.frag.PhysicalRows {
		s.add(Error, dir, "has %d rows, the shard manifest says %d", gen.frag.PhysicalRows, *g.PhysicalRows)
	}
	if err := s.fragments(gen.ds); err != nil {
		return err
	}
	if err := s.sidecars(dir); err != nil {
		return err
	}
	sound, err := s.generationKeys(gen)
	if err != nil {
		return s.problem(dir, err)
	}
	if sound && g.Generation > s.merged {
		s.gens = append(s.gens, gen)
	}
	return nil
}

// open opens a generation for its keys; it has no key space.
func (s *shardCheck) open(g *pb.FlushedGeneration) (*generation, error) {
	ds, err := table.Open(s.ctx, s.st, s.dir.path+"/"+g.Path)
	if err != nil {
		return nil, err
	}
	if frags := ds.Fragments(); len(frags) != 1 || frags[0].ID != 0 {
		return nil, errs.Corrupt(ds.Root(), -1, "a generation has one fragment with id 0, found %d fragments", len(frags))
	}
	ids, err := fieldIDs(ds, s.t.memSchema)
	if err != nil {
		return nil, err
	}
	return &generation{genState: &genState{sh: s.sh, number: g.Generation, dir: g.Path}, ds: ds, frag: ds.Fragments()[0], fieldIDs: ids}, nil
}

// bloomBytes is the size of a generation's filter, whatever its rows. Spec: memwal.md §11.1.
const bloomBytes = 32768

// sidecars checks the files beside a generation, which it need not have.
func (s *shardCheck) sidecars(dir string) error {
	i, err := s.st.Stat(s.ctx, dir+"/bloom_filter.bin")
	if err == nil && i.Size != bloomBytes {
		s.add(Error, i.Name, "%d bytes, a filter has %d", i.Size, bloomBytes)
	}
	if err != nil && !errors.Is(err, errs.ErrNotFound) {
		return s.problem(dir, err)
	}
	return s.st.List(s.ctx, dir+"/_pk_index", func(i objstore.Info) error {
		if i.Dir || !strings.HasSuffix(i.Name, ".lance") {
			return nil
		}
		_, err := s.described(i.Name, i.Size)
		return err
	})
}

// wal checks the entries: all that a replay needs are there and whole, and what may only grow grows.
func (s *shardCheck) wal() error {
	r := inspect.NewReport("", "")
	list := shardView{st: s.st, r: r, path: s.dir.path}.listWAL(s.ctx)
	if err := s.problem(s.dir.path+"/wal", r.Err()); err != nil {
		return err
	}
	w := &walCheck{shardCheck: s, fenced: map[uint64]bool{0: true, 1: true}}
	next := s.state.Cursor + 1
	for _, o := range list {
		s.state.Tip = max(s.state.Tip, o.position)
		if o.position >= next {
			if o.position > next {
				s.state.Damaged = true
				s.add(Error, wal.EntryName(s.dir.path, wal.Position(next)), "WAL entries %d to %d are missing, entry %d exists", next, o.position-1, o.position)
			}
			next = o.position + 1
		}
		if err := w.entry(o); err != nil {
			return err
		}
	}
	if seen := s.newest.WalEntryPositionLastSeen; seen >= next {
		s.state.Damaged = true
		s.add(Error, s.name, "WAL entries up to %d were there, now the last is %d", seen, next-1)
	}
	return nil
}

// walCheck is what an entry must not fall below.
type walCheck struct {
	*shardCheck
	epoch, generation, journal uint64
	fenced                     map[uint64]bool // epochs whose sentinel was met; the first two write none
}

func (w *walCheck) entry(o walObject) error {
	if o.position%64 == 0 {
		w.o.Progress(w.dir.path + ": WAL")
	}
	needed := o.position > w.state.Cursor
	b, err := w.st.ReadAll(w.ctx, o.name, walReplayBytesMax)
	if err != nil {
		w.state.Damaged = w.state.Damaged || needed
		return w.problem(o.name, err)
	}
	e, err := wal.DecodeEntry(o.name, b)
	if err != nil {
		f := FindingOf(o.name, err)
		if needed {
			w.state.Damaged = true
		} else {
			f.Severity = Warning
			f.What += " (its rows are in a generation)"
		}
		w.found(f)
		return w.ctx.Err()
	}
	defer e.Release()
	w.state.Evidence = max(w.state.Evidence, e.Journal)
	for _, x := range []struct {
		what string
		was  *uint64
		is   uint64
	}{{"writer epoch", &w.epoch, uint64(e.Epoch)}, {"generation", &w.generation, e.Generation}, {"journal number", &w.journal, e.Journal}} {
		if x.is == 0 {
			continue // not recorded
		}
		if x.is < *x.was {
			w.add(Error, o.name, "the %s fell from %d to %d at position %d", x.what, *x.was, x.is, o.position)
		}
		*x.was = max(*x.was, x.is)
	}
	if uint64(e.Epoch) > w.newest.WriterEpoch {
		w.add(Error, o.name, "writer epoch %d, the shard manifest has %d", e.Epoch, w.newest.WriterEpoch)
	}
	if e.Sentinel {
		w.fenced[uint64(e.Epoch)] = true
		return nil
	}
	if !w.fenced[uint64(e.Epoch)] {
		w.fenced[uint64(e.Epoch)] = true
		w.some(Error, "missing fence sentinels", o.name, "no fence sentinel of writer epoch %d before it: a stalled writer of an older epoch would not be stopped", e.Epoch)
	}
	if !needed {
		return nil
	}
	if e.Generation != 0 && e.Generation < w.newest.CurrentGeneration {
		w.add(Warning, o.name, "is behind the replay cursor and of generation %d, which is flushed: a replay skips it", e.Generation)
	}
	return w.rows(o.name, &e)
}

// rows checks that the rows of an entry can be replayed into this shard.
func (w *walCheck) rows(object string, e *wal.Entry) error {
	for _, rec := range e.Batches {
		conf, err := wal.Conform(rec, w.t.memSchema, w.t.keyCols)
		if err != nil {
			w.state.Damaged = true
			return w.problem(object, err)
		}
		err = w.batch(object, conf)
		conf.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// batch checks rows of the shard's schema.
func (w *walCheck) batch(object string, rec arrow.RecordBatch) error {
	keys, err := w.t.keysOf(rec)
	tomb, isBool := rec.Column(int(rec.NumCols()) - 1).(*array.Boolean)
	if err != nil || !isBool {
		w.state.Damaged = true
		w.add(Error, object, "rows without keys or without %s: %v", TombstoneColumn, err)
		return nil
	}
	op := byKey(keys)
	if w.t.keyless() {
		op = w.sharder.byCell(rec.Column(w.sharder.column))
		for i := range tomb.Len() {
			if tomb.Value(i) {
				w.add(Error, object, "a delete row in a table without a key: nothing says what it deletes")
				break
			}
		}
	}
	if w.sh.manual {
		return nil
	}
	n, where, err := w.sharder.strangers(w.dir.id, int(rec.NumRows()), op)
	if err != nil {
		return w.problem(object, err)
	}
	if n > 0 {
		w.some(Error, "rows in a shard they do not belong to", object, "a row of shard %s", where)
	}
	return nil
}

// left lists generation directories that no manifest names, and unfinished files.
func (s *shardCheck) left() error {
	for _, sub := range []string{"", "/manifest", "/wal"} {
		if err := s.temporaries(s.dir.path + sub); err != nil {
			return err
		}
	}
	named := make(map[string]bool)
	for _, g := range s.newest.FlushedGenerations {
		named[g.Path] = true
	}
	err := s.st.List(s.ctx, s.dir.path, func(i objstore.Info) error {
		if base := path.Base(i.Name); i.Dir && generationDir(base) && !named[base] {
			s.some(Warning, "generation directories that no manifest names", i.Name, "no shard manifest names it: left over by a flush; the next start removes it")
		}
		return nil
	})
	return s.problem(s.dir.path, err)
}
