package lock

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

// hold takes locks that must be free.
func hold(t *testing.T, m *Manager, o *Owner, mode Mode, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, m.Lock(context.Background(), o, key(k), mode, 0))
	}
}

func TestDeadlockOfTwo(t *testing.T) {
	for _, youngestCloses := range []bool{true, false} {
		t.Run(fmt.Sprint(youngestCloses), func(t *testing.T) {
			ctx := context.Background()
			m, o := New(), owners(2)
			hold(t, m, o[1], X, "a")
			hold(t, m, o[2], X, "b")
			var old, young *pending
			if youngestCloses {
				old = ask(t, ctx, m, o[1], key("b"), X, forever)
				young = ask(t, ctx, m, o[2], key("a"), X, forever)
			} else {
				young = ask(t, ctx, m, o[2], key("a"), X, forever)
				old = ask(t, ctx, m, o[1], key("b"), X, forever)
			}
			require.ErrorIs(t, young.ends(t), errs.ErrDeadlock, "the youngest owner is the victim, whoever closed the cycle")
			old.waits(t)
			require.ErrorIs(t, m.Lock(ctx, o[2], key("free"), X, 0), errs.ErrDeadlock, "a victim gets nothing more")
			require.Equal(t, X, m.Held(o[2], key("b")), "its locks stay until it releases them")
			m.ReleaseAll(o[2])
			require.NoError(t, old.ends(t))
			hold(t, m, o[2], X, "free")
			require.EqualValues(t, 1, m.Stats().Deadlocks)
		})
	}
}

func TestDeadlockOfTwoUpgrades(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(2)
	hold(t, m, o[1], S, "a")
	hold(t, m, o[2], S, "a")
	young := ask(t, ctx, m, o[2], key("a"), X, forever)
	old := ask(t, ctx, m, o[1], key("a"), X, forever)
	require.ErrorIs(t, young.ends(t), errs.ErrDeadlock)
	m.ReleaseAll(o[2])
	require.NoError(t, old.ends(t))
}

// TestDeadlockThroughQueueOrder: 3 waits for 2 only because 2 came first in the queue of "a".
func TestDeadlockThroughQueueOrder(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(3)
	hold(t, m, o[1], S, "a")
	hold(t, m, o[3], X, "b")
	second := ask(t, ctx, m, o[2], key("a"), X, forever)
	third := ask(t, ctx, m, o[3], key("a"), S, forever)
	second.waits(t)
	third.waits(t)
	first := ask(t, ctx, m, o[1], key("b"), S, forever) // 1 -> 3 -> 2 -> 1
	require.ErrorIs(t, third.ends(t), errs.ErrDeadlock)
	first.waits(t)
	m.ReleaseAll(o[3])
	require.NoError(t, first.ends(t))
	m.ReleaseAll(o[1])
	require.NoError(t, second.ends(t))
}

// TestVictimsThatMatter: the cycle is 1 <-> 2 although 3..9 queue between them; none of those may die.
func TestVictimsThatMatter(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(10)
	hold(t, m, o[1], X, "hot")
	hold(t, m, o[2], X, "b")
	var bystanders []*pending
	for i := 3; i <= 9; i++ {
		bystanders = append(bystanders, ask(t, ctx, m, o[i], key("hot"), X, forever))
	}
	second := ask(t, ctx, m, o[2], key("hot"), X, forever)
	first := ask(t, ctx, m, o[1], key("b"), X, forever)
	require.ErrorIs(t, second.ends(t), errs.ErrDeadlock)
	for _, p := range bystanders {
		p.waits(t)
	}
	m.ReleaseAll(o[2])
	require.NoError(t, first.ends(t))
	m.ReleaseAll(o[1])
	for i, p := range bystanders {
		require.NoError(t, p.ends(t))
		m.ReleaseAll(o[3+i])
	}
	require.EqualValues(t, 1, m.Stats().Deadlocks)
	requireEmpty(t, m)
}

// TestOneRequestClosesSeveralCycles: 1 asks for a row shared by 2, 3 and 4, each of which waits for 1.
func TestOneRequestClosesSeveralCycles(t *testing.T) {
	ctx := context.Background()
	m, o := New(), owners(4)
	hold(t, m, o[1], X, "a", "b", "c")
	for i := 2; i <= 4; i++ {
		hold(t, m, o[i], S, "shared")
	}
	waiting := []*pending{
		ask(t, ctx, m, o[2], key("a"), X, forever),
		ask(t, ctx, m, o[3], key("b"), X, forever),
		ask(t, ctx, m, o[4], key("c"), X, forever),
	}
	first := ask(t, ctx, m, o[1], key("shared"), X, forever)
	for i, p := range waiting {
		require.ErrorIs(t, p.ends(t), errs.ErrDeadlock)
		m.ReleaseAll(o[2+i])
	}
	require.NoError(t, first.ends(t))
}

func TestLongCycle(t *testing.T) {
	ctx := context.Background()
	const n = 50
	m, o := New(), owners(n)
	for i := 1; i <= n; i++ {
		hold(t, m, o[i], X, fmt.Sprint(i))
	}
	calls := make([]*pending, n+1)
	for i := 1; i <= n; i++ {
		calls[i] = ask(t, ctx, m, o[i], key(fmt.Sprint(i%n+1)), X, forever)
		if i < n {
			calls[i].waits(t)
		}
	}
	require.ErrorIs(t, calls[n].ends(t), errs.ErrDeadlock)
	for i := n; i > 1; i-- {
		m.ReleaseAll(o[i])
		require.NoError(t, calls[i-1].ends(t))
	}
	require.EqualValues(t, 1, m.Stats().Deadlocks)
}

func TestPlainWaitsAreNoDeadlocks(t *testing.T) {
	ctx := context.Background()
	const n = 40
	m, o := New(), owners(n)
	var calls []*pending
	for i := 1; i < n; i++ { // i holds i and waits for i+1; 40 holds the end of the chain
		hold(t, m, o[i], X, fmt.Sprint(i))
	}
	hold(t, m, o[n], X, fmt.Sprint(n))
	for i := 1; i < n; i++ {
		calls = append(calls, ask(t, ctx, m, o[i], key(fmt.Sprint(i+1)), X, forever))
	}
	for _, p := range calls {
		p.waits(t)
	}
	for i := n; i > 1; i-- {
		m.ReleaseAll(o[i])
		require.NoError(t, calls[i-2].ends(t))
	}
	require.Zero(t, m.Stats().Deadlocks)
}

func BenchmarkBlockOnHotRow(b *testing.B) {
	const waiters = 1000
	m := New()
	holder := NewOwner(0)
	if err := m.Lock(context.Background(), holder, key("hot"), X, 0); err != nil {
		b.Fatal(err)
	}
	for i := 1; i <= waiters; i++ {
		if _, err := m.request(NewOwner(uint64(i)), key("hot"), X, Transaction, forever); err != nil {
			b.Fatal(err)
		}
	}
	last := NewOwner(waiters + 1)
	b.ReportAllocs()
	for b.Loop() {
		r, err := m.request(last, key("hot"), X, Transaction, forever)
		if err != nil {
			b.Fatal(err)
		}
		m.mu.Lock()
		m.decideLocked(r, nil)
		m.mu.Unlock()
	}
}
