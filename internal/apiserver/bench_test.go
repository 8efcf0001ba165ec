package apiserver

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
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
			list, err := connection.Client.WorkspacePage(b.Context(), 0, coderd.MaxWorkspacePage)
			if err != nil || len(list.Workspaces) != many {
				b.Fatal(len(list.Workspaces), err)
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

// BenchmarkListVersions lists 4,000 versions of 200 templates. MB-heap is the memory of the operator for them: of the records, of the caches,
// and of what was read from Coder.
func BenchmarkListVersions(b *testing.B) {
	f := benchFixture(b)
	const templates, each = 200, 20
	ids := []uuid.UUID{f.template}
	for i := range templates - 1 {
		ids = append(ids, f.coder.AddTemplate("coder", fmt.Sprintf("t%d", i), map[string]string{mainTF: "# one"}))
	}
	served := func(n int) {
		polltest.Eventually(b, fmt.Sprintf("%d versions are served", n), func() error {
			list, err := f.versions().List(b.Context(), metav1.ListOptions{})
			if err == nil && len(list.Items) != n {
				err = fmt.Errorf("%d versions", len(list.Items))
			}
			return err
		})
	}
	served(templates)
	for i := range templates * (each - 1) {
		f.coder.AddTemplateVersion(ids[i%templates], fmt.Sprintf("change %d: another image, and more memory for its workspaces", i), nil)
	}
	before := live()
	for _, id := range ids {
		f.server.storage.templates.Built(f.controlPlane(), id)
		f.server.storage.hints.Object("CoderTemplate", f.controlPlane(), id)
	}
	served(templates * each)
	heap := live() - before
	get := rawGetter(b, f.config)
	for b.Loop() {
		if content, err := get(b.Context(), f.path("codertemplateversions")); err != nil || len(content) < templates*each {
			b.Fatal(len(content), err)
		}
	}
	b.ReportMetric(float64(heap)/1e6, "MB-heap")
}

// live returns the size of the heap after a garbage collection.
func live() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // It is far smaller.
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
	s.timing = mirror.DefaultTiming()
	s.timing.Rate = fast().Rate
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
