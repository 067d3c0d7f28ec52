package sqlbackend_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestExpressionSweep evaluates every function and operator over odd operands, constant and of rows. Whatever the answer is, it is one:
// nothing panics and nothing hangs. Errors that nobody classified, and values that cannot be sent in the type of their column, are
// logged. LANCESQL_SWEEP_SEED and LANCESQL_SWEEP_STATEMENTS say which sample and of how many.
func TestExpressionSweep(t *testing.T) {
	seed, count := uint64(1), 4000
	if os.Getenv("LANCESQL_SOAK") != "" {
		seed, count = uint64(time.Now().UnixNano()), 200_000
	}
	if n, err := strconv.ParseUint(os.Getenv("LANCESQL_SWEEP_SEED"), 10, 64); err == nil {
		seed = n
	}
	if n, err := strconv.Atoi(os.Getenv("LANCESQL_SWEEP_STATEMENTS")); err == nil {
		count = n
	}
	t.Logf("seed %d", seed)
	w := newWorld(t)
	for _, stmt := range sweepTable() {
		_, _, err := w.conn("c1").exec(t.Context(), stmt)
		require.NoError(t, err, stmt)
	}
	s := &sweep{w: w, random: rand.New(rand.NewPCG(seed, 0))}
	s.heads = sweepCalls(t)
	unclassified := map[string]string{}
	for range count {
		stmt := s.statement(pick(s.random, s.heads))
		fault, poor := s.run(t, stmt)
		if fault != "" {
			t.Errorf("%s\n%s", stmt, fault)
		}
		if poor != "" {
			unclassified[poor] = stmt
		}
	}
	for poor, stmt := range unclassified { // not wrong, but not MySQL's error either
		t.Logf("%s\n%s", stmt, poor)
	}
}

// sweep makes statements and runs them.
type sweep struct {
	w      *world
	random *rand.Rand
	heads  []string
	conns  int
}

// sweepTable is a table with a column of every type: odd values, zeros and NULL.
func sweepTable() []string {
	return []string{
		`SET time_zone = '+00:00', sql_mode = ''`,
		`CREATE TABLE t (id INT PRIMARY KEY, ti TINYINT, bi BIGINT, bu BIGINT UNSIGNED, zf INT(6) ZEROFILL, bo BOOLEAN,
 d DECIMAL(65,30), d2 DECIMAL(10,2), f FLOAT, db DOUBLE, dd DOUBLE(10,2), b5 BIT(5), b64 BIT(64), e ENUM('a','b,c','1'), s SET('x','y','2'),
 y YEAR, dt DATE, dtm DATETIME, dtm6 DATETIME(6), ts6 TIMESTAMP(6) NULL, tm TIME, tm3 TIME(3), j JSON, bl BLOB, tx TEXT,
 vc VARCHAR(100), vb VARCHAR(100) COLLATE utf8mb4_bin, vl VARCHAR(100) CHARACTER SET latin1, ch CHAR(10), bn BINARY(5), vbn VARBINARY(100),
 g GEOMETRY, pt POINT, v VECTOR(2))`,
		`INSERT INTO t VALUES (1, -128, -9223372036854775808, 18446744073709551615, 7, TRUE,
 99999999999999999999999999999999999.999999999999999999999999999999, -12345678.90, 1e38, -1e308, 99999999.99, b'10101', 0xffffffffffffffff, 'b,c', 'x,2',
 2155, '9999-12-31', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999999', '-838:59:59', '838:59:58.999', '{"a": [1, null, {"b": "x"}], "n": 1e100}', x'00ff80', 'some text',
 '1.7', 'Äbc', 'äé', 'abc', x'ff', x'0102', ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'), POINT(1,2), STRING_TO_VECTOR('[1,2]'))`,
		`INSERT INTO t VALUES (2, 0, 0, 0, 0, FALSE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '0000-00-00', '0000-00-00', '0000-00-00', '1970-01-01 00:00:01', 0, 0, '[]', '', '', '', '', '', '', '', '',
 ST_GeomFromText('GEOMETRYCOLLECTION()'), POINT(-1e300,1e300), STRING_TO_VECTOR('[0,0]'))`,
		`INSERT INTO t (id) VALUES (3)`,
		`INSERT INTO t VALUES (4, 1, 5, 5, 5, TRUE, 1.5, 2.5, 1.5, 0.1, 1.25, b'1', b'1', 'a', 'y', 1999, '2024-02-29', '2024-02-29 12:13:14', '2024-02-29 12:13:14.5', '2024-02-29 12:13:14.123456', '12:13:14', '-12:13:14.5', '3.7', ' 12abc', ' 12abc',
 ' 12abc', '2024-02-29', '-1e5', '10:11:12', 'x', 'y', ST_GeomFromText('MULTIPOINT(1 1,2 2)'), POINT(0,0), STRING_TO_VECTOR('[-1e30,1e30]'))`,
		`CREATE TABLE u LIKE t`,
		`INSERT INTO u SELECT * FROM t`,
	}
}

// sweepCalls are the calls, with ? for each operand: of every function with up to four, of what has a syntax of its own as it is.
func sweepCalls(t *testing.T) []string {
	names := strings.Fields(`addtime subtime makedate maketime period_add period_diff sec_to_time to_seconds utc_date utc_time
 weight_string aes_encrypt aes_decrypt password vector_dim format_bytes format_pico_time st_distance_sphere statement_digest
 statement_digest_text name_const mbrcontains mbrwithin st_equals st_overlaps st_touches st_crosses st_union st_buffer st_transform
 grouping json_storage_size bit_count uuid_to_bin current_role interval`)
	counts := map[string][]int{}
	for _, name := range names {
		counts[name] = []int{1, 2}
	}
	for _, f := range function.BuiltIns {
		names = append(names, f.FunctionName())
		counts[f.FunctionName()] = operandCounts(f)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var calls []string
	for _, name := range names {
		switch name {
		case "sleep", "get_lock", "json_table", "values":
			continue // they wait, or are no functions of values
		}
		calls = append(calls, name+"(*)") // as many operands as chance has it
		for _, n := range counts[name] {
			operands := strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
			for range 2 {
				calls = append(calls, name+"("+operands+")")
			}
		}
	}
	for _, line := range strings.Split(sweepSyntax, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			calls = append(calls, line)
		}
	}
	require.NotEmpty(t, calls)
	return calls
}

// operandCounts are the numbers of operands up to four that a function takes.
func operandCounts(f sql.Function) []int {
	var counts []int
	ctx := sql.NewEmptyContext()
	for n := range 5 {
		operands := make([]sql.Expression, n)
		for i := range operands {
			operands[i] = expression.NewLiteral("$", types.Text)
		}
		if _, err := f.NewInstance(ctx, operands); err == nil {
			counts = append(counts, n)
		}
	}
	return counts
}

// sweepSyntax are operators and functions with a syntax of their own, one a line. U is a unit, T a type of CAST.
const sweepSyntax = `
? + ?
? - ?
? * ?
? / ?
? DIV ?
? % ?
? MOD ?
? & ?
? | ?
? ^ ?
? << ?
? >> ?
~ ?
- ?
! ?
NOT ?
? AND ?
? OR ?
? XOR ?
? = ?
? <=> ?
? <> ?
? < ?
? >= ?
? LIKE ?
? NOT LIKE ? ESCAPE '|'
? REGEXP ?
? BETWEEN ? AND ?
? NOT BETWEEN ? AND ?
? IN (?, ?, ?)
? NOT IN (?, ?)
(?, ?) IN ((?, ?), (?, ?))
(?, ?) = (?, ?)
? IN (SELECT ?)
? > ANY (SELECT ?)
? = ALL (SELECT ?)
? IS NULL
? IS TRUE
? IS NOT FALSE
? IS UNKNOWN
CASE WHEN ? THEN ? ELSE ? END
CASE ? WHEN ? THEN ? WHEN ? THEN ? END
IF(?, ?, ?)
NULLIF(?, ?)
COALESCE(?, ?, ?)
? + INTERVAL ? U
? - INTERVAL ? U
INTERVAL ? U + ?
DATE_ADD(?, INTERVAL ? U)
DATE_SUB(?, INTERVAL ? U)
ADDDATE(?, INTERVAL ? U)
TIMESTAMPADD(W, ?, ?)
TIMESTAMPDIFF(W, ?, ?)
EXTRACT(U FROM ?)
CAST(? AS T)
CAST(? AS T)
CAST(? AS T)
CONVERT(?, T)
CONVERT(? USING utf8mb4)
CONVERT(? USING latin1)
CONVERT(? USING binary)
BINARY ?
_utf8mb4 'abc' + ?
? COLLATE utf8mb4_bin
TRIM(LEADING ? FROM ?)
TRIM(BOTH ? FROM ?)
TRIM(?)
SUBSTRING(? FROM ? FOR ?)
SUBSTRING(? FROM ?)
POSITION(? IN ?)
CHAR(?, ? USING utf8mb4)
GET_FORMAT(DATE, ?)
? MEMBER OF (?)
JSON_VALUE(?, '$.a' RETURNING T)
JSON_VALUE(?, '$')
j -> '$.a'
j ->> '$.a[0]'
COUNT(DISTINCT ?)
COUNT(DISTINCT ?, ?)
SUM(DISTINCT ?)
AVG(DISTINCT ?)
MIN(DISTINCT ?)
MAX(DISTINCT ?)
GROUP_CONCAT(?)
GROUP_CONCAT(DISTINCT ? ORDER BY ? DESC SEPARATOR '-')
GROUP_CONCAT(?, ? ORDER BY ?)
BIT_AND(?)
BIT_OR(?)
BIT_XOR(?)
STD(?)
VAR_SAMP(?)
JSON_ARRAYAGG(?)
JSON_OBJECTAGG(?, ?)
ANY_VALUE(?)
SUM(?) + AVG(?)
SUM(?) OVER (ORDER BY ?)
SUM(?) OVER (PARTITION BY ? ORDER BY ? ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
AVG(?) OVER (PARTITION BY ?)
MIN(?) OVER (ORDER BY ? ROWS UNBOUNDED PRECEDING)
MAX(?) OVER (ORDER BY ? RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
COUNT(?) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING)
SUM(id) OVER (ORDER BY ? RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)
SUM(?) OVER (ORDER BY dtm RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW)
ROW_NUMBER() OVER (PARTITION BY ? ORDER BY ?)
RANK() OVER (ORDER BY ?)
DENSE_RANK() OVER (ORDER BY ? DESC)
PERCENT_RANK() OVER (PARTITION BY ? ORDER BY ?)
CUME_DIST() OVER (ORDER BY ?)
NTILE(?) OVER (ORDER BY ?)
NTILE(2) OVER (PARTITION BY ? ORDER BY ?)
LAG(?) OVER (ORDER BY ?)
LAG(?, 1, ?) OVER (ORDER BY id)
LAG(?, ?) OVER (ORDER BY id)
LEAD(?, 2, ?) OVER (PARTITION BY ? ORDER BY ?)
FIRST_VALUE(?) OVER (ORDER BY ?)
LAST_VALUE(?) OVER (PARTITION BY ? ORDER BY ?)
NTH_VALUE(?, 2) OVER (ORDER BY ?)
STDDEV_POP(?) OVER (ORDER BY ?)
JSON_ARRAYAGG(?) OVER (ORDER BY ?)
BIT_OR(?) OVER (ORDER BY ?)
@v := ?
JSON_LENGTH(j, ?)
(SELECT JSON_ARRAYAGG(x.a) FROM JSON_TABLE(?, '$[*]' COLUMNS (a INT PATH '$')) x)
MATCH (tx) AGAINST (?)
BENCHMARK(2, ?)
SLEEP(0 * ?)
`

// sweepConstants are operands without a row.
func sweepConstants() []string {
	return strings.Split(`NULL~0~1~-1~2~10~1e100~-1e300~1e308~1.5~-2.5~0.1~0e0~1e-300~99999999999999999999~9223372036854775807~-9223372036854775808~18446744073709551615
~99999999999999999999999999999999999999999999999999999999999999999~-99999999999999999999999999999999999.999999999999999999999999999999
~''~'a'~'abc'~'1.7'~' 12abc'~'1e400'~'-1'~'%'~'['~'(a+)+$'~'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'~'äöü€😀'~_latin1'abc'~_binary'abc'~REPEAT('long text ', 7000)~REPEAT('1', 3000)~REPEAT('1:', 3000)
~x'ff'~x''~x'00000000000000000000ff'~b'101'~b''~0xe4b8
~DATE'2024-02-29'~TIME'12:13:14.5'~TIMESTAMP'2024-02-29 12:13:14.123456'~'0000-00-00'~'0000-00-00 00:00:00'~'2024-00-10'~'9999-12-31'~'2024-02-30'~20240229~20240229101112~101112
~'-838:59:59'~'12:13:14.999999'~'2024-02-29 10:11:12'~NOW()~NOW(6)~CURDATE()~CURTIME(3)~TRUE~FALSE
~CAST('{"a": 1, "b": [1, 2]}' AS JSON)~CAST('[1, "x", null]' AS JSON)~CAST('1' AS JSON)~CAST('1e100' AS JSON)~CAST('null' AS JSON)~CAST('"t"' AS JSON)~CAST('true' AS JSON)
~'{"a": 1}'~'[1,2]'~'$'~'$.a'~'$[0]'~'$**.b'~'$['~'one'~'all'
~POINT(1,2)~POINT(-1e300,1e300)~ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 10,0 0))')~ST_GeomFromText('LINESTRING(0 0,1 1,2 2)')~ST_GeomFromText('MULTIPOINT(0 0,1 1)')~ST_GeomFromText('GEOMETRYCOLLECTION()')~ST_GeomFromText('POINT(1 2)', 4326)
~'POINT(1 2)'~'POLYGON((0 0,1 1))'~x'000000000101000000000000000000f03f0000000000000040'~x'01010000'~STRING_TO_VECTOR('[1,2]')
~CAST('abc' AS BINARY)~CAST(5 AS BINARY(3))~CAST(1 AS UNSIGNED)~CAST('1.25' AS DECIMAL(65,30))~CAST(1 AS DOUBLE)~CAST(2024 AS YEAR)~CAST('x' AS CHAR CHARACTER SET latin1)
~'%Y-%m-%d %H:%i:%s.%f'~'%j %U %x'~'%'~'+00:00'~'UTC'~'en_US'~'127.0.0.1'~'::1'~'6ccd780c-baba-1026-9564-5b8c656024db'~'ezs42'~(SELECT 1)~(SELECT NULL)~(SELECT MAX(d) FROM t)~@unset~(1,2)~RAND(1)
`, "~")
}

func sweepColumns() []string {
	return strings.Fields(`id ti bi bu zf bo d d2 f db dd b5 b64 e s y dt dtm dtm6 ts6 tm tm3 j bl tx vc vb vl ch bn vbn g pt v`)
}

func pick(random *rand.Rand, of []string) string {
	return strings.TrimSpace(of[random.IntN(len(of))])
}

// operand is a constant, a column or, seldom, a call.
func (s *sweep) operand(columns bool, depth int) string {
	switch n := s.random.IntN(20); {
	case columns && n < 10:
		return pick(s.random, sweepColumns())
	case n == 19 && depth < 2:
		return "(" + s.fill(pick(s.random, s.heads), columns, depth+1) + ")"
	}
	return pick(s.random, sweepConstants())
}

// fill gives a call its operands.
func (s *sweep) fill(call string, columns bool, depth int) string {
	units := strings.Fields(`MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SECOND_MICROSECOND MINUTE_MICROSECOND MINUTE_SECOND
 HOUR_MICROSECOND HOUR_SECOND HOUR_MINUTE DAY_MICROSECOND DAY_SECOND DAY_MINUTE DAY_HOUR YEAR_MONTH`)
	kinds := strings.Split(`SIGNED,UNSIGNED,DECIMAL,DECIMAL(65;30),DECIMAL(5;2),DECIMAL(1;0),CHAR,CHAR(0),CHAR(2),BINARY,BINARY(4),DATE,DATETIME,DATETIME(6),TIME,TIME(3),YEAR,JSON,FLOAT,DOUBLE,REAL,NCHAR(3),CHAR CHARACTER SET latin1`, ",")
	var b strings.Builder
	for i, c := range call {
		word := (i == 0 || strings.ContainsRune(" (,", rune(call[i-1]))) && (i+1 == len(call) || strings.ContainsRune(" ),", rune(call[i+1])))
		switch {
		case c == '?':
			b.WriteString(s.operand(columns, depth))
		case c == '*' && strings.HasSuffix(call, "(*)"):
			operands := make([]string, s.random.IntN(5))
			for i := range operands {
				operands[i] = s.operand(columns, depth)
			}
			b.WriteString(strings.Join(operands, ", "))
		case c == 'U' && word:
			b.WriteString(pick(s.random, units))
		case c == 'W' && word:
			b.WriteString(units[s.random.IntN(9)])
		case c == 'T' && word:
			b.WriteString(strings.ReplaceAll(pick(s.random, kinds), ";", ","))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// statement puts a call where calls stand.
func (s *sweep) statement(call string) string {
	switch s.random.IntN(18) {
	case 0, 1, 2, 3, 4, 5:
		return "SELECT " + s.fill(call, false, 0)
	case 6:
		return "SELECT " + s.fill(call, true, 0) + ", COUNT(*) FROM t GROUP BY " + pick(s.random, sweepColumns())
	case 7:
		return "SELECT id FROM t WHERE " + s.fill(call, true, 0)
	case 8:
		return "SELECT id FROM t ORDER BY " + s.fill(call, true, 0)
	case 9:
		return "SELECT COUNT(*) FROM t GROUP BY " + s.fill(call, true, 0)
	case 10:
		return "SELECT DISTINCT " + s.fill(call, true, 0) + " FROM t"
	case 11:
		return "SELECT id FROM t HAVING " + s.fill(call, true, 0)
	case 12:
		return "SELECT " + s.fill(call, true, 0) + " FROM t UNION SELECT " + s.operand(false, 0)
	case 13:
		return fmt.Sprintf("REPLACE INTO u (id, %s) SELECT %d, %s", pick(s.random, sweepColumns()[1:]), s.random.IntN(5), s.fill(call, false, 0))
	case 14:
		return fmt.Sprintf("UPDATE IGNORE u SET %s = %s", pick(s.random, sweepColumns()[1:]), s.fill(call, true, 0))
	}
	return "SELECT " + s.fill(call, true, 0) + " FROM t"
}

// run reports what is wrong with a statement's answer, and what is poor in it.
func (s *sweep) run(t *testing.T, stmt string) (fault, poor string) {
	const most = 5 * time.Second // that many on a machine with much else to do
	c := s.w.conn(fmt.Sprint("sweep", s.conns))
	ctx, cancel := context.WithTimeout(t.Context(), 2*most)
	defer cancel()
	type answer struct{ fault, poor string }
	answers := make(chan answer, 1)
	begin := time.Now()
	go func() {
		defer func() {
			if p := recover(); p != nil {
				answers <- answer{fault: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
			}
		}()
		answers <- answer{poor: answered(ctx, c, stmt)}
	}()
	select {
	case a := <-answers:
		fault, poor = a.fault, a.poor
		if took := time.Since(begin); fault == "" && took > most {
			fault = "took " + took.String()
		}
	case <-time.After(4 * most):
		t.Fatalf("%s\nhangs", stmt) // it holds what the next statements need
	}
	if fault != "" {
		s.conns++ // its session may be in any state
	}
	return fault, poor
}

// answered runs a statement and reports a value that cannot be sent, or an error that nobody classified.
func answered(ctx context.Context, c *client, stmt string) string {
	sch, rows, err := c.exec(ctx, stmt)
	if err != nil {
		if e := sql.CastSQLError(sqlbackend.MapError(err)); e.Num == mysql.ERUnknownError {
			text := e.Message
			if len(text) > 40 {
				text = text[:40]
			}
			return "unclassified: " + text
		}
		return ""
	}
	for _, r := range rows {
		for i, v := range r {
			if v == nil {
				continue
			}
			if _, err := sch[i].Type.SQL(sql.NewEmptyContext(), nil, v); err != nil {
				return fmt.Sprintf("cannot be sent: %T as %s", v, sch[i].Type)
			}
		}
	}
	return ""
}
