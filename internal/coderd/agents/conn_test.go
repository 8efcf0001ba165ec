package agents

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// TestUnreachableAgent checks the error for an agent that Coder knows and that does not answer.
func TestUnreachableAgent(t *testing.T) {
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/connection") {
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = dial(ctx, client, uuid.New())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the agent could not be reached through Coder within 15s") {
		t.Errorf("got %v", err)
	}
}
