package toolset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

var podResource = schema.GroupResource{Resource: "pods"}

// tickingClock has tickers whose ticks the test sends, so that the test knows when one was
// received.
type tickingClock struct {
	*testingclock.FakeClock
	ticks chan time.Time
}

func (c tickingClock) NewTicker(time.Duration) clock.Ticker { return c }
func (c tickingClock) C() <-chan time.Time                  { return c.ticks }
func (c tickingClock) Stop()                                {}

// theWait is a wait for a running pod. The test controls its watch and reads.
type theWait struct {
	clock  tickingClock
	events *watch.FakeWatcher
	// watched are the options of the watch.
	watched  client.ListOptions
	watchErr error
	// reads handles Get; nil returns the unchanged pod.
	reads func() (*corev1.Pod, error)
	gets  atomic.Int32
	all   *[]told
	ended chan outcomeOfWait
	pod   *corev1.Pod
}

type outcomeOfWait struct {
	gone bool
	err  error
}

func podIn(phase corev1.PodPhase) *corev1.Pod {
	p := pod("x")
	p.ResourceVersion, p.Status.Phase = "5", phase
	return p
}

// begin starts the wait, and returns after done was called for the first time.
func (w *theWait) begin(ctx context.Context, t *testing.T, timeout time.Duration) {
	t.Helper()
	w.clock = tickingClock{testingclock.NewFakeClock(time.Unix(0, 0)), make(chan time.Time)}
	w.events = watch.NewFakeWithChanSize(10, false)
	w.ended = make(chan outcomeOfWait, 1)
	if w.pod == nil {
		w.pod = podIn(corev1.PodPending)
	}
	kube := fakeKube(t, interceptor.Funcs{
		Watch: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			w.watched.ApplyOptions(opts)
			return w.events, w.watchErr
		},
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			w.gets.Add(1)
			if w.reads == nil {
				podIn(corev1.PodPending).DeepCopyInto(obj.(*corev1.Pod))
				return nil
			}
			seen, err := w.reads()
			if err == nil {
				seen.DeepCopyInto(obj.(*corev1.Pod))
			}
			return err
		},
	})
	var p *progress
	p, w.all = heard(w.clock.FakeClock)
	call := &Call{Kube: kube, time: w.clock, progress: p}
	go func() {
		gone, err := call.Until(ctx, w.pod, timeout, func() (bool, string) {
			return w.pod.Status.Phase == corev1.PodRunning, "the pod is " + string(w.pod.Status.Phase)
		})
		w.ended <- outcomeOfWait{gone, err}
	}()
}

// pass advances the clock by d, tick by tick, until each tick was received. It stops when
// the wait has ended.
func (w *theWait) pass(t *testing.T, d time.Duration) {
	t.Helper()
	polltest.Eventually(t, "it waits for the clock, or has ended", func() bool { return w.clock.HasWaiters() || len(w.ended) > 0 })
	if len(w.ended) > 0 {
		return
	}
	deadline := polltest.Context(t).Done()
	for passed := time.Duration(0); passed < d; passed += pollInterval {
		w.clock.Step(pollInterval)
		select {
		case w.clock.ticks <- w.clock.Now():
		case end := <-w.ended:
			w.ended <- end
			return
		case <-deadline:
			t.Fatal("nobody takes a tick")
		}
	}
}

func (w *theWait) end(t *testing.T) outcomeOfWait {
	t.Helper()
	select {
	case end := <-w.ended:
		return end
	case <-polltest.Context(t).Done():
		t.Fatal("the wait does not end")
		return outcomeOfWait{}
	}
}

func TestUntilWatchesTheObjectAlone(t *testing.T) {
	w := &theWait{}
	w.begin(t.Context(), t, time.Minute)
	other := podIn(corev1.PodRunning)
	other.Name = "y"
	w.events.Modify(other)
	creating := podIn(corev1.PodPending)
	creating.Labels = map[string]string{"seen": "1"}
	w.events.Modify(creating)
	running := podIn(corev1.PodRunning)
	running.ResourceVersion = "9"
	w.events.Modify(running)
	if end := w.end(t); end.gone || end.err != nil {
		t.Fatalf("the wait ends with %+v", end)
	}
	if w.pod.ResourceVersion != "9" || w.gets.Load() != 0 {
		t.Errorf("the object is at %s after %d reads", w.pod.ResourceVersion, w.gets.Load())
	}
	if w.watched.Namespace != "coder" || w.watched.FieldSelector.String() != "metadata.name=x" || w.watched.Raw.ResourceVersion != "5" {
		t.Errorf("the watch is %+v", w.watched)
	}
	if !w.events.IsStopped() {
		t.Error("the watch goes on")
	}
	if len(*w.all) == 0 || (*w.all)[0].Message != "the pod is Pending" {
		t.Errorf("told %v", *w.all)
	}
}

func TestUntilIsDoneAtOnceWhereNothingIsToWaitFor(t *testing.T) {
	w := &theWait{pod: podIn(corev1.PodRunning), watchErr: errors.New("must not be called")}
	w.begin(t.Context(), t, time.Minute)
	if end := w.end(t); end.gone || end.err != nil || w.watched.FieldSelector != nil {
		t.Errorf("the wait ends with %+v", end)
	}
}

func TestUntilReadsWhatItDoesNotKnowYet(t *testing.T) {
	w := &theWait{pod: pod("x"), reads: func() (*corev1.Pod, error) { return podIn(corev1.PodRunning), nil }}
	w.begin(t.Context(), t, time.Minute)
	if end := w.end(t); end.gone || end.err != nil || w.pod.ResourceVersion != "5" {
		t.Errorf("the wait ends with %+v at %q", end, w.pod.ResourceVersion)
	}
}

func TestUntilReadsWhereItCannotWatch(t *testing.T) {
	var reads atomic.Int32
	w := &theWait{
		watchErr: apierrors.NewForbidden(podResource, "x", errors.New("no")),
		reads: func() (*corev1.Pod, error) {
			switch reads.Add(1) {
			case 1:
				return podIn(corev1.PodPending), nil
			case 2:
				return nil, apierrors.NewServiceUnavailable("not now")
			default:
				return podIn(corev1.PodRunning), nil
			}
		},
	}
	w.begin(t.Context(), t, time.Minute)
	w.pass(t, 3*pollInterval)
	if end := w.end(t); end.gone || end.err != nil || reads.Load() != 3 {
		t.Errorf("after %d reads the wait ends with %+v", reads.Load(), end)
	}
}

func TestUntilReadsWhereTheWatchBreaks(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old").Status()
	for name, breaks := range map[string]func(*watch.FakeWatcher){
		"it ends":             func(w *watch.FakeWatcher) { w.Stop() },
		"it is an error":      func(w *watch.FakeWatcher) { w.Error(&gone) },
		"it is another thing": func(w *watch.FakeWatcher) { w.Modify(&corev1.Node{}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := &theWait{reads: func() (*corev1.Pod, error) { return podIn(corev1.PodRunning), nil }}
			w.begin(t.Context(), t, time.Hour)
			breaks(w.events)
			for w.gets.Load() == 0 {
				w.pass(t, pollInterval)
			}
			if end := w.end(t); end.gone || end.err != nil {
				t.Errorf("the wait ends with %+v", end)
			}
			if took := w.clock.Since(time.Unix(0, 0)); took > time.Minute {
				t.Errorf("the first read came after %s", took)
			}
		})
	}
}

func TestUntilSaysThatTheObjectIsGone(t *testing.T) {
	again := podIn(corev1.PodRunning)
	again.UID = "2"
	for name, vanish := range map[string]func(*theWait){
		"deleted":              func(w *theWait) { w.events.Delete(podIn(corev1.PodRunning)) },
		"replaced":             func(w *theWait) { w.events.Modify(again) },
		"deleted when read":    func(w *theWait) { w.events.Stop() },
		"replaced when read":   func(w *theWait) { w.events.Stop() },
		"deleted before":       func(w *theWait) {},
		"a bookmark, and gone": func(w *theWait) { w.events.Action(watch.Bookmark, &corev1.Pod{}); w.events.Delete(podIn("")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := &theWait{reads: func() (*corev1.Pod, error) {
				if strings.HasPrefix(name, "replaced") {
					return again, nil
				}
				return nil, apierrors.NewNotFound(podResource, "x")
			}}
			if name == "deleted before" {
				w.pod = pod("x")
			}
			w.begin(t.Context(), t, time.Hour)
			vanish(w)
			for strings.HasSuffix(name, "read") && w.gets.Load() == 0 {
				w.pass(t, pollInterval)
			}
			if end := w.end(t); !end.gone || end.err != nil {
				t.Errorf("the wait ends with %+v", end)
			}
		})
	}
}

func TestUntilEndsWhereTheObjectCannotBeRead(t *testing.T) {
	w := &theWait{watchErr: errors.New("no watch"), reads: func() (*corev1.Pod, error) { return nil, apierrors.NewForbidden(podResource, "x", errors.New("no")) }}
	w.begin(t.Context(), t, time.Minute)
	w.pass(t, pollInterval)
	end := w.end(t)
	var call *CallError
	if !errors.As(end.err, &call) || !apierrors.IsForbidden(end.err) || call.Resource != "Pod" || call.Name != "x" {
		t.Errorf("the wait ends with %+v", end)
	}
}

func TestUntilGivesUpWithWhatItSaw(t *testing.T) {
	w := &theWait{}
	w.begin(t.Context(), t, time.Minute)
	w.pass(t, time.Minute)
	end := w.end(t)
	const want = "not finished after 1m0s, last seen: the pod is Pending; it goes on without this call: look at Pod coder/x again later"
	if end.err == nil || end.err.Error() != want {
		t.Errorf("the wait ends with %v, want %s", end.err, want)
	}
	outcome, told := explain(t.Context(), fmt.Errorf("starting: %w", end.err))
	if outcome != OutcomeTimeout || told.Error() != want {
		t.Errorf("told is %s, %v", outcome, told)
	}
}

func TestUntilLooksOnceMoreBeforeItGivesUp(t *testing.T) {
	w := &theWait{reads: func() (*corev1.Pod, error) { return podIn(corev1.PodRunning), nil }}
	w.begin(t.Context(), t, time.Minute)
	w.pass(t, time.Minute)
	if end := w.end(t); end.gone || end.err != nil {
		t.Errorf("the wait ends with %+v", end)
	}
}

func TestUntilHasATimeInAnyCase(t *testing.T) {
	for given, want := range map[time.Duration]string{0: "2m0s", -1: "2m0s", time.Hour: "10m0s"} {
		w := &theWait{}
		w.begin(t.Context(), t, given)
		w.pass(t, time.Hour)
		if end := w.end(t); end.err == nil || !strings.Contains(end.err.Error(), "not finished after "+want) {
			t.Errorf("a timeout of %s ends with %v, want %s", given, end.err, want)
		}
	}
}

func TestUntilEndsWithItsCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &theWait{}
	w.begin(ctx, t, time.Minute)
	cancel()
	if end := w.end(t); !errors.Is(end.err, context.Canceled) {
		t.Errorf("the wait ends with %+v", end)
	}
}

func TestUntilIsHeardWhileNothingChanges(t *testing.T) {
	w := &theWait{}
	w.begin(t.Context(), t, time.Minute)
	w.pass(t, time.Minute)
	w.end(t)
	const message = "the pod is Pending"
	if diff := cmp.Diff([]told{{1, message}, {2, message}, {3, message}, {4, message}}, *w.all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
