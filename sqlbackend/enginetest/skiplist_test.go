package enginetest

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Files that list the nodes that fail, by reason; those of a run through the server apart.
//
//	reason NAME: why
//	mysql NAME: what MySQL does, with the section of its manual
//	[NAME]
//	FAIL suite/node
//	  = the answer of the node's last statement (only of a reason that says what MySQL does)
//	HANG suite/node      (not run)
//
// Long names are cut and carry a hash. A node whose answer is the one listed counts as right.
const (
	skipFile     = "../../testdata/enginetest/skip.txt"
	skipFileWire = "../../testdata/enginetest/wire.txt"
)

const nameMax = 120 // bytes of a node's name in the list

// skipList is what one of the files says.
type skipList struct {
	file    string
	reasons map[string]string // text by name
	mysql   map[string]bool   // reasons that say what MySQL does
	listed  map[string]string // reason by short name of a node
	answers map[string]string // of nodes whose reason says what MySQL does
	hangs   []string
}

func skipFileOf(store string) string {
	if store == storeWire {
		return skipFileWire
	}
	return skipFile
}

// shortName is the name of a node in the list.
func shortName(name string) string {
	if len(name) <= nameMax {
		return name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	cut := nameMax
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return fmt.Sprintf("%s…%016x", name[:cut], h.Sum64())
}

func readSkipList(t *testing.T, store string) *skipList {
	t.Helper()
	s := &skipList{
		file: skipFileOf(store), reasons: make(map[string]string), mysql: make(map[string]bool), listed: make(map[string]string),
		answers: make(map[string]string),
	}
	b, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	reason, last := "", ""
	sc := bufio.NewScanner(strings.NewReader(string(b)))
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case verb == "reason" || verb == "mysql":
			name, why, ok := strings.Cut(rest, ": ")
			if !ok || why == "" {
				t.Fatalf("%s:%d: a reason needs a text", s.file, n)
			}
			s.reasons[name], s.mysql[name] = why, verb == "mysql"
		case strings.HasPrefix(line, answerMark) && last != "" && s.mysql[reason]:
			s.answers[last] = strings.TrimPrefix(line, answerMark)
		case line[0] == '[':
			reason = strings.Trim(line, "[]")
			if s.reasons[reason] == "" {
				t.Fatalf("%s:%d: reason %q has no text", s.file, n, reason)
			}
		case (verb == failed || verb == hung) && reason != "":
			s.listed[rest], last = reason, rest
			if verb == hung {
				s.hangs = append(s.hangs, rest)
			}
		default:
			t.Fatalf("%s:%d: %q", s.file, n, line)
		}
	}
	return s
}

// answerMark stands before the answer of a node.
const answerMark = "  = "

// right reports whether a node that fails gives MySQL's answer.
func (s *skipList) right(x *node) bool {
	name := shortName(x.name)
	return x.outcome == failed && s.mysql[s.listed[name]] && s.answers[name] != "" && s.answers[name] == x.answer
}

// compare reports the differences between a run and the list (I1). Only nodes of the suites that ran count.
func (s *skipList) compare(t *testing.T, ran []suite, result *nodes) {
	t.Helper()
	const shown = 40
	var fresh, stale, others []string
	for name := range s.mysql {
		if s.mysql[name] && !strings.Contains(s.reasons[name], "(manual") {
			t.Errorf("%s: reason %s says what MySQL does without the section of its manual", s.file, name)
		}
	}
	failing := make(map[string]bool)
	for _, x := range result.counted() {
		if x.outcome != failed && x.outcome != hung {
			continue
		}
		failing[shortName(x.name)] = true
		name := shortName(x.name)
		if s.mysql[s.listed[name]] && !s.right(x) {
			others = append(others, fmt.Sprintf("%s\nMySQL : %s\nanswer: %s", x.name, s.answers[name], x.answer))
		}
		if s.listed[name] == "" {
			fresh = append(fresh, fmt.Sprintf("%s %s\n%s", x.outcome, x.name, x.output))
		}
	}
	for name := range s.listed {
		first, _, _ := strings.Cut(name, "/")
		if !failing[name] && slices.ContainsFunc(ran, func(r suite) bool { return r.name == first }) {
			stale = append(stale, name)
		}
	}
	slices.Sort(stale)
	if len(others) > 0 {
		t.Errorf("%d nodes answer otherwise than MySQL does by %s:\n%s", len(others), s.file, strings.Join(others[:min(len(others), shown)], "\n"))
	}
	if len(fresh) > 0 {
		t.Errorf("%d nodes fail that are not in %s:\n%s", len(fresh), s.file, strings.Join(fresh[:min(len(fresh), shown)], "\n"))
	}
	if len(stale) > 0 {
		t.Errorf("%d nodes of %s do not fail any more, take them out (%s=1):\n%s", len(stale), s.file, envUpdate, strings.Join(stale[:min(len(stale), shown)], "\n"))
	}
}

// openReason is that of nodes nobody has looked into.
const openReason = "open"

// cause gives the failures whose name and output match a reason.
type cause struct {
	mysql   bool // it says what MySQL does: the node's answer is listed and counts as right
	reason  string
	why     string
	matches string // regular expression; empty: only by hand, in the list itself
}

// isMySQL reports whether a reason says what MySQL does.
func isMySQL(reason string) bool {
	return slices.ContainsFunc(causes(), func(c cause) bool { return c.reason == reason && c.mysql })
}

// writeSkipList writes the list of a run. A node gets the reason its output matches, or the one given to it by hand, or
// that of the first node before it in the same script, or "open".
func writeSkipList(t *testing.T, old *skipList, result *nodes) {
	t.Helper()
	var patterns []*regexp.Regexp
	for _, c := range causes() {
		patterns = append(patterns, regexp.MustCompile(c.matches))
	}
	byHand := make(map[string]bool)
	for _, c := range causes() {
		byHand[c.reason] = c.matches == "" && c.reason != openReason
	}
	byReason := make(map[string][]string)
	inherited := make(map[string]string) // by the script's name
	for _, x := range result.counted() {
		if x.outcome != failed && x.outcome != hung {
			continue
		}
		reason := ""
		if r := old.listed[shortName(x.name)]; byHand[r] {
			reason = r
		}
		for i, c := range causes() {
			if reason == "" && c.matches != "" && patterns[i].MatchString(x.name+"\n"+x.output) {
				reason = c.reason
			}
		}
		script := x.name
		if i := strings.LastIndexByte(script, '/'); i > 0 && strings.Count(script, "/") > 1 {
			script = script[:i]
		}
		switch {
		case reason != "" && inherited[script] == "":
			inherited[script] = reason
		case reason == "":
			reason = inherited[script]
		}
		if reason == "" {
			reason = openReason
		}
		entry := x.outcome + " " + shortName(x.name)
		if isMySQL(reason) {
			entry += "\n" + answerMark + x.answer
		}
		byReason[reason] = append(byReason[reason], entry)
	}
	var b strings.Builder
	b.WriteString("# Nodes of the frontend's test suites that fail over lancesql, and why. Written by TestSuites; see sqlbackend/enginetest.\n\n")
	for _, c := range causes() {
		if len(byReason[c.reason]) > 0 {
			verb := "reason"
			if isMySQL(c.reason) {
				verb = "mysql"
			}
			fmt.Fprintf(&b, "%s %s: %s\n", verb, c.reason, c.why)
		}
	}
	for _, c := range causes() {
		if list := byReason[c.reason]; len(list) > 0 {
			slices.Sort(list)
			fmt.Fprintf(&b, "\n[%s]\n%s\n", c.reason, strings.Join(list, "\n"))
		}
	}
	if err := os.WriteFile(old.file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSkipListFindsFaults is the planted fault: a node that is not listed and fails, one that is listed and passes.
func TestSkipListFindsFaults(t *testing.T) {
	n := newNodes()
	n.get("S").outcome = failed
	n.get("S/a").outcome = passed
	n.get("S/b").outcome = failed
	n.get("S/b/c").outcome = failed
	n.get("S/b/d").outcome = passed
	var counted []string
	for _, x := range n.counted() {
		counted = append(counted, x.outcome+" "+x.name)
	}
	if got := strings.Join(counted, ","); got != "PASS S/a,FAIL S/b/c,PASS S/b/d" {
		t.Fatal(got)
	}
	long := strings.Repeat("é", nameMax)
	if s := shortName(long); !utf8.ValidString(s) || s == shortName(long+"x") || len(s) > nameMax+20 {
		t.Fatal(s)
	}
}
