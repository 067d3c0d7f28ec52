package sqlbackend

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"
)

// schemaFormatter writes SHOW CREATE TABLE: the frontend's text, made such that the same table comes of it again.
type schemaFormatter struct {
	*sql.MySqlSchemaFormatter
}

var _ sql.SchemaFormatter = schemaFormatter{}

// GenerateCreateTableColumnDefinition implements sql.SchemaFormatter.
func (f schemaFormatter) GenerateCreateTableColumnDefinition(c *sql.Column, def, onUpdate string, collation sql.CollationID) string {
	plain := c.Copy()
	plain.Comment = ""
	text := f.MySqlSchemaFormatter.GenerateCreateTableColumnDefinition(plain, shownDefault(c.Type, def), onUpdate, collation)
	start := "  " + f.QuoteIdentifier(c.Name) + " "
	if t, ok := c.Type.(sql.TypeWithCollation); ok {
		start += t.StringWithTableCollation(collation)
	} else {
		start += c.Type.String()
	}
	if rest, ok := strings.CutPrefix(text, start); ok {
		switch {
		case types.IsEnum(c.Type) || types.IsSet(c.Type):
			start = escapeMembers(start)
		case c.Type.Type() == query.Type_VECTOR:
			start = "  " + f.QuoteIdentifier(c.Name) + " " + strings.ToLower(c.Type.String())
		}
		if c.Extra == extraUnsigned {
			start += " " + extraUnsigned
		}
		text = start + rest
	}
	if c.Comment != "" {
		text += " COMMENT " + quoteText(c.Comment)
	}
	return text
}

// GenerateCreateTableIndexDefinition implements sql.SchemaFormatter.
func (f schemaFormatter) GenerateCreateTableIndexDefinition(unique, spatial, fullText, vector bool, id string, columns []string, comment string) (string, bool) {
	text, ok := f.MySqlSchemaFormatter.GenerateCreateTableIndexDefinition(unique, spatial, fullText, vector, id, columns, "")
	if comment != "" {
		text += " COMMENT " + quoteText(comment)
	}
	return text, ok
}

// GenerateCreateTableStatement implements sql.SchemaFormatter.
func (f schemaFormatter) GenerateCreateTableStatement(name string, parts []string, temp, autoInc, charset, collation, comment string) string {
	text := f.MySqlSchemaFormatter.GenerateCreateTableStatement(name, parts, temp, autoInc, charset, collation, "")
	if comment != "" {
		text += " COMMENT=" + quoteText(comment)
	}
	return text
}

// showCreate is SHOW CREATE TABLE of a table whose primary key has prefixes of columns, of which the frontend writes the names only,
// or that has checks, which the frontend does not find behind virtual columns, or expressions that are kept in other words than its own.
func (o *operators) showCreate(ctx *sql.Context, n *plan.ShowCreateTable, row sql.Row) (sql.RowIter, error) {
	resolved, ok := n.Child.(*plan.ResolvedTable)
	if !ok {
		return nil, nil
	}
	t, ok := sql.GetUnderlyingTable(resolved.Table).(*Table)
	if !ok {
		return nil, nil
	}
	n, err := t.shownAs(ctx, n)
	if err != nil {
		return nil, err
	}
	n = n.WithChecks(t.shownChecks()).(*plan.ShowCreateTable)
	if !slices.ContainsFunc(t.info.shape.Key, func(p shapePart) bool { return p.Length > 0 }) {
		return o.stock.Build(ctx, n, row)
	}
	rows, err := o.stock.Build(ctx, n, row)
	if err != nil {
		return nil, err
	}
	var f schemaFormatter
	var names, parts []string
	for _, p := range t.info.shape.Key {
		names = append(names, p.Column)
		part := f.QuoteIdentifier(p.Column)
		if p.Length > 0 {
			part += "(" + strconv.Itoa(p.Length) + ")"
		}
		parts = append(parts, part)
	}
	return &keyIter{
		RowIter: rows, from: "\n" + f.GenerateCreateTablePrimaryKeyDefinition(names), to: "\n  PRIMARY KEY (" + strings.Join(parts, ",") + ")",
	}, nil
}

// shownChecks are the checks of a table as SHOW CREATE TABLE writes them.
func (t *Table) shownChecks() sql.CheckConstraints {
	var list sql.CheckConstraints
	for _, c := range t.info.shape.Checks {
		list = append(list, &sql.CheckConstraint{Name: c.Name, Expr: expression.NewUnresolvedColumn(c.Expression), Enforced: c.Enforced})
	}
	return list
}

// keyIter replaces a line in the text of SHOW CREATE TABLE.
type keyIter struct {
	sql.RowIter
	from, to string
}

// Next implements sql.RowIter.
func (i *keyIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err != nil || len(row) < 2 {
		return row, err
	}
	text, ok := row[1].(string)
	if !ok {
		return row, nil
	}
	out := slices.Clone(row)
	out[1] = strings.Replace(text, i.from, i.to, 1)
	return out, nil
}

// shownDefault is the text of a default. Of members of ENUM and SET the frontend writes the number, which would be read as a text,
// and of bytes always hexadecimal digits, of which there must be one.
func shownDefault(t sql.Type, def string) string {
	switch t := t.(type) {
	case sql.EnumType:
		if n, ok := quotedNumber(def); ok {
			if member, ok := t.At(int(n)); ok {
				return quoteText(member)
			}
		}
	case sql.SetType:
		if n, ok := quotedNumber(def); ok {
			if members, err := t.BitsToString(n); err == nil {
				return quoteText(members)
			}
		}
	case sql.StringType:
		digits, ok := strings.CutPrefix(def, "0x")
		if !ok || t.Collation() != sql.Collation_binary {
			break
		}
		if b, err := hex.DecodeString(digits); err == nil && utf8.Valid(b) && !strings.ContainsFunc(string(b), mustBeHex) {
			return quoteText(string(b))
		}
	}
	return def
}

// mustBeHex reports whether a character cannot be shown in a text.
func mustBeHex(r rune) bool { return unicode.IsControl(r) && r != 0 && r != '\n' && r != '\r' }

func quotedNumber(def string) (uint64, bool) {
	if len(def) < 2 || def[0] != '\'' || def[len(def)-1] != '\'' {
		return 0, false
	}
	n, err := strconv.ParseUint(def[1:len(def)-1], 10, 64)
	return n, err == nil
}

// quoteText writes a text as MySQL does in SHOW CREATE TABLE.
func quoteText(s string) string {
	return "'" + strings.NewReplacer("\x00", `\0`, "\n", `\n`, "\r", `\r`, `\`, `\\`, `'`, `''`).Replace(s) + "'"
}

// escapeMembers doubles the backslashes in the members of an ENUM or SET, where the frontend doubles quotes only.
func escapeMembers(typ string) string { return strings.ReplaceAll(typ, `\`, `\\`) }
