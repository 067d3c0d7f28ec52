package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// rebuildPrefix begins the names of tables that are being filled to take another one's place. A table of such a name that a
// crash left is dropped at the next open.
const rebuildPrefix = "#lancesql rebuild "

// Rows and bytes that a rebuild commits at a time.
const (
	rebuildRows  = 20_000
	rebuildBytes = 16 << 20
)

// IsRebuild reports whether a table is one that is being filled: nobody else's business.
func (t *TableEntry) IsRebuild() bool { return strings.HasPrefix(t.Name, rebuildPrefix) }

// Rebuild is a new table that will take the place of an old one. The caller holds the old one's exclusive metadata lock
// from before Rebuild to after Commit. It is not safe for concurrent use.
type Rebuild struct {
	e     *Engine
	old   *TableEntry
	entry *TableEntry
	txn   *Txn
	rows  int
	bytes int
}

// Rebuild begins to replace a table by one of another definition, which is empty at first. Until Commit the old one stays
// as it is. Exactly one of Commit and Abort ends it.
func (e *Engine) Rebuild(ctx context.Context, old *TableEntry, def TableDef) (*Rebuild, error) {
	if _, err := e.openTable(ctx, old); err != nil {
		return nil, err
	}
	name := rebuildPrefix + old.ID.String()
	if d := e.Catalog().Database(old.Database); d != nil && d.Table(name) != nil {
		// Why there: a statement that failed half way and told nobody.
		if err := e.DropTable(ctx, old.Database, name); err != nil {
			return nil, err
		}
	}
	entry, err := e.CreateTable(ctx, old.Database, name, def)
	if err != nil {
		return nil, fmt.Errorf("rebuild table %s.%s: %w", old.Database, old.Name, err)
	}
	return &Rebuild{e: e, old: old, entry: entry, txn: e.Begin(TxnOptions{})}, nil
}

// Entry is the new table.
func (r *Rebuild) Entry() *TableEntry { return r.entry }

// NextRowID draws a row id for a table without a key.
func (r *Rebuild) NextRowID(ctx context.Context) (int64, error) { return r.txn.NextRowID(ctx, r.entry) }

// Insert adds a row (all physical columns of the new table). A taken key, of the primary key or a unique index, is a
// *DuplicateKeyError.
func (r *Rebuild) Insert(ctx context.Context, row arrowx.Row) error {
	if err := r.txn.Insert(ctx, r.entry, row); err != nil {
		return err
	}
	r.rows++
	r.bytes += rowBytes(row)
	if r.rows < rebuildRows && r.bytes < rebuildBytes {
		return nil
	}
	return r.flush(ctx)
}

func (r *Rebuild) flush(ctx context.Context) error {
	if err := r.txn.Commit(ctx); err != nil {
		return err
	}
	r.txn, r.rows, r.bytes = r.e.Begin(TxnOptions{}), 0, 0
	return nil
}

// Commit puts the new table in the place of the old one, whose files are removed. The snapshot that names it is the commit
// point: after an error from before it, the old table is as it was.
func (r *Rebuild) Commit(ctx context.Context) error {
	if err := r.txn.Commit(ctx); err != nil {
		return errors.Join(err, r.drop(ctx))
	}
	// Why drained: what outside readers find under the table's name is then the whole table again.
	if err := r.e.drain(ctx, r.entry); err != nil {
		return errors.Join(err, r.drop(ctx))
	}
	if err := r.e.inheritCounter(ctx, r.old, r.entry); err != nil {
		return errors.Join(err, r.drop(ctx))
	}
	if err := r.e.catalog.replaceTable(ctx, r.old, r.entry, r.e.closeTable); err != nil {
		return errors.Join(err, r.drop(ctx))
	}
	r.e.passBeforeDrop(ctx, r.old.ID)
	r.e.forgetTables(r.old.ID)
	r.e.straighten(ctx, r.entry.ID)
	return nil
}

// Abort gives the new table up.
func (r *Rebuild) Abort(ctx context.Context) error {
	r.txn.Rollback()
	return r.drop(ctx)
}

func (r *Rebuild) drop(ctx context.Context) error {
	err := r.e.DropTable(context.WithoutCancel(ctx), r.entry.Database, r.entry.Name)
	if errors.Is(err, errs.ErrNotFound) {
		return nil
	}
	return err
}

// replaceTable commits with the snapshot that lists the new table under the old one's name.
func (s *catalogStore) replaceTable(ctx context.Context, old, fresh *TableEntry, evict evictFunc) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	was, err := c.table(old.Database, old.Name)
	if err != nil {
		return err
	}
	is, err := c.table(fresh.Database, fresh.Name)
	if err != nil {
		return err
	}
	if was.ID != old.ID || is.ID != fresh.ID {
		return fmt.Errorf("replace table %s.%s: it is another one by now: %w", old.Database, old.Name, errs.ErrSchemaChanged)
	}
	t := *is
	t.Name = was.Name
	if err := t.seal(); err != nil {
		return err
	}
	d := c.draft()
	d.removeTable(was)
	d.removeTable(is)
	d.addTable(&t)
	d.addIntent(intent{Kind: intentDrop, ID: was.ID, Path: was.Path})
	if err := s.commit(ctx, d); err != nil {
		return fmt.Errorf("replace table %s.%s: %w", old.Database, old.Name, err)
	}
	s.finishDrop(ctx, []*TableEntry{was}, evict)
	return nil
}

// straighten moves a table's directory to the place its name asks for, if that is free: a rebuilt table was filled
// elsewhere. What fails is tried again at the next open; the table works where it is.
func (e *Engine) straighten(ctx context.Context, id TableID) {
	if err := e.catalog.straighten(context.WithoutCancel(ctx), id, e.closeTable); err != nil {
		e.log.Warn("table lies under another name than its own", "table", id.String(), "error", err)
	}
}

func (s *catalogStore) straighten(ctx context.Context, id TableID, evict evictFunc) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	t := s.image.Load().TableByID(id)
	if t == nil || t.IsRebuild() {
		return nil
	}
	d := s.image.Load().Database(t.Database)
	if d == nil || t.Path == tablePath(d.dir, t.Name) {
		return nil
	}
	in := intent{Kind: intentRename, ID: id, Path: t.Path, To: tablePath(d.dir, t.Name), Database: t.Database, Table: t.Name}
	if err := s.claimTable(ctx, in.To, t.Path); err != nil {
		return err
	}
	return s.moveTable(ctx, in, evict)
}

// finishRebuilds drops tables that a crash left half filled, and straightens those it left in another place.
func (e *Engine) finishRebuilds(ctx context.Context) {
	for _, d := range e.Catalog().Databases() {
		for _, t := range d.Tables() {
			if !t.IsRebuild() {
				e.straighten(ctx, t.ID)
				continue
			}
			if err := e.DropTable(ctx, t.Database, t.Name); err != nil {
				e.log.Warn("drop a table that was being rebuilt", "table", t.Name, "error", err)
			}
		}
	}
}

// ShardingOf returns how a table's rows are spread.
func (e *Engine) ShardingOf(ctx context.Context, t *TableEntry) (lsm.Sharding, error) {
	ot, err := e.openTable(ctx, t)
	if err != nil {
		return lsm.Sharding{}, err
	}
	return ot.table.Sharding(), nil
}
