package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"lancesql/engine/lock"
)

// lockNode locks the rows of its child, a locking scan under an optional filter and sort.
type lockNode struct {
	plan.UnaryNode
	filter sql.Expression // of the scan; may be nil
}

var _ sql.Node = (*lockNode)(nil)

// String implements fmt.Stringer.
func (n *lockNode) String() string {
	p := sql.NewTreePrinter()
	_ = p.WriteNode("LockRows")
	_ = p.WriteChildren(n.Child.String())
	return p.String()
}

// IsReadOnly implements sql.Node.
func (n *lockNode) IsReadOnly() bool { return true }

// WithChildren implements sql.Node.
func (n *lockNode) WithChildren(_ *sql.Context, c ...sql.Node) (sql.Node, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(n, len(c), 1)
	}
	return &lockNode{UnaryNode: plan.UnaryNode{Child: c[0]}, filter: n.filter}, nil
}

// lockPlanner puts lockNodes into the plan of a query with locking clauses. It runs on the finished plan.
type lockPlanner struct {
	rows map[string]rowLock // by the name of the table in the query
	all  *rowLock           // inside a view that is to be locked: all its tables
}

// wants returns the lock for the rows of a table by the name it has in the query.
func (p *lockPlanner) wants(name string) (rowLock, bool) {
	if p.all != nil {
		return *p.all, true
	}
	l, ok := p.rows[foldName(name)]
	return l, ok
}

// rewrite returns n with the rows of the wanted tables locked above their filters.
func (p *lockPlanner) rewrite(ctx *sql.Context, n sql.Node) (sql.Node, error) {
	switch n := n.(type) {
	case *plan.TopN:
		// Why: a queue takes its first free row; below the sort, every row would be locked to find it.
		if t, l, filter := p.scan(n.Child); t != nil {
			*t.lock = l
			sorted := plan.NewSort(n.SortConditions, n.Child)
			limit := plan.NewLimit(n.Limit, &lockNode{UnaryNode: plan.UnaryNode{Child: sorted}, filter: filter})
			limit.CalcFoundRows = n.CalcFoundRows
			return limit, nil
		}
	case *plan.SubqueryAlias:
		inner := p
		if l, ok := p.rows[foldName(n.Name())]; ok && p.all == nil {
			inner = &lockPlanner{all: &l}
		}
		return inner.children(ctx, n)
	}
	if t, l, filter := p.scan(n); t != nil {
		*t.lock = l
		return &lockNode{UnaryNode: plan.UnaryNode{Child: n}, filter: filter}, nil
	}
	n, err := p.subqueries(ctx, n)
	if err != nil {
		return nil, err
	}
	return p.children(ctx, n)
}

func (p *lockPlanner) children(ctx *sql.Context, n sql.Node) (sql.Node, error) {
	old := n.Children()
	if len(old) == 0 {
		return n, nil
	}
	children := make([]sql.Node, len(old))
	same := true
	for i, c := range old {
		var err error
		if children[i], err = p.rewrite(ctx, c); err != nil {
			return nil, err
		}
		same = same && children[i] == c
	}
	if same {
		return n, nil
	}
	return n.WithChildren(ctx, children...)
}

// subqueries rewrites the queries inside n's expressions.
func (p *lockPlanner) subqueries(ctx *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.OneNodeExpressions(ctx, n, func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		sq, ok := e.(*plan.Subquery)
		if !ok {
			return e, transform.SameTree, nil
		}
		q, err := p.rewrite(ctx, sq.Query)
		if err != nil || q == sq.Query {
			return e, transform.SameTree, err
		}
		return sq.WithQuery(q), transform.NewTree, nil
	})
	return n, err
}

// scan recognises a wanted table of ours, with or without an alias, and with or without a filter above it.
func (p *lockPlanner) scan(n sql.Node) (*Table, rowLock, sql.Expression) {
	var filter sql.Expression
	if f, ok := n.(*plan.Filter); ok {
		filter, n = f.Expression, f.Child
	}
	name := ""
	if a, ok := n.(*plan.TableAlias); ok {
		name, n = a.Name(), a.Child
	}
	var table sql.Table
	switch n := n.(type) {
	case *plan.ResolvedTable:
		table = n.UnderlyingTable()
	case *plan.IndexedTableAccess:
		table = n.UnderlyingTable()
	default:
		return nil, rowLock{}, nil
	}
	t, ok := table.(*Table)
	if !ok {
		return nil, rowLock{}, nil
	}
	if name == "" {
		name = t.Name()
	}
	l, ok := p.wants(name)
	if !ok {
		return nil, rowLock{}, nil
	}
	return t, l, filter
}

// planLocks rewrites the root of a query with locking clauses, once; false if it has none.
func planLocks(ctx *sql.Context, n sql.Node) (sql.Node, bool, error) {
	c := connOf(ctx)
	if c == nil || len(c.stmt.rows) == 0 || c.stmt.planned {
		return n, false, nil
	}
	c.stmt.planned = true
	n, err := (&lockPlanner{rows: c.stmt.rows}).rewrite(ctx, n)
	return n, true, err
}

// writes reports whether the statement changes rows of the table.
func (s *statement) writes(t *Table) bool {
	for _, u := range s.uses {
		if u.mode != lock.IS && strings.EqualFold(u.table, t.Name()) && strings.EqualFold(u.db, t.Database()) {
			return true
		}
	}
	return false
}
