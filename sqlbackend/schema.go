package sqlbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/engine"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Names on disk.
const (
	hiddenPrefix   = "__lancesql"
	hiddenKeyName  = "__lancesql_key"   // Binary, order-preserving, equal exactly when SQL says the keys are equal
	hiddenRowName  = "__lancesql_rowid" // Int64, of tables without a key
	rowIDColumn    = sql.HiddenSystemColumnPrefix + "lancesql!rowid"
	nameMetadata   = "lancesql:name" // the MySQL name of a column stored under another one
	keyMetadata    = "lance-schema:unenforced-primary-key"
	keyPosMetadata = "lance-schema:unenforced-primary-key:position"
)

// tableInfo is everything derived from one catalog entry. It is immutable and shared by all connections.
type tableInfo struct {
	entry     *engine.TableEntry
	shape     *shape
	collation sql.CollationID
	codecs    []codec // per visible column
	schema    sql.PrimaryKeySchema
	key       keyMap
	indexes   []tableIndex // kept secondary indexes, in the engine's order
	rowID     int          // physical position of the hidden row id, -1 if the table has a key
	zoned     []bool       // which columns are TIMESTAMP; nil if none is
	dated     []int        // columns of DATE, DATETIME and TIMESTAMP
}

// newTableInfo builds the frontend's view of a stored table.
func newTableInfo(ctx context.Context, entry *engine.TableEntry) (*tableInfo, error) {
	s, err := unmarshalShape(entry.Database+"."+entry.Name, entry.Shape)
	if err != nil {
		return nil, err
	}
	collation, err := sql.ParseCollation("", s.Collation, false)
	if err != nil {
		return nil, fmt.Errorf("table %s.%s: %w", entry.Database, entry.Name, err)
	}
	t := &tableInfo{entry: entry, shape: s, collation: collation, rowID: -1}
	columns := make(sql.Schema, 0, len(s.Columns)+1)
	for _, sc := range s.Columns {
		typ, err := parseType(ctx, sc.Type, sc.Collation)
		if err != nil {
			return nil, fmt.Errorf("table %s.%s, column %s: %w", entry.Database, entry.Name, sc.Name, err)
		}
		c, err := columnCodec(typ, sc.Extra)
		if err != nil {
			return nil, err
		}
		t.codecs = append(t.codecs, c)
		columns = append(columns, &sql.Column{
			Name: sc.Name, Type: typ, Nullable: sc.Nullable, AutoIncrement: sc.AutoIncrement, Comment: sc.Comment,
			Default: unresolvedDefault(sc.Default), OnUpdate: unresolvedDefault(sc.OnUpdate),
			Generated: unresolvedDefault(sc.Generated), Extra: sc.Extra, Virtual: sc.Virtual, HiddenSystem: sc.Hidden,
			Source: entry.Name, DatabaseSource: entry.Database,
		})
	}
	for i, c := range columns {
		if types.IsTime(c.Type) {
			t.dated = append(t.dated, i)
		}
		if types.IsTimestampType(c.Type) {
			if t.zoned == nil {
				t.zoned = make([]bool, len(columns)+1)
			}
			t.zoned[i] = true
		}
	}
	l, err := newLayout(s, columns, t.codecs)
	if err != nil {
		return nil, err
	}
	if !entry.Schema.Equal(l.schema) && entry.Schema.NumFields() != l.schema.NumFields() {
		return nil, errs.Corrupt(entry.Path, -1, "the shape has %d physical columns, the schema %d", l.schema.NumFields(), entry.Schema.NumFields())
	}
	t.key, t.rowID, t.indexes = l.key, l.rowID, l.indexes
	for _, o := range l.ordinals {
		columns[o].PrimaryKey = true
	}
	if t.rowID >= 0 {
		columns = append(columns, &sql.Column{
			Name: rowIDColumn, Type: types.Int64, Nullable: true, HiddenSystem: true,
			Source: entry.Name, DatabaseSource: entry.Database,
		})
		t.codecs = append(t.codecs, sameCodec[int64](types.Int64, arrow.PrimitiveTypes.Int64))
	}
	ordinals := l.ordinals
	if ordinals == nil {
		ordinals = []int{}
	}
	t.schema = sql.PrimaryKeySchema{Schema: columns, PkOrdinals: ordinals}
	return t, nil
}

// isRowID reports whether a column is the hidden row id of a table without a key.
func isRowID(c *sql.Column) bool { return c.HiddenSystem && foldName(c.Name) == rowIDColumn }

// copySchema returns columns nobody else holds.
func (t *tableInfo) copySchema() sql.Schema {
	out := make(sql.Schema, len(t.schema.Schema))
	for i, c := range t.schema.Schema {
		out[i] = c.Copy()
	}
	return out
}

// layout is how a table lies in Arrow.
type layout struct {
	schema     *arrow.Schema
	ordinals   []int // positions of the primary key's columns in key order
	key        keyMap
	indexes    []tableIndex
	rowID      int // physical position of the hidden row id, -1 if there is none
	autoColumn int
}

// newLayout derives the physical schema from a shape. columns and codecs belong to the shape's columns.
func newLayout(s *shape, columns sql.Schema, codecs []codec) (layout, error) {
	l := layout{rowID: -1, autoColumn: -1}
	fields := make([]arrow.Field, len(columns), len(columns)+1)
	position := make(map[string]int, len(columns))
	for i, c := range columns {
		fields[i] = newField(c, codecs[i])
		position[strings.ToLower(c.Name)] = i
		if c.AutoIncrement {
			l.autoColumn = i
		}
	}
	natural, ordered := true, true
	for _, p := range s.Key {
		i, ok := position[strings.ToLower(p.Column)]
		if !ok {
			return l, sql.ErrKeyColumnDoesNotExist.New(p.Column)
		}
		l.ordinals = append(l.ordinals, i)
		enc, err := keyPartEncoder(columns[i].Type, codecs[i], p.Length)
		if err != nil {
			return l, err
		}
		l.key.parts = append(l.key.parts, keyPart{column: i, length: p.Length, append: enc})
		natural = natural && naturalKeyPart(columns[i].Type, codecs[i].arrow, p.Length)
		ordered = ordered && orderedKeyPart(columns[i].Type, p.Length)
		fields[i].Nullable = false
	}
	l.key.hidden, l.key.ordered = -1, ordered
	switch {
	case s.AppendOnly:
	case len(s.Key) == 0:
		l.rowID = len(fields)
		l.key.columns = []int{l.rowID}
		fields = append(fields, arrow.Field{Name: hiddenRowName, Type: arrow.PrimitiveTypes.Int64})
	case natural:
		l.key.columns = l.ordinals
	default:
		l.key.hidden = len(fields)
		l.key.columns = []int{l.key.hidden}
		fields = append(fields, arrow.Field{Name: hiddenKeyName, Type: arrow.BinaryTypes.Binary})
	}
	for i, c := range l.key.columns {
		fields[c] = markKey(fields[c], i+1)
	}
	for i := range s.Indexes {
		if s.Indexes[i].scans() {
			if err := checkScanIndex(s.Indexes[i], columns, codecs, position); err != nil {
				return l, err
			}
		}
		if s.Indexes[i].Kind == kindFulltext {
			if err := checkFulltext(s.Indexes[i], columns, position); err != nil {
				return l, err
			}
		}
		if !s.Indexes[i].Kept {
			continue
		}
		x, err := newTableIndex(&s.Indexes[i], columns, codecs, position, len(fields))
		if err != nil {
			return l, err
		}
		if x.key.hidden >= 0 {
			fields = append(fields, arrow.Field{Name: x.shape.Hidden, Type: arrow.BinaryTypes.Binary, Nullable: true})
		}
		l.indexes = append(l.indexes, x)
	}
	l.schema = arrow.NewSchema(fields, nil)
	var err error
	if l.key, err = newKeyMap(l.key, l.schema); err != nil {
		return l, err
	}
	for i := range l.indexes {
		if l.indexes[i].key, err = newKeyMap(l.indexes[i].key, l.schema); err != nil {
			return l, err
		}
	}
	return l, nil
}

// orderedKeyPart reports whether the key encoding of a part sorts as the frontend's comparison does.
func orderedKeyPart(t sql.Type, length int) bool {
	if length > 0 {
		return false
	}
	st, ok := t.(sql.StringType)
	return !ok || !padded(st.Collation())
}

func newField(c *sql.Column, k codec) arrow.Field {
	f := arrow.Field{Name: diskName(c.Name), Type: k.arrow, Nullable: c.Nullable}
	if f.Name != c.Name {
		f.Metadata = arrow.MetadataFrom(map[string]string{nameMetadata: c.Name})
	}
	return f
}

func markKey(f arrow.Field, position int) arrow.Field {
	m := f.Metadata.ToMap()
	m[keyMetadata] = "true"
	m[keyPosMetadata] = strconv.Itoa(position)
	f.Metadata = arrow.MetadataFrom(m)
	f.Nullable = false
	return f
}

// reservedNames are column names with a meaning of their own to Lance readers.
func reservedName(name string) bool {
	switch strings.ToLower(name) {
	case "_rowid", "_rowaddr", "_rowoffset", "_tombstone", "_distance", "_score", "_row_created_at_version",
		"_row_last_updated_at_version":
		return true
	}
	return strings.HasPrefix(strings.ToLower(name), hiddenPrefix)
}

// diskName is the column's name in the dataset: the MySQL name unless Lance cannot hold it, then with the
// offending bytes percent-encoded.
func diskName(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case i == 0 && reservedName(name), r == '.', r == '%', r == utf8.RuneError, r < 0x20:
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// encodeRow turns a frontend row (schema positions) into a physical row.
func (t *tableInfo) encodeRow(ctx context.Context, row sql.Row) (arrowx.Row, error) {
	if t.rowID >= 0 && len(row) == t.rowID {
		row = append(row[:t.rowID:t.rowID], nil) // see Database.GetTableInsensitive
	}
	if len(row) != len(t.codecs) {
		return nil, fmt.Errorf("a row of %d cells for %d columns: %w", len(row), len(t.codecs), errs.ErrInvalid)
	}
	zone := t.zone(ctx)
	out := make(arrowx.Row, t.entry.Schema.NumFields())
	for i, v := range row {
		if v == nil {
			if i != t.rowID && !t.schema.Schema[i].Nullable {
				return nil, sql.ErrInsertIntoNonNullableProvidedNull.New(t.schema.Schema[i].Name)
			}
			continue
		}
		cell, err := t.encodeCell(ctx, i, v, zone)
		if err != nil {
			return nil, err
		}
		out[i] = cell
	}
	return out, nil
}

// decodeRow turns a physical row into a frontend row.
func (t *tableInfo) decodeRow(ctx context.Context, row arrowx.Row) (sql.Row, error) {
	zone := t.zone(ctx)
	out := make(sql.Row, len(t.codecs))
	for i := range out {
		v, err := t.decodeCell(i, row[i], zone)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (t *tableInfo) decodeCell(column int, cell any, zone *time.Location) (any, error) {
	if cell == nil || t.codecs[column].decode == nil {
		return cell, nil
	}
	v, err := t.codecs[column].decode(cell)
	if err != nil {
		return nil, fmt.Errorf("table %s.%s, column %s: %w", t.entry.Database, t.entry.Name, t.schema.Schema[column].Name, err)
	}
	if zone != nil && t.zoned[column] {
		return fromUTC(v, zone), nil
	}
	return v, nil
}
