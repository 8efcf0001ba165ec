package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// timeout limits reading one kind, so that an API that does not respond does not block the others.
const timeout = 15 * time.Second

// gathering is the state of collecting one report.
type gathering struct {
	cluster   *session.Cluster
	namespace string

	mu       sync.Mutex
	report   *Report
	absent   []Problem
	failures []error
}

// gather reads all kinds concurrently. It returns an error if nothing could be read.
func (r *run) gather(ctx context.Context, c *session.Cluster) (*Report, error) {
	if err := c.Reach(ctx); err != nil {
		return nil, err
	}
	g := &gathering{cluster: c, namespace: c.Namespace, report: &Report{
		ControlPlanes: []Workload{}, Provisioners: []Workload{}, WorkspaceProxies: []Workload{}, Problems: []Problem{},
	}}
	if r.everywhere {
		g.namespace = ""
	}
	g.report.Namespace = g.namespace
	var broken []installation.Problem
	looks := []func(context.Context) error{g.controlPlanes, g.provisioners, g.proxies, g.templates, g.workspaces}
	if r.installation {
		looks = append(looks, func(ctx context.Context) error {
			var err error
			broken, err = r.Check(ctx, c.Config, r.expectation())
			if err != nil {
				err = fmt.Errorf("the installation: %w", err)
			}
			return err
		})
	}
	g.all(ctx, looks)
	if len(g.failures) == len(looks) {
		return nil, errors.Join(g.failures...)
	}
	g.finish(broken)
	return g.report, nil
}

func (r *run) expectation() installation.Expectation {
	return installation.Expectation{Namespace: r.operatorNamespace, Controllers: true, AggregatedAPI: true}
}

func (g *gathering) all(ctx context.Context, looks []func(context.Context) error) {
	var looking sync.WaitGroup
	for _, look := range looks {
		looking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			if err := look(ctx); err != nil {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.failures = append(g.failures, err)
			}
		})
	}
	looking.Wait()
}

// finish sorts the report, so that it does not depend on the order of the responses. A kind that is
// not served is reported only if the check of the installation found no problem, because that
// problem is its cause.
func (g *gathering) finish(broken []installation.Problem) {
	byObject := func(a, b Problem) int { return strings.Compare(a.Object, b.Object) }
	slices.SortStableFunc(g.report.Problems, byObject)
	all := make([]Problem, 0, len(broken)+len(g.absent)+len(g.report.Problems))
	for _, p := range broken {
		all = append(all, Problem{Problem: p})
	}
	if len(broken) == 0 {
		slices.SortFunc(g.absent, byObject)
		all = append(all, g.absent...)
	}
	g.report.Problems = append(all, g.report.Problems...)
	for _, err := range g.failures {
		g.report.NotSeen = append(g.report.NotSeen, err.Error())
	}
	slices.Sort(g.report.NotSeen)
}

// list reads all objects of a kind. A kind that the API does not serve is a problem and not an
// error.
func (g *gathering) list(ctx context.Context, list client.ObjectList, resource string) (seen bool, err error) {
	err = g.cluster.List(ctx, list, client.InNamespace(g.namespace))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		what := "is not served by this cluster"
		if apierrors.IsServiceUnavailable(err) {
			what = "cannot be read now: " + err.Error()
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.absent = append(g.absent, Problem{Problem: installation.Problem{
			Object: "resource " + resource, What: what, Do: "kubectl describe apiservice v1alpha1.aggregation.coder.com, and kubectl -n coder-system get pods",
		}})
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", resource, err)
	}
	return true, nil
}

// code returns the exit code for the report.
func (r *Report) code() int {
	switch {
	case len(r.Problems) > 0:
		return ExitWrong
	case len(r.NotSeen) > 0:
		return cli.ExitPartial
	}
	return cli.ExitOK
}
