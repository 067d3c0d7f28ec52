package sqlbackend

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Definitions and SHOW statements that the frontend's grammar lacks, put into ones it has.

// rewriteShow makes a query of SHOW OPEN TABLES [FROM db] [LIKE … | WHERE …], and SHOW ENGINES of SHOW STORAGE ENGINES.
func rewriteShow(query string, options sqlparser.ParserOptions) string {
	if !strings.EqualFold(firstWord(query), "show") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok || len(list) < 4 {
		return query
	}
	if list[1].isWord("storage") && list[2].isWord("engines") {
		return query[:list[0].to] + query[list[1].to:]
	}
	if !list[1].isWord("open") || !list[2].isWord("tables") {
		return query
	}
	at, where := 3, ""
	if list[at].isWord("from", "in") && at+1 < len(list)-1 {
		where = " AND table_schema = '" + strings.ReplaceAll(list[at+1].text, "'", "''") + "'"
		at += 2
	}
	rest := ""
	switch {
	case list[at].isWord("like"):
		rest = " WHERE `Table`" + part(query, list[at-1].to, list[len(list)-2].to)
	case list[at].isWord("where"):
		rest = part(query, list[at-1].to, list[len(list)-2].to)
	case at != len(list)-1:
		return query
	}
	return "SELECT * FROM (SELECT table_schema AS `Database`, table_name AS `Table`, 0 AS In_use, 0 AS Name_locked FROM information_schema.tables" +
		" WHERE table_type = 'BASE TABLE'" + where + ") AS `open tables`" + rest + query[list[len(list)-2].to:]
}

// rewriteDescribe makes SHOW COLUMNS of DESCRIBE t column and of DESCRIBE t 'pattern'.
func rewriteDescribe(query string, options sqlparser.ParserOptions) string {
	switch strings.ToLower(firstWord(query)) {
	case "describe", "desc", "explain":
	default:
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok || len(list) != 4 && (len(list) != 6 || list[2].kind != '.') {
		return query
	}
	if list[1].kind == sqlparser.STRING || list[1].isWord("select", "insert", "update", "delete", "replace", "with", "table", "values", "analyze",
		"format", "extended", "plan", "partitions", "for") && list[1].to-list[1].from <= len(" ")+len(list[1].text) {
		return query
	}
	end := len(list) - 2
	pattern := query[list[end-1].to:list[end].to]
	if list[end].kind != sqlparser.STRING {
		pattern = " '" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(list[end].text) + "'"
	}
	return "SHOW COLUMNS FROM" + part(query, list[0].to, list[end-1].to) + " LIKE" + pattern + query[list[end].to:]
}

// alterViewMark in a CREATE OR REPLACE VIEW says that the client wrote ALTER VIEW.
const alterViewMark = "/*lancesql: alter view*/"

// rewriteAlter makes CREATE OR REPLACE VIEW of ALTER VIEW, and drops ORDER BY from ALTER TABLE, which changes nothing where
// rows are kept by their key.
func rewriteAlter(query string, options sqlparser.ParserOptions) string {
	if !strings.EqualFold(firstWord(query), "alter") || !containsFold(query, "view") && !containsFold(query, "order") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok {
		return query
	}
	if i := viewAt(list); i > 0 {
		return query[:list[0].to-len("alter")] + "CREATE OR REPLACE" + part(query, list[0].to, list[i].to) + " " + alterViewMark + query[list[i].to:]
	}
	if len(list) < 5 || !list[1].isWord("table") {
		return query
	}
	depth := depths(list)
	for i := 3; i+2 < len(list); i++ {
		if depth[i] != 0 || !list[i].isWord("order") || !list[i+1].isWord("by") {
			continue
		}
		end := i + 2 // names with ASC and DESC, between commas, until what is none
		for end < len(list)-1 && list[end].kind != '(' && list[end].kind != sqlparser.STRING {
			if list[end].isWord("add", "drop", "modify", "change", "rename", "alter", "engine", "comment", "convert", "auto_increment") && list[end-1].kind == ',' {
				end-- // the comma
				break
			}
			end++
		}
		head, tail := query[:list[i-1].to], query[list[end-1].to:]
		switch {
		case list[i-1].kind == ',':
			head = query[:list[i-2].to]
		case list[end].kind == ',':
			tail = query[list[end].to:]
		case end == len(list)-1:
			head += " ENGINE = InnoDB"
		}
		return head + tail
	}
	return query
}

// viewAt is where VIEW stands in ALTER [ALGORITHM = …] [DEFINER = …] [SQL SECURITY …] VIEW; 0 if it does not.
func viewAt(list []token) int {
	for i := 1; i < len(list); i++ {
		switch {
		case list[i].isWord("view"):
			return i
		case i == 1 && !list[i].isWord("algorithm", "definer", "sql"):
			return 0
		case list[i].isWord("as") || list[i].kind == '(' && !list[i-1].isWord("current_user"):
			return 0
		}
	}
	return 0
}

// rewritePartitions puts the parentheses around MAXVALUE that the frontend's grammar wants.
func rewritePartitions(query string, options sqlparser.ParserOptions) string {
	if !containsFold(query, "maxvalue") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok {
		return query
	}
	var edits []edit
	for i := 2; i < len(list); i++ {
		if list[i].isWord("maxvalue") && list[i-1].isWord("than") && list[i-2].isWord("less") {
			edits = append(edits, edit{from: list[i].to - len("maxvalue"), to: list[i].to, by: "(MAXVALUE)", silent: true})
		}
	}
	return applyEdits(query, edits)
}
