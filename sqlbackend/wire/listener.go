package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInUse reports an address another process listens on.
var ErrInUse = errors.New("address already in use")

// ListenConfig says where to listen. At least one of Address and Socket is set.
type ListenConfig struct {
	Address string // TCP host:port; empty: no TCP
	Socket  string // path of a unix socket; empty: none
	// MaxConnections bounds open connections; one more is answered with error 1040 and closed. 0: no bound.
	MaxConnections int
	TLS            *tls.Config // offered to clients of both; nil: no TLS
	RequireTLS     bool        // clients of the TCP address must use it (error 3159)
}

// Listener accepts connections of a TCP address and a unix socket alike and counts them. Accept fails only after Close:
// the connection loop above would end at any other error.
type Listener struct {
	tcp   net.Listener // nil if none
	unix  net.Listener // nil if none
	max   int64
	offer *tls.Config // nil: no TLS
	must  bool        // over TCP
	open  atomic.Int64
	queue chan net.Conn
	done  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup

	mu       sync.Mutex
	conns    map[*counted]struct{} // open connections
	draining bool
}

// Listen opens the sockets. A socket file that nobody answers on, left by a dead process, is replaced; any other file at
// that path is an error. Errors match ErrInUse where another process listens.
func Listen(c ListenConfig) (*Listener, error) {
	l := &Listener{max: int64(c.MaxConnections), offer: c.TLS, must: c.RequireTLS, queue: make(chan net.Conn), done: make(chan struct{}), conns: map[*counted]struct{}{}}
	if c.Address == "" && c.Socket == "" {
		return nil, errors.New("no address to listen on")
	}
	var err error
	if c.Address != "" {
		if l.tcp, err = net.Listen("tcp", c.Address); err != nil {
			return nil, listenError(c.Address, err)
		}
	}
	if c.Socket != "" {
		if l.unix, err = listenUnix(c.Socket); err != nil {
			if l.tcp != nil {
				l.tcp.Close()
			}
			return nil, err
		}
	}
	for _, inner := range []net.Listener{l.tcp, l.unix} {
		if inner == nil {
			continue
		}
		l.wg.Add(1)
		go l.accept(inner)
	}
	return l, nil
}

func listenUnix(path string) (net.Listener, error) {
	ln, err := net.Listen("unix", path)
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
		return ln, wrapListen(path, err)
	}
	info, serr := os.Lstat(path)
	if serr != nil {
		return nil, listenError(path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("listen on %s: the file exists and is not a socket", path)
	}
	if conn, derr := net.DialTimeout("unix", path, time.Second); derr == nil {
		conn.Close()
		return nil, listenError(path, err)
	} else if !errors.Is(derr, syscall.ECONNREFUSED) {
		return nil, listenError(path, err) // busy or not ours to judge
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	ln, err = net.Listen("unix", path)
	return ln, wrapListen(path, err)
}

func wrapListen(where string, err error) error {
	if err == nil {
		return nil
	}
	return listenError(where, err)
}

func listenError(where string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: %w", where, ErrInUse)
	}
	return fmt.Errorf("listen on %s: %w", where, err)
}

// accept moves connections of one socket into the queue until Close.
func (l *Listener) accept(inner net.Listener) {
	defer l.wg.Done()
	const pause = 20 * time.Millisecond // for errors such as too many open files
	for {
		conn, err := inner.Accept()
		if err != nil {
			select {
			case <-l.done:
				return
			case <-time.After(pause):
				continue
			}
		}
		if n := l.open.Add(1); l.max > 0 && n > l.max {
			l.open.Add(-1)
			l.wg.Add(1)
			go l.refuse(conn)
			continue
		}
		select {
		case l.queue <- l.count(conn):
		case <-l.done:
			l.open.Add(-1)
			conn.Close()
			return
		}
	}
}

// refuse sends "Too many connections" in place of the handshake, and closes.
func (l *Listener) refuse(conn net.Conn) {
	defer l.wg.Done()
	defer conn.Close()
	const text = "Too many connections"
	const code = 1040
	packet := append([]byte{byte(3 + len(text)), 0, 0, 0, 0xff, code & 0xff, code >> 8}, text...)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write(packet); err != nil {
		return
	}
	// Why read: closing with unread bytes of the client would reset the connection before it saw the packet.
	if hc, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = hc.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		var scratch [512]byte
		for {
			if _, err := conn.Read(scratch[:]); err != nil {
				return
			}
		}
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.queue:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: no more connections; open ones live on. The socket file is removed.
func (l *Listener) Close() error {
	var err error
	l.once.Do(func() {
		close(l.done)
		for _, inner := range []net.Listener{l.tcp, l.unix} {
			if inner != nil {
				err = errors.Join(err, inner.Close())
			}
		}
		l.wg.Wait()
	})
	return err
}

// Addr implements net.Listener: the TCP address if there is one, otherwise the socket.
func (l *Listener) Addr() net.Addr {
	if l.tcp != nil {
		return l.tcp.Addr()
	}
	return l.unix.Addr()
}

// Open returns the number of open connections.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Drain makes every connection see its client's end as closed: an idle one ends at once, a busy one after it sent the
// answer of its running statement. Call it after Close.
func (l *Listener) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for c := range l.conns {
		c.closeRead()
	}
}

// counted is a connection that leaves the listener's count when closed.
type counted struct {
	net.Conn
	frames   *frames
	listener *Listener
	once     sync.Once
	drained  atomic.Bool
}

func (l *Listener) count(conn net.Conn) net.Conn {
	_, local := conn.(*net.UnixConn)
	c := &counted{Conn: conn, frames: newFrames(conn, l.offer, l.must && !local), listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	if l.draining {
		c.closeRead()
	}
	return c
}

// Read implements net.Conn; one goroutine calls it, the connection's.
func (c *counted) Read(p []byte) (int, error) { return c.frames.Read(p) }

// Write implements net.Conn; one goroutine calls it, the connection's.
func (c *counted) Write(p []byte) (int, error) { return c.frames.Write(p) }

// closeRead ends the client's direction; connections that cannot do that are left alone.
func (c *counted) closeRead() {
	c.drained.Store(true)
	if hc, ok := c.Conn.(interface{ CloseRead() error }); ok {
		_ = hc.CloseRead() // fails only if the connection has ended
	}
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.listener.open.Add(-1)
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		delete(c.listener.conns, c)
	})
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn, so that a running statement can look at the socket. A connection being drained
// shows an end of input that is not the client's, and is not looked at.
func (c *counted) SyscallConn() (syscall.RawConn, error) {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok || c.drained.Load() {
		return nil, errors.ErrUnsupported
	}
	return sc.SyscallConn()
}
