package sqlbackend

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/stretchr/testify/require"
)

// adminOf parses text with a parser that keeps admin statements readable; ok is false if it is none.
func adminOf(t *testing.T, text string, options sqlparser.ParserOptions) (adminStatement, string, string, bool) {
	t.Helper()
	var got *adminStatement
	p := &parser{inner: sql.NewMysqlParser(), admin: func(s adminStatement) sqlparser.Statement {
		got = &s
		return injectAdmin(nil)(s)
	}}
	stmt, parsed, rest, err := p.ParseWithOptions(sql.NewEmptyContext(), text, ';', true, options)
	if err != nil {
		return adminStatement{}, "", "", false
	}
	if a, ok := stmt.(*sqlparser.Analyze); ok && got == nil {
		return adminStatement{op: adminAnalyze, tables: a.Tables}, parsed, rest, true
	}
	if got == nil {
		return adminStatement{}, parsed, rest, false
	}
	require.IsType(t, sqlparser.InjectedStatement{}, stmt)
	require.Equal(t, string(got.op)+" table", sqlparser.String(stmt))
	return *got, parsed, rest, true
}

func TestParseAdminStatements(t *testing.T) {
	for _, c := range []struct {
		text   string
		op     adminOp
		tables string
		rest   string
	}{
		{text: "FLUSH TABLES", op: adminFlush},
		{text: "flush table", op: adminFlush},
		{text: "FLUSH TABLES;", op: adminFlush},
		{text: "FLUSH TABLES t", op: adminFlush, tables: "t"},
		{text: "FLUSH TABLE d.t, `a``b`.`x;y`", op: adminFlush, tables: "d.t a`b.x;y"},
		{text: "FLUSH TABLES WITH READ LOCK", op: adminFlush},
		{text: "FLUSH TABLES t, u WITH READ LOCK", op: adminFlush, tables: "t u"},
		{text: "FLUSH TABLES t FOR EXPORT", op: adminFlush, tables: "t"},
		{text: "FLUSH LOCAL TABLES", op: adminFlush},
		{text: "FLUSH NO_WRITE_TO_BINLOG TABLES t", op: adminFlush, tables: "t"},
		{text: "FLUSH /*!40101 LOCAL */ TABLES", op: adminFlush},
		{text: "/* FLUSH LOGS; */ -- 'quoted\n # \"more\n FLUSH/**/TABLES -- end", op: adminFlush},
		{text: "FLUSH TABLES `with`", op: adminFlush, tables: "with"},
		{text: "FLUSH TABLES status", op: adminFlush, tables: "status"},
		{text: "FLUSH TABLES t; SELECT 'FLUSH TABLES'", op: adminFlush, tables: "t", rest: " SELECT 'FLUSH TABLES'"},
		{text: "FLUSH STATUS", op: adminStatus},
		{text: "FLUSH LOGS", op: adminNothing},
		{text: "FLUSH SLOW LOGS", op: adminNothing},
		{text: "OPTIMIZE TABLE t", op: adminOptimize, tables: "t"},
		{text: "OPTIMIZE LOCAL TABLES a.t,u", op: adminOptimize, tables: "a.t u"},
		{text: "CHECK TABLE t", op: adminCheck, tables: "t"},
		{text: "check table t, u for upgrade quick", op: adminCheck, tables: "t u"},
		{text: "REPAIR TABLE t QUICK EXTENDED", op: adminRepair, tables: "t"},
		{text: "ANALYZE TABLE t", op: adminAnalyze, tables: "t"},
		{text: "ANALYZE NO_WRITE_TO_BINLOG TABLE t, u", op: adminAnalyze, tables: "t u"},
	} {
		s, parsed, rest, ok := adminOf(t, c.text, sqlparser.ParserOptions{})
		require.True(t, ok, c.text)
		require.Equal(t, c.op, s.op, c.text)
		got := ""
		for i, n := range s.tables {
			if i > 0 {
				got += " "
			}
			if !n.DbQualifier.IsEmpty() {
				got += n.DbQualifier.String() + "."
			}
			got += n.Name.String()
		}
		require.Equal(t, c.tables, got, c.text)
		require.Equal(t, c.rest, rest, c.text)
		require.NotContains(t, parsed, "SELECT", c.text)
	}
	s, _, _, ok := adminOf(t, `FLUSH TABLES "a b"`, sqlparser.ParserOptions{AnsiQuotes: true})
	require.True(t, ok)
	require.Equal(t, "a b", s.tables[0].Name.String())
}

func TestParseLeavesOtherStatements(t *testing.T) {
	for _, text := range []string{
		"SELECT 'FLUSH TABLES'", "SELECT 1 /* FLUSH TABLES */", "FLUSH PRIVILEGES", "FLUSH TABLES t u", "FLUSH TABLES 't'",
		"FLUSH TABLES WITH LOCK", "OPTIMIZE t", "CHECK TABLE", "FLUSH", "OPTIMIZE TABLE t, ", "/*! FLUSH TABLES", "",
		"ANALYZE TABLE t UPDATE HISTOGRAM ON c USING DATA '{}'", "INSERT INTO t VALUES ('CHECK TABLE t')", "FLUSH TABLES t WITH READ",
	} {
		s, _, _, ok := adminOf(t, text, sqlparser.ParserOptions{})
		require.False(t, ok && s.op != adminAnalyze, text)
	}
	p := &parser{inner: sql.NewMysqlParser(), admin: injectAdmin(nil)}
	_, _, _, err := p.ParseWithOptions(sql.NewEmptyContext(), "FLUSH TABLES; SELECT 1", ';', false, sqlparser.ParserOptions{})
	require.Error(t, err, "two statements where one was asked for")
	stmt, end, err := p.ParseOneWithOptions(sql.NewEmptyContext(), "FLUSH TABLES; SELECT 1", sqlparser.ParserOptions{})
	require.NoError(t, err)
	require.IsType(t, sqlparser.InjectedStatement{}, stmt)
	require.Equal(t, len("FLUSH TABLES;"), end)
	stmt, err = p.ParseSimple("CHECK TABLE t")
	require.NoError(t, err)
	require.IsType(t, sqlparser.InjectedStatement{}, stmt)
}

// markedSession records what it is told.
type markedSession struct {
	*sql.BaseSession
	marks []string
}

func (m *markedSession) MarkStatement(stmt sqlparser.Statement) {
	m.marks = append(m.marks, sqlparser.String(stmt))
}

func TestParserMarksTheClientsStatement(t *testing.T) {
	s := &markedSession{BaseSession: sql.NewBaseSession()}
	p := &parser{inner: sql.NewMysqlParser(), admin: injectAdmin(nil)}
	ctx := sql.NewContext(t.Context(), sql.WithSession(s), sql.WithQuery("UPDATE v SET a = 1; FLUSH TABLES"))
	_, _, rest, err := p.Parse(ctx, "UPDATE v SET a = 1; FLUSH TABLES", true)
	require.NoError(t, err)
	_, _, _, err = p.Parse(ctx, "SELECT a FROM t", false) // the text of a view, parsed while planning
	require.NoError(t, err)
	_, _, _, err = p.Parse(ctx, rest, true)
	require.NoError(t, err)
	_, _, err = p.ParseOneWithOptions(ctx, "SELECT ; 1", sqlparser.ParserOptions{})
	require.Error(t, err)
	require.Equal(t, []string{"update v set a = 1", "flush table"}, s.marks)
}

func FuzzParseAdmin(f *testing.F) {
	for _, s := range []string{"FLUSH TABLES a,b;x", "CHECK TABLE `", "OPTIMIZE /*!", "FLUSH '", "ANALYZE LOCAL TABLE a.b.c"} {
		f.Add(s)
	}
	p := &parser{inner: sql.NewMysqlParser(), admin: injectAdmin(nil)}
	f.Fuzz(func(t *testing.T, text string) {
		if _, end, ok := p.parseAdmin(text, sqlparser.ParserOptions{}); ok && (end <= 0 || end > len(text)) {
			t.Fatalf("offset %d of %q", end, text)
		}
	})
}
