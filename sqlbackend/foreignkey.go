package sqlbackend

import (
	"bytes"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// Foreign keys are kept in the shape of the child. The frontend enforces them: it looks rows up on the other side
// through foreignKeyEditor, and cascades. Here it is made sure that what it sees is the newest, and stays true until the
// transaction ends: who relies on a parent row locks the value it refers to, shared; who takes one away, exclusive.
var _ sql.ForeignKeyTable = (*Table)(nil)

func newShapeForeignKey(fk sql.ForeignKeyConstraint) shapeForeignKey {
	s := shapeForeignKey{Name: fk.Name, Columns: fk.Columns, ParentTable: fk.ParentTable, ParentColumns: fk.ParentColumns,
		OnUpdate: string(fk.OnUpdate), OnDelete: string(fk.OnDelete), Resolved: fk.IsResolved}
	if !strings.EqualFold(fk.ParentDatabase, fk.Database) {
		s.ParentDatabase = fk.ParentDatabase
	}
	return s
}

func (s shapeForeignKey) constraint(database, table string) sql.ForeignKeyConstraint {
	fk := sql.ForeignKeyConstraint{Name: s.Name, Database: database, Table: table, Columns: slices.Clone(s.Columns),
		ParentDatabase: s.ParentDatabase, ParentTable: s.ParentTable, ParentColumns: slices.Clone(s.ParentColumns),
		OnUpdate: sql.ForeignKeyReferentialAction(s.OnUpdate), OnDelete: sql.ForeignKeyReferentialAction(s.OnDelete), IsResolved: s.Resolved}
	if fk.ParentDatabase == "" {
		fk.ParentDatabase = database
	}
	return fk
}

// references are the foreign keys of a catalog image by their parents' names in lower case.
type references struct {
	of       *engine.Catalog
	byParent map[string][]sql.ForeignKeyConstraint
}

func parentKey(database, table string) string { return foldName(database) + "\x00" + foldName(table) }

// references returns the foreign keys of all tables, collecting them if the catalog has changed. It does no I/O.
func (p *Provider) references(ctx *sql.Context) (*references, error) {
	c := p.catalog(ctx)
	p.mu.RLock()
	r := p.refs
	p.mu.RUnlock()
	if r != nil && r.of == c {
		return r, nil
	}
	r = &references{of: c, byParent: make(map[string][]sql.ForeignKeyConstraint)}
	for _, d := range c.Databases() {
		for _, t := range d.Tables() {
			if t.IsRebuild() || !bytes.Contains(t.Shape, []byte(`"foreign_keys"`)) {
				continue // Why the look at the bytes: most tables have none, and there may be very many
			}
			s, err := unmarshalShape(t.Database+"."+t.Name, t.Shape)
			if err != nil {
				return nil, err
			}
			for _, fk := range s.ForeignKeys {
				c := fk.constraint(d.Name, t.Name)
				key := parentKey(c.ParentDatabase, c.ParentTable)
				r.byParent[key] = append(r.byParent[key], c)
			}
		}
	}
	if c != p.engine.Catalog() {
		return r, nil // Why not kept: nobody else sees that catalog
	}
	p.mu.Lock()
	p.refs = r
	p.mu.Unlock()
	return r, nil
}

// GetDeclaredForeignKeys implements sql.ForeignKeyTable. They come in the order of their names, as InnoDB keeps them.
func (t *Table) GetDeclaredForeignKeys(*sql.Context) ([]sql.ForeignKeyConstraint, error) {
	out := make([]sql.ForeignKeyConstraint, len(t.info.shape.ForeignKeys))
	for i, fk := range t.info.shape.ForeignKeys {
		out[i] = fk.constraint(t.info.entry.Database, t.info.entry.Name)
	}
	slices.SortStableFunc(out, func(a, b sql.ForeignKeyConstraint) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// GetReferencedForeignKeys implements sql.ForeignKeyTable.
func (t *Table) GetReferencedForeignKeys(ctx *sql.Context) ([]sql.ForeignKeyConstraint, error) {
	r, err := t.provider.references(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(r.byParent[parentKey(t.info.entry.Database, t.info.entry.Name)]), nil
}

// refuseReferenced is the error for dropping a column that a foreign key refers to; the frontend asks for the table's own ones only.
func (t *Table) refuseReferenced(ctx *sql.Context, column string) error {
	keys, err := t.GetReferencedForeignKeys(ctx)
	if err != nil {
		return err
	}
	for _, fk := range keys {
		if slices.ContainsFunc(fk.ParentColumns, func(c string) bool { return strings.EqualFold(c, column) }) {
			return newError(1829, "Cannot drop column '%s': needed in a foreign key constraint '%s' of table '%s.%s'", column, fk.Name, fk.Database, fk.Table)
		}
	}
	return nil
}

// AddForeignKey implements sql.ForeignKeyTable. Names of foreign keys are unique in a database.
func (t *Table) AddForeignKey(ctx *sql.Context, fk sql.ForeignKeyConstraint) error {
	if fk.OnUpdate == sql.ForeignKeyReferentialAction_SetDefault || fk.OnDelete == sql.ForeignKeyReferentialAction_SetDefault {
		return sql.ErrForeignKeySetDefault.New()
	}
	r, err := t.provider.references(ctx)
	if err != nil {
		return err
	}
	for _, list := range r.byParent {
		for _, other := range list {
			if strings.EqualFold(other.Database, t.info.entry.Database) && strings.EqualFold(other.Name, fk.Name) {
				return sql.ErrForeignKeyDuplicateName.New(fk.Name)
			}
		}
	}
	return t.changeShape(ctx, func(s *shape) error {
		s.ForeignKeys = append(s.ForeignKeys, newShapeForeignKey(fk))
		return nil
	})
}

// DropForeignKey implements sql.ForeignKeyTable.
func (t *Table) DropForeignKey(ctx *sql.Context, name, _, _ string) error {
	return t.changeShape(ctx, func(s *shape) error {
		before := len(s.ForeignKeys)
		s.ForeignKeys = slices.DeleteFunc(s.ForeignKeys, func(f shapeForeignKey) bool { return strings.EqualFold(f.Name, name) })
		if len(s.ForeignKeys) == before {
			return sql.ErrForeignKeyNotFound.New(name, t.Name())
		}
		return nil
	})
}

// UpdateForeignKey implements sql.ForeignKeyTable. When a table is renamed the frontend calls it before, on the table
// that is renamed, which may be the child or the parent.
func (t *Table) UpdateForeignKey(ctx *sql.Context, name string, fk sql.ForeignKeyConstraint) error {
	if strings.EqualFold(fk.ParentTable, t.Name()) && strings.EqualFold(fk.ParentDatabase, fk.Database) && !strings.EqualFold(fk.Table, t.Name()) {
		fk.ParentTable = fk.Table // of a table that refers to itself the frontend renames the child only
	}
	replace := func(s *shape) error {
		for i := range s.ForeignKeys {
			if strings.EqualFold(s.ForeignKeys[i].Name, name) {
				s.ForeignKeys[i] = newShapeForeignKey(fk)
				return nil
			}
		}
		return sql.ErrForeignKeyNotFound.New(name, t.Name())
	}
	for _, own := range t.info.shape.ForeignKeys {
		if strings.EqualFold(own.Name, name) {
			return t.changeShape(ctx, replace)
		}
	}
	d := &Database{provider: t.provider, name: fk.Database}
	child, ok, err := d.GetTableInsensitive(ctx, fk.Table)
	if err != nil {
		return err
	}
	if !ok {
		return sql.ErrTableNotFound.New(fk.Table)
	}
	return child.(*Table).changeShape(ctx, replace)
}

// foreignKeysNow returns the foreign keys of the table as the catalog has them, with their columns renamed: the frontend
// changes them through another view of the table when it renames a column.
func (t *Table) foreignKeysNow(ctx *sql.Context, renamed func(string) string) []shapeForeignKey {
	list := t.info.shape.ForeignKeys
	if e := t.provider.catalog(ctx).TableByID(t.info.entry.ID); e != nil {
		if s, err := unmarshalShape(e.Database+"."+e.Name, e.Shape); err == nil {
			list = s.ForeignKeys
		}
	}
	out := slices.Clone(list)
	for i := range out {
		out[i].Columns = slices.Clone(out[i].Columns)
		for j, c := range out[i].Columns {
			out[i].Columns[j] = renamed(c)
		}
	}
	return out
}

// CreateIndexForForeignKey implements sql.ForeignKeyTable.
func (t *Table) CreateIndexForForeignKey(ctx *sql.Context, def sql.IndexDef) error {
	return t.addIndex(ctx, def)
}

// GetForeignKeyEditor implements sql.ForeignKeyTable.
func (t *Table) GetForeignKeyEditor(*sql.Context) sql.ForeignKeyEditor {
	t.keys = true
	return &foreignKeyEditor{editor: &editor{table: t}}
}

// keyIndex is an index with the types of its columns as they are declared. The frontend compares those of both sides of a
// foreign key; for queries an index has types in which no literal is rounded (boundType).
type keyIndex struct {
	*Index
}

// ColumnExpressionTypes implements sql.Index.
func (x *keyIndex) ColumnExpressionTypes(*sql.Context) []sql.ColumnExpressionType {
	out := make([]sql.ColumnExpressionType, len(x.columns))
	for i, e := range x.Expressions() {
		out[i] = sql.ColumnExpressionType{Type: x.table.schema.Schema[x.columns[i]].Type, Expression: e}
	}
	return out
}

// implied are the columns of the primary key that an index has behind its own, as MySQL's do.
func (x *Index) implied() []int {
	var out []int
	for _, c := range x.table.schema.PkOrdinals {
		if !x.primary && !slices.Contains(x.columns, c) {
			out = append(out, c)
		}
	}
	return out
}

// ExtendedExpressions implements sql.ExtendedIndex.
func (x *keyIndex) ExtendedExpressions(*sql.Context) []string {
	out := x.Expressions()
	for _, c := range x.implied() {
		out = append(out, x.table.entry.Name+"."+x.table.shape.Columns[c].Name)
	}
	return out
}

// ExtendedColumnExpressionTypes implements sql.ExtendedIndex.
func (x *keyIndex) ExtendedColumnExpressionTypes(ctx *sql.Context) []sql.ColumnExpressionType {
	out := x.ColumnExpressionTypes(ctx)
	for _, c := range x.implied() {
		out = append(out, sql.ColumnExpressionType{Type: x.table.schema.Schema[c].Type, Expression: x.table.entry.Name + "." + x.table.shape.Columns[c].Name})
	}
	return out
}

// declared returns the indexes as foreign keys want them, if the table is looked at for their sake: by an editor, or
// because a statement defines them.
func (t *Table) declared(ctx *sql.Context, list []sql.Index) []sql.Index {
	if c := connOf(ctx); !t.keys && (c == nil || !defines(c.stmt.marked)) {
		return list
	}
	out := make([]sql.Index, len(list))
	for i, x := range list {
		out[i] = &keyIndex{x.(*Index)}
	}
	return out
}

// defines reports whether a statement changes definitions and reads no rows by conditions.
func defines(stmt sqlparser.Statement) bool {
	switch s := stmt.(type) {
	case *sqlparser.AlterTable:
		return true
	case *sqlparser.DDL:
		return s.OptSelect == nil
	}
	return false
}

// undeclared puts the index itself into a look-up.
func undeclared(lookup sql.IndexLookup) sql.IndexLookup {
	if x, ok := lookup.Index.(*keyIndex); ok {
		lookup.Index = x.Index
	}
	return lookup
}

// foreignKeyEditor is an editor whose table is looked at for the sake of foreign keys.
type foreignKeyEditor struct {
	*editor
}

var (
	_ sql.ForeignKeyEditor = (*foreignKeyEditor)(nil)
	_ sql.ReferenceChecker = (*referenceTable)(nil)
)

// GetIndexes implements sql.IndexAddressable.
func (e *foreignKeyEditor) GetIndexes(ctx *sql.Context) ([]sql.Index, error) {
	return e.table.GetIndexes(ctx)
}

// PreciseMatch implements sql.IndexAddressable.
func (e *foreignKeyEditor) PreciseMatch() bool { return true }

// IndexedAccess implements sql.IndexAddressable.
func (e *foreignKeyEditor) IndexedAccess(_ *sql.Context, lookup sql.IndexLookup) sql.IndexedTable {
	nt := *e.table
	lookup = undeclared(lookup)
	nt.newest, nt.lookup = true, &lookup
	return &referenceTable{Table: &nt}
}

// referenceTable is the rows of a table whose columns have the values of a look-up.
type referenceTable struct {
	*Table
	parent bool // the look-up asks whether there is a parent row
}

// SetReferenceCheck implements sql.ReferenceChecker: the look-up asks for a parent row.
func (r *referenceTable) SetReferenceCheck() error {
	r.parent = true
	return nil
}

// LookupPartitions implements sql.IndexedTable.
func (r *referenceTable) LookupPartitions(ctx *sql.Context, lookup sql.IndexLookup) (sql.PartitionIter, error) {
	lookup = undeclared(lookup)
	if err := r.lock(ctx, lookup); err != nil {
		return nil, err
	}
	return r.Table.LookupPartitions(ctx, lookup)
}

// PartitionRows implements sql.Table: exactly the rows of the look-up, above which nobody filters.
func (r *referenceTable) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	rows, err := r.Table.PartitionRows(ctx, p)
	if err != nil {
		return nil, err
	}
	x, ok := r.lookup.Index.(*Index)
	ranges, ok2 := r.lookup.Ranges.(sql.MySQLRangeCollection)
	if !ok || !ok2 || len(ranges) != 1 {
		return rows, nil
	}
	return &matchingRows{RowIter: rows, schema: r.schema, columns: append(slices.Clone(x.columns), x.implied()...), rang: ranges[0]}, nil
}

// matchingRows leaves out the rows outside a range whose bounded parts are points.
type matchingRows struct {
	sql.RowIter
	schema  sql.Schema
	columns []int
	rang    sql.MySQLRange
}

// Next implements sql.RowIter.
func (m *matchingRows) Next(ctx *sql.Context) (sql.Row, error) {
	for {
		row, err := m.RowIter.Next(ctx)
		if err != nil {
			return nil, err
		}
		if m.matches(ctx, row) {
			return row, nil
		}
	}
}

func (m *matchingRows) matches(ctx *sql.Context, row sql.Row) bool {
	for i, part := range m.rang {
		if i >= len(m.columns) {
			break
		}
		if !sql.MySQLRangeCutIsBinding(part.LowerBound) {
			continue
		}
		v := row[m.columns[i]]
		if v == nil {
			return false
		}
		n, err := m.schema[m.columns[i]].Type.Compare(ctx, v, sql.GetMySQLRangeCutKey(part.LowerBound))
		if err != nil || n != 0 {
			return false // Why: a value that the column's type cannot take equals none of the column
		}
	}
	return true
}

// lock locks the value a look-up asks for, in the parent table: shared if it asks for a parent row, exclusive if it asks
// for the children of a row about to go.
func (r *referenceTable) lock(ctx *sql.Context, lookup sql.IndexLookup) error {
	x, ok := lookup.Index.(*Index)
	ranges, ok2 := lookup.Ranges.(sql.MySQLRangeCollection)
	if !ok || !ok2 || len(ranges) != 1 {
		return nil
	}
	values := make(map[string]any) // by column, lower case
	columns := append(slices.Clone(x.columns), x.implied()...)
	for i, part := range ranges[0] {
		if i < len(columns) && sql.MySQLRangeCutIsBinding(part.LowerBound) {
			values[foldName(r.schema[columns[i]].Name)] = sql.GetMySQLRangeCutKey(part.LowerBound)
		}
	}
	var fks []sql.ForeignKeyConstraint
	var err error
	if r.parent {
		fks, err = r.GetReferencedForeignKeys(ctx)
	} else {
		fks, err = r.GetDeclaredForeignKeys(ctx)
	}
	if err != nil {
		return err
	}
	for _, fk := range fks {
		columns := fk.Columns
		if r.parent {
			columns = fk.ParentColumns
		}
		if len(columns) != len(values) || slices.ContainsFunc(columns, func(c string) bool { _, ok := values[foldName(c)]; return !ok }) {
			continue
		}
		if err := r.lockValue(ctx, fk, columns, values); err != nil {
			return err
		}
	}
	return nil
}

// lockValue locks the value of a foreign key's columns: columns names those of this side.
func (r *referenceTable) lockValue(ctx *sql.Context, fk sql.ForeignKeyConstraint, columns []string, values map[string]any) error {
	parent := r.info
	if !r.parent {
		d := r.provider.catalog(ctx).Database(fk.ParentDatabase)
		if d == nil || d.Table(fk.ParentTable) == nil {
			return nil
		}
		var err error
		if parent, err = r.provider.info(ctx, d.Table(fk.ParentTable)); err != nil {
			return err
		}
	}
	var value []byte
	for i, name := range fk.ParentColumns {
		c := parent.schema.Schema.IndexOfColName(foldName(name))
		if c < 0 {
			return nil
		}
		enc, err := keyPartEncoder(parent.schema.Schema[c].Type, parent.codecs[c], 0)
		if err != nil {
			return err
		}
		v, _, err := parent.schema.Schema[c].Type.Convert(quiet(ctx), values[foldName(columns[i])])
		if err != nil {
			return nil // no parent row can have it
		}
		cell, err := parent.encodeCell(ctx, c, v, parent.zone(ctx))
		if err != nil {
			return nil
		}
		if value, err = enc(append(value, foldName(name)...), cell); err != nil {
			return err
		}
	}
	txn, err := connOf(ctx).activeTxn(ctx)
	if err != nil {
		return err
	}
	err = txn.LockReference(ctx, parent.entry, value, !r.parent)
	connOf(ctx).lost(err)
	return err
}
