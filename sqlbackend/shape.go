package sqlbackend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/internal/errs"
)

// Format numbers of the shape's JSON; readers refuse greater ones than they know. An append-only table has shapeAppendOnly:
// to a reader that does not know of such tables it would seem to have a hidden row id. One with hidden columns has
// shapeHidden: such a reader would show them. One with an index of a newer form has shapeForms: such a reader would write the
// older one.
const (
	shapeVersion    = 1
	shapeAppendOnly = 2
	shapeHidden     = 3
	shapeForms      = 4
)

// shape is what MySQL knows about a table and Arrow cannot say. It is stored as JSON in the catalog and in the
// table metadata of the dataset (key lancesql:table). Column i is physical column i.
type shape struct {
	Version   int           `json:"version"`
	Collation string        `json:"collation"`
	Comment   string        `json:"comment,omitempty"`
	Columns   []shapeColumn `json:"columns"`
	Key       []shapePart   `json:"key,omitempty"` // primary key parts in key order
	Indexes   []shapeIndex  `json:"indexes,omitempty"`
	Checks    []shapeCheck  `json:"checks,omitempty"`

	ForeignKeys []shapeForeignKey `json:"foreign_keys,omitempty"`

	AppendOnly bool `json:"append_only,omitempty"` // the dataset has no primary key, not even a hidden one
}

// shapeForeignKey is a foreign key of this table to a parent table, evaluated by the frontend on every write. An empty
// database is the table's own.
type shapeForeignKey struct {
	Name           string   `json:"name"`
	Columns        []string `json:"columns"`
	ParentDatabase string   `json:"parent_database,omitempty"`
	ParentTable    string   `json:"parent_table"`
	ParentColumns  []string `json:"parent_columns"`
	OnUpdate       string   `json:"on_update,omitempty"`
	OnDelete       string   `json:"on_delete,omitempty"`
	Resolved       bool     `json:"resolved,omitempty"`
}

// shapeColumn is one column. Default, OnUpdate and Generated are SQL text. The values of a Virtual one are stored like
// those of any generated column: what it computes is the same at any time. A Hidden one belongs to an index over an
// expression, which is its Generated.
type shapeColumn struct {
	Name          string  `json:"name"`
	Type          string  `json:"type"` // without character set and collation
	Collation     string  `json:"collation,omitempty"`
	Nullable      bool    `json:"nullable,omitempty"`
	Default       *string `json:"default,omitempty"`
	OnUpdate      *string `json:"on_update,omitempty"`
	Generated     *string `json:"generated,omitempty"`
	Virtual       bool    `json:"virtual,omitempty"`
	Hidden        bool    `json:"hidden,omitempty"`
	AutoIncrement bool    `json:"auto_increment,omitempty"`
	Comment       string  `json:"comment,omitempty"`
	Extra         string  `json:"extra,omitempty"`
}

// shapePart is one part of a key: a column and how many of its leading characters count (0 = all).
type shapePart struct {
	Column string `json:"column"`
	Length int    `json:"length,omitempty"`
}

// shapeIndex is a secondary index. One that is not kept, of a table made before indexes were, is only remembered and
// shown. A kept one is over the physical column Hidden, which holds the parts in an order-preserving form, or over its only
// part if Hidden is empty.
type shapeIndex struct {
	Name    string      `json:"name"`
	Parts   []shapePart `json:"parts"`
	Comment string      `json:"comment,omitempty"`
	Unique  bool        `json:"unique,omitempty"`
	Kept    bool        `json:"kept,omitempty"`
	Hidden  string      `json:"hidden,omitempty"`
	// Form is how the parts are put into Hidden: 1 tells NULL from '' in a text, 0 does not.
	Form int `json:"form,omitempty"`
	// Kind is bitmap or bloomfilter for an index that narrows scans of the base: it is not kept, and found by nobody else.
	Kind string `json:"kind,omitempty"`
}

// shapeCheck is a CHECK constraint, evaluated by the frontend on every write.
type shapeCheck struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
	Enforced   bool   `json:"enforced"`
}

func (s *shape) marshal() ([]byte, error) {
	s.Version = shapeVersion
	if s.AppendOnly {
		s.Version = shapeAppendOnly
	}
	if slices.ContainsFunc(s.Columns, func(c shapeColumn) bool { return c.Hidden }) {
		s.Version = shapeHidden
	}
	if slices.ContainsFunc(s.Indexes, func(x shapeIndex) bool { return x.Form > 0 }) {
		s.Version = shapeForms
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode table shape: %w", err)
	}
	return b, nil
}

// clone returns a shape that may be changed.
func (s *shape) clone() (*shape, error) {
	b, err := s.marshal()
	if err != nil {
		return nil, err
	}
	return unmarshalShape("<memory>", b)
}

func unmarshalShape(object string, b []byte) (*shape, error) {
	var s shape
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, errs.Corrupt(object, -1, "table shape: %v", err)
	}
	if s.Version > shapeForms {
		return nil, fmt.Errorf("table shape of %s has version %d: %w", object, s.Version, errs.ErrNewerFormat)
	}
	return &s, nil
}

func (s *shape) index(name string) *shapeIndex {
	for i := range s.Indexes {
		if strings.EqualFold(s.Indexes[i].Name, name) {
			return &s.Indexes[i]
		}
	}
	return nil
}

// typeText splits a type into its text and its collation's name ("" if it has none).
func typeText(t sql.Type) (text, collation string) {
	ct, ok := t.(sql.TypeWithCollation)
	if !ok {
		return t.String() + sridText(t), ""
	}
	text = ct.StringWithTableCollation(ct.Collation())
	if types.IsEnum(t) || types.IsSet(t) {
		text = escapeMembers(text)
	}
	if ct.Collation() == sql.Collation_binary {
		return text, ""
	}
	return text, ct.Collation().Name()
}

// parseType is the inverse of typeText.
func parseType(ctx context.Context, text, collation string) (sql.Type, error) {
	if t, ok := parseTimeType(text); ok {
		return t, nil
	}
	if t, ok := parseShownNumber(text); ok {
		return t, nil
	}
	t, err := planbuilder.ParseColumnTypeString(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("type %q: %w", text, err)
	}
	ct, ok := t.(sql.TypeWithCollation)
	if !ok {
		return t, nil
	}
	if collation == "" {
		if ct.Collation() == sql.Collation_binary {
			return t, nil
		}
		return ct.WithNewCollation(sql.Collation_binary)
	}
	c, err := sql.ParseCollation("", collation, false)
	if err != nil {
		return nil, fmt.Errorf("collation %q: %w", collation, err)
	}
	return ct.WithNewCollation(c)
}

// newShapeColumn describes a column of CREATE TABLE. errUnsupportedType if its type would not come back as it was.
func newShapeColumn(ctx *sql.Context, c *sql.Column) (shapeColumn, error) {
	text, collation := typeText(c.Type)
	back, err := parseType(ctx, text, collation)
	if err != nil || !back.Equals(c.Type) || sridText(back) != sridText(c.Type) {
		return shapeColumn{}, errUnsupportedType(c.Type)
	}
	extra := c.Extra
	if declaredUnsigned(ctx, c) {
		extra = extraUnsigned
	}
	return shapeColumn{
		Name: c.Name, Type: text, Collation: collation, Nullable: c.Nullable,
		Default: columnDefault(ctx, c), OnUpdate: defaultText(ctx, c.OnUpdate), Generated: defaultText(ctx, c.Generated),
		AutoIncrement: c.AutoIncrement, Comment: c.Comment, Extra: extra, Virtual: c.Virtual, Hidden: c.HiddenSystem,
	}, nil
}

// columnDefault is the text of a column's default. Of a TIME the frontend would write the bare value.
func columnDefault(ctx *sql.Context, c *sql.Column) *string {
	if t, ok := c.Type.(timeType); ok && c.Default != nil && c.Default.Resolved() && c.Default.IsLiteral() {
		v, err := c.Default.Eval(ctx, nil)
		if err == nil && v != nil {
			if shown, err := t.SQL(ctx, nil, v); err == nil {
				text := "'" + shown.ToString() + "'"
				return &text
			}
		}
	}
	return defaultText(ctx, c.Default)
}

// defaultText is the text of a default, with the names of columns alone: the table may get another name.
func defaultText(ctx *sql.Context, d *sql.ColumnDefaultValue) *string {
	if d == nil {
		return nil
	}
	s := printed(ctx, d)
	return &s
}

func unresolvedDefault(text *string) *sql.ColumnDefaultValue {
	if text == nil {
		return nil
	}
	return sql.NewUnresolvedColumnDefaultValue(*text)
}
