package wire

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// Limits of what a client may send. They bound memory and time, not what MySQL allows.
const (
	loginBytesMax   = 64 << 10         // a packet before the client has logged in
	loginTime       = 10 * time.Second // the whole login, as MySQL's connect_timeout
	progressTime    = 60 * time.Second // the rest of a packet, or of a file, once it has begun
	packetBytesMax  = 64 << 20         // a command, as MySQL's max_allowed_packet; changed by the session
	rewriteBytesMax = 1 << 20          // the longest text prepared over the wire that is rewritten
	packetFull      = 1<<24 - 1        // a packet of this length is continued by the next
	idleDefault     = 8 * time.Hour

	clientMariaDB = "\x0c_client_name\x0alibmariadb" // an attribute in a login, and its value, each with its length
)

// Commands the frames look at.
const (
	comSleep        = 0x00
	comStatistics   = 0x09
	comStmtPrepare  = 0x16
	comStmtExecute  = 0x17
	comStmtLongData = 0x18
	comStmtReset    = 0x1a
	comSetOption    = 0x1b
)

// frames follows the packets a client sends, below the protocol library and with its goroutine: it bounds their length
// and the time they take, ends idle connections, and keeps from the library what would make it fail. On the way out it
// follows packet numbers, so that a result that has begun can still end with an error.
//
// TLS begins here where it is offered (tls.go).
type frames struct {
	conn net.Conn
	in   *bufio.Reader

	offer  *tls.Config // nil: TLS is not offered
	must   bool        // a client has to use it
	greets bool        // the next packet written is the greeting
	shift  byte        // added to the numbers of packets of the login, taken off those the client sends
	secure atomic.Pointer[tls.ConnectionState]

	left    int    // bytes of the packet not read yet
	partial bool   // the packet is continued by the next
	total   int64  // bytes of the command so far
	pending []byte // to be read first
	ended   error  // returned by every further read

	plainEnd   bool            // the client knows of an idle connection's end by nothing but that
	results    bool            // the client takes several results of one statement
	statements bool            // and may send several statements in one text
	waiting    *waitingResults // nil: none
	texts      clientTexts

	cursor    bool // the command opens a cursor, whose rows another goroutine fetches
	loggedIn  atomic.Bool
	idle      atomic.Int64 // time.Duration between commands
	most      atomic.Int64 // bytes of a command
	rewrite   func(text string) string
	statement func(id uint32) bool // whether there is a prepared statement of that number
	single    func(bool)           // says whether the library is to take a text for one statement
	status    func() string        // the answer to COM_STATISTICS

	out outgoing
}

// outgoing follows the packets written.
type outgoing struct {
	left     int     // bytes of the packet not written yet
	header   [4]byte // the part of a header that has been written
	have     int
	sequence byte // of the last packet begun
	info     int  // bytes of the text at the end of the next packet, an OK packet; 0: no text
	lengthAt int  // bytes to be written before the one that is the length of that text, -1: none
	length   byte
	swallow  bool // the next packet is not sent
	dropping bool // the packet being written is not sent
}

func newFrames(conn net.Conn, offer *tls.Config, must bool) *frames {
	f := &frames{conn: conn, in: bufio.NewReaderSize(conn, 4<<10), offer: offer, must: must, greets: offer != nil}
	f.out.lengthAt = -1
	f.idle.Store(int64(idleDefault))
	f.most.Store(packetBytesMax)
	_ = conn.SetReadDeadline(time.Now().Add(loginTime)) // fails only if the connection has ended
	return f
}

// Read hands the protocol library the next bytes.
func (f *frames) Read(p []byte) (int, error) {
	if len(f.pending) == 0 && f.left == 0 {
		if f.ended == nil {
			f.ended = f.next()
		}
		if f.ended != nil {
			return 0, f.ended
		}
	}
	if len(f.pending) > 0 {
		n := copy(p, f.pending)
		f.pending = f.pending[n:]
		return n, nil
	}
	if f.loggedIn.Load() && f.in.Buffered() == 0 {
		_ = f.conn.SetReadDeadline(time.Now().Add(progressTime))
	}
	n, err := f.in.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// next reads the header of the next packet the library is to see.
func (f *frames) next() error {
	for {
		command := f.loggedIn.Load() && !f.partial
		if f.loggedIn.Load() {
			wait := progressTime
			if command {
				wait = time.Duration(f.idle.Load())
			}
			_ = f.conn.SetReadDeadline(time.Now().Add(wait))
		}
		var header [4]byte
		if _, err := io.ReadFull(f.in, header[:]); err != nil {
			if command && errors.Is(err, os.ErrDeadlineExceeded) {
				if !f.plainEnd {
					f.reply(4031, "HY000", 0, "The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout for configuring this behavior.")
				}
				return io.EOF
			}
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) {
				return io.EOF
			}
			return err
		}
		length := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
		if !f.partial {
			f.total = 0
		}
		f.total += int64(length)
		f.partial = length == packetFull
		if !f.loggedIn.Load() {
			again, err := f.login(header, length)
			if err != nil || !again {
				return err
			}
			continue
		}
		if command {
			f.shift = 0
		}
		if f.total > f.most.Load() {
			f.reply(1153, "08S01", header[3]+1, "Got a packet bigger than 'max_allowed_packet' bytes")
			return io.EOF
		}
		if !command || header[3] != 0 {
			f.pending, f.left = header[:], length
			return nil
		}
		again, err := f.command(header, length)
		if err != nil || !again {
			return err
		}
	}
}

// login admits a packet of a client that has not logged in; again is true if it was the request for TLS.
func (f *frames) login(header [4]byte, length int) (again bool, err error) {
	if length > loginBytesMax || length == 0 && header[3]-f.shift < 2 {
		f.reply(1043, "08S01", header[3]+1, "Bad handshake")
		return false, io.EOF
	}
	const sslRequest, sslBytes = uint32(mysql.CapabilityClientSSL), 32
	if length == sslBytes && f.offer != nil && f.shift == 0 {
		if body, err := f.in.Peek(4); err == nil && binary.LittleEndian.Uint32(body)&sslRequest != 0 {
			if _, err := f.in.Discard(length); err != nil {
				return false, io.EOF
			}
			return true, f.upgrade()
		}
	}
	if f.must && f.shift == 0 {
		f.reply(3159, "HY000", header[3]+1, "Connections using insecure transport are prohibited while --require_secure_transport=ON.")
		return false, io.EOF
	}
	header[3] -= f.shift
	f.pending, f.left = header[:], length
	if body, err := f.in.Peek(min(4, length)); err == nil && len(body) == 4 && header[3] == 1 {
		asked := binary.LittleEndian.Uint32(body)
		f.statements = asked&mysql.CapabilityClientMultiStatements != 0
		f.results = f.statements || asked&mysql.CapabilityClientMultiResults != 0
		if whole, err := f.in.Peek(min(length, f.in.Size())); err == nil && asked&mysql.CapabilityClientConnAttr != 0 {
			// Why: MariaDB's server says nothing, and its clients connect again only then. A last word they take for
			// the answer to the next command.
			f.plainEnd = bytes.Contains(whole, []byte(clientMariaDB))
		}
	}
	return false, nil
}

// command looks at the start of a command; again is true if it was dealt with here.
func (f *frames) command(header [4]byte, length int) (again bool, err error) {
	f.pending, f.left, f.cursor = header[:], length, false
	if length == 0 {
		f.pending = []byte{1, 0, 0, header[3], comSleep} // Why: the library takes a first byte for granted
		return false, nil
	}
	kind, err := f.in.Peek(1)
	if err != nil {
		return false, io.EOF
	}
	if f.single != nil {
		f.single(kind[0] == comStmtPrepare) // Why: it would split a definition with a body of several statements
	}
	switch kind[0] {
	case comStatistics:
		if f.status == nil || length != 1 {
			return false, nil
		}
		if _, err := f.in.Discard(length); err != nil {
			return false, io.EOF
		}
		f.pending, f.left = nil, 0
		f.replyText(f.status())
		return true, nil
	case comStmtPrepare:
		if f.rewrite == nil && f.texts.textForm == (textForm{}) || length > rewriteBytesMax {
			return false, nil
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(f.in, body); err != nil {
			return false, io.EOF
		}
		text := f.texts.decode(string(body[1:]))
		if f.rewrite != nil {
			text = f.rewrite(text)
		}
		size := 1 + len(text)
		f.pending = append([]byte{byte(size), byte(size >> 8), byte(size >> 16), header[3], comStmtPrepare}, text...)
		f.left = 0
	case comSetOption:
		body, err := f.in.Peek(min(3, length))
		if err != nil {
			return false, io.EOF
		}
		if len(body) == 3 { // 0 is on, 1 is off
			f.statements = body[1] == 0 && body[2] == 0
		}
	case comStmtExecute:
		const flagsAt = 5 // behind the command and the statement's number
		body, err := f.in.Peek(min(flagsAt+1, length))
		if err != nil {
			return false, io.EOF
		}
		f.cursor = len(body) > flagsAt && body[flagsAt]&1 != 0
	case comStmtLongData, comStmtReset:
		body, err := f.in.Peek(min(5, length))
		if err != nil {
			return false, io.EOF
		}
		if f.statement == nil || len(body) == 5 && f.statement(binary.LittleEndian.Uint32(body[1:])) {
			return false, nil
		}
		// Why here: the library ends the connection for the one, and panics for the other.
		if _, err := f.in.Discard(length); err != nil {
			return false, io.EOF
		}
		f.pending, f.left = nil, 0
		if body[0] == comStmtReset {
			f.reply(1243, "HY000", 1, "Unknown prepared statement handler given to COM_STMT_RESET")
		}
		return true, nil
	}
	return false, nil
}

// reply sends an error packet past the library, which has nothing to say now.
func (f *frames) reply(code uint16, state string, sequence byte, text string) {
	f.send(sequence, append([]byte{0xff, byte(code), byte(code >> 8), '#'}, state+text...))
}

// replyText answers a command with a packet that is a text.
func (f *frames) replyText(text string) { f.send(1, []byte(text)) }

func (f *frames) send(sequence byte, body []byte) {
	size := len(body)
	p := append([]byte{byte(size), byte(size >> 8), byte(size >> 16), sequence}, body...)
	_ = f.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = f.conn.Write(p) // the client may be gone
	_ = f.conn.SetWriteDeadline(time.Time{})
}

// Write passes what the library writes, following packets.
func (f *frames) Write(p []byte) (int, error) {
	size := len(p)
	if f.greets || f.shift != 0 || f.out.info > 0 || f.out.lengthAt >= 0 {
		p = slices.Clone(p) // not ours to change
	}
	start := 0 // of what is to be sent
	for at := 0; at < len(p); {
		o := &f.out
		if o.left > 0 {
			n := min(o.left, len(p)-at)
			o.left -= n
			if o.lengthAt >= 0 {
				if o.lengthAt < n {
					p[at+o.lengthAt] = o.length
				}
				o.lengthAt = max(o.lengthAt-n, -1)
			}
			if f.greets {
				f.greets = false
				offerTLS(p[at : at+n])
			}
			at += n
			if o.dropping {
				start = at
				o.dropping = o.left > 0
			}
			continue
		}
		n := copy(o.header[o.have:], p[at:])
		o.have += n
		if o.swallow {
			if start < at {
				if _, err := f.conn.Write(p[start:at]); err != nil {
					return 0, err
				}
			}
			start = at + n
		}
		at += n
		if o.have < len(o.header) {
			continue
		}
		o.have = 0
		o.left = int(o.header[0]) | int(o.header[1])<<8 | int(o.header[2])<<16
		o.sequence = o.header[3]
		if o.info > 0 {
			o.lengthAt, o.length, o.info = o.left-o.info-1, byte(o.info), 0
		}
		if f.shift != 0 {
			p[at-1] += f.shift
		}
		if o.swallow {
			o.swallow, o.dropping = false, o.left > 0
		}
	}
	if start < len(p) {
		if _, err := f.conn.Write(p[start:]); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// endResult ends a result behind which another one follows. Everything the library has buffered must have been written; the client
// takes the end for an OK packet or, as it was before, for one of its own kind.
func (f *frames) endResult(flags uint16, asOK bool) {
	body := []byte{0xfe, 0, 0, byte(flags), byte(flags >> 8)}
	if asOK {
		body = append(body, 0, 0)
	}
	f.out.sequence++
	f.send(f.out.sequence, body)
}

// fail ends a result whose first packets have been sent with an error, in place of the packet that follows. Everything
// the library has buffered must have been written.
func (f *frames) fail(err *mysql.SQLError) bool {
	if f.cursor || f.out.left > 0 || f.out.have > 0 {
		return false
	}
	f.reply(uint16(err.Num), err.State, f.out.sequence+1, err.Message)
	f.out.swallow = true
	return true
}
