package objectevents

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

const (
	// controller is the reportingController of the Events.
	controller = "coder.com/coder-k8s-apiserver"
	// waiting limits the changes whose Events are not written yet.
	waiting = 500
	// perSecond and burst limit the rate of Events.
	perSecond, burst = 5, 50
	// objectBurst and objectEvery limit the Events of one object.
	objectBurst, objectEvery = 5, 10 * time.Minute
	// maxLimits limits the number of objects with a rate limiter.
	maxLimits = 10_000
	// writeTimeout limits the duration of one write.
	writeTimeout = 5 * time.Second
	// newFor is how long after an existing object was first seen its pod problems are not reported:
	// its pods are read later than the object, so the problem may be old.
	newFor = 2 * time.Minute
	// maxNote is the limit of kube-apiserver, minus room for the truncation mark.
	maxNote = 1000
	// maxName leaves room for the hash in the name of an Event.
	maxName = 230
)

// Config configures a Recorder.
type Config struct {
	Client kubernetes.Interface
	Clock  clock.PassiveClock
	// Identity is the name of this replica.
	Identity string
}

// Recorder writes the Events. Changed is safe for concurrent use.
type Recorder struct {
	config  Config
	changes chan change
	running atomic.Bool
	dropped atomic.Int64
	// limits holds the rate limiter of each object. Only Run uses it.
	limits map[types.UID]*rate.Limiter
}

// change is a changed object with its occurrences.
type change struct {
	object      runtime.Object
	occurrences []occurrence
}

// New returns a Recorder. It writes nothing until Run is called.
func New(config Config) *Recorder {
	return &Recorder{config: config, changes: make(chan change, waiting), limits: map[types.UID]*rate.Limiter{}}
}

// Changed queues the Events for a change of an object that this replica has known since born. It
// never blocks, and does nothing unless Run is running.
func (r *Recorder) Changed(before, after runtime.Object, born time.Time) {
	if !r.running.Load() {
		return
	}
	all := occurrencesOf(before, after)
	if ws, ok := after.(*aggregationv1alpha1.CoderWorkspace); ok &&
		r.config.Clock.Since(born) < newFor && born.Sub(ws.CreationTimestamp.Time) > newFor {
		all = slices.DeleteFunc(all, func(o occurrence) bool { return o.action == actionRun })
	}
	if len(all) == 0 {
		return
	}
	select {
	case r.changes <- change{after, all}:
	default:
		r.dropped.Add(1)
	}
}

func occurrencesOf(before, after runtime.Object) []occurrence {
	switch is := after.(type) {
	case *aggregationv1alpha1.CoderWorkspace:
		if was, ok := before.(*aggregationv1alpha1.CoderWorkspace); ok {
			return ofWorkspace(was, is)
		}
	case *aggregationv1alpha1.CoderTemplate:
		if was, ok := before.(*aggregationv1alpha1.CoderTemplate); ok {
			return ofTemplate(was, is)
		}
	}
	return nil
}

// Run writes Events until the context is canceled.
func (r *Recorder) Run(ctx context.Context) {
	r.running.Store(true)
	defer r.running.Store(false)
	limit := rate.NewLimiter(perSecond, burst)
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

func (r *Recorder) write(ctx context.Context, limit *rate.Limiter, object runtime.Object, o occurrence) {
	event := r.event(object, o)
	if !r.limitOf(event.Regarding.UID).AllowN(r.config.Clock.Now(), 1) || limit.Wait(ctx) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := r.config.Client.EventsV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Info("Could not write an Event", "namespace", event.Namespace, "name", event.Regarding.Name, "reason", o.reason, "error", err.Error())
	}
}

// limitOf returns the rate limiter of an object. If there are too many, all are dropped.
func (r *Recorder) limitOf(uid types.UID) *rate.Limiter {
	limit := r.limits[uid]
	if limit == nil {
		if len(r.limits) >= maxLimits {
			clear(r.limits)
		}
		limit = rate.NewLimiter(rate.Every(objectEvery), objectBurst)
		r.limits[uid] = limit
	}
	return limit
}

// event returns the Event of an occurrence. Equal occurrences have equal names.
func (r *Recorder) event(object runtime.Object, o occurrence) *eventsv1.Event {
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
			Name:      fmt.Sprintf("%s.%x", strings.TrimRight(name[:min(len(name), maxName)], ".-"), hash[:8]),
		},
		EventTime:           metav1.NewMicroTime(r.config.Clock.Now()),
		ReportingController: controller, ReportingInstance: r.config.Identity,
		Action: o.action, Reason: o.reason, Type: level, Note: truncate.String(o.note, maxNote),
		Regarding: corev1.ObjectReference{
			APIVersion: aggregationv1alpha1.GroupVersion.String(), Kind: kind,
			Namespace: accessor.GetNamespace(), Name: name, UID: accessor.GetUID(),
		},
	}
}
