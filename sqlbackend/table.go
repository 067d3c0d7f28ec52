package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/internal/predicate"
	"lancesql/lsm"
)

// Table is a table as one statement sees it: shared immutable facts, and this statement's projection and filter.
// Copies are cheap; a copy is never changed after it was handed out (I6).
type Table struct {
	provider *Provider
	info     *tableInfo
	schema   sql.Schema // all columns, owned by this statement

	projection []int             // positions of the columns wanted, nil = all
	filter     predicate.Expr    // rows outside it need not be returned (I3)
	within     []lsm.IndexRanges // what the filter says about keys
	lookup     *sql.IndexLookup
	anyOrder   bool // of the rows of lookup; the filter that made it stays above

	keys   bool // it takes part in a foreign key: all its indexes count (GetIndexes)
	newest bool // scans read what is newest and all own writes, not the statement's view

	comment string

	// exact is shared by all copies of a statement's table: set once the plan is complete and about to change rows.
	exact *bool
	lock  *rowLock // shared as well: what a locking clause asks for, set once the plan is complete
}

var (
	_ sql.Table           = (*Table)(nil)
	_ sql.TemporaryTable  = (*Table)(nil)
	_ sql.PrimaryKeyTable = (*Table)(nil)
	_ sql.ProjectedTable  = (*Table)(nil)
	_ sql.CommentedTable  = (*Table)(nil)
	_ sql.Databaseable    = (*Table)(nil)
	_ sql.CheckTable      = (*Table)(nil)
)

func newTable(p *Provider, info *tableInfo) *Table {
	return &Table{provider: p, info: info, schema: info.copySchema(), comment: info.shape.Comment, exact: new(bool), lock: new(rowLock)}
}

// plainVirtual hides from a statement about rows that columns are VIRTUAL: the frontend would read all columns of the table
// and compute what is stored. Those of functional indexes have to be known to it, but where rows change and are checked: it finds no
// checks of tables with such columns.
func (t *Table) plainVirtual(c *Conn) {
	if c == nil || c.stmt.catalog {
		return
	}
	checked := c.stmt.current && len(t.info.shape.Checks) > 0
	for _, col := range t.schema {
		col.Virtual = col.Virtual && col.HiddenSystem && !checked
	}
}

// Name implements sql.Table.
func (t *Table) Name() string { return t.info.entry.Name }

// String implements sql.Table.
func (t *Table) String() string { return t.info.entry.Name }

// Database implements sql.Databaseable.
func (t *Table) Database() string { return t.info.entry.Database }

// Collation implements sql.Table.
func (t *Table) Collation() sql.CollationID { return t.info.collation }

// Comment implements sql.CommentedTable.
func (t *Table) Comment() string { return t.comment }

// IsTemporary implements sql.TemporaryTable.
func (t *Table) IsTemporary() bool { return t.provider.temporary }

// Schema implements sql.Table: the projected columns.
func (t *Table) Schema(*sql.Context) sql.Schema {
	schema := t.schema
	if *t.exact {
		schema = exactSchema(schema)
	}
	if t.projection == nil {
		return schema
	}
	out := make(sql.Schema, len(t.projection))
	for i, c := range t.projection {
		out[i] = schema[c]
	}
	return out
}

// exactSchema gives text columns the binary collation of their character set. Why: the frontend asks a table's schema
// whether an UPDATE changes a row, and under a case-insensitive collation 'a' to 'A' would be no change.
func exactSchema(schema sql.Schema) sql.Schema {
	out := make(sql.Schema, len(schema))
	for i, c := range schema {
		out[i] = c
		st, ok := c.Type.(sql.StringType)
		if !ok || byteOrdered(st.Collation()) {
			continue
		}
		ct, ok := c.Type.(sql.TypeWithCollation)
		if !ok {
			continue
		}
		if typ, err := ct.WithNewCollation(st.CharacterSet().BinaryCollation()); err == nil {
			out[i] = c.Copy()
			out[i].Type = typ
		}
	}
	return out
}

// PrimaryKeySchema implements sql.PrimaryKeyTable; it ignores the projection.
func (t *Table) PrimaryKeySchema(*sql.Context) sql.PrimaryKeySchema {
	return sql.PrimaryKeySchema{Schema: t.schema, PkOrdinals: t.info.schema.PkOrdinals}
}

// column returns the position of a column, -1 if there is none of that name.
func (t *Table) column(name string) int {
	for i, c := range t.schema {
		if strings.EqualFold(c.Name, name) {
			return i
		}
	}
	return -1
}

// WithProjections implements sql.ProjectedTable. An empty list means rows without columns.
func (t *Table) WithProjections(_ *sql.Context, names []string) (sql.Table, error) {
	nt := *t
	nt.projection = make([]int, len(names))
	for i, n := range names {
		c := t.column(n)
		if c < 0 {
			return nil, sql.ErrColumnNotFound.New(n)
		}
		nt.projection[i] = c
	}
	return &nt, nil
}

// Projections implements sql.ProjectedTable; nil if all columns are read.
func (t *Table) Projections() []string {
	if t.projection == nil {
		return nil
	}
	names := make([]string, len(t.projection))
	for i, c := range t.projection {
		names[i] = t.schema[c].Name
	}
	return names
}

// GetChecks implements sql.CheckTable.
func (t *Table) GetChecks(*sql.Context) ([]sql.CheckDefinition, error) {
	out := make([]sql.CheckDefinition, len(t.info.shape.Checks))
	for i, c := range t.info.shape.Checks {
		out[i] = sql.CheckDefinition{Name: c.Name, CheckExpression: c.Expression, Enforced: c.Enforced}
	}
	return out, nil
}
