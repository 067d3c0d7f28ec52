package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/lsm"
)

// Attach takes a Lance dataset that somebody else made into the catalog. path is where it lies below the data directory,
// `directory/name.lance`; it moves to the place of the table's name if that is another one. Its columns decide about its key; without one the table is append-only. describe gets them and
// returns the table's shape, or why it cannot be one.
//
// It commits with the snapshot that lists the table. Before that the dataset gets a MemWAL entry if it has none, which an
// attempt that breaks off leaves behind and the next one finds; nothing of somebody else's is ever removed, so there is no
// intent.
//
// errs.ErrNotFound for the database and if there is no dataset; errs.ErrExists if the name is taken, or the path, by another
// table; errs.ErrInvalid for a path that no table can have; errs.ErrUnsupported for a dataset that cannot be written here.
func (e *Engine) Attach(ctx context.Context, db, name, path string, describe func(*arrow.Schema) (shape []byte, err error)) (*TableEntry, error) {
	if err := e.checkOpen(); err != nil {
		return nil, err
	}
	t, err := e.catalog.attachTable(ctx, db, name, path, func(path string) (columns *arrow.Schema, shape []byte, err error) {
		columns, err = lsm.Install(ctx, e.tableOptions(), path, func(s *arrow.Schema) error {
			shape, err = describe(s)
			return err
		})
		return columns, shape, err
	})
	if err != nil {
		return nil, err
	}
	e.straighten(ctx, t.ID)
	if now := e.Catalog().TableByID(t.ID); now != nil {
		t = now
	}
	return t, nil
}

// attachTable commits with the snapshot that lists the table. prepare makes the dataset at a path one that can be opened.
func (s *catalogStore) attachTable(ctx context.Context, db, name, path string, prepare func(path string) (*arrow.Schema, []byte, error)) (*TableEntry, error) {
	if err := checkName("table", name); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	c := s.image.Load()
	database, err := c.database(db)
	if err != nil {
		return nil, err
	}
	if database.Table(name) != nil {
		return nil, fmt.Errorf("table %s.%s: %w", db, name, errs.ErrExists)
	}
	if err := c.attachable(path); err != nil {
		return nil, err
	}
	if there, err := s.exists(ctx, path); err != nil || !there {
		if err == nil {
			err = fmt.Errorf("no directory %s: %w", path, errs.ErrNotFound)
		}
		return nil, err
	}
	t := &TableEntry{ID: s.newID(), Database: database.Name, Name: name, Path: path, AutoColumn: -1, NextAuto: 1}
	if t.Schema, t.Shape, err = prepare(path); err != nil {
		return nil, fmt.Errorf("attach %s: %w", path, err)
	}
	if err := t.seal(); err != nil {
		return nil, err
	}
	d := c.draft()
	d.addTable(t)
	if err := s.commit(ctx, d); err != nil {
		return nil, fmt.Errorf("attach %s: %w", path, err)
	}
	return t, nil
}

// attachable fails unless a path given by a user could be that of a table and belongs to none.
func (c *Catalog) attachable(path string) error {
	if strings.HasPrefix(path, "/") || strings.Contains("/"+path+"/", "/../") {
		return fmt.Errorf("path %q is outside the data directory: %w", path, errs.ErrInvalid)
	}
	if !isTablePath(path) {
		return fmt.Errorf("path %q: a table lies at directory/name%s below the data directory, both of letters, digits, _ and -: %w", path, tableSuffix, errs.ErrInvalid)
	}
	for _, d := range c.databases {
		for _, t := range d.tables {
			if strings.EqualFold(t.Path, path) {
				return fmt.Errorf("path %s is that of table %s.%s: %w", path, t.Database, t.Name, errs.ErrExists)
			}
		}
	}
	return c.unclaimed(path)
}
