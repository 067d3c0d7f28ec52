package fragreuse

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"lancesql/lance/table"
)

// cachedHistories is how many histories a Cache keeps: those of versions that are read at one time.
const cachedHistories = 16

// Cache keeps the histories of one table, so that versions that share one share what was decoded and the translations
// of their segments. It is safe for concurrent use.
type Cache struct {
	o Options

	mu    sync.Mutex
	known map[uuid.UUID]*History // under mu
	order []uuid.UUID            // under mu; the one opened longest ago first
}

// NewCache returns an empty cache of histories of the table that o is about.
func NewCache(o Options) *Cache { return &Cache{o: o, known: make(map[uuid.UUID]*History)} }

// Open is the function Open with the cache's options.
func (c *Cache) Open(ctx context.Context, d *table.Dataset) (*History, error) {
	id, ok := d.FragmentReuseUUID()
	if !ok {
		return nil, nil
	}
	c.mu.Lock()
	h := c.known[id]
	c.mu.Unlock()
	if h != nil {
		return h, nil
	}
	h, err := Open(ctx, d, c.o)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.known[id]; have != nil { // somebody was faster: one history, one set of translations
		return have, nil
	}
	if len(c.order) == cachedHistories {
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
	c.known[id] = h
	c.order = append(c.order, id)
	return h, nil
}
