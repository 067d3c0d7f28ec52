package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/internal/errs"
)

// What an attached dataset gets where Arrow says nothing: text compares by its bytes, as other readers compare it.
const (
	attachedCollation = sql.Collation_utf8mb4_0900_bin
	attachedKeyChars  = 768  // of a text key, MySQL's longest with four bytes each
	attachedKeyBytes  = 3072 // of a binary key
	columnNameMax     = 64   // characters
	microseconds      = "(6)"
)

// attach is the procedure lancesql.attach: it takes a dataset that somebody else made into the catalog.
func (p *Provider) attach(ctx *sql.Context, db, table, path string) (sql.RowIter, error) {
	d := p.engine.Catalog().Database(db)
	if d == nil {
		return nil, sql.ErrDatabaseNotFound.New(db)
	}
	if d.Table(table) != nil || d.Options[string(viewText)+foldName(table)] != "" {
		return nil, sql.ErrTableAlreadyExists.New(table)
	}
	if strings.TrimRight(table, " ") != table || table == "" || utf8.RuneCountInString(table) > columnNameMax {
		return nil, newError(1103, "Incorrect table name '%s'", table)
	}
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return nil, err
	}
	_, err := p.engine.Attach(ctx, db, table, strings.TrimSuffix(path, "/"), func(s *arrow.Schema) ([]byte, error) {
		sh, err := attachedShape(ctx, s)
		if err != nil {
			return nil, err
		}
		return sh.marshal()
	})
	switch {
	case errors.Is(err, errs.ErrNotFound) && p.engine.Catalog().Database(db) != nil:
		return nil, newError(1017, "Can't find file: '%s' (there is no Lance dataset: %v)", path, err)
	case err != nil:
		return nil, err
	}
	return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
}

// attachedShape is the shape of a dataset's columns: each has the SQL type whose Arrow type it is. The primary key is the
// dataset's; without one the table is append-only. Error 1235 names a column that SQL cannot have.
func attachedShape(ctx context.Context, s *arrow.Schema) (*shape, error) {
	sh := &shape{Collation: attachedCollation.Name()}
	key := make(map[int]string)
	seen := make(map[string]bool)
	for _, f := range s.Fields() {
		position, keyed, err := keyPosition(f)
		if err != nil {
			return nil, err
		}
		c, err := attachedColumn(ctx, f, keyed)
		if err != nil {
			return nil, err
		}
		if seen[foldName(c.Name)] {
			return nil, sql.ErrDuplicateColumn.New(c.Name)
		}
		seen[foldName(c.Name)] = true
		sh.Columns = append(sh.Columns, c)
		if keyed {
			key[position] = c.Name
		}
	}
	for i := 1; len(key) > 0; i++ {
		name, ok := key[i]
		if !ok {
			return nil, notSupported("a primary key without part " + strconv.Itoa(i))
		}
		delete(key, i)
		sh.Key = append(sh.Key, shapePart{Column: name})
	}
	if len(sh.Key) == 0 {
		sh.AppendOnly, sh.Comment = true, appendOnlyComment
	}
	return sh, nil
}

// keyPosition reads the place of a field in the dataset's primary key, from 1.
func keyPosition(f arrow.Field) (position int, keyed bool, err error) {
	if v, ok := f.Metadata.GetValue(keyMetadata); !ok || v != "true" {
		return 0, false, nil
	}
	v, ok := f.Metadata.GetValue(keyPosMetadata)
	if !ok {
		return 1, true, nil
	}
	position, err = strconv.Atoi(v)
	if err != nil {
		return 0, false, fmt.Errorf("column %q: place %q in the primary key: %w", f.Name, v, errs.ErrUnsupported)
	}
	return position, true, nil
}

// attachedColumn is one column of an attached dataset.
func attachedColumn(ctx context.Context, f arrow.Field, keyed bool) (shapeColumn, error) {
	unsupported := func(why string) error {
		return notSupported(fmt.Sprintf("column %s of Arrow type %s%s", f.Name, f.Type, why))
	}
	switch n := utf8.RuneCountInString(f.Name); {
	case n == 0 || strings.TrimRight(f.Name, " ") != f.Name || reservedName(f.Name):
		return shapeColumn{}, newError(1166, "Incorrect column name '%s'", f.Name)
	case n > columnNameMax:
		return shapeColumn{}, newError(1059, "Identifier name '%s' is too long", f.Name)
	}
	text, ok := attachedType(f.Type, keyed)
	if !ok {
		return shapeColumn{}, unsupported("")
	}
	collation := ""
	if f.Type.ID() == arrow.STRING {
		collation = attachedCollation.Name()
	}
	t, err := parseType(ctx, text, collation)
	if err != nil {
		return shapeColumn{}, err
	}
	// Invariant: what SQL writes into the column has the column's type, and what it reads comes back as it was.
	k, err := newCodec(t)
	if err != nil || !arrow.TypeEqual(k.arrow, f.Type) {
		return shapeColumn{}, unsupported("")
	}
	switch {
	case keyed && !naturalKeyPart(t, f.Type, 0):
		return shapeColumn{}, unsupported(" in a primary key")
	case keyed && f.Nullable:
		return shapeColumn{}, unsupported(", nullable in a primary key")
	}
	return shapeColumn{Name: f.Name, Type: text, Collation: collation, Nullable: f.Nullable}, nil
}

// attachedType is the SQL type of an Arrow type; ok is false if there is none. It is the inverse of newCodec, the widest
// type where there are several: docs/types.md.
func attachedType(t arrow.DataType, keyed bool) (text string, ok bool) {
	switch t := t.(type) {
	case *arrow.Int8Type:
		return "tinyint", true
	case *arrow.Int16Type:
		return "smallint", true
	case *arrow.Int32Type:
		return "int", true
	case *arrow.Int64Type:
		return "bigint", true
	case *arrow.Uint8Type:
		return "tinyint unsigned", true
	case *arrow.Uint16Type:
		return "smallint unsigned", true
	case *arrow.Uint32Type:
		return "int unsigned", true
	case *arrow.Uint64Type:
		return "bigint unsigned", true
	case *arrow.Float32Type:
		return "float", true
	case *arrow.Float64Type:
		return "double", true
	case *arrow.Decimal128Type:
		return attachedDecimal(t.Precision, t.Scale)
	case *arrow.Decimal256Type:
		return attachedDecimal(t.Precision, t.Scale)
	case *arrow.Date32Type:
		return "date", true
	case *arrow.TimestampType:
		switch t.TimeZone {
		case "":
			return "datetime" + microseconds, true
		case "UTC":
			return "timestamp" + microseconds, true
		}
	case *arrow.DurationType:
		return "time" + microseconds, true
	case *arrow.FixedSizeListType:
		if t.Elem().ID() == arrow.FLOAT32 && !keyed && t.Len() >= 1 && t.Len() <= types.MaxVectorDimensions {
			return fmt.Sprintf("vector(%d)", t.Len()), true
		}
	case *arrow.StringType:
		if keyed {
			return fmt.Sprintf("varchar(%d)", attachedKeyChars), true
		}
		return "longtext", true
	case *arrow.BinaryType:
		if keyed {
			return fmt.Sprintf("varbinary(%d)", attachedKeyBytes), true
		}
		return "longblob", true
	}
	return "", false
}

func attachedDecimal(precision, scale int32) (text string, ok bool) {
	ok = precision >= 1 && precision <= decimalDigitsMax && scale >= 0 && scale <= min(precision, decimalScaleMax)
	return fmt.Sprintf("decimal(%d,%d)", precision, scale), ok
}
