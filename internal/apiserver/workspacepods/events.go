package workspacepods

import (
	"context"
	"maps"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	// lookEvery is the interval of checks whether Events must be read.
	lookEvery = time.Second
	// firstLook is the delay between the scheduling of a pod and the first read of its Events, if
	// no container was created. They are read again after each looks, and after each slowLooks once
	// patience has passed.
	firstLook, looks, slowLooks = 2 * time.Second, 4 * time.Second, 30 * time.Second
	patience                    = time.Minute
	// looksAtOnce limits the pods whose Events are read in one step.
	looksAtOnce = 5
	// lookTimeout limits the duration of one read.
	lookTimeout = 5 * time.Second
	// mostEvents limits the Events that are read for one pod.
	mostEvents = 50
	// rememberedFor is how long a deleted pod is remembered.
	rememberedFor = time.Hour
)

// stuckPod identifies a pod whose Events are read.
type stuckPod struct {
	namespace *namespace
	name      string
	uid       types.UID
}

// lookAtEvents reads the Events of pods without a created container: only Events report that a
// volume cannot be mounted. Usually there are no such pods.
func (w *Watcher) lookAtEvents(ctx context.Context) {
	for _, s := range w.due() {
		problem, err := w.eventProblem(ctx, s)
		if err != nil {
			log.FromContext(ctx).V(1).Info("Could not read the Events of a pod", "namespace", s.namespace.name, "name", s.name, "error", err.Error())
			continue
		}
		w.report(s.namespace.name, w.take(s, problem))
	}
}

// due returns the pods whose Events must be read now, and schedules their next read.
func (w *Watcher) due() []stuckPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.config.Clock.Now()
	var all []stuckPod
	for _, n := range w.pods {
		maps.DeleteFunc(n.groups, func(_ uuid.UUID, g *group) bool {
			return len(g.records) == 0 && now.Sub(g.changed) >= rememberedFor
		})
		for _, r := range n.pods {
			if len(all) == looksAtOnce {
				return all
			}
			if r.stuck.IsZero() || now.Before(r.look) {
				continue
			}
			r.look = now.Add(looks)
			if now.Sub(r.stuck) > patience {
				r.look = now.Add(slowLooks)
			}
			all = append(all, stuckPod{n, r.name, r.uid})
		}
	}
	return all
}

func (w *Watcher) eventProblem(ctx context.Context, s stuckPod) (*podproblem.Problem, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	list, err := w.config.Client.CoreV1().Events(s.namespace.name).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": s.name, "involvedObject.uid": string(s.uid)}.String(),
		Limit:         mostEvents,
	})
	if err != nil {
		return nil, err
	}
	return podproblem.FromEvents(list.Items), nil
}

// take sets the problem of a pod that is still stuck. It returns the workspaces to report.
func (w *Watcher) take(s stuckPod, problem *podproblem.Problem) []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := s.namespace.pods[s.name]
	if r == nil || r.uid != s.uid || r.stuck.IsZero() || problem == nil {
		return nil
	}
	before := r.problem
	r.set(s.namespace.name, problem, w.config.Clock.Now())
	if before != nil && *before == *r.problem {
		r.problem = before
		return nil
	}
	s.namespace.groups[r.workspace].changed = w.config.Clock.Now()
	return []uuid.UUID{r.workspace}
}
