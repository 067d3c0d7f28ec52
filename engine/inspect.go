package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// SystemStore is what reading the files of a data directory needs of a store.
type SystemStore interface {
	List(ctx context.Context, dir string, visit func(objstore.Info) error) error
	ReadAll(ctx context.Context, name string, limit int64) ([]byte, error)
}

// ReadFormat returns the format line of a data directory, or errs.ErrNotFound if st holds none. Nothing is locked.
func ReadFormat(ctx context.Context, st SystemStore) (string, error) {
	name := systemDir + "/" + formatName
	text, err := st.ReadAll(ctx, name, formatBytesMax)
	if err != nil {
		return "", err
	}
	line := string(text)
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	return line, checkFormat(name, string(text))
}

// ReadCatalog reads the newest whole catalog snapshot of a data directory for tools: it locks nothing, settles
// nothing and works beside a running engine. An empty catalog is returned if there is no snapshot. Errors:
// errs.ErrNewerFormat, errs.ErrCorruption, those of the store.
func ReadCatalog(ctx context.Context, st SystemStore) (*Catalog, error) {
	var versions []uint64
	err := st.List(ctx, catalogDir, func(i objstore.Info) error {
		if v, ok := parseSnapshotName(i.Name); ok && !i.Dir {
			versions = append(versions, v)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list catalog snapshots: %w", err)
	}
	slices.Sort(versions)
	var problem error
	for _, v := range slices.Backward(versions) {
		name := snapshotName(v)
		data, err := st.ReadAll(ctx, name, snapshotBytesMax)
		if errors.Is(err, errs.ErrNotFound) { // pruned meanwhile: a newer one exists, but this look is over
			problem = err
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read catalog snapshot: %w", err)
		}
		c, err := decodeSnapshot(name, v, data)
		if errors.Is(err, errTorn) {
			problem = errs.Corrupt(name, int64(len(data)), "%v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	if problem != nil {
		return nil, problem
	}
	return newCatalog(0, nil, nil), nil
}
