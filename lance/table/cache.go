package table

import (
	"container/list"
	"sync"
)

// cache keeps the newest max values by object name. Objects are immutable, hence entries never go stale.
// It is safe for concurrent use. Two callers may load the same object at once: loading twice is cheaper than a
// lock held over I/O.
type cache[V any] struct {
	max int

	mu    sync.Mutex
	byKey map[string]*list.Element // of cacheEntry[V]; under mu
	order *list.List               // most recently used first; under mu
}

type cacheEntry[V any] struct {
	key   string
	value V
}

func newCache[V any](max int) *cache[V] {
	return &cache[V]{max: max, byKey: make(map[string]*list.Element), order: list.New()}
}

// get returns the value of key, loading and keeping it if absent.
func (c *cache[V]) get(key string, load func() (V, error)) (V, error) {
	if v, ok := c.look(key); ok {
		return v, nil
	}
	v, err := load()
	if err != nil {
		return v, err
	}
	c.put(key, v)
	return v, nil
}

func (c *cache[V]) look(key string) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(cacheEntry[V]).value, true
}

func (c *cache[V]) put(key string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[key] != nil {
		return
	}
	c.byKey[key] = c.order.PushFront(cacheEntry[V]{key, v})
	for c.order.Len() > c.max {
		last := c.order.Back()
		delete(c.byKey, last.Value.(cacheEntry[V]).key)
		c.order.Remove(last)
	}
}
