package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/lance/table"
)

// installAttemptsMax bounds how often Install starts over because somebody else committed.
const installAttemptsMax = 20

// Install makes a dataset that somebody else made one that Open opens: it gets a MemWAL entry of one shard by an ordinary
// commit, unless it has one. accept, called before anything is written, is given the columns and may refuse them. Doing it
// again changes nothing.
//
// errs.ErrNotFound if there is no dataset; errs.ErrUnsupported for what Open or a later merge could not do: a sharding that
// is not known here, stable row ids, a data file version that is not written here, shards that no version has an entry for.
// Spec: MemWAL, "MemWAL Index".
func Install(ctx context.Context, o Options, root string, accept func(*arrow.Schema) error) (*arrow.Schema, error) {
	for range installAttemptsMax {
		s, err := install(ctx, o.withDefaults(), root, accept)
		if !errors.Is(err, errs.ErrConflict) {
			return s, err
		}
	}
	return nil, fmt.Errorf("install MemWAL in %s: %w", root, errs.ErrConflict)
}

func install(ctx context.Context, o Options, root string, accept func(*arrow.Schema) error) (*arrow.Schema, error) {
	ds, err := table.OpenWith(ctx, o.Store, root, table.Options{Clock: o.Clock})
	if err != nil {
		return nil, err
	}
	if err := writable(ctx, ds); err != nil {
		return nil, err
	}
	m, err := memWALFor(ctx, o, ds)
	if err != nil {
		return nil, err
	}
	t := &Table{o: o, root: root}
	if _, err := t.bindTo(ds.Schema(), m); err != nil {
		return nil, err
	}
	if err := accept(t.physical); err != nil {
		return nil, err
	}
	// Why not if an older version has the entry: an overwrite dropped it, and Open takes that in.
	if _, err := openMemWAL(ctx, o.Store, o.Clock, root); err == nil || !errors.Is(err, errs.ErrUnsupported) {
		return t.physical, err
	}
	_, err = ds.Commit(ctx, table.CreateIndex{New: []table.IndexEntry{{Name: table.MemWALName, MemWAL: m}}})
	return t.physical, err
}

// writable fails if merges of ours could not write to the dataset.
func writable(ctx context.Context, ds *table.Dataset) error {
	if ds.StableRowIDs() {
		return fmt.Errorf("dataset %s has stable row ids: %w", ds.Root(), errs.ErrUnsupported)
	}
	if ds.Schema().FieldByName(TombstoneColumn) != nil {
		return fmt.Errorf("dataset %s has a column %s: %w", ds.Root(), TombstoneColumn, errs.ErrUnsupported)
	}
	w, err := ds.NewFragmentWriter(ctx)
	if err != nil {
		return err
	}
	w.Abort()
	return nil
}

// memWALFor is the MemWAL entry that the dataset has, had before an overwrite, or shall have.
func memWALFor(ctx context.Context, o Options, ds *table.Dataset) (*table.MemWAL, error) {
	had, err := openMemWAL(ctx, o.Store, o.Clock, ds.Root())
	switch {
	case err == nil:
		was, err := had.Schema().Arrow()
		if err != nil {
			return nil, err
		}
		if is, err := ds.Schema().Arrow(); err != nil || !is.Equal(was) {
			return nil, errors.Join(err, fmt.Errorf("dataset %s was overwritten with other columns and has shards with the old ones: %w", ds.Root(), errs.ErrUnsupported))
		}
		return had.MemWAL(), nil
	case !errors.Is(err, errs.ErrUnsupported):
		return nil, err
	}
	ids, err := shardIDs(ctx, o.Store, ds.Root())
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		// Why refused: which of their generations the base holds is not written anywhere.
		return nil, fmt.Errorf("dataset %s has %d shards and no MemWAL entry: %w", ds.Root(), len(ids), errs.ErrUnsupported)
	}
	spec, n, err := Sharding{}.spec(ds.Schema())
	return &table.MemWAL{NumShards: n, Specs: []table.ShardingSpec{spec}, WriterDefaults: o.writerDefaults()}, err
}
