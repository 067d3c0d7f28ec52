package sqlbackend

import (
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
)

// Functions that take texts apart. The frontend counts bytes in some of them, knows no numbers as texts in others, and makes texts
// as long as it is asked to, with whatever memory that takes.

// textPiece is the value of such a function, of texts and numbers in the order of its operands; false is NULL. The characters of bytes
// are bytes.
type textPiece func(texts []string, counts []int64, bytes bool) (string, bool)

// textFunction returns a function that takes texts apart.
func textFunction(name string) (sql.Function, bool) {
	two := func(build func(ctx *sql.Context, a, b sql.Expression) sql.Expression, kinds string, piece textPiece) (sql.Function, bool) {
		return sql.Function2{Name: name, Fn: func(ctx *sql.Context, a, b sql.Expression) sql.Expression {
			return &ownValue{build(ctx, a, b), textValue(name, kinds, piece)}
		}}, true
	}
	many := func(build func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error), kinds string, piece textPiece) (sql.Function, bool) {
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := build(ctx, args...)
			if err != nil {
				return nil, err
			}
			return &ownValue{e, textValue(name, kinds, piece)}, nil
		}}, true
	}
	switch name {
	case "left":
		return two(function.NewLeft, "tn", func(t []string, n []int64, bytes bool) (string, bool) {
			return t[0][:offsetOf(t[0], n[0], bytes)], true
		})
	case "right":
		return two(function.NewRight, "tn", func(t []string, n []int64, bytes bool) (string, bool) {
			if n[0] <= 0 {
				return "", true
			}
			return t[0][offsetOf(t[0], lengthOf(t[0], bytes)-n[0], bytes):], true
		})
	case "substr", "substring", "mid":
		return many(function.NewSubstring, "tnn", substring)
	case "lpad":
		return many(function.NewLeftPad, "tnt", func(t []string, n []int64, bytes bool) (string, bool) {
			text, pad, ok := padding(t, n[0], bytes)
			return pad + text, ok
		})
	case "rpad":
		return many(function.NewRightPad, "tnt", func(t []string, n []int64, bytes bool) (string, bool) {
			text, pad, ok := padding(t, n[0], bytes)
			return text + pad, ok
		})
	case "insert":
		return sql.Function4{Name: name, Fn: func(ctx *sql.Context, a, b, c, d sql.Expression) sql.Expression {
			return &ownValue{function.NewInsert(ctx, a, b, c, d), textValue(name, "tnnt", inserted)}
		}}, true
	case "repeat":
		return sql.Function2{Name: name, Fn: func(ctx *sql.Context, a, b sql.Expression) sql.Expression {
			return &ownValue{function.NewRepeat(ctx, a, b), repeated}
		}}, true
	case "space":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, a sql.Expression) sql.Expression {
			return &ownValue{function.NewSpace(ctx, a), spaces}
		}}, true
	case "locate":
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := function.NewLocate(ctx, args...)
			if err != nil {
				return nil, err
			}
			return &ownValue{e, located}, nil
		}}, true
	}
	return nil, false
}

// textValue evaluates operands of the kinds t, a text, and n, a number, and returns the piece of them. It is NULL if one of them is.
func textValue(name, kinds string, piece textPiece) func(*sql.Context, sql.Row, []sql.Expression) (any, error) {
	return func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
		var texts []string
		var counts []int64
		bytes, size := false, 0
		for i, a := range args {
			bytes = bytes || kinds[i] == 't' && ofBytes(ctx, a)
		}
		for i, a := range args {
			if kinds[i] == 'n' {
				n, ok, err := wholeOperand(ctx, row, a, name)
				if err != nil || !ok {
					return nil, err
				}
				counts = append(counts, n)
				continue
			}
			text, ok, err := textOperand(ctx, row, a)
			if err != nil || !ok {
				return nil, err
			}
			texts, size = append(texts, text), max(size, len(text))
		}
		most := packetMost(ctx)
		if (name == "lpad" || name == "rpad") && counts[0] > most {
			return tooLong(ctx, name, most)
		}
		text, ok := piece(texts, counts, bytes)
		if !ok {
			return nil, nil
		}
		if int64(len(text)) > most && len(text) > size {
			return tooLong(ctx, name, most)
		}
		if bytes {
			return []byte(text), nil
		}
		return text, nil
	}
}

// offsetOf is where in a text its first n characters end. What is no character of it is a byte alone.
func offsetOf(text string, n int64, bytes bool) int {
	if n <= 0 {
		return 0
	}
	if bytes || n >= int64(len(text)) {
		return int(min(n, int64(len(text))))
	}
	at := 0
	for ; n > 0 && at < len(text); n-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}

// lengthOf is how many characters a text has.
func lengthOf(text string, bytes bool) int64 {
	if bytes {
		return int64(len(text))
	}
	return int64(utf8.RuneCountInString(text))
}

// packetMost is how long a text that a function makes may be.
func packetMost(ctx *sql.Context) int64 {
	const otherwise = 64 << 20
	v, err := ctx.GetSessionVariable(ctx, "max_allowed_packet")
	if n, ok := int64Of(v); err == nil && ok && n > 0 {
		return n
	}
	return otherwise
}

// tooLong is NULL, with a warning.
func tooLong(ctx *sql.Context, name string, most int64) (any, error) {
	ctx.Warn(1301, "Result of %s() was larger than max_allowed_packet (%d) - truncated", name, most)
	return nil, nil
}

// substring is SUBSTRING(text, from, count).
func substring(t []string, n []int64, bytes bool) (string, bool) {
	text, from := t[0], n[0]-1
	if n[0] < 0 {
		from = lengthOf(text, bytes) + n[0]
	}
	if n[0] == 0 || from < 0 {
		return "", true
	}
	text = text[offsetOf(text, from, bytes):]
	if len(n) > 1 {
		text = text[:offsetOf(text, n[1], bytes)]
	}
	return text, true
}

// padding is the text of LPAD and RPAD and what it is padded with; false is NULL.
func padding(t []string, most int64, bytes bool) (text, pad string, ok bool) {
	text, with := t[0], t[1]
	missing := most - lengthOf(text, bytes)
	switch {
	case most < 0:
		return "", "", false
	case missing <= 0:
		return text[:offsetOf(text, most, bytes)], "", true
	case with == "":
		return "", "", true
	}
	each := lengthOf(with, bytes)
	return text, strings.Repeat(with, int(missing/each)) + with[:offsetOf(with, missing%each, bytes)], true
}

// inserted is INSERT(text, from, count, by): count characters are replaced, all behind from if there are not so many.
func inserted(t []string, n []int64, bytes bool) (string, bool) {
	text, from, count := t[0], n[0]-1, n[1]
	length := lengthOf(text, bytes)
	if n[0] < 1 || from >= length {
		return text, true
	}
	if count < 0 || count > length-from {
		count = length - from
	}
	return text[:offsetOf(text, from, bytes)] + t[1] + text[offsetOf(text, from+count, bytes):], true
}

// repeated is REPEAT(text, count).
func repeated(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	text, ok, err := textOperand(ctx, row, args[0])
	if err != nil || !ok {
		return nil, err
	}
	n, ok, err := wholeOperand(ctx, row, args[1], "repeat")
	if err != nil || !ok {
		return nil, err
	}
	if n <= 0 || text == "" {
		n, text = 0, ""
	}
	if most := packetMost(ctx); n > most/int64(max(len(text), 1)) {
		return tooLong(ctx, "repeat", most)
	}
	if text = strings.Repeat(text, int(n)); ofBytes(ctx, args[0]) {
		return []byte(text), nil
	}
	return text, nil
}

// spaces is SPACE(count).
func spaces(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	n, ok, err := wholeOperand(ctx, row, args[0], "space")
	if err != nil || !ok {
		return nil, err
	}
	if most := packetMost(ctx); n > most {
		return tooLong(ctx, "space", most)
	}
	return strings.Repeat(" ", int(max(n, 0))), nil
}

// located is LOCATE(part, text, from), which is where the part begins, counted in characters.
func located(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	part, ok, err := textOperand(ctx, row, args[0])
	if err != nil || !ok {
		return nil, err
	}
	text, ok, err := textOperand(ctx, row, args[1])
	if err != nil || !ok {
		return nil, err
	}
	from := int64(1)
	if len(args) > 2 {
		if from, ok, err = wholeOperand(ctx, row, args[2], "locate"); err != nil {
			return nil, err
		}
		if !ok {
			from = 0 // MySQL finds nothing from NULL on
		}
	}
	bytes := ofBytes(ctx, args[0]) || ofBytes(ctx, args[1])
	if !bytes && folds(ctx, args[:2]) {
		part, text = strings.ToLower(part), strings.ToLower(text)
	}
	if from < 1 || from > lengthOf(text, bytes)+1 {
		return int32(0), nil
	}
	text = text[offsetOf(text, from-1, bytes):]
	at := strings.Index(text, part)
	if at < 0 {
		return int32(0), nil
	}
	return int32(from + lengthOf(text[:at], bytes)), nil
}

// folds reports whether upper and lower case are the same where operands are compared.
func folds(ctx *sql.Context, operands []sql.Expression) bool {
	id, strength := sql.GetCoercibility(ctx, operands[0])
	other, otherStrength := sql.GetCoercibility(ctx, operands[1])
	id, _ = sql.ResolveCoercibility(id, strength, other, otherStrength)
	name := id.Name()
	return !strings.HasSuffix(name, "_bin") && !strings.HasSuffix(name, "_cs") && name != "binary"
}
