package sqlbackend

import (
	"errors"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/engine"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// reclusterProgress begins the name of a recluster's progress in the process list.
const reclusterProgress = "recluster "

func reclusterSchema() sql.Schema {
	return sql.Schema{
		{Name: "rows", Type: types.Uint64}, {Name: "fragments_removed", Type: types.Uint64}, {Name: "fragments_added", Type: types.Uint64},
		{Name: "index_segments", Type: types.Uint64},
	}
}

// recluster runs CALL lancesql.recluster: columns is a list of names, version "" or "v1".
func (p *Provider) recluster(ctx *sql.Context, db, table, columns string, buckets int64, version string) (sql.RowIter, error) {
	if buckets < 1 || buckets > lsm.BucketsMax {
		return nil, newError(1105, "lancesql.recluster: buckets need a number from 1 to %d", lsm.BucketsMax)
	}
	if version != "" && !strings.EqualFold(version, "v1") {
		return nil, newError(1105, "lancesql.recluster: the last argument is 'v1' or left out")
	}
	o := lsm.Recluster{Buckets: int(buckets), Publish: version != ""}
	var done lsm.Reclustered
	_, err := p.onTable(ctx, db, table, func(t *engine.TableEntry) error {
		info, err := p.info(ctx, t)
		if err != nil {
			return err
		}
		if o.Columns, err = info.clusterColumns(columns); err != nil {
			return err
		}
		var remove func()
		o.Progress, remove = progressOf(ctx, reclusterProgress+t.Database+"."+t.Name)
		defer remove()
		if done, err = p.engine.Recluster(ctx, t.ID, o); errors.Is(err, errs.ErrUnsupported) {
			return newError(1235, "lancesql.recluster: %v", err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if o.Publish {
		ctx.Warn(1105, "the table's reuse history has version 1 from now on (feature flag 1024): Lance libraries before 13 refuse to open it")
	}
	return sql.RowsToRowIter(sql.NewRow(done.Rows, uint64(done.FragmentsRemoved), uint64(done.FragmentsAdded), uint64(done.Segments))), nil
}

// clusterColumns finds the physical columns of a list of names. Text whose order is not that of its bytes is clustered by
// the hidden sort key of an index over it, if there is one.
func (t *tableInfo) clusterColumns(list string) ([]int, error) {
	var out []int
	for _, name := range strings.Split(list, ",") {
		name = strings.Trim(strings.TrimSpace(name), "`")
		c := t.schema.Schema.IndexOfColName(strings.ToLower(name))
		if c < 0 {
			return nil, newError(1054, "Unknown column '%s' in 'lancesql.recluster'", name)
		}
		if !t.filterable(c) {
			for _, x := range t.shape.Indexes {
				if x.Hidden != "" && len(x.Parts) == 1 && x.Parts[0].Length == 0 && strings.EqualFold(x.Parts[0].Column, name) {
					if at := t.entry.Schema.FieldIndices(x.Hidden); len(at) == 1 {
						c = at[0]
					}
				}
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// progressOf shows a number of rows as the progress of the running statement in SHOW PROCESSLIST, until remove is called.
func progressOf(ctx *sql.Context, name string) (report func(rows, of uint64), remove func()) {
	list, pid := ctx.ProcessList, ctx.Pid()
	var shown int64
	report = func(rows, of uint64) {
		list.AddTableProgress(pid, name, int64(of))
		list.UpdateTableProgress(pid, name, int64(rows)-shown)
		shown = int64(rows)
	}
	return report, func() { list.RemoveTableProgress(pid, name) }
}
