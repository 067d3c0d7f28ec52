package enginetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Outcomes of a node.
const (
	passed  = "PASS"
	failed  = "FAIL"
	skipped = "SKIP"
	hung    = "HANG" // it did not end, or the process ended in it
)

const (
	silenceMax = 90 * time.Second // a child that says nothing for so long hangs
	rerunsMax  = 40               // of one suite, each without the nodes that hung before
	outputMax  = 4 << 10          // kept of what a node says
)

// node is one test of a suite. Its name starts with the suite's.
type node struct {
	name    string
	outcome string
	output  string
	answer  string // of its last statement
}

// nodes are the outcomes of a run in the order in which the nodes began.
type nodes struct {
	order  []string
	byName map[string]*node
}

func newNodes() *nodes { return &nodes{byName: make(map[string]*node)} }

func (n *nodes) get(name string) *node {
	x := n.byName[name]
	if x == nil {
		x = &node{name: name}
		n.byName[name] = x
		n.order = append(n.order, name)
	}
	return x
}

// parents returns the nodes that contain others.
func (n *nodes) parents() map[string]bool {
	out := make(map[string]bool)
	for _, name := range n.order {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			if n.byName[name[:i]] != nil {
				out[name[:i]] = true
			}
		}
	}
	return out
}

// counted returns the nodes that count: those without others inside, and those that fail while none inside does.
func (n *nodes) counted() []*node {
	parents := n.parents()
	blamed := make(map[string]bool)
	for _, name := range n.order {
		if o := n.byName[name].outcome; o != failed && o != hung {
			continue
		}
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			blamed[name[:i]] = true
		}
	}
	var out []*node
	for _, name := range n.order {
		x := n.byName[name]
		if !parents[name] || (x.outcome == failed && !blamed[name]) {
			out = append(out, x)
		}
	}
	return out
}

// runSuites runs suites in child processes, which end and begin anew when a node hangs (I2). avoid lists nodes that are
// known to hang: they are not run, and hang in the result.
func runSuites(t *testing.T, list []suite, store string, avoid []string) *nodes {
	t.Helper()
	dir, data := t.TempDir(), dataDir(t)
	result := newNodes()
	hangs := slices.Clone(avoid)
	for _, name := range avoid {
		result.get(name).outcome = hung
	}
	reruns := make(map[string]int)
	for len(list) > 0 {
		file := filepath.Join(dir, "hung")
		if err := os.WriteFile(file, []byte(strings.Join(lastParts(hangs), "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		names := make([]string, len(list))
		for i, s := range list {
			names[i] = s.name
		}
		c := &child{result: newNodes()}
		err := c.run(names, data, file, store)
		done := 0
		for _, s := range list {
			if x := c.result.byName[s.name]; x == nil || x.outcome == "" {
				break
			}
			done++
		}
		for _, name := range c.result.order {
			x := c.result.byName[name]
			if r := result.get(name); r.outcome != hung {
				r.outcome, r.output, r.answer = x.outcome, x.output, x.answer
			}
		}
		if done == len(list) {
			return result
		}
		list = list[done:]
		open := c.running(list[0].name)
		t.Logf("%s: %v", open, err)
		x := result.get(open)
		x.outcome, x.output = hung, fmt.Sprintf("%v\n%s", err, c.tail())
		reruns[list[0].name]++
		if slices.Contains(hangs, open) || open == list[0].name || reruns[list[0].name] > rerunsMax {
			list = list[1:]
			continue
		}
		hangs = append(hangs, open)
	}
	return result
}

// dataDir is where the suites lie: they read files of their own.
func dataDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/dolthub/go-mysql-server/enginetest").Output()
	if err != nil {
		t.Fatalf("where the suites lie: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// lastParts returns the names the suites ask about: those of the nodes without their parents'.
func lastParts(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n[strings.LastIndexByte(n, '/')+1:]
	}
	return out
}

// child is one process that runs suites.
type child struct {
	result  *nodes
	current string
	last    []string // the last lines it said
}

// resultLine matches the report of a node.
var resultLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (.*) \(\d+\.\d+s\)$`)

func (c *child) run(names []string, dataDir, hungFile, store string) error {
	cmd := exec.Command(os.Args[0], "-test.run", "^"+childTest+"$", "-test.v=test2json", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), envChild+"="+strings.Join(names, ","), envHung+"="+hungFile, envStore+"="+store, "CI_TEST=true",
		"TMPDIR="+filepath.Dir(hungFile)) // what a child that ends in the middle leaves goes with the test
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Dir = dataDir
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = in.Close() // the child has its own
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	stop := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if time.Since(time.Unix(0, heard.Load())) > silenceMax {
					_ = cmd.Process.Signal(os.Interrupt)
					_ = cmd.Process.Kill()
					return
				}
			}
		}
	}()
	c.read(out, &heard)
	close(stop)
	_ = out.Close()
	return cmd.Wait()
}

func (c *child) read(r io.Reader, heard *atomic.Int64) {
	br := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := br.ReadString('\n')
		heard.Store(time.Now().UnixNano())
		if line != "" {
			c.line(strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}

// line takes one line of output. Those of the testing package begin with a SYN, wherever on a line they stand.
func (c *child) line(text string) {
	said, mark, marked := strings.Cut(text, "\x16")
	if said != "" {
		c.said(said)
	}
	if !marked {
		return
	}
	mark = strings.TrimPrefix(strings.TrimLeft(mark, "\x16"), " ")
	if m := resultLine.FindStringSubmatch(mark); m != nil {
		if name, ok := strings.CutPrefix(m[2], childTest+"/"); ok {
			c.result.get(name).outcome = m[1]
		}
		return
	}
	for _, verb := range []string{"=== RUN   ", "=== NAME  ", "=== CONT  ", "=== PAUSE "} {
		if name, ok := strings.CutPrefix(mark, verb); ok {
			c.current = strings.TrimPrefix(name, childTest+"/")
			if verb == "=== RUN   " && name != childTest {
				c.result.get(c.current)
			}
			return
		}
	}
	c.said(mark)
}

func (c *child) said(text string) {
	if a, ok := strings.CutPrefix(text, answerLine); ok {
		if x := c.result.byName[c.current]; x != nil {
			x.answer = a
		}
		return
	}
	c.last = append(c.last, text)
	if len(c.last) > 60 {
		c.last = c.last[1:]
	}
	if x := c.result.byName[c.current]; x != nil && len(x.output) < outputMax {
		x.output += text + "\n"
	}
}

func (c *child) tail() string { return strings.Join(c.last, "\n") }

// running returns the last node of a suite that began and did not end.
func (c *child) running(suite string) string {
	for _, name := range slices.Backward(c.result.order) {
		if (name == suite || strings.HasPrefix(name, suite+"/")) && c.result.byName[name].outcome == "" {
			return name
		}
	}
	return suite
}
