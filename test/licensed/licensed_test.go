// Package licensed starts Coders with test licenses for the tests of licensed features. It is a module
// of its own, because it imports Coder's own test helper, which is not under the AGPL
// (LICENSE.enterprise of Coder). It is only a test: the helper is not changed, the keys and the licenses
// are those that the helper makes for one process, and nothing of it is part of a program, an image or a release.
//
// TestServe starts Coders in the process of the test, prints {"url": …} when it can be called, and ends with
// SIGTERM. PostgreSQL must be at 127.0.0.1:5432, with user and password postgres. hack/test-licensed.sh starts both.
package licensed

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/coder/coder/v2/coderd/coderdtest"
	"github.com/coder/coder/v2/enterprise/coderd/coderdenttest"
)

// coder is a running Coder. The answer to a request for one contains its exported fields.
type coder struct {
	URL, Token string
	used       bool
}

// work is what the requests do. It runs in the goroutine of the test, as the helper requires.
type work struct {
	do   func()
	done chan struct{}
}

func TestServe(t *testing.T) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	queue := make(chan work)
	s := &server{t: t}
	mux := http.NewServeMux()
	for path, handle := range map[string]func(*json.Decoder) any{"/coder": s.coder, "/release": s.release, "/license": s.license} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var answer any
			done := make(chan struct{})
			queue <- work{func() { answer = handle(json.NewDecoder(r.Body)) }, done}
			<-done
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(listener) }()
	defer func() { _ = web.Close() }()
	fmt.Printf("{\"url\": \"http://%s\"}\n", listener.Addr())
	for {
		select {
		case w := <-queue:
			w.do()
			close(w.done)
		case <-stop:
			return
		}
	}
}

type server struct {
	t   *testing.T
	all []*coder
}

// coder returns a Coder that nobody uses. It has a first user and no license.
func (s *server) coder(*json.Decoder) any {
	for _, c := range s.all {
		if !c.used {
			c.used = true
			return c
		}
	}
	client, _, _, _ := coderdenttest.NewWithAPI(s.t, &coderdenttest.Options{
		DontAddLicense: true,
		Options:        &coderdtest.Options{IncludeProvisionerDaemon: true},
	})
	c := &coder{URL: client.URL.String(), Token: client.SessionToken(), used: true}
	s.all = append(s.all, c)
	return c
}

// release takes back a Coder by its URL.
func (s *server) release(body *json.Decoder) any {
	var url string
	_ = body.Decode(&url)
	for _, c := range s.all {
		if c.URL == url {
			c.used = false
		}
	}
	return struct{}{}
}

// license signs the claims of a test license with the helper's key, which only the Coders of this process
// accept.
func (s *server) license(body *json.Decoder) any {
	claims := jwt.MapClaims{}
	body.UseNumber()
	if err := body.Decode(&claims); err != nil {
		s.t.Fatal(err)
	}
	return coderdenttest.GenerateLicenseRaw(s.t, claims)
}
