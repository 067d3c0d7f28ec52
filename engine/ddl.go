package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"lancesql/internal/errs"
)

// DDL statements. Each has one commit point, the snapshot named in its comment: before it an error or a crash leaves
// nothing behind, after it the statement has happened, and what remains to be done on disk is an intent.

// CreateDatabase makes a database. options may be nil. A directory of its name that exists already is taken over
// with what is in it; the tables found there stay unknown. errs.ErrExists, errs.ErrInvalid, errs.ErrLimit.
func (e *Engine) CreateDatabase(ctx context.Context, name string, options map[string]string) error {
	if err := e.checkOpen(); err != nil {
		return err
	}
	return e.catalog.createDatabase(ctx, name, options)
}

// AlterDatabase sets the given options and leaves the others; an empty value removes an option. errs.ErrNotFound.
func (e *Engine) AlterDatabase(ctx context.Context, name string, options map[string]string) error {
	if err := e.checkOpen(); err != nil {
		return err
	}
	return e.catalog.alterDatabase(ctx, name, options)
}

// DropDatabase drops a database with all its tables. If its directory holds files that are not ours, the tables are
// dropped, the database stays and the error is errs.ErrInvalid, "directory not empty". errs.ErrNotFound.
func (e *Engine) DropDatabase(ctx context.Context, name string) error {
	if err := e.checkOpen(); err != nil {
		return err
	}
	var ids []TableID
	if db := e.Catalog().Database(name); db != nil {
		for _, t := range db.tables {
			ids = append(ids, t.ID)
		}
	}
	e.passBeforeDrop(ctx, ids...)
	err := e.catalog.dropDatabase(ctx, name, e.closeTable)
	e.forgetTables(ids...)
	return err
}

// passBeforeDrop shortens the journal so that it names none of the tables any more. Why a failure stops no DROP: at
// recovery the parts of tables that the catalog does not name are skipped, and a DROP must work on a full disk.
func (e *Engine) passBeforeDrop(ctx context.Context, ids ...TableID) {
	if err := e.passJournal(ctx, ids...); err != nil {
		e.log.Warn("journal still names a table that is being dropped", "error", err)
	}
}

// forgetTables drops what is kept about tables that the catalog no longer names.
func (e *Engine) forgetTables(ids ...TableID) {
	c := e.Catalog()
	for _, id := range ids {
		if !c.names(id) {
			e.journal.forget(id)
			e.counters.forget(id)
			e.tablesMu.Lock()
			delete(e.reclaimed, id)
			delete(e.wasOpen, id)
			e.tablesMu.Unlock()
		}
	}
}

// CreateTable makes an empty table. errs.ErrNotFound for the database; errs.ErrExists if the name is taken, also by
// a directory that the catalog does not know; errs.ErrInvalid, errs.ErrLimit.
func (e *Engine) CreateTable(ctx context.Context, db, name string, def TableDef) (*TableEntry, error) {
	if err := e.checkOpen(); err != nil {
		return nil, err
	}
	return e.catalog.createTable(ctx, db, name, def, func(ctx context.Context, path string, _ TableID) error {
		return e.createTableFiles(ctx, path, def)
	})
}

// DropTable drops a table and removes its files. errs.ErrNotFound.
func (e *Engine) DropTable(ctx context.Context, db, name string) error {
	if err := e.checkOpen(); err != nil {
		return err
	}
	t, err := e.Catalog().table(db, name)
	if err != nil {
		return err
	}
	e.passBeforeDrop(ctx, t.ID)
	err = e.catalog.dropTable(ctx, db, name, e.closeTable)
	e.forgetTables(t.ID)
	return err
}

// RenameTable renames a table within its database; errors as MoveTable.
func (e *Engine) RenameTable(ctx context.Context, db, from, to string) error {
	return e.MoveTable(ctx, db, from, db, to)
}

// MoveTable renames a table, possibly into another database. While its directory moves the table cannot be opened.
// errs.ErrNotFound for the table or the new database, errs.ErrExists for the new name.
func (e *Engine) MoveTable(ctx context.Context, db, name, newDB, newName string) error {
	if err := e.checkOpen(); err != nil {
		return err
	}
	return e.catalog.renameTable(ctx, db, name, newDB, newName, e.closeTable)
}

// evictFunc closes a table if it is open. The catalog no longer shows the table by its id when it is called, so that
// it cannot be opened again afterwards.
type evictFunc func(ctx context.Context, id TableID) error

// createDatabase commits with the snapshot that lists the database; its directory is made before.
func (s *catalogStore) createDatabase(ctx context.Context, name string, options DatabaseOptions) error {
	if err := errors.Join(checkName("database", name), checkOptions(options)); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	if c.Database(name) != nil {
		return fmt.Errorf("database %s: %w", name, errs.ErrExists)
	}
	dir := encodeName(name)
	if err := c.unclaimed(dir); err != nil {
		return err
	}
	existed, err := s.exists(ctx, dir)
	if err == nil {
		err = s.store.MakeDir(ctx, dir)
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	d := c.draft()
	d.setDatabase(newDatabase(name, dir, maps.Clone(options), nil))
	err = s.commit(ctx, d)
	if err != nil && !existed && !errors.Is(err, errs.ErrPoisoned) {
		// An empty directory left behind would do no harm; the next CREATE takes it over.
		undo := intent{Kind: intentRmdir, ID: s.newID(), Path: dir}
		err = errors.Join(err, s.removeEmpty(context.WithoutCancel(ctx), d, undo))
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// alterDatabase commits with its only snapshot.
func (s *catalogStore) alterDatabase(ctx context.Context, name string, options DatabaseOptions) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	d := s.image.Load().draft()
	if err := d.changeOptions(name, func(DatabaseOptions) (DatabaseOptions, error) { return options, nil }); err != nil {
		return err
	}
	if err := s.commit(ctx, d); err != nil {
		return fmt.Errorf("alter database %s: %w", name, err)
	}
	return nil
}

// dropDatabase commits with the snapshot that no longer lists the database or, if files of somebody else keep its
// directory alive, its tables.
func (s *catalogStore) dropDatabase(ctx context.Context, name string, evict evictFunc) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	db := c.Database(name)
	if db == nil {
		return fmt.Errorf("database %s: %w", name, errs.ErrNotFound)
	}
	foreign, err := s.foreignChild(ctx, c, db)
	if err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	d := c.draft()
	for _, t := range db.tables {
		d.addIntent(intent{Kind: intentDrop, ID: t.ID, Path: t.Path})
	}
	if foreign == "" {
		d.removeDatabase(name)
		d.addIntent(intent{Kind: intentRmdir, ID: s.newID(), Path: db.dir})
	} else {
		d.setDatabase(newDatabase(db.Name, db.dir, db.Options, nil))
	}
	if foreign == "" || len(db.tables) > 0 {
		if err := s.commit(ctx, d); err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
		s.finishDrop(ctx, db.tables, evict)
	}
	if foreign != "" {
		return fmt.Errorf("drop database %s: directory not empty, %s is not ours: %w", name, foreign, errs.ErrInvalid)
	}
	return nil
}

// foreignChild returns something in the directory of the database that the catalog does not know, "" if there is
// nothing.
func (s *catalogStore) foreignChild(ctx context.Context, c *Catalog, db *Database) (string, error) {
	known := make(map[string]bool)
	for _, t := range db.tables {
		known[t.Path] = true
	}
	for _, in := range c.intents {
		if in.Kind == intentDrop {
			known[in.Path] = true
		}
	}
	return s.sibling(ctx, db.dir+"/", func(name string) bool { return !known[name] })
}

// createTable commits with the snapshot that lists the table. The one before it names the path in an intent, so that
// files of an attempt that broke off are removed.
func (s *catalogStore) createTable(ctx context.Context, db, name string, def TableDef, create func(ctx context.Context, path string, id TableID) error) (*TableEntry, error) {
	if err := checkName("table", name); err != nil {
		return nil, err
	}
	if def.Schema == nil {
		return nil, fmt.Errorf("create table %s.%s: no schema: %w", db, name, errs.ErrInvalid)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	database := s.image.Load().Database(db)
	if database == nil {
		return nil, fmt.Errorf("database %s: %w", db, errs.ErrNotFound)
	}
	if database.Table(name) != nil {
		return nil, fmt.Errorf("table %s.%s: %w", db, name, errs.ErrExists)
	}
	t := &TableEntry{ID: s.newID(), Database: database.Name, Name: name, Path: tablePath(database.dir, name), Schema: def.Schema,
		Shape: def.Shape, AutoColumn: def.AutoColumn, NextAuto: max(def.NextAuto, 1), Indexes: def.Indexes}
	err := t.seal()
	if err == nil {
		err = s.claimTable(ctx, t.Path, "")
	}
	if err == nil {
		err = s.fillTable(ctx, t, create)
	}
	if err != nil {
		return nil, fmt.Errorf("create table %s.%s: %w", db, name, err)
	}
	return t, nil
}

func (s *catalogStore) fillTable(ctx context.Context, t *TableEntry, create func(ctx context.Context, path string, id TableID) error) error {
	d := s.image.Load().draft()
	d.addIntent(intent{Kind: intentCreate, ID: t.ID, Path: t.Path})
	if err := s.commit(ctx, d); err != nil {
		return err
	}
	if err := create(ctx, t.Path, t.ID); err != nil {
		return s.undoCreate(ctx, t, err)
	}
	d = s.image.Load().draft()
	d.removeIntents(t.ID)
	d.addTable(t)
	if err := s.commit(ctx, d); err != nil {
		return s.undoCreate(ctx, t, err)
	}
	return nil
}

// undoCreate removes what a failed creation left. If the files turned out to exist they belong to somebody who made
// them after we looked, and only the intent goes.
func (s *catalogStore) undoCreate(ctx context.Context, t *TableEntry, cause error) error {
	if s.broken != nil {
		return cause
	}
	ctx = context.WithoutCancel(ctx)
	if errors.Is(cause, errs.ErrExists) {
		d := s.image.Load().draft()
		d.removeIntents(t.ID)
		return errors.Join(cause, s.commit(ctx, d))
	}
	s.settleLater(ctx)
	return cause
}

// dropTable commits with the snapshot that no longer lists the table.
func (s *catalogStore) dropTable(ctx context.Context, db, name string, evict evictFunc) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	t, err := c.table(db, name)
	if err != nil {
		return err
	}
	d := c.draft()
	d.removeTable(t)
	d.addIntent(intent{Kind: intentDrop, ID: t.ID, Path: t.Path})
	if err := s.commit(ctx, d); err != nil {
		return fmt.Errorf("drop table %s.%s: %w", db, name, err)
	}
	s.finishDrop(ctx, []*TableEntry{t}, evict)
	return nil
}

// finishDrop does on disk what a committed drop needs. What cannot be done now is done by a later statement or, for
// a table that cannot be closed, at the next open.
func (s *catalogStore) finishDrop(ctx context.Context, tables []*TableEntry, evict evictFunc) {
	ctx = context.WithoutCancel(ctx)
	for _, t := range tables {
		if err := evict(ctx, t.ID); err != nil {
			s.inUse[t.ID] = true
			s.log.Warn("dropped table stays on disk until restart: close", "table", t.Path, "error", err)
		}
	}
	s.settleLater(ctx)
}

// renameTable commits with the snapshot that lists the new name. The directory is renamed before it, under an
// intent; from that intent on the table cannot be opened.
func (s *catalogStore) renameTable(ctx context.Context, db, name, newDB, newName string, evict evictFunc) error {
	if err := checkName("table", newName); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	t, err := c.table(db, name)
	if err != nil {
		return err
	}
	target := c.Database(newDB)
	if target == nil {
		return fmt.Errorf("database %s: %w", newDB, errs.ErrNotFound)
	}
	if other := target.Table(newName); other != nil && (other.ID != t.ID || other.Name == newName) {
		return fmt.Errorf("table %s.%s: %w", newDB, newName, errs.ErrExists)
	}
	in := intent{Kind: intentRename, ID: t.ID, Path: t.Path, To: tablePath(target.dir, newName), Database: target.Name, Table: newName}
	err = s.claimTable(ctx, in.To, t.Path)
	if err == nil {
		err = s.moveTable(ctx, in, evict)
	}
	if err != nil {
		return fmt.Errorf("rename table %s.%s: %w", db, name, err)
	}
	return nil
}

func (s *catalogStore) moveTable(ctx context.Context, in intent, evict evictFunc) error {
	d := s.image.Load().draft()
	d.addIntent(in)
	if err := s.commit(ctx, d); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	fault := evict(ctx, in.ID)
	if fault == nil {
		fault = s.store.Rename(ctx, in.Path, in.To)
	}
	fault = errors.Join(fault, s.settle(ctx))
	if t := s.image.Load().TableByID(in.ID); t != nil && t.Path == in.To {
		return nil
	}
	if s.broken != nil {
		return errors.Join(fault, s.broken)
	}
	if s.image.Load().TableByID(in.ID) == nil {
		s.moveBack(ctx, in)
	}
	return fault
}

// moveBack makes a table usable again after a rename that could not be committed. The intent stays in the snapshot,
// where it means nothing any more once the directory has its old name.
func (s *catalogStore) moveBack(ctx context.Context, in intent) {
	there, err := s.exists(ctx, in.Path)
	if err == nil && !there {
		err = s.store.Rename(ctx, in.To, in.Path)
	}
	if err != nil {
		s.log.Error("table cannot be opened until its rename is settled", "from", in.Path, "to", in.To, "error", err)
		return
	}
	d := s.image.Load().draft()
	d.removeIntents(in.ID)
	s.image.Store(newCatalog(d.version, d.databases, d.intents))
}

// database finds a database by its name.
func (c *Catalog) database(name string) (*Database, error) {
	if d := c.Database(name); d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("database %s: %w", name, errs.ErrNotFound)
}

// table finds a table by its names.
func (c *Catalog) table(db, name string) (*TableEntry, error) {
	d, err := c.database(db)
	if err != nil {
		return nil, err
	}
	t := d.Table(name)
	if t == nil {
		return nil, fmt.Errorf("table %s.%s: %w", db, name, errs.ErrNotFound)
	}
	return t, nil
}

// unclaimed fails if an unfinished statement has the path in use.
func (c *Catalog) unclaimed(path string) error {
	for _, in := range c.intents {
		if in.touches(path) {
			return fmt.Errorf("%s is still in use by an earlier statement (%s): %w", path, in, errs.ErrConflict)
		}
	}
	return nil
}

// claimTable fails unless the path of a table is free on disk, in any case of its letters, and no unfinished
// statement names it. own is the table's present path, which does not count.
func (s *catalogStore) claimTable(ctx context.Context, path, own string) error {
	if err := s.image.Load().unclaimed(path); err != nil {
		return err
	}
	taken, err := s.sibling(ctx, path, func(name string) bool { return name != own && strings.EqualFold(name, path) })
	if err != nil {
		return err
	}
	if taken != "" {
		return fmt.Errorf("directory %s is not ours: %w", taken, errs.ErrExists)
	}
	return nil
}
