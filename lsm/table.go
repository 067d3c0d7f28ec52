package lsm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/schema"
	"lancesql/lance/table"
	"lancesql/wal"
)

// Table is one open table. Immutable after Open: o, root, physical, memSchema, bodies, keyCols, encoder, indexed.
// latch: held shared from Stage to Apply, exclusively by whatever moves rows or swaps an active MemTable (I4).
// mu guards chain, set, alive, closed, retired, the shards' own fields and the reference counts; it is innermost and
// no I/O happens under it. claimMu, flushMu and mergeMu serialise claims of new shards, flushes and merges; mergeMu is the
// commit token. rewriteMu serialises compactions and reclusters. Lock order: rewriteMu, claimMu, mergeMu, flushMu,
// shard.writing, latch, mu.
type Table struct {
	o         Options
	root      string
	physical  *arrow.Schema
	memSchema *arrow.Schema // non-key columns nullable, tombstone last
	bodies    *wal.BodyEncoder
	keyCols   []int
	encoder   *rowkey.Encoder
	indexed   []*rowkey.Encoder // of each secondary index's column

	tuned atomic.Pointer[Tuning] // nil: as the options say

	follow *follower // of a table that is opened for reading only, else nil

	latch     sync.RWMutex
	rewriteMu sync.Mutex
	claimMu   sync.Mutex
	flushMu   sync.Mutex
	mergeMu   sync.Mutex
	closing   atomic.Bool // long rewrites give up
	adoptions uint64      // of commits of others, since the table was opened; under mergeMu

	mu          sync.Mutex
	chain       []*Version // ascending floor; the last is the newest
	set         *shardSet  // of the newest Version, kept when the table is closed
	alive       map[*Version]struct{}
	retired     []retired
	lastCleanup time.Time
	twice       int // keys that outside commits brought a second time
	closed      bool
}

// Schema returns the physical schema: every stored column in order, hidden ones included.
func (t *Table) Schema() *arrow.Schema { return t.physical }

// Sharding returns how the table's rows are spread.
func (t *Table) Sharding() Sharding {
	columns := shardColumns(t.physical, t.keyCols)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = t.physical.Field(c).Name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.set.sharder.describe(names)
}

// KeyEncoder returns the encoder of a table's primary key; keyCols are physical positions in key order. nil for a table
// without one.
func KeyEncoder(s *arrow.Schema, keyCols []int) (*rowkey.Encoder, error) {
	if len(keyCols) == 0 {
		return nil, nil
	}
	types := make([]arrow.DataType, len(keyCols))
	for i, c := range keyCols {
		types[i] = s.Field(c).Type
	}
	return rowkey.NewEncoder(types)
}

// keyColumns returns the physical positions of the primary key in key order; none for an append-only table.
func keyColumns(s *schema.Schema) ([]int, error) {
	var cols []int
	key := s.PrimaryKey()
	for _, pk := range key {
		for i, f := range s.Fields {
			if f.ID == pk.ID {
				cols = append(cols, i)
			}
		}
	}
	if len(cols) != len(key) {
		return nil, fmt.Errorf("primary key inside a nested column: %w", errs.ErrUnsupported)
	}
	return cols, nil
}

// memSchema is the schema of WAL entries, MemTables and generations: the table's columns with every non-key
// column nullable (a delete row has nulls there), and the tombstone marker last. A table without a key, which has no
// delete rows, follows the same rule, as in the reference. Spec: memwal.md §8.2.
func memSchema(physical *arrow.Schema, keyCols []int) *arrow.Schema {
	key := make(map[int]bool, len(keyCols))
	for _, c := range keyCols {
		key[c] = true
	}
	fields := make([]arrow.Field, 0, physical.NumFields()+1)
	for i, f := range physical.Fields() {
		f.Nullable = !key[i]
		fields = append(fields, f)
	}
	fields = append(fields, arrow.Field{Name: TombstoneColumn, Type: arrow.FixedWidthTypes.Boolean})
	return arrow.NewSchema(fields, nil)
}

// Create writes an empty table of one shard: CreateSharded with the zero Sharding.
func Create(ctx context.Context, o Options, root string, s *arrow.Schema, tableMeta map[string]string) error {
	return CreateSharded(ctx, o, root, s, tableMeta, Sharding{})
}

// CreateSharded writes an empty table at root: version 1 of the base dataset with the MemWAL entry installed. The
// primary key is what the field metadata of s declares; without one the table is append-only. errs.ErrExists if a dataset is already there;
// errs.ErrUnsupported if sh names a column that cannot be sharded by.
func CreateSharded(ctx context.Context, o Options, root string, s *arrow.Schema, tableMeta map[string]string, sh Sharding) error {
	ls, err := schema.FromArrow(s)
	if err != nil {
		return err
	}
	keyCols, err := keyColumns(ls)
	if err != nil {
		return err
	}
	if ls.FieldByName(TombstoneColumn) != nil {
		return fmt.Errorf("column name %s is reserved: %w", TombstoneColumn, errs.ErrInvalid)
	}
	spec, n, err := sh.spec(ls)
	if err != nil {
		return err
	}
	m := &table.MemWAL{NumShards: n, Specs: []table.ShardingSpec{spec}, WriterDefaults: o.writerDefaults()}
	enc, err := KeyEncoder(s, keyCols)
	if err != nil {
		return err
	}
	if _, err := newSharder(m, ls, s, keyCols, enc); err != nil {
		return err
	}
	_, err = table.Create(ctx, o.Store, root, ls, table.CreateOptions{Options: table.Options{Clock: o.Clock}, TableMetadata: tableMeta, MemWAL: m})
	return err
}

// Close detaches the table. Unflushed rows stay in the WAL. Snapshots still held stay readable.
func (t *Table) Close(context.Context) error {
	// Why: taking the movers' locks lets a flush, merge or rewrite that is at its commit point finish first.
	t.closing.Store(true)
	t.rewriteMu.Lock()
	defer t.rewriteMu.Unlock()
	t.claimMu.Lock()
	defer t.claimMu.Unlock()
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	t.latch.Lock()
	defer t.latch.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for len(t.chain) > 0 {
		t.unchainLocked(0)
	}
	return nil
}

// Stopped reports whether the table can no longer be used: it was closed, or a commit succeeded that memory could not follow.
func (t *Table) Stopped() bool { return t.checkOpen() != nil }

func (t *Table) checkOpen() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
	}
	return nil
}

// Pressure says how far upkeep is behind: in the worst shard, except Obsolete.
type Pressure struct {
	Frozen      int // MemTables waiting for a flush
	Generations int // flushed generations waiting for a merge
	Obsolete    int // merged generations waiting for removal, over all shards
}

// Pressure returns the current backlog.
func (t *Table) Pressure() Pressure {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Pressure{Obsolete: len(t.retired)}
	if t.closed {
		return Pressure{}
	}
	for _, gens := range t.chain[len(t.chain)-1].gens {
		frozen, flushed := 0, 0
		for _, g := range gens[:len(gens)-1] {
			if g.mem != nil {
				frozen++
			} else {
				flushed++
			}
		}
		p.Frozen, p.Generations = max(p.Frozen, frozen), max(p.Generations, flushed)
	}
	return p
}

// Memory is what a table holds in memory, in bytes, estimated.
type Memory struct {
	MemTables int64 // rows and keys of MemTables
	Behind    int64 // journal records not yet in WAL entries
	Deaths    int64 // which rows have died, in all sources
}

// Total is the sum.
func (m Memory) Total() int64 { return m.MemTables + m.Behind + m.Deaths }

// Memory returns what the newest Version and the WAL hold. Older Versions share it but for MemTables that were flushed
// while a scan reads them.
func (t *Table) Memory() Memory {
	_, behind, _ := t.Behind()
	m := Memory{Behind: behind}
	v, err := t.newest()
	if err != nil {
		return m
	}
	defer t.release(v)
	m.Deaths = v.base.deaths.Bytes()
	for g := range v.all() {
		m.Deaths += g.deaths.Bytes()
		if g.mem != nil {
			m.MemTables += g.mem.Bytes()
		}
	}
	return m
}

// Size estimates rows and bytes; pending deletes are not subtracted.
func (t *Table) Size() (rows, bytes uint64) {
	v, err := t.newest()
	if err != nil {
		return 0, 0
	}
	defer t.release(v)
	for _, f := range v.base.frags {
		rows += f.LiveRows()
		for _, file := range f.Files {
			bytes += file.Size
		}
	}
	rows -= min(rows, uint64(v.base.deaths.Len()))
	for g := range v.all() {
		if g.mem != nil {
			rows += uint64(g.mem.Rows())
			bytes += uint64(g.mem.Bytes())
		} else {
			rows += g.frag.PhysicalRows
		}
		rows -= min(rows, uint64(g.deaths.Len()))
	}
	return rows, bytes
}
