package sqlbackend

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
	"lancesql/internal/errs"
)

// Database is one database as a statement sees it: a name, resolved against the catalog image at each call.
type Database struct {
	provider *Provider
	name     string
}

var (
	_ sql.Database         = (*Database)(nil)
	_ sql.TableCreator     = (*Database)(nil)
	_ sql.TableDropper     = (*Database)(nil)
	_ sql.TableRenamer     = (*Database)(nil)
	_ sql.CollatedDatabase = (*Database)(nil)
	_ sql.SchemaValidator  = (*Database)(nil)
)

// Name implements sql.Database.
func (d *Database) Name() string { return d.name }

func (d *Database) entry(ctx *sql.Context) (*engine.Database, error) {
	e := d.provider.catalog(ctx).Database(d.name)
	if e == nil {
		return nil, sql.ErrDatabaseNotFound.New(d.name)
	}
	return e, nil
}

// GetTableInsensitive implements sql.Database.
func (d *Database) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	e, err := d.entry(ctx)
	if err != nil {
		return nil, false, err
	}
	if entry := connOf(ctx).temporary(ctx, d.name, name); entry != nil {
		nt, err := connOf(ctx).temps.provider.open(ctx, entry)
		return nt, err == nil, err
	}
	t := e.Table(name)
	if t == nil || dropsTemporary(ctx) {
		return nil, false, nil
	}
	if err := connOf(ctx).touch(ctx, d.name, name); err != nil {
		return nil, false, err
	}
	nt, err := d.provider.open(ctx, t)
	if c := connOf(ctx); err == nil && c != nil && c.stmt.altering != nil {
		nt, err = nt.resolved(ctx)
	}
	return nt, err == nil, err
}

// open returns the table as the running statement sees it.
func (p *Provider) open(ctx *sql.Context, t *engine.TableEntry) (*Table, error) {
	info, err := p.info(ctx, t)
	if err != nil {
		return nil, err
	}
	nt := newTable(p, info)
	nt.plainVirtual(connOf(ctx))
	if c := connOf(ctx); info.rowID >= 0 && c != nil && c.stmt.bare {
		// Why: a hidden column must not take part in NATURAL JOIN, be copied by CREATE TABLE … LIKE, or be expected
		// from the SELECT of CREATE TABLE … SELECT.
		nt.schema = nt.schema[:info.rowID]
	}
	if c := connOf(ctx); c != nil {
		if _, _, likens := indexUse(c.stmt.marked); likens { // addLike adds the columns of indexes over expressions
			nt.schema = slices.DeleteFunc(nt.schema, func(c *sql.Column) bool { return c.HiddenSystem && !isRowID(c) })
		}
	}
	if c := connOf(ctx); c != nil && showsStatus(c.stmt.marked) {
		if nt.comment, err = p.lagComment(ctx, info); err != nil {
			return nil, err
		}
	}
	return nt, nil
}

// dropsTemporary reports whether the statement is DROP TEMPORARY TABLE, which finds no other tables.
func dropsTemporary(ctx *sql.Context) bool {
	c := connOf(ctx)
	if c == nil {
		return false
	}
	s, ok := c.stmt.marked.(*sqlparser.DDL)
	return ok && s.Temporary && strings.EqualFold(s.Action, sqlparser.DropStr)
}

// GetTableNames implements sql.Database; sorted by name.
func (d *Database) GetTableNames(ctx *sql.Context) ([]string, error) {
	e, err := d.entry(ctx)
	if err != nil {
		return nil, err
	}
	tables := e.Tables()
	names := make([]string, 0, len(tables))
	for _, t := range tables {
		if !t.IsRebuild() {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// GetCollation implements sql.CollatedDatabase.
func (d *Database) GetCollation(*sql.Context) sql.CollationID {
	e := d.provider.engine.Catalog().Database(d.name)
	if e == nil {
		return databaseCollation
	}
	c, err := sql.ParseCollation("", e.Options[collationOption], false)
	if err != nil || c == sql.Collation_Unspecified {
		return databaseCollation
	}
	return c
}

// SetCollation implements sql.CollatedDatabase.
func (d *Database) SetCollation(ctx *sql.Context, c sql.CollationID) error {
	e, err := d.entry(ctx)
	if err != nil {
		return err
	}
	options := make(map[string]string, len(e.Options)+1)
	for k, v := range e.Options {
		options[k] = v
	}
	if c == sql.Collation_Unspecified {
		c = databaseCollation
	}
	options[collationOption] = c.Name()
	return d.provider.engine.AlterDatabase(ctx, d.name, options)
}

// ValidateSchema implements sql.SchemaValidator: types that cannot be stored are refused before anything is made.
func (d *Database) ValidateSchema(s sql.Schema) error {
	for _, c := range s {
		if _, err := newCodec(c.Type); err != nil {
			return err
		}
	}
	return nil
}

// DropTable implements sql.TableDropper.
func (d *Database) DropTable(ctx *sql.Context, name string) error {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	p := d.provider
	if c := connOf(ctx); c != nil {
		if entry := c.temporary(ctx, d.name, name); entry != nil {
			p = c.temps.provider
			defer c.temps.forget(entry)
		}
	}
	err := p.alter(ctx, func(a *engine.Alteration) error { return a.DropTable(ctx, d.name, name) })
	if errors.Is(err, errs.ErrNotFound) {
		return sql.ErrTableNotFound.New(name)
	}
	return err
}

// RenameTable implements sql.TableRenamer.
func (d *Database) RenameTable(ctx *sql.Context, oldName, newName string) error {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	p := d.provider
	if c := connOf(ctx); c.temporary(ctx, d.name, oldName) != nil {
		p = c.temps.provider
	}
	err := p.alter(ctx, func(a *engine.Alteration) error { return a.RenameTable(d.name, oldName, newName) })
	switch {
	case errors.Is(err, errs.ErrExists):
		return sql.ErrTableAlreadyExists.New(newName)
	case errors.Is(err, errs.ErrNotFound):
		return sql.ErrTableNotFound.New(oldName)
	case err != nil:
		return fmt.Errorf("rename table %s.%s: %w", d.name, oldName, err)
	}
	return nil
}
