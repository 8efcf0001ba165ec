package mcpserver

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestABodyThatIsTooLargeEndsAtTheLimit(t *testing.T) {
	tests := map[string]struct {
		size   int
		length bool
		status int
	}{
		"the limit, with its length": {maxBodyBytes, true, http.StatusOK},
		"the limit, in chunks":       {maxBodyBytes, false, http.StatusOK},
		"above, with its length":     {maxBodyBytes + 1, true, http.StatusRequestEntityTooLarge},
		"above, in chunks":           {maxBodyBytes + 1, false, http.StatusRequestEntityTooLarge},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			read := 0
			server := httptest.NewServer(newWorld().handler(func(w http.ResponseWriter, r *http.Request) {
				content, err := io.ReadAll(r.Body)
				read = len(content)
				var tooLarge *http.MaxBytesError
				if errors.As(err, &tooLarge) {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
				}
			}))
			defer server.Close()
			var body io.Reader = strings.NewReader(strings.Repeat(" ", tc.size))
			if !tc.length {
				body = io.MultiReader(body)
			}
			r, _ := http.NewRequest(http.MethodPost, server.URL, body)
			r.Header.Set("Authorization", "Bearer alice")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tc.status || read > maxBodyBytes {
				t.Errorf("the answer is %d after %d bytes, want %d", response.StatusCode, read, tc.status)
			}
		})
	}
}

// deadlines is a response writer that records deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	mu    sync.Mutex
	read  []time.Time
	write []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = append(d.read, at)
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write = append(d.write, at)
	return nil
}

func (d *deadlines) lastWrite() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write[len(d.write)-1]
}

func TestABodyHasItsTimeAndNoMore(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) })).
		ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")))
	if len(w.read) < 2 || time.Until(w.read[0]) > bodyReadTimeout || w.read[0].IsZero() {
		t.Fatalf("the deadlines are %v, want one within %s and then none", w.read, bodyReadTimeout)
	}
	if last := w.read[len(w.read)-1]; !last.IsZero() {
		t.Errorf("the deadline %s stays after the body was read, and net/http takes it for the client going away", last)
	}
}

func TestAStreamHasNoReadDeadline(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	limited(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if len(w.read) != 0 {
		t.Errorf("a request without a body got the deadlines %v", w.read)
	}
}

// failing is a body whose connection fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
func (f failing) Close() error             { return nil }

func TestErrorsOfABodyNameNoAddress(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8090}
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"too slow":  {&net.OpError{Op: "read", Net: "tcp", Source: address, Err: os.ErrDeadlineExceeded}, errSlowBody},
		"broke off": {&net.OpError{Op: "read", Net: "tcp", Source: address, Err: io.ErrUnexpectedEOF}, errBrokenBody},
	} {
		t.Run(name, func(t *testing.T) {
			var got error
			r := httptest.NewRequest(http.MethodPost, "/", failing{tc.err})
			limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, got = io.ReadAll(r.Body) })).
				ServeHTTP(httptest.NewRecorder(), r)
			if !errors.Is(got, tc.want) || strings.Contains(got.Error(), "10.1.2.3") {
				t.Errorf("the error is %v, want %v", got, tc.want)
			}
		})
	}
}
