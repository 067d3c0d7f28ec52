package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"lancesql/internal/arrowx"
)

// config is what the command line says.
type config struct {
	python, jsonPath, dir, only string
	rows, batch, take, rounds   int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, c, os.Stdout)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/format:", err)
		stop()
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (config, error) {
	var c config
	python := os.Getenv("LANCESQL_PYTHON")
	if python == "" {
		python = filepath.Join(".venv", "bin", "python")
	}
	f := flag.NewFlagSet("bench/format", flag.ContinueOnError)
	f.StringVar(&c.python, "python", python, "`interpreter` with pylance; LANCESQL_PYTHON, or what make oracle installs")
	f.IntVar(&c.rows, "rows", 2_000_000, "rows of a column; wide ones have fewer")
	f.IntVar(&c.batch, "batch", 8192, "rows of a batch, for both sides")
	f.IntVar(&c.take, "take", 1000, "rows of a random take")
	f.IntVar(&c.rounds, "rounds", 7, "rounds; the best counts")
	f.StringVar(&c.only, "case", "", "only columns whose name contains `text`")
	f.StringVar(&c.dir, "dir", "", "`folder` for the files; a temporary one is removed afterwards")
	f.StringVar(&c.jsonPath, "json", "", "`file` for the result as JSON")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if c.rows < 1 || c.batch < 1 || c.take < 1 || c.rounds < 1 {
		return c, errors.New("--rows, --batch, --take and --rounds must be positive")
	}
	return c, nil
}

// run measures all cases and prints the table.
func run(ctx context.Context, c config, out io.Writer) (err error) {
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "lancesql-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	}
	ref, err := startReference(ctx, c.python)
	if err != nil {
		return err
	}
	b := &bench{ref: ref, dir: c.dir, batch: c.batch, take: c.take, rounds: c.rounds, mem: arrowx.NewRecycler(0)}
	r := report{Rows: c.rows, Batch: c.batch, Rounds: c.rounds, Procs: runtime.GOMAXPROCS(0)}
	for _, k := range cases() {
		if !strings.Contains(k.name, c.only) {
			continue
		}
		results, err := b.run(ctx, k, c.rows)
		r.Results = append(r.Results, results...)
		if err != nil {
			return errors.Join(err, ref.close())
		}
	}
	if err := ref.close(); err != nil {
		return err
	}
	fmt.Fprint(out, r.text())
	if c.jsonPath != "" {
		return r.save(c.jsonPath)
	}
	return nil
}
