package sqlbackend

import (
	"errors"
	"net"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// addRoot puts the account root without a password into the grant store and turns authentication on. It may connect
// from this machine only; where the server listens on loopback addresses, everybody who can connect does.
func addRoot(db *mysql_db.MySQLDb, loopback bool) {
	db.AddRootAccount()
	if loopback {
		ed := db.Editor()
		defer ed.Close()
		db.AddSuperUser(ed, "root", "%", "")
	}
}

// checkGrants refuses a grant store that is off: the frontend would accept every user with every password.
func checkGrants(db *mysql_db.MySQLDb) error {
	if !db.Enabled() {
		return errors.New("accounts are not enabled")
	}
	return nil
}

// isLoopback reports whether only this machine reaches addr; a unix socket counts.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// refuseFiles refuses statements that read or write files of the server's machine. LOAD DATA LOCAL, whose file is the
// client's, is not one.
func refuseFiles(stmt sqlparser.Statement) error {
	switch s := stmt.(type) {
	case *sqlparser.Load:
		if !bool(s.Local) {
			return sql.ErrSecureFilePriv.New()
		}
	case sqlparser.SelectStatement:
		if into := s.GetInto(); into != nil && (into.Outfile != "" || into.Dumpfile != "") {
			return sql.ErrSecureFilePriv.New()
		}
	}
	return nil
}
