package engine

import (
	"log/slog"

	"lancesql/internal/clock"
	"lancesql/internal/objstore"
)

// Components are the parts of an engine that are not numbers. The zero value works.
type Components struct {
	// Store replaces the local store under Config.DataDir, which is then not opened, not locked and not checked.
	// The engine does not close it.
	Store objstore.Store
	// Log receives life cycle and trouble; nil discards.
	Log *slog.Logger
	// Clock is the source of time; nil is the system's.
	Clock clock.Clock
}
