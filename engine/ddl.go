package engine

import (
	"context"

	"lancesql/internal/errs"
)

// CreateDatabase makes a database.
func (e *Engine) CreateDatabase(ctx context.Context, name string, options map[string]string) error {
	return e.catalog.createDatabase(ctx, name, options)
}

// AlterDatabase changes options.
func (e *Engine) AlterDatabase(ctx context.Context, name string, options map[string]string) error {
	return e.catalog.alterDatabase(ctx, name, options)
}

// DropDatabase drops a database and all its tables.
func (e *Engine) DropDatabase(ctx context.Context, name string) error {
	return e.catalog.dropDatabase(ctx, name, e.closeTable)
}

// CreateTable creates a table.
func (e *Engine) CreateTable(ctx context.Context, db, name string, def TableDef) (*TableEntry, error) {
	return nil, errs.ErrUnsupported
}

// DropTable drops a table.
func (e *Engine) DropTable(ctx context.Context, db, name string) error {
	return e.catalog.dropTable(ctx, db, name, e.closeTable)
}

// RenameTable renames a table within its database.
func (e *Engine) RenameTable(ctx context.Context, db, from, to string) error {
	return e.MoveTable(ctx, db, from, db, to)
}

// MoveTable renames a table, possibly into another database.
func (e *Engine) MoveTable(ctx context.Context, db, name, newDB, newName string) error {
	return e.catalog.renameTable(ctx, db, name, newDB, newName, e.closeTable)
}
