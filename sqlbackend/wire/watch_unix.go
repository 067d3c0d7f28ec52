//go:build unix

package wire

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// watchPeriod is how often a running statement's socket is looked at. Short statements end before the first look.
const watchPeriod = 500 * time.Millisecond

// watchClient calls gone when the client closes its end of conn while a statement runs. It only peeks at the socket, so
// bytes the client sends meanwhile (a cursor fetch, LOAD DATA LOCAL) stay where they are. Behind TLS the last bytes are a
// farewell that nobody has read, so what counts there is that no more can come. The returned function ends the
// watch; gone may still be called once more after it, which must be harmless.
func watchClient(conn net.Conn, gone func()) (stop func()) {
	if rawConn(conn) == nil {
		return func() {}
	}
	own, ok := conn.(*counted)
	encrypted := ok && own.frames.secure.Load() != nil
	var mu sync.Mutex
	var stopped bool
	var timer *time.Timer
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		raw := rawConn(conn) // asked each time: a connection that is being drained has none
		if raw == nil {
			return
		}
		if (peerClosed(raw) || encrypted && peerSilent(raw)) && rawConn(conn) != nil { // asked again: draining ends the input as well
			gone()
			return
		}
		timer.Reset(watchPeriod)
	}
	mu.Lock()
	timer = time.AfterFunc(watchPeriod, look)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

func rawConn(conn net.Conn) syscall.RawConn {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// peerClosed peeks one byte without waiting: an orderly end or an error other than "nothing there" means closed.
func peerClosed(raw syscall.RawConn) bool {
	closed := false
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			closed = n == 0
		case syscall.EAGAIN, syscall.EINTR:
		default:
			closed = true
		}
	})
	return closed || err != nil
}
