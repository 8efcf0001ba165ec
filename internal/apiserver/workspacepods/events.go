package workspacepods

import (
	"context"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	// lookEvery is how often it is checked whether Events are to be read.
	lookEvery = time.Second
	// firstLook is how long after a pod got a node its Events are read, if no container
	// was created. They are read again every looks, and every slowLooks after patience.
	firstLook, looks, slowLooks = 2 * time.Second, 4 * time.Second, 30 * time.Second
	patience                    = time.Minute
	// looksAtOnce limits how many pods are looked at in one step.
	looksAtOnce = 5
	// lookTimeout limits one read.
	lookTimeout = 5 * time.Second
	// mostEvents limits how many Events of one pod are read.
	mostEvents = 50
	// rememberedFor is how long a pod that is gone is remembered.
	rememberedFor = time.Hour
)

// stuckPod is a pod whose Events are read.
type stuckPod struct {
	namespace *namespace
	name      string
	uid       types.UID
}

// lookAtEvents reads the Events of pods none of whose containers is created: only
// these say that a volume cannot be mounted. At rest there is none.
func (w *Watcher) lookAtEvents(ctx context.Context) {
	for _, s := range w.due() {
		problem, err := w.eventProblem(ctx, s)
		if err != nil {
			log.FromContext(ctx).V(1).Info("Events of a pod cannot be read", "namespace", s.namespace.name, "name", s.name, "error", err.Error())
			continue
		}
		w.report(s.namespace.name, w.take(s, problem))
	}
}

// due returns the pods to look at now, and sets when they are due again.
func (w *Watcher) due() []stuckPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.config.Clock.Now()
	var all []stuckPod
	for _, n := range w.pods {
		n.forgetGone(now)
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

// take sets the problem of a pod that is still stuck.
func (w *Watcher) take(s stuckPod, problem *podproblem.Problem) []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := s.namespace.pods[s.name]
	if r == nil || r.uid != s.uid || r.stuck.IsZero() || problem == nil {
		return nil
	}
	before := r.problem
	r.set(s.namespace.name, problem)
	if before != nil && *before == *r.problem {
		r.problem = before
		return nil
	}
	s.namespace.groups[r.workspace].changed = w.config.Clock.Now()
	return []uuid.UUID{r.workspace}
}
