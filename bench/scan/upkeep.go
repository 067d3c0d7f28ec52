package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/engine"
	"lancesql/engine/sched"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// upkeepFigures is what indexes cost to make and to keep.
type upkeepFigures struct {
	Build   float64 `json:"index_build_rows_per_second"`
	Compact float64 `json:"compaction_rows_per_second"` // rows that stay
	Remap   float64 `json:"remap_rows_per_second"`      // rows of all segments rewritten
	Zones   float64 `json:"zone_maps_cpu_percent"`      // of loading without them
}

// build sorts values and writes them as the pages of a BTREE segment, in memory.
func (b *bench) build(ctx context.Context) (rowsPerSecond float64, err error) {
	watch := start()
	sorter, err := btree.NewSorter(arrow.PrimitiveTypes.Int32, 1<<34, nil)
	if err != nil {
		return 0, err
	}
	for at := 0; at < b.rows; at += batchRows {
		n := min(batchRows, b.rows-at)
		values := array.NewInt32Builder(memory.DefaultAllocator)
		ids := make([]uint64, n)
		for i := range n {
			values.Append(b.rng.Int32())
			ids[i] = uint64(at + i)
		}
		col := values.NewArray()
		err := sorter.Add(btree.Batch{Values: col, IDs: ids})
		col.Release()
		values.Release()
		if err != nil {
			return 0, err
		}
	}
	dir := store.NewDir(objstore.NewMem(), "segment", memory.DefaultAllocator)
	if _, err := btree.Build(ctx, dir, arrow.PrimitiveTypes.Int32, sorter.Stream(), btree.Options{}); err != nil {
		return 0, err
	}
	return float64(b.rows) / watch.elapsed().Seconds(), nil
}

// remapRows fit into one fragment.
const remapRows = 1_000_000

// remapCost compacts a table with the rewriting of index segments put off, and then rewrites them; rows each second. The table has one
// fragment. Why: background compaction stops when few deleted rows are left, and OPTIMIZE would join what it left.
func remapCost(ctx context.Context, dir string, rows int) (compact, remap float64, err error) {
	b, err := openWith(ctx, dir, rows, engine.TableOptions{})
	if err != nil {
		return 0, 0, err
	}
	if err = b.load(ctx); err == nil {
		compact, remap, err = b.remap(ctx)
	}
	return compact, remap, errors.Join(err, b.e.Close(ctx))
}

// remap deletes every eighth row first.
func (b *bench) remap(ctx context.Context) (compact, remap float64, err error) {
	for at := 0; at < b.rows; at += 8 * batchRows {
		if err := b.delete(ctx, at, min(at+8*batchRows, b.rows), 8); err != nil {
			return 0, 0, err
		}
	}
	if err := b.e.FlushTables(ctx, []engine.TableID{b.table.ID}); err != nil {
		return 0, 0, err
	}
	live := float64(b.rows - (b.rows+7)/8)
	watch := start()
	if err := b.e.RunUpkeep(ctx, b.table, sched.Compact); err != nil {
		return 0, 0, err
	}
	compact = live / watch.elapsed().Seconds()
	watch = start()
	done, err := b.e.Optimize(ctx, b.table.ID)
	if err != nil {
		return 0, 0, err
	}
	if done.Remapped == 0 || done.FragmentsRemoved > 0 {
		return 0, 0, fmt.Errorf("%d segments rewritten, %d fragments removed: the compaction left too much or too little", done.Remapped, done.FragmentsRemoved)
	}
	return compact, live * float64(len(tableDef().Indexes)+1) / watch.elapsed().Seconds(), nil // the primary key has an index as well
}

// delete removes every step-th row of a range.
func (b *bench) delete(ctx context.Context, from, to, step int) error {
	x := b.e.Begin(engine.TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	for i := from; i < to; i += step {
		row := b.row(i)
		if err := x.Delete(ctx, b.table, row); err != nil {
			return err
		}
	}
	return x.Commit(ctx)
}

// zoneCost loads as many rows with zone maps as without, in turns, and compares the processor time.
func zoneCost(ctx context.Context, dir string, rows int) (percent float64, err error) {
	var spent [2]float64
	const rounds = 5
	for round := range 2 * rounds {
		used, err := loadCost(ctx, dir, rows/rounds, round%2 == 0)
		if err != nil {
			return 0, err
		}
		spent[round%2] += used
	}
	return 100 * (spent[1]/spent[0] - 1), nil
}

// loadCost is the processor seconds of loading, flushing and merging rows in an engine of its own.
func loadCost(ctx context.Context, dir string, rows int, off bool) (seconds float64, err error) {
	b, err := openWith(ctx, dir, rows, engine.TableOptions{Tuning: lsm.Tuning{ZoneMaps: lsm.ZoneMapOptions{Off: off, EveryRows: -1}}})
	if err != nil {
		return 0, err
	}
	before := processorSeconds()
	err = b.load(ctx)
	seconds = processorSeconds() - before
	return seconds, errors.Join(err, b.e.Close(ctx))
}
