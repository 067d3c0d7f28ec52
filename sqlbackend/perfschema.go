package sqlbackend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The tables of performance_schema and sys that tools read: variables, counters, threads, the version. They are computed, and
// SHOW DATABASES leaves the databases out. A database of one's own that is named so takes their place.
const (
	performanceName = "performance_schema"
	sysSchemaName   = "sys"
)

// performanceTables lists the tables of performance_schema by name.
func performanceTables() []sysTableDef {
	name, number := sysText(64), types.Uint64
	variables := []sysColumn{{"VARIABLE_NAME", name, false}, {"VARIABLE_VALUE", sysText(1024), true}}
	return []sysTableDef{
		{name: "global_status", session: func(*sql.Context) []sql.Row {
			return statusRows(sql.StatusVariables.NewGlobalMap())
		}, columns: variables},
		{name: "global_variables", session: func(*sql.Context) []sql.Row {
			return variableRows(sql.SystemVariables.GetAllGlobalVariables())
		}, columns: variables},
		{name: "processlist", session: func(ctx *sql.Context) []sql.Row { return processRows(ctx) }, columns: []sysColumn{
			{"ID", number, false}, {"USER", name, true}, {"HOST", sysText(261), true}, {"DB", name, true}, {"COMMAND", name, true},
			{"TIME", types.Int64, true}, {"STATE", name, true}, {"INFO", types.LongText, true},
		}},
		{name: "session_status", session: func(ctx *sql.Context) []sql.Row {
			all := sql.StatusVariables.NewGlobalMap()
			for name, v := range ctx.GetAllStatusVariables(ctx) {
				all[name] = v
			}
			return statusRows(all)
		}, columns: variables},
		{name: "session_variables", session: func(ctx *sql.Context) []sql.Row {
			return variableRows(ctx.GetAllSessionVariables())
		}, columns: variables},
		{name: "threads", session: threadRows, columns: []sysColumn{
			{"THREAD_ID", number, false}, {"NAME", sysText(128), false}, {"TYPE", name, false}, {"PROCESSLIST_ID", number, true},
			{"PROCESSLIST_USER", name, true}, {"PROCESSLIST_HOST", sysText(261), true}, {"PROCESSLIST_DB", name, true},
			{"PROCESSLIST_COMMAND", name, true}, {"PROCESSLIST_TIME", types.Int64, true}, {"PROCESSLIST_STATE", name, true},
			{"PROCESSLIST_INFO", types.LongText, true},
		}},
	}
}

// sysSchemaTables lists the tables of sys.
func sysSchemaTables() []sysTableDef {
	return []sysTableDef{{name: "version", rows: func(*Provider) []sql.Row { return []sql.Row{{"2.1.2", ServerVersion}} },
		columns: []sysColumn{{"sys_version", sysText(5), false}, {"mysql_version", sysText(64), false}}}}
}

// variableRows shows system variables as SHOW VARIABLES does.
func variableRows(all map[string]any) []sql.Row {
	rows := make([]sql.Row, 0, len(all))
	for name, v := range all {
		text := any(fmt.Sprint(v))
		switch v := v.(type) {
		case nil:
			text = nil
		case int8:
			switch v {
			case 0:
				text = "OFF"
			case 1:
				text = "ON"
			}
		}
		rows = append(rows, sql.Row{name, text})
	}
	return byName(rows)
}

func statusRows(all map[string]sql.StatusVarValue) []sql.Row {
	rows := make([]sql.Row, 0, len(all))
	for name, v := range all {
		rows = append(rows, sql.Row{name, fmt.Sprint(v.Value())})
	}
	return byName(rows)
}

func byName(rows []sql.Row) []sql.Row {
	slices.SortFunc(rows, func(a, b sql.Row) int { return strings.Compare(a[0].(string), b[0].(string)) })
	return rows
}

// processRows is SHOW FULL PROCESSLIST.
func processRows(ctx *sql.Context) []sql.Row {
	rows := processes(ctx)
	for i := range rows {
		if id, ok := rows[i][0].(int64); ok {
			rows[i][0] = uint64(id)
		}
	}
	return rows
}

// threadRows shows connections as threads.
func threadRows(ctx *sql.Context) []sql.Row {
	rows := processRows(ctx)
	for i, r := range rows {
		rows[i] = append(sql.Row{r[0], "thread/sql/one_connection", "FOREGROUND"}, r...)
	}
	return rows
}
