package store

import (
	"container/list"
	"sync"
)

// CacheBytesDefault is what a Cache of the default size holds: the pages of a BTREE over two million integers.
const CacheBytesDefault = 32 << 20

// Cache keeps decoded parts of index files, least recently used out first. One cache may serve any number of open
// indexes; each has an owner number. It is safe for concurrent use.
type Cache struct {
	limit int64

	mu     sync.Mutex
	owners uint64                    // under mu; numbers handed out
	used   int64                     // under mu; bytes
	parts  map[partKey]*list.Element // under mu
	order  *list.List                // under mu; of *part, most recently used first
}

// Owner is one user of a Cache.
type Owner uint64

type partKey struct {
	owner Owner
	part  uint64
}

type part struct {
	key   partKey
	value any
	bytes int64
}

// NewCache returns an empty cache of at most limit bytes; 0: CacheBytesDefault.
func NewCache(limit int64) *Cache {
	if limit <= 0 {
		limit = CacheBytesDefault
	}
	return &Cache{limit: limit, parts: make(map[partKey]*list.Element), order: list.New()}
}

// NewOwner returns a number that no other user of the cache has.
func (c *Cache) NewOwner() Owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners++
	return Owner(c.owners)
}

// Get returns a part that was put and is still there.
func (c *Cache) Get(o Owner, number uint64) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.parts[partKey{o, number}]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*part).value, true
}

// Put adds a part that holds about so many bytes. value must not change any more. A part larger than a quarter of the
// cache is not kept.
func (c *Cache) Put(o Owner, number uint64, value any, bytes int64) {
	if bytes > c.limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := partKey{o, number}
	if e, ok := c.parts[key]; ok {
		c.remove(e)
	}
	for c.used+bytes > c.limit {
		c.remove(c.order.Back())
	}
	c.parts[key] = c.order.PushFront(&part{key: key, value: value, bytes: bytes})
	c.used += bytes
}

// remove takes out an element. The caller holds mu.
func (c *Cache) remove(e *list.Element) {
	p := c.order.Remove(e).(*part)
	delete(c.parts, p.key)
	c.used -= p.bytes
}

// Drop removes everything of an owner.
func (c *Cache) Drop(o Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*part).key.owner == o {
			c.remove(e)
		}
		e = next
	}
}

// Bytes returns how much is held.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
