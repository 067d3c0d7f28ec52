package lsm_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
	"lancesql/lance/table"
	"lancesql/lsm"
	"lancesql/wal"
)

const checkedTable = "db/t.lance"

func checkTable(t *testing.T, st objstore.Store, o lsm.CheckOptions) (*lsm.TableState, []lsm.Finding) {
	t.Helper()
	var found []lsm.Finding
	state, err := lsm.Check(t.Context(), st, checkedTable, o, func(f lsm.Finding) { found = append(found, f) })
	require.NoError(t, err)
	return state, found
}

// faults are the findings of a severity, as text.
func faults(found []lsm.Finding, s lsm.Severity) []string {
	var out []string
	for _, f := range found {
		if f.Severity == s {
			out = append(out, f.Object+": "+f.What)
		}
	}
	return out
}

// TestCheckCleanHistories: whatever a history of commits, flushes, merges, clean-ups, outside commits and crashes leaves on
// disk, no invariant is broken.
func TestCheckCleanHistories(t *testing.T) {
	seeds, steps := uint64(12), 120
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		m := newModel(t, seed)
		for i := range steps {
			m.step()
			if i%8 == 0 {
				o := lsm.CheckOptions{Deep: i%16 == 0, MemoryBytes: 1 << 10}
				_, found := checkTable(t, m.store, o)
				require.Empty(t, faults(found, lsm.Error), "seed %d, step %d", seed, i)
			}
		}
		require.NoError(t, m.table.Close(t.Context()))
	}
}

// checked is a table with merged rows, two generations and WAL entries of the second epoch.
func checked(t *testing.T) *model {
	m := newModel(t, 0)
	ctx := t.Context()
	flush := func() {
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(ctx))
	}
	for id := range int64(5) {
		m.put(id, 1)
	}
	flush()
	require.NoError(t, m.table.Merge(ctx, m.hooks()))
	require.NoError(t, m.table.Cleanup(ctx, m.lowWater()))
	require.NoError(t, m.table.Close(ctx))
	m.open()
	for range 3 {
		m.put(7, 2)
	}
	m.put(8, 3)
	flush()
	m.put(1, 9)
	flush()
	for id := range int64(3) {
		m.put(20+id, 4)
		require.NoError(t, m.table.WriteBehind(ctx))
	}
	require.NoError(t, m.table.Close(ctx))
	return m
}

const checkedShard = checkedTable + "/_mem_wal/aa48498d-ac91-59e2-8452-69f46010ace2"

// damager changes objects of a store that no writer would change.
type damager struct {
	t  *testing.T
	m  *model
	st objstore.Store
}

func (d damager) list(dir, suffix string) []string {
	var names []string
	require.NoError(d.t, d.st.List(d.t.Context(), dir, func(i objstore.Info) error {
		if strings.HasSuffix(i.Name, suffix) {
			names = append(names, i.Name)
		}
		return nil
	}))
	slices.Sort(names)
	return names
}

func (d damager) read(name string) []byte {
	b, err := d.st.ReadAll(d.t.Context(), name, 1<<20)
	require.NoError(d.t, err)
	return b
}

func (d damager) put(name string, b []byte) {
	require.NoError(d.t, d.st.Delete(d.t.Context(), name))
	require.NoError(d.t, d.st.PutIfAbsent(d.t.Context(), name, b))
}

func (d damager) remove(name string) { require.NoError(d.t, d.st.Delete(d.t.Context(), name)) }

// entries are the positions of the WAL, ascending.
func (d damager) entries() []uint64 {
	var out []uint64
	for _, name := range d.list(checkedShard+"/wal", ".arrow") {
		p, _ := wal.ParseBitReversed(path.Base(name))
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func (d damager) last() (p uint64, name string) {
	p = slices.Max(d.entries())
	return p, wal.EntryName(checkedShard, wal.Position(p))
}

func (d damager) entry(p, epoch, generation uint64, ids ...int64) {
	var rows []arrowx.Row
	for _, id := range ids {
		rows = append(rows, arrowx.Row{nil, id, int32(1), false})
	}
	s := arrow.NewSchema(append(tableSchema().Fields(), arrow.Field{Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean}), nil)
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rows)
	require.NoError(d.t, err)
	defer rec.Release()
	b, err := wal.EncodeEntry(s, wal.Epoch(epoch), generation, []arrow.RecordBatch{rec})
	require.NoError(d.t, err)
	d.put(wal.EntryName(checkedShard, wal.Position(p)), b)
}

// generation puts another dataset in the place of the first generation: the same rows, other deletions.
func (d damager) generation(dir string, deleted ...uint32) {
	ctx := d.t.Context()
	d.manifest(func(m *pb.ShardManifest) {
		g := m.FlushedGenerations[0]
		old, err := table.Open(ctx, d.st, checkedShard+"/"+g.Path)
		require.NoError(d.t, err)
		r, err := old.ScanFragment(ctx, old.Fragments()[0], old.FieldIDs(), 0, old.Fragments()[0].PhysicalRows, 100)
		require.NoError(d.t, err)
		defer r.Close()
		_, rec, err := r.Next()
		require.NoError(d.t, err)
		defer rec.Release()
		_, err = table.CreateGeneration(ctx, d.st, checkedShard+"/"+dir, old.Schema(), []arrow.RecordBatch{rec}, roaring.BitmapOf(deleted...))
		require.NoError(d.t, err)
		g.Path = dir
	})
}

// TestCheckFinds breaks one rule at a time.
func TestCheckFinds(t *testing.T) {
	for _, c := range []struct {
		name     string
		severity lsm.Severity
		harm     func(d damager)
		says     string
	}{
		{"data file missing", lsm.Error, func(d damager) { d.remove(d.list(checkedTable+"/data", ".lance")[0]) }, "is missing"},
		{"data file cut", lsm.Error, func(d damager) {
			name := d.list(checkedTable+"/data", ".lance")[0]
			d.put(name, d.read(name)[1:])
		}, "are recorded"},
		{"data page", lsm.Error, func(d damager) {
			name := d.list(checkedTable+"/data", ".lance")[0]
			b := d.read(name)
			copy(b, strings.Repeat("\xff", 200))
			d.put(name, b)
		}, ""},
		{"manifest", lsm.Error, func(d damager) {
			name := d.list(checkedTable+"/_versions", ".manifest")[0]
			d.put(name, d.read(name)[:40])
		}, ""},
		{"key twice in base", lsm.Error, func(d damager) {
			ds, err := table.Open(d.t.Context(), d.st, checkedTable)
			require.NoError(d.t, err)
			d.m.appendOutside(ds, 3, 5)
		}, "key (3) is alive 2 times in the base, rows 0:3, 1:0"},
		{"cursor fell", lsm.Error, func(d damager) { d.manifest(func(m *pb.ShardManifest) { m.ReplayAfterWalEntryPosition = 0 }) }, "replay cursor fell"},
		{"epoch fell", lsm.Error, func(d damager) { d.manifest(func(m *pb.ShardManifest) { m.WriterEpoch = 1 }) }, "writer epoch fell"},
		{"merged beyond the current generation", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) { m.CurrentGeneration, m.FlushedGenerations = 1, nil })
		}, "is merged into the base, the current one is 1"},
		{"generation lost", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) { m.FlushedGenerations = m.FlushedGenerations[1:] })
		}, "generation 3 follows generation 1"},
		{"newest generation lost", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) { m.FlushedGenerations = m.FlushedGenerations[:1] })
		}, "generations 3 to 3 are neither here nor merged"},
		{"generation of the future", lsm.Error, func(d damager) { d.manifest(func(m *pb.ShardManifest) { m.CurrentGeneration = 3 }) }, "names generation 3, the current one is 3"},
		{"generation directory missing", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) { m.FlushedGenerations[0].Path = "00000000_gen_2" })
		}, "is missing"},
		{"deletion vector short", lsm.Error, func(d damager) { d.generation("0000000a_gen_2", 0) }, "leaves 1 rows that a newer row of the generation replaces, the first at 1"},
		{"deletion vector long", lsm.Error, func(d damager) { d.generation("0000000b_gen_2", 0, 1, 3) }, "hides 1 rows that are the newest of their keys, the first at 3"},
		{"recorded rows", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) { *m.FlushedGenerations[0].PhysicalRows = 77 })
		}, "4 rows, the shard manifest says 77"},
		{"shard id", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) { m.ShardId = &pb.UUID{Uuid: make([]byte, 16)} })
		}, "is of shard 00000000"},
		{"hint too high", lsm.Error, func(d damager) { d.put(checkedShard+"/manifest/version_hint.json", []byte(`{"version":99}`)) }, "names version 99"},
		{"hint too low", lsm.Error, func(d damager) {
			d.remove(checkedShard + "/manifest/" + wal.BitReversed(1) + ".binpb")
			d.remove(checkedShard + "/manifest/version_hint.json")
		}, "readers find no shard"},
		{"manifest version missing", lsm.Error, func(d damager) { d.remove(checkedShard + "/manifest/" + wal.BitReversed(3) + ".binpb") }, "version 3 is missing"},
		{"WAL hole", lsm.Error, func(d damager) {
			p, _ := d.last()
			d.remove(wal.EntryName(checkedShard, wal.Position(p-1)))
		}, "are missing"},
		{"WAL tail lost", lsm.Error, func(d damager) {
			p, name := d.last()
			d.manifest(func(m *pb.ShardManifest) { m.WalEntryPositionLastSeen = p })
			d.remove(name)
		}, "were there"},
		{"WAL entry flipped", lsm.Error, func(d damager) {
			_, name := d.last()
			b := d.read(name)
			b[len(b)-20] ^= 1
			d.put(name, b)
		}, "checksum"},
		{"covered WAL entry flipped", lsm.Warning, func(d damager) {
			name := wal.EntryName(checkedShard, wal.Position(slices.Min(d.entries())))
			d.put(name, d.read(name)[1:])
		}, "its rows are in a generation"},
		{"epoch above the manifest", lsm.Error, func(d damager) {
			p, _ := d.last()
			d.entry(p+1, 9, 4, 5)
		}, "writer epoch 9, the shard manifest has 2"},
		{"epoch falls in the WAL", lsm.Error, func(d damager) {
			p, _ := d.last()
			d.entry(p+1, 1, 4, 5)
		}, "writer epoch fell from 2 to 1"},
		{"generation falls in the WAL", lsm.Error, func(d damager) {
			p, _ := d.last()
			d.entry(p+1, 2, 2, 5)
		}, "generation fell from 4 to 2"},
		{"sentinel gone", lsm.Error, func(d damager) {
			for _, p := range d.entries() {
				if name := wal.EntryName(checkedShard, wal.Position(p)); strings.Contains(string(d.read(name)), "fence_sentinel") {
					d.remove(name)
				}
			}
		}, "no fence sentinel of writer epoch 2"},
		{"sidecar of other keys", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) {
				from, to := checkedShard+"/"+m.FlushedGenerations[1].Path+"/_pk_index/", checkedShard+"/"+m.FlushedGenerations[0].Path+"/_pk_index/"
				for _, f := range []string{"page_data.lance", "page_lookup.lance"} {
					d.put(to+f, d.read(from+f))
				}
			})
		}, "_pk_index"},
		{"sidecar cut", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) {
				name := checkedShard + "/" + m.FlushedGenerations[0].Path + "/_pk_index/page_data.lance"
				d.put(name, d.read(name)[5:])
			})
		}, "_pk_index"},
		{"index of rows that are not", lsm.Error, func(d damager) {
			ds, err := table.Open(d.t.Context(), d.st, checkedTable)
			require.NoError(d.t, err)
			entries, err := ds.Indexes()
			require.NoError(d.t, err)
			for _, e := range entries {
				if e.Name == lsm.PrimaryIndex {
					e.Fragments = roaring.BitmapOf(0, 1)
					d.m.appendOutside(ds, 900, 5)
					ds, err = ds.Latest(d.t.Context())
					require.NoError(d.t, err)
					_, err = ds.Commit(d.t.Context(), table.CreateIndex{New: []table.IndexEntry{e}})
					require.NoError(d.t, err)
				}
			}
		}, "index PRIMARY does not hold the keys of the fragments it covers (5 entries, 6 rows)"},
		{"orphan generation", lsm.Warning, func(d damager) { d.put(checkedShard+"/0badf00d_gen_9/data/x", nil) }, "left over by a flush"},
		{"orphan data file", lsm.Warning, func(d damager) { d.put(checkedTable+"/data/x.lance", nil) }, "no version names it"},
		{"bloom filter", lsm.Error, func(d damager) {
			d.manifest(func(m *pb.ShardManifest) {
				d.put(checkedShard+"/"+m.FlushedGenerations[0].Path+"/bloom_filter.bin", []byte("x"))
			})
		}, "a filter has 32768"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := checked(t)
			_, found := checkTable(t, m.store, lsm.CheckOptions{Deep: true})
			require.Empty(t, faults(found, lsm.Error))
			require.Empty(t, faults(found, lsm.Warning))
			c.harm(damager{t: t, m: m, st: m.store})
			_, found = checkTable(t, m.store, lsm.CheckOptions{Deep: true})
			got := faults(found, c.severity)
			require.NotEmpty(t, got, "%v", found)
			require.Contains(t, fmt.Sprint(got), c.says)
			if c.severity == lsm.Warning {
				require.Empty(t, faults(found, lsm.Error))
			}
		})
	}
}

// TestCheckForeignShard: a key in a shard it does not belong to, in a generation and in a WAL entry.
func TestCheckForeignShard(t *testing.T) {
	m := newModel(t, 2) // three buckets
	for id := range int64(9) {
		m.put(id, 1)
	}
	require.NoError(t, m.table.WriteBehind(t.Context()))
	require.NoError(t, m.table.Close(t.Context()))
	state, found := checkTable(t, m.store, lsm.CheckOptions{})
	require.Empty(t, faults(found, lsm.Error))
	require.Len(t, state.Shards, 3)
	var ids []uuid.UUID
	for id, s := range state.Shards {
		require.Positive(t, s.Evidence)
		ids = append(ids, id)
	}
	from, to := checkedTable+"/_mem_wal/"+ids[0].String(), checkedTable+"/_mem_wal/"+ids[1].String()
	d := damager{t: t, m: m, st: m.store}
	d.put(wal.EntryName(to, wal.Position(state.Shards[ids[1]].Tip)), d.read(wal.EntryName(from, wal.Position(state.Shards[ids[0]].Tip))))
	_, found = checkTable(t, m.store, lsm.CheckOptions{})
	require.Contains(t, fmt.Sprint(faults(found, lsm.Error)), "a row of shard "+ids[0].String())
}

func TestCheckEndsWithItsContext(t *testing.T) {
	m := checked(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := lsm.Check(ctx, m.store, checkedTable, lsm.CheckOptions{}, func(lsm.Finding) {})
	require.ErrorIs(t, err, context.Canceled)
}
