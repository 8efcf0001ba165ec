package apiserver

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// BenchmarkListWorkspaces lists 1,000 workspaces: from Coder itself, and through
// the aggregated API over the same Coder. The second costs the first and what
// the Kubernetes API adds; their ratio is what counts.
func BenchmarkListWorkspaces(b *testing.B) {
	f := startFixture(b)
	for i := range 1000 {
		f.coder.AddWorkspace("ada", f.template, fmt.Sprintf("ws-%04d", i))
	}
	connection := f.provider.connections[0]
	b.Run("from Coder", func(b *testing.B) {
		for b.Loop() {
			list, err := connection.Client.Workspaces(b.Context())
			if err != nil || len(list) != 1000 {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("through the aggregated API", func(b *testing.B) {
		get := rawGetter(b, f.config)
		for b.Loop() {
			if content, err := get(b.Context(), "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces"); err != nil || len(content) < 1000 {
				b.Fatal(len(content), err)
			}
		}
	})
}

// BenchmarkGetWorkspace reads one, likewise.
func BenchmarkGetWorkspace(b *testing.B) {
	f := startFixture(b)
	f.coder.AddWorkspace("ada", f.template, "one")
	connection := f.provider.connections[0]
	b.Run("from Coder", func(b *testing.B) {
		for b.Loop() {
			if _, err := connection.Client.WorkspaceByName(b.Context(), "ada", "one"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("through the aggregated API", func(b *testing.B) {
		get := rawGetter(b, f.config)
		for b.Loop() {
			if _, err := get(b.Context(), "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/coder.ada.one"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// rawGetter reads without decoding, so that the client's own work is not
// measured.
func rawGetter(b *testing.B, config *rest.Config) func(context.Context, string) ([]byte, error) {
	b.Helper()
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1
	client, err := discovery.NewDiscoveryClientForConfig(unlimited)
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, path string) ([]byte, error) {
		return client.RESTClient().Get().AbsPath(path).MaxRetries(0).DoRaw(ctx)
	}
}
