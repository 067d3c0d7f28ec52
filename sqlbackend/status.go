package sqlbackend

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// freshnessComment is how a table comment asks for a bound of its own for lancesql_freshness, since the grammar knows no
// other way: freshness=SECONDS, 0 = off.
const freshnessComment = "freshness="

// freshnessOf reads the bound a table comment asks for: 0 = none, negative = off.
func freshnessOf(comment string) (time.Duration, error) {
	text := strings.ToLower(comment)
	for {
		before, after, found := strings.Cut(text, freshnessComment)
		if !found {
			return 0, nil
		}
		text = after
		if n := len(before); n == 0 || !isWord(before[n-1]) {
			break
		}
	}
	digits := text
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		digits = digits[:end]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || n > freshnessMax:
		return 0, newError(1105, "table comment: %sSECONDS needs a number of seconds from 0 to %d", freshnessComment, freshnessMax)
	case n == 0:
		return -1, nil
	}
	return time.Duration(n) * time.Second, nil
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c >= 0x80
}

// TableFreshness returns the bound a table's definition asks for, for engine.Components.Freshness: 0 = the server's,
// negative = off. It does no I/O.
func TableFreshness(t *engine.TableEntry) time.Duration {
	var s struct {
		Comment string `json:"comment"`
	}
	if len(t.Shape) == 0 || json.Unmarshal(t.Shape, &s) != nil {
		return 0 // Why: what is wrong with a definition is said when the table is used
	}
	d, err := freshnessOf(s.Comment)
	if err != nil {
		return 0 // Why: refused where it is written; only a definition from elsewhere has one
	}
	return d
}

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
