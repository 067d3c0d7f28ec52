package sqlbackend

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
	"lancesql/lsm"
)

// primaryIndex is the name MySQL gives the primary key.
const primaryIndex = "PRIMARY"

// Index is the primary key, a secondary index, or one that is only remembered and shown.
type Index struct {
	table   *tableInfo
	name    string
	columns []int // positions of the parts
	lengths []int // leading characters that count, 0 = all; nil = all of all parts
	comment string
	primary bool
	unique  bool
	key     *keyMap // nil if it cannot be searched
	slot    int     // the engine's number of a secondary index, -1 for the primary key
	kind    string  // shapeIndex.Kind
	form    int     // shapeIndex.Form
	shown   bool    // a statement shows it and does nothing else with it: the frontend may know that it is FULLTEXT
}

var (
	_ sql.Index        = (*Index)(nil)
	_ sql.OrderedIndex = (*Index)(nil)
)

func (t *tableInfo) primary() *Index {
	if len(t.shape.Key) == 0 {
		return nil
	}
	x := t.newIndex(primaryIndex, t.shape.Key, "", true)
	x.key, x.slot, x.unique = &t.key, -1, true
	return x
}

func (t *tableInfo) newIndex(name string, parts []shapePart, comment string, primary bool) *Index {
	x := &Index{table: t, name: name, comment: comment, primary: primary}
	prefixed := false
	for _, p := range parts {
		for i, c := range t.shape.Columns {
			if strings.EqualFold(c.Name, p.Column) {
				x.columns = append(x.columns, i)
				break
			}
		}
		x.lengths = append(x.lengths, p.Length)
		prefixed = prefixed || p.Length > 0
	}
	if !prefixed {
		x.lengths = nil
	}
	return x
}

// ID implements sql.Index.
func (x *Index) ID() string { return x.name }

// String implements fmt.Stringer.
func (x *Index) String() string { return x.name }

// Database implements sql.Index.
func (x *Index) Database() string { return x.table.entry.Database }

// Table implements sql.Index.
func (x *Index) Table() string { return x.table.entry.Name }

// Expressions implements sql.Index.
func (x *Index) Expressions() []string {
	out := make([]string, len(x.columns))
	for i, c := range x.columns {
		out[i] = x.table.entry.Name + "." + x.table.shape.Columns[c].Name
	}
	return out
}

// IsUnique implements sql.Index.
func (x *Index) IsUnique() bool { return x.unique }

// IsSpatial implements sql.Index.
func (x *Index) IsSpatial() bool { return false }

// IsFullText implements sql.Index.
func (x *Index) IsFullText() bool { return x.shown && x.kind == kindFulltext }

// IsVector implements sql.Index.
func (x *Index) IsVector() bool { return false }

// Comment implements sql.Index.
func (x *Index) Comment() string { return x.comment }

// IndexType implements sql.Index.
func (x *Index) IndexType() string {
	if x.kind == kindFulltext {
		return "FULLTEXT"
	}
	return "BTREE"
}

// IsGenerated implements sql.Index.
func (x *Index) IsGenerated() bool { return false }

// ColumnExpressionTypes implements sql.Index.
func (x *Index) ColumnExpressionTypes(*sql.Context) []sql.ColumnExpressionType {
	out := make([]sql.ColumnExpressionType, len(x.columns))
	for i, e := range x.Expressions() {
		out[i] = sql.ColumnExpressionType{Type: boundType(x.table.schema.Schema[x.columns[i]].Type), Expression: e}
	}
	return out
}

// boundType is the type in which the frontend forms ranges of a column: wide enough that no literal is rounded or
// refused. boundCell makes cells of the bounds.
func boundType(t sql.Type) sql.Type {
	switch t.Type() {
	case query.Type_DECIMAL:
		return types.InternalDecimalType
	case query.Type_FLOAT32:
		return types.Float64
	case query.Type_DATE, query.Type_DATETIME, query.Type_TIMESTAMP:
		return dateBound{types.DatetimeMaxPrecision}
	case query.Type_TIME:
		return types.Time
	default:
		if n, ok := t.(shownNumber); ok {
			t = n.plain()
		}
		if n, ok := t.(types.NumberTypeImpl_); ok && types.IsInteger(t) {
			return integerBound{n}
		}
		return t
	}
}

// dateBound is the type of bounds of dates, which integers are as well, see dateOfDigits.
type dateBound struct{ sql.DatetimeType }

// Convert implements sql.Type.
func (d dateBound) Convert(ctx context.Context, v any) (any, sql.ConvertInRange, error) {
	return d.DatetimeType.Convert(ctx, dateOfDigits(v))
}

// integerBound is the type of bounds of integers. A date is the number it is compared as, see dateValue; the frontend would make
// seconds since 1970 of it.
type integerBound struct{ types.NumberTypeImpl_ }

// Convert implements sql.Type. Nothing tells a DATE from a DATETIME at midnight here; the former is more likely.
func (b integerBound) Convert(ctx context.Context, v any) (any, sql.ConvertInRange, error) {
	at, date := v.(time.Time)
	if !date {
		return b.NumberTypeImpl_.Convert(ctx, v)
	}
	if at.Nanosecond() != 0 {
		return nil, sql.InRange, sql.ErrInvalidValueType.New(v, b)
	}
	n := dateDigits(at)
	if h, m, s := at.Clock(); h+m+s > 0 {
		n = n*1_000_000 + int64(h)*10_000 + int64(m)*100 + int64(s)
	}
	return b.NumberTypeImpl_.Convert(ctx, n)
}

var (
	_ sql.IndexAddressableTable = (*Table)(nil)
	_ sql.IndexedTable          = (*Table)(nil)
	_ sql.IndexSearchableTable  = (*Table)(nil)
)

// GetIndexes implements sql.IndexAddressable. Secondary indexes that cannot be searched, or only in part because prefixes of
// their columns count, are left out while a query is planned.
func (t *Table) GetIndexes(ctx *sql.Context) ([]sql.Index, error) {
	var out []sql.Index
	if p := t.info.primary(); p != nil {
		out = append(out, p)
	}
	c := connOf(ctx)
	all, shows, changes, likens := t.keys || c != nil && c.stmt.catalog, false, false, false
	if c != nil {
		shows, changes, likens = indexUse(c.stmt.marked)
	}
	for i := range t.info.shape.Indexes {
		s := &t.info.shape.Indexes[i]
		if likens && !s.carried() {
			continue
		}
		if x := t.info.secondary(s); all || x.key != nil && x.lengths == nil {
			if x.shown = shows; x.kind == kindFulltext && changes {
				x.lengths = slices.Repeat([]int{1}, len(x.columns)) // as markFulltext makes it
			}
			out = append(out, x)
		}
	}
	return t.declared(ctx, out), nil
}

// indexUse says what a statement does with the indexes it asks for: it shows them, changes the table, or gives them to another
// table (addLike).
func indexUse(stmt sqlparser.Statement) (shows, changes, likens bool) {
	switch s := stmt.(type) {
	case *sqlparser.Show:
		return true, false, false
	case *sqlparser.AlterTable:
		return false, true, false
	case *sqlparser.DDL:
		return false, s.OptLike == nil, s.OptLike != nil
	}
	return false, false, false
}

// PreciseMatch implements sql.IndexAddressable: the frontend's filter stays above every look-up (I3).
func (t *Table) PreciseMatch() bool { return false }

// IndexedAccess implements sql.IndexAddressable.
func (t *Table) IndexedAccess(_ *sql.Context, lookup sql.IndexLookup) sql.IndexedTable {
	nt := *t
	nt.lookup = &lookup
	return &nt
}

// LookupPartitions implements sql.IndexedTable.
func (t *Table) LookupPartitions(ctx *sql.Context, lookup sql.IndexLookup) (sql.PartitionIter, error) {
	scans, err := t.lookupScans(ctx, lookup)
	if err != nil || scans == nil && lookup.IsEmptyRange {
		return sql.PartitionsToPartitionIter(), err
	}
	return sql.PartitionsToPartitionIter(onePartition{scans: scans}), nil
}

// lookupScans returns the scans that answer a look-up.
func (t *Table) lookupScans(ctx *sql.Context, lookup sql.IndexLookup) ([]lsm.ScanSpec, error) {
	if lookup.IsEmptyRange {
		return nil, nil
	}
	lookup = undeclared(lookup)
	x, ok := lookup.Index.(*Index)
	ranges, ok2 := lookup.Ranges.(sql.MySQLRangeCollection)
	if !ok || !ok2 || x.key == nil {
		return []lsm.ScanSpec{{}}, nil
	}
	scans, err := t.info.scansFor(ctx, x, ranges)
	if lookup.IsReverse {
		slices.Reverse(scans)
		for i := range scans {
			scans[i].Backward = true
		}
	}
	return scans, err
}

// looseFrom is the number of rows of a look-up from which they come in any order, where that may be: reading rows in the
// order of an index costs several times what reading them as they lie does.
const looseFrom = 4096

// loosened is the scans of a look-up whose rows may come in any order: one scan of which storage decides whether it uses
// the index, if they have many rows.
func (t *Table) loosened(ctx *sql.Context, txn *engine.Txn, kind engine.ReadKind, scans []lsm.ScanSpec) ([]lsm.ScanSpec, error) {
	one := together(scans)
	if len(one) != 1 || one[0].Within == nil {
		return scans, nil
	}
	var expected lsm.ReadStats
	for _, s := range scans {
		s.Stats = &expected
		if err := txn.PlanScan(ctx, t.info.entry, kind, s); err != nil {
			return nil, err
		}
	}
	if expected.Expected < looseFrom {
		return scans, nil
	}
	return one, nil
}

// together makes one scan of those of the ranges of one index, which leaves it to storage whether to use the index. Scans
// of keys, and of one value, stay as they are.
func together(scans []lsm.ScanSpec) []lsm.ScanSpec {
	one := lsm.IndexRanges{Index: lsm.PrimaryKey}
	for _, s := range scans {
		switch {
		case s.Range != nil:
			one.Ranges = append(one.Ranges, *s.Range)
		case s.Index != nil && (len(scans) > 1 || !isPointRange(s.Index.Range)):
			one.Index = s.Index.Index
			one.Ranges = append(one.Ranges, s.Index.Range)
		default:
			return scans
		}
	}
	if len(scans) == 0 {
		return nil
	}
	return []lsm.ScanSpec{{Within: []lsm.IndexRanges{one}}}
}

// isPointRange reports whether a range is all that begins with one value.
func isPointRange(r lsm.KeyRange) bool { return r.Hi != "" && r.Hi == after(r.Lo) }

// SkipIndexCosting implements sql.IndexSearchable: ranges are left to the frontend's planner.
func (t *Table) SkipIndexCosting() bool { return false }

// LookupForExpressions implements sql.IndexSearchable for the commonest case, all key parts equal to literals: it
// spares the frontend the costing, a fifth of a point read.
func (t *Table) LookupForExpressions(ctx *sql.Context, exprs ...sql.Expression) (sql.IndexLookup, *sql.FuncDepSet, sql.Expression, bool, error) {
	x := t.info.primary()
	if x == nil || x.lengths != nil || t.lookup != nil {
		return sql.IndexLookup{}, nil, nil, false, nil
	}
	if lookup, ok := t.lookupList(ctx, x, exprs); ok {
		return lookup, nil, nil, true, nil
	}
	rang := make(sql.MySQLRange, len(x.columns))
	found := 0
	for _, e := range exprs {
		name, lit, ok := t.equality(e)
		if !ok {
			continue
		}
		for i, c := range x.columns {
			col := t.schema[c]
			if rang[i].LowerBound != nil || !strings.EqualFold(col.Name, name) {
				continue
			}
			cell, ok := t.info.exactCell(ctx, c, lit.Value())
			if !ok {
				return sql.IndexLookup{}, nil, nil, false, nil
			}
			v, err := t.info.decodeCell(c, cell, t.info.zone(ctx))
			if err != nil {
				return sql.IndexLookup{}, nil, nil, false, err
			}
			rang[i] = sql.ClosedRangeColumnExpr(v, v, boundType(col.Type))
			found++
		}
	}
	if found < len(x.columns) {
		return sql.IndexLookup{}, nil, nil, false, nil
	}
	lookup := sql.NewIndexLookup(x, sql.MySQLRangeCollection{rang}, true, false, false, false)
	return lookup, nil, nil, true, nil
}
