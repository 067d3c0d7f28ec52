package sqlbackend

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
)

// REGEXP_INSTR, REGEXP_SUBSTR and REGEXP_REPLACE. The frontend takes positions for those of bytes and believes them, and puts what
// replaces a match in as it is, without the groups it names.

// regexCall is a call of one of the three.
type regexCall struct {
	name     string
	compiled atomic.Pointer[compiledRegex] // the last one: most calls have one pattern
}

type compiledRegex struct {
	text string
	re   *regexp.Regexp
}

// regexFunction returns a function of regular expressions.
func regexFunction(name string) (sql.Function, bool) {
	build := func(build func(*sql.Context, ...sql.Expression) (sql.Expression, error), eval func(*regexCall, *sql.Context, sql.Row, []sql.Expression) (any, error)) (sql.Function, bool) {
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := build(ctx, args...)
			if err != nil {
				return nil, err
			}
			call := &regexCall{name: name}
			return &ownValue{e, func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
				return eval(call, ctx, row, args)
			}}, nil
		}}, true
	}
	switch name {
	case "regexp_instr":
		return build(function.NewRegexpInstr, (*regexCall).instr)
	case "regexp_substr":
		return build(function.NewRegexpSubstr, (*regexCall).substr)
	case "regexp_replace":
		return build(function.NewRegexpReplace, (*regexCall).replace)
	}
	return nil, false
}

// texts evaluates the operands that are texts; false if one of them is NULL.
func (c *regexCall) texts(ctx *sql.Context, row sql.Row, args ...sql.Expression) ([]string, bool, error) {
	out := make([]string, len(args))
	for i, a := range args {
		text, ok, err := textOperand(ctx, row, a)
		if err != nil || !ok {
			return nil, false, err
		}
		out[i] = text
	}
	return out, true, nil
}

// counts evaluates those that are numbers; false if one of them is NULL.
func (c *regexCall) counts(ctx *sql.Context, row sql.Row, args ...sql.Expression) ([]int64, bool, error) {
	out := make([]int64, len(args))
	for i, a := range args {
		n, ok, err := wholeOperand(ctx, row, a, c.name)
		if err != nil || !ok {
			return nil, false, err
		}
		out[i] = n
	}
	return out, true, nil
}

// compile returns the expression of a call, nil if the flags are NULL.
func (c *regexCall) compile(ctx *sql.Context, row sql.Row, args []sql.Expression, pattern string, flagsAt int) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, newError(3685, "Illegal argument to a regular expression.")
	}
	insensitive, flags := !ofBytes(ctx, args[0]) && folds(ctx, args[:2]), ""
	if len(args) > flagsAt {
		text, ok, err := textOperand(ctx, row, args[flagsAt])
		if err != nil || !ok {
			return nil, err
		}
		for _, f := range text {
			switch f {
			case 'c':
				insensitive = false
			case 'i':
				insensitive = true
			case 'm':
				flags += "m"
			case 'n':
				flags += "s"
			case 'u':
			default:
				return nil, newError(1210, "Incorrect arguments to %s", c.name)
			}
		}
	}
	if insensitive {
		flags += "i"
	}
	if flags != "" {
		pattern = "(?" + flags + ")" + pattern
	}
	if last := c.compiled.Load(); last != nil && last.text == pattern {
		return last.re, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, regexError(err)
	}
	c.compiled.Store(&compiledRegex{pattern, re})
	return re, nil
}

// regexError is MySQL's error for a pattern that is none.
func regexError(err error) error {
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		switch wrong.Code {
		case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
			return newError(3691, "Mismatched parenthesis in regular expression.")
		case syntax.ErrMissingBracket:
			return newError(3696, "The regular expression contains an unclosed bracket expression.")
		case syntax.ErrInvalidRepeatSize:
			return newError(3693, "The maximum is less than the minimum in a {min,max} interval.")
		case syntax.ErrInvalidEscape, syntax.ErrTrailingBackslash:
			return newError(3687, "Unrecognized escape sequence in regular expression.")
		}
	}
	return newError(3688, "Syntax error in regular expression on line 1, character 1.")
}

// matches are those of a text from a character on, with their groups, as offsets in the whole text; the n-th one alone if n is not 0.
func regexMatches(re *regexp.Regexp, text string, from, n int64, bytes bool) ([][]int, error) {
	if from < 1 || from > lengthOf(text, bytes)+1 {
		return nil, newError(3686, "Index out of bounds in regular expression search.")
	}
	start := offsetOf(text, from-1, bytes)
	most := -1
	if n > 0 {
		most = int(min(n, int64(len(text))+2)) // there are no more, empty ones included
	}
	found := re.FindAllStringSubmatchIndex(text[start:], most)
	for _, m := range found {
		for i := range m {
			if m[i] >= 0 {
				m[i] += start
			}
		}
	}
	if n > 0 {
		if int64(len(found)) < n {
			return nil, nil
		}
		return found[n-1 : n], nil
	}
	return found, nil
}

func (c *regexCall) instr(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	text, ok, err := c.texts(ctx, row, args[0], args[1])
	if err != nil || !ok {
		return nil, err
	}
	n, ok, err := c.counts(ctx, row, args[2], args[3], args[4])
	if err != nil || !ok {
		return nil, err
	}
	if n[2] != 0 && n[2] != 1 {
		return nil, newError(1210, "Incorrect arguments to regexp_instr: return_option must be 1 or 0.")
	}
	re, err := c.compile(ctx, row, args, text[1], 5)
	if err != nil || re == nil {
		return nil, err
	}
	bytes := ofBytes(ctx, args[0])
	found, err := regexMatches(re, text[0], n[0], max(n[1], 1), bytes)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return int32(0), nil
	}
	return int32(lengthOf(text[0][:found[0][n[2]]], bytes) + 1), nil
}

func (c *regexCall) substr(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	text, ok, err := c.texts(ctx, row, args[0], args[1])
	if err != nil || !ok {
		return nil, err
	}
	n, ok, err := c.counts(ctx, row, args[2], args[3])
	if err != nil || !ok {
		return nil, err
	}
	re, err := c.compile(ctx, row, args, text[1], 4)
	if err != nil || re == nil {
		return nil, err
	}
	found, err := regexMatches(re, text[0], n[0], max(n[1], 1), ofBytes(ctx, args[0]))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return text[0][found[0][0]:found[0][1]], nil
}

func (c *regexCall) replace(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	text, ok, err := c.texts(ctx, row, args[0], args[1], args[2])
	if err != nil || !ok {
		return nil, err
	}
	n, ok, err := c.counts(ctx, row, args[3], args[4])
	if err != nil || !ok {
		return nil, err
	}
	re, err := c.compile(ctx, row, args, text[1], 5)
	if err != nil || re == nil {
		return nil, err
	}
	found, err := regexMatches(re, text[0], n[0], max(n[1], 0), ofBytes(ctx, args[0]))
	if err != nil {
		return nil, err
	}
	most := packetMost(ctx)
	var out strings.Builder
	done := 0
	for _, m := range found {
		out.WriteString(text[0][done:m[0]])
		if err := appendReplacement(&out, text[0], text[2], m); err != nil {
			return nil, err
		}
		if int64(out.Len()) > most {
			return tooLong(ctx, c.name, most)
		}
		done = m[1]
	}
	out.WriteString(text[0][done:])
	return out.String(), nil
}

// appendReplacement writes what replaces a match: $1 is its first group, a backslash makes the next character one as others.
func appendReplacement(out *strings.Builder, text, by string, match []int) error {
	for i := 0; i < len(by); i++ {
		switch c := by[i]; {
		case c == '\\' && i+1 < len(by):
			i++
			out.WriteByte(by[i])
		case c == '$':
			group, digits := 0, 0
			for i+1 < len(by) && by[i+1] >= '0' && by[i+1] <= '9' && 2*(group*10+int(by[i+1]-'0')) < len(match) {
				group, digits, i = group*10+int(by[i+1]-'0'), digits+1, i+1
			}
			if digits == 0 {
				return newError(3686, "Index out of bounds in regular expression search.")
			}
			if from := match[2*group]; from >= 0 {
				out.WriteString(text[from:match[2*group+1]])
			}
		default:
			out.WriteByte(c)
		}
	}
	return nil
}
