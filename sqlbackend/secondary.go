package sqlbackend

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/engine"
	"lancesql/internal/arrowx"
)

// tableIndex is a kept secondary index: how its values are made of a row.
type tableIndex struct {
	shape *shapeIndex
	key   keyMap
}

// newTableIndex derives a kept index. position finds a column by its lower-case name; next is the physical position a
// hidden column gets.
func newTableIndex(s *shapeIndex, columns sql.Schema, codecs []codec, position map[string]int, next int) (tableIndex, error) {
	x := tableIndex{shape: s, key: keyMap{hidden: -1, ordered: true}}
	for _, p := range s.Parts {
		i, ok := position[strings.ToLower(p.Column)]
		if !ok {
			return x, sql.ErrKeyColumnDoesNotExist.New(p.Column)
		}
		enc, err := keyPartEncoder(columns[i].Type, codecs[i], p.Length)
		if err != nil {
			return x, err
		}
		if s.Form > 0 && types.IsTextOnly(columns[i].Type) {
			plain := enc
			enc = func(dst []byte, cell any) ([]byte, error) { return plain(append(dst, textMark), cell) }
		}
		x.key.parts = append(x.key.parts, keyPart{column: i, length: p.Length, append: enc})
		x.key.ordered = x.key.ordered && orderedKeyPart(columns[i].Type, p.Length)
	}
	x.key.columns = []int{x.key.parts[0].column}
	if s.Hidden != "" {
		x.key.hidden, x.key.columns = next, []int{next}
	}
	return x, nil
}

// textMark stands before a text in a key of form 1: the end of an empty one would be NULL otherwise.
const textMark = 1

// keyForm is the form of new keys.
const keyForm = 1

// mixesNull reports whether ” and NULL of a part of the index have one key: it was made before keys told them apart.
func (x *Index) mixesNull(part int) bool {
	c := x.table.schema.Schema[x.columns[part]]
	return x.form == 0 && !x.primary && c.Nullable && types.IsTextOnly(c.Type)
}

// storedAlone reports whether the column of an index can be indexed as it is: one that is never NULL and whose bytes
// compare as SQL compares.
func (s *shape) storedAlone(idx shapeIndex) bool {
	if len(idx.Parts) != 1 {
		return false
	}
	for _, c := range s.Columns {
		if !strings.EqualFold(c.Name, idx.Parts[0].Column) || c.Nullable {
			continue
		}
		t, err := parseType(sql.NewEmptyContext(), c.Type, c.Collation)
		if err != nil {
			return false
		}
		k, err := newCodec(t)
		return err == nil && naturalKeyPart(t, k.arrow, idx.Parts[0].Length)
	}
	return false
}

// freeHiddenName names the hidden column of a new index.
func (s *shape) freeHiddenName() string {
	taken := make(map[string]bool)
	for _, x := range s.Indexes {
		taken[x.Hidden] = true
	}
	for n := 1; ; n++ {
		if name := fmt.Sprintf("%s_index_%d", hiddenPrefix, n); !taken[name] {
			return name
		}
	}
}

// indexDefs is the kept indexes as the engine knows them.
func (l *layout) indexDefs() []engine.IndexDef {
	out := make([]engine.IndexDef, len(l.indexes))
	for i, x := range l.indexes {
		out[i] = engine.IndexDef{Name: x.shape.Name, Column: x.key.columns[0], Unique: x.shape.Unique}
		for _, p := range x.key.parts {
			out[i].Parts = append(out[i].Parts, p.column)
		}
	}
	return out
}

// fill computes the hidden columns of a physical row.
func (t *tableInfo) fill(row arrowx.Row) error {
	if err := t.key.fill(row); err != nil {
		return err
	}
	for i := range t.indexes {
		if err := t.indexes[i].key.fill(row); err != nil {
			return err
		}
	}
	return nil
}

// secondary is the frontend's view of a secondary index.
func (t *tableInfo) secondary(s *shapeIndex) *Index {
	x := t.newIndex(s.Name, s.Parts, s.Comment, false)
	x.unique, x.kind, x.form = s.Unique, s.Kind, s.Form
	for i := range t.indexes {
		if t.indexes[i].shape == s {
			x.key, x.slot = &t.indexes[i].key, i
		}
	}
	return x
}

// partsOf returns the parts of a secondary index.
func (t *tableInfo) partsOf(name string) []keyPart {
	for _, x := range t.indexes {
		if strings.EqualFold(x.shape.Name, name) {
			return x.key.parts
		}
	}
	return nil
}
