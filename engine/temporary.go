package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// temporary is what an engine of temporary tables shares with the others of its server.
type temporary struct {
	held  *atomic.Int64 // bytes of their stores
	limit int64
	store *objstore.Mem
}

// OpenTemporary opens an engine for the temporary tables of one session: the same code over a store and a journal in
// memory, which are gone with Close. Its files and those of its likes take at most Config.TemporaryBytes together, after
// which inserts and updates fail with errs.ErrTableFull. The caller closes it, before e.
func (e *Engine) OpenTemporary(ctx context.Context) (*Engine, error) {
	if err := e.checkOpen(); err != nil {
		return nil, err
	}
	t := &temporary{held: &e.temporaryBytes, limit: e.cfg.TemporaryBytes, store: objstore.NewMemCounted(e.clock, &e.temporaryBytes)}
	cfg := Config{
		Workers: 1, MemTableBytes: min(e.cfg.MemTableBytes, 16<<20), MemoryBytes: min(e.cfg.MemoryBytes, 256<<20), TxnBytes: e.cfg.TxnBytes,
		IndexCacheBytes: 4 << 20, JournalSegmentBytes: memorySegmentBytes, JournalBytes: 64 << 20, LockWaitTimeout: e.cfg.LockWaitTimeout,
		// Why: nobody else reads these tables, writes them, or wants an older version of them.
		Freshness: NoFreshness, AdoptEvery: NoAdoption, ManifestRetention: NoRetention,
	}
	fresh, err := Open(ctx, cfg, Components{Store: t.store, TableOptions: e.tableOptionsOf, Log: e.log, Clock: e.clock})
	if err != nil {
		return nil, fmt.Errorf("open temporary tables: %w", err)
	}
	fresh.temporary = t
	return fresh, nil
}

// admit fails with errs.ErrTableFull if temporary tables take all they may.
func (t *temporary) admit() error {
	if t == nil || t.held.Load() < t.limit {
		return nil
	}
	return fmt.Errorf("temporary tables take %d MiB, the most they may: %w", t.limit>>20, errs.ErrTableFull)
}

// discard frees what the tables held.
func (t *temporary) discard() {
	if t != nil {
		t.store.Clear()
	}
}

// Forget takes back what the transaction has written to a table that has been dropped meanwhile, which only temporary
// tables are.
func (t *Txn) Forget(id TableID) {
	if to := t.overlay.tables[id]; to != nil {
		to.dropped = true
	}
}
