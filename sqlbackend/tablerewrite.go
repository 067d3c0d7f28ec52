package sqlbackend

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
	"lancesql/internal/arrowx"
	"lancesql/lsm"
)

// ALTER TABLE that changes columns or keys makes a new table, fills it and puts it in the old one's place: one commit
// point, and every reader of the old table's files sees the old table until then.
var (
	_ sql.RewritableTable          = (*Table)(nil)
	_ sql.PrimaryKeyAlterableTable = (*Table)(nil)
)

// ShouldRewriteTable implements sql.RewritableTable.
func (t *Table) ShouldRewriteTable(ctx *sql.Context, before, after sql.PrimaryKeySchema, old, new *sql.Column) bool {
	if old == nil || new == nil || len(before.Schema) != len(after.Schema) {
		return true // a column or a key comes or goes
	}
	i := t.column(old.Name)
	return i < 0 || !strings.EqualFold(after.Schema[i].Name, new.Name) || !t.modifiesInPlace(ctx, i, new)
}

// RewriteInserter implements sql.RewritableTable. The frontend feeds it the rows of the table in the new schema.
func (t *Table) RewriteInserter(ctx *sql.Context, before, after sql.PrimaryKeySchema, old, new *sql.Column, key []sql.IndexColumn) (sql.RowInserter, error) {
	// Why: a column of the key that is dropped has a place before the first there.
	after.PkOrdinals = slices.DeleteFunc(slices.Clone(after.PkOrdinals), func(i int) bool { return i < 0 })
	same := func(name string) string { return name }
	if old == nil && new == nil && samePrimary(before, after, same) && len(before.Schema) == len(after.Schema) {
		return nothing{}, nil // for a unique index, which CreateIndex has built already
	}
	if !slices.ContainsFunc(after.Schema, func(c *sql.Column) bool { return !c.HiddenSystem }) {
		return nil, newError(1090, "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
	}
	if old != nil && new == nil {
		if err := t.refuseReferenced(ctx, old.Name); err != nil {
			return nil, err
		}
	}
	if new != nil {
		if err := checkRowSize(after.Schema); err != nil {
			return nil, err
		}
	}
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return nil, err
	}
	s, err := t.rewrittenShape(ctx, before, after, old, new, key)
	if err != nil {
		return nil, err
	}
	w, err := t.beginRewrite(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	for i, c := range after.Schema {
		if !isRowID(c) && !t.outdated(c, new) {
			w.places = append(w.places, i)
		}
	}
	if w.computed, err = t.expressions(ctx, s.Columns); err != nil {
		return nil, also(err, w.DiscardChanges(ctx, err))
	}
	return w, nil
}

// nothing is an inserter of rows that are there already.
type nothing struct{}

func (nothing) Insert(*sql.Context, sql.Row) error       { return nil }
func (nothing) StatementBegin(*sql.Context)              {}
func (nothing) DiscardChanges(*sql.Context, error) error { return nil }
func (nothing) StatementComplete(*sql.Context) error     { return nil }
func (nothing) Close(*sql.Context) error                 { return nil }

// rewrittenShape is the table's shape with the columns and the key of a new schema.
func (t *Table) rewrittenShape(ctx *sql.Context, before, after sql.PrimaryKeySchema, old, new *sql.Column, key []sql.IndexColumn) (*shape, error) {
	was := t.info.shape
	s := &shape{Collation: was.Collation, Comment: was.Comment, Checks: slices.Clone(was.Checks)}
	var columns sql.Schema
	for _, c := range after.Schema {
		if !t.outdated(c, new) {
			columns = append(columns, c)
		}
	}
	if _, _, err := s.addColumns(ctx, columns); err != nil {
		return nil, err
	}
	for _, c := range was.Columns {
		if dropped := new == nil && old != nil && strings.EqualFold(old.Name, c.Name); c.Hidden && !dropped && s.column(c.Name) < 0 {
			s.Columns = append(s.Columns, c)
		}
	}
	if old != nil && new != nil {
		if err := s.checksAllow(old.Name, new.Name); err != nil {
			return nil, err
		}
	}
	renamed := func(name string) string {
		if old != nil && new != nil && strings.EqualFold(old.Name, name) {
			return new.Name
		}
		return name
	}
	if samePrimary(before, after, renamed) && key == nil {
		for _, p := range was.Key {
			key = append(key, sql.IndexColumn{Name: renamed(p.Column), Length: int64(p.Length)})
		}
	}
	if len(after.PkOrdinals) == 0 {
		key = nil
	}
	s.addKey(after, key)
	s.ForeignKeys = t.foreignKeysNow(ctx, renamed)
	for _, x := range was.Indexes {
		x.Hidden, x.Kept = "", x.Kind == ""
		var parts []shapePart
		for _, p := range x.Parts {
			if p.Column = renamed(p.Column); s.column(p.Column) >= 0 {
				parts = append(parts, p)
			}
		}
		if x.Parts = parts; len(parts) == 0 {
			continue // the index of a dropped column goes with it
		}
		s.placeIndex(x)
	}
	if len(s.Key) == 0 && len(was.Key) > 0 && !s.autoHasKey() {
		return nil, sql.ErrWrongAutoKey.New()
	}
	return s, nil
}

// checksAllow refuses to give a column that a check uses another name. The frontend does so for RENAME COLUMN only.
func (s *shape) checksAllow(from, to string) error {
	if strings.EqualFold(from, to) {
		return nil
	}
	for _, c := range s.Checks {
		stmt, err := sqlparser.Parse("SELECT " + c.Expression)
		if err != nil {
			return err
		}
		used := false
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			if col, ok := n.(*sqlparser.ColName); ok && col.Name.EqualString(from) {
				used = true
			}
			return !used, nil
		}, stmt)
		if used {
			return sql.ErrCheckConstraintInvalidatedByColumnAlter.New(from, c.Name)
		}
	}
	return nil
}

// outdated reports whether a column of the frontend's new schema belongs to an index that an earlier clause of the statement
// has given another name. The frontend's schema is from before all clauses; it lacks the columns of indexes made by them.
func (t *Table) outdated(c, added *sql.Column) bool {
	return c.HiddenSystem && !isRowID(c) && t.info.shape.column(c.Name) < 0 && (added == nil || !strings.EqualFold(added.Name, c.Name))
}

// autoHasKey reports whether the AUTO_INCREMENT column, if there is one, comes first in a key.
func (s *shape) autoHasKey() bool {
	for _, c := range s.Columns {
		first := func(parts []shapePart) bool { return len(parts) > 0 && strings.EqualFold(parts[0].Column, c.Name) }
		if c.AutoIncrement && !first(s.Key) && !slices.ContainsFunc(s.Indexes, func(x shapeIndex) bool { return first(x.Parts) }) {
			return false
		}
	}
	return true
}

// samePrimary reports whether two schemas have the same primary key.
func samePrimary(before, after sql.PrimaryKeySchema, renamed func(string) string) bool {
	return slices.EqualFunc(before.PkOrdinals, after.PkOrdinals, func(b, a int) bool {
		return strings.EqualFold(renamed(before.Schema[b].Name), after.Schema[a].Name)
	})
}

func (s *shape) column(name string) int {
	return slices.IndexFunc(s.Columns, func(c shapeColumn) bool { return strings.EqualFold(c.Name, name) })
}

// placeIndex notes a kept index and decides where its values are stored.
func (s *shape) placeIndex(x shapeIndex) {
	if x.Hidden, x.Form = "", 0; x.Kind == "" && !s.storedAlone(x) {
		x.Hidden, x.Form = s.freeHiddenName(), keyForm
	}
	s.Indexes = append(s.Indexes, x)
}

// renameParts follows a column's new name in the keys.
func (s *shape) renameParts(from, to string) {
	follow := func(parts []shapePart) {
		for i := range parts {
			if strings.EqualFold(parts[i].Column, from) {
				parts[i].Column = to
			}
		}
	}
	follow(s.Key)
	for _, x := range s.Indexes {
		follow(x.Parts)
	}
}

// rewriter fills the table that takes the place of another.
type rewriter struct {
	table  *Table
	info   *tableInfo // of the new table
	into   *engine.Rebuild
	alone  *engine.Alteration // all that the statement does; nil: the rewriting is one step of it
	places []int              // where a row has its columns

	computed []sql.Expression // what the columns are computed by, over the row; nil for those that are not
	done     bool
}

var _ sql.RowInserter = (*rewriter)(nil)

// beginRewrite makes the new table, empty. Its AUTO_INCREMENT begins at next; 0: it goes on.
func (t *Table) beginRewrite(ctx *sql.Context, s *shape, next uint64) (*rewriter, error) {
	if t.info.appendOnly() {
		return nil, t.info.errAppendOnly("ALTER")
	}
	if err := s.keepReadable(ctx, t.Database(), t.Name(), t.info.shape); err != nil {
		return nil, err
	}
	columns := make(sql.Schema, len(s.Columns))
	codecs := make([]codec, len(s.Columns))
	for i, c := range s.Columns {
		typ, err := parseType(ctx, c.Type, c.Collation)
		if err != nil {
			return nil, err
		}
		if codecs[i], err = newCodec(typ); err != nil {
			return nil, err
		}
		columns[i] = &sql.Column{Name: c.Name, Type: typ, Nullable: c.Nullable, AutoIncrement: c.AutoIncrement, HiddenSystem: c.Hidden}
	}
	l, err := newLayout(s, columns, codecs)
	if err != nil {
		return nil, err
	}
	spread, err := t.spread(ctx, l)
	if err != nil {
		return nil, err
	}
	b, err := s.marshal()
	if err != nil {
		return nil, err
	}
	def := engine.TableDef{Schema: l.schema, Shape: b, AutoColumn: l.autoColumn, Sharding: spread, Indexes: l.indexDefs()}
	def.NextAuto = next
	if next == 0 && t.info.entry.AutoColumn >= 0 && l.autoColumn >= 0 {
		auto, err := t.provider.engine.AutoIncrement(ctx, t.info.entry)
		if err != nil {
			return nil, err
		}
		def.NextAuto = auto.Peek()
	}
	w := &rewriter{table: t}
	in := t.provider.alteration(ctx)
	if in == nil {
		in = t.provider.engine.Alter()
		w.alone = in
	}
	if w.into, err = in.Rebuild(ctx, t.info.entry, def); err != nil {
		return nil, err
	}
	if w.info, err = newTableInfo(ctx, w.into.Entry()); err != nil {
		return nil, errors.Join(err, w.into.Abort(ctx))
	}
	return w, nil
}

// spread keeps the sharding of a table whose sharding column is still a key column stored as it is.
func (t *Table) spread(ctx *sql.Context, l layout) (lsm.Sharding, error) {
	sh, err := t.provider.engine.ShardingOf(ctx, t.info.entry)
	if err != nil || sh == (lsm.Sharding{}) {
		return sh, err
	}
	for _, c := range l.key.columns {
		if f := l.schema.Field(c); f.Name == sh.Column && lsm.ShardableBy(f.Type) {
			return sh, nil
		}
	}
	return lsm.Sharding{}, notSupported("changing the key that a table is partitioned by")
}

// Insert implements sql.RowInserter.
func (w *rewriter) Insert(ctx *sql.Context, row sql.Row) error {
	picked := make(sql.Row, len(w.computed), len(w.computed)+1)
	for i, p := range w.places {
		picked[i] = row[p]
	}
	for i, e := range w.computed { // Why all: the frontend has computed them in its own way, not as rows that are inserted are
		if e == nil {
			continue
		}
		v, err := e.Eval(ctx, picked)
		if err != nil {
			return err
		}
		picked[i] = v
	}
	if w.info.rowID >= 0 {
		picked = append(picked, nil)
	}
	phys, err := w.info.encodeRow(ctx, picked)
	if err != nil {
		return err
	}
	return w.put(ctx, phys, picked)
}

// expressions returns what the generated ones of columns are computed by, over rows of all of them; nil for others.
func (t *Table) expressions(ctx *sql.Context, columns []shapeColumn) (list []sql.Expression, err error) {
	if !slices.ContainsFunc(columns, func(c shapeColumn) bool { return c.Generated != nil }) {
		return make([]sql.Expression, len(columns)), nil
	}
	defer recovered("generated columns of "+t.Name(), &err)
	b, err := columnBuilder(ctx)
	if err != nil {
		return nil, err
	}
	schema := make(sql.Schema, len(columns))
	for i, c := range columns {
		typ, err := parseType(ctx, c.Type, c.Collation)
		if err != nil {
			return nil, err
		}
		schema[i] = &sql.Column{Name: c.Name, Type: typ, Nullable: c.Nullable, Source: t.Name(), DatabaseSource: t.Database(),
			Generated: unresolvedDefault(c.Generated), Virtual: c.Virtual, HiddenSystem: c.Hidden}
	}
	schema = b.ResolveSchemaDefaults(t.Database(), t.Name(), schema)
	for _, c := range schema {
		if c.Generated == nil {
			list = append(list, nil)
			continue
		}
		e, err := overRows(ctx, c.Generated, schema)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// overRows is an expression as it is evaluated over rows of a schema that are inserted.
func overRows(ctx *sql.Context, e sql.Expression, schema sql.Schema) (sql.Expression, error) {
	e, _, err := transform.Expr(ctx, e, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		f, ok := e.(*expression.GetField)
		if !ok {
			return e, transform.SameTree, nil
		}
		return f.WithIndex(schema.IndexOfColName(f.Name())), transform.NewTree, nil
	})
	if err != nil {
		return nil, err
	}
	e, _, err = transform.Expr(ctx, e, exactComparison)
	return e, err
}

// put adds a physical row, whose hidden columns are still to be filled in. row is for messages.
func (w *rewriter) put(ctx *sql.Context, phys arrowx.Row, row sql.Row) error {
	if w.info.rowID >= 0 {
		id, err := w.into.NextRowID(ctx)
		if err != nil {
			return err
		}
		phys[w.info.rowID] = id
	}
	if err := w.info.fill(phys); err != nil {
		return err
	}
	err := w.into.Insert(ctx, phys)
	var dup *engine.DuplicateKeyError
	if errors.As(err, &dup) {
		if row == nil {
			if row, err = w.info.decodeRow(ctx, phys); err != nil {
				return err
			}
		}
		text := w.info.duplicateText(ctx, row, dup.Index)
		text = strings.Replace(text, "'"+dup.Table.Name+".", "'"+w.table.Name()+".", 1)
		return newError(1062, "%s", text)
	}
	return err
}

// StatementBegin implements sql.TableEditor.
func (w *rewriter) StatementBegin(*sql.Context) {}

// DiscardChanges implements sql.TableEditor.
func (w *rewriter) DiscardChanges(ctx *sql.Context, _ error) error {
	if w.done {
		return nil
	}
	w.done = true
	return w.into.Abort(ctx)
}

// StatementComplete implements sql.TableEditor.
func (w *rewriter) StatementComplete(*sql.Context) error { return nil }

// Close implements sql.Closer: the new table takes the old one's place.
func (w *rewriter) Close(ctx *sql.Context) error {
	if w.done {
		return nil
	}
	w.done = true
	// Why: the frontend has read the old table in a transaction of its own, whose views would outlive the table.
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return errors.Join(err, w.into.Abort(ctx))
	}
	if err := w.into.Commit(ctx); err != nil {
		return err
	}
	if w.alone != nil {
		if err := w.alone.Commit(ctx); err != nil {
			return err
		}
	}
	return w.table.refresh(ctx)
}

// refresh lets t see the table that has its name now.
func (t *Table) refresh(ctx *sql.Context) error {
	d := t.provider.catalog(ctx).Database(t.info.entry.Database)
	if d == nil || d.Table(t.info.entry.Name) == nil {
		return sql.ErrTableNotFound.New(t.info.entry.Name)
	}
	info, err := t.provider.info(ctx, d.Table(t.info.entry.Name))
	if err == nil {
		t.info, t.schema = info, info.copySchema()
	}
	return err
}

// rewriteWith rewrites the table under another shape with the same columns.
func (t *Table) rewriteWith(ctx *sql.Context, s *shape, dropped ...string) error {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	w, err := t.beginRewrite(ctx, s, 0)
	if err != nil {
		return err
	}
	for i, c := range t.info.shape.Columns { // Why not by name: one may have got another
		if !slices.ContainsFunc(dropped, func(name string) bool { return strings.EqualFold(name, c.Name) }) {
			w.places = append(w.places, i)
		}
	}
	if err := w.copyRows(ctx); err != nil {
		return also(err, w.DiscardChanges(ctx, err))
	}
	return w.Close(ctx)
}

// recreate puts an empty table of the same definition in the table's place, whose AUTO_INCREMENT begins at 1.
func (t *Table) recreate(ctx *sql.Context) error {
	s, err := t.info.shape.clone()
	if err != nil {
		return err
	}
	w, err := t.beginRewrite(ctx, s, 1)
	if err != nil {
		return err
	}
	w.into.RestartCounter()
	return w.Close(ctx)
}

// copyRows copies the visible columns of every row as they are stored. Columns that the new table has behind them are computed.
func (w *rewriter) copyRows(ctx *sql.Context) (err error) {
	if len(w.info.shape.Columns) > len(w.places) {
		if w.computed, err = w.table.expressions(ctx, w.info.shape.Columns); err != nil {
			return err
		}
	}
	return w.table.eachStored(ctx, w.places, func(row arrowx.Row) error {
		phys := make(arrowx.Row, w.info.entry.Schema.NumFields())
		copy(phys, row)
		if err := w.compute(ctx, phys); err != nil {
			return err
		}
		return w.put(ctx, phys, nil)
	})
}

// eachStored calls f with columns of every row, as they are stored, until it fails.
func (t *Table) eachStored(ctx *sql.Context, columns []int, f func(row arrowx.Row) error) error {
	txn := t.provider.engine.Begin(engine.TxnOptions{ReadOnly: true})
	defer txn.Rollback()
	r, err := txn.Scan(ctx, t.info.entry, engine.Consistent, lsm.ScanSpec{Columns: columns})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // read only
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range int(b.NumRows()) {
			if err := f(arrowx.RowOf(b, i)); err != nil {
				b.Release()
				return err
			}
		}
		b.Release()
	}
}

// compute fills in the columns of a physical row that the old table does not have.
func (w *rewriter) compute(ctx *sql.Context, phys arrowx.Row) error {
	if len(w.computed) <= len(w.places) {
		return nil
	}
	zone := w.info.zone(ctx)
	row := make(sql.Row, len(w.places), len(w.places)+len(w.computed))
	for i, p := range w.places {
		v, err := w.table.info.decodeCell(p, phys[i], zone)
		if err != nil {
			return err
		}
		row[i] = v
	}
	for _, e := range w.computed[len(w.places):] {
		v, err := e.Eval(ctx, row)
		if err == nil && v != nil {
			phys[len(row)], err = w.info.encodeCell(ctx, len(row), v, zone)
		}
		if err != nil {
			return err
		}
		row = append(row, v)
	}
	return nil
}

// CreatePrimaryKey implements sql.PrimaryKeyAlterableTable. The frontend rewrites the table instead.
func (t *Table) CreatePrimaryKey(*sql.Context, []sql.IndexColumn) error {
	return notSupported("ADD PRIMARY KEY without rewriting the table")
}

// DropPrimaryKey implements sql.PrimaryKeyAlterableTable. The frontend rewrites the table instead.
func (t *Table) DropPrimaryKey(*sql.Context) error {
	return notSupported("DROP PRIMARY KEY without rewriting the table")
}
