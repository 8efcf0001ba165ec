package replication

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	pathPrefix  = "/replication/v1/"
	pathFollow  = pathPrefix + "follow"
	pathCommit  = pathPrefix + "commit"
	pathHeads   = pathPrefix + "heads"
	pathPrepare = pathPrefix + "prepare"
	pathPull    = pathPrefix + "pull"
	pathHint    = pathPrefix + "hint"

	// dialerLimit is how many replicas, dead ones too, are remembered.
	dialerLimit = 32
	// maxRefusal bounds what is read of a refusal.
	maxRefusal = 4 << 10
)

// dialer reaches other replicas, each by the one certificate that it may show.
type dialer struct {
	certificate tls.Certificate
	timing      timing
	dial        func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	clients map[target]*http.Client
}

// target is a replica to reach.
type target struct{ address, fingerprint string }

func (p peer) target() target   { return target{p.address, p.fingerprint} }
func (w writer) target() target { return target{w.address, w.fingerprint} }

// client gives the client for a replica. Its connection is shared by all requests.
func (d *dialer) client(to target) *http.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	if client, ok := d.clients[to]; ok {
		return client
	}
	if len(d.clients) >= dialerLimit {
		d.closeLocked()
	}
	client := &http.Client{Transport: d.transport(to)}
	if d.clients == nil {
		d.clients = map[target]*http.Client{}
	}
	d.clients[to] = client
	return client
}

func (d *dialer) transport(to target) *http.Transport {
	return &http.Transport{
		DialContext: d.dial,
		TLSClientConfig: pinned(d.certificate, func(fingerprint string) error {
			if fingerprint != to.fingerprint {
				return fmt.Errorf("the replica at %s has the certificate %.12s…, its Lease says %.12s…",
					to.address, fingerprint, to.fingerprint)
			}
			return nil
		}),
		TLSHandshakeTimeout: 2 * d.timing.dial,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     time.Minute,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: d.timing.silence, PingTimeout: d.timing.silence},
	}
}

func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeLocked()
}

func (d *dialer) closeLocked() {
	for _, client := range d.clients {
		client.CloseIdleConnections()
	}
	d.clients = nil
}

// refusal is an answer other than 200.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return fmt.Sprintf("HTTP status %d: %s", r.code, r.message) }

// call sends a request and reads the answer into out, unless that is nil.
func (d *dialer) call(ctx context.Context, to target, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding a request to %s: %w", path, err)
	}
	response, err := d.open(ctx, to, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxRefusal))
		return err
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxFrame)).Decode(out); err != nil {
		return fmt.Errorf("reading the answer of %s%s: %w", to.address, path, err)
	}
	return nil
}

// open sends a request whose answer is a stream.
func (d *dialer) open(ctx context.Context, to target, path string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+to.address+path, body)
	if err != nil {
		return nil, fmt.Errorf("making a request to %s%s: %w", to.address, path, err)
	}
	announce(ctx, request.Header)
	response, err := d.client(to).Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		return nil, &refusal{code: response.StatusCode, message: strings.TrimSpace(string(text))}
	}
	return response, nil
}
