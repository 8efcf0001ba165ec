package replication

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// knock asks a replica for something with a certificate.
func knock(t *testing.T, address string, certificate *tls.Certificate) (*http.Response, error) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return client.Post("https://"+address+pathHeads, "application/json", strings.NewReader("{}"))
}

func stranger(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	certificate, fingerprint, err := makeCertificate("a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return certificate, fingerprint
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer := c.start("a", options{})
	writerOf(t, writer)
	address := writer.config.AdvertiseAddress
	certificate, _ := stranger(t)
	for name, shown := range map[string]*tls.Certificate{"no certificate": nil, "a certificate of nobody": &certificate} {
		t.Run(name, func(t *testing.T) {
			response, err := knock(t, address, shown)
			if err == nil {
				t.Fatalf("the replica answers a stranger with status %d", response.StatusCode)
			}
		})
	}
	t.Run("plain HTTP", func(t *testing.T) {
		response, err := http.Post("http://"+address+pathHeads, "application/json", strings.NewReader("{}"))
		if err != nil {
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusBadRequest || bytes.Contains(body, []byte(things)) {
			t.Errorf("plain HTTP is answered with status %d: %s", response.StatusCode, body)
		}
	})
}

func TestAnExpiredReplicaIsNotTrusted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, quick())
	writer := c.start("a", options{})
	writerOf(t, writer)
	certificate, fingerprint := stranger(t)
	lease := &coordinationv1.Lease{}
	other := &peers{name: peerLeasePrefix + "gone", address: "127.0.0.1:1", fingerprint: fingerprint, timing: c.timing}
	other.fill(lease)
	lease.Name = other.name
	old := lease.Spec.RenewTime.Add(-time.Hour)
	lease.Spec.RenewTime.Time = old
	c.api.mu.Lock()
	c.api.put(lease)
	c.api.mu.Unlock()
	if response, err := knock(t, writer.config.AdvertiseAddress, &certificate); err == nil {
		t.Errorf("a replica whose Lease ran out gets status %d", response.StatusCode)
	}
	polltest.Eventually(t, "the writer removes its Lease", func() bool { return c.api.get(other.name) == nil })
}

func TestAWriterWithAnotherCertificateIsNotFollowed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer := c.start("a", options{})
	writerOf(t, writer)
	d := &dialer{certificate: writer.dialer.certificate, timing: c.timing, dial: writer.network.dial}
	defer d.close()
	_, forged := stranger(t)
	err := d.call(t.Context(), target{writer.config.AdvertiseAddress, forged}, pathHeads, struct{}{}, nil)
	if err == nil || !strings.Contains(err.Error(), "its Lease says") {
		t.Errorf("a server with another certificate than its Lease says gives %v", err)
	}
}

func TestAReplicaThatCameAMomentAgoIsTrusted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer := c.start("a", options{})
	writerOf(t, writer)
	begin := time.Now()
	late := c.start("b", options{})
	polltest.Eventually(t, "the late one follows", func() bool { return late.Ready() == nil })
	t.Logf("a new replica was ready after %s", time.Since(begin))
}

func TestGoodByeRemovesTheLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	n := c.start("a", options{})
	writerOf(t, n)
	if c.api.get(peerLeasePrefix+"a") == nil {
		t.Fatal("a replica has no Lease")
	}
	n.halt()
	if lease := c.api.get(peerLeasePrefix + "a"); lease != nil {
		t.Errorf("after a graceful stop the Lease is still there: %v", lease)
	}
	if holder := c.api.get(electionLease).Spec.HolderIdentity; *holder != "" {
		t.Errorf("after a graceful stop the writer is still %q", *holder)
	}
}

// TestGoodByeIsTheLastWord: a replica that is about to renew its Lease when it stops does
// not make it again after it was removed.
func TestGoodByeIsTheLastWord(t *testing.T) {
	t.Parallel()
	timing := patient()
	timing.publish = time.Microsecond
	for range 20 {
		c := newCluster(t, timing)
		n := c.start("a", options{})
		writerOf(t, n)
		n.halt()
		if lease := c.api.get(peerLeasePrefix + "a"); lease != nil {
			t.Fatalf("after a graceful stop the Lease is still there: %v", lease)
		}
	}
}

// deaf is a follower that takes what it is sent and acknowledges nothing.
func deaf(t *testing.T, ctx context.Context, writer, as *node) *http.Response {
	t.Helper()
	hello, err := (&frame{Kind: frameHello, Name: "deaf", Logs: as.applier.standings()}).encode()
	if err != nil {
		t.Fatal(err)
	}
	body, greeting := io.Pipe()
	go greeting.Write(hello)
	context.AfterFunc(ctx, func() { greeting.Close() })
	to := target{writer.config.AdvertiseAddress, writer.peers.fingerprint}
	response, err := as.dialer.open(ctx, to, pathFollow, body)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestAFollowerThatDoesNotKeepUpIsDropped(t *testing.T) {
	t.Parallel()
	timing := patient()
	// It is long enough for the others to acknowledge on a busy machine.
	timing.acknowledge = 5 * time.Second
	c := newCluster(t, timing)
	writer, one, _ := c.trio(options{})
	writer.mustWrite(t, "x", "0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response := deaf(t, ctx, writer, one)
	defer response.Body.Close()
	polltest.Eventually(t, "the writer counts on it", func() bool { return writer.followers(things) == 3 })
	begin := time.Now()
	writer.mustWrite(t, "x", "1")
	if took := time.Since(begin); took < timing.acknowledge || took > patience {
		t.Errorf("a write with a deaf follower took %s", took)
	}
	if got := writer.followers(things); got != 2 {
		t.Errorf("the writer has %d followers, want the 2 that listen", got)
	}
	begin = time.Now()
	writer.mustWrite(t, "x", "2")
	if took := time.Since(begin); took > timing.acknowledge {
		t.Errorf("the next write took %s", took)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil && ctx.Err() == nil {
		t.Logf("the dropped stream ended with %v", err)
	}
}
