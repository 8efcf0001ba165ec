package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestReadyFollowsListenerAPIServerAndTokenReview(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	h := newHarness(t, func(c *Config) { c.Clock = clk })
	ready := func() error { return h.server.Ready(httptest.NewRequest(http.MethodGet, "/readyz", nil)) }
	if err := ready(); err == nil {
		t.Error("ready before it listens")
	}
	h.start(t)
	if err := ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if body, status := serve(h, "/readyz", nil); status != http.StatusOK {
		t.Errorf("/readyz gives %d %s", status, body)
	}

	steps := []struct {
		what  string
		down  bool
		token http.HandlerFunc
		says  string
	}{
		{"tokens cannot be reviewed", false, func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, http.StatusForbidden, "Forbidden") }, "tokens cannot be checked"},
		{"tokens can be reviewed again", false, h.kube.reviewToken, ""},
		{"the API server is away", true, h.kube.reviewToken, "the API server does not respond"},
		{"it is back", false, h.kube.reviewToken, ""},
	}
	for _, step := range steps {
		h.kube.set(func(k *kubeAPI) { k.down = step.down })
		h.kube.handle("POST /apis/authentication.k8s.io/v1/tokenreviews", step.token)
		clk.Step(time.Minute)
		err := ready()
		if (err == nil) != (step.says == "") || (err != nil && !strings.Contains(err.Error(), step.says)) {
			t.Errorf("when %s, Ready says %v, want %q", step.what, err, step.says)
		}
		if err != nil {
			body, status := serve(h, "/readyz", nil)
			if status != http.StatusServiceUnavailable || strings.TrimSpace(body) != "not ready" {
				t.Errorf("/readyz gives %d %q, want 503 and no detail", status, body)
			}
		}
	}
}

func TestProbesDoNotAddToTheLoad(t *testing.T) {
	h := running(t, func(c *Config) { c.Clock = clocktesting.NewFakeClock(time.Now()) })
	for range 20 {
		if _, status := serve(h, "/readyz", nil); status != http.StatusOK {
			t.Fatalf("/readyz gives %d", status)
		}
	}
	if got := len(h.kube.requests("", "/version")); got != 1 {
		t.Errorf("20 probes asked the API server %d times", got)
	}
}
