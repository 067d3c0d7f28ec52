package sqlbackend

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// englishLocales are the locales of MySQL whose messages and names of days and months are English, by their numbers. There are no
// others here.
func englishLocales() map[int]string {
	return map[int]string{0: "en_US", 1: "en_GB", 74: "en_AU", 75: "en_CA", 76: "en_IN", 77: "en_NZ", 78: "en_PH", 79: "en_ZA", 80: "en_ZW"}
}

// localeVariable is a system variable that names a locale. One whose words the server does not have is refused: a client that asks for
// Japanese must not take English for it.
type localeVariable struct{ *sql.MysqlSystemVariable }

func newLocaleVariable(name string) sql.SystemVariable {
	return localeVariable{textVariable(name, englishLocales()[0], sql.SystemVariableScope_Both, true).(*sql.MysqlSystemVariable)}
}

// InitValue implements sql.SystemVariable.
func (v localeVariable) InitValue(ctx *sql.Context, val any, global bool) (sql.SystemVarValue, error) {
	out, err := v.MysqlSystemVariable.InitValue(ctx, val, global)
	out.Var = v
	return out, err
}

// SetValue implements sql.SystemVariable.
func (v localeVariable) SetValue(ctx *sql.Context, val any, global bool) (sql.SystemVarValue, error) {
	if val == nil {
		return sql.SystemVarValue{}, newError(1231, "Variable '%s' can't be set to the value of 'NULL'", v.Name)
	}
	name, ok := localeOf(fmt.Sprint(val))
	if !ok {
		return sql.SystemVarValue{}, newError(1649, "Unknown locale: '%v'", val)
	}
	out, err := v.MysqlSystemVariable.SetValue(ctx, name, global)
	out.Var = v
	return out, err
}

// localeOf is the name of the locale that a name in any case, or a number, stands for.
func localeOf(text string) (string, bool) {
	list := englishLocales()
	if n, err := strconv.Atoi(text); err == nil {
		name, ok := list[n]
		return name, ok
	}
	for _, name := range list {
		if strings.EqualFold(name, text) {
			return name, true
		}
	}
	return "", false
}
