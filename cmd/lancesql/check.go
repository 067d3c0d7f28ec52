package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"lancesql/engine"
	"lancesql/internal/clock"
	"lancesql/lsm"
)

// Exit codes of `lancesql check`.
const (
	exitProblems = 1 // something is wrong with the directory
	exitNoCheck  = 2 // it could not be checked
)

// exitError ends the program with a code of its own. A nil err says nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

const checkUsage = `lancesql check DIR [flags] verifies a data directory that no server has open, without changing it.
  --deep      decode every value of every data file as well
  --no-lock   do not look whether a server has DIR open: DIR is a copy
  --json      print JSON
  --memory N  MiB for comparing keys (default 256); with more keys than fit, key columns are read more than once
The code is 0 if no invariant is broken (warnings and remarks do not count), 1 if one is, 2 if DIR could not be checked.
`

// checkReport is the JSON form of a check. Members keep name and meaning while Format is 1.
type checkReport struct {
	Format    int            `json:"format"`
	Path      string         `json:"path"`
	Deep      bool           `json:"deep"`
	Catalog   uint64         `json:"catalog_version"`
	Databases int            `json:"databases"`
	Tables    int            `json:"tables"`
	Rows      uint64         `json:"base_rows"`
	Shards    int            `json:"shards"`
	Records   uint64         `json:"journal_records"`
	Pending   uint64         `json:"journal_records_pending"`
	PendRows  int64          `json:"journal_rows_pending"`
	Errors    int            `json:"errors"`
	Warnings  int            `json:"warnings"`
	Findings  []checkFinding `json:"findings"`
}

type checkFinding struct {
	Severity string `json:"severity"` // error, warning, info
	Table    string `json:"table,omitempty"`
	Object   string `json:"object,omitempty"` // relative to the directory
	Offset   *int64 `json:"offset,omitempty"` // byte in the object, if known
	Message  string `json:"message"`
}

func findingOf(f engine.CheckFinding) checkFinding {
	out := checkFinding{Severity: f.Severity.String(), Table: f.Table, Object: f.Object, Message: f.What}
	if f.Offset >= 0 {
		out.Offset = &f.Offset
	}
	return out
}

func (f checkFinding) String() string {
	where := f.Object
	if where == "" {
		where = f.Table
	}
	if f.Offset != nil {
		where += fmt.Sprintf(" at byte %d", *f.Offset)
	}
	if where != "" {
		where += ": "
	}
	return f.Severity + ": " + where + f.Message
}

// check verifies a data directory and prints what it finds.
func check(args []string, stdout, stderr io.Writer) error {
	fail := func(err error) error { return &exitError{code: exitNoCheck, err: err} }
	var o engine.CheckOptions
	var asJSON bool
	memory := int64(256)
	set := flag.NewFlagSet("lancesql check", flag.ContinueOnError)
	set.BoolVar(&o.Deep, "deep", false, "")
	set.BoolVar(&o.Unlocked, "no-lock", false, "")
	set.BoolVar(&asJSON, "json", false, "")
	set.Int64Var(&memory, "memory", memory, "")
	dir, err := onePath(set, args, stdout, checkUsage)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return fail(err)
	}
	if memory <= 0 || memory > 1<<20 {
		return fail(fmt.Errorf("--memory %d is not between 1 and %d", memory, 1<<20))
	}
	o.MemoryBytes = memory << 20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := newProgress(stderr)
	defer p.end()
	o.Progress = p.say

	r := checkReport{Format: 1, Path: dir, Deep: o.Deep, Findings: []checkFinding{}}
	s, err := engine.Check(ctx, dir, o, func(e engine.CheckFinding) {
		f := findingOf(e)
		switch e.Severity {
		case lsm.Error:
			r.Errors++
		case lsm.Warning:
			r.Warnings++
		}
		if asJSON {
			r.Findings = append(r.Findings, f)
			return
		}
		p.end()
		fmt.Fprintln(stdout, f)
	})
	p.end()
	if errors.Is(err, context.Canceled) {
		return fail(fmt.Errorf("check %s: interrupted; %d errors so far", dir, r.Errors))
	}
	if err != nil {
		return fail(fmt.Errorf("check %s: %w", dir, err))
	}
	r.Catalog, r.Databases, r.Tables, r.Rows, r.Shards = s.Catalog, s.Databases, s.Tables, s.Rows, s.Shards
	r.Records, r.Pending, r.PendRows = s.JournalRecords, s.Pending, s.PendingRows
	if err := r.print(stdout, asJSON); err != nil {
		return fail(err)
	}
	if r.Errors > 0 {
		return &exitError{code: exitProblems, err: fmt.Errorf("check %s: %s", dir, plural(r.Errors, "error"))}
	}
	return nil
}

// print writes the end of the text, or all of the JSON.
func (r *checkReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := fmt.Fprintf(w, "%s: %s in %s, %s in base tables, %s; %s, %s\n", r.Path, plural(r.Tables, "table"), plural(r.Databases, "database"),
		plural(int(r.Rows), "row"), plural(r.Shards, "shard"), plural(r.Errors, "error"), plural(r.Warnings, "warning"))
	return err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// onePath parses flags that may stand before and after one path.
func onePath(set *flag.FlagSet, args []string, stdout io.Writer, usage string) (string, error) {
	set.SetOutput(io.Discard)
	path := ""
	for rest := args; len(rest) > 0; {
		if err := set.Parse(rest); errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, usage)
			return "", errHelp
		} else if err != nil {
			return "", fmt.Errorf("%w; try %s --help", err, set.Name())
		}
		if rest = set.Args(); len(rest) == 0 {
			break
		}
		if path != "" {
			return "", fmt.Errorf("unexpected argument %q; try %s --help", rest[0], set.Name())
		}
		path, rest = rest[0], rest[1:]
	}
	if path == "" {
		return "", fmt.Errorf("no data directory given; try %s --help", set.Name())
	}
	return path, nil
}

// progressEvery is the time between two lines of progress.
const progressEvery = 200 * time.Millisecond

// progress shows what is being done on one line of a terminal; elsewhere it shows nothing.
type progress struct {
	w     io.Writer // nil if there is no terminal
	clock clock.Clock
	last  time.Time
	shown bool
}

func newProgress(stderr io.Writer) *progress {
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{w: stderr, clock: clock.System()}
	}
	return &progress{}
}

func (p *progress) say(what string) {
	if p.w == nil || p.clock.Now().Sub(p.last) < progressEvery {
		return
	}
	const width = 78
	if len(what) > width {
		what = "…" + strings.ToValidUTF8(what[len(what)-width+1:], "")
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", what)
	p.last, p.shown = p.clock.Now(), true
}

// end clears the line.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
