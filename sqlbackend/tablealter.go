package sqlbackend

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/engine"
	"lancesql/internal/errs"
)

// ALTER TABLE as far as it changes what is known of a table and neither its columns in Arrow nor its keys.
var (
	_ sql.CheckAlterableTable     = (*Table)(nil)
	_ sql.IndexAlterableTable     = (*Table)(nil)
	_ sql.AlterableTable          = (*Table)(nil)
	_ sql.CommentAlterableTable   = (*Table)(nil)
	_ sql.CollationAlterableTable = (*Table)(nil)
)

// changeShape changes the stored shape and lets t see it; that of an append-only table stays.
func (t *Table) changeShape(ctx *sql.Context, change func(*shape) error) error {
	if t.info.appendOnly() {
		return t.info.errAppendOnly("ALTER")
	}
	return t.storeShape(ctx, change)
}

func (t *Table) storeShape(ctx *sql.Context, change func(*shape) error) error {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return err
	}
	entry := t.info.entry
	apply := func(now *engine.TableEntry) ([]byte, error) {
		s, err := unmarshalShape(now.Database+"."+now.Name, now.Shape)
		if err != nil {
			return nil, err
		}
		if err := change(s); err != nil {
			return nil, err
		}
		b, err := s.marshal()
		if err != nil {
			return nil, err
		}
		fresh := *now
		fresh.Shape = b
		_, err = newTableInfo(ctx, &fresh) // a shape that does not fit the columns is never stored
		return b, err
	}
	err := t.provider.alter(ctx, func(a *engine.Alteration) error { return a.ChangeShape(entry.Database, entry.Name, apply) })
	if errors.Is(err, errs.ErrNotFound) {
		return sql.ErrTableNotFound.New(entry.Name)
	}
	if err != nil {
		return err
	}
	d := t.provider.catalog(ctx).Database(entry.Database)
	if d == nil || d.Table(entry.Name) == nil {
		return sql.ErrTableNotFound.New(entry.Name)
	}
	t.info, err = t.provider.info(ctx, d.Table(entry.Name))
	return err
}

// creating reports whether the running statement is the CREATE TABLE that made the table with its indexes and checks.
func (t *Table) creating(ctx *sql.Context) bool {
	c := connOf(ctx)
	return c != nil && c.stmt.creating != nil && strings.EqualFold(c.stmt.creating.Name(), t.Name())
}

// CreateCheck implements sql.CheckAlterableTable. The checks of CREATE TABLE are there already; the frontend has tried
// the rows.
func (t *Table) CreateCheck(ctx *sql.Context, check *sql.CheckDefinition) error {
	if t.creating(ctx) {
		return nil // all of them, whether they have got their names here or not
	}
	r, err := t.info.shape.reader(ctx, t.Database(), t.Name())
	if err != nil {
		return err
	}
	if check.CheckExpression, err = r.readable(check.CheckExpression, nil); err != nil {
		return err
	}
	return t.changeShape(ctx, func(s *shape) error {
		return s.addCheck(t.Name(), check)
	})
}

// DropCheck implements sql.CheckAlterableTable.
func (t *Table) DropCheck(ctx *sql.Context, name string) error {
	return t.changeShape(ctx, func(s *shape) error {
		before := len(s.Checks)
		s.Checks = slices.DeleteFunc(s.Checks, func(c shapeCheck) bool { return strings.EqualFold(c.Name, name) })
		if len(s.Checks) == before {
			return sql.ErrUnknownConstraint.New(name)
		}
		return nil
	})
}

// CreateIndex implements sql.IndexAlterableTable. The indexes of CREATE TABLE are there already.
func (t *Table) CreateIndex(ctx *sql.Context, def sql.IndexDef) error {
	if t.creating(ctx) && t.info.shape.index(def.Name) != nil {
		return nil
	}
	return t.addIndex(ctx, def)
}

// addIndex adds an index; the table is rewritten with it.
func (t *Table) addIndex(ctx *sql.Context, def sql.IndexDef) error {
	// Why: the frontend looks the table up before it adds the columns of an index over expressions.
	if err := t.refresh(ctx); err != nil {
		return err
	}
	s, err := t.info.shape.clone()
	if err == nil {
		err = s.addIndex(ctx, &def)
	}
	if err != nil {
		return err
	}
	switch x := s.Indexes[len(s.Indexes)-1]; {
	case x.scans():
		return t.addScanIndex(ctx, def)
	case x.Kind != "":
		return t.changeShape(ctx, func(s *shape) error { return s.addIndex(ctx, &def) })
	}
	return t.rewriteWith(ctx, s)
}

// DropIndex implements sql.IndexAlterableTable. The columns of an index over expressions go with it.
func (t *Table) DropIndex(ctx *sql.Context, name string) error {
	dropped := "" // a scan index
	var hidden []string
	if x := t.info.shape.index(name); x != nil {
		hidden = x.expressions()
	}
	if len(hidden) > 0 {
		s, err := t.info.shape.clone()
		if err != nil {
			return err
		}
		s.Columns = slices.DeleteFunc(s.Columns, func(c shapeColumn) bool { return slices.Contains(hidden, c.Name) })
		s.Indexes = slices.DeleteFunc(s.Indexes, func(x shapeIndex) bool { return strings.EqualFold(x.Name, name) })
		return t.rewriteWith(ctx, s, hidden...)
	}
	err := t.changeIndexes(ctx, func(s *shape) (kept bool, err error) {
		x := s.index(name)
		if x == nil {
			return false, sql.ErrIndexNotFound.New(name) // which IF EXISTS forgives
		}
		kept = x.Kept
		if x.scans() {
			dropped = x.Name
		}
		s.Indexes = slices.DeleteFunc(s.Indexes, func(x shapeIndex) bool { return strings.EqualFold(x.Name, name) })
		return kept, nil
	})
	if err == nil && dropped != "" {
		t.forgetScanIndex(ctx, dropped)
	}
	return err
}

// expressions are the names of the hidden columns that hold the values of an index's expressions.
func (x *shapeIndex) expressions() (names []string) {
	for _, p := range x.Parts {
		if sql.IsHiddenSystemColumnForIndex(p.Column, x.Name) {
			names = append(names, p.Column)
		}
	}
	return names
}

// changeIndexes changes the index list; if that concerns a kept index the table is rewritten.
func (t *Table) changeIndexes(ctx *sql.Context, change func(*shape) (kept bool, err error)) error {
	s, err := t.info.shape.clone()
	if err != nil {
		return err
	}
	kept, err := change(s)
	if err != nil {
		return err
	}
	if kept {
		return t.rewriteWith(ctx, s)
	}
	return t.changeShape(ctx, func(s *shape) error {
		_, err := change(s)
		return err
	})
}

// RenameIndex implements sql.IndexAlterableTable.
func (t *Table) RenameIndex(ctx *sql.Context, from, to string) error {
	renamed := "" // a scan index
	err := t.changeIndexes(ctx, func(s *shape) (kept bool, err error) {
		x := s.index(from)
		if x == nil {
			return false, sql.ErrCantDropFieldOrKey.New(from)
		}
		if other := s.index(to); other != nil && other != x || strings.EqualFold(to, primaryIndex) {
			return false, sql.ErrDuplicateKey.New(to)
		}
		for i := range x.Parts { // the frontend knows the columns of an index by its name
			if c := x.Parts[i].Column; sql.IsHiddenSystemColumnForIndex(c, from) {
				s.Columns[s.column(c)].Name = sql.HiddenSystemColumnName(to, i)
				x.Parts[i].Column = sql.HiddenSystemColumnName(to, i)
			}
		}
		if x.scans() {
			renamed = x.Name
		}
		x.Name = to
		return x.Kept, nil
	})
	if err == nil && renamed != "" {
		t.forgetScanIndex(ctx, renamed)
		t.buildScanIndexes(ctx)
	}
	return err
}

// ModifyComment implements sql.CommentAlterableTable.
func (t *Table) ModifyComment(ctx *sql.Context, comment string) error {
	if _, err := tableOptionsOf(comment); err != nil {
		return err
	}
	return t.storeShape(ctx, func(s *shape) error {
		s.Comment = comment
		return nil
	})
}

// ModifyDefaultCollation implements sql.CollationAlterableTable: columns keep theirs.
func (t *Table) ModifyDefaultCollation(ctx *sql.Context, collation sql.CollationID) error {
	return t.changeShape(ctx, func(s *shape) error {
		s.Collation = collation.Name()
		return nil
	})
}

// ModifyStoredCollation implements sql.CollationAlterableTable.
func (t *Table) ModifyStoredCollation(*sql.Context, sql.CollationID) error {
	return notSupported("ALTER TABLE … CONVERT TO CHARACTER SET")
}

// AddColumn implements sql.AlterableTable.
func (t *Table) AddColumn(*sql.Context, *sql.Column, *sql.ColumnOrder) error {
	return notSupported("ALTER TABLE … ADD COLUMN")
}

// DropColumn implements sql.AlterableTable.
func (t *Table) DropColumn(*sql.Context, string) error {
	return notSupported("ALTER TABLE … DROP COLUMN")
}

// ModifyColumn implements sql.AlterableTable: defaults, comments, and types that hold all that the old one does in the
// same form.
func (t *Table) ModifyColumn(ctx *sql.Context, name string, c *sql.Column, order *sql.ColumnOrder) error {
	refused := notSupported("ALTER TABLE … MODIFY COLUMN")
	i := t.column(name)
	if i < 0 {
		return sql.ErrTableColumnNotFound.New(t.Name(), name)
	}
	key := t.keyed(i)
	old := t.info.schema.Schema[i]
	inPlace := t.modifiesInPlace(ctx, i, c)
	if !stays(t.schema, i, order) || !inPlace && !old.Type.Equals(c.Type) {
		return refused // Why never met: the frontend rewrites the table
	}
	sc, err := newShapeColumn(ctx, c)
	if err != nil {
		return err
	}
	k, err := columnCodec(c.Type, sc.Extra)
	if err != nil {
		return err
	}
	if err := checkDefault(ctx, c, k); err != nil {
		return err
	}
	after := slices.Clone(t.schema)
	after[i] = c
	if err := checkRowSize(after); err != nil {
		return err
	}
	sc.Nullable = sc.Nullable && !key
	if !inPlace {
		s, err := t.info.shape.clone()
		if err == nil {
			err = s.checksAllow(old.Name, sc.Name)
		}
		if err != nil {
			return err
		}
		s.Columns[i] = sc
		s.renameParts(old.Name, sc.Name)
		return t.rewriteWith(ctx, s)
	}
	changed, err := t.info.shape.clone()
	if err != nil {
		return err
	}
	changed.Columns[i] = sc
	if err := changed.keepReadable(ctx, t.Database(), t.Name(), t.info.shape); err != nil {
		return err
	}
	return t.changeShape(ctx, func(s *shape) error {
		s.Columns[i] = changed.Columns[i]
		return nil
	})
}

// keyed reports whether a column is part of the primary key.
func (t *Table) keyed(i int) bool {
	return slices.ContainsFunc(t.info.key.parts, func(p keyPart) bool { return p.column == i })
}

// modifiesInPlace reports whether a column that keeps its place can become c without its rows being written again.
func (t *Table) modifiesInPlace(ctx context.Context, i int, c *sql.Column) bool {
	old := t.info.schema.Schema[i]
	key := t.keyed(i)
	indexed := slices.ContainsFunc(t.info.indexes, func(x tableIndex) bool {
		return slices.ContainsFunc(x.key.parts, func(p keyPart) bool { return p.column == i })
	})
	switch {
	case old.Name != c.Name, old.AutoIncrement != c.AutoIncrement,
		(old.Generated == nil) != (c.Generated == nil), c.Generated != nil && old.Generated.String() != c.Generated.String(),
		old.Nullable != c.Nullable && !key:
		return false
	}
	if t, ok := c.Type.(timeType); ok && t.digits < timeDigits(old.Type) {
		return false // times are rounded
	}
	if c.Extra == extraUnsigned || declaredUnsigned(ctx, c) {
		return false // rows may be refused
	}
	if sridText(old.Type) != sridText(c.Type) {
		return false // the rows have to be looked at
	}
	return old.Type.Equals(c.Type) || !key && !indexed && widens(old.Type, c.Type)
}

// stays reports whether a column keeps its place.
func stays(schema sql.Schema, i int, order *sql.ColumnOrder) bool {
	switch {
	case order == nil:
		return true
	case order.First:
		return i == 0
	default:
		return i > 0 && strings.EqualFold(schema[i-1].Name, order.AfterColumn)
	}
}

// widens reports whether every value of from is one of to, stored in the same form.
func widens(from, to sql.Type) bool {
	if f, ok := from.(sql.StringType); ok {
		s, ok := to.(sql.StringType)
		if !ok || f.Collation() != s.Collation() || types.IsBinaryType(from) != types.IsBinaryType(to) {
			return false
		}
		if isFixedText(from) != isFixedText(to) || types.IsBinaryType(from) && isFixedText(from) {
			return false // CHAR loses trailing spaces, BINARY has zeros up to its length
		}
		return types.IsText(from) && types.IsText(to) && s.MaxByteLength() >= f.MaxByteLength() && s.MaxCharacterLength() >= f.MaxCharacterLength()
	}
	if f, ok := from.(sql.EnumType); ok {
		e, ok := to.(sql.EnumType)
		return ok && f.Collation() == e.Collation() && isPrefix(f.Values(), e.Values())
	}
	if f, ok := from.(sql.SetType); ok {
		s, ok := to.(sql.SetType)
		return ok && f.Collation() == s.Collation() && isPrefix(f.Values(), s.Values())
	}
	return false
}

// isFixedText reports whether t is CHAR or BINARY.
func isFixedText(t sql.Type) bool {
	text := strings.ToLower(t.String())
	return strings.HasPrefix(text, "char") || strings.HasPrefix(text, "binary")
}

func isPrefix(short, long []string) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}
