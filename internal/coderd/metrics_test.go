package coderd_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

func TestRequestsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := coderd.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	metrics.Observe(coderd.Call{Method: "GET", Endpoint: "/api/v2/buildinfo", Status: 200, Duration: time.Second})
	for status := range 1000 {
		if http.StatusText(status) == "" {
			metrics.Observe(coderd.Call{Method: "GET", Endpoint: "/api/v2/users", Status: status})
		}
	}
	want := `
# HELP coder_k8s_coder_requests_total Requests to Coder, by path pattern, such as /api/v2/users/{}, method and status code. The code is 0 if there was no response, and other if it is not a code of HTTP.
# TYPE coder_k8s_coder_requests_total counter
coder_k8s_coder_requests_total{code="200",endpoint="/api/v2/buildinfo",method="GET"} 1
coder_k8s_coder_requests_total{code="0",endpoint="/api/v2/users",method="GET"} 1
coder_k8s_coder_requests_total{code="other",endpoint="/api/v2/users",method="GET"} 937
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "coder_k8s_coder_requests_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "coder_k8s_coder_request_duration_seconds"); n != 3 || err != nil {
		t.Errorf("%d series of the duration, error %v; want 3", n, err)
	}
}
