package engine

import (
	"log/slog"
	"time"

	"lancesql/internal/clock"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
)

// Components are the parts of an engine that are not numbers. The zero value works.
type Components struct {
	// Store replaces the local store under Config.DataDir, which is then not opened, not locked and not checked.
	// The engine does not close it.
	Store objstore.Store
	// Journal replaces the commit journal under Config.DataDir. Without it, a given Store gets one in memory, which holds
	// nothing back once Close has returned nil. The engine does not close it.
	Journal *logfile.Dir
	// Freshness returns a table's own bound for Config.Freshness: 0 = the server's, negative = off. It may be nil and
	// must not block.
	Freshness func(*TableEntry) time.Duration
	// Log receives life cycle and trouble; nil discards.
	Log *slog.Logger
	// Clock is the source of time; nil is the system's.
	Clock clock.Clock
}
