package sqlbackend

import (
	"container/heap"
	"io"
	"sort"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/sorters"
)

// sortIter is ORDER BY over rows: sorted runs, made while the rows are read, and merged while they are given away. Equal
// rows keep their order.
//
// Why not the frontend's operator: it sorts all rows in one call, deaf to KILL for seconds.
type sortIter struct {
	child sql.RowIter
	by    sql.SortConditions

	read   bool
	sorter *sorters.RowSorter // compares rows of different runs
	runs   []sortRun          // a heap by the first row of each
}

// sortRun is what is left of a sorted run.
type sortRun struct {
	number int
	rows   []sql.Row
}

// sortRunRows is the length of a run: sorting one takes a few milliseconds.
const sortRunRows = 4096

// Next implements sql.RowIter.
func (s *sortIter) Next(ctx *sql.Context) (sql.Row, error) {
	if !s.read {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		s.read = true
	}
	if len(s.runs) == 0 {
		return nil, io.EOF
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	first := &s.runs[0]
	row := first.rows[0]
	first.rows[0] = nil
	if first.rows = first.rows[1:]; len(first.rows) > 0 {
		heap.Fix((*sortHeap)(s), 0)
	} else {
		heap.Pop((*sortHeap)(s))
	}
	return row, s.sorter.GetError()
}

// fill reads all rows into sorted runs.
func (s *sortIter) fill(ctx *sql.Context) error {
	s.sorter = sorters.NewRowSorter(ctx, s.by)
	var rows []sql.Row
	finish := func() error {
		if len(rows) == 0 {
			return nil
		}
		run := sorters.NewRowSorterWithRows(ctx, s.by, rows)
		sort.Stable(run)
		s.runs = append(s.runs, sortRun{number: len(s.runs), rows: rows})
		rows = nil
		if err := run.GetError(); err != nil {
			return err
		}
		return ctx.Err()
	}
	for {
		row, err := s.child.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if rows = append(rows, row); len(rows) == sortRunRows {
			if err := finish(); err != nil {
				return err
			}
		}
	}
	if err := finish(); err != nil {
		return err
	}
	heap.Init((*sortHeap)(s))
	return s.sorter.GetError()
}

// Close implements sql.RowIter.
func (s *sortIter) Close(ctx *sql.Context) error {
	s.runs, s.read = nil, true
	return s.child.Close(ctx)
}

// countedTop is ORDER BY … LIMIT with SQL_CALC_FOUND_ROWS.
func (o *operators) countedTop(ctx *sql.Context, n *plan.TopN, row sql.Row) (sql.RowIter, error) {
	limit, err := rowsWanted(ctx, n.Limit)
	if err != nil {
		return nil, err
	}
	child, err := o.build(ctx, n.Child, row)
	if err != nil {
		return nil, err
	}
	return &countedIter{sortIter: sortIter{child: child, by: n.SortConditions}, left: limit}, nil
}

// countedIter is the first rows of a sorted result, all of which count as found. Why not the frontend's operator: it
// forgets one for LIMIT 1.
type countedIter struct {
	sortIter
	left  int64
	found int64
}

// Next implements sql.RowIter.
func (c *countedIter) Next(ctx *sql.Context) (sql.Row, error) {
	if !c.read {
		if err := c.fill(ctx); err != nil {
			return nil, err
		}
		c.read = true
		for _, r := range c.runs {
			c.found += int64(len(r.rows))
		}
	}
	if c.left <= 0 {
		return nil, io.EOF
	}
	c.left--
	return c.sortIter.Next(ctx)
}

// Close implements sql.RowIter.
func (c *countedIter) Close(ctx *sql.Context) error {
	ctx.GetLastQueryInfo().FoundRows.Store(c.found)
	return c.sortIter.Close(ctx)
}

// sortHeap is the runs of a sortIter, the one with the least first row on top.
type sortHeap sortIter

// Len implements heap.Interface.
func (h *sortHeap) Len() int { return len(h.runs) }

// Less implements heap.Interface.
func (h *sortHeap) Less(i, j int) bool {
	a, b := h.runs[i], h.runs[j]
	if c := h.sorter.CompareRows(a.rows[0], b.rows[0]); c != 0 {
		return c < 0
	}
	return a.number < b.number
}

// Swap implements heap.Interface.
func (h *sortHeap) Swap(i, j int) { h.runs[i], h.runs[j] = h.runs[j], h.runs[i] }

// Push implements heap.Interface; nothing is pushed.
func (h *sortHeap) Push(any) {}

// Pop implements heap.Interface.
func (h *sortHeap) Pop() any {
	last := len(h.runs) - 1
	run := h.runs[last]
	h.runs[last] = sortRun{}
	h.runs = h.runs[:last]
	return run
}
