package app

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/coder-k8s/coder-k8s/internal/installation"
)

const (
	// preflightInterval is the interval at which the installation is checked while there
	// are problems.
	preflightInterval = 30 * time.Second
	// preflightTimeout limits a check.
	preflightTimeout = 10 * time.Second
	// reasonInstallation is the reason of the Events about problems.
	reasonInstallation = "InstallationIncomplete"
)

// preflight checks the installation that the process belongs to. It reports each problem
// once, and once when the problem is solved. It checks at startup and, as long as there are
// problems, at every preflightInterval.
type preflight struct {
	check func(context.Context) ([]installation.Problem, error)
	clock clock.Clock
	// vital reports that the process cannot work if a problem blocks it.
	vital bool
	// events reports that the process has permission to create Events, which only the
	// controllers have.
	events bool
	// onProblem creates an Event for a problem. It may be nil.
	onProblem func(installation.Problem)

	problems []installation.Problem
	again    bool
}

func (env *environment) newPreflight(components []component) *preflight {
	want := env.options.expectation(env.namespace, components)
	return &preflight{
		clock: clock.RealClock{},
		check: func(ctx context.Context) ([]installation.Problem, error) {
			return installation.Check(ctx, env.config, want)
		},
		vital:  slices.ContainsFunc(components, func(c component) bool { return c.cached(env.options) }),
		events: want.Controllers,
	}
}

// attach adds the preflight to the manager. If the process may create Events, they are
// about its own pod.
func (p *preflight) attach(env *environment) error {
	if name := os.Getenv(podNameEnv); name != "" && p.events {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}}
		recorder := env.manager.GetEventRecorder("coder-k8s")
		p.onProblem = func(problem installation.Problem) {
			recorder.Eventf(pod, nil, corev1.EventTypeWarning, reasonInstallation, "CheckInstallation", "%s", problem.String())
		}
	}
	return env.manager.Add(p)
}

func (o *Options) expectation(namespace string, components []component) installation.Expectation {
	want := installation.Expectation{
		Namespace: namespace, WatchNamespaces: o.WatchNamespaces, OwnRights: true,
		LeaseNamespace: o.LeaderElection.Namespace, NoLeaderElection: !o.LeaderElection.Enabled,
	}
	for _, c := range components {
		switch c.name {
		case controllersName:
			want.Controllers = true
		case aggregatedAPIName:
			want.AggregatedAPI = true
		case mcpName:
			want.MCP = !o.MCP.Off()
		}
	}
	return want
}

func (p *preflight) look(ctx context.Context) ([]installation.Problem, error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	return p.check(ctx)
}

// begin checks the installation before the components start. It returns an error if a
// problem blocks the process. It only logs a failed check, because kube-apiserver may be
// unavailable temporarily.
func (p *preflight) begin(ctx context.Context) error {
	problems, err := p.look(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The installation could not be checked")
	}
	var blocking []error
	for _, problem := range problems {
		if problem.Blocks {
			blocking = append(blocking, errors.New(problem.String()))
		}
	}
	if p.vital && len(blocking) > 0 {
		return errors.Join(blocking...)
	}
	p.problems, p.again = problems, err != nil
	return nil
}

// NeedLeaderElection returns false, so that every replica reports its own problems.
func (*preflight) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It returns when there are no problems.
func (p *preflight) Start(ctx context.Context) error {
	logger := ctrl.LoggerFrom(ctx)
	// Problems that may be temporary during startup are reported only if the next check
	// finds them too.
	reported := p.report(logger, nil, slices.DeleteFunc(slices.Clone(p.problems), func(problem installation.Problem) bool { return problem.MayPass }))
	for p.again || len(p.problems) > 0 {
		timer := p.clock.NewTimer(preflightInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		problems, err := p.look(ctx)
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "The installation could not be checked")
		}
		if err == nil {
			reported = p.report(logger, reported, problems)
		}
		p.problems, p.again = problems, err != nil
	}
	return nil
}

// report logs new and solved problems, and returns the current problems by object.
func (p *preflight) report(logger logr.Logger, reported map[string]string, problems []installation.Problem) map[string]string {
	now := map[string]string{}
	for _, problem := range problems {
		now[problem.Object] = strings.Join([]string{now[problem.Object], problem.What}, "\n")
	}
	for _, problem := range problems {
		if reported[problem.Object] == now[problem.Object] {
			continue
		}
		logger.Error(errors.New(problem.String()), "The installation has a problem")
		if p.onProblem != nil {
			p.onProblem(problem)
		}
	}
	for object := range reported {
		if _, still := now[object]; !still {
			logger.Info("A problem of the installation is solved", "object", object)
		}
	}
	return now
}
