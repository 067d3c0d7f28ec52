package enginetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	gms "github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/sql"
)

// compareAnswers asks the queries of a plan suite for their rows here and over the frontend's own tables, whose plans are others.
func compareAnswers(t *testing.T, h *harness, e gms.QueryEngine, s planSuite) {
	t.Helper()
	own := gms.NewDefaultMemoryHarness()
	own.Setup(s.scripts...)
	frontend, err := own.NewEngine(t)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = frontend.Close() }()
	asked, answered := 0, 0
	for _, tt := range s.tests {
		if !isQuery(tt.Query) || strings.Contains(tt.Query, "rand()") {
			continue
		}
		asked++
		got, want := sortedRows(h, e, tt.Query), sortedRows(own, frontend, tt.Query)
		if len(want) > 0 {
			if strings.HasPrefix(want[0], "error ") { // what the frontend cannot do may be done here
				continue
			}
			answered++
		}
		if why, known := frontendWrong()[tt.Query]; known {
			if slices.Equal(got, want) {
				t.Errorf("%s\nis listed, but the answers are equal: %s", tt.Query, why)
			}
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngives\n%s\nand over the frontend's own tables\n%s", tt.Query, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	t.Logf("%d queries asked, %d give rows", asked, answered)
}

// frontendWrong lists the queries that the frontend's own tables answer wrongly, and how.
func frontendWrong() map[string]string {
	return map[string]string{
		"with a(j) as (select 1), b(i) as (select 2) (select j from a union select i from b order by j desc limit 1) union select j from a;":                                                                                  "it limits the first query of the UNION, not the UNION",
		"with a(j) as (select 1), b(i) as (select 2) (select t1.j as k from a t1 join a t2 on t1.j = t2.j union select i from b order by k desc limit 1) union select j from a;":                                              "it limits the first query of the UNION, not the UNION",
		"with a(j) as (select 1 union select 2 union select 3), b(i) as (select 2 union select 3) (select t1.j as k from a t1 join a t2 on t1.j = t2.j union select i from b order by k desc limit 2) union select j from a;": "it limits the first query of the UNION, not the UNION",
		"select v1+1 from comp_vector_index_t0 order by vec_distance(vector_column, '[50,50]') limit 5":                                                                                                                       "its vector index takes another column for the vector",
	}
}

// isQuery reports whether a statement changes nothing, by its first word that is no comment.
func isQuery(statement string) bool {
	for _, l := range strings.Split(statement, "\n") {
		l = strings.TrimLeft(strings.ToLower(l), "( \t")
		if l != "" && !strings.HasPrefix(l, "--") {
			return strings.HasPrefix(l, "select") || strings.HasPrefix(l, "with")
		}
	}
	return false
}

// sortedRows are the rows of a query as sorted text, or its error. Numbers are cut to six digits: a sum is DECIMAL here.
func sortedRows(h gms.Harness, e gms.QueryEngine, query string) []string {
	ctx := gms.NewContext(h)
	schema, it, _, err := e.Query(ctx, query)
	var rows []sql.Row
	if err == nil {
		rows, err = sql.RowIterToRows(ctx, it)
	}
	if err != nil {
		return []string{fmt.Sprintf("error %d %s", errorNumber(err), errorText(err))}
	}
	var lines []string
	for _, row := range rows {
		values := make([]string, len(row))
		for i, v := range clientRow(ctx, schema, row) {
			if v == nil {
				values[i] = "NULL"
				continue
			}
			values[i] = strconv.Quote(text(v))
			if f, err := strconv.ParseFloat(text(v), 64); err == nil {
				values[i] = fmt.Sprintf("%.6g", f)
			}
		}
		lines = append(lines, strings.Join(values, ", "))
	}
	slices.Sort(lines)
	return lines
}
