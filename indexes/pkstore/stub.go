package pkstore

import (
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// Store holds the key spaces of all MemTables of an engine.
type Store struct{}

// Space is the key space of one MemTable.
type Space struct{}

// Hit is one row of a key.
type Hit struct {
	Row       uint64
	Tombstone bool
}

// Open returns an empty store.
func Open() (*Store, error) { return nil, errs.ErrUnsupported }

// Close frees everything.
func (s *Store) Close() error { return errs.ErrUnsupported }

// New returns a fresh, empty space.
func (s *Store) New() *Space { return &Space{} }

// Put adds one entry per key.
func (sp *Space) Put(keys []rowkey.Key, rows []uint64, tombstone []bool) error {
	return errs.ErrUnsupported
}

// Newest returns the greatest row of k below below.
func (sp *Space) Newest(k rowkey.Key, below uint64) (row uint64, tombstone, ok bool, err error) {
	return 0, false, false, errs.ErrUnsupported
}

// Rows returns all rows of k, descending.
func (sp *Space) Rows(k rowkey.Key) ([]Hit, error) { return nil, errs.ErrUnsupported }

// Range visits the entries with lo <= key < hi.
func (sp *Space) Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (more bool, err error)) error {
	return errs.ErrUnsupported
}

// Remove removes entries.
func (sp *Space) Remove(keys []rowkey.Key, rows []uint64) error { return errs.ErrUnsupported }

// Drop frees the space.
func (sp *Space) Drop() error { return errs.ErrUnsupported }
