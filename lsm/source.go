package lsm

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/indexes/pkstore"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
	"lancesql/memtable"
)

// TombstoneColumn is the internal column of MemTables, WAL entries and generations that marks delete rows.
const TombstoneColumn = "_tombstone"

// SourceID names a source of rows within an open table: 0 is the base table, otherwise a generation of a shard.
type SourceID uint64

const generationBits = 48

func sourceID(shard int, generation uint64) SourceID {
	return SourceID(uint64(shard)<<generationBits | generation)
}

func (id SourceID) shard() int         { return int(id >> generationBits) }
func (id SourceID) generation() uint64 { return uint64(id) & (1<<generationBits - 1) }

// Location is where a row lives. A generation's rows have fragment 0.
type Location struct {
	Source SourceID
	Addr   rowaddr.Addr
}

// keySpace is a counted reference to a key space; guarded by Table.mu.
type keySpace struct {
	*pkstore.Space
	refs int
}

// base is one version of the base table with everything needed to read it at any CommitSeq it may serve.
// Immutable except for deaths, which grows. Rows are born at the Floor of the Version that names it.
type base struct {
	ds        *table.Dataset
	frags     []*table.Fragment // ascending id
	byID      map[uint32]*table.Fragment
	deleted   map[uint32]*roaring.Bitmap // deletion vectors, absent = none
	fieldIDs  []int32                    // by physical column position
	deaths    *DeathLog
	pk        *columnIndex   // over the primary key
	secondary []*columnIndex // by place in Options.Indexes
	zones     *zoneMaps
	scans     scanIndexes
	bare      bool      // there are fragments that pk does not cover: their keys are in memory
	keys      *keySpace // key -> addresses of those, over several base versions; candidates must be checked
}

// openBase opens a base version: its deletion vectors and the segments of its primary index, those of prev (may be nil)
// without reading them again. The keys of fragments that no segment covers are the caller's to put into b.keys, which is
// keys, or an empty space if there are no such fragments.
func (t *Table) openBase(ctx context.Context, ds *table.Dataset, prev *base, keys *keySpace) (*base, error) {
	b := &base{
		ds: ds, frags: ds.Fragments(), deaths: NewDeathLog(), keys: keys,
		byID: make(map[uint32]*table.Fragment), deleted: make(map[uint32]*roaring.Bitmap),
	}
	for _, f := range b.frags {
		id := uint32(f.ID)
		b.byID[id] = f
		dv, err := ds.Deletions(ctx, f)
		if err != nil {
			return nil, err
		}
		if dv != nil && !dv.IsEmpty() {
			b.deleted[id] = dv
		}
	}
	var err error
	if b.fieldIDs, err = fieldIDs(ds, t.physical); err != nil {
		return nil, err
	}
	if err := t.openIndexes(ctx, b, prev); err != nil {
		return nil, err
	}
	if err := t.openZones(b, prev); err != nil {
		return nil, err
	}
	if err := t.openScans(ctx, b, prev); err != nil {
		return nil, err
	}
	b.bare = !t.keyless() && b.pk.covered.GetCardinality() < uint64(len(b.frags))
	if !b.bare || keys == nil {
		b.keys = &keySpace{Space: t.o.Keys.New()}
	}
	return b, nil
}

// fieldIDs maps physical column positions to the field ids of a dataset, by name.
func fieldIDs(ds *table.Dataset, physical *arrow.Schema) ([]int32, error) {
	ids := make([]int32, physical.NumFields())
	for i, f := range physical.Fields() {
		df := ds.Schema().FieldByName(f.Name)
		if df == nil {
			return nil, fmt.Errorf("dataset %s has no column %q", ds.Root(), f.Name)
		}
		ids[i] = df.ID
	}
	return ids, nil
}

// alive reports whether the base version stores a live row at a.
func (b *base) alive(a rowaddr.Addr) bool {
	f := b.byID[a.Fragment()]
	if f == nil || uint64(a.Offset()) >= f.PhysicalRows {
		return false
	}
	dv := b.deleted[a.Fragment()]
	return dv == nil || !dv.Contains(a.Offset())
}

// genState is what the two forms of a generation share: a flush keeps offsets (I3).
type genState struct {
	sh     *shard
	number uint64
	id     SourceID
	births *memtable.Births
	deaths *DeathLog
	dir    string // directory name below the shard once flushed
	refs   int    // Versions naming it; guarded by Table.mu
}

// generation is one generation in one of its two forms. Immutable.
type generation struct {
	*genState
	keys      *genKeysRef
	secondary []*genKeysRef      // by place in Options.Indexes: values of the indexed column
	mem       *memtable.MemTable // nil once flushed
	ds        *table.Dataset     // nil until flushed
	frag      *table.Fragment
	fieldIDs  []int32          // physical columns, then the tombstone column
	graves    *roaring.Bitmap  // delete rows; nil for a MemTable
	zones     *generationZones // of a flushed one
}

// newestFirst is the generations of a shard in the order in which a look-up visits them.
func newestFirst(gens []*generation) []*generation {
	if len(gens) < 2 {
		return gens
	}
	out := slices.Clone(gens)
	slices.Reverse(out)
	return out
}

func addrOf(row uint64) rowaddr.Addr { return rowaddr.Addr(row) }
