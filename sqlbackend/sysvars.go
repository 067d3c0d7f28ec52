package sqlbackend

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/engine"
)

const (
	charsetName   = "utf8mb4"
	collationName = "utf8mb4_0900_ai_ci"

	sqlModeDefault = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

	lockWaitDefault = 50          // seconds, as in MySQL
	lockWaitMax     = 1073741824  // seconds, as in MySQL
	connectionsMax  = 151         // as in MySQL
	freshnessMax    = 366 * 86400 // seconds
)

// setSystemVariables puts lancesql's variables and defaults into the frontend's registry. The registry belongs to the
// process: engines of one process share it, and SET GLOBAL with it; setting it again changes nothing.
func setSystemVariables() {
	if _, v, ok := sql.SystemVariables.GetGlobal("version"); ok && v == ServerVersion {
		return
	}
	sql.SystemVariables.AddSystemVariables(missingVariables())
	sql.SystemVariables.AddSystemVariables(replacedVariables())
}

// showSettings makes system variables tell the server's settings. They belong to the process: the last server's show.
func showSettings(c ServerConfig, e *engine.Engine) error {
	flush := int64(1)
	if e.Durability() != engine.SyncCommit {
		flush = 2
	}
	have := "YES"
	if c.TLS == TLSOff {
		have = "DISABLED"
	}
	return sql.SystemVariables.AssignValues(map[string]any{
		"have_ssl": have, "have_openssl": have,
		"max_connections": int64(c.MaxConnections), "socket": c.Socket,
		"innodb_flush_log_at_trx_commit": flush, "lancesql_freshness": int64(e.Freshness() / time.Second),
	})
}

// globalVariables runs SHOW GLOBAL VARIABLES. Why: the frontend shows a SET that somebody has set as the number of its members.
func globalVariables(ctx *sql.Context, n *plan.ShowVariables) (sql.RowIter, error) {
	var rows []sql.Row
	for name, v := range sql.SystemVariables.GetAllGlobalVariables() {
		name = strings.ToLower(name)
		if n.Filter != nil {
			keep, err := sql.EvaluateCondition(ctx, n.Filter, sql.Row{name})
			if err != nil {
				return nil, err
			}
			if !sql.IsTrue(keep) {
				continue
			}
		}
		if on, ok := v.(int8); ok && (on == 0 || on == 1) {
			v = map[int8]string{0: "OFF", 1: "ON"}[on]
		}
		if bits, ok := v.(uint64); ok {
			if variable, _, found := sql.SystemVariables.GetGlobal(name); found {
				if set, ok := variable.GetType().(sql.SetType); ok {
					text, err := set.BitsToString(bits)
					if err != nil {
						return nil, err
					}
					v = text
				}
			}
		}
		rows = append(rows, sql.NewRow(name, v))
	}
	slices.SortFunc(rows, func(a, b sql.Row) int { return strings.Compare(a[0].(string), b[0].(string)) })
	return sql.RowsToRowIter(rows...), nil
}

// replacedVariables redefines variables of the frontend.
func replacedVariables() []sql.SystemVariable {
	vars := []sql.SystemVariable{
		textVariable("version", ServerVersion, sql.SystemVariableScope_Global, false),
		textVariable("version_comment", versionComment, sql.SystemVariableScope_Global, false),
		// Why: the frontend reads and writes any file of the server when this is empty; nothing is below a relative path.
		textVariable("secure_file_priv", "NULL", sql.SystemVariableScope_Global, false),
		newLocaleVariable("lc_messages"),
		newLocaleVariable("lc_time_names"),
		&sql.MysqlSystemVariable{
			Name: "innodb_lock_wait_timeout", Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both), Dynamic: true,
			Type:    types.NewSystemIntType("innodb_lock_wait_timeout", 1, lockWaitMax, false),
			Default: int64(lockWaitDefault),
		},
		// Why: clients set the default to have no limit. The frontend's own is a smaller number.
		&sql.MysqlSystemVariable{
			Name: "sql_select_limit", Scope: sql.GetMysqlScope(sql.SystemVariableScope_Both), Dynamic: true, SetVarHintApplies: true,
			Type:    types.NewSystemUintType("sql_select_limit", 0, math.MaxUint64),
			Default: uint64(math.MaxUint64),
		},
	}
	for _, name := range []string{"character_set_client", "character_set_connection", "character_set_database",
		"character_set_results", "character_set_server", "collation_connection", "collation_database", "collation_server", "sql_mode"} {
		if v := withDefault(name); v != nil {
			vars = append(vars, v)
		}
	}
	return vars
}

// withDefault returns the frontend's definition of a character set or collation variable, or of sql_mode, with MySQL's
// default.
func withDefault(name string) sql.SystemVariable {
	v, _, ok := sql.SystemVariables.GetGlobal(name)
	if !ok {
		return nil
	}
	old, ok := v.(*sql.MysqlSystemVariable)
	if !ok {
		return nil
	}
	fixed := *old
	switch {
	case name == "sql_mode":
		fixed.Default = sqlModeDefault
	case strings.HasPrefix(name, "coll"):
		fixed.Default = collationName
	default:
		fixed.Default = charsetName
	}
	return &fixed
}

// missingVariables are variables that clients and tools ask for and the frontend lacks.
func missingVariables() []sql.SystemVariable {
	const global, both, session = sql.SystemVariableScope_Global, sql.SystemVariableScope_Both, sql.SystemVariableScope_Session
	all := []sql.SystemVariable{
		textVariable("have_query_cache", "NO", global, false),
		textVariable("have_ssl", "DISABLED", global, false),
		textVariable("have_openssl", "DISABLED", global, false),
		textVariable("innodb_version", ServerVersion, global, false),
		textVariable("innodb_default_row_format", "dynamic", global, true),
		switchVariable{textVariable("optimizer_switch", optimizerSwitches, both, true).(*sql.MysqlSystemVariable)},
		boolVariable("innodb_file_per_table", 1, global),
		boolVariable("innodb_strict_mode", 1, both),
		boolVariable("profiling", 0, both),
		boolVariable("sql_generate_invisible_primary_key", 0, both),
		boolVariable(verifyVariable, 0, both),
		engineVariable("innodb_flush_log_at_trx_commit", 2, 1, func(e *engine.Engine, v int64) {
			if v == 1 {
				e.SetDurability(engine.SyncCommit)
			} else {
				e.SetDurability(engine.SyncEverySecond) // 0 promises no more, and costs the same
			}
		}),
		engineVariable("lancesql_freshness", freshnessMax, int64(engine.DefaultConfig().Freshness/time.Second), func(e *engine.Engine, v int64) {
			e.SetFreshness(time.Duration(v) * time.Second)
		}),
		intVariable("warning_count", 0, 1<<31, 0, session, false),
		intVariable("error_count", 0, 1<<31, 0, session, false),
		intVariable("identity", 0, 1<<62, 0, session, true),
	}
	var missing []sql.SystemVariable
	for _, v := range all {
		if _, _, ok := sql.SystemVariables.GetGlobal(v.GetName()); !ok {
			missing = append(missing, v)
		}
	}
	return missing
}

func textVariable(name, value string, scope sql.MysqlSVScopeType, dynamic bool) sql.SystemVariable {
	return &sql.MysqlSystemVariable{
		Name: name, Scope: sql.GetMysqlScope(scope), Dynamic: dynamic, Type: types.NewSystemStringType(name), Default: value,
	}
}

func boolVariable(name string, value int8, scope sql.MysqlSVScopeType) sql.SystemVariable {
	return &sql.MysqlSystemVariable{
		Name: name, Scope: sql.GetMysqlScope(scope), Dynamic: true, Type: types.NewSystemBoolType(name), Default: value,
	}
}

func intVariable(name string, low, high, value int64, scope sql.MysqlSVScopeType, dynamic bool) sql.SystemVariable {
	return &sql.MysqlSystemVariable{
		Name: name, Scope: sql.GetMysqlScope(scope), Dynamic: dynamic,
		Type: types.NewSystemIntType(name, low, high, false), Default: value,
	}
}

// engineVariable is a global number from 0 to high that changes a setting of the engine of the session that sets it.
func engineVariable(name string, high, value int64, set func(*engine.Engine, int64)) sql.SystemVariable {
	v := intVariable(name, 0, high, value, sql.SystemVariableScope_Global, true).(*sql.MysqlSystemVariable)
	v.NotifyChanged = func(ctx *sql.Context, _ sql.SystemVariableScope, now sql.SystemVarValue) error {
		if ctx == nil || ctx.Session == nil {
			return nil // the registry is being filled
		}
		n, ok := now.Val.(int64)
		if c := connOf(ctx); ok && c != nil {
			set(c.provider.engine, n)
		}
		return nil
	}
	return v
}
