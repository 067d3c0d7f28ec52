package sqlbackend

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// extraUnsigned marks a column of DECIMAL, FLOAT or DOUBLE UNSIGNED, types of which the frontend drops the last word. It
// travels in sql.Column.Extra, which those columns do not need otherwise.
const extraUnsigned = "unsigned"

// declaredUnsigned reports whether the running statement defines a column of that name UNSIGNED though its type does
// not say so.
func declaredUnsigned(ctx context.Context, c *sql.Column) bool {
	sctx, ok := ctx.(*sql.Context)
	if !ok || !types.IsDecimal(c.Type) && !types.IsFloat(c.Type) {
		return false
	}
	conn := connOf(sctx)
	return conn != nil && definesUnsigned(conn.stmt.marked, c.Name)
}

func definesUnsigned(stmt sqlparser.Statement, column string) bool {
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		if s.TableSpec == nil {
			return false
		}
		for _, c := range s.TableSpec.Columns {
			if bool(c.Type.Unsigned) && strings.EqualFold(c.Name.String(), column) {
				return true
			}
		}
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			if definesUnsigned(d, column) {
				return true
			}
		}
	}
	return false
}

// unsignedCodec refuses what is below zero.
func unsignedCodec(c codec, t sql.Type) codec {
	encode := c.encode
	c.encode = func(ctx context.Context, v any) (any, error) {
		n, err := toDecimal(v)
		if err == nil && n != nil && n.Sign() < 0 {
			return nil, sql.ErrValueOutOfRange.New(v, t.String()+" "+extraUnsigned)
		}
		return encode(ctx, v)
	}
	return c
}

// columnCodec is the codec of a column, with what its type does not say.
func columnCodec(t sql.Type, extra string) (codec, error) {
	c, err := newCodec(t)
	if err == nil && extra == extraUnsigned {
		c = unsignedCodec(c, t)
	}
	return c, err
}

// Places in the rows of information_schema.columns.
const (
	infoSchemaName  = 1
	infoTable       = 2
	infoColumn      = 3
	infoDefault     = 5
	infoTextLength  = 8
	infoTimeDigits  = 12
	infoType        = 15
	infoExtra       = 17
	infoColumnWidth = 22
)

// infoTable is a table of information_schema with what the frontend leaves out or says otherwise.
func (o *operators) infoTable(ctx *sql.Context, n *plan.ResolvedTable, row sql.Row) (sql.RowIter, error) {
	c := connOf(ctx)
	if c == nil || n.SqlDatabase == nil || !strings.EqualFold(n.SqlDatabase.Name(), sql.InformationSchemaDatabaseName) {
		return nil, nil
	}
	switch strings.ToLower(n.Name()) {
	case "columns":
		rows, err := o.stock.Build(ctx, n, row)
		if err != nil {
			return nil, err
		}
		return &infoColumnsIter{RowIter: rows, provider: c.provider}, nil
	case "routines", "parameters":
		return o.infoRoutines(ctx, n, row)
	case "column_statistics":
		return sql.RowsToRowIter(o.statistics.histograms(ctx)...), nil
	}
	return nil, nil
}

type infoColumnsIter struct {
	sql.RowIter
	provider *Provider
	table    *tableInfo // of the row before
}

// Next implements sql.RowIter.
func (i *infoColumnsIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err != nil || len(row) != infoColumnWidth {
		return row, err
	}
	db, _ := row[infoSchemaName].(string)
	table, _ := row[infoTable].(string)
	column, _ := row[infoColumn].(string)
	if t := i.table; t == nil || t.entry.Database != db || t.entry.Name != table {
		i.table = nil
		d := i.provider.engine.Catalog().Database(db)
		if d == nil || d.Table(table) == nil {
			return row, nil
		}
		if i.table, err = i.provider.info(ctx, d.Table(table)); err != nil {
			return nil, err
		}
	}
	s := i.table.shape
	if at := s.column(column); at >= 0 {
		return describeColumn(row.Copy(), i.table.schema.Schema[at], &s.Columns[at]), nil
	}
	return row, nil
}

// describeColumn corrects a row about a column of ours.
func describeColumn(row sql.Row, c *sql.Column, sc *shapeColumn) sql.Row {
	switch t := c.Type.(type) {
	case timeType:
		row[infoTimeDigits] = t.digits
	case sql.StringType:
		if t.Type() == query.Type_TEXT {
			row[infoTextLength] = t.MaxByteLength()
		}
	}
	if types.IsDateType(c.Type) {
		row[infoTimeDigits] = nil
	}
	extra := ""
	switch {
	case sc.AutoIncrement:
		extra = "auto_increment"
	case sc.Generated != nil && sc.Virtual:
		extra = "VIRTUAL GENERATED"
	case sc.Generated != nil:
		extra = "STORED GENERATED"
	case sc.Default != nil && !isLiteralText(*sc.Default):
		extra = "DEFAULT_GENERATED"
	}
	if sc.OnUpdate != nil {
		extra = strings.TrimSpace(extra + " on update " + strings.TrimSuffix(*sc.OnUpdate, "()"))
	}
	row[infoExtra] = extra
	if sc.Extra == extraUnsigned {
		if text, ok := row[infoType].(string); ok {
			row[infoType] = text + " " + extraUnsigned
		}
	}
	row[infoDefault] = describedDefault(c, sc, row[infoDefault])
	return row
}

// isLiteralText reports whether the text of a default is a literal: a string, a number, b'101', x'41', TRUE, NULL.
func isLiteralText(text string) bool {
	s := newTokens(text, sqlparser.ParserOptions{})
	s.take('-')
	switch s.kind {
	case sqlparser.STRING, sqlparser.INTEGRAL, sqlparser.FLOAT, sqlparser.HEX, sqlparser.HEXNUM, sqlparser.BIT_LITERAL,
		sqlparser.NULL, sqlparser.TRUE, sqlparser.FALSE:
		s.next()
		return s.kind == 0
	}
	return false
}

// describedDefault is a column's default as information_schema and SHOW COLUMNS have it, made of what the frontend says: the value of
// a literal without quotes, as its type shows it, and the text of an expression without parentheses; nil if there is none.
func describedDefault(c *sql.Column, sc *shapeColumn, said any) any {
	plain := mysqlDefault(said)
	if plain == nil || sc.Default == nil || !isLiteralText(*sc.Default) || types.IsBit(c.Type) {
		return plain
	}
	v := plain
	s := newTokens(*sc.Default, sqlparser.ParserOptions{})
	switch s.kind {
	case sqlparser.STRING:
		v = s.text
	case sqlparser.HEX, sqlparser.HEXNUM, sqlparser.BIT_LITERAL:
		return plain
	}
	ctx := sql.NewEmptyContext()
	v, _, err := c.Type.Convert(ctx.Context, v)
	if err != nil {
		return plain
	}
	shown, err := c.Type.SQL(ctx, nil, v)
	if err != nil {
		return plain
	}
	return shown.ToString()
}

// mysqlDefault is the text of a default expression with the names MySQL gives the functions of the current time.
func mysqlDefault(v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	switch foldName(text) {
	case "current_date()", "current_date":
		return "curdate()"
	case "current_time()", "current_time":
		return "curtime()"
	}
	return text
}

// showColumns is SHOW COLUMNS of our tables with the types, collations and extras that MySQL shows.
func (o *operators) showColumns(ctx *sql.Context, n *plan.ShowColumns, row sql.Row) (sql.RowIter, error) {
	var info *tableInfo
	transform.Inspect(n.Child, func(n sql.Node) bool {
		if t, ok := n.(sql.TableNode); ok {
			if ours, ok := t.UnderlyingTable().(*Table); ok {
				info = ours.info
			}
		}
		return info == nil
	})
	if info == nil {
		return nil, nil
	}
	rows, err := o.stock.Build(ctx, n, row)
	if err != nil {
		return nil, err
	}
	defaults := make(map[string]any)
	for _, c := range n.TargetSchema() {
		defaults[strings.ToLower(c.Name)] = information_schema.GetColumnDefault(ctx, c.Default)
	}
	return &showColumnsIter{RowIter: rows, table: info, full: n.Full, defaults: defaults}, nil
}

type showColumnsIter struct {
	sql.RowIter
	table *tableInfo
	full  bool

	defaults map[string]any // by name in small letters
}

// Next implements sql.RowIter: field, type, [collation], null, key, default, extra, [privileges, comment].
func (i *showColumnsIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err != nil {
		return nil, err
	}
	name, _ := row[0].(string)
	at := i.table.shape.column(name)
	if at < 0 {
		return row, nil
	}
	c := i.table.schema.Schema[at]
	text, collation := typeText(c.Type)
	defaults := 4
	row = row.Copy()
	if i.full {
		defaults = 5
		row[2] = nil
		if collation != "" {
			row[2] = collation
		}
	}
	as := make(sql.Row, infoColumnWidth)
	as[infoType], as[infoDefault] = text, i.defaults[strings.ToLower(name)]
	as = describeColumn(as, c, &i.table.shape.Columns[at])
	row[1], row[defaults], row[defaults+1] = as[infoType], as[infoDefault], as[infoExtra]
	return row, nil
}
