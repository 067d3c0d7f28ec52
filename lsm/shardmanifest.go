package lsm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
	"lancesql/wal"
)

// Limits on what is read of a shard manifest.
const (
	shardManifestBytesMax = 64 << 20
	claimAttemptsMax      = 16
	updateAttemptsMax     = 10
)

// shardDir is the directory of one shard of a table: manifest/, wal/ and generation directories.
type shardDir struct {
	store objstore.Store
	path  string // {table}/_mem_wal/{shard id}
	id    uuid.UUID
}

func newShardDir(st objstore.Store, root string, id uuid.UUID) shardDir {
	return shardDir{store: st, path: root + "/" + memWALDir + "/" + id.String(), id: id}
}

func (d shardDir) manifestName(v uint64) string {
	return d.path + "/manifest/" + wal.BitReversed(v) + ".binpb"
}

func (d shardDir) hintName() string { return d.path + "/manifest/version_hint.json" }

// latest reads the newest shard manifest; errs.ErrNotFound if the shard does not exist.
// Spec: MemWAL, "Each shard has a versioned manifest"; memwal.md §7.1.
func (d shardDir) latest(ctx context.Context) (*pb.ShardManifest, error) {
	version, err := d.latestVersion(ctx)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		return nil, fmt.Errorf("shard %s: %w", d.id, errs.ErrNotFound)
	}
	name := d.manifestName(version)
	data, err := d.store.ReadAll(ctx, name, shardManifestBytesMax)
	if err != nil {
		return nil, err
	}
	m, err := decodeShardManifest(name, data)
	if err != nil {
		return nil, err
	}
	if m.Version != version {
		return nil, errs.Corrupt(name, 0, "version %d in the file of version %d", m.Version, version)
	}
	for _, g := range m.FlushedGenerations {
		if g.Generation == 0 || !plainName(g.Path) {
			return nil, errs.Corrupt(name, 0, "generation %d at %q", g.Generation, g.Path)
		}
	}
	return m, nil
}

func decodeShardManifest(name string, data []byte) (*pb.ShardManifest, error) {
	m := &pb.ShardManifest{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, errs.Corrupt(name, 0, "shard manifest: %v", err)
	}
	return m, nil
}

// latestVersion probes upward from the hint; 0 if there is no manifest.
func (d shardDir) latestVersion(ctx context.Context) (uint64, error) {
	start := d.hint(ctx)
	if start > 1 {
		ok, err := d.exists(ctx, start)
		if err != nil {
			return 0, err
		}
		if !ok {
			start = 1
		}
	}
	newest := uint64(0)
	for probe := max(start, 1); ; probe++ {
		ok, err := d.exists(ctx, probe)
		if err != nil {
			return 0, err
		}
		if !ok {
			return newest, nil
		}
		newest = probe
	}
}

func (d shardDir) exists(ctx context.Context, v uint64) (bool, error) {
	_, err := d.store.Stat(ctx, d.manifestName(v))
	if errors.Is(err, errs.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (d shardDir) hint(ctx context.Context) uint64 {
	data, err := d.store.ReadAll(ctx, d.hintName(), 1<<10)
	if err != nil {
		return 1
	}
	var h struct {
		Version uint64 `json:"version"`
	}
	if json.Unmarshal(data, &h) != nil {
		return 1
	}
	return h.Version
}

// write puts m as its version; errs.ErrExists if another writer took it. The hint is best effort.
func (d shardDir) write(ctx context.Context, m *pb.ShardManifest) error {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode shard manifest: %w", err)
	}
	if err := d.store.PutIfAbsent(ctx, d.manifestName(m.Version), data); err != nil {
		return err
	}
	// Durable: the manifest version is the newest from here on.
	_ = d.store.Put(ctx, d.hintName(), fmt.Appendf(nil, `{"version":%d}`, m.Version))
	return nil
}

// claim takes the shard over: the next manifest version with the next epoch. entry is the value of the sharding
// field, for a shard that does not exist yet.
// Spec: MemWAL, "To claim a shard"; memwal.md §7.3.
func (d shardDir) claim(ctx context.Context, entry []byte) (*pb.ShardManifest, error) {
	for range claimAttemptsMax {
		cur, err := d.latest(ctx)
		var next *pb.ShardManifest
		switch {
		case errors.Is(err, errs.ErrNotFound):
			next = &pb.ShardManifest{
				Version: 1, WriterEpoch: 1, CurrentGeneration: 1, ShardSpecId: specID,
				ShardId: &pb.UUID{Uuid: append([]byte(nil), d.id[:]...)},
			}
			if entry != nil {
				next.ShardFieldEntries = []*pb.ShardFieldEntry{{FieldId: fieldID, Value: entry}}
			}
		case err != nil:
			return nil, err
		case cur.Status == pb.ShardStatus_SEALED:
			return nil, fmt.Errorf("shard %s is sealed: a drop is in flight: %w", d.id, errs.ErrUnsupported)
		default:
			next = proto.Clone(cur).(*pb.ShardManifest)
			next.Version++
			next.WriterEpoch++
		}
		err = d.write(ctx, next)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, errs.ErrExists) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("claim shard %s: %w", d.id, errs.ErrConflict)
}

// update applies change to the newest manifest under our epoch and writes it as the next version.
// errs.ErrFenced if a newer writer owns the shard. Spec: memwal.md §7.4.
func (d shardDir) update(ctx context.Context, epoch uint64, change func(*pb.ShardManifest) error) (*pb.ShardManifest, error) {
	for range updateAttemptsMax {
		cur, err := d.latest(ctx)
		if err != nil {
			return nil, err
		}
		if cur.WriterEpoch != epoch {
			return nil, fmt.Errorf("shard %s: epoch %d, ours is %d: %w", d.id, cur.WriterEpoch, epoch, errs.ErrFenced)
		}
		next := proto.Clone(cur).(*pb.ShardManifest)
		next.Version++
		if err := change(next); err != nil {
			return nil, err
		}
		err = d.write(ctx, next)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, errs.ErrExists) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("update shard %s: %w", d.id, errs.ErrConflict)
}

// epoch reads the epoch that owns the shard now.
func (d shardDir) epoch(ctx context.Context) (wal.Epoch, error) {
	m, err := d.latest(ctx)
	if err != nil {
		return 0, err
	}
	return wal.Epoch(m.WriterEpoch), nil
}

// plainName reports whether s is a single path segment.
func plainName(s string) bool {
	if s == "" || s == "." || s == ".." {
		return false
	}
	for _, c := range []byte(s) {
		if c == '/' || c == '\\' || c == 0 {
			return false
		}
	}
	return true
}
