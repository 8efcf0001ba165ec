package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/coder/v2/codersdk/workspacesdk"
	"github.com/coder/coder/v2/tailnet"
	"github.com/coder/coder/v2/tailnet/proto"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// deaf is an agent that does not answer the first attempts to connect to a port.
type deaf struct {
	workspacesdk.AgentConn
	attempts, unanswered int
	err                  error
}

func (d *deaf) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	d.attempts++
	if d.attempts <= d.unanswered {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &net.TCPConn{}, d.err
}

// TestUnansweredPort checks that an attempt to connect to a port which the agent does not answer is
// followed by others, until the timeout.
func TestUnansweredPort(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		agent    deaf
		err      error
		attempts int
		took     time.Duration
	}{
		"answers":             {deaf{}, nil, 1, 0},
		"answers the third":   {deaf{unanswered: 2}, nil, 3, 3 * firstAttempt},
		"answers none":        {deaf{unanswered: 100}, context.DeadlineExceeded, 5, dialTimeout},
		"refuses":             {deaf{err: refused}, refused, 1, 0},
		"refuses at the last": {deaf{unanswered: 1, err: refused}, refused, 2, firstAttempt},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := (&relayed{conn: &c.agent}).Dial(t.Context(), 80)
				if took := time.Since(start); !errors.Is(err, c.err) || c.agent.attempts != c.attempts || took != c.took {
					t.Errorf("%v after %d attempts and %s, want %v after %d and %s", err, c.agent.attempts, took, c.err, c.attempts, c.took)
				}
			})
		})
	}
}

// TestIncompleteRelays checks that a DERP map that lacks what Coder's library expects is an error. The
// library would end the process, also in its own goroutines.
func TestIncompleteRelays(t *testing.T) {
	for _, regions := range []string{
		`null`, `{}`, `{"Nodes":[null]}`, `{"EmbeddedRelay":true,"Nodes":[null]}`,
		`{"Nodes":[{"Name":"a","HostName":"127.0.0.1"},null]}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"derp_map":{"Regions":{"1":%s}}}`, regions)
		}))
		client, err := coderd.New(coderd.Config{URL: server.URL, Token: "aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb"})
		if err != nil {
			t.Fatal(err)
		}
		pool := NewPool(nil)
		_, err = pool.Open(t.Context(), client, uuid.New())
		pool.Close()
		server.Close()
		if err == nil || !strings.Contains(err.Error(), "the DERP map has no relay in region 1") {
			t.Errorf("region %s: %v", regions, err)
		}
	}
}

// sentRelays and sentPeers are streams with one message of Coder.
type sentRelays struct {
	proto.DRPCTailnet_StreamDERPMapsClient
	message *proto.DERPMap
}

func (s *sentRelays) Recv() (*proto.DERPMap, error) { return s.message, nil }

type sentPeers struct {
	tailnet.CoordinatorClient
	update *proto.CoordinateResponse_PeerUpdate
}

func (s *sentPeers) Recv() (*proto.CoordinateResponse, error) {
	return &proto.CoordinateResponse{PeerUpdates: []*proto.CoordinateResponse_PeerUpdate{s.update}}, nil
}

// TestIncompleteUpdates does the same for the messages of an open connection.
func TestIncompleteUpdates(t *testing.T) {
	relay := []*proto.DERPMap_Region_Node{{Name: "a"}}
	for want, regions := range map[string]map[int64]*proto.DERPMap_Region{
		"": {1: {Nodes: relay}}, "no relay in region 2": {1: {Nodes: relay}, 2: {}},
	} {
		_, err := checkedRelays{&tailnet.DERPFromDRPCWrapper{Client: &sentRelays{message: &proto.DERPMap{Regions: regions}}}, &relays{}}.Recv()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("relays %v: %v, want %q", regions, err, want)
		}
	}
	for want, update := range map[string]*proto.CoordinateResponse_PeerUpdate{
		"":        {Kind: proto.CoordinateResponse_PeerUpdate_NODE, Node: &proto.Node{}},
		"no node": {Kind: proto.CoordinateResponse_PeerUpdate_NODE},
	} {
		_, err := checkedPeers{&sentPeers{update: update}}.Recv()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("update %v: %v, want %q", update, err, want)
		}
	}
}

// TestUnreachableAgent checks the error for an agent that Coder knows and that does not answer.
func TestUnreachableAgent(t *testing.T) {
	var asked atomic.Bool
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/connection") {
			asked.Store(true)
			<-silent
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"derp_map":{"Regions":{}}}`))
	}))
	defer server.Close()
	defer close(silent)
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: "aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb"})
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine, the request for the connection may take longer than the first timeout.
	for timeout := time.Second; !asked.Load() && timeout < polltest.Timeout(); timeout *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err = dial(ctx, client, uuid.New())
		cancel()
	}
	const want = "the agent could not be reached through Coder within 15s (no connection for agents from Coder"
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
