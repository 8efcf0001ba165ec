package streams

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// lingering is a response whose connection is a lingeringConn.
type lingering struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (l lingering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return lingeringConn{conn}, buffers, nil
}

// lingerTimeout limits the wait for the client to close its end.
const lingerTimeout = 5 * time.Second

// lingeringConn is a connection that is closed after the client has closed its end, or after
// lingerTimeout. Until then it discards unread input: kube-apiserver closes a connection in both
// directions as soon as it cannot forward input, and the client would lose the last message, which
// contains the exit status.
type lingeringConn struct{ net.Conn }

// Close implements net.Conn.
func (c lingeringConn) Close() error {
	_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, c.Conn)
	return c.Conn.Close()
}
