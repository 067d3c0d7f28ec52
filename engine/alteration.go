package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lancesql/internal/errs"
)

// Alteration is what one DDL statement of several steps changes. Its steps show in Catalog at once and nowhere else until
// Commit, whose snapshot is the statement's only commit point: all of it has happened then, or nothing.
//
// The caller holds the exclusive metadata locks of the tables whose columns, rows or names change, from before the first
// step to after Commit or Abort, one of which ends it; Abort after Commit does nothing. Not safe for concurrent use.
type Alteration struct {
	e       *Engine
	image   *Catalog // the catalog as it would be
	tables  []*alteredTable
	options []optionChange
	done    bool
}

// alteredTable is a table that the statement changes, makes or drops.
type alteredTable struct {
	origin *TableEntry // in the catalog; nil if the statement makes the table
	now    *TableEntry // as it would be; nil if it is dropped
	hidden *TableEntry // the table of another name that now is about, nil while that is the origin
	shapes []func(*TableEntry) ([]byte, error)
	auto   *uint64 // the next AUTO_INCREMENT value, if the statement sets it
}

// renamed reports whether the table would have another name.
func (t *alteredTable) renamed() bool {
	return t.origin != nil && t.now != nil && (t.origin.Name != t.now.Name || t.origin.Database != t.now.Database)
}

type optionChange struct {
	database string
	change   func(DatabaseOptions) (DatabaseOptions, error)
}

// Alter begins an alteration.
func (e *Engine) Alter() *Alteration { return &Alteration{e: e, image: e.Catalog()} }

// Catalog is the catalog with the alteration's changes. Its entries may be used like those of the engine's.
func (a *Alteration) Catalog() *Catalog { return a.image }

// of returns the table of that name as the statement sees it.
func (a *Alteration) of(db, name string) (*alteredTable, error) {
	entry, err := a.image.table(db, name)
	if err != nil {
		return nil, err
	}
	for _, t := range a.tables {
		if t.now != nil && t.now.ID == entry.ID {
			return t, nil
		}
	}
	return &alteredTable{origin: entry, now: entry}, nil
}

// show puts the table as it would be into the image. was is what the image has of it, nil if nothing.
func (a *Alteration) show(t *alteredTable, was *TableEntry) error {
	d := a.image.draft()
	if was != nil {
		d.removeTable(was)
	}
	if t.now != nil {
		if err := t.now.seal(); err != nil {
			return fmt.Errorf("alter table %s.%s: %w", t.now.Database, t.now.Name, err)
		}
		if err := d.free(t.now.Database, t.now.Name); err != nil {
			return err
		}
		d.addTable(t.now)
	}
	// Why the version stays: nobody else sees the image, and it is no snapshot.
	a.image = newCatalog(a.image.Version, d.databases, d.intents)
	if !slices.Contains(a.tables, t) {
		a.tables = append(a.tables, t)
	}
	return nil
}

// free fails unless the database is there and has no table of the name.
func (d *draft) free(database, name string) error {
	for _, db := range d.databases {
		if fold(db.Name) != fold(database) {
			continue
		}
		if db.Table(name) != nil {
			return fmt.Errorf("table %s.%s: %w", database, name, errs.ErrExists)
		}
		return nil
	}
	return fmt.Errorf("database %s: %w", database, errs.ErrNotFound)
}

// CreateTable makes an empty table. Errors as those of Engine.CreateTable.
func (a *Alteration) CreateTable(ctx context.Context, db, name string, def TableDef) (*TableEntry, error) {
	d, err := a.image.database(db)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkName("table", name), a.image.draft().free(db, name)); err != nil {
		return nil, err
	}
	hidden, err := a.e.CreateTable(ctx, db, rebuildPrefix+a.e.catalog.newID().String(), def)
	if err != nil {
		return nil, err
	}
	now := *hidden
	now.Database, now.Name = d.Name, name
	t := &alteredTable{now: &now, hidden: hidden}
	if err := a.show(t, nil); err != nil {
		return nil, errors.Join(err, a.e.dropHidden(ctx, hidden))
	}
	return t.now, nil
}

// DropTable drops a table. errs.ErrNotFound.
func (a *Alteration) DropTable(ctx context.Context, db, name string) error {
	t, err := a.of(db, name)
	if err != nil {
		return err
	}
	was, hidden := t.now, t.hidden
	t.now, t.hidden = nil, nil
	if err := a.show(t, was); err != nil || hidden == nil {
		return err
	}
	return a.e.dropHidden(ctx, hidden)
}

// RenameTable renames a table within its database. errs.ErrNotFound for the table, errs.ErrExists for the new name.
func (a *Alteration) RenameTable(db, from, to string) error {
	t, err := a.of(db, from)
	if err != nil {
		return err
	}
	if err := checkName("table", to); err != nil {
		return err
	}
	was, now := t.now, *t.now
	now.Name = to
	t.now = &now
	if err := a.show(t, was); err != nil {
		t.now = was
		return err
	}
	return nil
}

// ChangeShape replaces a table's shape by what change makes of it, which must describe the same physical columns.
// Rows, files and open scans are not touched; the copy of the shape in the dataset's metadata stays as it was. change
// sees the present entry and returns the new shape, which the engine keeps. It may be run again at Commit, which is what
// lets two statements change different things of a table that neither has locked. errs.ErrNotFound, errs.ErrLimit.
func (a *Alteration) ChangeShape(db, name string, change func(*TableEntry) ([]byte, error)) error {
	t, err := a.of(db, name)
	if err != nil {
		return err
	}
	was, now := t.now, *t.now
	if now.Shape, err = change(was); err != nil {
		return err
	}
	t.now = &now
	if err := a.show(t, was); err != nil {
		t.now = was
		return err
	}
	t.shapes = append(t.shapes, change)
	return nil
}

// ChangeOptions changes a database's options by what change returns: the given ones are set and the others stay; an
// empty value removes an option. change sees the present options, must not keep or alter them, and is run again at
// Commit, where it is not beside another DDL statement. errs.ErrNotFound, errs.ErrInvalid, errs.ErrLimit.
func (a *Alteration) ChangeOptions(db string, change func(DatabaseOptions) (DatabaseOptions, error)) error {
	d := a.image.draft()
	if err := d.changeOptions(db, change); err != nil {
		return err
	}
	a.image = newCatalog(a.image.Version, d.databases, d.intents)
	a.options = append(a.options, optionChange{db, change})
	return nil
}

// changeOptions merges into the options of a database what change returns.
func (d *draft) changeOptions(name string, change func(DatabaseOptions) (DatabaseOptions, error)) error {
	i := slices.IndexFunc(d.databases, func(db *Database) bool { return fold(db.Name) == fold(name) })
	if i < 0 {
		return fmt.Errorf("database %s: %w", name, errs.ErrNotFound)
	}
	db := d.databases[i]
	changes, err := change(db.Options)
	if err != nil {
		return err
	}
	merged := maps.Clone(db.Options)
	if merged == nil {
		merged = DatabaseOptions{}
	}
	maps.Copy(merged, changes)
	maps.DeleteFunc(merged, func(_, v string) bool { return v == "" })
	if err := checkOptions(merged); err != nil {
		return fmt.Errorf("alter database %s: %w", name, err)
	}
	d.setDatabase(newDatabase(db.Name, db.dir, merged, slices.Clone(db.tables)))
	return nil
}

// SetAutoIncrement makes v the next AUTO_INCREMENT value of a table.
func (a *Alteration) SetAutoIncrement(db, name string, v uint64) error {
	t, err := a.of(db, name)
	if err != nil {
		return err
	}
	t.auto = &v
	return a.show(t, t.now)
}

// Commit makes the changes happen. After an error, errs.ErrPoisoned apart, nothing has changed.
func (a *Alteration) Commit(ctx context.Context) error {
	if a.done || len(a.tables) == 0 && len(a.options) == 0 {
		a.done = true
		return nil
	}
	dropped, err := a.commit(ctx)
	if err != nil {
		return errors.Join(err, a.Abort(ctx))
	}
	a.done = true
	a.e.passBeforeDrop(ctx, dropped...)
	a.e.forgetTables(dropped...)
	var moved []TableID
	for _, t := range a.tables {
		if t.now == nil || t.hidden == nil && !t.renamed() {
			continue
		}
		moved = append(moved, t.now.ID)
		if err := a.e.closeTable(context.WithoutCancel(ctx), t.now.ID); err != nil { // an open table knows its former name
			a.e.log.Warn("close a table that has another name now", "table", t.now.Name, "error", err)
		}
	}
	a.e.straighten(ctx, moved...)
	return nil
}

func (a *Alteration) commit(ctx context.Context) (dropped []TableID, err error) {
	if err := a.e.checkOpen(); err != nil {
		return nil, err
	}
	for _, t := range a.tables {
		// Why drained: what outside readers find under the table's name is then the whole table again.
		if t.hidden != nil && t.origin != nil {
			if err := a.e.drain(ctx, t.hidden); err != nil {
				return nil, err
			}
		}
		// Why before the commit point: a counter that ran ahead of a statement that did not happen leaves a gap, no more.
		if t.auto != nil && t.now != nil && t.now.AutoColumn >= 0 {
			if err := a.e.SetAutoIncrement(ctx, t.now, *t.auto); err != nil {
				return nil, err
			}
		}
		switch {
		case t.origin == nil:
		case t.now == nil:
			a.e.passBeforeDrop(ctx, t.origin.ID)
			dropped = append(dropped, t.origin.ID)
		case t.hidden != nil:
			dropped = append(dropped, t.origin.ID)
		}
	}
	return dropped, a.e.catalog.alter(ctx, a, a.e.closeTable)
}

// Abort gives the changes up and removes the tables made for them.
func (a *Alteration) Abort(ctx context.Context) error {
	if a.done {
		return nil
	}
	a.done = true
	var faults []error
	for _, t := range a.tables {
		if t.hidden != nil {
			faults = append(faults, a.e.dropHidden(ctx, t.hidden))
		}
	}
	return errors.Join(faults...)
}

// dropHidden drops a table that was made to take a name later.
func (e *Engine) dropHidden(ctx context.Context, t *TableEntry) error {
	err := e.DropTable(context.WithoutCancel(ctx), t.Database, t.Name)
	if errors.Is(err, errs.ErrNotFound) {
		return nil
	}
	return err
}

// alter commits with its only snapshot.
func (s *catalogStore) alter(ctx context.Context, a *Alteration, evict evictFunc) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	d := c.draft()
	var dropped, added []*TableEntry
	for _, t := range a.tables {
		was, is, err := t.merge(c)
		if err != nil {
			return err
		}
		if was != nil {
			d.removeTable(was)
		}
		if t.hidden != nil {
			d.removeTable(t.hidden)
		}
		if is != nil {
			added = append(added, is)
		}
		if was != nil && (is == nil || is.ID != was.ID) {
			dropped = append(dropped, was)
			d.addIntent(intent{Kind: intentDrop, ID: was.ID, Path: was.Path})
		}
	}
	for _, t := range added {
		if err := d.free(t.Database, t.Name); err != nil {
			return err
		}
		if err := s.claimName(ctx, c, t); err != nil {
			return err
		}
		d.addTable(t)
	}
	for _, o := range a.options {
		if err := d.changeOptions(o.database, o.change); err != nil {
			return err
		}
	}
	if err := s.commit(ctx, d); err != nil {
		return err
	}
	if len(dropped) > 0 {
		s.finishDrop(ctx, dropped, evict)
	}
	return nil
}

// merge returns the catalog's entry of the table, nil if it has none, and the one to put in its place, nil if the table
// goes. Somebody else may have changed its shape since, as the parent of a foreign key changes that of the child.
func (t *alteredTable) merge(c *Catalog) (was, is *TableEntry, err error) {
	if t.origin != nil {
		if was, err = c.table(t.origin.Database, t.origin.Name); err != nil {
			return nil, nil, err
		}
	}
	if t.now == nil {
		return was, nil, nil
	}
	changed := was != nil && (was.ID != t.origin.ID || !bytes.Equal(was.Shape, t.origin.Shape))
	if changed && (t.hidden != nil || t.renamed()) {
		return nil, nil, fmt.Errorf("alter table %s.%s: it is another one by now: %w", was.Database, was.Name, errs.ErrSchemaChanged)
	}
	from := was
	if t.hidden != nil {
		if from, err = c.table(t.hidden.Database, t.hidden.Name); err != nil {
			return nil, nil, err
		}
	}
	fresh := *from
	fresh.Database, fresh.Name = t.now.Database, t.now.Name
	if t.hidden != nil {
		fresh.Shape = t.now.Shape
	} else {
		for _, change := range t.shapes {
			before := fresh
			if fresh.Shape, err = change(&before); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := fresh.seal(); err != nil {
		return nil, nil, fmt.Errorf("alter table %s.%s: %w", fresh.Database, fresh.Name, err)
	}
	return was, &fresh, nil
}

// claimName fails if the directory that goes with a table's name belongs to somebody else. One of a table of ours, which
// will move away or stay, is no obstacle: a table works wherever it lies.
func (s *catalogStore) claimName(ctx context.Context, c *Catalog, t *TableEntry) error {
	db := c.Database(t.Database)
	path := tablePath(db.dir, t.Name)
	ours := make(map[string]bool, len(db.tables))
	for _, o := range db.tables {
		ours[o.Path] = true
	}
	if ours[path] {
		return nil
	}
	if err := c.unclaimed(path); err != nil {
		return err
	}
	taken, err := s.sibling(ctx, path, func(name string) bool { return !ours[name] && strings.EqualFold(name, path) })
	if err == nil && taken != "" {
		err = fmt.Errorf("directory %s is not ours: %w", taken, errs.ErrExists)
	}
	return err
}
