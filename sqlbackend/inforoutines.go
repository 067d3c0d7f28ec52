package sqlbackend

import (
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// infoRoutines is information_schema.routines and parameters with stored functions, which the frontend does not know.
func (o *operators) infoRoutines(ctx *sql.Context, n *plan.ResolvedTable, row sql.Row) (sql.RowIter, error) {
	rows, err := o.stock.Build(ctx, n, row)
	if err != nil {
		return nil, err
	}
	var more []sql.Row
	for _, db := range connOf(ctx).provider.AllDatabases(ctx) {
		d, ok := db.(*Database)
		if !ok || !d.provider.seesRoutines(ctx, d.name) {
			continue
		}
		t, err := d.texts(ctx)
		if err != nil {
			return nil, err
		}
		for i := range t.byKind[functionText] {
			s := &t.byKind[functionText][i]
			r, err := d.provider.parser.parseRoutine(ctx, s.Text, sql.NewSqlModeFromString(s.SQLMode).ParserOptions())
			if err != nil || r == nil {
				continue // it cannot be read; calling it says so
			}
			if strings.EqualFold(n.Name(), "routines") {
				more = append(more, routineRow(ctx, d, s, r))
			} else {
				more = append(more, parameterRows(d, s, r)...)
			}
		}
	}
	return &thenRows{RowIter: rows, more: more}, nil
}

// seesRoutines reports whether the session may know about the routines of a database.
func (p *Provider) seesRoutines(ctx *sql.Context, db string) bool {
	if p.grants == nil || !p.grants.Enabled() {
		return true
	}
	for _, privilege := range []sql.PrivilegeType{sql.PrivilegeType_Execute, sql.PrivilegeType_CreateRoutine, sql.PrivilegeType_AlterRoutine} {
		if p.grants.UserHasPrivileges(ctx, sql.NewPrivilegedOperation(sql.PrivilegeCheckSubject{Database: db}, privilege)) {
			return true
		}
	}
	return false
}

// thenRows are rows with others behind them.
type thenRows struct {
	sql.RowIter
	ended bool // the frontend's begin again behind their end
	more  []sql.Row
}

// Next implements sql.RowIter.
func (t *thenRows) Next(ctx *sql.Context) (sql.Row, error) {
	if !t.ended {
		row, err := t.RowIter.Next(ctx)
		if err != io.EOF {
			return row, err
		}
		t.ended = true
	}
	if len(t.more) == 0 {
		return nil, io.EOF
	}
	row := t.more[0]
	t.more = t.more[1:]
	return row, nil
}

// typeCells are DATA_TYPE to COLLATION_NAME, and DTD_IDENTIFIER, of a type.
func typeCells(t sql.Type) (cells []any, identifier string) {
	identifier = strings.ToLower(t.String())
	identifier, _, _ = strings.Cut(identifier, " character set ")
	identifier, _, _ = strings.Cut(identifier, " collate ")
	name, _, _ := strings.Cut(identifier, "(")
	name, _, _ = strings.Cut(name, " ")
	var chars, bytes, precision, scale, digits, charset, collation any
	switch t := t.(type) {
	case sql.StringType:
		chars, bytes = t.MaxCharacterLength(), t.MaxByteLength()
		if t.Collation() != sql.Collation_binary {
			charset, collation = t.CharacterSet().Name(), t.Collation().Name()
		}
	case sql.DecimalType:
		precision, scale = uint32(t.Precision()), int64(t.Scale())
	case sql.DatetimeType:
		if !types.IsDateType(t) {
			digits = uint32(t.Precision())
		}
	case timeType:
		digits = uint32(t.digits)
	}
	width := map[string]uint32{"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19, "float": 12, "double": 22}
	if w, ok := width[name]; ok {
		if name == "bigint" && types.IsUnsigned(t) {
			w = 20
		}
		precision = w
		if types.IsInteger(t) {
			scale = int64(0)
		}
	}
	return []any{name, chars, bytes, precision, scale, digits, charset, collation}, identifier
}

func routineRow(ctx *sql.Context, d *Database, s *storedText, r *routine) sql.Row {
	deterministic, access, security, comment := "NO", "CONTAINS SQL", "DEFINER", ""
	for _, c := range r.ddl.ProcedureSpec.Characteristics {
		switch c.Type {
		case sqlparser.CharacteristicValue_Deterministic:
			deterministic = "YES"
		case sqlparser.CharacteristicValue_NoSql, sqlparser.CharacteristicValue_ReadsSqlData, sqlparser.CharacteristicValue_ModifiesSqlData:
			access = strings.ToUpper(string(c.Type))
		case sqlparser.CharacteristicValue_SqlSecurityInvoker:
			security = "INVOKER"
		case sqlparser.CharacteristicValue_Comment:
			comment = c.Comment
		}
	}
	cells, identifier := typeCells(r.body.returns)
	row := sql.NewRow(s.Name, "def", d.name, s.Name, "FUNCTION")
	row = append(row, cells...)
	if scale, ok := cells[4].(int64); ok {
		row[9] = uint32(scale)
	}
	spec := r.ddl
	return append(row, identifier, "SQL", strings.TrimSpace(r.text[spec.SubStatementPositionStart:spec.SubStatementPositionEnd]), nil, "SQL", "SQL",
		deterministic, access, nil, security, s.Created.UTC(), s.Modified.UTC(), s.SQLMode, comment, strings.ReplaceAll(spec.ProcedureSpec.Definer, "`", ""),
		charsetName, sessionText(connOf(ctx), "collation_connection"), d.GetCollation(ctx).Name())
}

// parameterRows are the value of a function, at place 0, and its parameters.
func parameterRows(d *Database, s *storedText, r *routine) []sql.Row {
	row := func(at int, mode, name any, t sql.Type) sql.Row {
		cells, identifier := typeCells(t)
		out := append(sql.NewRow("def", d.name, s.Name, uint64(at), mode, name), cells...)
		return append(out, identifier, "FUNCTION")
	}
	rows := []sql.Row{row(0, nil, nil, r.body.returns)}
	for i, p := range r.body.Params {
		rows = append(rows, row(i+1, "IN", p.Name, p.Type))
	}
	return rows
}
