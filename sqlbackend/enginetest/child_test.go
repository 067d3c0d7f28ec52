package enginetest

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	gms "github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Environment of a child process; envChild names the suites it runs, separated by commas.
const (
	envChild = "LANCESQL_ENGINETEST_CHILD"
	envHung  = "LANCESQL_ENGINETEST_HUNG"  // a file that lists nodes not to run, one a line
	envStore = "LANCESQL_ENGINETEST_STORE" // where rows are; empty: in our memtables
)

// Values of envStore.
const (
	storeFrontend = "frontend" // the frontend's own tables in memory
	storeFlushed  = "flushed"  // ours, all rows in flushed generations before each statement
	storeMerged   = "merged"   // ours, all rows in the base tables before each statement
	storeReopened = "reopened" // ours, opened anew between the set-up of a script and what it asserts
	storeWire     = "wire"     // ours, in memtables, through a server and its client
)

// childTest is the test that runs in child processes.
const childTest = "TestChild"

// TestChild runs suites whose failures TestSuites reads. It does nothing but in a child process.
func TestChild(t *testing.T) {
	names := os.Getenv(envChild)
	if names == "" {
		t.Skip("runs in the processes of TestSuites")
	}
	hung := make(map[string]bool)
	if file := os.Getenv(envHung); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(strings.NewReader(string(b)))
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			hung[sc.Text()] = true
		}
	}
	all := make(map[string]suite)
	for _, s := range suites() {
		all[s.name] = s
	}
	for _, name := range strings.Split(names, ",") {
		s, ok := all[name]
		if !ok {
			t.Fatalf("no suite %s", name)
		}
		t.Run(name, func(t *testing.T) {
			if os.Getenv(envStore) == storeFrontend {
				s.run(t, gms.NewDefaultMemoryHarness())
				return
			}
			s.run(t, &harness{bare: s.bare, holds: s.holds, hung: hung, store: os.Getenv(envStore)})
		})
	}
}

// answerLine stands before an answer in what a child says.
const answerLine = "\x17answer "

// answerMax bounds what is kept of an answer, in bytes.
const answerMax = 400

// tell says what a statement answered: the text of its rows as a client sees it, what its OK says, or MySQL's number and text of
// its error.
func tell(text string) {
	text = strings.ReplaceAll(text, "\n", `\n`)
	if len(text) > answerMax {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text)) // never fails
		text = fmt.Sprintf("%s…%016x", strings.ToValidUTF8(text[:answerMax], ""), h.Sum64())
	}
	fmt.Println(answerLine + text)
}

func tellError(err error) {
	tell(fmt.Sprintf("error %d %s", errorNumber(err), errorText(err)))
}

// tellRows tells rows whose values are nil or text, and warnings.
func tellRows(rows []sql.Row, warnings []*sql.Warning) {
	var after strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&after, "; warning %d", w.Code)
	}
	if isOKRows(rows) {
		ok := rows[0][0].(types.OkResult)
		tell(fmt.Sprintf("OK, %d rows affected%s", ok.RowsAffected, after.String()))
		return
	}
	var b strings.Builder
	for i, row := range rows {
		if i > 0 {
			b.WriteString("; ")
		}
		for j, v := range row {
			if j > 0 {
				b.WriteString(", ")
			}
			if v == nil {
				b.WriteString("NULL")
				continue
			}
			fmt.Fprintf(&b, "%q", text(v))
		}
	}
	tell(fmt.Sprintf("%d rows: %s%s", len(rows), b.String(), after.String()))
}

// testName is the name the testing package gives a subtest.
func testName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte('_')
		case !strconv.IsPrint(r):
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
