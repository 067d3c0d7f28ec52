package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore/faultfs"
)

// death is one stop of a machine: where it left its disk and how much of the unsynced data survives.
type death struct {
	fs      *faultfs.FS
	at      int64
	percent int
}

// disk is what the death left, on a filesystem that follows the plan from its first operation after the opening of the
// store on.
func (d death) disk(t *testing.T, plan faultfs.Plan) (*faultfs.FS, disk) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(d.at), uint64(d.percent)))
	clone, err := d.fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: d.percent, Rand: rng})
	require.NoError(t, err)
	fs := faultfs.New(clone, faultfs.Plan{})
	at, err := diskOn(fs)
	require.NoError(t, err)
	fs.Reset(plan)
	return fs, at
}

// recoverAll opens what a crash left, every table of it, and brings all rows into the base tables. It changes no contents.
func recoverAll(ctx context.Context, d disk) error {
	e, err := d.open(ctx, planted{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close(ctx) }()
	for _, name := range []string{"t", "u"} {
		if namedTable(e, name) == nil {
			continue
		}
		if _, err := dumpOf(ctx, e, name); err != nil {
			return err
		}
	}
	work(e)
	if err := e.FlushTables(ctx, nil); err != nil {
		return err
	}
	work(e)
	return e.Close(ctx)
}

// TestCrashInRecovery stops the machine at its n-th operation, the recovery at its m-th, and the recovery of that
// somewhere. A soak stops it at every n, and some of the recoveries at every second m.
func TestCrashInRecovery(t *testing.T) {
	type steps struct{ n, m int64 }
	list := []steps{{97, 9}}
	switch {
	case soak():
		list = []steps{{1, 37}, {97, 2}}
	case testing.Short():
		list = []steps{{401, 23}}
	}
	for _, s := range list {
		t.Run(fmt.Sprintf("n by %d, m by %d", s.n, s.m), func(t *testing.T) { stopRecoveries(t, s.n, s.m) })
	}
}

func stopRecoveries(t *testing.T, stepN, stepM int64) {
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(7, 11))
	recoveries, longest := 0, int64(0)
	for n := int64(1); ; n += stepN {
		fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{CrashAt: n})
		d, err := diskOn(fs)
		o := outcome{acked: contents{}}
		if err == nil {
			o, err = play(ctx, d, planted{})
		}
		if err == nil {
			break // the history ended before n
		}
		first := death{fs, n, int(n%3) * 50}
		for m := 1 + n%stepM; ; m += stepM {
			where := fmt.Sprintf("crash at %d, in recovery at %d", n, m)
			again, d := first.disk(t, faultfs.Plan{CrashAt: m})
			failed := recoverAll(ctx, d)
			if !again.Crashed() {
				require.NoError(t, failed, where)
				break
			}
			recoveries++
			longest = max(longest, m)
			second := death{again, m, int(m%3) * 50}
			last, d := second.disk(t, faultfs.Plan{CrashAt: 1 + rng.Int64N(m+20)})
			failed = recoverAll(ctx, d)
			if !last.Crashed() {
				require.NoError(t, failed, where)
			}
			third := death{last, m + 1, int((n+m)%3) * 50}
			_, d = third.disk(t, faultfs.Plan{})
			require.NoError(t, verify(ctx, d, o, planted{}), where)
		}
	}
	t.Logf("%d recoveries stopped twice, the longest at operation %d", recoveries, longest)
	require.Greater(t, longest, int64(100), "recoveries are too short to mean anything")
}
