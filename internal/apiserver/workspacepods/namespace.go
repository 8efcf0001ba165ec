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
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// maxQuote limits what a condition quotes of a text of Kubernetes.
const maxQuote = 300

// namespace is what is known of the pods of one namespace. It is guarded by
// Watcher.mu.
type namespace struct {
	name string
	// read is set once the pods were read, or when they may not be read.
	read   bool
	pods   map[string]*record
	groups map[uuid.UUID]*group
}

// group is the pods of one workspace in one namespace.
type group struct {
	records []*record
	// gone is set while there is no pod and was one.
	gone *gone
	// changed is when something changed last.
	changed time.Time
}

type gone struct {
	at      time.Time
	problem *Problem
}

// record is what is kept of a pod.
type record struct {
	workspace uuid.UUID
	name      string
	uid       types.UID
	created   time.Time
	ready     bool
	restarts  int32
	// ended says that the pod failed as a whole, so that another one replaces it.
	ended bool
	// kind, subject and detailed tell whether a problem is still the same one.
	kind     podproblem.Kind
	subject  string
	detailed bool
	problem  *Problem
	// stuck says since when no container was created, and look when its Events are read
	// next.
	stuck, look time.Time
}

func newNamespace(name string) *namespace {
	return &namespace{name: name, pods: map[string]*record{}, groups: map[uuid.UUID]*group{}}
}

// problem returns the first problem, oldest pod first. A pod that ended as a whole
// counts only until there is a younger one.
func (g *group) problem() *Problem {
	for i, r := range g.records {
		if r.problem != nil && (!r.ended || i == len(g.records)-1) {
			return r.problem
		}
	}
	return nil
}

// put takes in a pod as it is now. It returns the workspaces to report: none if
// nothing changed that matters.
func (n *namespace) put(pod *corev1.Pod, now time.Time) []uuid.UUID {
	id, err := uuid.Parse(pod.Labels[Label])
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

// remove takes out a pod that is gone, or is going.
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
			Message: fmt.Sprintf("pod %s/%s %s, and no other pod took its place; restart the workspace", n.name, name, why),
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

// forgetGone drops what is remembered of pods that have been gone for long.
func (n *namespace) forgetGone(now time.Time) {
	for id, g := range n.groups {
		if len(g.records) == 0 && now.Sub(g.changed) >= rememberedFor {
			delete(n.groups, id)
		}
	}
}

func newRecord(namespace string, id uuid.UUID, pod *corev1.Pod, now time.Time) *record {
	r := &record{
		workspace: id, name: pod.Name, uid: pod.UID, created: pod.CreationTimestamp.Time,
		ended: pod.Status.Phase == corev1.PodFailed,
	}
	for _, c := range podproblem.Containers(pod) {
		r.restarts += c.RestartCount
	}
	r.ready = slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if p := podproblem.Find(pod); p != nil {
		r.set(namespace, p)
	}
	if podproblem.IsStuck(pod) {
		r.stuck, r.look = now, now.Add(firstLook)
	}
	return r
}

// set sets the problem.
func (r *record) set(namespace string, p *podproblem.Problem) {
	r.kind, r.subject = p.Kind, p.Container+" "+p.Image
	r.detailed = p.Kind != podproblem.ImagePull || p.PullCause() != podproblem.PullCauseUnknown
	r.problem = &Problem{
		Reason:  reasonOf(p.Kind),
		Message: fmt.Sprintf("pod %s/%s: %s", namespace, r.name, p.Sentence(clean)),
	}
}

// inherit keeps what still holds of the record before, so that a problem whose words
// change from try to try is one problem.
func (r *record) inherit(before *record) {
	switch {
	case r.problem == nil && !r.stuck.IsZero() && !before.stuck.IsZero():
		// It is as the Events said.
		r.kind, r.subject, r.detailed, r.problem = before.kind, before.subject, before.detailed, before.problem
	case r.problem != nil && before.problem != nil && *r.problem == *before.problem,
		r.kind == podproblem.ImagePull && before.kind == r.kind && before.subject == r.subject && (before.detailed || !r.detailed):
		r.detailed, r.problem = before.detailed, before.problem
	}
	if !r.stuck.IsZero() && !before.stuck.IsZero() {
		r.stuck, r.look = before.stuck, before.look
	}
}

func reasonOf(kind podproblem.Kind) string {
	switch kind {
	case podproblem.ImagePull:
		return aggregationv1alpha1.ReasonImagePullFailed
	case podproblem.Config:
		return aggregationv1alpha1.ReasonContainerConfigInvalid
	case podproblem.Unschedulable:
		return aggregationv1alpha1.ReasonUnschedulable
	case podproblem.Volume:
		return aggregationv1alpha1.ReasonVolumeMountFailed
	case podproblem.Sandbox:
		return aggregationv1alpha1.ReasonSandboxFailed
	case podproblem.OutOfMemory:
		return aggregationv1alpha1.ReasonOutOfMemory
	case podproblem.Evicted:
		return aggregationv1alpha1.ReasonPodEvicted
	case podproblem.Crash:
		return aggregationv1alpha1.ReasonContainerCrashed
	default:
		return aggregationv1alpha1.ReasonContainerCrashed
	}
}

// clean returns one short line without secrets of a foreign text.
func clean(text string) string {
	return truncate.String(truncate.OneLine(new(redaction.Redactor).Text(text)), maxQuote)
}
