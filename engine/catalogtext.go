package engine

import (
	"context"
	"fmt"
	"maps"
)

// ChangeOptions changes a database's options by what change returns: the given ones are set and the others stay; an
// empty value removes an option. change sees the present options, must not keep or alter them, and is not run beside
// another DDL statement; its error is returned as it is and nothing changes. Errors otherwise: errs.ErrNotFound,
// errs.ErrInvalid, errs.ErrLimit.
func (e *Engine) ChangeOptions(ctx context.Context, name string, change func(DatabaseOptions) (DatabaseOptions, error)) error {
	if err := e.checkOpen(); err != nil {
		return err
	}
	return e.catalog.changeOptions(ctx, name, change)
}

// ChangeShape replaces a table's shape by what change makes of it, which must describe the same physical columns.
// Rows, files and open scans are not touched; the copy of the shape in the dataset's metadata stays as it was. change is
// run as that of ChangeOptions; it sees the present entry and returns the new shape, which the engine keeps. Errors
// otherwise: errs.ErrNotFound, errs.ErrLimit.
func (e *Engine) ChangeShape(ctx context.Context, db, name string, change func(*TableEntry) ([]byte, error)) error {
	if err := e.checkOpen(); err != nil {
		return err
	}
	return e.catalog.changeShape(ctx, db, name, change)
}

// changeOptions commits with its only snapshot.
func (s *catalogStore) changeOptions(ctx context.Context, name string, change func(DatabaseOptions) (DatabaseOptions, error)) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	db, err := c.database(name)
	if err != nil {
		return err
	}
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
	d := c.draft()
	d.setDatabase(newDatabase(db.Name, db.dir, merged, append([]*TableEntry{}, db.tables...)))
	if err := s.commit(ctx, d); err != nil {
		return fmt.Errorf("alter database %s: %w", name, err)
	}
	return nil
}

// changeShape commits with its only snapshot.
func (s *catalogStore) changeShape(ctx context.Context, db, name string, change func(*TableEntry) ([]byte, error)) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	c := s.image.Load()
	t, err := c.table(db, name)
	if err != nil {
		return err
	}
	fresh := *t
	if fresh.Shape, err = change(t); err != nil {
		return err
	}
	if err := fresh.seal(); err != nil {
		return fmt.Errorf("alter table %s.%s: %w", db, name, err)
	}
	d := c.draft()
	d.removeTable(t)
	d.addTable(&fresh)
	if err := s.commit(ctx, d); err != nil {
		return fmt.Errorf("alter table %s.%s: %w", db, name, err)
	}
	return nil
}
