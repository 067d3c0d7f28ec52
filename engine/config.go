package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"lancesql/internal/errs"
)

// Config is the engine's settings as plain data. A zero field means its default; see DefaultConfig for the
// values and their reasons.
type Config struct {
	DataDir string // root of the data directory; unused when Components.Store is given

	MemTableRows  uint64 // freeze a MemTable at this many rows
	MemTableBytes uint64 // freeze a MemTable at this many bytes

	FrozenSoft, FrozenHard           int // frozen MemTables per shard: delay writers from, stop them at
	GenerationsSoft, GenerationsHard int // flushed generations per shard: delay writers from, stop them at
	MergeAfterGenerations            int // merge into base once this many flushed generations wait

	LockWaitTimeout time.Duration // row lock wait before errs.ErrLockTimeout

	CommitGroupBytes int // largest group made durable in one step, in bytes
	CommitGroupTxns  int // and in transactions

	MemoryBytes     int64 // of MemTables, changes, histories, locks and index pages together, at which writers wait
	IndexCacheBytes int64 // most memory for pages of index files

	// AdoptEvery is how often a table in use is looked at for commits of other Lance writers; NoAdoption (-1) = only merges
	// look.
	AdoptEvery time.Duration

	TemporaryBytes int64 // most memory the files of temporary tables may take, over all sessions

	TxnBytes int64 // most memory the changes of one transaction may take, estimated

	Durability          Durability    // when a commit is acknowledged: see SetDurability
	WALAck              Ack           // what a commit waits for besides
	JournalSegmentBytes int64         // size of a file of the commit journal
	JournalBytes        int64         // size of all of them at which writers wait; they are delayed from half of it
	WriteBehindDelay    time.Duration // a commit is in WAL entries this long after its acknowledgement, while the disk keeps up
	WriteBehindBytes    int64         // or once this much of a table waits

	// Freshness is how old rows may become before they are merged into the base table for the sake of its other readers;
	// NoFreshness (-1) = they are merged only as the load demands.
	Freshness time.Duration

	// Staleness is how much older than the beginning of a statement what it reads may be: of engines opened for reading only.
	Staleness time.Duration

	// Workers is the number of background workers. NoWorkers (-1) runs jobs only when a test asks for it.
	Workers int

	ManifestRetention time.Duration // base versions younger than this are kept; NoRetention (-1) keeps only what is in use
	GenerationGrace   time.Duration // merged generations stay this long for outside readers; 0 = not at all
	UnflushedWALBytes uint64        // freeze all MemTables that hold back more WAL than this
}

// Special values of Config fields whose zero means the default.
const (
	NoWorkers                 = -1
	NoRetention time.Duration = -1
	NoFreshness time.Duration = -1
	NoAdoption  time.Duration = -1
)

// Ack says what a commit waits for besides its journal record.
type Ack uint8

const (
	AckJournal Ack = iota // nothing: WAL entries are written behind
	AckEntry              // the WAL entries of all shards it touched
)

// DefaultConfig returns the defaults, DataDir empty.
func DefaultConfig() Config {
	return Config{
		MemTableRows:          1_000_000,        // one comfortable fragment
		MemTableBytes:         64 << 20,         // bounds memory and replay
		FrozenSoft:            2,                // memory bound
		FrozenHard:            4,                //
		GenerationsSoft:       8,                // every miss of a point read probes each generation once
		GenerationsHard:       16,               //
		MergeAfterGenerations: 4,                // half of the soft limit, so that writers are rarely delayed
		LockWaitTimeout:       50 * time.Second, // as MySQL's innodb_lock_wait_timeout
		CommitGroupBytes:      16 << 20,         // bounds how long a small commit waits for a large one
		CommitGroupTxns:       512,              //
		MemoryBytes:           2 << 30,          // a small machine's half
		IndexCacheBytes:       64 << 20,         // the keys of four million rows
		AdoptEvery:            time.Second,      // one look costs a few file look-ups
		TemporaryBytes:        1 << 30,          // as MySQL's temptable_max_ram
		TxnBytes:              1 << 30,          // a large import in one transaction, without taking the machine's memory
		JournalSegmentBytes:   64 << 20,         // a recovery reads at most this much that is not needed any more
		JournalBytes:          1 << 30,          // recovery below a minute on a slow disk
		WriteBehindDelay:      100 * time.Millisecond,
		WriteBehindBytes:      1 << 20,
		Freshness:             time.Minute,
		Staleness:             time.Second,
		Workers:               2,             // one of them for flushes only; compactions have one more
		ManifestRetention:     6 * time.Hour, // long scans by outside readers
		UnflushedWALBytes:     1 << 30,       // replay below a minute on a slow disk
	}
}

// withDefaults returns c with every zero field replaced by its default. A hard limit left at zero is at least
// its soft limit.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	if c.FrozenHard == 0 {
		c.FrozenHard = max(d.FrozenHard, c.FrozenSoft)
	}
	if c.FrozenSoft == 0 {
		c.FrozenSoft = min(d.FrozenSoft, c.FrozenHard)
	}
	if c.GenerationsHard == 0 {
		c.GenerationsHard = max(d.GenerationsHard, c.GenerationsSoft)
	}
	if c.GenerationsSoft == 0 {
		c.GenerationsSoft = min(d.GenerationsSoft, c.GenerationsHard)
	}
	if c.MergeAfterGenerations == 0 {
		c.MergeAfterGenerations = min(d.MergeAfterGenerations, c.GenerationsSoft)
	}
	cv, dv := reflect.ValueOf(&c).Elem(), reflect.ValueOf(d)
	for i := range cv.NumField() {
		if cv.Field(i).IsZero() {
			cv.Field(i).Set(dv.Field(i))
		}
	}
	return c
}

// Validate reports all problems of the effective settings at once, each matching errs.ErrInvalid.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("config: %s: %w", fmt.Sprintf(format, args...), errs.ErrInvalid))
		}
	}
	const rowsMax = 1 << 31 // row numbers of a MemTable are 32 bits wide
	bad(c.MemTableRows <= rowsMax, "MemTableRows %d is above %d", c.MemTableRows, uint64(rowsMax))
	bad(c.MemTableBytes <= 1<<40, "MemTableBytes %d is above 1 TiB", c.MemTableBytes)
	bad(c.FrozenSoft > 0, "FrozenSoft %d is negative", c.FrozenSoft)
	bad(c.FrozenHard >= c.FrozenSoft, "FrozenHard %d is below FrozenSoft %d", c.FrozenHard, c.FrozenSoft)
	bad(c.GenerationsSoft > 0, "GenerationsSoft %d is negative", c.GenerationsSoft)
	bad(c.GenerationsHard >= c.GenerationsSoft, "GenerationsHard %d is below GenerationsSoft %d", c.GenerationsHard, c.GenerationsSoft)
	bad(c.MergeAfterGenerations > 0, "MergeAfterGenerations %d is negative", c.MergeAfterGenerations)
	bad(c.MergeAfterGenerations <= c.GenerationsHard, "MergeAfterGenerations %d is above GenerationsHard %d: writers would stop for ever", c.MergeAfterGenerations, c.GenerationsHard)
	bad(c.LockWaitTimeout > 0, "LockWaitTimeout %s is negative", c.LockWaitTimeout)
	bad(c.CommitGroupBytes > 0 && c.CommitGroupBytes <= 1<<30, "CommitGroupBytes %d is not between 1 and 1 GiB", c.CommitGroupBytes)
	bad(c.CommitGroupTxns > 0, "CommitGroupTxns %d is negative", c.CommitGroupTxns)
	bad(c.MemoryBytes >= 16<<20, "MemoryBytes %d is less than 16 MiB", c.MemoryBytes)
	bad(c.IndexCacheBytes > 0, "IndexCacheBytes %d is negative", c.IndexCacheBytes)
	bad(c.AdoptEvery >= NoAdoption, "AdoptEvery %s is negative", c.AdoptEvery)
	bad(c.TemporaryBytes > 0, "TemporaryBytes %d is negative", c.TemporaryBytes)
	bad(c.TxnBytes > 0, "TxnBytes %d is negative", c.TxnBytes)
	bad(c.Durability <= SyncEverySecond, "Durability %d is unknown", c.Durability)
	bad(c.WALAck <= AckEntry, "WALAck %d is unknown", c.WALAck)
	bad(c.JournalSegmentBytes >= 1<<16 && c.JournalSegmentBytes <= 1<<30, "JournalSegmentBytes %d is not between 64 KiB and 1 GiB", c.JournalSegmentBytes)
	bad(c.JournalBytes >= 4*c.JournalSegmentBytes, "JournalBytes %d is less than four segments of %d", c.JournalBytes, c.JournalSegmentBytes)
	bad(c.WriteBehindDelay > 0 && c.WriteBehindDelay <= time.Minute, "WriteBehindDelay %s is not between 0 and a minute", c.WriteBehindDelay)
	bad(c.WriteBehindBytes > 0, "WriteBehindBytes %d is negative", c.WriteBehindBytes)
	bad(c.Freshness >= NoFreshness, "Freshness %s is negative", c.Freshness)
	bad(c.Staleness > 0, "Staleness %s is negative", c.Staleness)
	bad(c.Workers == NoWorkers || c.Workers > 0, "Workers %d is negative", c.Workers)
	bad(c.Workers <= 1024, "Workers %d is above 1024", c.Workers)
	bad(c.ManifestRetention >= NoRetention, "ManifestRetention %s is negative", c.ManifestRetention)
	bad(c.GenerationGrace >= 0, "GenerationGrace %s is negative", c.GenerationGrace)
	return errors.Join(problems...)
}

// String prints the fields whose effective value differs from the default, "defaults" if there are none.
func (c Config) String() string {
	d := DefaultConfig()
	cv, dv := reflect.ValueOf(c.withDefaults()), reflect.ValueOf(d)
	var parts []string
	for i := range cv.NumField() {
		if !cv.Field(i).Equal(dv.Field(i)) {
			parts = append(parts, fmt.Sprintf("%s=%v", cv.Type().Field(i).Name, cv.Field(i).Interface()))
		}
	}
	if len(parts) == 0 {
		return "defaults"
	}
	return strings.Join(parts, " ")
}
