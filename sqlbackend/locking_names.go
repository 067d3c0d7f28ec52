package sqlbackend

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"lancesql/internal/errs"
)

// lockFunctions are the functions of locks by name. The frontend's own spin, deaf to KILL, and take part in no search for
// deadlocks.
func lockFunctions() []sql.Function {
	one := func(name string, eval func(ctx *sql.Context, c *Conn, name string, _ time.Duration) (any, error)) sql.Function {
		return sql.Function1{Name: name, Fn: func(_ *sql.Context, e sql.Expression) sql.Expression {
			return &lockFunction{name: name, args: []sql.Expression{e}, eval: eval}
		}}
	}
	return []sql.Function{
		sql.Function2{Name: "get_lock", Fn: func(_ *sql.Context, a, b sql.Expression) sql.Expression {
			return &lockFunction{name: "get_lock", args: []sql.Expression{a, b}, eval: getLock}
		}},
		one("release_lock", releaseLock),
		one("is_free_lock", isFreeLock),
		one("is_used_lock", isUsedLock),
		sql.Function0{Name: "release_all_locks", Fn: func(*sql.Context) sql.Expression {
			return &lockFunction{name: "release_all_locks", eval: releaseAllLocks}
		}},
	}
}

var _ sql.FunctionProvider = (*Provider)(nil)

// Function implements sql.FunctionProvider: it is asked before the frontend's own functions, which cannot be replaced.
func (p *Provider) Function(ctx *sql.Context, schema, name string) (sql.Function, bool) {
	if f, ok := replacedFunction(name); ok && schema == "" {
		return f, true
	}
	if f, ok := p.stored(ctx, schema, name); ok {
		return f, true
	}
	if schema != "" || !strings.HasSuffix(name, "_lock") && !strings.HasSuffix(name, "_locks") {
		return nil, false
	}
	for _, f := range lockFunctions() {
		if f.FunctionName() == name {
			return f, true
		}
	}
	return nil, false
}

func getLock(ctx *sql.Context, c *Conn, name string, wait time.Duration) (any, error) {
	err := c.locks.LockName(ctx, name, wait)
	switch {
	case errors.Is(err, errs.ErrLockTimeout):
		return int64(0), nil
	case errors.Is(err, errs.ErrDeadlock):
		return nil, mysql.NewSQLError(3058, "HY000", "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing locks and restarting lock acquisition.")
	case err != nil:
		return nil, err
	}
	return int64(1), nil
}

func releaseLock(_ *sql.Context, c *Conn, name string, _ time.Duration) (any, error) {
	if c.locks.UnlockName(name) {
		return int64(1), nil
	}
	if _, held := c.provider.engine.HolderOfName(name); held {
		return int64(0), nil
	}
	return nil, nil
}

func isFreeLock(_ *sql.Context, c *Conn, name string, _ time.Duration) (any, error) {
	if _, held := c.provider.engine.HolderOfName(name); held {
		return int64(0), nil
	}
	return int64(1), nil
}

func isUsedLock(_ *sql.Context, c *Conn, name string, _ time.Duration) (any, error) {
	if id, held := c.provider.engine.HolderOfName(name); held {
		return id, nil
	}
	return nil, nil
}

func releaseAllLocks(_ *sql.Context, c *Conn, _ string, _ time.Duration) (any, error) {
	return int64(c.locks.UnlockNames()), nil
}

// lockFunction is a call of one of them.
type lockFunction struct {
	name string
	args []sql.Expression // the name, and the seconds to wait
	eval func(ctx *sql.Context, c *Conn, name string, wait time.Duration) (any, error)
}

var (
	_ sql.FunctionExpression         = (*lockFunction)(nil)
	_ sql.NonDeterministicExpression = (*lockFunction)(nil)
)

// FunctionName implements sql.FunctionExpression.
func (f *lockFunction) FunctionName() string { return f.name }

// Description implements sql.FunctionExpression.
func (f *lockFunction) Description() string { return "locks by name" }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (f *lockFunction) IsNonDeterministic() bool { return true }

// Resolved implements sql.Expression.
func (f *lockFunction) Resolved() bool {
	for _, a := range f.args {
		if !a.Resolved() {
			return false
		}
	}
	return true
}

// String implements fmt.Stringer.
func (f *lockFunction) String() string {
	parts := make([]string, len(f.args))
	for i, a := range f.args {
		parts[i] = a.String()
	}
	return f.name + "(" + strings.Join(parts, ",") + ")"
}

// Type implements sql.Expression.
func (f *lockFunction) Type(*sql.Context) sql.Type {
	if f.name == "is_used_lock" {
		return types.Uint64
	}
	return types.Int64
}

// IsNullable implements sql.Expression.
func (f *lockFunction) IsNullable(*sql.Context) bool { return f.name != "release_all_locks" }

// Children implements sql.Expression.
func (f *lockFunction) Children() []sql.Expression { return f.args }

// WithChildren implements sql.Expression.
func (f *lockFunction) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != len(f.args) {
		return nil, sql.ErrInvalidChildrenNumber.New(f, len(c), len(f.args))
	}
	return &lockFunction{name: f.name, args: c, eval: f.eval}, nil
}

// Eval implements sql.Expression.
func (f *lockFunction) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	c := connOf(ctx)
	if c == nil {
		return nil, fmt.Errorf("%s outside a connection: %w", f.name, errs.ErrUnsupported)
	}
	name, wait := "", time.Duration(0)
	if len(f.args) > 0 {
		v, err := f.args[0].Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		if name, err = lockName(ctx, v); err != nil {
			return nil, err
		}
	}
	if len(f.args) > 1 {
		v, err := f.args[1].Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		s, _, err := types.Float64.Convert(ctx, v)
		if err != nil {
			return nil, err
		}
		const most = 365 * 24 * 3600 // seconds
		if s, ok := s.(float64); ok {
			wait = time.Duration(min(s, most) * float64(time.Second))
		}
	}
	return f.eval(ctx, c, name, wait)
}

// lockName checks a name as MySQL does; case does not count.
func lockName(ctx *sql.Context, v any) (string, error) {
	const most = 64 // characters
	text, _, err := types.LongText.Convert(ctx, v)
	if err != nil {
		return "", err
	}
	name, ok := text.(string)
	if !ok {
		name = "NULL"
	}
	if !ok || name == "" || utf8.RuneCountInString(name) > most {
		return "", mysql.NewSQLError(3057, "42000", "Incorrect user-level lock name '%s'.", name)
	}
	return foldName(name), nil
}
