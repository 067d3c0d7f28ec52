package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

var _ sql.ExternalStoredProcedureProvider = (*Provider)(nil)

// sysProcedures lists the procedures of the database lancesql:
//
//	flush(db, table)               as FLUSH TABLES
//	merge(db, table)               flushed generations into the base; rows in memory stay there
//	attach(db, table, path)        a Lance dataset below the data directory becomes a table
//	cleanup(dry_run)               removes what no reader needs, of all tables, and lists it
//	cleanup(db, table, dry_run)    of one table
//	recluster(db, table, columns, buckets [, 'v1'])
func (p *Provider) sysProcedures() []sql.ExternalStoredProcedureDetails {
	removed := sql.Schema{
		{Name: "table_schema", Type: sysText(64)}, {Name: "table_name", Type: sysText(64)}, {Name: "path", Type: types.LongText},
	}
	return []sql.ExternalStoredProcedureDetails{
		{Name: "flush", Schema: types.OkResultSchema, Function: func(ctx *sql.Context, db, table string) (sql.RowIter, error) {
			return p.onTable(ctx, db, table, func(t *engine.TableEntry) error {
				return p.engine.FlushTables(ctx, []engine.TableID{t.ID})
			})
		}},
		{Name: "merge", Schema: types.OkResultSchema, Function: func(ctx *sql.Context, db, table string) (sql.RowIter, error) {
			return p.onTable(ctx, db, table, func(t *engine.TableEntry) error { return p.engine.MergeTable(ctx, t.ID) })
		}},
		{Name: "attach", Schema: types.OkResultSchema, Function: p.attach},
		{Name: "cleanup", Schema: removed, Function: func(ctx *sql.Context, dry bool) (sql.RowIter, error) {
			var all []*engine.TableEntry
			for _, d := range p.engine.Catalog().Databases() {
				all = append(all, d.Tables()...)
			}
			return p.cleanUp(ctx, dry, all)
		}},
		{Name: "cleanup", Schema: removed, Function: func(ctx *sql.Context, db, table string, dry bool) (sql.RowIter, error) {
			t, err := p.entryOf(db, table)
			if err != nil {
				return nil, err
			}
			return p.cleanUp(ctx, dry, []*engine.TableEntry{t})
		}},
		{Name: "recluster", Schema: reclusterSchema(), Function: func(ctx *sql.Context, db, table, columns string, buckets int64) (sql.RowIter, error) {
			return p.recluster(ctx, db, table, columns, buckets, "")
		}},
		{Name: "recluster", Schema: reclusterSchema(), Function: p.recluster},
	}
}

// ExternalStoredProcedure implements sql.ExternalStoredProcedureProvider. The frontend asks for every CALL without saying
// of which database, so the statement is looked at: ours are those of lancesql, and leave a user's of the same name alone.
func (p *Provider) ExternalStoredProcedure(ctx *sql.Context, name string, params int) (*sql.ExternalStoredProcedureDetails, error) {
	if !callsSystem(ctx, name) {
		return nil, nil
	}
	for _, d := range p.sysProcedures() {
		if strings.EqualFold(d.Name, name) && procedureParams(d) == params {
			return &d, nil
		}
	}
	return nil, nil
}

// ExternalStoredProcedures implements sql.ExternalStoredProcedureProvider.
func (p *Provider) ExternalStoredProcedures(ctx *sql.Context, name string) ([]sql.ExternalStoredProcedureDetails, error) {
	var out []sql.ExternalStoredProcedureDetails
	if !callsSystem(ctx, name) {
		return nil, nil
	}
	for _, d := range p.sysProcedures() {
		if strings.EqualFold(d.Name, name) {
			out = append(out, d)
		}
	}
	return out, nil
}

// procedureParams is the number of parameters of one of our procedures.
func procedureParams(d sql.ExternalStoredProcedureDetails) int {
	switch d.Function.(type) {
	case func(*sql.Context, bool) (sql.RowIter, error):
		return 1
	case func(*sql.Context, string, string) (sql.RowIter, error):
		return 2
	case func(*sql.Context, string, string, bool) (sql.RowIter, error), func(*sql.Context, string, string, string) (sql.RowIter, error):
		return 3
	case func(*sql.Context, string, string, string, int64) (sql.RowIter, error):
		return 4
	}
	return 5
}

// callsSystem reports whether the running statement calls a procedure of that name of the database lancesql. Calls from
// within a procedure are not seen.
func callsSystem(ctx *sql.Context, name string) bool {
	c := connOf(ctx)
	if c == nil {
		return false
	}
	call, ok := c.stmt.marked.(*sqlparser.Call)
	if !ok || !strings.EqualFold(call.ProcName.Name.String(), name) {
		return false
	}
	db := call.ProcName.Qualifier.String()
	if db == "" {
		db = ctx.GetCurrentDatabase()
	}
	return isSysName(db)
}

// entryOf finds a table.
func (p *Provider) entryOf(db, table string) (*engine.TableEntry, error) {
	d := p.engine.Catalog().Database(db)
	if d == nil {
		return nil, sql.ErrDatabaseNotFound.New(db)
	}
	if t := d.Table(table); t != nil {
		return t, nil
	}
	return nil, sql.ErrTableNotFound.New(table)
}

func (p *Provider) onTable(ctx *sql.Context, db, table string, run func(*engine.TableEntry) error) (sql.RowIter, error) {
	t, err := p.entryOf(db, table)
	if err != nil {
		return nil, err
	}
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return nil, err
	}
	if err := run(t); err != nil {
		return nil, err
	}
	return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
}

// cleanUp removes, or with dry only lists, what no reader of the tables needs.
func (p *Provider) cleanUp(ctx *sql.Context, dry bool, tables []*engine.TableEntry) (sql.RowIter, error) {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return nil, err
	}
	var rows []sql.Row
	for _, t := range tables {
		names, err := p.engine.Cleanup(ctx, t.ID, dry)
		for _, name := range names {
			rows = append(rows, sql.NewRow(t.Database, t.Name, name))
		}
		if err != nil && p.engine.Catalog().TableByID(t.ID) != nil {
			return nil, err
		}
	}
	return sql.RowsToRowIter(rows...), nil
}
