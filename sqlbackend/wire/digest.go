package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// digest names a statement by its shape: two that differ only in values, letter case and blanks have one digest. It is
// for logs and error texts, which must not carry values.
func digest(query string) string {
	const (
		bytesMax = 64 << 10
		length   = 16 // hexadecimal digits
	)
	if len(query) > bytesMax {
		query = query[:bytesMax]
	}
	var shape strings.Builder
	t := sqlparser.NewStringTokenizer(query)
	for {
		kind, text := t.Scan()
		switch kind {
		case 0, sqlparser.LEX_ERROR:
			sum := sha256.Sum256([]byte(shape.String()))
			return hex.EncodeToString(sum[:])[:length]
		case sqlparser.COMMENT:
			continue
		case sqlparser.STRING, sqlparser.INTEGRAL, sqlparser.FLOAT, sqlparser.HEX, sqlparser.HEXNUM, sqlparser.BIT_LITERAL, sqlparser.VALUE_ARG:
			shape.WriteString("? ")
		default:
			if text == nil && kind < 256 {
				shape.WriteByte(byte(kind))
			}
			shape.WriteString(strings.ToLower(string(text)))
			shape.WriteByte(' ')
		}
	}
}
