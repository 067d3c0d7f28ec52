package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lancesql/internal/arrowx"
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

// Rebuild is a new table that takes the place of an old one within an alteration. It is not safe for concurrent use.
type Rebuild struct {
	e     *Engine
	in    *Alteration
	of    *alteredTable
	entry *TableEntry
	txn   *Txn
	rows  int
	bytes int
	anew  bool // AUTO_INCREMENT begins anew
}

// Rebuild begins to replace a table, an entry of the alteration's catalog, by one of another definition, which is empty at
// first. Until Commit the old one stays as it is. Exactly one of Commit and Abort of the Rebuild ends it.
func (a *Alteration) Rebuild(ctx context.Context, old *TableEntry, def TableDef) (*Rebuild, error) {
	t, err := a.of(old.Database, old.Name)
	if err != nil {
		return nil, err
	}
	e := a.e
	if _, err := e.openTable(ctx, t.now); err != nil {
		return nil, err
	}
	name := rebuildPrefix + t.now.ID.String()
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
	return &Rebuild{e: e, in: a, of: t, entry: entry, txn: e.Begin(TxnOptions{})}, nil
}

// Entry is the new table.
func (r *Rebuild) Entry() *TableEntry { return r.entry }

// RestartCounter lets AUTO_INCREMENT of the new table begin where its definition says, not where the old one's is.
func (r *Rebuild) RestartCounter() { r.anew = true }

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

// Commit puts the new table in the place of the old one, in the alteration's catalog.
func (r *Rebuild) Commit(ctx context.Context) error {
	t := r.of
	err := r.txn.Commit(ctx)
	if err == nil && !r.anew {
		err = r.e.inheritCounter(ctx, t.now, r.entry)
	}
	was, hidden, now := t.now, t.hidden, *r.entry
	now.Name = was.Name
	if err == nil {
		t.now = &now
		if err = r.in.show(t, was); err != nil {
			t.now = was
		}
	}
	if err != nil {
		return errors.Join(err, r.e.dropHidden(ctx, r.entry))
	}
	t.hidden, t.shapes = r.entry, nil
	if hidden != nil {
		return r.e.dropHidden(ctx, hidden)
	}
	return nil
}

// Abort gives the new table up.
func (r *Rebuild) Abort(ctx context.Context) error {
	r.txn.Rollback()
	return r.e.dropHidden(ctx, r.entry)
}

// straighten moves the directories of tables to the places their names ask for, where those are free: a rebuilt table was
// filled elsewhere, a renamed one lies where it was. Tables that lie in each other's places go round by a third one. What
// fails is tried again at the next open; the table works where it is.
func (e *Engine) straighten(ctx context.Context, ids ...TableID) {
	ctx = context.WithoutCancel(ctx)
	for range 2 * len(ids) { // each table moves at most twice
		moved := false
		for _, id := range ids {
			m, err := e.catalog.straighten(ctx, id, false, e.closeTable)
			if err != nil {
				e.log.Warn("table lies under another name than its own", "table", id.String(), "error", err)
			}
			moved = moved || m
		}
		for i := 0; i < len(ids) && !moved; i++ {
			var err error
			if moved, err = e.catalog.straighten(ctx, ids[i], true, e.closeTable); err != nil {
				e.log.Warn("table lies in the place of another", "table", ids[i].String(), "error", err)
			}
		}
		if !moved {
			return
		}
	}
}

// straighten moves a table to the place its name asks for, if no table of ours lies there. With aside it moves one whose
// place is taken to where a table being filled would lie, so that another can have its present place.
func (s *catalogStore) straighten(ctx context.Context, id TableID, aside bool, evict evictFunc) (moved bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.end()
	c := s.image.Load()
	t := c.TableByID(id)
	if t == nil || t.IsRebuild() {
		return false, nil
	}
	d := c.Database(t.Database)
	in := intent{Kind: intentRename, ID: id, Path: t.Path, To: tablePath(d.dir, t.Name), Database: t.Database, Table: t.Name}
	if in.To == in.Path {
		return false, nil
	}
	taken := slices.ContainsFunc(d.tables, func(o *TableEntry) bool { return o.Path == in.To })
	if taken != aside {
		return false, nil
	}
	if aside {
		if in.To = tablePath(d.dir, rebuildPrefix+id.String()); in.To == in.Path {
			return false, nil
		}
	}
	if err := s.claimTable(ctx, in.To, t.Path); err != nil {
		return false, err
	}
	return true, s.moveTable(ctx, in, evict)
}

// finishRebuilds drops tables that a crash left half filled, and straightens those it left in another place.
func (e *Engine) finishRebuilds(ctx context.Context) {
	var crooked []TableID
	for _, d := range e.Catalog().Databases() {
		for _, t := range d.Tables() {
			if !t.IsRebuild() {
				if t.Path != tablePath(d.dir, t.Name) {
					crooked = append(crooked, t.ID)
				}
				continue
			}
			if err := e.DropTable(ctx, t.Database, t.Name); err != nil {
				e.log.Warn("drop a table that was being rebuilt", "table", t.Name, "error", err)
			}
		}
	}
	e.straighten(ctx, crooked...)
}

// ShardingOf returns how a table's rows are spread.
func (e *Engine) ShardingOf(ctx context.Context, t *TableEntry) (lsm.Sharding, error) {
	ot, err := e.openTable(ctx, t)
	if err != nil {
		return lsm.Sharding{}, err
	}
	return ot.table.Sharding(), nil
}
