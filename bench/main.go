package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// config is what the command line says.
type config struct {
	addr, user, password, database string
	workloads                      []string
	rows, connections              int
	duration, warmUp               time.Duration
	seed                           uint64
	jsonPath                       string
	keep                           bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, c)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// parse reads the command line; errors name the flag.
func parse(args []string) (config, error) {
	var c config
	var names string
	var seconds, warmUp float64
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&c.addr, "addr", "127.0.0.1:3306", "`host:port` of the server")
	f.StringVar(&c.user, "user", "root", "account")
	f.StringVar(&c.password, "password", "", "its password")
	f.StringVar(&c.database, "database", "lancesql_bench", "database to work in; created if absent")
	f.StringVar(&names, "workload", strings.Join(workloadNames(), ","), "comma-separated workloads")
	f.IntVar(&c.rows, "rows", 100000, "rows of the table")
	f.IntVar(&c.connections, "connections", 8, "connections that work at once")
	f.Float64Var(&seconds, "seconds", 20, "measured seconds of each timed workload")
	f.Float64Var(&warmUp, "warm-up", -1, "seconds before measuring; -1 = a fifth of --seconds")
	f.Uint64Var(&c.seed, "seed", 1, "seed of keys and values")
	f.StringVar(&c.jsonPath, "json", "", "`file` for the result as JSON")
	f.BoolVar(&c.keep, "keep", false, "keep the tables; the next run with the same --rows uses them")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if c.rows < 1 || c.connections < 1 || seconds <= 0 {
		return c, errors.New("--rows, --connections and --seconds must be positive")
	}
	if warmUp < 0 {
		warmUp = seconds / 5
	}
	c.duration = time.Duration(seconds * float64(time.Second))
	c.warmUp = time.Duration(warmUp * float64(time.Second))
	c.workloads = strings.Split(names, ",")
	for _, name := range c.workloads {
		if _, ok := workloads()[name]; !ok {
			return c, fmt.Errorf("unknown workload %q; there are %s", name, strings.Join(workloadNames(), ", "))
		}
	}
	return c, nil
}

// run prepares, measures and reports.
func run(ctx context.Context, c config) error {
	s, err := connect(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	r := report{Server: s.version, Rows: c.rows, Connections: c.connections, Seed: c.seed, Seconds: c.duration.Seconds()}
	for _, name := range c.workloads {
		res, err := s.measure(ctx, name, workloads()[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Workloads = append(r.Workloads, res)
	}
	if !c.keep {
		if err := s.drop(ctx); err != nil {
			return err
		}
	}
	fmt.Print(r.text())
	if c.jsonPath == "" {
		return nil
	}
	return r.writeJSON(c.jsonPath)
}
