package apiserver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	// eventController is the reportingController of the Events.
	eventController = "coder.com/coder-k8s-apiserver"
	// maxWaitingEvents limits the changes whose Events are not written yet.
	maxWaitingEvents = 500
	// eventsPerSecond and eventBurst limit the rate of Events.
	eventsPerSecond, eventBurst = 5, 50
	// objectEventBurst and objectEventEvery limit the Events of one object.
	objectEventBurst, objectEventEvery = 5, 10 * time.Minute
	// maxEventLimits limits the number of objects with a rate limiter.
	maxEventLimits = 10_000
	// eventWriteTimeout limits the duration of one write.
	eventWriteTimeout = 5 * time.Second
	// podProblemsAfter is how long after an existing object was first seen its pod problems are not
	// reported: its pods are read later than the object, so the problem may be old.
	podProblemsAfter = 2 * time.Minute
	// maxEventNote is the limit of kube-apiserver, minus room for the truncation mark.
	maxEventNote = 1000
	// maxEventName leaves room for the hash in the name of an Event.
	maxEventName = 230
)

// eventConfig configures an eventRecorder.
type eventConfig struct {
	Client kubernetes.Interface
	Clock  clock.PassiveClock
	// Identity is the name of this replica.
	Identity string
}

// eventRecorder writes the Events on CoderWorkspaces and CoderTemplates. New objects, as all are in
// the first sync, have no Events. Events that cannot be written in time are dropped: the conditions
// have the state. A note is the message of a condition, and contains no secrets. Changed is safe for
// concurrent use.
type eventRecorder struct {
	config  eventConfig
	changes chan eventChange
	running atomic.Bool
	dropped atomic.Int64
	// limits maps the UIDs of objects to their rate limiters.
	limits *lru.Cache
}

// eventChange is a changed object with its occurrences.
type eventChange struct {
	object      runtime.Object
	occurrences []occurrence
}

// newEventRecorder returns an eventRecorder. It writes nothing until Run is called.
func newEventRecorder(config eventConfig) *eventRecorder {
	return &eventRecorder{config: config, changes: make(chan eventChange, maxWaitingEvents), limits: lru.New(maxEventLimits)}
}

// Changed queues the Events for a change of an object that this replica has known since born. It
// never blocks, and does nothing unless Run is running.
func (r *eventRecorder) Changed(before, after runtime.Object, born time.Time) {
	if !r.running.Load() {
		return
	}
	all := occurrencesOf(before, after)
	if ws, ok := after.(*aggregationv1alpha1.CoderWorkspace); ok &&
		r.config.Clock.Since(born) < podProblemsAfter && born.Sub(ws.CreationTimestamp.Time) > podProblemsAfter {
		all = slices.DeleteFunc(all, func(o occurrence) bool { return o.action == actionRun })
	}
	if len(all) == 0 {
		return
	}
	select {
	case r.changes <- eventChange{after, all}:
	default:
		r.dropped.Add(1)
	}
}

func occurrencesOf(before, after runtime.Object) []occurrence {
	switch is := after.(type) {
	case *aggregationv1alpha1.CoderWorkspace:
		if was, ok := before.(*aggregationv1alpha1.CoderWorkspace); ok {
			return workspaceOccurrences(was, is)
		}
	case *aggregationv1alpha1.CoderTemplate:
		if was, ok := before.(*aggregationv1alpha1.CoderTemplate); ok {
			return templateOccurrences(was, is)
		}
	}
	return nil
}

// Run writes Events until the context is canceled.
func (r *eventRecorder) Run(ctx context.Context) {
	r.running.Store(true)
	defer r.running.Store(false)
	limit := rate.NewLimiter(eventsPerSecond, eventBurst)
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-r.changes:
			for _, o := range c.occurrences {
				r.write(ctx, limit, c.object, o)
			}
		}
		if n := r.dropped.Swap(0); n > 0 {
			log.FromContext(ctx).Info("Dropped Events because of the rate limit", "objects", n)
		}
	}
}

func (r *eventRecorder) write(ctx context.Context, limit *rate.Limiter, object runtime.Object, o occurrence) {
	event := r.event(object, o)
	own, ok := r.limits.Get(event.Regarding.UID)
	if !ok {
		own = rate.NewLimiter(rate.Every(objectEventEvery), objectEventBurst)
		r.limits.Add(event.Regarding.UID, own)
	}
	if !own.(*rate.Limiter).AllowN(r.config.Clock.Now(), 1) || limit.Wait(ctx) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventWriteTimeout)
	defer cancel()
	_, err := r.config.Client.EventsV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Info("Could not write an Event", "namespace", event.Namespace, "name", event.Regarding.Name, "reason", o.reason, "error", err.Error())
	}
}

// event returns the Event of an occurrence. Equal occurrences have equal names.
func (r *eventRecorder) event(object runtime.Object, o occurrence) *eventsv1.Event {
	kind, accessor := "CoderTemplate", object.(metav1.Object) //nolint:forcetypeassert // occurrencesOf has looked.
	if _, ok := object.(*aggregationv1alpha1.CoderWorkspace); ok {
		kind = "CoderWorkspace"
	}
	level := corev1.EventTypeNormal
	if o.warning {
		level = corev1.EventTypeWarning
	}
	hash := sha256.Sum256([]byte(strings.Join([]string{string(accessor.GetUID()), o.reason, o.key}, "\x00")))
	name := accessor.GetName()
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: accessor.GetNamespace(),
			Name:      fmt.Sprintf("%s.%x", strings.TrimRight(name[:min(len(name), maxEventName)], ".-"), hash[:8]),
		},
		EventTime:           metav1.NewMicroTime(r.config.Clock.Now()),
		ReportingController: eventController, ReportingInstance: r.config.Identity,
		Action: o.action, Reason: o.reason, Type: level, Note: redaction.Truncate(o.note, maxEventNote),
		Regarding: corev1.ObjectReference{
			APIVersion: aggregationv1alpha1.GroupVersion.String(), Kind: kind,
			Namespace: accessor.GetNamespace(), Name: name, UID: accessor.GetUID(),
		},
	}
}
