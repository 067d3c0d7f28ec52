package sqlbackend

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
	"lancesql/internal/errs"
)

// CreateTable implements sql.TableCreator.
func (d *Database) CreateTable(ctx *sql.Context, name string, schema sql.PrimaryKeySchema, collation sql.CollationID, comment string) error {
	return d.createTable(ctx, name, schema, nil, collation, comment)
}

// CreateIndexedTable implements sql.IndexedTableCreator: a primary key whose parts may be prefixes.
func (d *Database) CreateIndexedTable(ctx *sql.Context, name string, schema sql.PrimaryKeySchema, key sql.IndexDef, collation sql.CollationID, comment string) error {
	return d.createTable(ctx, name, schema, key.Columns, collation, comment)
}

// createTable makes the table with everything the statement says about it, in one step: the indexes and checks the
// frontend adds by later calls are taken from the plan CreateTableHook noted.
func (d *Database) createTable(ctx *sql.Context, name string, schema sql.PrimaryKeySchema, key []sql.IndexColumn, collation sql.CollationID, comment string) error {
	e, err := d.entry(ctx)
	if err != nil {
		return err
	}
	if e.Table(name) != nil {
		return sql.ErrTableAlreadyExists.New(name)
	}
	if _, view, err := d.GetViewDefinition(ctx, name); err != nil || view { // a database of temporary tables has none
		return cmp.Or(err, error(sql.ErrTableAlreadyExists.New(name)))
	}
	c := connOf(ctx)
	if err := c.implicitCommit(ctx); err != nil {
		return err
	}
	if collation == sql.Collation_Unspecified {
		collation = d.GetCollation(ctx)
	}
	s := &shape{Collation: collation.Name(), Comment: comment}
	columns, codecs, err := s.addColumns(ctx, schema.Schema)
	if err != nil {
		return err
	}
	if err := checkRowSize(columns); err != nil {
		return err
	}
	s.addKey(schema, key)
	var start uint64
	if c != nil && c.stmt.creating != nil && strings.EqualFold(c.stmt.creating.Name(), name) {
		if start, err = s.addStatement(ctx, c.stmt.creating); err != nil {
			return err
		}
		if err := s.addLike(ctx, d, name); err != nil {
			return err
		}
	}
	if err := s.addKeyExpressions(ctx, d.name, name, columns); err != nil {
		return err
	}
	like, err := d.likeTable(ctx)
	if err != nil {
		return err
	}
	var former []*shape
	if like != nil {
		former = append(former, like.info.shape)
	}
	if err := s.keepReadable(ctx, d.name, name, former...); err != nil {
		return err
	}
	for _, sc := range s.Columns[len(columns):] { // of indexes over expressions
		typ, err := parseType(ctx, sc.Type, sc.Collation)
		if err != nil {
			return err
		}
		k, err := newCodec(typ)
		if err != nil {
			return err
		}
		columns, codecs = append(columns, &sql.Column{Name: sc.Name, Type: typ, Nullable: true, HiddenSystem: true}), append(codecs, k)
	}
	l, err := newLayout(s, columns, codecs)
	if err != nil {
		return err
	}
	var stmt sqlparser.Statement
	if c != nil {
		stmt = c.stmt.marked
	}
	spread, err := sharding(ctx, stmt, comment, l, columns)
	if err != nil {
		return err
	}
	if _, err := tableOptionsOf(comment); err != nil {
		return err
	}
	b, err := s.marshal()
	if err != nil {
		return err
	}
	def := engine.TableDef{Schema: l.schema, Shape: b, AutoColumn: l.autoColumn, NextAuto: start, Sharding: spread, Indexes: l.indexDefs()}
	if in := d.provider.alteration(ctx); in != nil {
		_, err = in.CreateTable(ctx, d.name, name, def)
	} else {
		_, err = d.provider.engine.CreateTable(ctx, d.name, name, def)
	}
	switch {
	case errors.Is(err, errs.ErrExists):
		return sql.ErrTableAlreadyExists.New(name)
	case err != nil:
		return fmt.Errorf("create table %s.%s: %w", d.name, name, err)
	}
	return nil
}

// addColumns notes the columns, without a row id that comes from CREATE TABLE … LIKE and belongs to the other table.
func (s *shape) addColumns(ctx *sql.Context, schema sql.Schema) (sql.Schema, []codec, error) {
	columns := make(sql.Schema, 0, len(schema))
	codecs := make([]codec, 0, len(schema))
	for _, c := range schema {
		if isRowID(c) {
			continue
		}
		if _, err := newCodec(c.Type); err != nil {
			return nil, nil, err
		}
		sc, err := newShapeColumn(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		k, err := columnCodec(c.Type, sc.Extra)
		if err != nil {
			return nil, nil, err
		}
		if err := checkDefault(ctx, c, k); err != nil {
			return nil, nil, err
		}
		s.Columns = append(s.Columns, sc)
		columns, codecs = append(columns, c), append(codecs, k)
	}
	return columns, codecs, nil
}

// checkDefault refuses a literal default the column cannot store, or must not.
func checkDefault(ctx *sql.Context, c *sql.Column, k codec) error {
	if c.Default == nil || !c.Default.Resolved() || !c.Default.IsLiteral() {
		return nil
	}
	v, err := c.Default.Eval(ctx, nil)
	if err == nil && v != nil {
		_, err = k.encode(ctx, v)
		if isZeroDate(v) && refusesZeroDates(ctx) {
			err = errs.ErrInvalid
		}
	}
	if err != nil {
		return mysql.NewSQLError(mysql.ERInvalidDefault, "42000", "Invalid default value for '%s'", c.Name)
	}
	return nil
}

// addKey notes the primary key; parts give prefix lengths if the statement has any.
func (s *shape) addKey(schema sql.PrimaryKeySchema, parts []sql.IndexColumn) {
	if len(parts) > 0 {
		for _, p := range parts {
			s.Key = append(s.Key, shapePart{Column: p.Name, Length: int(p.Length)})
		}
	} else {
		for _, o := range schema.PkOrdinals {
			s.Key = append(s.Key, shapePart{Column: schema.Schema[o].Name})
		}
	}
	for _, p := range s.Key {
		for i := range s.Columns {
			if strings.EqualFold(s.Columns[i].Name, p.Column) {
				s.Columns[i].Nullable = false
			}
		}
	}
}

// addStatement notes secondary indexes, checks and the first AUTO_INCREMENT value of a CREATE TABLE.
func (s *shape) addStatement(ctx *sql.Context, n *plan.CreateTable) (start uint64, err error) {
	for _, def := range n.Indexes() {
		if def.IsPrimary() {
			continue
		}
		if err := s.addIndex(ctx, def); err != nil {
			return 0, err
		}
	}
	for _, ch := range n.Checks() {
		def, err := plan.NewCheckDefinition(ctx, ch, sql.GetSchemaFormatter(sql.EngineOverrides{}))
		if err != nil {
			return 0, err
		}
		if err := s.addCheck(n.Name(), def); err != nil {
			return 0, err
		}
	}
	if v, ok := n.TableOpts["auto_increment"].(uint64); ok {
		start = v
	}
	return start, nil
}

// likeTable is the table that a CREATE TABLE … LIKE names; nil for other statements.
func (d *Database) likeTable(ctx *sql.Context) (*Table, error) {
	ddl, ok := connOf(ctx).stmt.marked.(*sqlparser.DDL)
	if !ok || ddl.OptLike == nil || len(ddl.OptLike.LikeTables) != 1 {
		return nil, nil
	}
	name := ddl.OptLike.LikeTables[0]
	db, err := d.provider.Database(ctx, databaseOf(ctx, name))
	if err != nil {
		return nil, err
	}
	like, ok, err := db.GetTableInsensitive(ctx, name.Name.String())
	if err != nil || !ok {
		return nil, err
	}
	t, _ := ours(like)
	return t, nil
}

// addLike notes the checks and the indexes of the table in CREATE TABLE … LIKE that the frontend does not carry over (carried), and the prefixes in its
// primary key.
func (s *shape) addLike(ctx *sql.Context, d *Database, table string) error {
	t, err := d.likeTable(ctx)
	if err != nil || t == nil {
		return err
	}
	s.Key = slices.Clone(t.info.shape.Key)
	if len(s.Checks) == 0 { // of a table with virtual columns
		for _, c := range t.info.shape.Checks {
			c.Name = s.freeCheckName(table)
			s.Checks = append(s.Checks, c)
		}
	}
	have := s.Indexes
	s.Indexes = nil
	for i := range t.info.shape.Indexes {
		x := t.info.shape.Indexes[i]
		if at := slices.IndexFunc(have, func(h shapeIndex) bool { return strings.EqualFold(h.Name, x.Name) }); at >= 0 {
			s.placeIndex(have[at])
		} else if !x.carried() {
			for _, name := range x.expressions() {
				s.Columns = append(s.Columns, t.info.shape.Columns[t.info.shape.column(name)])
			}
			s.placeIndex(x)
		}
	}
	return nil
}

// carried reports whether the frontend takes all there is to an index over to another table: it forgets prefixes, and FULLTEXT, and
// refuses hidden columns.
func (x *shapeIndex) carried() bool {
	return x.Kind != kindFulltext && len(x.expressions()) == 0 && !slices.ContainsFunc(x.Parts, func(p shapePart) bool { return p.Length > 0 })
}

// addIndex notes a secondary index. What would have to be enforced or searched is refused.
func (s *shape) addIndex(ctx *sql.Context, def *sql.IndexDef) error {
	switch {
	case def.IsSpatial():
		return notSupported("SPATIAL indexes")
	case def.IsVector():
		return notSupported("VECTOR indexes")
	}
	if def.Name == "" {
		first := def.Columns[0].Name
		if def.Columns[0].Expression != nil {
			first = "functional_index" // as MySQL calls them
		}
		def.Name = s.freeIndexName(first)
	}
	if s.index(def.Name) != nil {
		return sql.ErrDuplicateKey.New(def.Name)
	}
	if idx, ok, err := s.fulltextIndex(def); ok {
		if err == nil {
			s.Indexes = append(s.Indexes, idx)
		}
		return err
	}
	kind, err := scanIndexKind(def)
	if err != nil {
		return err
	}
	idx := shapeIndex{Name: def.Name, Comment: def.Comment, Unique: def.IsUnique(), Kept: true}
	for i, c := range def.Columns {
		if c.Expression != nil {
			sc, err := expressionColumn(ctx, def.Name, i, c.Expression)
			if err != nil {
				return err
			}
			s.Columns = append(s.Columns, sc)
			c.Name = sc.Name
		}
		idx.Parts = append(idx.Parts, shapePart{Column: c.Name, Length: int(c.Length)})
	}
	if kind != "" {
		idx.Kind, idx.Kept = kind, false
	} else if !s.storedAlone(idx) {
		idx.Hidden, idx.Form = s.freeHiddenName(), keyForm
	}
	s.Indexes = append(s.Indexes, idx)
	return nil
}

// expressionColumn is the hidden column that holds the values of an index's part that is an expression.
func expressionColumn(ctx *sql.Context, index string, part int, e sql.Expression) (shapeColumn, error) {
	value, err := sql.NewColumnDefaultValue(e, e.Type(ctx), false, true, true)
	if err != nil {
		return shapeColumn{}, err
	}
	return newShapeColumn(ctx, &sql.Column{Name: sql.HiddenSystemColumnName(index, part), Type: e.Type(ctx), Generated: value,
		Nullable: true, Virtual: true, HiddenSystem: true})
}

// freeIndexName names an index as MySQL does: after its first column, with a number if that is taken.
func (s *shape) freeIndexName(column string) string {
	name := column
	for i := 2; s.index(name) != nil || strings.EqualFold(name, primaryIndex); i++ {
		name = fmt.Sprintf("%s_%d", column, i)
	}
	return name
}

// addCheck notes a check. One without a name gets one; a name that is taken is an error.
func (s *shape) addCheck(table string, def *sql.CheckDefinition) error {
	name := def.Name
	if name != "" && s.hasCheck(name) {
		return sql.ErrDuplicateCheckName.New(name)
	}
	if name == "" {
		name = s.freeCheckName(table)
	}
	def.Name = name
	s.Checks = append(s.Checks, shapeCheck{Name: name, Expression: def.CheckExpression, Enforced: def.Enforced})
	return nil
}

// freeCheckName names a check as MySQL does.
func (s *shape) freeCheckName(table string) string {
	for i := 1; ; i++ {
		if name := fmt.Sprintf("%s_chk_%d", table, i); !s.hasCheck(name) {
			return name
		}
	}
}

func (s *shape) hasCheck(name string) bool {
	for _, c := range s.Checks {
		if strings.EqualFold(c.Name, name) {
			return true
		}
	}
	return false
}
