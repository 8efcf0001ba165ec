package impersonation

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestMatchesAreCountedByRule(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	prod, test := types.NamespacedName{Namespace: "coder", Name: "prod"}, types.NamespacedName{Namespace: "coder", Name: "test"}
	board := &syncstatus.Board{}
	a := New(Config{Board: board, Metrics: metrics})
	rules := []coderv1alpha1.IdentityRule{
		{Match: coderv1alpha1.IdentityMatch{Group: "banned"}, Nobody: true},
		{Match: coderv1alpha1.IdentityMatch{UserName: "bot-*"}, Operator: true},
	}
	for _, c := range []struct {
		controlPlane types.NamespacedName
		caller       user.Info
	}{
		{prod, &user.DefaultInfo{Name: "bot-1"}},
		{prod, &user.DefaultInfo{Name: "bot-2"}},
		{prod, &user.DefaultInfo{Name: "ada", Groups: []string{"banned"}}},
		{prod, &user.DefaultInfo{Name: "bob"}},
		{test, &user.DefaultInfo{Name: "bob"}},
	} {
		ctx := request.WithUser(t.Context(), c.caller)
		// The refusal of a banned caller is counted too.
		_, _ = a.Client(ctx, connections.Connection{ControlPlane: c.controlPlane, Rules: rules}, Subject{Name: "w"})
	}
	for _, want := range []struct {
		name, rule string
		count      float64
	}{{"prod", "0", 1}, {"prod", "1", 2}, {"prod", "none", 1}, {"test", "none", 1}} {
		if got := testutil.ToFloat64(metrics.matches.WithLabelValues("coder", want.name, want.rule)); got != want.count {
			t.Errorf("%s, rule %s: %v, want %v", want.name, want.rule, got, want.count)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	board.Replace([]syncstatus.Status{{ControlPlane: prod}})
	polltest.Eventually(t, "the deleted control plane has no metrics", func() error {
		if n := testutil.CollectAndCount(metrics.matches); n != 3 {
			return errors.New("it has some")
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
