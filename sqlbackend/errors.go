package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	goerrors "gopkg.in/src-d/go-errors.v1"

	"lancesql/internal/errs"
)

// MapError turns any error of the engine, of this package or of the frontend into the *mysql.SQLError the client gets:
// MySQL's number, its SQLSTATE, and where clients read it, MySQL's text. Nil stays nil. An error that is one already,
// however wrapped, keeps number and text. What nobody classified is 1105.
func MapError(err error) error {
	if err == nil {
		return nil
	}
	return mapToSQLError(err)
}

// mapStatementError is MapError with the statement known, for numbers that depend on it. stmt may be nil.
func mapStatementError(stmt sqlparser.Statement, err error) *mysql.SQLError {
	se := mapToSQLError(err)
	switch s := stmt.(type) {
	case *sqlparser.DBDDL:
		if se.Num == 1049 && strings.EqualFold(s.Action, sqlparser.DropStr) {
			return newError(1008, "Can't drop database '%s'; database doesn't exist", s.DBName)
		}
	case *sqlparser.DDL:
		if se.Num == 1146 && len(s.FromTables)+len(s.FromViews) > 0 && strings.EqualFold(s.Action, sqlparser.DropStr) {
			return newError(1051, "%s", strings.TrimSuffix("Unknown table"+strings.TrimPrefix(se.Message, "Table"), " doesn't exist"))
		}
	case *sqlparser.Set:
		for _, v := range s.Exprs {
			if se.Num == 1054 && v.Scope == sqlparser.SetScope_None && v.Name != nil && strings.Contains(se.Message, "'"+v.Name.Name.String()+"'") {
				return newError(1193, "Unknown system variable '%s'", v.Name.Name)
			}
		}
	}
	return se
}

func mapToSQLError(err error) *mysql.SQLError {
	chain := causes(err)
	for _, e := range chain {
		if se, ok := e.(*mysql.SQLError); ok {
			return withState(se)
		}
	}
	if se := engineError(err, chain); se != nil {
		return se
	}
	for _, row := range frontendErrors() {
		for _, e := range chain {
			if ge, ok := e.(*goerrors.Error); ok && row.kind.Is(ge) {
				if row.kind == sql.ErrNonAggregatedColumnWithoutGroupBy && strings.Contains(ge.Error(), "%!") { // no column is named
					return newError(1235, "This version of lancesql doesn't yet support '%s'", "window functions in HAVING, or beside * or a locking clause in a query with groups")
				}
				return row.build(ge)
			}
		}
	}
	last := chain[len(chain)-1]
	if text := last.Error(); strings.HasPrefix(text, "syntax error ") { // of a text inside a statement, as in PREPARE
		return newError(1064, "You have an error in your SQL syntax; %s", text)
	}
	return withState(sql.CastSQLError(last)) // kinds the frontend registers itself, else 1105
}

// causes lists err and everything it wraps, outermost first, through the frontend's own wrappers as well, which
// errors.As does not see into.
func causes(err error) []error {
	var chain []error
	queue := []error{err}
	const most = 64 // a cycle cannot happen, but must not hang an error path
	for len(queue) > 0 && len(chain) < most {
		e := queue[0]
		queue = queue[1:]
		if e == nil {
			continue
		}
		chain = append(chain, e)
		switch w := e.(type) {
		case sql.WrappedInsertError:
			queue = append(queue, w.Cause)
		case sql.WrappedTypeConversionError:
			queue = append(queue, w.Err)
		case interface{ Unwrap() error }:
			queue = append(queue, w.Unwrap())
		case interface{ Unwrap() []error }:
			queue = append(queue, w.Unwrap()...)
		case interface{ Cause() error }:
			queue = append(queue, w.Cause())
		}
	}
	return chain
}

// isAny reports whether one of chain matches target.
func isAny(chain []error, target error) bool {
	return slices.ContainsFunc(chain, func(e error) bool { return errors.Is(e, target) })
}

// engineError maps the sentinels of the engine and of contexts; nil if err has none.
func engineError(err error, chain []error) *mysql.SQLError {
	for _, row := range []struct {
		sentinel error
		num      int
		text     string // "%s" is the error's own text
	}{
		{context.DeadlineExceeded, 3024, "Query execution was interrupted, maximum statement execution time exceeded"},
		{context.Canceled, 1317, "Query execution was interrupted"},
		{errs.ErrNoSpace, 1021, "Disk full (%s); nothing was written"},
		{errs.ErrTableFull, 1114, "The table is full: %s"},
		{errs.ErrDeadlock, 1213, "Deadlock found when trying to get lock; try restarting transaction"},
		{errs.ErrWriteConflict, 1213, "Deadlock found when trying to get lock; try restarting transaction"},
		{errs.ErrLockTimeout, 1205, "Lock wait timeout exceeded; try restarting transaction"},
		{errs.ErrReadOnly, 1290, readOnlyText},
		{errs.ErrVanished, 1412, "Table definition has changed, please retry transaction"},
		{errs.ErrSchemaChanged, 1412, "Table definition has changed, please retry transaction"},
		{errs.ErrDuplicateKey, 1062, "Duplicate entry: %s"},
		{errs.ErrUnsupported, 1235, "Not supported yet: %s"},
		{errs.ErrClosed, 1053, "Server shutdown in progress"},
		{errs.ErrLimit, 1197, "Transaction or statement is too large: %s"},
		{errs.ErrCorruption, 1030, "Got error from storage engine: %s"},
		{errs.ErrSync, 1030, "Got error from storage engine: %s"},
		{errs.ErrPoisoned, 1030, "Got error from storage engine: %s"},
		{errs.ErrFenced, 1030, "Got error from storage engine: %s"},
		{errs.ErrNotFound, 1146, "%s"},
		{errs.ErrExists, 1050, "%s"},
		{errs.ErrInvalid, 1210, "Incorrect arguments: %s"},
	} {
		if isAny(chain, row.sentinel) {
			if strings.Contains(row.text, "%s") {
				return newError(row.num, row.text, err.Error())
			}
			return newError(row.num, "%s", row.text)
		}
	}
	return nil
}

// frontendError maps one kind of error of the frontend.
type frontendError struct {
	kind *goerrors.Kind
	num  int
	// text is MySQL's wording, with {0}, {1} … for the arguments of the kind's own message; empty keeps that message.
	text string
	// special builds the error where a template does not do; it has precedence.
	special func(e *goerrors.Error) *mysql.SQLError
}

func (f frontendError) build(e *goerrors.Error) *mysql.SQLError {
	if f.special != nil {
		return f.special(e)
	}
	if f.text == "" {
		return newError(f.num, "%s", e.Error())
	}
	return newError(f.num, "%s", fill(f.text, messageArgs(f.kind.Message, e.Error())))
}

// fill puts args into the template.
func fill(template string, args []string) string {
	for i, a := range args {
		template = strings.ReplaceAll(template, "{"+strconv.Itoa(i)+"}", a)
	}
	return template
}

// messageArgs recovers the arguments of a formatted message. The frontend keeps only the text; its formats use plain
// verbs. An argument that itself contains the literal text behind it is cut short, which costs only wording.
func messageArgs(format, text string) []string {
	var args []string
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 || i+1 >= len(format) || len(text) < i {
			return args
		}
		verb := format[i+1]
		text, format = text[i:], format[i+2:]
		end := len(text)
		literal, _, _ := strings.Cut(format, "%")
		if literal != "" {
			if j := strings.Index(text, literal); j >= 0 {
				end = j
			}
		}
		arg := text[:end]
		if verb == 'q' {
			if plain, err := strconv.Unquote(arg); err == nil {
				arg = plain
			}
		}
		args = append(args, arg)
		text = text[end:]
	}
}

// duplicate words a unique key violation as MySQL does; clients parse it.
func duplicate(e *goerrors.Error) *mysql.SQLError {
	for _, c := range causes(e) {
		u, ok := c.(sql.UniqueKeyError)
		if !ok {
			continue
		}
		text := u.Error()
		if strings.HasPrefix(text, "Duplicate entry") {
			return newError(1062, "%s", text)
		}
		key := "UNIQUE"
		if u.IsPK {
			key = "PRIMARY"
		}
		entry := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), ",", "-")
		return newError(1062, "Duplicate entry '%s' for key '%s'", entry, key)
	}
	return newError(1062, "%s", e.Error())
}

// outOfRange tells a value that does not fit a column from an overflow inside an expression.
func outOfRange(e *goerrors.Error) *mysql.SQLError {
	args := messageArgs(sql.ErrValueOutOfRange.Message, e.Error())
	if len(args) == 2 && (args[0] == "BIGINT" || args[0] == "DOUBLE") {
		return newError(1690, "%s value is out of range in '%s'", args[0], args[1])
	}
	if len(args) == 2 {
		if at := strings.LastIndex(args[1], columnMark); at >= 0 {
			return newError(1264, "Out of range value%s", args[1][at:])
		}
	}
	return newError(1264, "Out of range value for column: %s", e.Error())
}

// columnMark is what stands in front of the name of a column in sql.ErrValueOutOfRange, if it says it.
const columnMark = " for column '"

// inColumn is a type with the column and the row, 1-based, for sql.ErrValueOutOfRange.
func inColumn(t sql.Type, column string, row int64) string {
	if column == "" {
		return t.String()
	}
	return fmt.Sprintf("%s%s%s' at row %d", t, columnMark, column, row)
}

// newError builds a *mysql.SQLError with the state that belongs to num.
func newError(num int, format string, args ...any) *mysql.SQLError {
	return mysql.NewSQLError(num, sqlState(num), format, args...)
}

// withState corrects the general state of an error whose number has a better one.
func withState(se *mysql.SQLError) *mysql.SQLError {
	if se.State != mysql.SSUnknownSQLState && se.State != "" {
		return se
	}
	state := sqlState(se.Num)
	if state == se.State {
		return se
	}
	fixed := *se
	fixed.State = state
	return &fixed
}
