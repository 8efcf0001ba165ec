package workspacepods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// maxQuote limits the text from Kubernetes in a condition, in bytes.
const maxQuote = 300

// namespace holds the known pods of one namespace. It is guarded by Watcher.mu.
type namespace struct {
	name string
	// read is true once the pods were read, or if there is no permission to read them.
	read   bool
	pods   map[string]*record
	groups map[uuid.UUID]*group
}

// group holds the pods of one workspace in one namespace.
type group struct {
	records []*record
	// gone is set if the last pod was deleted or has ended.
	gone *gone
	// changed is the time of the last change.
	changed time.Time
	// build is the end of the workspace's build by Coder's clock, and seen is when that was first seen.
	build, seen time.Time
}

// builtAt returns the time of a build by the clock of this replica. Coder's clock decides only within clockDifference before the
// end of the build was first seen.
func (g *group) builtAt(build, now time.Time) time.Time {
	if !g.build.Equal(build) {
		g.build, g.seen = build, now
	}
	switch earliest := g.seen.Add(-clockDifference); {
	case build.After(g.seen):
		return g.seen
	case build.Before(earliest):
		return earliest
	}
	return build
}

type gone struct {
	at      time.Time
	problem *Problem
}

// record holds the known fields of a pod.
type record struct {
	workspace uuid.UUID
	name      string
	uid       types.UID
	created   time.Time
	ready     bool
	restarts  int32
	// ended is true if the pod as a whole failed, so that another pod replaces it.
	ended bool
	// kind, subject and detailed decide whether a problem is the same as before.
	kind     podproblem.Kind
	subject  string
	detailed bool
	problem  *Problem
	// since is the time since when the pod has a problem of this kind.
	since time.Time
	// stuck is the time since when no container was created, and look the time of the next read of
	// its Events.
	stuck, look time.Time
}

// broken returns the oldest pod that has a problem, or nil. A pod that failed as a whole counts
// only until there is a younger pod.
func (g *group) broken() *record {
	for i, r := range g.records {
		if r.problem != nil && (!r.ended || i == len(g.records)-1) {
			return r
		}
	}
	return nil
}

// put stores the current state of a pod. It returns the workspaces to report, or none if nothing
// relevant changed.
func (n *namespace) put(pod *corev1.Pod, now time.Time) []uuid.UUID {
	id, err := uuid.Parse(pod.Labels[aggregationv1alpha1.LabelWorkspaceID])
	if err != nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded {
		why := "is gone"
		if pod.Status.Phase == corev1.PodSucceeded {
			why = "has ended"
		}
		return n.remove(pod.Name, why, now)
	}
	next, before := newRecord(n.name, id, pod, now), n.pods[pod.Name]
	if before != nil && before.uid == next.uid && before.workspace == id {
		next.inherit(before)
		if *next == *before {
			return nil
		}
	} else if before != nil {
		n.drop(before)
	}
	n.pods[pod.Name] = next
	g := n.groups[id]
	if g == nil {
		g = &group{}
		n.groups[id] = g
	}
	g.records = append(slices.DeleteFunc(g.records, func(r *record) bool { return r == before }), next)
	slices.SortFunc(g.records, func(a, b *record) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.name, b.name))
	})
	g.gone, g.changed = nil, now
	return []uuid.UUID{id}
}

// remove removes a pod that was deleted, is being deleted, or has ended.
func (n *namespace) remove(name, why string, now time.Time) []uuid.UUID {
	r := n.pods[name]
	if r == nil {
		return nil
	}
	g := n.drop(r)
	g.changed = now
	if len(g.records) == 0 {
		g.gone = &gone{now, &Problem{
			Reason:  aggregationv1alpha1.ReasonPodGone,
			Message: fmt.Sprintf("pod %s/%s %s, and was not replaced; restart the workspace", n.name, name, why),
		}}
	}
	return []uuid.UUID{r.workspace}
}

func (n *namespace) drop(r *record) *group {
	delete(n.pods, r.name)
	g := n.groups[r.workspace]
	g.records = slices.DeleteFunc(g.records, func(o *record) bool { return o == r })
	return g
}

func newRecord(namespace string, id uuid.UUID, pod *corev1.Pod, now time.Time) *record {
	r := &record{
		workspace: id, name: pod.Name, uid: pod.UID, created: pod.CreationTimestamp.Time,
		ended: pod.Status.Phase == corev1.PodFailed,
	}
	for _, c := range podproblem.Containers(pod) {
		r.restarts += c.RestartCount
	}
	r.ready = podproblem.IsReady(pod)
	if p := podproblem.Find(pod); p != nil {
		r.set(namespace, p, now)
	}
	if podproblem.IsStuck(pod) {
		r.stuck, r.look = now, now.Add(firstLook)
	}
	return r
}

// set sets the problem.
func (r *record) set(namespace string, p *podproblem.Problem, now time.Time) {
	if r.problem == nil || r.kind != p.Kind {
		r.since = now
	}
	r.kind, r.subject = p.Kind, p.Container+" "+p.Image
	r.detailed = p.Kind != podproblem.ImagePull || p.PullCause() != podproblem.PullCauseUnknown
	r.problem = &Problem{
		Reason:  cmp.Or(reasons[p.Kind], aggregationv1alpha1.ReasonContainerCrashed),
		Message: fmt.Sprintf("pod %s/%s: %s", namespace, r.name, p.Sentence(clean)),
	}
}

// inherit copies the values of the previous record that still apply. A problem whose message
// differs from attempt to attempt stays one problem.
func (r *record) inherit(before *record) {
	switch {
	case r.problem == nil && !r.stuck.IsZero() && !before.stuck.IsZero():
		// The problem from the Events still applies.
		r.kind, r.subject, r.detailed, r.problem = before.kind, before.subject, before.detailed, before.problem
	case r.problem != nil && before.problem != nil && *r.problem == *before.problem,
		r.kind == podproblem.ImagePull && before.kind == r.kind && before.subject == r.subject && (before.detailed || !r.detailed):
		r.detailed, r.problem = before.detailed, before.problem
	}
	if r.problem != nil && before.problem != nil && r.kind == before.kind {
		r.since = before.since
	}
	if !r.stuck.IsZero() && !before.stuck.IsZero() {
		r.stuck, r.look = before.stuck, before.look
	}
}

// reasons maps the problems of pods to the reasons of conditions. The reason of any other problem is
// ReasonContainerCrashed.
var reasons = map[podproblem.Kind]string{
	podproblem.ImagePull:     aggregationv1alpha1.ReasonImagePullFailed,
	podproblem.Config:        aggregationv1alpha1.ReasonContainerConfigInvalid,
	podproblem.Unschedulable: aggregationv1alpha1.ReasonUnschedulable,
	podproblem.Volume:        aggregationv1alpha1.ReasonVolumeMountFailed,
	podproblem.Sandbox:       aggregationv1alpha1.ReasonSandboxFailed,
	podproblem.OutOfMemory:   aggregationv1alpha1.ReasonOutOfMemory,
	podproblem.Evicted:       aggregationv1alpha1.ReasonPodEvicted,
	podproblem.NodeLost:      aggregationv1alpha1.ReasonNodeLost,
}

// clean returns a text from Kubernetes as one short line without secrets.
func clean(text string) string {
	return redaction.Truncate(redaction.OneLine(new(redaction.Redactor).Text(text)), maxQuote)
}
