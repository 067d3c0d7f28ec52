package objstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// countedFile is a file whose closing is counted; closing twice is an error of the cache.
type countedFile struct {
	vfs.File
	open   *atomic.Int64
	closed atomic.Bool
}

func (f *countedFile) Close() error {
	if f.closed.Swap(true) {
		return errors.New("closed twice")
	}
	f.open.Add(-1)
	return nil
}

// TestHandlesForgetDuringOpen plays the one order of events that a simple cache gets wrong: a file is opened,
// its name changes its meaning, and only then does the opener come to enter it.
func TestHandlesForgetDuringOpen(t *testing.T) {
	var open atomic.Int64
	c := newHandles(10)
	openFile := func() (vfs.File, int64, error) {
		open.Add(1)
		return &countedFile{open: &open}, 0, nil
	}
	for what, during := range map[string]func(){
		"forgotten":           func() { c.forget("d/x")() },
		"directory forgotten": func() { c.forget("q", "d")() },
		"cleared for good":    func() { c.clear(true) },
	} {
		c = newHandles(10)
		h, err := c.acquire("d/x", func() (vfs.File, int64, error) {
			defer during()
			return openFile()
		})
		if err != nil || len(c.byName) != 0 {
			t.Errorf("%s: cached %d, %v", what, len(c.byName), err)
		}
		c.release(h)
	}
	// During a change nothing of its names is cached, and everything else is.
	c = newHandles(10)
	end := c.forget("d")
	for name, cached := range map[string]bool{"d/x": false, "d": false, "dd": true, "e/x": true} {
		h, err := c.acquire(name, openFile)
		if _, ok := c.byName[name]; ok != cached || err != nil {
			t.Errorf("%s during a change: cached %t, %v", name, ok, err)
		}
		c.release(h)
	}
	end()
	h, _ := c.acquire("d/x", openFile)
	c.release(h)
	if _, ok := c.byName["d/x"]; !ok {
		t.Error("not cached after the change")
	}
	c.clear(true)
	if n := open.Load(); n != 0 {
		t.Errorf("%d files left open", n)
	}
	if len(c.opening)+len(c.changes)+len(c.byName)+c.recent.Len() != 0 {
		t.Errorf("left over: %+v", c)
	}
}

// TestHandlesModel runs readers against changes of names. generation counts how often a name changed its
// meaning; a reader must get a file at least as new as the name was when it asked.
func TestHandlesModel(t *testing.T) {
	const names, readers, rounds = 8, 6, 1000
	var open atomic.Int64
	var generation [names]atomic.Int64
	c := newHandles(4)
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(r)))
			for range rounds {
				i := rng.IntN(names)
				atLeast := generation[i].Load()
				h, err := c.acquire(fmt.Sprintf("d%d/x", i), func() (vfs.File, int64, error) {
					open.Add(1)
					return &countedFile{open: &open}, generation[i].Load(), nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				if h.size < atLeast {
					t.Errorf("name %d: file of generation %d, the name is at %d", i, h.size, atLeast)
				}
				if h.file.(*countedFile).closed.Load() {
					t.Error("the file is closed under its reader")
				}
				c.release(h)
				if rng.IntN(10) == 0 {
					end := c.forget(fmt.Sprintf("d%d", i))
					generation[i].Add(1)
					end()
				}
			}
		})
	}
	wg.Wait()
	if n := open.Load(); n > 4 {
		t.Errorf("%d files cached, at most 4", n)
	}
	c.clear(true)
	if n := open.Load(); n != 0 {
		t.Errorf("%d files left open", n)
	}
}
