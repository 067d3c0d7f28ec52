package wire

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/vitess/go/mysql"
)

// TLS ends below the frames: they, the protocol library and the handlers see packets in clear. The library is never told, since
// it would put TLS above the frames, which would then see nothing; so its greeting gets the flag that offers TLS, and the packet
// numbers of the login, which began with a packet it has not seen, are moved by one.

// tlsOldest is the oldest version spoken, as by MySQL 8.
const tlsOldest = tls.VersionTLS12

// LoadTLS reads a certificate chain and its key, files in PEM form. Without files it makes a certificate of its own, which names
// nobody and is signed by itself: connections are encrypted, but clients cannot verify whom they talk to.
func LoadTLS(certFile, keyFile string) (*tls.Config, error) {
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("a TLS certificate needs its key, and a key its certificate")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if certFile == "" {
		cert, err = ownCertificate(time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tlsOldest}, nil
}

// ownCertificate makes a key and a certificate for it that is good for ten years, as MySQL's.
func ownCertificate(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "lancesql automatically generated certificate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// early is a connection some of whose bytes have been read.
type early struct {
	net.Conn
	in io.Reader
}

// Read implements net.Conn.
func (c early) Read(p []byte) (int, error) { return c.in.Read(p) }

// upgrade answers a client's request for TLS. Any error ends the connection: there is nobody to tell in clear.
func (f *frames) upgrade() error {
	conn := tls.Server(early{f.conn, f.in}, f.offer)
	if err := conn.Handshake(); err != nil { // bounded by the deadline of the login
		return io.EOF
	}
	state := conn.ConnectionState()
	f.secure.Store(&state)
	f.conn, f.shift = conn, 1
	f.in = bufio.NewReaderSize(conn, 4<<10) // conn goes on reading from the one before
	return nil
}

// offerTLS puts the flag that offers TLS into the greeting, which the library writes at once.
func offerTLS(greeting []byte) {
	const flag = byte(mysql.CapabilityClientSSL >> 8)
	at := 1 // the protocol's version
	for at < len(greeting) && greeting[at] != 0 {
		at++ // the server's version
	}
	at += 1 + 4 + 8 + 1 + 1 // its end, the connection's number, salt, a filler, the low byte of the flags
	if at < len(greeting) {
		greeting[at] |= flag
	}
}

// cipher returns the version of TLS, as MySQL writes it, and the cipher that a connection uses; both empty if it is not encrypted.
func (f *frames) cipher() (version, name string) {
	state := f.secure.Load()
	if state == nil {
		return "", ""
	}
	return strings.ReplaceAll(tls.VersionName(state.Version), "TLS ", "TLSv"), tls.CipherSuiteName(state.CipherSuite)
}

// ProtocolListener builds the library's listener such that accounts which ask for TLS are let in where it is spoken below the
// library. It has the shape of server.Config.ProtocolListenerFactory.
func ProtocolListener(cfg server.Config, c mysql.ListenerConfig, l server.ServerEventListener) (server.ProtocolListener, error) {
	c.AuthServer = secureAuth{c.AuthServer}
	return server.MySQLProtocolListenerFactory(cfg, c, l)
}

type secureAuth struct{ mysql.AuthServer }

// AuthMethods implements mysql.AuthServer.
func (a secureAuth) AuthMethods() []mysql.AuthMethod {
	inner := a.AuthServer.AuthMethods()
	out := make([]mysql.AuthMethod, len(inner))
	for i, m := range inner {
		out[i] = secureMethod{m}
	}
	return out
}

type secureMethod struct{ mysql.AuthMethod }

// HandleUser implements mysql.AuthMethod; the library calls it before it looks at a password.
func (m secureMethod) HandleUser(c *mysql.Conn, user string) bool {
	if f := framesOf(c); f != nil && f.secure.Load() != nil {
		c.Capabilities |= mysql.CapabilityClientSSL
	}
	return m.AuthMethod.HandleUser(c, user)
}
