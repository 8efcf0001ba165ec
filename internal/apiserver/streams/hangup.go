package streams

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// hangup is a response that reports when the client closes the connection. The SPDY server does not
// report it: the input of a command ends in the same way when the client has sent everything.
type hangup struct {
	http.ResponseWriter
	gone func()
}

// Hijack implements http.Hijacker.
func (h hangup) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	read, write := io.Pipe()
	go func() {
		_, err := io.Copy(write, buffered.Reader)
		_ = write.CloseWithError(err)
		h.gone()
	}()
	return unblocking{conn, read}, bufio.NewReadWriter(bufio.NewReader(read), bufio.NewWriter(conn)), nil
}

// unblocking is a connection whose Close also stops the copying of unread input.
type unblocking struct {
	net.Conn
	read *io.PipeReader
}

// Close implements net.Conn.
func (u unblocking) Close() error {
	_ = u.read.Close()
	return u.Conn.Close()
}
