package program_test

import (
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/program"
)

// source makes tokens of a text in which blanks stand around every token.
func source(text string) program.Source {
	s := program.Source{
		Text:  text,
		Parse: func(text string) (sqlparser.Statement, error) { return sqlparser.Parse(text) },
		Type:  func(string) (sql.Type, error) { return types.Int64, nil },
	}
	t := sqlparser.NewStringTokenizer(text)
	end := 0
	for _, word := range strings.Fields(text) {
		kind, val := t.Scan()
		at := strings.Index(text[end:], word) + end + len(word)
		s.Tokens = append(s.Tokens, program.Token{Kind: kind, Text: string(val), From: end, To: at})
		end = at
	}
	s.Tokens = append(s.Tokens, program.Token{From: end, To: len(text)})
	return s
}

// TestParseEndsSomewhere: every beginning of a body, and every body without one of its words, is read or refused, and never for ever.
func TestParseEndsSomewhere(t *testing.T) {
	for _, text := range []string{
		"a : BEGIN DECLARE x , y INT DEFAULT 1 ; DECLARE bad CONDITION FOR SQLSTATE '45000' ; DECLARE c CURSOR FOR SELECT 1 ; DECLARE EXIT HANDLER FOR NOT FOUND , 1062 BEGIN END ; OPEN c ; FETCH NEXT FROM c INTO x ; CLOSE c ; END",
		"BEGIN DECLARE x INT ; IF x = 1 THEN SET x = 2 ; ELSEIF x = 3 THEN SELECT x ; ELSE BEGIN END ; END IF ; CASE x WHEN 1 THEN SET x = 1 ; ELSE SET x = 2 ; END CASE ; CASE WHEN x > 1 THEN SELECT 1 ; END CASE ; END",
		"BEGIN DECLARE x INT ; l : LOOP LEAVE l ; END LOOP l ; w : WHILE x < 3 DO ITERATE w ; END WHILE ; REPEAT SET x = 1 ; UNTIL x = 1 END REPEAT ; END",
		"BEGIN SIGNAL SQLSTATE VALUE '45000' SET MESSAGE_TEXT = 'a' , MYSQL_ERRNO = 5 ; RESIGNAL ; GET DIAGNOSTICS CONDITION 1 @a = MESSAGE_TEXT , @b = MYSQL_ERRNO ; END",
	} {
		whole := source(text)
		body, next, err := program.Parse(whole, 0, program.Procedure, "p", nil)
		require.NoError(t, err, text)
		require.NoError(t, body.Check(), text)
		require.Equal(t, len(whole.Tokens)-1, next)
		words := strings.Fields(text)
		for i := range words {
			_, _, err := program.Parse(source(strings.Join(words[:i], " ")), 0, program.Procedure, "p", nil)
			require.Error(t, err, "the first %d words of %s", i, text)
			without := append(append([]string{}, words[:i]...), words[i+1:]...)
			if body, _, err := program.Parse(source(strings.Join(without, " ")), 0, program.Function, "p", nil); err == nil {
				require.Error(t, body.Check(), "no RETURN")
			}
		}
	}
}

// TestDeepBody: a body of very many levels is refused.
func TestDeepBody(t *testing.T) {
	for _, levels := range []int{100, 100_000} {
		text := strings.Repeat("BEGIN ", levels) + strings.TrimSuffix(strings.Repeat("END ; ", levels), " ; ")
		body, _, err := program.Parse(source(text), 0, program.Procedure, "p", nil)
		require.NoError(t, err)
		require.Equal(t, levels > 1000, body.Check() != nil)
	}
}
