package mcpserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// maxBodyBytes is larger than any valid call of a tool.
	maxBodyBytes = 1 << 20
	// bodyReadTimeout is the time that a client has to send the body.
	bodyReadTimeout = 30 * time.Second
)

var (
	errSlowBody   = errors.New("the body of the request did not arrive within 30 seconds; send it again")
	errBrokenBody = errors.New("the body of the request broke off; send it again")
)

// limited rejects bodies above the limit with 413, and sets a deadline for reading the
// body.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBodyBytes {
			http.Error(w, "the request is larger than 1 MiB; send less at once", http.StatusRequestEntityTooLarge)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			controller := http.NewResponseController(w)
			// Writers without deadlines, as in tests, return an error, which is ignored.
			_ = controller.SetReadDeadline(time.Now().Add(bodyReadTimeout))
			r.Body = &deadlineBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBodyBytes), controller: controller}
		}
		next.ServeHTTP(w, r)
	})
}

// deadlineBody is a request's body with a deadline.
type deadlineBody struct {
	io.ReadCloser
	controller *http.ResponseController
}

// Read implements io.Reader.
func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return n, err
	case errors.Is(err, io.EOF):
		// net/http continues to read in the background to detect that the client
		// disconnected. It would treat the deadline as a disconnect.
		_ = b.controller.SetReadDeadline(time.Time{})
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errSlowBody
	default:
		// The connection's error contains addresses, and the SDK sends the error to the
		// client.
		return n, errBrokenBody
	}
}
