package apiserver

import (
	"context"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// BenchmarkListWorkspaces lists 1,000 workspaces: from Coder itself, and through the aggregated
// API, which makes no request to Coder for a list.
func BenchmarkListWorkspaces(b *testing.B) {
	f := benchFixture(b)
	const many = 1000
	f.addMany(b, many)
	connection := f.provider.connections[0]
	b.Run("from Coder", func(b *testing.B) {
		for b.Loop() {
			list, err := connection.Client.Workspaces(b.Context())
			if err != nil || len(list) != many {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("through the aggregated API", func(b *testing.B) {
		get := rawGetter(b, f.config)
		for b.Loop() {
			if content, err := get(b.Context(), f.path("coderworkspaces")); err != nil || len(content) < many {
				b.Fatal(len(content), err)
			}
		}
	})
}

// BenchmarkGetWorkspace does the same for a single workspace.
func BenchmarkGetWorkspace(b *testing.B) {
	f := benchFixture(b)
	f.addWorkspace(b, "one")
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
			if _, err := get(b.Context(), f.path("coderworkspaces/coder.ada.one")); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchFixture returns a fixture with its own server, which reads Coder at the usual rate.
func benchFixture(b *testing.B) *fixture {
	b.Helper()
	s := newSite(b, logged)
	s.start(b)
	return join(b, s)
}

// rawGetter returns a function that reads without decoding, so that the client's own work is not
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
