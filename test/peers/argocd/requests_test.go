//go:build e2e

package argocd

import (
	"net/http"
	"path"
	"sync"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// requests counts lists and watches by resource. Further pages of a list are not
// counted.
type requests struct {
	mu             sync.Mutex
	lists, watches map[string]int
}

func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		query := req.URL.Query()
		r.mu.Lock()
		if r.lists == nil {
			r.lists, r.watches = map[string]int{}, map[string]int{}
		}
		switch resource := path.Base(req.URL.Path); {
		case req.Method != http.MethodGet:
		case query.Get("watch") != "":
			r.watches[resource]++
		case query.Get("continue") == "":
			r.lists[resource]++
		}
		r.mu.Unlock()
		return next.RoundTrip(req)
	})
}

func (r *requests) of(resource string) (lists, watches int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists[resource], r.watches[resource]
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// healthByReady is what people configure for kinds that Argo CD does not know: the
// condition Ready of the present generation.
type healthByReady struct{}

// GetResourceHealth implements health.HealthOverride.
func (healthByReady) GetResourceHealth(obj *unstructured.Unstructured) (*health.HealthStatus, error) {
	if obj.GroupVersionKind().Group != "aggregation.coder.com" {
		return nil, nil
	}
	observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	result := &health.HealthStatus{Status: health.HealthStatusProgressing, Message: "waits for its status"}
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || observed != obj.GetGeneration() {
			continue
		}
		message, _ := c["message"].(string)
		switch {
		case c["type"] == "Stalled" && c["status"] == "True":
			return &health.HealthStatus{Status: health.HealthStatusDegraded, Message: message}, nil
		case c["type"] == "Ready" && c["status"] == "True":
			result.Status, result.Message = health.HealthStatusHealthy, message
		case c["type"] == "Ready":
			result.Message = message
		}
	}
	return result, nil
}
