package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

// conflict is the table every textbook has.
func conflict(a, b Mode) bool {
	compatible := map[[2]Mode]bool{{IS, IS}: true, {IS, IX}: true, {IS, S}: true, {IS, SIX}: true, {IX, IX}: true, {S, S}: true}
	return !compatible[[2]Mode{min(a, b), max(a, b)}]
}

// anyMode draws a mode: of a row, or of something that contains others.
func anyMode(rng *rand.Rand) Mode {
	if rng.IntN(2) == 0 {
		return []Mode{S, X}[rng.IntN(2)]
	}
	return IS + Mode(rng.IntN(5))
}

// edges lists whom the request waits for, by definition and without any short cut.
func edges(r *request) []*Owner {
	var out []*Owner
	add := func(o *Owner) {
		if o != r.owner {
			out = append(out, o)
		}
	}
	for _, h := range r.entry.holders {
		if conflict(h.mode, r.mode) {
			add(h.owner)
		}
	}
	for q := r.entry.first; q != r; q = q.next {
		if conflict(q.mode, r.mode) {
			add(q.owner)
		}
	}
	return out
}

// inCycle reports whether the owner waits for itself, by plain depth-first search.
func inCycle(start *Owner) bool {
	seen := map[*Owner]bool{}
	var walk func(o *Owner) bool
	walk = func(o *Owner) bool {
		if o.waiting == nil {
			return false
		}
		for _, next := range edges(o.waiting) {
			if next == start {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if walk(next) {
					return true
				}
			}
		}
		return false
	}
	return walk(start)
}

// checkLocked verifies I1 to I4 over the whole table. It returns the first fault.
func checkLocked(m *Manager) error {
	waiting := 0
	for res, e := range m.table {
		if len(e.holders) == 0 {
			return fmt.Errorf("%q: no holder, yet in the table", res.Key)
		}
		var counts [modeCount]int32
		for i, h := range e.holders {
			counts[h.mode]++
			for _, other := range e.holders[i+1:] {
				if other.owner == h.owner {
					return fmt.Errorf("%q: owner %d holds it twice", res.Key, h.owner.id)
				}
				if conflict(h.mode, other.mode) {
					return fmt.Errorf("%q: %s and %s held together", res.Key, h.mode, other.mode)
				}
			}
		}
		if counts != e.held {
			return fmt.Errorf("%q: holders miscounted", res.Key)
		}
		var prev *request
		for r := e.first; r != nil; prev, r = r, r.next {
			waiting++
			switch {
			case r.prev != prev || prev != nil && prev.place >= r.place:
				return fmt.Errorf("%q: queue out of order", res.Key)
			case r.owner.waiting != r || len(r.done) != 0:
				return fmt.Errorf("%q: queued request of owner %d is not pending", res.Key, r.owner.id)
			case r.owner.doomed:
				return fmt.Errorf("%q: victim %d waits", res.Key, r.owner.id)
			case r.had != e.heldBy(r.owner):
				return fmt.Errorf("%q: upgrade of owner %d", res.Key, r.owner.id)
			case len(edges(r)) == 0:
				return fmt.Errorf("%q: owner %d waits for nobody", res.Key, r.owner.id)
			case inCycle(r.owner):
				return fmt.Errorf("%q: owner %d waits for itself", res.Key, r.owner.id)
			}
		}
		if e.last != prev {
			return fmt.Errorf("%q: end of queue", res.Key)
		}
	}
	if waiting != m.waiting {
		return fmt.Errorf("%d requests queued, %d counted", waiting, m.waiting)
	}
	return nil
}

// TestRandomOperations drives one manager from one goroutine, so that after every step the whole state can be
// compared with the definition: victims are chosen exactly when the new request closes a cycle.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m, o := New(), owners(2+rng.IntN(8))
		keys := 1 + rng.IntN(5)
		for step := range 400 {
			who := o[rng.IntN(len(o))]
			where := fmt.Sprintf("seed %d step %d owner %d", seed, step, who.id)
			before := m.Stats().Deadlocks
			switch n := rng.IntN(10); {
			case who.waiting != nil && n < 3: // gives up, as after a timeout
				m.mu.Lock()
				m.decideLocked(who.waiting, errs.ErrLockTimeout)
				m.mu.Unlock()
			case who.waiting != nil: // goes on waiting
			case n < 2 || who.doomed:
				m.ReleaseAll(who)
				require.Zero(t, m.Count(who), where)
			default:
				res, mode := key(fmt.Sprint(rng.IntN(keys))), anyMode(rng)
				closes := wouldClose(m, who, res, mode)
				r, err := m.request(who, res, mode, Transaction, forever)
				require.Equal(t, closes, m.Stats().Deadlocks > before, "%s: deadlock found", where)
				if err == nil && r == nil {
					require.Equal(t, m.Held(who, res), join(m.Held(who, res), mode), where)
				}
			}
			m.mu.Lock()
			err := checkLocked(m)
			m.mu.Unlock()
			require.NoError(t, err, where)
		}
		for _, who := range o {
			m.ReleaseAll(who)
		}
		requireEmpty(t, m)
	}
}

// wouldClose says by definition whether the request would close a cycle.
func wouldClose(m *Manager, o *Owner, res Resource, mode Mode) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.table[res]
	if e == nil || o.doomed {
		return false
	}
	had := e.heldBy(o)
	mode = join(had, mode)
	if mode == had {
		return false
	}
	r := &request{owner: o, entry: e, mode: mode, had: had}
	e.enqueue(r)
	o.waiting = r
	defer func() {
		e.dequeue(r)
		o.waiting = nil
	}()
	return inCycle(o)
}

// TestStress runs transactions in random lock orders. Holders are counted outside the manager, every transaction
// must end, and a checker looks at the whole state in between.
func TestStress(t *testing.T) {
	const workers, keys, steps = 16, 12, 150
	m := New()
	var ids atomic.Uint64
	holders := make([]atomic.Int64, keys) // -1 = one X, n = n S
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	faults := make(chan error, workers+1)
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for range steps {
				if err := transaction(ctx, m, NewOwner(ids.Add(1)), rng, holders); err != nil {
					faults <- err
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		for {
			m.mu.Lock()
			err := checkLocked(m)
			m.mu.Unlock()
			if err != nil {
				faults <- err
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-checked
	close(faults)
	for err := range faults {
		t.Error(err)
	}
	requireEmpty(t, m)
	t.Log(m.Stats())
	require.NotZero(t, m.Stats().Deadlocks, "the test never reached a deadlock")
}

// transaction takes random locks and counts itself among the holders of each; it returns an error only for a
// broken promise.
func transaction(ctx context.Context, m *Manager, o *Owner, rng *rand.Rand, holders []atomic.Int64) error {
	held := map[int]Mode{}
	var fault error
	for range 1 + rng.IntN(6) {
		k, mode := rng.IntN(len(holders)), []Mode{S, X}[rng.IntN(2)]
		wait := time.Duration(forever)
		if rng.IntN(8) == 0 {
			wait = time.Duration(rng.IntN(300)) * time.Microsecond
		}
		err := m.Lock(ctx, o, key(fmt.Sprint(k)), mode, wait)
		runtime.Gosched() // Why: a whole transaction may fit into one time slice; it must meet the others
		if errors.Is(err, errs.ErrLockTimeout) {
			continue
		}
		if errors.Is(err, errs.ErrDeadlock) {
			break
		}
		if err != nil {
			fault = err
			break
		}
		if err := enter(&holders[k], held[k], mode); err != nil {
			fault = fmt.Errorf("key %d: %w", k, err)
			break
		}
		held[k] = max(held[k], mode)
	}
	for k, mode := range held {
		if mode == X {
			holders[k].Store(0)
		} else {
			holders[k].Add(-1)
		}
	}
	m.ReleaseAll(o)
	return fault
}

func enter(h *atomic.Int64, had, mode Mode) error {
	switch {
	case had >= mode:
		return nil
	case mode == S:
		if n := h.Add(1); n <= 0 {
			return fmt.Errorf("S granted beside X (%d)", n)
		}
	case had == S:
		if !h.CompareAndSwap(1, -1) {
			return fmt.Errorf("upgraded beside other holders (%d)", h.Load())
		}
	default:
		if !h.CompareAndSwap(0, -1) {
			return fmt.Errorf("X granted beside other holders (%d)", h.Load())
		}
	}
	return nil
}
