package remoteexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const refused = "error dialing backend: dial tcp 10.96.0.7:443: connect: connection refused"

// proxy responds like a kube-apiserver that cannot proxy sessions, and then serves them over SPDY.
type proxy struct {
	// refusals are the texts of the first responses, all with status 503.
	refusals []string
	asked    atomic.Int32
	ran      atomic.Int32
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch n := int(p.asked.Add(1)); {
	case n <= len(p.refusals):
		http.Error(w, p.refusals[n-1], http.StatusServiceUnavailable)
	case r.Method == http.MethodGet:
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
	default:
		remotecommand.ServeExec(w, r, p, "", "", "", nil, &remotecommand.Options{Stdin: true, Stdout: true},
			time.Minute, time.Minute, []string{protocol.StreamProtocolV4Name})
	}
}

func (p *proxy) ExecInContainer(_ context.Context, _, _, _ string, _ []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	p.ran.Add(1)
	_, err := io.Copy(out, in)
	return err
}

// TestReplicaGone runs a command while the Service still routes to a killed replica.
func TestReplicaGone(t *testing.T) {
	for name, c := range map[string]struct {
		refusals []string
		// ran is how often the command ran. says is a part of the error.
		ran  int32
		says string
	}{
		"a WebSocket is refused":    {refusals: []string{refused}, ran: 1},
		"both protocols, twice":     {refusals: []string{refused, refused, refused, refused}, ran: 1},
		"no address for a moment":   {refusals: []string{"service unavailable", "service unavailable"}, ran: 1},
		"it ends in the handshake":  {refusals: []string{"error dialing backend: EOF"}, says: "the command may run"},
		"sending fails":             {refusals: []string{"error sending request: EOF"}, says: "the command may run"},
		"the answer is lost":        {refusals: []string{"EOF"}, says: "EOF"},
		"the connection is lost":    {refusals: []string{"read tcp 10.0.0.1:2->10.0.0.2:443: read: connection reset by peer"}, says: "reset by peer"},
		"lost at the next attempt":  {refusals: []string{refused, refused, "EOF"}, says: "EOF"},
		"lost, and SPDY is no help": {refusals: []string{refused, "unexpected EOF"}, says: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &proxy{refusals: c.refusals}
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			to, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err = Run(polltest.Context(t), &rest.Config{Host: server.URL}, to, Command{
				Args: []string{"cat"}, Stdin: strings.NewReader("all of it"), Stdout: &out,
			})
			if c.says == "" && (err != nil || out.String() != "all of it") {
				t.Errorf("it ended with %v and wrote %q", err, out.String())
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it ended with %v, want %q", err, c.says)
			}
			if p.ran.Load() != c.ran {
				t.Errorf("it ran %d times, want %d", p.ran.Load(), c.ran)
			}
			if asked := int(p.asked.Load()); c.says != "" && asked != len(c.refusals) {
				t.Errorf("%d requests, want %d: it may run already", asked, len(c.refusals))
			}
		})
	}
}

// TestRefusal checks that the error is the server's message and nothing else.
func TestRefusal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the workspace is stopped","code":409}`)
	}))
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: server.URL}
	for name, err := range map[string]error{
		"Run":        Run(t.Context(), cfg, to, Command{Args: []string{"true"}, Stdout: io.Discard}),
		"Forward":    Forward(t.Context(), cfg, to, []string{"localhost"}, []string{"0:7"}, io.Discard, io.Discard),
		"ForwardPod": ForwardPod(t.Context(), cfg, to, 0, 7, func(int) {}),
	} {
		if err == nil || err.Error() != "the workspace is stopped" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		gone := errors.New("nobody there")
		again := func(err error) bool { return errors.Is(err, gone) }
		err := Retry(t.Context(), again, func() error { tries++; return fmt.Errorf("try %d: %w", tries, gone) })
		if took := time.Since(began); !errors.Is(err, gone) || tries != attempts || took != patience || took > 10*time.Second {
			t.Errorf("%v after %d attempts in %s, want %d in %s", err, tries, took, attempts, patience)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := Retry(ctx, again, func() error { return gone }); !errors.Is(err, gone) || time.Since(began) > time.Second {
			t.Errorf("%v after %s, want the last error when the context is done", err, time.Since(began))
		}
		tries = 0
		if err := Retry(t.Context(), again, func() error { tries++; return io.EOF }); !errors.Is(err, io.EOF) || tries != 1 {
			t.Errorf("%v after %d attempts, want another error at once", err, tries)
		}
	})
}
