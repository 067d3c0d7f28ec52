package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/errs"
)

// readOnlyText is MySQL's wording of error 1290 for a server that was started with --read-only.
const readOnlyText = "The MySQL server is running with the --read-only option so it cannot execute this statement"

// refuseChanges refuses statements that change data or definitions, of a server that only reads; what else there is to
// refuse is refused as well. Statements that reach the engine by other ways fail there.
func refuseChanges(stmt sqlparser.Statement) error {
	switch stmt.(type) {
	case *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete, *sqlparser.Load, *sqlparser.DDL, *sqlparser.DBDDL,
		*sqlparser.AlterTable:
		return newError(1290, readOnlyText)
	}
	return refuseFiles(stmt)
}

// showReadOnly makes the system variables tell that the server only reads.
func showReadOnly() error {
	return sql.SystemVariables.AssignValues(map[string]any{"read_only": int8(1), "super_read_only": int8(1)})
}

// runAgain prepares the session for running a failed statement again, if what it read was removed by the process that
// writes: the look at its tables starts over. Inside a transaction it may not, since the rows read before belong to the
// statement's.
func runAgain(ctx *sql.Context, err error) bool {
	c := connOf(ctx)
	if c == nil || !isAny(causes(err), errs.ErrVanished) || c.keepsTransaction() {
		return false
	}
	c.closeReaders()
	c.stmt.begun, c.stmt.begunOwn = nil, nil
	c.SetTransaction(nil)
	return true
}
