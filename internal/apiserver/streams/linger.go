package streams

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// lingering is a response whose connection lingers.
type lingering struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (l lingering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return lingeringConn{conn}, buffers, nil
}

// lingerTimeout limits how long a client may take to close its end.
const lingerTimeout = 5 * time.Second

// lingeringConn is a connection that is closed after the client closed its end, or
// after a while. Until then, input that nobody wants is discarded: kube-apiserver ends
// a connection in both directions as soon as it cannot pass on input, and the client
// then loses the last message, which is how the command ended.
type lingeringConn struct{ net.Conn }

// Close implements net.Conn.
func (c lingeringConn) Close() error {
	_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, c.Conn)
	return c.Conn.Close()
}
