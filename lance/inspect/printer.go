package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printer builds the text of a report: pairs and grids, columns aligned with spaces, no trailing spaces.
type printer struct{ b strings.Builder }

func (p *printer) line(format string, args ...any) {
	p.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (p *printer) heading(text string) { p.line("\n%s", text) }

// pairs prints name and value lines; pairs without a value are left out.
func (p *printer) pairs(rows [][2]string) { p.indented("", rows) }

func (p *printer) indented(indent string, rows [][2]string) {
	width := 0
	for _, r := range rows {
		if r[1] != "" {
			width = max(width, utf8.RuneCountInString(r[0]))
		}
	}
	for _, r := range rows {
		if r[1] != "" {
			p.line("%s%s  %s", indent, pad(r[0], width, false), r[1])
		}
	}
}

// strings prints a map under a heading, keys sorted.
func (p *printer) strings(heading string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	p.heading(heading)
	var rows [][2]string
	for _, k := range sorted(m) {
		value := short(m[k])
		if value == "" {
			value = `""`
		}
		rows = append(rows, [2]string{plain(k), value})
	}
	p.indented("  ", rows)
}

// grid is a table; the first row holds the titles, right lists the columns aligned to the right. Columns without any
// value are left out.
type grid struct {
	indent string
	right  []int
	rows   [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (p *printer) grid(g *grid) {
	if len(g.rows) == 1 {
		return
	}
	width := make([]int, len(g.rows[0]))
	for i := range width {
		for _, row := range g.rows[1:] {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
		if width[i] > 0 {
			width[i] = max(width[i], len(g.rows[0][i]))
		}
	}
	for _, row := range g.rows {
		var b strings.Builder
		b.WriteString(g.indent)
		for i, cell := range row {
			if width[i] > 0 {
				b.WriteString(pad(cell, width[i], slices.Contains(g.right, i)) + "  ")
			}
		}
		p.line("%s", b.String())
	}
}

func pad(s string, width int, right bool) string {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// shortRunes is where long values are cut.
const shortRunes = 60

// short is plain, cut after shortRunes; the size in bytes is said then.
func short(s string) string {
	if utf8.RuneCountInString(s) <= shortRunes {
		return plain(s)
	}
	head := []rune(s[:min(len(s), 4*shortRunes)])
	return fmt.Sprintf("%s… (%d bytes)", plain(string(head[:shortRunes])), len(s))
}

// plain makes text that came out of a file safe for a terminal: quoted if it holds anything unprintable.
func plain(s string) string {
	for _, c := range s {
		if !strconv.IsPrint(c) || c == utf8.RuneError {
			return strconv.Quote(s)
		}
	}
	return s
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// optional formats a number that may be absent.
func optional[T any](n *T, format string) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(format, *n)
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func numbers(list []int32) string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = strconv.Itoa(int(n))
	}
	return strings.Join(out, " ")
}

// ranges writes ascending numbers in short: 1-3, 7.
func ranges(list []uint64) string {
	if len(list) == 0 {
		return "none"
	}
	var out []string
	for i := 0; i < len(list); {
		first := i
		for i++; i < len(list) && list[i] == list[i-1]+1; i++ {
		}
		if i-1 == first {
			out = append(out, count(list[first]))
		} else {
			out = append(out, count(list[first])+"-"+count(list[i-1]))
		}
	}
	return strings.Join(out, ", ")
}
