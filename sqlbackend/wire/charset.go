package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// The engine reads texts in UTF-8 in which a backslash escapes. A client whose character_set_client has one byte a character gets its texts converted
// on the way in, and so does one with NO_BACKSLASH_ESCAPES; results leave in character_set_results, which the frontend does. Byte strings are made of literals again
// where they are needed, by package sqlbackend.

// textForm is how a client writes.
type textForm struct {
	set   sql.CharacterSetID // Unspecified: UTF-8
	plain bool               // a backslash in a text is a character like others: NO_BACKSLASH_ESCAPES
}

// clientTexts is what frames know about the texts a client sends. It belongs to the connection's goroutine.
type clientTexts struct {
	textForm
	rest string   // what is left of a text of several statements, as the engine reads it; it comes back as the next command
	from textForm // how rest was written
}

// oneByte returns the character set of that name if its texts have to be converted.
func oneByte(name any) sql.CharacterSetID {
	text, ok := name.(string)
	if !ok {
		return sql.CharacterSet_Unspecified
	}
	set, err := sql.ParseCharacterSet(text)
	if err != nil || set == sql.CharacterSet_Unspecified || set == sql.CharacterSet_binary || set.MaxLength() != 1 || set.Encoder() == nil {
		return sql.CharacterSet_Unspecified
	}
	return set
}

// query returns the text of a command as the engine reads it.
func (c *clientTexts) query(text string) string {
	if c.rest != "" && text == c.rest {
		if c.from == c.textForm {
			return text
		}
		text = c.from.encode(text) // SET stood in front of it
	}
	return c.decode(text)
}

// left remembers what is left behind the first statement of a text written in a form.
func (c *clientTexts) left(rest string, form textForm) { c.rest, c.from = rest, form }

// decode returns a text of the client as the engine reads it; parts with bytes that are no characters stay as they are.
func (f textForm) decode(text string) string {
	if f.plain {
		text = inQuotes(text, false, func(quoted string) string { return strings.ReplaceAll(quoted, `\`, `\\`) })
	}
	if f.set == sql.CharacterSet_Unspecified || isASCII(text) {
		return text
	}
	return outsideIntroduced(text, func(part string) string {
		out, ok := f.set.Encoder().Decode([]byte(part))
		if !ok {
			return part
		}
		return string(out)
	})
}

// encode is the inverse of decode.
func (f textForm) encode(text string) string {
	if f.set != sql.CharacterSet_Unspecified && !isASCII(text) {
		text = outsideIntroduced(text, func(part string) string { return string(f.set.Encoder().EncodeReplaceUnknown([]byte(part))) })
	}
	if f.plain {
		text = inQuotes(text, true, func(quoted string) string { return strings.ReplaceAll(quoted, `\\`, `\`) })
	}
	return text
}

// inQuotes changes the texts in quotes. escapes says whether a backslash keeps a quote from ending one.
func inQuotes(text string, escapes bool, change func(string) string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	start := 0 // of what is not written yet
	for at := 0; at < len(text); {
		end, quoted := partEnd(text, at, escapes)
		if quoted {
			b.WriteString(text[start:at] + change(text[at:end]))
			start = end
		}
		at = end
	}
	return b.String() + text[start:]
}

// outsideIntroduced converts a text but for literals behind an introducer (_binary'…'), which say themselves what they are in.
func outsideIntroduced(text string, convert func(string) string) string {
	var b strings.Builder
	start := 0 // of what is not written yet
	for at := 0; at < len(text); {
		end, quoted := partEnd(text, at, true)
		if quoted && introduced(text[:at]) {
			b.WriteString(convert(text[start:at]) + text[at:end])
			start = end
		}
		at = end
	}
	return b.String() + convert(text[start:])
}

// partEnd returns the offset behind the text in quotes, the name or the comment that begins at at, or of the next byte.
func partEnd(text string, at int, escapes bool) (end int, quoted bool) {
	switch text[at] {
	case '\'', '"':
		return quoteEnd(text, at, escapes), true
	case '`':
		return quoteEnd(text, at, false), false
	case '#':
		return commentEnd(text, at, "\n"), false
	case '-':
		if strings.HasPrefix(text[at:], "-- ") {
			return commentEnd(text, at, "\n"), false
		}
	case '/':
		if strings.HasPrefix(text[at:], "/*") && !strings.HasPrefix(text[at:], "/*!") {
			return commentEnd(text, at, "*/"), false
		}
	}
	return at + 1, false
}

// quoteEnd returns the offset behind the quoted text that begins at at.
func quoteEnd(text string, at int, escapes bool) int {
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && escapes:
			i++
		case text[i] == text[at]:
			return i + 1 // a doubled quote begins the next text, to the same end
		}
	}
	return len(text)
}

func commentEnd(text string, at int, mark string) int {
	if n := strings.Index(text[at:], mark); n >= 0 {
		return at + n + len(mark)
	}
	return len(text)
}

// introduced reports whether a text ends with an introducer.
func introduced(text string) bool {
	text = strings.TrimRight(text, " \t\r\n")
	name := strings.LastIndexFunc(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	word, ok := strings.CutPrefix(text[name+1:], "_")
	if !ok || word == "" {
		return false
	}
	_, err := sql.ParseCharacterSet(word)
	return err == nil
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// bindings converts the texts among the parameters of a prepared statement. What comes as a BLOB are bytes.
func (c *clientTexts) bindings(p *mysql.PrepareData) {
	const blob = sqltypes.Text // the library's name of the protocol's BLOB, whichever
	for i, t := range p.ParamsType {
		v := p.BindVars["v"+strconv.Itoa(i+1)]
		if v == nil {
			continue
		}
		switch t := querypb.Type(t); {
		case t == sqltypes.Time, t == sqltypes.Datetime, t == sqltypes.Timestamp, t == sqltypes.Date:
			v.Value = withZeros(v.Value)
		case c.set != sql.CharacterSet_Unspecified && sqltypes.IsQuoted(v.Type) && t != blob && !isASCII(string(v.Value)):
			if out, ok := c.set.Encoder().Decode(v.Value); ok {
				v.Value = out
			}
		}
	}
}

// withZeros gives the microseconds of a time the zeros in front that the protocol library leaves out: it makes 10:00:00.5 of
// five microseconds.
func withZeros(text []byte) []byte {
	const digits = 6
	at := bytes.LastIndexByte(text, '.') + 1
	if n := len(text) - at; at > 0 && n < digits {
		return slices.Concat(text[:at], []byte("000000"[n:]), text[at:])
	}
	return text
}

// replaced is a text of a result with question marks for what character_set_results lacks, as MySQL has it; false if err is not
// about that.
func replaced(ctx *sql.Context, t querypb.Type, v any, err error) (sqltypes.Value, bool) {
	results := ctx.GetCharacterSetResults()
	if !sql.ErrCharSetFailedToEncode.Is(err) || results.Encoder() == nil {
		return sqltypes.Value{}, false
	}
	v, uerr := sql.UnwrapAny(ctx, v)
	if uerr != nil {
		return sqltypes.Value{}, false
	}
	text, ok := v.(string)
	if !ok || !utf8.ValidString(text) {
		return sqltypes.Value{}, false
	}
	var out []byte
	for _, r := range text { // Why: the frontend's own replacing drops what comes behind
		if b, ok := results.Encoder().EncodeRune([]byte(string(r))); ok {
			out = append(out, b...)
		} else {
			out = append(out, '?')
		}
	}
	return sqltypes.MakeTrusted(t, out), true
}
