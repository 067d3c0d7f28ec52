package sqlbackend

import (
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// convertedText is CONVERT(x USING c). The frontend's makes bytes of the character set of a text that everything else takes for
// Unicode.
type convertedText struct{ *expression.ConvertUsing }

// Type implements sql.Expression. Of bytes it is a text.
func (c *convertedText) Type(ctx *sql.Context) sql.Type {
	if ofBytes(ctx, c.Child) && c.TargetCharSet != sql.CharacterSet_binary {
		return types.CreateLongText(c.TargetCharSet.DefaultCollation())
	}
	return c.ConvertUsing.Type(ctx)
}

// Eval implements sql.Expression.
func (c *convertedText) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	text, ok, err := textOperand(ctx, row, c.Child)
	if err != nil || !ok {
		return nil, err
	}
	to := c.TargetCharSet
	if ofBytes(ctx, c.Child) {
		return decoded(ctx, text, to)
	}
	if to == sql.CharacterSet_binary {
		from := sql.Collation_Default.CharacterSet()
		if t, ok := c.Child.Type(ctx).(sql.TypeWithCollation); ok {
			from = t.Collation().CharacterSet()
		}
		if b, ok := encodedIn(text, from); ok {
			return b, nil
		}
		return []byte(text), nil
	}
	if to == sql.CharacterSet_utf8mb4 {
		return text, nil
	}
	var out strings.Builder
	for at := 0; at < len(text); {
		_, n := utf8.DecodeRuneInString(text[at:])
		if _, ok := encodedIn(text[at:at+n], to); ok {
			out.WriteString(text[at : at+n])
		} else {
			out.WriteByte('?') // the character set has no such character
		}
		at += n
	}
	return out.String(), nil
}

// decoded takes bytes for a text of a character set. NULL, with a warning, is none.
func decoded(ctx *sql.Context, bytes string, of sql.CharacterSetID) (any, error) {
	if of == sql.CharacterSet_binary {
		return []byte(bytes), nil
	}
	text, ok := []byte(bytes), utf8.ValidString(bytes)
	if encoder := of.Encoder(); encoder != nil && of != sql.CharacterSet_utf8mb4 {
		text, ok = encoder.Decode(text)
	}
	if !ok {
		const most = 6 // bytes that are shown
		ctx.Warn(1300, "Invalid %s character string: '%X'", of.Name(), bytes[:min(len(bytes), most)])
		return nil, nil
	}
	return string(text), nil
}

// encodedIn is a text as bytes of a character set; false if that lacks a character of it.
func encodedIn(text string, set sql.CharacterSetID) ([]byte, bool) {
	encoder := set.Encoder()
	if encoder == nil || !utf8.ValidString(text) {
		return nil, false
	}
	return encoder.Encode([]byte(text))
}

// WithChildren implements sql.Expression.
func (c *convertedText) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := c.ConvertUsing.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &convertedText{e.(*expression.ConvertUsing)}, nil
}
