package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
)

// model is what a table should hold: the third opinion beside ours and the reference's.
type model struct {
	columns []modelColumn
	rows    map[int64]arrowx.Row // by id, the first column
}

type modelColumn struct {
	name, kind string // kind as in table_ops.py
	nullable   bool
}

func newModel() *model {
	return &model{
		columns: []modelColumn{{"id", "int64", false}, {"name", "utf8", true}, {"v", "int32", true}},
		rows:    make(map[int64]arrowx.Row),
	}
}

func (m *model) clone() *model {
	c := &model{columns: slices.Clone(m.columns), rows: make(map[int64]arrowx.Row, len(m.rows))}
	for id, row := range m.rows {
		c.rows[id] = slices.Clone(row)
	}
	return c
}

func kindType(kind string) arrow.DataType {
	return map[string]arrow.DataType{
		"int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64, "utf8": arrow.BinaryTypes.String,
		"large_utf8": arrow.BinaryTypes.LargeString, "float64": arrow.PrimitiveTypes.Float64,
	}[kind]
}

func (m *model) schema() *arrow.Schema {
	list := []arrow.Field{}
	for _, c := range m.columns {
		list = append(list, arrow.Field{Name: c.name, Type: kindType(c.kind), Nullable: c.nullable})
	}
	return arrow.NewSchema(list, nil)
}

// text spells cells as table_ops.py does.
func text(row arrowx.Row) []*string {
	out := make([]*string, len(row))
	for i, v := range row {
		if v == nil {
			continue
		}
		s := fmt.Sprint(v)
		if f, ok := v.(float64); ok && f == float64(int64(f)) {
			s = fmt.Sprintf("%.1f", f)
		}
		out[i] = &s
	}
	return out
}

func joinCells(cells []*string) string {
	words := make([]string, len(cells))
	for i, c := range cells {
		words[i] = "NULL"
		if c != nil {
			words[i] = "'" + *c + "'"
		}
	}
	return strings.Join(words, " ")
}

// lines is the sorted text of the rows.
func (m *model) lines() []string {
	out := []string{}
	for _, row := range m.rows {
		out = append(out, joinCells(text(row)))
	}
	slices.Sort(out)
	return out
}

func (m *model) ids() []int64 { return slices.Sorted(maps.Keys(m.rows)) }

// randomCell is a cell of a column.
func randomCell(r *rand.Rand, c modelColumn) any {
	if c.nullable && r.IntN(5) == 0 {
		return nil
	}
	n := r.IntN(10)
	switch c.kind {
	case "int32":
		return int32(n)
	case "int64":
		return int64(n)
	case "float64":
		return float64(n) / 2
	}
	return fmt.Sprint("s", n)
}

func (m *model) randomRow(r *rand.Rand, id int64) arrowx.Row {
	row := arrowx.Row{id}
	for _, c := range m.columns[1:] {
		row = append(row, randomCell(r, c))
	}
	return row
}

// condition is a filter for both sides.
type condition struct {
	sql  string
	expr predicate.Expr
}

func literal(v any) string {
	if s, ok := v.(string); ok {
		return "'" + s + "'"
	}
	return fmt.Sprint(v)
}

// condition draws a filter over one column.
func (m *model) condition(r *rand.Rand) condition {
	at := r.IntN(len(m.columns))
	c := m.columns[at]
	value := func() any {
		if at == 0 {
			if ids := m.ids(); len(ids) > 0 {
				return ids[r.IntN(len(ids))]
			}
			return int64(0)
		}
		c.nullable = false
		return randomCell(r, c)
	}
	a, b := value(), value()
	compare := func(op predicate.Op, v any) predicate.Expr {
		return predicate.Compare{Column: at, Op: op, Value: v}
	}
	switch r.IntN(6) {
	case 0:
		return condition{fmt.Sprintf("%s = %s", c.name, literal(a)), compare(predicate.Eq, a)}
	case 1:
		return condition{fmt.Sprintf("%s > %s", c.name, literal(a)), compare(predicate.Gt, a)}
	case 2:
		return condition{fmt.Sprintf("not (%s < %s)", c.name, literal(a)), predicate.Not{Term: compare(predicate.Lt, a)}}
	case 3:
		return condition{fmt.Sprintf("%s in (%s, %s)", c.name, literal(a), literal(b)), predicate.In{Column: at, Values: []any{a, b}}}
	case 4:
		return condition{c.name + " is null", predicate.IsNull{Column: at}}
	}
	return condition{fmt.Sprintf("%s >= %s and %s <= %s", c.name, literal(a), c.name, literal(b)),
		predicate.And{Terms: []predicate.Expr{compare(predicate.Ge, a), compare(predicate.Le, b)}}}
}

// few is a filter that keeps at most a part of the rows: what deletes and updates take.
func (m *model) few(r *rand.Rand) condition {
	best, count := m.condition(r), -1
	for range 4 {
		c := m.condition(r)
		if n := len(m.kept(c)); count < 0 || n > 0 && n < count {
			best, count = c, n
		}
	}
	return best
}

// kept lists the ids a filter keeps.
func (m *model) kept(c condition) []int64 {
	out := []int64{}
	for _, id := range m.ids() {
		if ok, err := predicate.EvalRow(c.expr, m.rows[id]); err == nil && ok {
			out = append(out, id)
		}
	}
	return out
}

func (m *model) addColumn(c modelColumn, value func(id int64) any) {
	m.columns = append(m.columns, c)
	for id, row := range m.rows {
		m.rows[id] = append(slices.Clone(row), value(id))
	}
}

func (m *model) dropColumn(at int) {
	m.columns = slices.Delete(slices.Clone(m.columns), at, at+1)
	for id, row := range m.rows {
		m.rows[id] = slices.Delete(slices.Clone(row), at, at+1)
	}
}

// castColumn widens int32 to int64 and utf8 to large_utf8.
func (m *model) castColumn(at int, kind string) {
	m.columns = slices.Clone(m.columns)
	m.columns[at].kind = kind
	for id, row := range m.rows {
		row = slices.Clone(row)
		if v, ok := row[at].(int32); ok {
			row[at] = int64(v)
		}
		m.rows[id] = row
	}
}
