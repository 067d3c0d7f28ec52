package pkstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
)

// Sizes of the pebble instance, in bytes. Entries live in its memtable until that is full; the tables it then
// writes lie in memory as well, so the cache only saves their decoding.
const (
	arenaBytes = 32 << 20
	cacheBytes = 16 << 20
)

// Store holds the key spaces of all MemTables of an engine. All methods are safe for concurrent use.
type Store struct {
	db     *pebble.DB
	last   atomic.Uint64         // last space id given out
	broken atomic.Pointer[error] // a failure pebble calls fatal; every later call returns it

	mu     sync.Mutex
	users  int           // calls in progress, under mu
	closed bool          // under mu
	idle   chan struct{} // closed when the last call leaves a closed store, under mu
}

// Open returns an empty store, which lives in memory only.
func Open() (*Store, error) {
	s := &Store{idle: make(chan struct{})}
	o := &pebble.Options{
		FS:                          vfs.NewMem(),
		DisableWAL:                  true,
		NoSyncOnClose:               true,
		Logger:                      quietLogger{s},
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   cacheBytes,
		MemTableSize:                arenaBytes,
		MemTableStopWritesThreshold: 8, // Why: flushing to memory is fast; a stall would hold commits up.
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1 << 20,
		MaxOpenFiles:                1 << 10,
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	db, err := pebble.Open("pk", o)
	if err != nil {
		return nil, fmt.Errorf("open key store: %w", err)
	}
	s.db = db
	return s, nil
}

// Close frees everything. It waits for calls in progress; calls after it fail with errs.ErrClosed, a second
// Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.users == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	<-s.idle
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close key store: %w", err)
	}
	return nil
}

// New returns a fresh, empty space.
func (s *Store) New() *Space { return &Space{s: s, id: s.last.Add(1)} }

// enter registers a call so that Close waits for it; leave ends it.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("key store: %w", errs.ErrClosed)
	}
	s.users++
	return nil
}

// leave ends a call and reports a fatal failure that happened so far in place of err.
func (s *Store) leave(err *error) {
	s.mu.Lock()
	s.users--
	if s.closed && s.users == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	if b := s.broken.Load(); b != nil {
		*err = errors.Join(*err, *b)
	}
}

// quietLogger drops pebble's messages and keeps its fatal failures for the callers.
//
// Why: pebble expects Fatalf to end the process. A library must not; the store refuses to work instead, so no
// answer computed after the failure is believed.
type quietLogger struct{ s *Store }

func (quietLogger) Infof(string, ...any)  {}
func (quietLogger) Errorf(string, ...any) {}
func (l quietLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("key store: "+format, args...)
	l.s.broken.CompareAndSwap(nil, &err)
}
