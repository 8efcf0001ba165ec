package replication

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// noter is a system of record that notes under which id it is written to.
type noter struct{ ids chan string }

func (n noter) Write(ctx context.Context, _ string, _, wanted objectlog.Object) (objectlog.Object, error) {
	_, span := tracing.Start(ctx, "Write")
	defer span.End()
	n.ids <- requestid.From(ctx)
	_ = log.FromContext(ctx)
	return wanted, nil
}

// The writer brings a change to Coder under the id and in the trace of the request
// that came to another replica.
func TestAForwardedWriteKeepsItsRequest(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	c := newCluster(t, patient())
	ids := make(chan string, 1)
	_, follower, _ := c.trio(options{writer: noter{ids}, tracing: provider})
	ctx, span := provider.Begin(requestid.Into(t.Context(), "from-kubectl"), "POST")
	if _, err := follower.write(ctx, things, "x", "1"); err != nil {
		t.Fatal(err)
	}
	span.End()
	if id := <-ids; id != "from-kubectl" {
		t.Errorf("the writer knows the request as %q", id)
	}
	tree := collector.Trace(t, provider, span.SpanContext().TraceID().String(), "POST")
	if diff := cmp.Diff([]string{"POST", "Forward a write", "Replica " + pathCommit, "Decide a write", "Write"}, tree.Path("Write")); diff != "" {
		t.Error(diff)
	}
	if slices.ContainsFunc(collector.Spans(), func(s tracingtest.Span) bool { return s.Trace != span.SpanContext().TraceID().String() }) {
		t.Errorf("what replicas say to each other by themselves is traced: %v", collector.Spans())
	}
}
