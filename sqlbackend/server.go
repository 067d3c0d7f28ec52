package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"lancesql/engine"
	"lancesql/sqlbackend/wire"
)

// ServerConfig says where a server listens. The zero value of a field means its default.
type ServerConfig struct {
	Addr           string // TCP host:port; empty: no TCP
	Socket         string // path of a unix socket; empty: none
	MaxConnections int    // open connections; one more gets error 1040. 0: 151

	TLS     TLSMode
	TLSCert string // file in PEM form, with the certificates up to the root's; empty: a certificate made at the start
	TLSKey  string // file of its key
}

// TLSMode says whether connections may be encrypted.
type TLSMode string

// The modes of TLS. The zero value is TLSAuto.
const (
	TLSAuto     TLSMode = "auto"     // if the client asks for it
	TLSOff      TLSMode = "off"      // never
	TLSRequired TLSMode = "required" // always over TCP; others get error 3159
)

// Validate reports what cannot be.
func (c ServerConfig) Validate() error {
	switch c.TLS {
	case "", TLSAuto, TLSOff, TLSRequired:
	default:
		return fmt.Errorf("tls %q is not auto, off or required", c.TLS)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("tls_cert and tls_key need each other")
	}
	if c.TLS == TLSOff && c.TLSCert != "" {
		return errors.New("tls is off, and there is a tls_cert")
	}
	return nil
}

// listen opens the sockets.
func (c ServerConfig) listen() (*wire.Listener, error) {
	l := wire.ListenConfig{Address: c.Addr, Socket: c.Socket, MaxConnections: c.MaxConnections, RequireTLS: c.TLS == TLSRequired}
	if c.TLS != TLSOff {
		var err error
		if l.TLS, err = wire.LoadTLS(c.TLSCert, c.TLSKey); err != nil {
			return nil, err
		}
	}
	return wire.Listen(l)
}

// Server speaks the MySQL protocol over an engine. Methods are safe for concurrent use.
type Server struct {
	log      *slog.Logger
	front    *sqle.Engine
	server   *server.Server
	listener *wire.Listener
	close    sync.Once
}

// NewServer opens the listening sockets and builds the server; connections are answered from Start on. Errors match
// wire.ErrInUse if another process listens at an address. e stays the caller's, who closes it after the server.
func NewServer(cfg ServerConfig, e *engine.Engine, log *slog.Logger) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = connectionsMax
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	wire.BridgeLogs(log)
	provider := NewProvider(e)
	front := NewSQLEngine(e, provider)
	listener, err := cfg.listen()
	if err != nil {
		return nil, errors.Join(err, front.Close())
	}
	grants := front.Analyzer.Catalog.MySQLDb
	addRoot(grants, isLoopback(listener.Addr()))
	err = errors.Join(checkGrants(grants), showSettings(cfg, e))
	if err == nil && e.ReadOnly() {
		err = showReadOnly()
	}
	var srv *server.Server
	if err == nil {
		srv, err = newFrontendServer(front, provider, listener, log)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close(), front.Close())
	}
	return &Server{log: log, front: front, server: srv, listener: listener}, nil
}

func newFrontendServer(front *sqle.Engine, provider *Provider, listener net.Listener, log *slog.Logger) (*server.Server, error) {
	session := func(_ context.Context, c *mysql.Conn, addr string) (sql.Session, error) {
		client := sql.Client{Capabilities: c.Capabilities}
		if user, ok := c.UserData.(sql.MysqlConnectionUser); ok {
			client.User, client.Address = user.User, user.Host
		}
		return NewSession(sql.NewBaseSessionWithClientServer(addr, client, c.ConnectionID), provider), nil
	}
	options := wire.Options{MapError: mapStatementError, Refuse: refuseFiles, RewritePrepare: rewritePrepared, Log: log}
	if provider.Engine().ReadOnly() {
		options.Refuse, options.Again = refuseChanges, runAgain
	}
	cfg := server.Config{
		Protocol: "tcp",
		Address:  listener.Addr().String(),
		Listener: listener,
		// Why: TLS ends below the protocol library.
		ProtocolListenerFactory: func(cfg server.Config, l mysql.ListenerConfig, events server.ServerEventListener) (server.ProtocolListener, error) {
			l.AuthServer = lockedAuth{AuthServer: l.AuthServer, grants: provider.grants}
			return wire.ProtocolListener(cfg, l, events)
		},
		Version: ServerVersion,
		// Why off: it reads from the socket of a running statement, which breaks cursors; the handler peeks instead.
		DisableConnectionWatcher: true,
		MaxLoggedQueryLen:        -1,
		Options:                  []server.Option{wire.Option(options)},
	}
	return server.NewServer(cfg, front, sql.NewContext, session, nil)
}

// Addr returns the TCP address the server listens on, or its socket if there is none.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Frontend returns the engine and the sessions that connections run on. They are the server's: for tests, which set up accounts
// and look into sessions.
func (s *Server) Frontend() (*sqle.Engine, *server.SessionManager) {
	return s.front, s.server.SessionManager()
}

// Start answers connections until Close.
func (s *Server) Start() error {
	return s.server.Start()
}

// Close stops accepting, closes idle connections, waits for running statements until ctx ends, then cancels them, and
// returns when every connection has ended. It is idempotent.
func (s *Server) Close(ctx context.Context) error {
	var err error
	s.close.Do(func() { err = s.shutdown(ctx) })
	return err
}

func (s *Server) shutdown(ctx context.Context) error {
	err := s.server.Close() // stops listening; connections live on
	s.listener.Drain()
	drained := make(chan struct{})
	go func() {
		s.server.SessionManager().WaitForClosedConnections()
		close(drained)
	}()
	select {
	case <-drained:
	case <-ctx.Done():
		s.disconnect(drained)
	}
	return errors.Join(err, s.front.Close())
}

// disconnect cancels running statements and closes their connections until none is left.
func (s *Server) disconnect(drained <-chan struct{}) {
	const again = 10 * time.Millisecond // a connection may begin a statement after it was looked at
	tick := time.NewTicker(again)
	defer tick.Stop()
	sessions := s.server.SessionManager()
	for {
		for _, p := range s.front.ProcessList.Processes() {
			s.front.ProcessList.Kill(p.Connection)
			if err := sessions.KillConnection(p.Connection); err != nil {
				s.log.Debug("closing a connection failed", "connection", p.Connection, "error", err)
			}
		}
		select {
		case <-drained:
			return
		case <-tick.C:
		}
	}
}
