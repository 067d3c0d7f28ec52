package lsm

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/inspect"
	"lancesql/lance/pb"
	"lancesql/wal"
)

// memWALDir is the directory of the shards below a table's root.
const memWALDir = "_mem_wal"

// InspectShards adds the shards of the table at root to a report that already shows its dataset. It only reads, and
// works beside a writer: what a flush or a merge removes meanwhile is no problem.
func InspectShards(ctx context.Context, st inspect.Store, root string, r *inspect.Report) {
	if r.Dataset == nil {
		return
	}
	for _, id := range listShards(ctx, st, root, r) {
		v := shardView{st: st, r: r, path: inspect.Join(root, memWALDir, id)}
		r.Dataset.Shards = append(r.Dataset.Shards, v.inspect(ctx, id, mergedUpTo(r.Dataset.MemWAL, id)))
	}
}

// SummarizeShards returns the shards of the table at root in brief: the newest manifest and the sizes of WAL entries,
// none of which is opened. Problems go to the report.
func SummarizeShards(ctx context.Context, st inspect.Store, root string, r *inspect.Report) []inspect.ShardSummary {
	var out []inspect.ShardSummary
	for _, id := range listShards(ctx, st, root, r) {
		v := shardView{st: st, r: r, path: inspect.Join(root, memWALDir, id)}
		s := inspect.ShardSummary{ID: id}
		m, _ := v.newest(ctx)
		cursor := uint64(0)
		if m != nil {
			s.Epoch, s.Generations, cursor = m.Epoch, len(m.Generations), m.ReplayAfter
		}
		for _, e := range v.listWAL(ctx) {
			if e.position > cursor {
				s.WALEntries++
				s.WALBytes += e.size
			}
		}
		out = append(out, s)
	}
	return out
}

// InspectShardManifest fills the report with one shard manifest object.
func InspectShardManifest(ctx context.Context, st inspect.Store, name string, r *inspect.Report) {
	b, err := st.ReadAll(ctx, name, shardManifestBytesMax)
	if err != nil {
		r.Add(err)
		return
	}
	m, problems := describeShardManifest(name, b)
	r.Add(problems...)
	r.ShardManifest = m
}

// InspectWALEntry fills the report with one WAL entry, its columns included.
func InspectWALEntry(ctx context.Context, st inspect.Store, name string, r *inspect.Report) {
	b, err := st.ReadAll(ctx, name, walReplayBytesMax)
	if err != nil {
		r.Add(err)
		return
	}
	position, _ := wal.ParseBitReversed(path.Base(name))
	e, err := describeEntry(name, position, b, true)
	r.Add(err)
	if err == nil {
		r.WALEntry = &e
	}
}

// listShards lists the shard directories of a table, sorted. Other names are not ours to judge.
func listShards(ctx context.Context, st inspect.Store, root string, r *inspect.Report) []string {
	var out []string
	r.Add(st.List(ctx, inspect.Join(root, memWALDir), func(i objstore.Info) error {
		if _, err := uuid.Parse(path.Base(i.Name)); err == nil && i.Dir {
			out = append(out, path.Base(i.Name))
		}
		return nil
	}))
	slices.Sort(out)
	return out
}

func mergedUpTo(m *inspect.MemWAL, shard string) uint64 {
	if m == nil {
		return 0
	}
	for _, g := range m.Merged {
		if g.Shard == shard {
			return g.Generation
		}
	}
	return 0
}

// shardView reads one shard directory.
type shardView struct {
	st   inspect.Store
	r    *inspect.Report
	path string
}

func (v shardView) inspect(ctx context.Context, id string, merged uint64) inspect.Shard {
	s := inspect.Shard{ID: id, Path: v.path, WAL: []inspect.WALEntry{}}
	s.Manifest, s.Versions = v.newest(ctx)
	cursor := uint64(0)
	if s.Manifest != nil {
		cursor = s.Manifest.ReplayAfter
		for i := range s.Manifest.Generations {
			g := &s.Manifest.Generations[i]
			g.Merged = g.Generation <= merged
			if plainName(g.Path) {
				g.Found = v.r.Summarize(ctx, v.st, inspect.Join(v.path, g.Path))
			}
		}
		s.Orphans = v.orphans(ctx, s.Manifest.Generations)
	}
	s.WAL = append(s.WAL, v.wal(ctx, cursor)...)
	return s
}

// newest describes the newest readable manifest and counts the manifests present.
func (v shardView) newest(ctx context.Context) (m *inspect.ShardManifest, present int) {
	type object struct {
		version uint64
		name    string
	}
	var found []object
	v.r.Add(v.st.List(ctx, inspect.Join(v.path, "manifest"), func(i objstore.Info) error {
		stem, ok := strings.CutSuffix(path.Base(i.Name), ".binpb")
		if n, valid := wal.ParseBitReversed(stem); ok && valid && n > 0 && !i.Dir {
			found = append(found, object{n, i.Name})
		}
		return nil
	}))
	slices.SortFunc(found, func(a, b object) int { return cmp.Compare(b.version, a.version) })
	for _, o := range found {
		b, err := v.st.ReadAll(ctx, o.name, shardManifestBytesMax)
		if err != nil {
			v.r.Add(err)
			continue
		}
		m, problems := describeShardManifest(o.name, b)
		v.r.Add(problems...)
		if m != nil {
			return m, len(found)
		}
	}
	return nil, len(found)
}

// describeShardManifest decodes the bytes of a shard manifest; name is that of its object. Beside problems
// the description holds what could be read, nil if nothing.
func describeShardManifest(name string, b []byte) (*inspect.ShardManifest, []error) {
	p := &pb.ShardManifest{}
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, []error{errs.Corrupt(name, 0, "shard manifest: %v", err)}
	}
	m := &inspect.ShardManifest{
		Object: name, Version: p.Version, Status: shardStatus(p.Status), Epoch: p.WriterEpoch, ReplayAfter: p.ReplayAfterWalEntryPosition,
		LastSeen: p.WalEntryPositionLastSeen, CurrentGeneration: p.CurrentGeneration, SpecID: p.ShardSpecId, Generations: []inspect.Generation{},
	}
	var problems []error
	id, err := uuid.FromBytes(p.GetShardId().GetUuid())
	if err != nil {
		problems = append(problems, errs.Corrupt(name, 0, "shard id: %v", err))
	} else {
		m.Shard = id.String()
	}
	if n, ok := wal.ParseBitReversed(path.Base(name)); ok && n != p.Version {
		problems = append(problems, errs.Corrupt(name, 0, "version %d in the file of version %d", p.Version, n))
	}
	for _, e := range p.ShardFieldEntries {
		if m.FieldEntries == nil {
			m.FieldEntries = make(map[string]string)
		}
		m.FieldEntries[e.GetFieldId()] = hex.EncodeToString(e.GetValue())
	}
	last := uint64(0)
	for _, g := range p.FlushedGenerations {
		if g.Generation <= last || !plainName(g.Path) {
			problems = append(problems, errs.Corrupt(name, 0, "generation %d at %q after generation %d", g.Generation, g.Path, last))
		}
		last = max(last, g.Generation)
		m.Generations = append(m.Generations, inspect.Generation{
			Generation: g.Generation, Path: g.Path, PhysicalRows: g.PhysicalRows, InMemoryBytes: g.InMemoryBytes,
			PrimaryKeyBytes: g.PrimaryKeyBytes, MaxRowID: g.MaxRowId,
		})
	}
	return m, problems
}

func shardStatus(s pb.ShardStatus) string {
	switch s {
	case pb.ShardStatus_ACTIVE:
		return "active"
	case pb.ShardStatus_SEALED:
		return "sealed"
	}
	return fmt.Sprintf("unknown %d", s)
}

// orphans lists generation directories that the manifest does not name: a flush in progress or one that failed.
func (v shardView) orphans(ctx context.Context, list []inspect.Generation) []string {
	var out []string
	v.r.Add(v.st.List(ctx, v.path, func(i objstore.Info) error {
		dir := path.Base(i.Name)
		named := slices.ContainsFunc(list, func(g inspect.Generation) bool { return g.Path == dir })
		if i.Dir && generationDir(dir) && !named {
			out = append(out, dir)
		}
		return nil
	}))
	return out
}

// walObject is a WAL entry found by its name.
type walObject struct {
	position uint64
	name     string
	size     int64
}

// listWAL lists the WAL entries of the shard by position.
func (v shardView) listWAL(ctx context.Context) []walObject {
	var out []walObject
	v.r.Add(v.st.List(ctx, inspect.Join(v.path, "wal"), func(i objstore.Info) error {
		stem, ok := strings.CutSuffix(path.Base(i.Name), ".arrow")
		if n, valid := wal.ParseBitReversed(stem); ok && valid && n > 0 && !i.Dir {
			out = append(out, walObject{n, i.Name, i.Size})
		}
		return nil
	}))
	slices.SortFunc(out, func(a, b walObject) int { return cmp.Compare(a.position, b.position) })
	return out
}

// wal describes every WAL entry. One that vanishes meanwhile was flushed; a missing one behind the cursor is damage.
func (v shardView) wal(ctx context.Context, cursor uint64) []inspect.WALEntry {
	var out []inspect.WALEntry
	next := cursor + 1
	for _, o := range v.listWAL(ctx) {
		for ; next < o.position; next++ {
			name := wal.EntryName(v.path, wal.Position(next))
			if _, err := v.st.Stat(ctx, name); !errors.Is(err, errs.ErrNotFound) {
				continue // appended behind the listing while it ran
			}
			if !v.covered(ctx, next) {
				v.r.Add(errs.Corrupt(name, -1, "WAL entry %d is missing but entry %d exists", next, o.position))
			}
			break
		}
		next = max(next, o.position+1)
		b, err := v.st.ReadAll(ctx, o.name, walReplayBytesMax)
		if errors.Is(err, errs.ErrNotFound) {
			continue
		}
		e := inspect.WALEntry{Position: o.position, Size: o.size, Damaged: true}
		if err == nil {
			var described inspect.WALEntry
			if described, err = describeEntry(o.name, o.position, b, false); err == nil {
				e = described
			}
		}
		v.r.Add(err)
		e.Covered = o.position <= cursor
		out = append(out, e)
	}
	return out
}

// covered says whether the newest manifest's cursor has passed a position since the first look.
func (v shardView) covered(ctx context.Context, position uint64) bool {
	quiet := shardView{st: v.st, r: inspect.NewReport("", ""), path: v.path}
	m, _ := quiet.newest(ctx)
	return m != nil && m.ReplayAfter >= position
}

// describeEntry decodes a WAL entry and releases its batches.
func describeEntry(name string, position uint64, b []byte, columns bool) (inspect.WALEntry, error) {
	e, err := wal.DecodeEntry(name, b)
	if err != nil {
		return inspect.WALEntry{}, err
	}
	defer e.Release()
	out := inspect.WALEntry{
		Position: position, Size: int64(len(b)), Epoch: uint64(e.Epoch), Sentinel: e.Sentinel, Generation: e.Generation, Batches: len(e.Batches),
	}
	for _, rec := range e.Batches {
		out.Rows += rec.NumRows()
	}
	if columns && len(e.Batches) > 0 {
		for _, f := range e.Batches[0].Schema().Fields() {
			out.Columns = append(out.Columns, inspect.EntryColumn{Name: f.Name, Type: f.Type.String(), Nullable: f.Nullable})
		}
	}
	return out, nil
}
