package sqlbackend

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/stats"

	"lancesql/engine"
)

// statistics is what the planner knows about tables: how many rows they have, and what ANALYZE TABLE found in their indexes.
// It is kept (keptStatistic). Safe for concurrent use.
//
// Why not the frontend's: it has no lock, divides by zero for an empty table, and takes every value for a different one.
type statistics struct {
	mu      sync.RWMutex
	found   map[statKey]tableStatistic
	decoded map[engine.TableID]keptTable
}

// statKey is an index, or part of one, as the frontend names it.
type statKey struct{ qualifier, columns string }

// tableStatistic is a statistic with the table it is of, zero if that was not known.
type tableStatistic struct {
	sql.Statistic
	table engine.TableID
	set   bool // by UPDATE HISTOGRAM … USING DATA, not found by ANALYZE TABLE
}

// of reports whether the statistic is of a table, not of one that had its name before.
func (st tableStatistic) of(t *Table) bool {
	return st.table == engine.TableID{} || st.table == t.info.entry.ID
}

var _ sql.StatsProvider = (*statistics)(nil)

func newStatistics() *statistics {
	return &statistics{found: make(map[statKey]tableStatistic), decoded: make(map[engine.TableID]keptTable)}
}

func keyOf(qual sql.StatQualifier, columns []string) statKey {
	return statKey{strings.ToLower(qual.String()), strings.ToLower(strings.Join(columns, ","))}
}

// ours is the table below what the frontend wraps around it.
func ours(table sql.Table) (*Table, bool) {
	t, ok := sql.GetUnderlyingTable(table).(*Table)
	return t, ok
}

// buckets is how many a histogram has, about.
const buckets = 64

// AnalyzeTable implements sql.StatsProvider: it reads every ordered index in its order.
func (s *statistics) AnalyzeTable(ctx *sql.Context, table sql.Table, db string) error {
	t, ok := ours(table)
	if !ok {
		return nil
	}
	indexes, err := t.GetIndexes(ctx)
	if err != nil {
		return err
	}
	var made []sql.Statistic
	for _, idx := range indexes {
		x, ok := undeclared(sql.IndexLookup{Index: idx}).Index.(*Index)
		if !ok || x.key == nil || !x.key.ordered || x.lengths != nil {
			continue
		}
		list, err := t.analyze(ctx, x, db)
		if err != nil {
			return err
		}
		made = append(made, list...)
	}
	s.mu.Lock()
	for _, st := range made {
		s.found[keyOf(st.Qualifier(), st.Columns())] = tableStatistic{Statistic: st, table: t.info.entry.ID}
	}
	s.mu.Unlock()
	return s.keep(ctx, t, made)
}

// analyze reads an index in its order: a statistic for each number of leading columns.
func (t *Table) analyze(ctx *sql.Context, x *Index, db string) ([]sql.Statistic, error) {
	size, err := t.provider.engine.Stats(ctx, t.info.entry)
	if err != nil {
		return nil, wrapTable(t.info.entry, "statistics of", err)
	}
	names := make([]string, len(x.columns))
	types := make([]sql.Type, len(x.columns))
	gathered := make([]*histogram, len(x.columns))
	for i, c := range x.columns {
		names[i], types[i] = t.schema[c].Name, t.schema[c].Type
		gathered[i] = &histogram{types: types[:i+1], target: size.Rows/buckets + 1}
	}
	all := make(sql.MySQLRange, len(x.columns))
	for i, c := range x.columns {
		all[i] = sql.AllRangeColumnExpr(boundType(t.schema[c].Type))
	}
	nt := *t
	nt.projection, nt.filter, nt.within, nt.anyOrder = x.columns, nil, nil, false
	if err := nt.eachRow(ctx, sql.NewIndexLookup(x, sql.MySQLRangeCollection{all}, false, false, false, false), func(row sql.Row) error {
		for i, h := range gathered {
			if err := h.add(ctx, row[:i+1]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	fds, cols, err := stats.IndexFds(ctx, t.Name(), t.schema, x)
	if err != nil {
		return nil, err
	}
	out := make([]sql.Statistic, len(gathered))
	for i, h := range gathered {
		h.close()
		average := uint64(0)
		if h.rows > 0 {
			average = size.Bytes / max(size.Rows, 1)
		}
		qual := sql.NewStatQualifier(db, "", t.Name(), x.ID())
		st := stats.NewStatistic(h.rows, h.distinct, h.nulls, average, t.provider.engine.Now(), qual, names[:i+1], types[:i+1], h.done, sql.IndexClassDefault, h.lowest)
		out[i] = st.WithFuncDeps(fds).WithColSet(cols)
	}
	return out, nil
}

// eachRow visits the rows of a look-up.
func (t *Table) eachRow(ctx *sql.Context, lookup sql.IndexLookup, visit func(sql.Row) error) error {
	parts, err := t.LookupPartitions(ctx, lookup)
	if err != nil {
		return err
	}
	return t.eachOf(ctx, parts, visit)
}

// everyRow visits the rows of the table.
func (t *Table) everyRow(ctx *sql.Context, visit func(sql.Row) error) error {
	parts, err := t.Partitions(ctx)
	if err != nil {
		return err
	}
	return t.eachOf(ctx, parts, visit)
}

func (t *Table) eachOf(ctx *sql.Context, parts sql.PartitionIter, visit func(sql.Row) error) (err error) {
	defer func() { err = errors.Join(err, parts.Close(ctx)) }()
	for {
		part, err := parts.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		rows, err := t.PartitionRows(ctx, part)
		if err != nil {
			return err
		}
		for {
			row, err := rows.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = visit(row)
			}
			if err != nil {
				return errors.Join(err, rows.Close(ctx))
			}
		}
		if err := rows.Close(ctx); err != nil {
			return err
		}
	}
}

// histogram gathers values that come in order. A bucket ends where a value does.
type histogram struct {
	types  []sql.Type
	target uint64 // rows of a bucket, about

	rows, distinct, nulls uint64
	lowest                sql.Row
	done                  sql.Histogram

	last                             sql.Row // nil before the first
	inRows, inDistinct, inNulls, run uint64  // of the open bucket; rows of the last value
}

func (h *histogram) add(ctx *sql.Context, row sql.Row) error {
	same := h.last != nil
	for i := 0; same && i < len(row); i++ {
		c, err := h.types[i].Compare(ctx, h.last[i], row[i])
		if err != nil {
			return err
		}
		same = c == 0
	}
	if !same {
		if h.inRows >= h.target {
			h.close()
		}
		if h.last == nil {
			h.lowest = slices.Clone(row)
		}
		h.last, h.run = slices.Clone(row), 0
		h.distinct, h.inDistinct = h.distinct+1, h.inDistinct+1
	}
	h.rows, h.inRows, h.run = h.rows+1, h.inRows+1, h.run+1
	if row[0] == nil {
		h.nulls, h.inNulls = h.nulls+1, h.inNulls+1
	}
	return nil
}

// close ends the open bucket.
func (h *histogram) close() {
	if h.inRows == 0 {
		return
	}
	h.done = append(h.done, stats.NewHistogramBucket(h.inRows, h.inDistinct, h.inNulls, h.run, h.last, nil, nil))
	h.inRows, h.inDistinct, h.inNulls = 0, 0, 0
}

// GetTableStats implements sql.StatsProvider. Statistics of another table of that name, which is gone, are left out.
func (s *statistics) GetTableStats(_ *sql.Context, schema, db string, table sql.Table) ([]sql.Statistic, error) {
	t, known := ours(table)
	prefix := strings.ToLower(sql.NewStatQualifier(db, schema, table.Name(), "").String()) + "."
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []sql.Statistic
	for k, st := range s.found {
		if strings.HasPrefix(k.qualifier, prefix) && (!known || st.of(t)) {
			out = append(out, st.Statistic)
		}
	}
	return out, nil
}

// SetStats implements sql.StatsProvider. Counts are kept.
func (s *statistics) SetStats(ctx *sql.Context, st sql.Statistic) error {
	entry, err := s.keepSet(ctx, st)
	if err != nil {
		return err
	}
	of := tableStatistic{Statistic: st, set: true}
	if entry != nil {
		of.table = entry.ID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found[keyOf(st.Qualifier(), st.Columns())] = of
	return nil
}

// histograms are the rows of information_schema.column_statistics, of columns the user has a privilege for: those that were set, as
// ANALYZE TABLE makes histograms if it is told to only.
func (s *statistics) histograms(ctx *sql.Context) []sql.Row {
	// Why not the frontend's rows: it has them of every index that was analyzed, for everybody who may see the table.
	privileges, known := ctx.GetPrivilegeSet()
	var rows []sql.Row
	s.mu.RLock()
	for _, st := range s.found {
		q, columns := st.Qualifier(), st.Columns()
		_, entry := tableIn(ctx, q)
		if !st.set || entry == nil || (st.table != engine.TableID{} && st.table != entry.ID) {
			continue
		}
		may := func(column string) bool {
			d := privileges.Database(entry.Database)
			t := d.Table(entry.Name)
			return d.Count() > 0 || t.Count() > 0 || t.Column(column).Count() > 0
		}
		if known == 0 || privileges.Count() > 0 || slices.ContainsFunc(columns, may) {
			rows = append(rows, sql.Row{entry.Database, entry.Name, strings.Join(columns, ","), st.Statistic})
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(rows, func(a, b sql.Row) int {
		return strings.Compare(fmt.Sprint(a[:3]...), fmt.Sprint(b[:3]...))
	})
	return rows
}

// GetStats implements sql.StatsProvider.
func (s *statistics) GetStats(_ *sql.Context, qual sql.StatQualifier, columns []string) (sql.Statistic, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, ok := s.found[keyOf(qual, columns)]
	return st.Statistic, ok
}

// DropStats implements sql.StatsProvider.
func (s *statistics) DropStats(ctx *sql.Context, qual sql.StatQualifier, columns []string) error {
	gone := keyOf(qual, columns)
	s.mu.Lock()
	for k := range s.found {
		if strings.HasPrefix(k.qualifier, gone.qualifier) && strings.HasSuffix(k.columns, gone.columns) {
			delete(s.found, k)
		}
	}
	s.mu.Unlock()
	return s.dropKept(ctx, qual, columns)
}

// DropDbStats implements sql.StatsProvider.
func (s *statistics) DropDbStats(_ *sql.Context, _, db string, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.found {
		if strings.HasPrefix(k.qualifier, strings.ToLower(db)+".") {
			delete(s.found, k)
		}
	}
	return nil
}

// RowCount implements sql.StatsProvider: what storage knows of the table now, or what was set by hand.
func (s *statistics) RowCount(ctx *sql.Context, _, _ string, table sql.Table) (uint64, error) {
	t, ok := ours(table)
	if !ok {
		if st, ok := table.(sql.StatisticsTable); ok {
			n, _, err := st.RowCount(ctx)
			return n, err
		}
		return 0, nil
	}
	if n, ok := s.setByHand(t); ok {
		return n, nil
	}
	n, _, err := t.RowCount(ctx)
	return n, err
}

// setByHand is the rows a table has by statistics that were set, not found.
func (s *statistics) setByHand(t *Table) (rows uint64, ok bool) {
	prefix := strings.ToLower(sql.NewStatQualifier(t.Database(), "", t.Name(), "").String()) + "."
	for _, k := range s.keptOf(t) {
		if k.Set {
			rows, ok = max(rows, k.Rows), true
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for k, st := range s.found {
		if st.set && st.of(t) && strings.HasPrefix(k.qualifier, prefix) {
			rows, ok = max(rows, st.RowCount()), true
		}
	}
	return rows, ok
}

// DataLength implements sql.StatsProvider: bytes, an estimate.
func (s *statistics) DataLength(ctx *sql.Context, _, _ string, table sql.Table) (uint64, error) {
	t, ok := ours(table)
	if !ok {
		return 0, nil
	}
	return t.DataLength(ctx)
}
