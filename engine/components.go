package engine

import (
	"log/slog"
	"time"

	"lancesql/internal/clock"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// Components are the parts of an engine that are not numbers. The zero value works.
type Components struct {
	// Store replaces the local store under Config.DataDir, which is then not opened, not locked and not checked.
	// The engine does not close it.
	Store objstore.Store
	// Journal replaces the commit journal under Config.DataDir. Without it, a given Store gets one in memory, which holds
	// nothing back once Close has returned nil. The engine does not close it.
	Journal *logfile.Dir
	// TableOptions returns what a table's definition asks for. It may be nil and must not block.
	TableOptions func(*TableEntry) TableOptions
	// Log receives life cycle and trouble; nil discards.
	Log *slog.Logger
	// Clock is the source of time; nil is the system's.
	Clock clock.Clock

	shortened []TableID // tables whose WALs a recovery tool has cut
}

// TableOptions are settings of one table. The zero value is the server's defaults. They are asked for whenever they count,
// so a changed definition needs no reopening.
type TableOptions struct {
	Freshness time.Duration // instead of Config.Freshness: 0 = that, negative = off
	lsm.Tuning
	NoCompaction bool // fragments are joined only by Optimize and Recluster
	// RemapFrom is how often the rows of an index segment move before background compaction rewrites it: 0 = 4,
	// negative = never.
	RemapFrom int
}
