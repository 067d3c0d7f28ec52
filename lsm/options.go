package lsm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"lancesql/indexes/pkstore"
	"lancesql/indexes/store"
	"lancesql/internal/clock"
	"lancesql/internal/objstore"
)

// Options carries what a table needs from its owner. Store and Keys are required; zero numbers mean defaults.
type Options struct {
	Store    objstore.Store
	Keys     *pkstore.Store // key index of MemTables, generations and base; rebuilt at open
	Indexes  []IndexDef     // secondary indexes, kept by every flush and merge
	ZoneMaps ZoneMapOptions
	Pages    *store.Cache // decoded pages of primary index segments; nil: one for each segment
	Log      *slog.Logger
	Clock    clock.Clock
	Alloc    memory.Allocator

	MemTableRows    int64         // freeze at this many rows (default 1,000,000)
	MemTableBytes   int64         // freeze at this many bytes (default 64 MiB)
	UnflushedWAL    int64         // freeze at this many WAL bytes (default 256 MiB)
	RowsPerFragment int64         // a merge starts a new fragment here (default 1,048,576)
	BatchRows       int           // rows per batch of internal scans (default 4096)
	GenerationGrace time.Duration // a merged generation stays on disk this long for outside readers (default 0)
	Retention       time.Duration // base versions younger than this are kept (default 6 h, negative: only those in use)

	// Journal is the parts of the caller's retained journal records that name this table, ascending. Open puts those
	// into WAL entries that no entry covers.
	Journal []JournalPart
	// WALEnds is, by shard, a position that the WAL of the table is known to have reached. Opening is refused if one does
	// not: entries were lost whose rows no journal record holds any more.
	WALEnds map[uuid.UUID]uint64
	// BeforeLog, if set, is called before entries are written behind: the caller makes its journal durable.
	BeforeLog func(ctx context.Context) error

	// Floor is the CommitSeq at which everything recovered counts as born: views older than the opening of
	// the table cannot be served. 0 when the process has just started.
	Floor uint64

	// Planted switches one rule off. Tests use it to prove that they would notice.
	Planted Planted

	// Random names generation directories; default crypto/rand. Tests inject a seed.
	Random func() uint32
}

// Planted names the rules a test may switch off; the zero value switches off none.
type Planted struct {
	SkipReplayedTombstone bool // a delete row met in replay hides nothing
	SkipDeathMask         bool // a merge leaves base rows alone that it replaces
	SkipMoves             bool // rows of index segments are not led through the rewrites since
	SkipUncovered         bool // fragments that an index does not cover count as having no rows for it
	ShortZones            bool // the last row of what zone maps leave of a fragment is left out
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Alloc == nil {
		o.Alloc = memory.DefaultAllocator
	}
	setDefault(&o.MemTableRows, 1_000_000)
	setDefault(&o.MemTableBytes, 64<<20)
	setDefault(&o.UnflushedWAL, 256<<20)
	setDefault(&o.RowsPerFragment, 1<<20)
	if o.ZoneMaps.EveryRows == 0 {
		o.ZoneMaps.EveryRows = zoneRowsDefault
	}
	if o.BatchRows <= 0 {
		o.BatchRows = 4096
	}
	switch {
	case o.Retention == 0:
		o.Retention = 6 * time.Hour
	case o.Retention < 0:
		o.Retention = 0
	}
	if o.Random == nil {
		o.Random = cryptoRandom
	}
	return o
}

// Keys of a table's writer defaults that we honour. Spec: memwal.md §4.
const (
	defaultRows  = "max_memtable_rows"
	defaultBytes = "max_memtable_size"
)

// under fills what is not set explicitly from a table's writer defaults; what does not parse is ignored.
func (o Options) under(defaults map[string]string) Options {
	for key, v := range map[string]*int64{defaultRows: &o.MemTableRows, defaultBytes: &o.MemTableBytes} {
		if n, err := strconv.ParseInt(defaults[key], 10, 64); err == nil && n > 0 && *v <= 0 {
			*v = n
		}
	}
	return o
}

// writerDefaults is what a new table records of the options that are set explicitly.
func (o Options) writerDefaults() map[string]string {
	out := make(map[string]string)
	if o.MemTableRows > 0 {
		out[defaultRows] = strconv.FormatInt(o.MemTableRows, 10)
	}
	if o.MemTableBytes > 0 {
		out[defaultBytes] = strconv.FormatInt(o.MemTableBytes, 10)
	}
	return out
}

func setDefault(v *int64, d int64) {
	if *v <= 0 {
		*v = d
	}
}

func cryptoRandom() uint32 {
	var b [4]byte
	// Why: crypto/rand.Read never fails on supported platforms and needs no seed seam.
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}
