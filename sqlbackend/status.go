package sqlbackend

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// showsStatus reports whether a statement is SHOW TABLE STATUS, whose Comment tells how far outside readers are behind.
func showsStatus(stmt sqlparser.Statement) bool {
	s, ok := stmt.(*sqlparser.Show)
	return ok && strings.EqualFold(s.Type, sqlparser.TableStatusStr)
}

// lagComment is a table's comment with how far readers of its base are behind, if they are.
func (p *Provider) lagComment(ctx *sql.Context, info *tableInfo) (string, error) {
	lag, err := p.engine.Lag(ctx, info.entry)
	if err != nil {
		return "", wrapTable(info.entry, "status of", err)
	}
	comment := info.shape.Comment
	if lag.Rows == 0 {
		return comment, nil
	}
	if comment != "" {
		comment += "; "
	}
	return comment + fmt.Sprintf("%d rows pending for %.1f s", lag.Rows, lag.Age.Seconds()), nil
}
