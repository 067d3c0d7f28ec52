package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"lancesql/engine"
	"lancesql/sqlbackend"
)

// grace is how long running statements may go on after the first signal.
const grace = 10 * time.Second

// exitSecondSignal is the exit code when a second signal cuts the stop short.
const exitSecondSignal = 130

// serve runs the server until a signal.
func serve(args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stdout)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	level, err := o.level()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))

	// Signals count from here: one that comes while the engine recovers stops the server as soon as it is up.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	ctx := context.Background()
	open := engine.Open
	if o.ReadOnly {
		open = engine.OpenReadOnly
	}
	e, err := open(ctx, o.engine(), engine.Components{Log: log, TableOptions: sqlbackend.TableOptions})
	if err != nil {
		return err
	}
	srv, err := sqlbackend.NewServer(o.server(), e, log)
	if err != nil {
		return errors.Join(err, e.Close(ctx))
	}
	announce(stderr, log, &o, srv)
	return errors.Join(answer(srv, e, log, signals), e.Close(ctx))
}

// answer serves until the first signal and stops; a second signal ends the process.
func answer(srv *sqlbackend.Server, e *engine.Engine, log *slog.Logger, signals <-chan os.Signal) error {
	ended := make(chan error, 1)
	go func() { ended <- srv.Start() }()
	select {
	case err := <-ended:
		return errors.Join(errors.New("the server stopped listening"), err)
	case s := <-signals:
		log.Info("stopping", "signal", s.String())
	}
	go func() {
		<-signals
		os.Exit(exitSecondSignal)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	e.ReleaseInstance()
	err := srv.Close(ctx)
	<-ended
	return err
}

// announce tells where the server is: one line on a terminal, otherwise a log entry.
func announce(stderr io.Writer, log *slog.Logger, o *options, srv *sqlbackend.Server) {
	log.Info("ready", "version", sqlbackend.Version, "address", srv.Addr().String(), "socket", o.Socket, "data", o.DataDir)
	f, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	where := srv.Addr().String()
	if o.Socket != "" && o.Addr != "" {
		where += " and " + o.Socket
	}
	fmt.Fprintf(stderr, "lancesql %s ready on %s, data in %s\n", sqlbackend.Version, where, o.DataDir)
}
