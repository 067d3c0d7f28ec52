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

// skipFile lists the nodes that fail, by reason:
//
//	reason NAME: why
//	[NAME]
//	FAIL suite/node
//	HANG suite/node      (not run)
//
// Long names are cut and carry a hash.
const skipFile = "../../testdata/enginetest/skip.txt"

const nameMax = 120 // bytes of a node's name in the list

// skipList is what skipFile says.
type skipList struct {
	reasons map[string]string // text by name
	listed  map[string]string // reason by short name of a node
	hangs   []string
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

func readSkipList(t *testing.T) *skipList {
	t.Helper()
	s := &skipList{reasons: make(map[string]string), listed: make(map[string]string)}
	b, err := os.ReadFile(skipFile)
	if err != nil {
		t.Fatal(err)
	}
	reason := ""
	sc := bufio.NewScanner(strings.NewReader(string(b)))
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case verb == "reason":
			name, why, ok := strings.Cut(rest, ": ")
			if !ok || why == "" {
				t.Fatalf("%s:%d: a reason needs a text", skipFile, n)
			}
			s.reasons[name] = why
		case line[0] == '[':
			reason = strings.Trim(line, "[]")
			if s.reasons[reason] == "" {
				t.Fatalf("%s:%d: reason %q has no text", skipFile, n, reason)
			}
		case (verb == failed || verb == hung) && reason != "":
			s.listed[rest] = reason
			if verb == hung {
				s.hangs = append(s.hangs, rest)
			}
		default:
			t.Fatalf("%s:%d: %q", skipFile, n, line)
		}
	}
	return s
}

// compare reports the differences between a run and the list (I1). Only nodes of the suites that ran count.
func (s *skipList) compare(t *testing.T, ran []suite, result *nodes) {
	t.Helper()
	const shown = 40
	var fresh, stale []string
	failing := make(map[string]bool)
	for _, x := range result.counted() {
		if x.outcome != failed && x.outcome != hung {
			continue
		}
		failing[shortName(x.name)] = true
		if s.listed[shortName(x.name)] == "" {
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
	if len(fresh) > 0 {
		t.Errorf("%d nodes fail that are not in %s:\n%s", len(fresh), skipFile, strings.Join(fresh[:min(len(fresh), shown)], "\n"))
	}
	if len(stale) > 0 {
		t.Errorf("%d nodes of %s do not fail any more, take them out (%s=1):\n%s", len(stale), skipFile, envUpdate, strings.Join(stale[:min(len(stale), shown)], "\n"))
	}
}

// openReason is that of nodes nobody has looked into.
const openReason = "open"

// cause gives the failures whose name and output match a reason.
type cause struct {
	reason  string
	why     string
	matches string // regular expression; empty: only by hand, in the list itself
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
		byReason[reason] = append(byReason[reason], x.outcome+" "+shortName(x.name))
	}
	var b strings.Builder
	b.WriteString("# Nodes of the frontend's test suites that fail over lancesql, and why. Written by TestSuites; see sqlbackend/enginetest.\n\n")
	for _, c := range causes() {
		if len(byReason[c.reason]) > 0 {
			fmt.Fprintf(&b, "reason %s: %s\n", c.reason, c.why)
		}
	}
	for _, c := range causes() {
		if list := byReason[c.reason]; len(list) > 0 {
			slices.Sort(list)
			fmt.Fprintf(&b, "\n[%s]\n%s\n", c.reason, strings.Join(list, "\n"))
		}
	}
	if err := os.WriteFile(skipFile, []byte(b.String()), 0o644); err != nil {
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
