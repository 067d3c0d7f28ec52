package objstoretest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// raceWriters is the number of goroutines that contend for a name.
const raceWriters = 16

// race runs f at once in raceWriters goroutines and waits for them.
func race(f func(writer int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range raceWriters {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// wantOneWinner checks that one attempt succeeded and the others found the name taken, and returns it.
func wantOneWinner(t *testing.T, results []error) int {
	t.Helper()
	winner := -1
	for i, err := range results {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("writers %d and %d both succeeded", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, errs.ErrExists):
			t.Fatalf("writer %d: %v", i, err)
		}
	}
	if winner < 0 {
		t.Fatal("no writer succeeded")
	}
	return winner
}

func testPutRace(t *testing.T, st objstore.Store) {
	for round := range 10 {
		name := fmt.Sprintf("race/%d/object", round)
		results := make([]error, raceWriters)
		race(func(i int) {
			results[i] = st.PutIfAbsent(t.Context(), name, fmt.Appendf(nil, "writer %d", i))
		})
		wantContent(t, st, name, fmt.Sprintf("writer %d", wantOneWinner(t, results)))
		wantChildren(t, st, fmt.Sprintf("race/%d", round), name)
	}
}

func testCreateRace(t *testing.T, st objstore.Store) {
	const name = "race/streamed"
	results := make([]error, raceWriters)
	race(func(i int) {
		w, err := st.Create(t.Context(), name)
		if err == nil {
			_, err = fmt.Fprintf(w, "writer %d", i)
			err = errors.Join(err, w.Commit(t.Context()))
		}
		results[i] = err
	})
	wantContent(t, st, name, fmt.Sprintf("writer %d", wantOneWinner(t, results)))
	wantChildren(t, st, "race", name)
}

// testRenameRace moves many directories to one name while others make a directory of that name.
func testRenameRace(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	for i := range raceWriters {
		put(t, st, fmt.Sprintf("from%d/x", i), fmt.Sprint(i))
	}
	results := make([]error, raceWriters)
	race(func(i int) { results[i] = st.Rename(ctx, fmt.Sprintf("from%d", i), "to") })
	winner := wantOneWinner(t, results)
	wantContent(t, st, "to/x", fmt.Sprint(winner))
	for i := range raceWriters {
		if i != winner {
			wantContent(t, st, fmt.Sprintf("from%d/x", i), fmt.Sprint(i))
		}
	}
}

// testRenameUnderReaders renames a directory back and forth under readers. Each name always means the same
// generation of it, so a reader that is given another one was served from a stale cache.
func testRenameUnderReaders(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	const rounds = 30
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			p := make([]byte, 4)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, name := range []string{"live/x", "dropped/x"} {
					if err := st.ReadAt(ctx, name, p, 0); err != nil && !errors.Is(err, errs.ErrNotFound) {
						t.Errorf("reader: %v", err)
						return
					}
				}
			}
		})
	}
	for round := range rounds {
		content := fmt.Sprintf("%04d", round)
		put(t, st, "live/x", content)
		if got, err := readThrough(ctx, st, "live/x"); err != nil || got != content {
			t.Errorf("round %d: got %q, %v", round, got, err)
		}
		must(t, st.Rename(ctx, "live", "dropped"))
		if _, err := readThrough(ctx, st, "live/x"); !errors.Is(err, errs.ErrNotFound) {
			t.Errorf("round %d: renamed object still read: %v", round, err)
		}
		if got, err := readThrough(ctx, st, "dropped/x"); err != nil || got != content {
			t.Errorf("round %d: after rename got %q, %v", round, got, err)
		}
		must(t, st.RemoveAll(ctx, "dropped"))
		if err := st.ReadAt(ctx, "dropped/x", make([]byte, 1), 0); !errors.Is(err, errs.ErrNotFound) {
			t.Errorf("round %d: removed object still read: %v", round, err)
		}
	}
	close(stop)
	readers.Wait()
}

// testConcurrentMix lets goroutines work in directories of their own and a shared one, and compares the end
// with what each of them was told.
func testConcurrentMix(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	const steps = 60
	var mu sync.Mutex
	shared := map[string]string{}
	race(func(i int) {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		own := map[string]string{}
		dir := fmt.Sprintf("own/%d", i)
		for step := range steps {
			name := fmt.Sprintf("%s/%d", dir, rng.IntN(5))
			content := fmt.Sprintf("%d/%d", i, step)
			switch rng.IntN(6) {
			case 0, 1:
				err := st.PutIfAbsent(ctx, name, []byte(content))
				if _, exists := own[name]; exists != errors.Is(err, errs.ErrExists) || (!exists && err != nil) {
					t.Errorf("put %s: %v, exists %t", name, err, exists)
				} else if !exists {
					own[name] = content
				}
			case 2:
				if err := st.Delete(ctx, name); err != nil {
					t.Errorf("delete %s: %v", name, err)
				}
				delete(own, name)
			case 3:
				got, err := readThrough(ctx, st, name)
				if content, exists := own[name]; (exists && (err != nil || got != content)) ||
					(!exists && !errors.Is(err, errs.ErrNotFound)) {
					t.Errorf("read %s: %q, %v; want %q (exists %t)", name, got, err, content, exists)
				}
			case 4:
				if err := st.RemoveAll(ctx, dir); err != nil {
					t.Errorf("remove all %s: %v", dir, err)
				}
				clear(own)
			case 5:
				name := fmt.Sprintf("shared/%d", rng.IntN(200))
				if err := st.PutIfAbsent(ctx, name, []byte(content)); err == nil {
					mu.Lock()
					if old, twice := shared[name]; twice {
						t.Errorf("%s was created twice: %q, %q", name, old, content)
					}
					shared[name] = content
					mu.Unlock()
				} else if !errors.Is(err, errs.ErrExists) {
					t.Errorf("put %s: %v", name, err)
				}
			}
		}
	})
	for name, content := range shared {
		wantContent(t, st, name, content)
	}
	if got := len(children(t, st, "shared")); got != len(shared) {
		t.Errorf("%d shared objects, want %d", got, len(shared))
	}
}
