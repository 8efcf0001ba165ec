package workspacepods

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// replacedWithin is how long a workspace may be without a pod before the pod counts as gone. A
	// Deployment creates the next pod sooner.
	replacedWithin = 2 * time.Second
	// clockDifference is how far the clocks of Coder and of this replica may differ. Beyond that, the end of a build counts
	// from when it was first seen.
	clockDifference = time.Minute
	// settledAfter is how long after a change of its pods a workspace is read again while the
	// states of its agents and its pods disagree.
	settledAfter = time.Minute
	// lastingAfter is how long a problem must last so that a user must act. A shorter one may be
	// an image that another build is pushing, or a StatefulSet that replaces its pod.
	lastingAfter = time.Minute
	// maxNamespaces limits the namespaces that are watched. Each needs a watch of kube-apiserver.
	maxNamespaces = 1000
)

// Config configures a Watcher.
type Config struct {
	Client kubernetes.Interface
	Clock  clock.WithTicker
	// Changed is called after a change of the pods of a workspace. It must not block.
	Changed func(controlPlane types.NamespacedName, workspace uuid.UUID)
	// Read is called when the pods in a namespace of a control plane were read for the first time,
	// or if there is no permission to read them. It must not block. It may be nil.
	Read func(controlPlane types.NamespacedName)
}

// Problem is the reason and the message of a condition about the pods of a workspace.
type Problem struct {
	Reason, Message string
	// Lasting is true if the workspace has had the problem for a minute.
	Lasting bool
}

// Watcher watches the pods. It is safe for concurrent use.
type Watcher struct {
	config Config
	// poked signals that the set of namespaces changed.
	poked chan struct{}

	mu sync.Mutex
	// planes holds the namespaces of each control plane.
	planes map[types.NamespacedName][]string
	pods   map[string]*namespace
}

// New returns a Watcher. It is empty until Run is called.
func New(config Config) *Watcher {
	return &Watcher{
		config: config, poked: make(chan struct{}, 1),
		planes: map[types.NamespacedName][]string{}, pods: map[string]*namespace{},
	}
}

// Serve sets the control planes whose pods are watched.
func (w *Watcher) Serve(members []connections.Member) {
	planes := watchedNamespaces(members)
	w.mu.Lock()
	defer w.mu.Unlock()
	if maps.EqualFunc(planes, w.planes, slices.Equal) {
		return
	}
	w.planes = planes
	select {
	case w.poked <- struct{}{}:
	default:
	}
}

// watchedNamespaces returns the namespaces of each control plane, at most maxNamespaces in total. The
// control planes' own namespaces come first, so the number of the others cannot crowd them out.
func watchedNamespaces(members []connections.Member) map[types.NamespacedName][]string {
	planes, all := map[types.NamespacedName][]string{}, map[string]bool{}
	add := func(plane types.NamespacedName, name string) {
		if all[name] || len(all) < maxNamespaces {
			all[name] = true
			planes[plane] = append(planes[plane], name)
		}
	}
	for _, m := range members {
		planes[m.ControlPlane] = nil
		add(m.ControlPlane, m.ControlPlane.Namespace)
	}
	for _, m := range members {
		for _, name := range m.PodNamespaces {
			if name != m.ControlPlane.Namespace {
				add(m.ControlPlane, name)
			}
		}
	}
	return planes
}

// Problem returns the problem of the pods of a workspace, or nil. A deleted pod is a problem only
// if it was deleted after the workspace was built. builtAt is zero while the workspace is not
// running. shown is the problem that the workspace has shown since its last build, or nil. It is
// kept until the pods have been read.
func (w *Watcher) Problem(controlPlane types.NamespacedName, workspace uuid.UUID, builtAt time.Time, shown *Problem) *Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	groups := w.groups(controlPlane, workspace)
	// The replica that was the leader before may have seen that the pod was deleted.
	if !w.read(controlPlane) || len(groups) == 0 && shown != nil && shown.Reason == aggregationv1alpha1.ReasonPodGone {
		return shown
	}
	last, alive := (*gone)(nil), false
	for _, g := range groups {
		if r := g.broken(); r != nil {
			return w.since(r.since, r.problem, shown)
		}
		alive = alive || len(g.records) > 0
		built := g.builtAt(builtAt, w.config.Clock.Now())
		if g.gone != nil && g.gone.at.After(built) && (last == nil || g.gone.at.After(last.at)) {
			last = g.gone
		}
	}
	if alive || last == nil || builtAt.IsZero() || w.config.Clock.Since(last.at) < replacedWithin {
		return nil
	}
	return w.since(last.at, last.problem, shown)
}

// since returns a problem with Lasting. The replica that was the leader before may have seen it
// begin, and has shown that it lasts.
func (w *Watcher) since(at time.Time, p, shown *Problem) *Problem {
	lasts := w.config.Clock.Since(at) >= lastingAfter || shown != nil && shown.Reason == p.Reason && shown.Lasting
	return &Problem{p.Reason, p.Message, lasts}
}

// Unsettled reports whether a running workspace should be read again soon: its pods changed
// recently, and the state of its agents in Coder does not match them yet.
func (w *Watcher) Unsettled(controlPlane types.NamespacedName, workspace uuid.UUID, connected bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups(controlPlane, workspace) {
		age := w.config.Clock.Since(g.changed)
		healthy := len(g.records) > 0 && g.broken() == nil
		if age < replacedWithin && len(g.records) == 0 || age < settledAfter && connected != healthy {
			return true
		}
	}
	return false
}

// read reports whether the pods in all namespaces of a control plane were read.
func (w *Watcher) read(controlPlane types.NamespacedName) bool {
	namespaces, ok := w.planes[controlPlane]
	return ok && !slices.ContainsFunc(namespaces, func(name string) bool { return w.pods[name] == nil || !w.pods[name].read })
}

// groups returns the pods of a workspace in each namespace of its control plane.
func (w *Watcher) groups(controlPlane types.NamespacedName, workspace uuid.UUID) []*group {
	var found []*group
	for _, name := range w.planes[controlPlane] {
		if n := w.pods[name]; n != nil && n.groups[workspace] != nil {
			found = append(found, n.groups[workspace])
		}
	}
	return found
}

// report calls Changed for each control plane to which the namespace belongs.
func (w *Watcher) report(name string, workspaces []uuid.UUID) {
	if len(workspaces) == 0 {
		return
	}
	for _, plane := range w.planesOf(name) {
		for _, workspace := range workspaces {
			w.config.Changed(plane, workspace)
		}
	}
}

// setRead records that the pods of a namespace were read, or that there is no permission to read
// them.
func (w *Watcher) setRead(n *namespace) {
	w.mu.Lock()
	first := !n.read
	n.read = true
	w.mu.Unlock()
	if !first || w.config.Read == nil {
		return
	}
	for _, plane := range w.planesOf(n.name) {
		w.config.Read(plane)
	}
}

// planesOf returns the control planes to which a namespace belongs.
func (w *Watcher) planesOf(name string) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	var planes []types.NamespacedName
	for plane, namespaces := range w.planes {
		if slices.Contains(namespaces, name) {
			planes = append(planes, plane)
		}
	}
	return planes
}

// wanted returns the namespaces of all control planes.
func (w *Watcher) wanted() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]bool{}
	for _, namespaces := range w.planes {
		for _, name := range namespaces {
			all[name] = true
		}
	}
	return all
}

// Run watches until the context is canceled, and then drops all data.
func (w *Watcher) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	stops := map[string]context.CancelFunc{}
	defer func() {
		cancel()
		running.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		clear(w.planes)
		clear(w.pods)
	}()
	ticker := w.config.Clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			w.lookAtEvents(ctx)
		case <-w.poked:
			wanted := w.wanted()
			for name, stop := range stops {
				if !wanted[name] {
					stop()
					delete(stops, name)
				}
			}
			for name := range wanted {
				if stops[name] == nil {
					var own context.Context
					own, stops[name] = context.WithCancel(ctx)
					running.Go(func() { w.watch(own, name) })
				}
			}
		}
	}
}
