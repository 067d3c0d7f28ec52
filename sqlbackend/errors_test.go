package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/stretchr/testify/require"
	goerrors "gopkg.in/src-d/go-errors.v1"

	"lancesql/internal/errs"
)

func TestMapError(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("update t: %w", fmt.Errorf("scan: %w", err)) }
	for _, c := range []struct {
		err   error
		num   int
		state string
		text  string // part of the message; empty: not looked at
	}{
		{sql.NewUniqueKeyErr("[1,a]", true, nil), 1062, "23000", "Duplicate entry '1-a' for key 'PRIMARY'"},
		{sql.NewUniqueKeyErr("Duplicate entry '1' for key 't.PRIMARY'", true, nil), 1062, "23000", "Duplicate entry '1' for key 't.PRIMARY'"},
		{sql.NewWrappedInsertError(nil, sql.NewUniqueKeyErr("[1]", false, nil)), 1062, "23000", "Duplicate entry '1'"},
		{wrap(errs.ErrDuplicateKey), 1062, "23000", ""},
		{sql.ErrTableNotFound.New("t"), 1146, "42S02", "Table 't' doesn't exist"},
		{wrap(sql.ErrTableNotFound.New("d.t")), 1146, "42S02", "Table 'd.t' doesn't exist"},
		{sql.ErrValueOutOfRange.New(300, types.Int8), 1264, "22003", "Out of range value"},
		{sql.ErrValueOutOfRange.New("BIGINT", "1"), 1690, "22003", "BIGINT value is out of range"},
		{sql.NewWrappedTypeConversionError(300, 0, sql.ErrValueOutOfRange.New(300, types.Int8)), 1264, "22003", ""},
		{sql.NewWrappedInsertError(nil, sql.NewWrappedTypeConversionError("x", 0, sql.ErrInvalidValue.New("x", "int"))), 1366, "HY000", "Incorrect int value: 'x'"},
		{sql.ErrInsertIntoNonNullableProvidedNull.New("c"), 1048, "23000", "Column 'c' cannot be null"},
		{types.ErrLengthBeyondLimit.New("abc", "c"), 1406, "22001", "Data too long for column 'c' at row 1"},
		{types.ErrConvertingToTime.New("x"), 1292, "22007", "Incorrect datetime value: 'x'"},
		{wrap(errs.ErrNoSpace), 1021, "HY000", "Disk full"},
		{sql.ErrSyntaxError.New("syntax error at position 3"), 1064, "42000", "You have an error in your SQL syntax; syntax error at position 3"},
		{sql.ErrColumnNotFound.New("c"), 1054, "42S22", "Unknown column 'c' in 'field list'"},
		{sql.ErrTableColumnNotFound.New("t", "c"), 1054, "42S22", "Unknown column 't.c'"},
		{sql.ErrUnknownColumn.New("c", "t"), 1054, "42S22", ""},
		{sql.ErrTableAlreadyExists.New("t"), 1050, "42S01", "Table 't' already exists"},
		{sql.ErrDatabaseNotFound.New("d"), 1049, "42000", "Unknown database 'd'"},
		{sql.ErrDatabaseExists.New("d"), 1007, "HY000", "Can't create database 'd'; database exists"},
		{sql.ErrUnknownTable.New("d.t"), 1051, "42S02", "Unknown table 'd.t'"},
		{sql.ErrInsertIntoNonNullableDefaultNullColumn.New("c"), 1364, "HY000", "Field 'c' doesn't have a default value"},
		{sql.ErrInvalidValue.New("x", "int"), 1366, "HY000", ""},
		{sql.ErrColValCountMismatch.New(2), 1136, "21S01", "row 2"},
		{sql.ErrInsertIntoMismatchValueCount.New(), 1136, "21S01", ""},
		{sql.ErrUnknownSystemVariable.New("v"), 1193, "HY000", "Unknown system variable 'v'"},
		{wrap(errs.ErrDeadlock), 1213, "40001", "try restarting transaction"},
		{wrap(errs.ErrWriteConflict), 1213, "40001", ""},
		{sql.ErrLockDeadlock.New("x"), 1213, "40001", ""},
		{wrap(errs.ErrLockTimeout), 1205, "HY000", "Lock wait timeout exceeded"},
		{wrap(context.Canceled), 1317, "70100", "interrupted"},
		{wrap(context.DeadlineExceeded), 3024, "HY000", ""},
		{wrap(errs.ErrUnsupported), 1235, "42000", ""},
		{sql.ErrUnsupportedSyntax.New("x"), 1235, "42000", ""},
		{sql.ErrReadOnly.New(), 1290, "HY000", ""},
		{sql.ErrReadOnlyTransaction.New(), 1792, "25006", "READ ONLY transaction"},
		{sql.ErrFunctionNotFound.New("f"), 1305, "42000", "FUNCTION f does not exist"},
		{sql.ErrSavepointDoesNotExist.New("s"), 1305, "42000", "SAVEPOINT s does not exist"},
		{wrap(errs.ErrSchemaChanged), 1412, "HY000", ""},
		{sql.ErrNoDatabaseSelected.New(), 1046, "3D000", "No database selected"},
		{sql.ErrPrimaryKeyViolation.New(), 1062, "23000", ""},
		{errs.Corrupt("x.lance", 3, "bad"), 1030, "HY000", "x.lance"},
		{wrap(errs.ErrClosed), 1053, "08S01", ""},
		{errors.Join(errors.New("first"), mysql.NewSQLError(1197, "HY000", "too large")), 1197, "HY000", "too large"},
		{wrap(mysql.NewSQLError(1062, "", "Duplicate entry 'x'")), 1062, "23000", "Duplicate entry 'x'"},
		{errors.New("whatever"), 1105, "HY000", "whatever"},
		{goerrors.NewKind("nobody %s").New("knows"), 1105, "HY000", "nobody knows"},
		{sql.ErrWrongDBName.New("x"), 1102, "42000", ""},
	} {
		var se *mysql.SQLError
		require.ErrorAs(t, MapError(c.err), &se, "%v", c.err)
		require.Equal(t, c.num, se.Num, "%v", c.err)
		require.Equal(t, c.state, se.State, "%v", c.err)
		require.Contains(t, se.Message, c.text)
		require.NotContains(t, se.Message, "errno", "%v", c.err)
	}
	require.NoError(t, MapError(nil))
	drop := &sqlparser.DBDDL{Action: sqlparser.DropStr, DBName: "d"}
	require.Equal(t, 1008, mapStatementError(drop, sql.ErrDatabaseNotFound.New("d")).Num)
}

func TestMessageArgs(t *testing.T) {
	require.Equal(t, []string{"a", "b"}, messageArgs("x %s y '%v'", "x a y 'b'"))
	require.Equal(t, []string{`q"q`}, messageArgs("column %q is", `column "q\"q" is`))
	require.Empty(t, messageArgs("plain", "plain"))
	require.Empty(t, messageArgs("much longer %s", "short"))
	require.Equal(t, []string{""}, messageArgs("%s", ""))
}
