package wire

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// notFixed is the number of decimals announced for approximate numbers, whose scale is not fixed.
const notFixed = 31

// fieldsOf describes the columns of a result to the client.
func fieldsOf(ctx *sql.Context, schema sql.Schema) []*querypb.Field {
	results := ctx.GetCharacterSetResults()
	fields := make([]*querypb.Field, len(schema))
	for i, col := range schema {
		name := shortName(col.Name)
		column := name // of a table; an expression is none
		if col.Source == "" {
			column = ""
		}
		fields[i] = &querypb.Field{
			Name:         name,
			OrgName:      column,
			Table:        col.Source,
			OrgTable:     col.Source,
			Database:     col.DatabaseSource,
			Type:         col.Type.Type(),
			Charset:      charsetOf(col.Type, results),
			ColumnLength: col.Type.MaxTextResponseByteLength(ctx),
			Flags:        flagsOf(col),
			Decimals:     decimalsOf(col.Type),
		}
	}
	return fields
}

// shortName bounds the name of a column that is the text of an expression, as MySQL does: 255 characters.
func shortName(name string) string {
	const most = 255
	if len(name) <= most {
		return name
	}
	n := 0
	for at := range name {
		if n == most {
			return name[:at]
		}
		n++
	}
	return name
}

// charsetOf returns the character set id of a column: numbers, times and binary strings are "binary", text is what the
// session asked results to be in.
func charsetOf(t sql.Type, results sql.CharacterSetID) uint32 {
	if types.IsBinaryType(t) || isBinaryOnTheWire(t.Type()) {
		return uint32(sql.Collation_binary)
	}
	if results != sql.CharacterSet_Unspecified {
		return uint32(results)
	}
	if collated, ok := t.(sql.TypeWithCollation); ok {
		return uint32(collated.Collation().CharacterSet())
	}
	return uint32(sql.Collation_Default.CharacterSet())
}

func isBinaryOnTheWire(t querypb.Type) bool {
	switch {
	case sqltypes.IsIntegral(t), sqltypes.IsFloat(t):
		return true
	}
	switch t {
	case sqltypes.Decimal, sqltypes.Date, sqltypes.Datetime, sqltypes.Timestamp, sqltypes.Time, sqltypes.Year, sqltypes.Bit,
		sqltypes.Null:
		return true
	}
	return false
}

func flagsOf(col *sql.Column) uint32 {
	var flags querypb.MySqlFlag
	if !col.Nullable {
		flags |= querypb.MySqlFlag_NOT_NULL_FLAG
	}
	if col.AutoIncrement {
		flags |= querypb.MySqlFlag_AUTO_INCREMENT_FLAG
	}
	if col.PrimaryKey {
		flags |= querypb.MySqlFlag_PRI_KEY_FLAG
	}
	if types.IsUnsigned(col.Type) || types.IsYear(col.Type) {
		flags |= querypb.MySqlFlag_UNSIGNED_FLAG
	}
	if z, ok := col.Type.(interface{ Zerofill() bool }); ok && z.Zerofill() {
		flags |= querypb.MySqlFlag_ZEROFILL_FLAG | querypb.MySqlFlag_UNSIGNED_FLAG
	}
	if types.IsBinaryType(col.Type) {
		flags |= querypb.MySqlFlag_BINARY_FLAG
	}
	return uint32(flags)
}

func decimalsOf(t sql.Type) uint32 {
	switch {
	case types.IsDecimal(t):
		if d, ok := t.(sql.DecimalType); ok {
			return uint32(d.Scale())
		}
	case types.IsDatetimeType(t), types.IsTimestampType(t):
		if d, ok := t.(sql.DatetimeType); ok {
			return uint32(d.Precision())
		}
	case t.Type() == sqltypes.Time:
		if d, ok := t.(interface{ Precision() int }); ok {
			return uint32(d.Precision())
		}
		return types.MaxDatetimePrecision
	case sqltypes.IsFloat(t.Type()):
		if d, ok := t.(interface{ Precision() int }); ok {
			return uint32(d.Precision())
		}
		return notFixed
	}
	return 0
}

// withAliases gives the tables of result columns the names the statement has for them: the frontend has lower-case ones.
func withAliases(stmt sqlparser.Statement, schema sql.Schema) sql.Schema {
	var names map[string]string
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if e, ok := n.(*sqlparser.AliasedTableExpr); ok && !e.As.IsEmpty() {
			name := e.As.String()
			if lower := strings.ToLower(name); lower != name {
				if names == nil {
					names = map[string]string{}
				}
				names[lower] = name
			}
		}
		return true, nil
	}, stmt)
	if names == nil {
		return schema
	}
	out := make(sql.Schema, len(schema))
	for i, c := range schema {
		out[i] = c
		if name, ok := names[c.Source]; ok {
			out[i] = c.Copy()
			out[i].Source = name
		}
	}
	return out
}
