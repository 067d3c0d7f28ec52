package sqlbackend

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// convertCharset makes ALTER TABLE … CONVERT TO CHARACTER SET change the columns of texts: to the frontend's grammar it is
// DEFAULT CHARACTER SET, which is for columns to come.
func convertCharset(ctx context.Context, s *sqlparser.AlterTable, text string) {
	if !convertsCharset(text) {
		return
	}
	for _, clause := range s.Statements {
		spec := clause.AlterCollationSpec
		if spec == nil {
			continue
		}
		to, err := sql.ParseCollation(spec.CharacterSet, spec.Collation, false)
		if err != nil {
			return // the frontend says so
		}
		for _, definition := range convertedColumns(ctx, s.Table, to) {
			stmt, err := sqlparser.Parse("ALTER TABLE t MODIFY COLUMN " + definition)
			if err != nil {
				continue
			}
			if modify, ok := stmt.(*sqlparser.AlterTable); ok {
				for _, m := range modify.Statements {
					m.Table = s.Table
					s.Statements = append(s.Statements, m)
				}
			}
		}
		return
	}
}

// convertsCharset reports whether a statement has the words CONVERT TO.
func convertsCharset(text string) bool {
	if !containsFold(text, "convert") {
		return false
	}
	s := newTokens(text, sqlparser.ParserOptions{})
	for s.kind != 0 && s.kind != sqlparser.LEX_ERROR && s.kind != ';' {
		if s.kind == sqlparser.CONVERT {
			if s.next(); s.kind == sqlparser.TO {
				return true
			}
			continue
		}
		s.next()
	}
	return false
}

// convertedColumns are the definitions of a table's columns of texts under another collation.
func convertedColumns(ctx context.Context, name sqlparser.TableName, to sql.CollationID) []string {
	info := tableAtParse(ctx, name)
	if info == nil {
		return nil
	}
	var out []string
	for i, sc := range info.shape.Columns {
		c := info.schema.Schema[i]
		typ, collation := typeText(c.Type)
		if sc.Hidden || collation == "" || !types.IsTextOnly(c.Type) && !types.IsEnum(c.Type) && !types.IsSet(c.Type) {
			continue
		}
		d := (&sql.MySqlSchemaFormatter{}).QuoteIdentifier(sc.Name) + " " + typ + " CHARACTER SET " + to.CharacterSet().Name() + " COLLATE " + to.Name()
		if sc.Generated != nil {
			d += " GENERATED ALWAYS AS (" + *sc.Generated + ")"
			if !sc.Virtual {
				d += " STORED"
			}
		}
		if !sc.Nullable {
			d += " NOT NULL"
		}
		if sc.Default != nil {
			if isLiteralText(*sc.Default) {
				d += " DEFAULT " + *sc.Default
			} else {
				d += " DEFAULT (" + *sc.Default + ")"
			}
		}
		if sc.Comment != "" {
			d += " COMMENT " + quoteText(sc.Comment)
		}
		out = append(out, d)
	}
	return out
}
