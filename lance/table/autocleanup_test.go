package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "14days": 14 * 24 * time.Hour, "1h 1m 1s": 3661 * time.Second, "1h30m": 90 * time.Minute, " 1d 2h ": 26 * time.Hour,
		"2 weeks": 14 * 24 * time.Hour, "1month": 2_630_016 * time.Second, "1year 5ms": 31_557_600*time.Second + 5*time.Millisecond,
	} {
		got, err := parseAge(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, bad := range []string{"", " ", "5", "10x", "s", "-1s", "1.5h", "99999999999999999999s", "300years 1day", "9223372036854775807s", "1s 2"} {
		_, err := parseAge(bad)
		require.ErrorIs(t, err, errs.ErrInvalid, bad)
	}
}

func TestAutoCleanup(t *testing.T) {
	ctx := ctxOf(t)
	now := clock.NewManual(time.Unix(1_000_000, 0))
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{Options: Options{Clock: now}, Config: map[string]string{
		KeyAutoCleanupInterval: "3", KeyAutoCleanupOlderThan: "1h", KeyAutoCleanupRetain: "2"}})
	versions := func() []uint64 {
		list, err := listVersions(ctx, st, testRoot)
		require.NoError(t, err)
		return list.versions
	}
	step := func(passed time.Duration, want ...uint64) {
		t.Helper()
		now.Advance(passed)
		d = commit(t, d, ReserveFragments{Count: 1})
		_, err := d.AutoCleanup(ctx)
		require.NoError(t, err)
		require.Equal(t, want, versions())
	}
	step(2*time.Hour, 1, 2) // not due
	step(2*time.Hour, 2, 3) // the first is too old, two stay
	step(time.Minute, 2, 3, 4)
	step(time.Minute, 2, 3, 4, 5)
	step(time.Minute, 3, 4, 5, 6) // the third is young
	for key, bad := range map[string]string{KeyAutoCleanupInterval: "x", KeyAutoCleanupOlderThan: "5", KeyAutoCleanupRetain: "-1"} {
		e := commit(t, d, UpdateConfig{Config: &MapUpdate{Set: map[string]string{key: bad}}})
		_, err := e.AutoCleanup(ctx)
		require.ErrorIs(t, err, errs.ErrInvalid)
		d = commit(t, e, UpdateConfig{Config: &MapUpdate{Set: map[string]string{key: "1"}, Delete: []string{KeyAutoCleanupOlderThan}}})
	}
	d = commit(t, d, UpdateConfig{Config: &MapUpdate{Set: map[string]string{KeyAutoCleanupInterval: "1"}, Delete: []string{KeyAutoCleanupOlderThan, KeyAutoCleanupRetain}}})
	before := versions()
	_, err := d.AutoCleanup(ctx)
	require.NoError(t, err)
	require.Equal(t, before, versions(), "neither an age nor a number to retain")
}
