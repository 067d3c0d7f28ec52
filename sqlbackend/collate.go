package sqlbackend

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/internal/errs"
)

// databaseCollation is what a database has when CREATE DATABASE does not say: MySQL 8's default, not the frontend's.
const databaseCollation = sql.Collation_utf8mb4_0900_ai_ci

// serverCollation is the collation of databases made without one: the variable collation_server.
func serverCollation(ctx *sql.Context) sql.CollationID {
	v, err := ctx.GetSessionVariable(ctx, "collation_server")
	name, ok := v.(string)
	if err != nil || !ok {
		return databaseCollation
	}
	c, err := sql.ParseCollation("", name, false)
	if err != nil || c == sql.Collation_Unspecified {
		return databaseCollation
	}
	return c
}

// byteOrdered reports whether comparing two texts under the collation is comparing their UTF-8 bytes.
func byteOrdered(c sql.CollationID) bool {
	switch c {
	case sql.Collation_binary, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb3_bin:
		return true
	default:
		return false
	}
}

// padded reports whether MySQL ignores trailing spaces under the collation. Why only collations with weights:
// the frontend compares byte-ordered ones without padding, and their columns are keys as they are.
func padded(c sql.CollationID) bool {
	return !byteOrdered(c) && c.PadAttribute() == "PAD SPACE"
}

// appendWeights appends the weights of s, one per character as the frontend compares them, so that bytewise
// order is the collation's order and equal bytes mean equal texts.
//
//	weight+1 as 1 to 6 bytes, longer forms with greater first bytes (the original UTF-8 scheme) | ... | 00
//
// No weight starts with 00, so a text that is a prefix of another sorts first.
func appendWeights(dst []byte, c sql.CollationID, s string) ([]byte, error) {
	if padded(c) {
		s = strings.TrimRight(s, " ")
	}
	encoder, weigh := c.CharacterSet().Encoder(), c.Sorter()
	if encoder == nil || weigh == nil {
		return nil, fmt.Errorf("collation %s has no order: %w", c.Name(), errs.ErrUnsupported)
	}
	for len(s) > 0 {
		r, n := encoder.NextRune(s)
		if n <= 0 {
			return nil, fmt.Errorf("malformed text in a key: %w", errs.ErrInvalid)
		}
		dst = appendWeight(dst, weigh(r))
		s = s[n:]
	}
	return append(dst, 0), nil
}

// appendWeight appends one weight; its length grows with its value and never decreases the order.
func appendWeight(dst []byte, weight int32) []byte {
	w := uint64(max(weight, 0)) + 1 // no collation has negative weights
	switch {
	case w < 1<<7:
		return append(dst, byte(w))
	case w < 1<<11:
		return append(dst, 0xC0|byte(w>>6), 0x80|byte(w&0x3F))
	case w < 1<<16:
		return append(dst, 0xE0|byte(w>>12), 0x80|byte(w>>6&0x3F), 0x80|byte(w&0x3F))
	case w < 1<<21:
		return append(dst, 0xF0|byte(w>>18), 0x80|byte(w>>12&0x3F), 0x80|byte(w>>6&0x3F), 0x80|byte(w&0x3F))
	case w < 1<<26:
		return append(dst, 0xF8|byte(w>>24), 0x80|byte(w>>18&0x3F), 0x80|byte(w>>12&0x3F), 0x80|byte(w>>6&0x3F), 0x80|byte(w&0x3F))
	case w < 1<<31:
		return append(dst, 0xFC|byte(w>>30), 0x80|byte(w>>24&0x3F), 0x80|byte(w>>18&0x3F), 0x80|byte(w>>12&0x3F),
			0x80|byte(w>>6&0x3F), 0x80|byte(w&0x3F))
	default: // only 1<<31, the weight of characters the collation does not know, plus one
		return append(dst, 0xFE, 0x82, 0x80, 0x80, 0x80, 0x80, 0x80)
	}
}
