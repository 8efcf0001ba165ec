// Package licensed starts Coders with test licenses for the tests of licensed features. It is a module
// of its own, because it imports Coder's own test helper, which is not under the AGPL
// (LICENSE.enterprise of Coder). It is only a test: the helper is not changed, the keys and the licenses
// are those that the helper makes for one process, and nothing of it is part of a program, an image or a release.
//
// TestServe starts Coders in the process of the test, prints {"url": …} when it can be called, and ends with
// SIGTERM. PostgreSQL must be at 127.0.0.1:5432, with user and password postgres. test/licensed/run.sh starts both.
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
	"github.com/coder/coder/v2/coderd/database"
	"github.com/coder/coder/v2/coderd/database/dbfake"
	"github.com/coder/coder/v2/coderd/database/dbtestutil"
	"github.com/coder/coder/v2/coderd/database/pubsub"
	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/coder/v2/enterprise/coderd"
	"github.com/coder/coder/v2/enterprise/coderd/coderdenttest"
)

// coder is a running Coder. The answer to a request for one contains its exported fields.
type coder struct {
	URL, Token string
	used       bool
	// once is true if no other test can use it: it began without users, or has another replica.
	once     bool
	client   *codersdk.Client
	api      *coderd.API
	first    codersdk.CreateFirstUserResponse
	database database.Store
	pubsub   pubsub.Pubsub
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
	for path, handle := range map[string]func(*json.Decoder) any{
		"/coder": s.coder, "/release": s.release, "/license": s.license, "/replica": s.replica, "/proxy": s.proxy, "/prebuild": s.prebuild,
	} {
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

// coder returns a Coder that nobody uses, without licenses. It has a first user, or, if it is to be bare, no user.
func (s *server) coder(body *json.Decoder) any {
	c := &coder{used: true}
	_ = body.Decode(&c.once)
	bare := c.once
	for _, known := range s.all {
		if !known.used && !bare {
			known.used = true
			return known
		}
	}
	c.database, c.pubsub = dbtestutil.NewDB(s.t)
	c.client, _, c.api, c.first = coderdenttest.NewWithAPI(s.t, &coderdenttest.Options{
		DontAddLicense: true, DontAddFirstUser: bare,
		Options: &coderdtest.Options{IncludeProvisionerDaemon: !bare, Database: c.database, Pubsub: c.pubsub},
	})
	c.URL, c.Token = c.client.URL.String(), c.client.SessionToken()
	s.all = append(s.all, c)
	return c
}

// of returns the Coder with a URL.
func (s *server) of(url string) *coder {
	for _, c := range s.all {
		if c.URL == url {
			return c
		}
	}
	s.t.Fatalf("there is no Coder %q", url)
	return nil
}

// replica starts another replica of a Coder, and returns its URL.
func (s *server) replica(body *json.Decoder) any {
	var url string
	_ = body.Decode(&url)
	c := s.of(url)
	c.once = true
	client, _, _, _ := coderdenttest.NewWithAPI(s.t, &coderdenttest.Options{
		DontAddLicense: true, DontAddFirstUser: true, Options: &coderdtest.Options{Database: c.database, Pubsub: c.pubsub},
	})
	return client.URL.String()
}

// proxy starts a workspace proxy of a Coder with its token.
func (s *server) proxy(body *json.Decoder) any {
	var with struct{ URL, Token string }
	_ = body.Decode(&with)
	c := s.of(with.URL)
	coderdenttest.NewWorkspaceProxyReplica(s.t, c.api, c.client, &coderdenttest.ProxyOptions{Token: with.Token})
	return struct{}{}
}

// prebuild writes a workspace that Coder has built in advance, and its template, to the database. It returns the id.
func (s *server) prebuild(body *json.Decoder) any {
	var url string
	_ = body.Decode(&url)
	c := s.of(url)
	return dbfake.WorkspaceBuild(s.t, c.database, database.WorkspaceTable{
		OwnerID: database.PrebuildsSystemUserID, OrganizationID: c.first.OrganizationID,
	}).Do().Workspace.ID
}

// release takes back a Coder by its URL.
func (s *server) release(body *json.Decoder) any {
	var url string
	_ = body.Decode(&url)
	c := s.of(url)
	c.used = c.once
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
