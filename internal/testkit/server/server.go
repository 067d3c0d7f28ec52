package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// readyTime bounds the wait for a server to answer, recovery included; stopTime that for a clean stop.
const (
	readyTime = 90 * time.Second
	stopTime  = 60 * time.Second
)

// Options say how a server is started. The zero value is a server with default settings on a temporary directory.
type Options struct {
	DataDir string            // "" = a temporary directory of the test
	Config  map[string]string // lines of the configuration file, key -> YAML value
	Args    []string          // further arguments of `lancesql serve`
}

// Server is one data directory and the process that serves it, if one runs. Not safe for concurrent Start, Kill and Stop.
type Server struct {
	t       testing.TB
	options Options
	config  string
	port    int

	mu  sync.Mutex
	log bytes.Buffer // what the processes wrote, all of them

	cmd    *exec.Cmd
	exited chan error // receives once per process
}

// Start builds the binary, starts a server and waits until it answers. The test's end stops it.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := New(t, o)
	s.Start()
	return s
}

// New prepares a server without starting it.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = filepath.Join(t.TempDir(), "data")
	}
	s := &Server{t: t, options: o, port: freePort(t)}
	if len(o.Config) > 0 {
		s.config = filepath.Join(t.TempDir(), "lancesql.yaml")
		var text strings.Builder
		for k, v := range o.Config {
			fmt.Fprintf(&text, "%s: %s\n", k, v)
		}
		if err := os.WriteFile(s.config, []byte(text.String()), 0o644); err != nil {
			t.Fatalf("server: %v", err)
		}
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("log of the server at %s:\n%s", s.options.DataDir, s.Log())
		}
	})
	return s
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("server: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Command returns a not yet started `lancesql serve` on this server's directory and port.
func (s *Server) Command() *exec.Cmd {
	args := []string{"serve", "--data-dir", s.options.DataDir, "--addr", s.Addr()}
	if s.config != "" {
		args = append(args, "--config", s.config)
	}
	return exec.Command(Binary(s.t), append(args, s.options.Args...)...)
}

// Start runs a process and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.TryStart(); err != nil {
		s.t.Fatalf("server: %v\n%s", err, s.Log())
	}
}

// TryStart is Start with the error returned, for tests of refusals and crashes while starting.
func (s *Server) TryStart() error {
	s.t.Helper()
	if s.cmd != nil {
		return errors.New("the server runs already")
	}
	cmd := s.Command()
	cmd.Stdout, cmd.Stderr = writer{s}, writer{s}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	s.cmd, s.exited = cmd, exited
	go func() { exited <- cmd.Wait() }()
	return s.waitReady()
}

func (s *Server) waitReady() error {
	db := s.Open("", "timeout=2s")
	defer db.Close()
	deadline := time.Now().Add(readyTime)
	for {
		select {
		case err := <-s.exited:
			s.cmd = nil
			return fmt.Errorf("the server ended while starting: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := db.PingContext(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// Kill ends the process with SIGKILL and waits until it is gone. It does nothing if none runs.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
	s.cmd = nil
}

// Stop ends the process with SIGTERM and fails the test unless it ends cleanly in time.
func (s *Server) Stop() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatalf("server: %v", err)
	}
	select {
	case err := <-s.exited:
		s.cmd = nil
		if err != nil {
			s.t.Fatalf("server: stop: %v\n%s", err, s.Log())
		}
	case <-time.After(stopTime):
		s.t.Fatalf("server: did not stop within %v\n%s", stopTime, s.Log())
	}
}

// Restart kills the process and starts another on the same directory.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Start()
}

// Alive says whether the process still runs.
func (s *Server) Alive() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case err := <-s.exited:
		s.exited <- err
		return false
	default:
		return true
	}
}

// Addr is the server's address, host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Port is the server's port.
func (s *Server) Port() int { return s.port }

// DataDir is the server's data directory.
func (s *Server) DataDir() string { return s.options.DataDir }

// DSN is a data source name for the driver; params are "name=value".
func (s *Server) DSN(database string, params ...string) string {
	dsn := fmt.Sprintf("root@tcp(%s)/%s", s.Addr(), database)
	if len(params) > 0 {
		dsn += "?" + strings.Join(params, "&")
	}
	return dsn
}

// Open returns a connection pool on the database; the caller closes it, the test's end at the latest.
func (s *Server) Open(database string, params ...string) *sql.DB {
	s.t.Helper()
	config, err := mysql.ParseDSN(s.DSN(database, params...))
	if err != nil {
		s.t.Fatalf("server: %v", err)
	}
	config.Logger = silent{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		s.t.Fatalf("server: %v", err)
	}
	db := sql.OpenDB(connector)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// Log returns what all processes of this server wrote so far.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// writer appends a process's output to its server's log.
type writer struct{ s *Server }

func (w writer) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(p)
}

// silent drops the driver's log: a killed server is no news here.
type silent struct{}

func (silent) Print(...any) {}
