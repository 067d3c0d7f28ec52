package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// sysName is the database of status tables. It is computed, holds nothing, and cannot be changed; SHOW DATABASES leaves
// it out, so that a dump of all databases does as well.
const sysName = "lancesql"

func isSysName(name string) bool { return strings.EqualFold(name, sysName) }

// sysDatabase shows the server's state as tables: lancesql's own, or those that MySQL has and tools ask for (perfschema.go).
type sysDatabase struct {
	provider *Provider
	name     string
	tables   []sysTableDef // sorted by name
}

// computedDatabase returns the computed database of a name; nil if there is none.
func (p *Provider) computedDatabase(name string) *sysDatabase {
	switch {
	case isSysName(name):
		return &sysDatabase{p, sysName, sysTables()}
	case strings.EqualFold(name, performanceName):
		return &sysDatabase{p, performanceName, performanceTables()}
	case strings.EqualFold(name, sysSchemaName):
		return &sysDatabase{p, sysSchemaName, sysSchemaTables()}
	}
	return nil
}

var (
	_ sql.Database         = (*sysDatabase)(nil)
	_ sql.ReadOnlyDatabase = (*sysDatabase)(nil)
	_ sql.ViewDatabase     = (*sysDatabase)(nil)

	_ sql.StoredProcedureDatabase = (*sysDatabase)(nil)
)

// Name implements sql.Database.
func (d *sysDatabase) Name() string { return d.name }

// IsReadOnly implements sql.ReadOnlyDatabase.
func (d *sysDatabase) IsReadOnly() bool { return true }

// GetTableInsensitive implements sql.Database.
func (d *sysDatabase) GetTableInsensitive(_ *sql.Context, name string) (sql.Table, bool, error) {
	for _, def := range d.tables {
		if strings.EqualFold(def.name, name) {
			return newSysTable(d, def), true, nil
		}
	}
	return nil, false, nil
}

// GetTableNames implements sql.Database; sorted by name.
func (d *sysDatabase) GetTableNames(*sql.Context) ([]string, error) {
	var names []string
	for _, def := range d.tables {
		names = append(names, def.name)
	}
	return names, nil
}

// GetViewDefinition implements sql.ViewDatabase: there are none. The frontend asks every database.
func (d *sysDatabase) GetViewDefinition(*sql.Context, string) (sql.ViewDefinition, bool, error) {
	return sql.ViewDefinition{}, false, nil
}

// AllViews implements sql.ViewDatabase.
func (d *sysDatabase) AllViews(*sql.Context) ([]sql.ViewDefinition, error) { return nil, nil }

// CreateView implements sql.ViewDatabase.
func (d *sysDatabase) CreateView(*sql.Context, string, string, string) error {
	return errSysDatabase(d.name)
}

// DropView implements sql.ViewDatabase.
func (d *sysDatabase) DropView(*sql.Context, string) error { return errSysDatabase(d.name) }

// GetStoredProcedure implements sql.StoredProcedureDatabase: lancesql's own come from the provider.
func (d *sysDatabase) GetStoredProcedure(*sql.Context, string) (sql.StoredProcedureDetails, bool, error) {
	return sql.StoredProcedureDetails{}, false, nil
}

// GetStoredProcedures implements sql.StoredProcedureDatabase.
func (d *sysDatabase) GetStoredProcedures(*sql.Context) ([]sql.StoredProcedureDetails, error) {
	return nil, nil
}

// SaveStoredProcedure implements sql.StoredProcedureDatabase.
func (d *sysDatabase) SaveStoredProcedure(*sql.Context, sql.StoredProcedureDetails) error {
	return errSysDatabase(d.name)
}

// DropStoredProcedure implements sql.StoredProcedureDatabase.
func (d *sysDatabase) DropStoredProcedure(*sql.Context, string) error { return errSysDatabase(d.name) }

func errSysDatabase(name string) error {
	return newError(1044, "Access denied to database '%s': it shows the server's state", name)
}

// sysColumn is a column of a status table.
type sysColumn struct {
	name string
	typ  sql.Type
	null bool
}

// sysTableDef is a status table: its columns and what computes its rows. rows does no I/O.
type sysTableDef struct {
	name    string
	columns []sysColumn
	rows    func(*Provider) []sql.Row
	session func(*sql.Context) []sql.Row // instead of rows: of the session that asks
}

// sysTable is a status table as one statement sees it.
type sysTable struct {
	database *sysDatabase
	def      sysTableDef
	schema   sql.Schema
}

var (
	_ sql.Table        = (*sysTable)(nil)
	_ sql.Databaseable = (*sysTable)(nil)
)

func newSysTable(d *sysDatabase, def sysTableDef) *sysTable {
	t := &sysTable{database: d, def: def}
	for _, c := range def.columns {
		t.schema = append(t.schema, &sql.Column{Name: c.name, Type: c.typ, Nullable: c.null, Source: def.name, DatabaseSource: d.name})
	}
	return t
}

// Name implements sql.Table.
func (t *sysTable) Name() string { return t.def.name }

// String implements sql.Table.
func (t *sysTable) String() string { return t.def.name }

// Database implements sql.Databaseable.
func (t *sysTable) Database() string { return t.database.name }

// Schema implements sql.Table.
func (t *sysTable) Schema(*sql.Context) sql.Schema { return t.schema }

// Collation implements sql.Table.
func (t *sysTable) Collation() sql.CollationID { return databaseCollation }

// Partitions implements sql.Table: there is one.
func (t *sysTable) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(sysPartition{}), nil
}

// PartitionRows implements sql.Table.
func (t *sysTable) PartitionRows(ctx *sql.Context, _ sql.Partition) (sql.RowIter, error) {
	if t.def.session != nil {
		return sql.RowsToRowIter(t.def.session(ctx)...), nil
	}
	return sql.RowsToRowIter(t.def.rows(t.database.provider)...), nil
}

// sysPartition is the only partition of a status table.
type sysPartition struct{}

// Key implements sql.Partition.
func (sysPartition) Key() []byte { return []byte{0} }

func sysText(length int64) sql.Type {
	return types.MustCreateString(sqltypes.VarChar, length, databaseCollation)
}
