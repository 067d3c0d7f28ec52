package objstore

import (
	"container/list"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// handleCountMax bounds the open files a Local keeps. It leaves most of the usual limit of 1024 files per
// process to connections and to files in flight.
const handleCountMax = 256

// handles is a cache of files opened for reading, least recently used out first.
//
// A cached file may answer for a name only as long as the name means that file. Whoever changes names
// announces it before the change and ends the announcement after it (forget). The announcement drops what
// is cached under the names and makes every open in progress of one of them private to its caller; opens
// that begin before its end are private too. So once a change of names has returned, no reader is given a
// file of before (the file itself stays readable for readers that already hold it).
type handles struct {
	max int // immutable

	mu      sync.Mutex
	byName  map[string]*list.Element // under mu; values are *handle
	recent  *list.List               // under mu; most recently used first
	opening map[*opening]struct{}    // under mu
	changes map[*change]struct{}     // under mu
	closed  bool                     // under mu
}

// handle is one open file. Readers share it; the last one to leave closes it.
type handle struct {
	name   string
	file   vfs.File // immutable; read with ReadAt only
	size   int64    // immutable, bytes; objects do not grow
	refs   int      // under handles.mu: readers
	cached bool     // under handles.mu: reachable by name
}

// opening is a file being opened outside the lock.
type opening struct {
	name  string
	stale bool // under handles.mu: the name has changed its meaning, so do not cache
}

// change is an announced change of names: everything called so or below.
type change struct{ names []string }

func newHandles(max int) *handles {
	return &handles{
		max:     max,
		byName:  map[string]*list.Element{},
		recent:  list.New(),
		opening: map[*opening]struct{}{},
		changes: map[*change]struct{}{},
	}
}

// acquire returns the file called name, opening it with open (file, size in bytes) if it is not cached.
// The caller reads with ReadAt and calls release.
func (c *handles) acquire(name string, open func() (vfs.File, int64, error)) (*handle, error) {
	c.mu.Lock()
	if e, ok := c.byName[name]; ok {
		c.recent.MoveToFront(e)
		h := e.Value.(*handle)
		h.refs++
		c.mu.Unlock()
		return h, nil
	}
	o := &opening{name: name, stale: c.changingLocked(name)}
	c.opening[o] = struct{}{}
	c.mu.Unlock()

	file, size, err := open()

	c.mu.Lock()
	delete(c.opening, o)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	h := &handle{name: name, file: file, size: size, refs: 1}
	var out []*handle
	if _, taken := c.byName[name]; !taken && !o.stale && !c.closed && c.max > 0 {
		h.cached = true
		c.byName[name] = c.recent.PushFront(h)
		for c.recent.Len() > c.max {
			out = append(out, c.dropLocked(c.recent.Back())...)
		}
	}
	c.mu.Unlock()
	closeAll(out)
	return h, nil
}

// release gives a file back.
func (c *handles) release(h *handle) {
	c.mu.Lock()
	h.refs--
	last := h.refs == 0 && !h.cached
	c.mu.Unlock()
	if last {
		_ = h.file.Close() // only read from: nothing can be lost
	}
}

// forget announces that the given names and everything below them are about to change their meaning. The
// caller changes them and then calls the returned function.
func (c *handles) forget(names ...string) (end func()) {
	ch := &change{names: names}
	c.mu.Lock()
	c.changes[ch] = struct{}{}
	for o := range c.opening {
		o.stale = o.stale || ch.covers(o.name)
	}
	var out []*handle
	for name, e := range c.byName {
		if ch.covers(name) {
			out = append(out, c.dropLocked(e)...)
		}
	}
	c.mu.Unlock()
	closeAll(out)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		// Openings that began during the change were born stale.
		delete(c.changes, ch)
	}
}

// clear closes every file that nobody reads and lets the others go with their readers. With final set,
// nothing is cached from now on.
func (c *handles) clear(final bool) {
	c.mu.Lock()
	c.closed = c.closed || final
	var out []*handle
	for _, e := range c.byName {
		out = append(out, c.dropLocked(e)...)
	}
	c.mu.Unlock()
	closeAll(out)
}

// dropLocked takes a file out of the cache and returns it if the caller has to close it. It needs mu.
func (c *handles) dropLocked(e *list.Element) []*handle {
	h := e.Value.(*handle)
	c.recent.Remove(e)
	delete(c.byName, h.name)
	h.cached = false
	if h.refs > 0 {
		return nil
	}
	return []*handle{h}
}

// changingLocked reports whether an announced change covers name. It needs mu.
func (c *handles) changingLocked(name string) bool {
	for ch := range c.changes {
		if ch.covers(name) {
			return true
		}
	}
	return false
}

// covers reports whether the change touches name.
func (ch *change) covers(name string) bool {
	for _, changed := range ch.names {
		if within(name, changed) {
			return true
		}
	}
	return false
}

func closeAll(hs []*handle) {
	for _, h := range hs {
		_ = h.file.Close() // only read from: nothing can be lost
	}
}
