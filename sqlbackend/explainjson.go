package sqlbackend

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// EXPLAIN FORMAT = JSON: what EXPLAIN says of each table, in the members that MySQL has for it.

// jsonFormat is the name of the format for the frontend, whose builder knows no JSON: a tree twice, which nobody asks for.
const jsonFormat = "tree_tree"

// rewriteExplain gives FORMAT = JSON a name that the frontend's grammar takes.
func rewriteExplain(query string, options sqlparser.ParserOptions) string {
	switch strings.ToLower(firstWord(query)) {
	case "explain", "describe", "desc":
	default:
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok || len(list) < 5 {
		return query
	}
	at := 1
	if list[at].isWord("extended") {
		at++
	}
	if !list[at].isWord("format") || list[at+1].kind != '=' || !list[at+2].isWord("json") {
		return query
	}
	end := list[at+2].to
	return applyEdits(query, []edit{{from: end - len("json"), to: end, by: jsonFormat, silent: true}})
}

// explainsJSON reports whether the running statement is EXPLAIN FORMAT = JSON.
func (c *Conn) explainsJSON() bool {
	e, ok := c.stmt.marked.(*sqlparser.Explain)
	return ok && strings.EqualFold(e.ExplainFormat, jsonFormat)
}

// explainedTable is a table in the JSON of EXPLAIN.
type explainedTable struct {
	Table struct {
		Name     string   `json:"table_name"`
		Access   string   `json:"access_type"`
		Possible []string `json:"possible_keys,omitempty"`
		Key      string   `json:"key,omitempty"`
		Rows     any      `json:"rows_examined_per_scan"`
		Filtered string   `json:"filtered"`
		Storage  string   `json:"storage,omitempty"` // of our own: what the scan looks at
	} `json:"table"`
}

// json is the one row that EXPLAIN FORMAT = JSON answers with.
func (e *explained) json(ctx *sql.Context) (sql.Row, error) {
	type member struct {
		name  string
		value any
	}
	block := []member{{"select_id", 1}}
	tables := make([]explainedTable, len(e.scans))
	for i, row := range e.table(ctx, false) {
		t := &tables[i].Table
		t.Name, _ = row[2].(string)
		t.Access, _ = row[4].(string)
		t.Key, _ = row[6].(string)
		t.Rows, t.Filtered = row[9], "100.00"
		t.Storage, _ = row[11].(string)
		if possible, ok := row[5].(string); ok {
			t.Possible = strings.Split(possible, ",")
		}
	}
	switch len(tables) {
	case 0:
		block = append(block, member{"message", "No tables used"})
	case 1:
		block = append(block, member{"table", tables[0].Table})
	default:
		block = append(block, member{"nested_loop", tables})
	}
	var out bytes.Buffer
	out.WriteString(`{"query_block":{`)
	for i, m := range block { // in this order
		if i > 0 {
			out.WriteByte(',')
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out.WriteString(`"` + m.name + `":`)
		out.Write(value)
	}
	out.WriteString("}}")
	var indented bytes.Buffer
	if err := json.Indent(&indented, out.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	return sql.NewRow(indented.String()), nil
}
