package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// functions are the SQL functions that the frontend lacks. They are found by name.
func functions() []sql.Function {
	return []sql.Function{
		sql.Function0{Name: "version", Fn: versionFunction},
		sql.Function0{Name: "session_user", Fn: function.NewUser},
		sql.Function0{Name: "system_user", Fn: function.NewUser},
	}
}

// replacedFunction returns a function in place of the frontend's own.
func replacedFunction(name string) (sql.Function, bool) {
	name = foldName(name)
	for _, group := range []func(string) (sql.Function, bool){aggregateFunction, timeFunction, numberFunction} {
		if f, ok := group(name); ok {
			return f, true
		}
	}
	return nil, false
}

// aggregateFunction returns an aggregate in place of the frontend's own.
func aggregateFunction(name string) (sql.Function, bool) {
	switch name {
	case "sum":
		return sql.Function1{Name: "sum", Fn: newSum}, true
	case "avg":
		return sql.Function1{Name: "avg", Fn: newAverage}, true
	}
	return nil, false
}

func versionFunction(*sql.Context) sql.Expression {
	return expression.NewLiteral(ServerVersion, types.MustCreateStringWithDefaults(sqltypes.VarChar, int64(len(ServerVersion))))
}
