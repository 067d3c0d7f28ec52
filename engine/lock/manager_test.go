package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

const forever = -1

func key(k string) Resource { return Resource{Table: [16]byte{1}, Key: k} }

// pending is a Lock call running in its own goroutine.
type pending struct{ result chan error }

// ask starts a Lock call and returns once it is decided or waiting.
func ask(t *testing.T, ctx context.Context, m *Manager, o *Owner, res Resource, mode Mode, wait time.Duration) *pending {
	t.Helper()
	p := &pending{result: make(chan error, 1)}
	go func() { p.result <- m.Lock(ctx, o, res, mode, wait) }()
	require.Eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return o.waiting != nil || len(p.result) == 1
	}, 10*time.Second, 50*time.Microsecond)
	return p
}

func (p *pending) waits(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.result:
		t.Fatalf("request ended with %v, should wait", err)
	default:
	}
}

func (p *pending) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.result:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("request never ended")
		return nil
	}
}

func owners(n int) []*Owner {
	list := make([]*Owner, n+1)
	for i := range list {
		list[i] = NewOwner(uint64(i))
	}
	return list
}

func requireEmpty(t *testing.T, m *Manager) {
	t.Helper()
	s := m.Stats()
	require.Zero(t, s.Resources, "resources left behind")
	require.Zero(t, s.Waiting, "requests left behind")
}

func TestCompatibility(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		held, asked Mode
		ok          bool
	}{{S, S, true}, {S, X, false}, {X, S, false}, {X, X, false}} {
		m, o := New(), owners(2)
		require.NoError(t, m.Lock(ctx, o[1], key("a"), c.held, 0))
		err := m.Lock(ctx, o[2], key("a"), c.asked, 0)
		if c.ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errs.ErrLockTimeout)
		}
		require.NoError(t, m.Lock(ctx, o[2], key("b"), X, 0), "another key is free")
		require.NoError(t, m.Lock(ctx, o[2], Resource{Key: "a"}, X, 0), "another table is free")
		m.ReleaseAll(o[1])
		m.ReleaseAll(o[2])
		requireEmpty(t, m)
	}
}

func TestReentrant(t *testing.T) {
	ctx := context.Background()
	m, o := New(), NewOwner(1)
	require.Equal(t, None, m.Held(o, key("a")))
	for range 3 {
		require.NoError(t, m.Lock(ctx, o, key("a"), S, 0))
	}
	require.Equal(t, S, m.Held(o, key("a")))
	require.NoError(t, m.Lock(ctx, o, key("a"), X, 0))
	require.Equal(t, X, m.Held(o, key("a")))
	require.NoError(t, m.Lock(ctx, o, key("a"), S, 0))
	require.Equal(t, X, m.Held(o, key("a")), "a weaker request does not weaken the lock")
	require.Equal(t, 1, m.Count(o))
	m.ReleaseAll(o)
	m.ReleaseAll(o)
	requireEmpty(t, m)
}

func TestFIFO(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(5)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), S, 0))
	x2 := ask(t, ctx, m, o[2], key("a"), X, forever)
	s3 := ask(t, ctx, m, o[3], key("a"), S, forever)
	s4 := ask(t, ctx, m, o[4], key("a"), S, forever)
	x5 := ask(t, ctx, m, o[5], key("a"), X, forever)
	s3.waits(t) // although S is compatible with the holder: X came first
	m.ReleaseAll(o[1])
	require.NoError(t, x2.ends(t))
	s3.waits(t)
	m.ReleaseAll(o[2])
	require.NoError(t, s3.ends(t))
	require.NoError(t, s4.ends(t))
	x5.waits(t)
	m.ReleaseAll(o[3])
	x5.waits(t)
	m.ReleaseAll(o[4])
	require.NoError(t, x5.ends(t))
	m.ReleaseAll(o[5])
	requireEmpty(t, m)
}

func TestUpgradeGoesFirst(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(4)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), S, 0))
	require.NoError(t, m.Lock(ctx, o[2], key("a"), S, 0))
	s3 := ask(t, ctx, m, o[3], key("a"), X, forever)
	up := ask(t, ctx, m, o[1], key("a"), X, forever)
	require.Equal(t, S, m.Held(o[1], key("a")), "an upgrade keeps the S lock while it waits")
	m.ReleaseAll(o[2])
	require.NoError(t, up.ends(t))
	s3.waits(t)
	m.ReleaseAll(o[1])
	require.NoError(t, s3.ends(t))
	m.ReleaseAll(o[3])
	requireEmpty(t, m)
}

func TestUpgradeOfSoleHolderIsImmediate(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(2)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), S, 0))
	x2 := ask(t, ctx, m, o[2], key("a"), X, forever)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), X, 0))
	m.ReleaseAll(o[1])
	require.NoError(t, x2.ends(t))
}

func TestTimeoutLeavesTheQueue(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(3)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), S, 0))
	require.NoError(t, m.Lock(ctx, o[2], key("b"), X, 0))
	x2 := ask(t, ctx, m, o[2], key("a"), X, 200*time.Millisecond)
	s3 := ask(t, ctx, m, o[3], key("a"), S, forever)
	s3.waits(t)
	err := x2.ends(t)
	require.ErrorIs(t, err, errs.ErrLockTimeout)
	require.NoError(t, s3.ends(t), "the departure of X lets S join the S holder")
	require.Equal(t, X, m.Held(o[2], key("b")), "a timeout releases nothing")
	require.Equal(t, None, m.Held(o[2], key("a")))
	require.EqualValues(t, 1, m.Stats().Timeouts)
}

func TestContext(t *testing.T) {
	m, o := New(), owners(3)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, m.Lock(ctx, o[1], key("a"), S, 0))
	x2 := ask(t, ctx, m, o[2], key("a"), X, time.Hour)
	s3 := ask(t, context.Background(), m, o[3], key("a"), S, forever)
	cancel()
	require.ErrorIs(t, x2.ends(t), context.Canceled)
	require.NoError(t, s3.ends(t))
	require.ErrorIs(t, m.Lock(ctx, o[2], key("z"), X, 0), context.Canceled)
	deadline, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	err := m.Lock(deadline, o[2], key("a"), X, time.Hour)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, errors.Is(err, errs.ErrLockTimeout), "the caller's own deadline is not a lock timeout")
}

func TestReleaseAllEndsThePendingRequest(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(2)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), X, 0))
	require.NoError(t, m.Lock(ctx, o[2], key("b"), X, 0))
	x2 := ask(t, ctx, m, o[2], key("a"), X, forever)
	m.ReleaseAll(o[2])
	require.ErrorIs(t, x2.ends(t), errs.ErrClosed)
	m.ReleaseAll(o[1])
	requireEmpty(t, m)
}

func TestMisuse(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(2)
	require.ErrorIs(t, m.Lock(ctx, o[1], key("a"), None, 0), errs.ErrInvalid)
	require.ErrorIs(t, m.Lock(ctx, o[1], key("a"), Mode(9), 0), errs.ErrInvalid)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), X, 0))
	x2 := ask(t, ctx, m, o[2], key("a"), X, forever)
	require.ErrorIs(t, m.Lock(ctx, o[2], key("b"), X, 0), errs.ErrInvalid, "one pending request per owner")
	m.ReleaseAll(o[1])
	require.NoError(t, x2.ends(t))
}

func TestManyLocksOfOneOwner(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(2)
	const n = 100_000
	for i := range n {
		require.NoError(t, m.Lock(ctx, o[1], key(fmt.Sprintf("%08d", i)), X, 0))
	}
	require.Equal(t, n, m.Count(o[1]))
	x2 := ask(t, ctx, m, o[2], key("00000000"), X, forever)
	m.ReleaseAll(o[1])
	require.NoError(t, x2.ends(t))
	m.ReleaseAll(o[2])
	requireEmpty(t, m)
	require.Zero(t, m.peak, "the table of a large transaction is given back")
}

func TestModes(t *testing.T) {
	ctx := context.Background()
	all := []Mode{IS, IX, S, SIX, X}
	for _, a := range all {
		require.Equal(t, a, join(a, a))
		require.Equal(t, a, join(None, a))
		require.Equal(t, X, join(a, X))
		for _, b := range all {
			require.Equal(t, !conflict(a, b), compatible(a, b), "%s %s", a, b)
			require.Equal(t, join(a, b), join(b, a))
			for _, c := range all { // the join is as strong as both, and nothing weaker is
				require.Equal(t, conflict(join(a, b), c), conflict(a, c) || conflict(b, c), "%s %s %s", a, b, c)
			}
			m, o := New(), owners(2)
			require.NoError(t, m.Lock(ctx, o[1], key("a"), a, 0))
			require.Equal(t, conflict(a, b), m.Lock(ctx, o[2], key("a"), b, 0) != nil, "%s %s", a, b)
			require.NoError(t, m.Lock(ctx, o[1], key("b"), a, 0))
			require.NoError(t, m.Lock(ctx, o[1], key("b"), b, 0))
			require.Equal(t, join(a, b), m.Held(o[1], key("b")))
		}
	}
}

// TestCompatibleOvertakes: strict order would make IS wait for nobody, which no search could see.
func TestCompatibleOvertakes(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(4)
	require.NoError(t, m.Lock(ctx, o[1], key("a"), IX, 0))
	s2 := ask(t, ctx, m, o[2], key("a"), S, forever)
	require.NoError(t, m.Lock(ctx, o[3], key("a"), IS, 0))
	require.ErrorIs(t, m.Lock(ctx, o[4], key("a"), IX, 0), errs.ErrLockTimeout, "S came first")
	m.ReleaseAll(o[1])
	require.NoError(t, s2.ends(t))
}

func TestScopes(t *testing.T) {
	ctx := context.Background()
	m, o := New(), NewTaggedOwner(1, 77)
	name := Resource{Kind: Named, Key: "n"}
	require.NoError(t, m.Lock(ctx, o, key("a"), X, 0))
	require.NoError(t, m.LockFor(ctx, o, key("b"), X, Session, 0))
	require.NoError(t, m.Lock(ctx, o, key("b"), X, 0), "held already; the scope stays")
	require.NoError(t, m.LockFor(ctx, o, name, X, Advisory, 0))
	m.Release(o, Transaction)
	require.Equal(t, None, m.Held(o, key("a")))
	require.Equal(t, X, m.Held(o, key("b")))
	tag, held := m.HolderOf(name)
	require.True(t, held)
	require.EqualValues(t, 77, tag)
	require.True(t, m.Unlock(o, name))
	require.False(t, m.Unlock(o, name))
	_, held = m.HolderOf(name)
	require.False(t, held)
	require.NoError(t, m.LockFor(ctx, o, name, X, Advisory, 0))
	m.ReleaseAll(o)
	requireEmpty(t, m)
}

// TestAdvisoryVictim: whoever loses a wait for a name loses only that wait.
func TestAdvisoryVictim(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(2)
	name := Resource{Kind: Named, Key: "n"}
	require.NoError(t, m.LockFor(ctx, o[1], name, X, Advisory, 0))
	require.NoError(t, m.Lock(ctx, o[2], key("a"), X, 0))
	x1 := ask(t, ctx, m, o[1], key("a"), X, forever)
	require.ErrorIs(t, m.LockFor(ctx, o[2], name, X, Advisory, forever), errs.ErrDeadlock)
	require.NoError(t, m.Lock(ctx, o[2], key("b"), X, 0), "its transaction goes on")
	x1.waits(t)
	m.ReleaseAll(o[2])
	require.NoError(t, x1.ends(t))
}

func TestStrings(t *testing.T) {
	require.Equal(t, "none S X", fmt.Sprint(None, S, X))
	require.Equal(t, "resources 1, waiting 2, waits 3, timeouts 4, deadlocks 5", Stats{1, 2, 3, 4, 5}.String())
}

func ExampleManager() {
	ctx := context.Background()
	m, first, second := New(), NewOwner(1), NewOwner(2)
	row := Resource{Key: "k"}
	fmt.Println(m.Lock(ctx, first, row, X, 0))
	fmt.Println(errors.Is(m.Lock(ctx, second, row, S, 0), errs.ErrLockTimeout))
	m.ReleaseAll(first)
	fmt.Println(m.Lock(ctx, second, row, S, 0), m.Held(second, row))
	// Output:
	// <nil>
	// true
	// <nil> S
}

func BenchmarkLockRelease(b *testing.B) {
	ctx := context.Background()
	keys := make([]Resource, 1024)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("%08d", i))
	}
	m := New()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o := NewOwner(uint64(i))
		for _, k := range keys {
			if err := m.Lock(ctx, o, k, X, 0); err != nil {
				b.Fatal(err)
			}
		}
		m.ReleaseAll(o)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/lock")
}
