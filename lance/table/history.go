package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// VersionInfo describes a version.
type VersionInfo struct {
	Version   uint64
	Timestamp time.Time // when it was committed, by the committer's clock
	Rows      uint64    // live rows
	Fragments int
}

// Versions lists the versions that exist, oldest first. It reads every manifest.
func (d *Dataset) Versions(ctx context.Context) ([]VersionInfo, error) {
	list, err := listVersions(ctx, d.env.st, d.root)
	if err != nil {
		return nil, fmt.Errorf("versions of %s: %w", d.root, err)
	}
	out := make([]VersionInfo, 0, len(list.versions))
	for _, v := range list.versions {
		of, err := d.At(ctx, v)
		if errors.Is(err, errs.ErrNotFound) {
			continue // cleaned up meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("versions of %s: %w", d.root, err)
		}
		out = append(out, VersionInfo{Version: v, Timestamp: of.Timestamp(), Rows: of.CountRows(), Fragments: len(of.Fragments())})
	}
	return out, nil
}

// OpenAsOf opens the version that was the newest at a time: the highest one committed then or before, by the committers'
// clocks. errs.ErrNotFound if there is none (any more).
func OpenAsOf(ctx context.Context, st objstore.Store, root string, at time.Time) (*Dataset, error) {
	return (&Dataset{env: newEnv(st, Options{}), root: root}).AsOf(ctx, at)
}

// AsOf is OpenAsOf for the table of this handle, sharing its caches.
func (d *Dataset) AsOf(ctx context.Context, at time.Time) (*Dataset, error) {
	list, err := listVersions(ctx, d.env.st, d.root)
	if err != nil {
		return nil, fmt.Errorf("open table %s as of %s: %w", d.root, at, err)
	}
	// Why: from the newest down instead of bisecting: clocks of several committers need not be in order.
	for i := len(list.versions) - 1; i >= 0; i-- {
		of, err := d.At(ctx, list.versions[i])
		if errors.Is(err, errs.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !of.Timestamp().After(at) {
			return of, nil
		}
	}
	return nil, fmt.Errorf("open table %s as of %s: %w", d.root, at, errs.ErrNotFound)
}

// CleanupOlderThan is Cleanup of the versions that were committed longer ago than age, by this handle's clock. The newest
// version and tagged ones stay.
func (d *Dataset) CleanupOlderThan(ctx context.Context, age time.Duration) (removed []string, err error) {
	before := d.env.clock.Now().Add(-age)
	keep := func(_ uint64, committed time.Time) bool { return !committed.Before(before) }
	return CleanupWith(ctx, d.env.st, d.root, keep, d.env.clock)
}
