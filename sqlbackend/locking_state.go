package sqlbackend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/engine/lock"
)

// waitState is what SHOW PROCESSLIST says of a connection that waits for a lock, in MySQL's words.
func waitState(kind lock.Kind) string {
	switch kind {
	case lock.Meta:
		return "Waiting for table metadata lock"
	case lock.Named:
		return "User lock"
	case lock.Server:
		return "Waiting for backup lock"
	case lock.Table:
		return "Waiting for table level lock"
	default:
		return "Waiting for row lock"
	}
}

// processList is SHOW PROCESSLIST with a state for those that wait; the frontend's own says "running".
func processList(ctx *sql.Context) sql.RowIter { return sql.RowsToRowIter(processes(ctx)...) }

// processes are the rows of SHOW PROCESSLIST.
func processes(ctx *sql.Context) []sql.Row {
	var waiting map[uint64]lock.Kind
	if c := connOf(ctx); c != nil && c.provider != nil {
		waiting = c.provider.engine.Waiting()
	}
	list := ctx.ProcessList.Processes()
	slices.SortFunc(list, func(a, b sql.Process) int { return cmp.Compare(a.Connection, b.Connection) })
	rows := make([]sql.Row, len(list))
	for i, p := range list {
		state := ""
		if p.Command == sql.ProcessCommandQuery {
			state = "executing"
			for name, done := range p.Progress {
				if strings.HasPrefix(name, reclusterProgress) { // others are the frontend's, of scans
					state = fmt.Sprintf("%s, %d of %d rows", name, done.Done, done.Total)
				}
			}
			if kind, ok := waiting[uint64(p.Connection)]; ok {
				state = waitState(kind)
			}
		}
		var database, info any
		if p.Database != "" {
			database = p.Database
		}
		if p.Query != "" {
			info = p.Query
		}
		rows[i] = sql.NewRow(int64(p.Connection), p.User, p.Host, database, string(p.Command), int64(p.Seconds()), state, info)
	}
	return rows
}
