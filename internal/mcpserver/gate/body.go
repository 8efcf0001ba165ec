package gate

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// maxBodyBytes is far above any call of a tool.
	maxBodyBytes = 1 << 20
	// bodyReadTimeout bounds how slowly a client may send its body.
	bodyReadTimeout = 30 * time.Second
)

var (
	errSlowBody   = errors.New("the body of the request did not arrive within 30 seconds; send it again")
	errBrokenBody = errors.New("the body of the request broke off; send it again")
)

// limited refuses bodies above the limit with 413 and bounds the time that a
// client may take to send one.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBodyBytes {
			http.Error(w, "the request is larger than 1 MiB; send less at once", http.StatusRequestEntityTooLarge)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			controller := http.NewResponseController(w)
			// A writer without deadlines, as in tests, needs none.
			_ = controller.SetReadDeadline(time.Now().Add(bodyReadTimeout))
			r.Body = &body{ReadCloser: http.MaxBytesReader(w, r.Body, maxBodyBytes), controller: controller}
		}
		next.ServeHTTP(w, r)
	})
}

// body is a request's body with a deadline.
type body struct {
	io.ReadCloser
	controller *http.ResponseController
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return n, err
	case errors.Is(err, io.EOF):
		// net/http goes on reading in the background, to notice that the client went
		// away, and would take the deadline for that.
		_ = b.controller.SetReadDeadline(time.Time{})
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errSlowBody
	default:
		// The error of the connection names addresses, and the SDK shows it to the
		// client.
		return n, errBrokenBody
	}
}
