package sqlbackend

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// FuzzRoutine reads texts that define routines: it ends, and says no more than the text has.
func FuzzRoutine(f *testing.F) {
	for _, text := range []string{
		"CREATE PROCEDURE p(IN a INT, OUT b VARCHAR(10) CHARSET utf8mb4) COMMENT 'x' BEGIN DECLARE c CURSOR FOR SELECT 1; OPEN c; END; SELECT 1",
		"/*!50003 CREATE*/ /*!50020 DEFINER=`r`@`h`*/ /*!50003 FUNCTION `f`(a INT) RETURNS enum('x',')') RETURN a > 1 */",
		"CREATE FUNCTION IF NOT EXISTS d.f() RETURNS DECIMAL(5,2) UNSIGNED NO SQL lbl:BEGIN IF 1 THEN RETURN 2; END IF; END lbl",
		"CREATE PROCEDURE p() BEGIN CASE a WHEN CASE 1 WHEN 2 THEN 3 END THEN SET a = 1, @b = 2; END CASE; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a;b'; END",
		"CREATE PROCEDURE p() l: REPEAT ITERATE l; UNTIL 1 END REPEAT l",
		"CREATE DEFINER=CURRENT_USER() PROCEDURE p() CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW BEGIN SELECT 1; END",
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	p := &parser{inner: sql.NewMysqlParser(), admin: injectAdmin(nil)}
	f.Fuzz(func(t *testing.T, text string, ansi bool) {
		r, err := p.parseRoutine(t.Context(), text, sqlparser.ParserOptions{AnsiQuotes: ansi})
		if err != nil || r == nil {
			return
		}
		if r.end < 0 || r.end > r.rest || r.rest > len(text) {
			t.Fatalf("ends at %d, the next begins at %d, of %d", r.end, r.rest, len(text))
		}
		_ = r.body.Check()
		if start := r.ddl.SubStatementPositionStart; start < 0 || start > r.end {
			t.Fatalf("the body stands at %d to %d", start, r.end)
		}
	})
}
