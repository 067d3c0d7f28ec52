package sqlbackend

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"lancesql/lsm"
)

// EXPLAIN: the frontend's tree of operators, and what each scan of a table looks at in storage; EXPLAIN ANALYZE runs the
// query and says what its scans read.

// verifyVariable is the system variable that has every scan compare indexes and zone maps with what is stored.
const verifyVariable = "lancesql_verify_indexes"

func verifyIndexes(ctx *sql.Context) bool {
	v, err := ctx.GetSessionVariable(ctx, verifyVariable)
	n, ok := v.(int8)
	return err == nil && ok && n != 0
}

// explained collects the counters of the scans of a statement, one for each table and way to read it. Those of the first others scans
// are not added to.
type explained struct {
	scans  []*explainedScan
	others int
}

type explainedScan struct {
	table  *Table
	access access
	stats  lsm.ReadStats
}

// access is how a scan finds rows.
type access struct {
	kind string // as in MySQL's column "type": const, range, ref, ALL
	key  string // name of the index
}

// accessOf says how rows are found.
func (t *Table) accessOf(spec lsm.ScanSpec) access {
	switch {
	case len(spec.Keys) == 1:
		return access{"const", primaryIndex}
	case spec.Keys != nil, spec.Range != nil:
		return access{"range", primaryIndex}
	case spec.Index != nil:
		kind := "range"
		if isPointRange(spec.Index.Range) {
			kind = "ref"
		}
		return access{kind, t.info.entry.Indexes[spec.Index.Index].Name}
	}
	if t.lookup != nil {
		return access{"range", t.lookup.Index.ID()}
	}
	return access{kind: "ALL"}
}

// statsOf returns the counters of a scan; nil if nobody asks.
func (e *explained) statsOf(t *Table, spec lsm.ScanSpec) *lsm.ReadStats {
	if e == nil {
		return nil
	}
	a := t.accessOf(spec)
	for _, s := range e.scans[e.others:] {
		if s.table.info == t.info && s.access == a {
			return &s.stats
		}
	}
	e.scans = append(e.scans, &explainedScan{table: t, access: a})
	return &e.scans[len(e.scans)-1].stats
}

// describe runs EXPLAIN.
func (o *operators) describe(ctx *sql.Context, n *plan.DescribeQuery, row sql.Row) (sql.RowIter, error) {
	c := connOf(ctx)
	if c == nil {
		return nil, nil
	}
	child, _, err := PushDownRule(ctx, nil, n.Child, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	e := &explained{}
	if n.Format.Analyze {
		if !n.Child.IsReadOnly() {
			return nil, errors.New("EXPLAIN ANALYZE of a statement that changes something")
		}
		if err := o.run(ctx, c, child, row, e); err != nil {
			return nil, err
		}
	} else if err := c.planScans(ctx, child, e, !n.Format.Plan || c.explainsJSON()); err != nil {
		return nil, err
	}
	if c.explainsJSON() {
		out, err := e.json(ctx)
		if err != nil {
			return nil, err
		}
		return sql.RowsToRowIter(out), nil
	}
	if len(e.scans) == 0 && !n.Format.Analyze {
		if !n.Format.Plan && n.Child.IsReadOnly() {
			return sql.RowsToRowIter(withoutScans(ctx, child)), nil
		}
		return nil, nil // no table of ours: the frontend says what there is to say
	}
	if !n.Format.Plan {
		return sql.RowsToRowIter(e.table(ctx, n.Format.Analyze)...), nil
	}
	var rows []sql.Row
	for _, l := range strings.Split(strings.ReplaceAll(sql.Describe(ctx, child, n.Format), "\r", ""), "\n") {
		if strings.TrimSpace(l) != "" {
			rows = append(rows, sql.NewRow(l))
		}
	}
	for _, l := range e.lines(n.Format.Analyze) {
		rows = append(rows, sql.NewRow(l))
	}
	return sql.RowsToRowIter(rows...), nil
}

// withoutScans is what EXPLAIN says of a query that reads no table of ours.
func withoutScans(ctx *sql.Context, n sql.Node) sql.Row {
	var extra any = "No tables used"
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		if t, ok := n.(*plan.ResolvedTable); ok && !plan.IsDualTable(t.Table) {
			extra = nil
		}
		return extra != nil
	})
	return sql.Row{uint64(1), "SIMPLE", nil, nil, nil, nil, nil, nil, nil, nil, nil, extra}
}

// run executes a plan for its counters.
func (o *operators) run(ctx *sql.Context, c *Conn, n sql.Node, row sql.Row, e *explained) error {
	outer := c.stmt.explain
	c.stmt.explain = e
	defer func() { c.stmt.explain = outer }()
	it, err := o.build(ctx, n, row)
	if err != nil {
		return err
	}
	for {
		if _, err = it.Next(ctx); err != nil {
			break
		}
	}
	if err == io.EOF {
		return it.Close(ctx)
	}
	return errors.Join(err, it.Close(ctx))
}

// planScans asks storage about every scan of our tables that does not depend on other rows; apart says that what is read several times
// has counters for each.
func (c *Conn) planScans(ctx *sql.Context, n sql.Node, e *explained, apart bool) error {
	var failed error
	transform.InspectWithOpaque(ctx, n, func(ctx *sql.Context, n sql.Node) bool {
		var t *Table
		switch n := n.(type) {
		case *plan.ResolvedTable:
			t, _ = n.UnderlyingTable().(*Table)
		case *plan.IndexedTableAccess:
			t, _ = n.Table.(*Table)
			if t != nil && !n.IsStatic() {
				e.scans = append(e.scans, &explainedScan{table: t, access: access{"ref", n.Index().ID()}})
				return false
			}
		}
		if t == nil || failed != nil {
			return failed == nil
		}
		txn, err := t.txn(ctx)
		if err != nil {
			failed = err
			return false
		}
		if apart {
			e.others = len(e.scans)
		}
		scans := []lsm.ScanSpec{{}}
		if t.lookup != nil {
			scans, failed = t.lookupScans(ctx, *t.lookup)
			if failed == nil && t.anyOrder {
				scans, failed = t.loosened(ctx, txn, c.readKind(), scans)
			}
		}
		for _, spec := range scans {
			spec.Filter, spec.Within = t.filter, append(spec.Within, t.within...)
			spec.Stats = e.statsOf(t, spec)
			if failed == nil {
				failed = txn.PlanScan(ctx, t.info.entry, c.readKind(), spec)
			}
		}
		return false
	})
	return failed
}

// lines is the counters as text.
func (e *explained) lines(analyzed bool) []string {
	var out []string
	for _, s := range e.scans {
		by := ""
		if s.access.key != "" {
			by = " by " + s.access.key
		}
		out = append(out, fmt.Sprintf("Storage(%s%s, %s): scans %d, %s", s.table.Name(), by, s.access.kind, s.stats.Scans, &s.stats))
		if analyzed {
			out = append(out, "    "+s.stats.ReadString())
		} else {
			out = append(out, fmt.Sprintf("    rows expected %d", s.stats.Expected))
		}
	}
	return out
}

// table is the counters as rows of MySQL's table form.
func (e *explained) table(ctx *sql.Context, analyzed bool) []sql.Row {
	rows := make([]sql.Row, len(e.scans))
	for i, s := range e.scans {
		var key, possible any
		if s.access.key != "" {
			key = s.access.key
		}
		var names []string
		if indexes, err := s.table.GetIndexes(ctx); err == nil {
			for _, x := range indexes {
				names = append(names, x.ID())
			}
		}
		if len(names) > 0 {
			possible = strings.Join(names, ",")
		}
		extra := s.stats.String()
		if s.table.filter != nil {
			extra = "Using where; " + extra
		}
		if analyzed {
			extra += "; " + s.stats.ReadString()
		}
		rows[i] = sql.Row{uint64(1), "SIMPLE", s.table.Name(), nil, s.access.kind, possible, key, nil, nil, s.stats.Expected, float64(100), extra}
	}
	return rows
}
