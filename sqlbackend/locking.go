package sqlbackend

import (
	"context"
	"strings"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine/lock"
)

// rowLock is what a query's locking clause asks for the rows of one table. Its zero value asks for nothing.
type rowLock struct {
	mode   lock.Mode // S for FOR SHARE, X for FOR UPDATE
	noWait bool      // NOWAIT: fail at once
	skip   bool      // SKIP LOCKED: leave out what cannot be locked at once
}

func (l rowLock) wanted() bool { return l.mode != lock.None }

// shareMark stands in the table list of FOR UPDATE OF where the client wrote FOR SHARE, which the frontend's grammar
// lacks: FOR SHARE OF t becomes FOR UPDATE OF `lancesql share`, t. finishTree takes it out again and makes the type of
// the clause forShare. The frontend drops the clause while planning.
const (
	shareMark = "lancesql share"
	forShare  = " for share"
)

// finishTree makes of a parsed statement what the rest of the package expects of one. text is what was parsed.
func finishTree(ctx context.Context, stmt sqlparser.Statement, text string) sqlparser.Statement {
	if s, ok := stmt.(*sqlparser.Insert); ok {
		if groupsValues(s) {
			return refused(newError(1111, "Invalid use of group function"))
		}
		nameInserted(ctx, s)
		askDuplicates(s)
	}
	switch {
	case isQuery(stmt):
		finishExpressions(ctx, stmt, text)
	default:
		switch s := stmt.(type) {
		case *sqlparser.Explain:
			if strings.EqualFold(s.ExplainFormat, "traditional") { // the one without FORMAT
				s.ExplainFormat = ""
			}
			finishExpressions(ctx, s.Statement, text)
		case *sqlparser.Show:
			escapeShow(ctx, s)
			return showDiagnostics(s)
		case *sqlparser.AlterTable:
			convertCharset(ctx, s, text)
			keepKeyExpressions(s)
			markFulltext(s)
			for _, d := range s.Statements {
				defineOperators(d)
			}
		case *sqlparser.DDL:
			defineOperators(s)
			detachKeyExpressions(s)
			keepKeyExpressions(s)
			markFulltext(s)
			for _, body := range bodies(s) {
				finishExpressions(ctx, body, text)
			}
			if s.OptSelect != nil && s.OptSelect.Select != nil {
				finishExpressions(ctx, s.OptSelect.Select, text)
			}
		}
	}
	dropNullOrder(stmt)
	selectHaving(ctx, stmt)
	resolveTypes(stmt)
	if !strings.Contains(text, shareMark) {
		return injectTransaction(stmt)
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		var l *sqlparser.Lock
		switch s := n.(type) {
		case *sqlparser.Select:
			l = s.Lock
		case *sqlparser.SetOp:
			l = s.Lock
		}
		if l == nil || len(l.Tables) == 0 || l.Tables[0].Name.String() != shareMark {
			return true, nil
		}
		l.Type = forShare + strings.ToLower(l.Type[strings.LastIndex(l.Type, "`")+1:])
		if l.Tables = l.Tables[1:]; len(l.Tables) == 0 {
			l.Tables = nil
		}
		return true, nil
	}, stmt)
	return injectTransaction(stmt)
}

// clauseOf reads a locking clause; false if there is none.
func clauseOf(l *sqlparser.Lock) (want rowLock, tables []string, ok bool) {
	if !locks(l) {
		return rowLock{}, nil, false
	}
	text := strings.ToLower(l.Type)
	want = rowLock{mode: lock.X, noWait: strings.HasSuffix(text, "nowait"), skip: strings.HasSuffix(text, "skip locked")}
	if strings.Contains(text, "share mode") || strings.HasPrefix(text, forShare) {
		want.mode = lock.S
	}
	for _, t := range l.Tables {
		tables = append(tables, foldName(t.Name.String()))
	}
	return want, tables, true
}

// lockClauses returns the locks a query asks for, by the names its tables have in it. A clause concerns the tables of its
// own query block; where a name occurs in several blocks, its rows are locked in all of them.
func lockClauses(n sqlparser.SQLNode) map[string]rowLock {
	var found map[string]rowLock
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		var clause *sqlparser.Lock
		var from sqlparser.TableExprs
		switch s := n.(type) {
		case *sqlparser.Select:
			clause, from = s.Lock, s.From
		case *sqlparser.SetOp:
			clause = s.Lock
		default:
			return true, nil
		}
		l, tables, ok := clauseOf(clause)
		if !ok {
			return true, nil
		}
		if tables == nil {
			if s, ok := n.(*sqlparser.SetOp); ok {
				tables = namesIn(s, nil)
			} else {
				tables = namesIn(from, nil)
			}
		}
		if found == nil {
			found = make(map[string]rowLock)
		}
		for _, t := range tables {
			if old := found[t]; old.mode < l.mode {
				found[t] = l
			}
		}
		return true, nil
	}, n)
	return found
}

// namesIn adds the names of the tables listed in a FROM clause; those inside derived tables do not count.
func namesIn(n sqlparser.SQLNode, names []string) []string {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch e := n.(type) {
		case *sqlparser.Subquery:
			return false, nil
		case *sqlparser.AliasedTableExpr:
			if name := exposedName(e); name != "" {
				names = append(names, foldName(name))
			}
			return false, nil
		}
		return true, nil
	}, n)
	return names
}

// exposedName is the name by which a query refers to a table; empty for a derived table.
func exposedName(e *sqlparser.AliasedTableExpr) string {
	t, ok := e.Expr.(sqlparser.TableName)
	if !ok {
		return ""
	}
	if !e.As.IsEmpty() {
		return e.As.String()
	}
	return t.Name.String()
}

// errNoWait is the error of NOWAIT.
func errNoWait() error {
	return mysql.NewSQLError(3572, "HY000", "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.")
}

// rewriteClauses puts statements about locks and transactions that the frontend's grammar lacks into words it has:
// FOR SHARE (shareMark), the statements of rewritestmt.go, and a list of characteristics after START TRANSACTION, whose original stays in a comment. Text
// it does not know it leaves alone.
func rewriteClauses(query string, options sqlparser.ParserOptions) string {
	query = rewriteParens(rewriteOperators(keepWildcards(query, options), options), options)
	if text := rewriteStart(query, options); text != query {
		return text
	}
	for _, rewrite := range []func(string, sqlparser.ParserOptions) string{rewriteDo, rewriteInsertSet, rewriteForms, rewriteHints, rewriteIndexTypes,
		rewriteReferences, rewriteLabels, rewriteShare, rewriteShow, rewriteDescribe, rewriteAlter, rewriteEnforcement, rewritePartitions, rewriteLockTables,
		rewriteDeleteIgnore, rewriteGenerated, rewriteExplain} {
		query = rewrite(query, options)
	}
	return rewriteWords(query, options)
}

// rewritePrepared is rewriteClauses for texts prepared over the wire, which the protocol library parses by itself.
func rewritePrepared(query string) string { return rewriteClauses(query, sqlparser.ParserOptions{}) }

// rewriteShare works on tokens, so that texts, names and comments are safe.
func rewriteShare(query string, options sqlparser.ParserOptions) string {
	if !containsFold(query, "share") {
		return query
	}
	var out strings.Builder
	done := 0
	s := newTokens(query, options)
	for s.kind != 0 && s.kind != sqlparser.LEX_ERROR {
		if !s.take(sqlparser.FOR) {
			s.next()
			continue
		}
		if s.kind == sqlparser.STRING || !strings.EqualFold(s.text, "share") {
			continue
		}
		end := tokenEnd(query, s)
		if end < len("share") || !strings.EqualFold(query[end-len("share"):end], "share") {
			return query // quoted, or not where it is thought to be
		}
		s.next()
		out.WriteString(query[done : end-len("share")])
		out.WriteString("UPDATE OF `" + shareMark + "`")
		done = end
		if s.kind == sqlparser.OF {
			done = tokenEnd(query, s)
			out.WriteByte(',')
		}
	}
	if done == 0 {
		return query
	}
	out.WriteString(query[done:])
	return out.String()
}

// tokenEnd is the offset behind the token read last. The tokenizer has read one character ahead.
func tokenEnd(query string, s *tokens) int {
	end := min(s.t.Position-1, len(query))
	for end > 0 && end <= len(query) && (query[end-1] == ' ' || query[end-1] == '\n' || query[end-1] == '\t' || query[end-1] == '\r') {
		end--
	}
	return end
}

// containsFold reports whether s contains the lower-case word in any case. Why not by EqualFold everywhere: it runs over
// every statement, of which some are megabytes of values.
func containsFold(s, word string) bool {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0] && strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// rewriteStart leaves of START TRANSACTION with a list of characteristics the one the frontend acts on.
func rewriteStart(query string, options sqlparser.ParserOptions) string {
	if !strings.EqualFold(firstWord(query), "start") {
		return query
	}
	s := newTokens(query, options)
	s.next()
	if !s.takeWord("transaction") {
		return query
	}
	access, several := "", false
	for {
		switch {
		case s.takeWord("with"):
			if !s.takeWord("consistent") || !s.takeWord("snapshot") {
				return query
			}
		case s.takeWord("read"):
			if access = strings.ToUpper(s.text); !s.takeWord("only", "write") {
				return query
			}
			access = " READ " + access
		default:
			return query
		}
		if !s.take(',') {
			break
		}
		several = true
	}
	if !several || !s.finish() {
		return query
	}
	return "START TRANSACTION" + access + " /* " + snapshotWords + " */" + query[s.end:]
}

// snapshotWords in a START TRANSACTION ask for the view at once.
const snapshotWords = "consistent snapshot"
