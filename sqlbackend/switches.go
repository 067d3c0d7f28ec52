package sqlbackend

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// optimizerSwitches is the value of optimizer_switch as MySQL has it. None of them changes what is done here.
const optimizerSwitches = "index_merge=on,index_merge_union=on,index_merge_sort_union=on,index_merge_intersection=on," +
	"engine_condition_pushdown=on,index_condition_pushdown=on,mrr=on,mrr_cost_based=on,block_nested_loop=on,batched_key_access=off," +
	"materialization=on,semijoin=on,loosescan=on,firstmatch=on,duplicateweedout=on,subquery_materialization_cost_based=on," +
	"use_index_extensions=on,condition_fanout_filter=on,derived_merge=on,use_invisible_indexes=off,skip_scan=on,hash_join=on," +
	"subquery_to_derived=off,prefer_ordering_index=on,hypergraph_optimizer=off,derived_condition_pushdown=on,hash_set_operations=on"

// switchVariable is a system variable whose value is a list of switches: setting it changes those it names.
type switchVariable struct{ *sql.MysqlSystemVariable }

// InitValue implements sql.SystemVariable.
func (v switchVariable) InitValue(ctx *sql.Context, val any, global bool) (sql.SystemVarValue, error) {
	out, err := v.MysqlSystemVariable.InitValue(ctx, val, global)
	out.Var = v
	return out, err
}

// SetValue implements sql.SystemVariable.
func (v switchVariable) SetValue(ctx *sql.Context, val any, global bool) (sql.SystemVarValue, error) {
	if text, ok := val.(string); ok {
		var old any
		if global || ctx == nil || ctx.Session == nil {
			_, old, _ = sql.SystemVariables.GetGlobal(v.Name)
		} else if o, err := ctx.GetSessionVariable(ctx, v.Name); err == nil {
			old = o
		}
		was, _ := old.(string)
		merged, ok := mergeSwitches(was, v.MysqlSystemVariable.Default.(string), text)
		if !ok {
			return sql.SystemVarValue{}, newError(1231, "Variable '%s' can't be set to the value of '%s'", v.Name, text)
		}
		val = merged
	}
	out, err := v.MysqlSystemVariable.SetValue(ctx, val, global)
	out.Var = v
	return out, err
}

// mergeSwitches changes the switches that change names; false if there is one it does not have.
func mergeSwitches(was, byDefault, change string) (string, bool) {
	list := strings.Split(was, ",")
	defaults := strings.Split(byDefault, ",")
	if len(list) != len(defaults) {
		list = slices.Clone(defaults)
	}
	for c := range strings.SplitSeq(change, ",") {
		name, to, _ := strings.Cut(strings.ToLower(strings.TrimSpace(c)), "=")
		if name == "default" && to == "" {
			list = slices.Clone(defaults)
			continue
		}
		i := slices.IndexFunc(defaults, func(d string) bool { return strings.HasPrefix(d, name+"=") })
		if i < 0 {
			return "", false
		}
		switch to {
		case "on", "off":
			list[i] = name + "=" + to
		case "default":
			list[i] = defaults[i]
		default:
			return "", false
		}
	}
	return strings.Join(list, ","), true
}
