package sqlbackend

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/errs"
)

// Indexes over expressions in CREATE TABLE. The frontend resolves their expressions before the table has columns, so that it
// finds none: they are taken out of the syntax tree, travel in it as an option, and are made with the table.

// keyExpressionOption is the table option that holds such an index, as it stands in the statement.
const keyExpressionOption = "lancesql index over expressions"

// detachKeyExpressions takes indexes over expressions out of a CREATE TABLE.
func detachKeyExpressions(s *sqlparser.DDL) {
	if s.TableSpec == nil || !strings.EqualFold(s.Action, sqlparser.CreateStr) {
		return
	}
	var plain []*sqlparser.IndexDefinition
	for _, x := range s.TableSpec.Indexes {
		expressions := false
		for _, f := range x.Fields {
			expressions = expressions || f.Expression != nil
		}
		if !expressions || x.Info.Primary {
			plain = append(plain, x)
			continue
		}
		s.TableSpec.TableOpts = append(s.TableSpec.TableOpts, &sqlparser.TableOption{Name: keyExpressionOption, Value: sqlparser.String(x)})
	}
	s.TableSpec.Indexes = plain
}

// addKeyExpressions notes the indexes over expressions of the running CREATE TABLE. columns are those of the table.
func (s *shape) addKeyExpressions(ctx *sql.Context, database, table string, columns sql.Schema) error {
	c := connOf(ctx)
	if c == nil {
		return nil
	}
	ddl, ok := c.stmt.marked.(*sqlparser.DDL)
	if !ok || ddl.TableSpec == nil || !strings.EqualFold(ddl.Table.Name.String(), table) {
		return nil
	}
	for _, o := range ddl.TableSpec.TableOpts {
		if o.Name != keyExpressionOption {
			continue
		}
		if ddl.OptSelect != nil {
			return notSupported("CREATE TABLE … SELECT with an index over an expression")
		}
		stmt, err := sqlparser.Parse("CREATE TABLE t (c INT, " + o.Value + ")")
		if err != nil {
			return err
		}
		def, err := indexOver(ctx, stmt.(*sqlparser.DDL).TableSpec.Indexes[0], database, table, columns)
		if err != nil {
			return err
		}
		if err := s.addIndex(ctx, def); err != nil {
			return err
		}
	}
	return nil
}

// indexOver is an index definition with its expressions resolved over the table's columns.
func indexOver(ctx *sql.Context, x *sqlparser.IndexDefinition, database, table string, columns sql.Schema) (*sql.IndexDef, error) {
	def := &sql.IndexDef{Name: x.Info.Name.String()}
	if x.Info.Unique {
		def.Constraint = sql.IndexConstraint_Unique
	}
	for _, o := range x.Options {
		if strings.EqualFold(o.Name, "comment") && o.Value != nil {
			def.Comment = string(o.Value.Val)
		}
	}
	for _, f := range x.Fields {
		part := sql.IndexColumn{Name: f.Column.String()}
		switch {
		case f.Expression != nil:
			e := f.Expression
			for inner, ok := e.(*sqlparser.ParenExpr); ok; inner, ok = e.(*sqlparser.ParenExpr) {
				e = inner.Expr
			}
			if _, column := e.(*sqlparser.ColName); column {
				return nil, newError(3756, "Functional index on a column is not supported. Consider using a regular index instead.")
			}
			if err := knownColumns(e, columns); err != nil {
				return nil, err
			}
			var err error
			if part.Expression, err = resolveOver(ctx, sqlparser.String(f.Expression), database, table, columns); err != nil {
				return nil, err
			}
		case columns.IndexOfColName(part.Name) < 0:
			return nil, sql.ErrKeyColumnDoesNotExist.New(part.Name)
		case f.Length != nil:
			if _, err := fmt.Sscan(string(f.Length.Val), &part.Length); err != nil {
				return nil, fmt.Errorf("length of key part %s: %w", part.Name, errs.ErrInvalid)
			}
		}
		def.Columns = append(def.Columns, part)
	}
	return def, nil
}

// knownColumns fails if an expression names a column that the table has not.
func knownColumns(e sqlparser.Expr, columns sql.Schema) error {
	return sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if c, ok := n.(*sqlparser.ColName); ok && columns.IndexOfColName(c.Name.Lowered()) < 0 {
			return false, newError(1054, "Unknown column '%s' in 'functional index'", c.Name)
		}
		return true, nil
	}, e)
}

// resolveOver resolves the text of an expression over the columns of a table.
func resolveOver(ctx *sql.Context, text, database, table string, columns sql.Schema) (e sql.Expression, err error) {
	defer func() {
		if r := recover(); r != nil { // Why: so the frontend's builder reports what it cannot resolve
			if found, ok := r.(error); ok {
				err = found
			} else {
				err = fmt.Errorf("index over %s: %v: %w", text, r, errs.ErrInvalid)
			}
		}
	}()
	schema := make(sql.Schema, len(columns), len(columns)+1)
	for i, c := range columns {
		schema[i] = c.Copy()
		schema[i].Source, schema[i].DatabaseSource = table, database
		schema[i].Default, schema[i].OnUpdate, schema[i].Generated = nil, nil, nil
	}
	text = "(" + text + ")"
	schema = append(schema, &sql.Column{Name: "!hidden!index", Type: columns[0].Type, Nullable: true, Source: table, DatabaseSource: database,
		Generated: unresolvedDefault(&text), Virtual: true, HiddenSystem: true})
	schema = planbuilder.NewBuilderForColumnDefaultResolution(ctx, sql.EngineOverrides{}).ResolveSchemaDefaults(database, table, schema)
	return schema[len(columns)].Generated.Expr, nil
}
