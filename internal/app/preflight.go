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
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/coder-k8s/coder-k8s/internal/installation"
)

const (
	// preflightInterval is how often the installation is looked at while something
	// is wrong with it.
	preflightInterval = 30 * time.Second
	// preflightTimeout bounds one look.
	preflightTimeout = 10 * time.Second
	// reasonInstallation is that of the Events about it.
	reasonInstallation = "InstallationIncomplete"
)

// preflight tells what is wrong with the installation that the process belongs to:
// once for each problem, and once when it is gone. It looks at the start and, as
// long as there are problems, again and again.
type preflight struct {
	check func(context.Context) ([]installation.Problem, error)
	clock clock.Clock
	// vital says that the process cannot work where a problem blocks it.
	vital bool
	// events says that the process may write Events: the controllers may.
	events bool
	// tell makes an Event of a problem. It may be nil.
	tell func(installation.Problem)

	problems []installation.Problem
	again    bool
}

// newPreflight makes the preflight of a process with these components.
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

// attach gives the preflight to the manager. Where the process may write Events, it
// makes them at its own pod.
func (p *preflight) attach(env *environment) error {
	if name := os.Getenv(podNameEnv); name != "" && p.events {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}}
		p.tell = eventAt(env.manager.GetEventRecorder("coder-k8s"), pod)
	}
	return env.manager.Add(p)
}

// eventAt makes Events at the pod of this process.
func eventAt(recorder events.EventRecorder, pod *corev1.Pod) func(installation.Problem) {
	return func(problem installation.Problem) {
		recorder.Eventf(pod, nil, corev1.EventTypeWarning, reasonInstallation, "CheckInstallation", "%s", problem.String())
	}
}

// expectation is what the installation must have for these components.
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

// look is one look, which is bounded.
func (p *preflight) look(ctx context.Context) ([]installation.Problem, error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	return p.check(ctx)
}

// begin looks before anything runs. The error says that nothing can work, and why.
// That a look was not possible is no reason to end: kube-apiserver may just be away.
func (p *preflight) begin(ctx context.Context) error {
	problems, err := p.look(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The installation could not be looked at")
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

// NeedLeaderElection lets every replica tell about itself.
func (*preflight) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It ends when nothing is wrong.
func (p *preflight) Start(ctx context.Context) error {
	logger := ctrl.LoggerFrom(ctx)
	// What may be so while a process starts is told when it lasts.
	told := p.report(logger, nil, slices.DeleteFunc(slices.Clone(p.problems), func(problem installation.Problem) bool { return problem.MayPass }))
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
			logger.Error(err, "The installation could not be looked at")
		}
		if err == nil {
			told = p.report(logger, told, problems)
		}
		p.problems, p.again = problems, err != nil
	}
	return nil
}

// report tells what is new and what is gone, and gives what was told.
func (p *preflight) report(logger logr.Logger, told map[string]string, problems []installation.Problem) map[string]string {
	now := map[string]string{}
	for _, problem := range problems {
		now[problem.Object] = strings.Join([]string{now[problem.Object], problem.What}, "\n")
	}
	for _, problem := range problems {
		if told[problem.Object] == now[problem.Object] {
			continue
		}
		logger.Error(errors.New(problem.String()), "Something is wrong with the installation")
		if p.tell != nil {
			p.tell(problem)
		}
	}
	for object := range told {
		if _, still := now[object]; !still {
			logger.Info("Something is right with the installation again", "object", object)
		}
	}
	return now
}
