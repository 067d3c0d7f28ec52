package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"lancesql/engine"
)

const recoverUsage = `lancesql recover DIR [flags] completes the WAL files of a data directory whose server died, for tools that read its
tables without a server, as the next start of a server would. It may be run again; no server may have DIR open.
  --truncate-at-damage  if a WAL entry or journal record in the middle is damaged, set it and everything behind it
                        aside (below DIR/_lancesql/quarantine), after telling what is lost
The code is 0 if every acknowledged commit is in WAL files, otherwise 1.
`

// recoverDir completes the WAL files of a data directory and prints what it did.
func recoverDir(args []string, stdout, stderr io.Writer) error {
	o := engine.RecoverOptions{Report: func(line string) { fmt.Fprintln(stdout, line) }}
	set := flag.NewFlagSet("lancesql recover", flag.ContinueOnError)
	set.BoolVar(&o.TruncateAtDamage, "truncate-at-damage", false, "")
	dir, err := onePath(set, args, stdout, recoverUsage)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := engine.Recover(ctx, engine.Config{DataDir: dir}, engine.Components{Log: log}, o)
	if err != nil {
		return fmt.Errorf("recover %s: %w", dir, err)
	}
	fmt.Fprintf(stdout, "%s: %s, %s, %s written to WAL entries\n", dir, plural(s.Tables, "table"), plural(int(s.Records), "journal record"), plural(int(s.Rows), "row"))
	return nil
}
