package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// peerSilent reports whether the client has closed its direction, whatever it has sent before.
func peerSilent(raw syscall.RawConn) bool {
	silent := false
	err := raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		silent = err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return silent && err == nil
}
