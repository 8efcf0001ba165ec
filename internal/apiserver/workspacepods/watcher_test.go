package workspacepods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

var (
	cp    = types.NamespacedName{Namespace: "coder", Name: "coder"}
	dev   = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	began = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
)

// fixture is a Watcher on an in-memory cluster.
type fixture struct {
	*testing.T
	*Watcher
	kube  *fake.Clientset
	clock *clocktesting.FakeClock

	mu      sync.Mutex
	changes map[uuid.UUID]int
	watches map[string]bool // The namespaces of which pods are watched.
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{T: t, kube: fake.NewClientset(objects...), clock: clocktesting.NewFakeClock(began), changes: map[uuid.UUID]int{}, watches: map[string]bool{}}
	f.Watcher = New(Config{Client: f.kube, Clock: f.clock, Changed: func(controlPlane types.NamespacedName, id uuid.UUID) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if controlPlane != cp {
			t.Errorf("a change of control plane %s", controlPlane)
		}
		f.changes[id]++
	}})
	// The in-memory cluster forgets deletions between a list and its watch.
	f.kube.PrependWatchReactor("pods", func(action kubetesting.Action) (bool, watch.Interface, error) {
		started, err := f.kube.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(kubetesting.WatchActionImpl).ListOptions)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watches[action.GetNamespace()] = true
		return true, started, err
	})
	return f
}

// run runs the watcher for a control plane with two namespaces.
func (f *fixture) run() {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Watcher.Run(ctx) })
	f.Cleanup(func() { cancel(); running.Wait() })
	f.Serve([]connections.Member{{ControlPlane: cp, PodNamespaces: []string{"coder", "work"}}})
	f.eventually("the pods are watched", func() bool {
		f.Watcher.mu.Lock()
		defer f.Watcher.mu.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.read(cp) && f.watches["coder"] && f.watches["work"]
	})
}

func (f *fixture) eventually(what string, is func() bool) {
	f.Helper()
	polltest.Eventually(f.T, what, is)
}

func (f *fixture) reported(id uuid.UUID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes[id]
}

// problem returns the problem of the workspace dev, which was built before the test.
func (f *fixture) problem() string {
	if p := f.Problem(cp, dev, began.Add(-time.Minute), nil); p != nil {
		return p.Reason + ": " + p.Message
	}
	return ""
}

func (f *fixture) becomes(reason string) {
	f.Helper()
	f.eventually(fmt.Sprintf("want a problem %q", reason), func() bool {
		got, _, _ := strings.Cut(f.problem(), ":")
		return got == reason
	})
}

func (f *fixture) put(pod *corev1.Pod) {
	f.Helper()
	if _, err := f.kube.CoreV1().Pods(pod.Namespace).Update(f.Context(), pod, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func pod(namespace, name string, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{aggregationv1alpha1.LabelWorkspaceID: dev.String()}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "ws:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: state}}},
	}
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func TestAProblemIsReportedAndEnds(t *testing.T) {
	p := pod("work", "ws", runs())
	f := newFixture(t, p)
	f.run()
	if got := f.problem(); got != "" {
		t.Fatalf("a pod that runs has the problem %s", got)
	}
	p.Status.ContainerStatuses[0].State = waits("ErrImagePull", "not found")
	f.put(p)
	f.becomes("ImagePullFailed")
	const want = `ImagePullFailed: pod work/ws: image "ws:1" of container "main" cannot be pulled (ErrImagePull): the registry has no such image or tag`
	if got := f.problem(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	f.eventually("the change is reported", func() bool { return f.reported(dev) > 0 })
	if !f.Unsettled(cp, dev, true) || f.Unsettled(cp, dev, false) {
		t.Error("a problem of a pod whose agent is connected is read again, and only that")
	}
	// The kubelet's message differs from attempt to attempt.
	before := f.reported(dev)
	f.clock.Step(lastingAfter - time.Second)
	p.Status.ContainerStatuses[0].State = waits("ImagePullBackOff", "Back-off pulling image")
	f.put(p)
	p.Status.ContainerStatuses[0].State = waits("ErrImagePull", "not found")
	f.put(p)
	lasts := func(shown *Problem) bool { return f.Problem(cp, dev, began, shown).Lasting }
	if lasts(nil) || !lasts(&Problem{Reason: "ImagePullFailed", Lasting: true}) || lasts(&Problem{Reason: "PodGone", Lasting: true}) {
		t.Error("a problem of 59 seconds lasts, unless another replica has shown it longer")
	}
	f.clock.Step(time.Second)
	f.eventually("the problem lasts", func() bool { return lasts(nil) })
	p.Status.ContainerStatuses[0].State = runs()
	f.put(p)
	f.becomes("")
	f.eventually("the end is reported", func() bool { return f.reported(dev) == before+1 })
	f.clock.Step(settledAfter)
	if f.Unsettled(cp, dev, false) {
		t.Error("it is read again long after the change")
	}
}

// TestNamespacesAreLimited checks that a control plane with many namespaces does not open more watches
// than the limit, and that the other's own namespace is watched.
func TestNamespacesAreLimited(t *testing.T) {
	w := New(Config{})
	greedy := connections.Member{ControlPlane: types.NamespacedName{Namespace: "a", Name: "coder"}, PodNamespaces: []string{"a"}}
	for i := range maxNamespaces {
		greedy.PodNamespaces = append(greedy.PodNamespaces, fmt.Sprintf("more-%d", i))
	}
	w.Serve([]connections.Member{greedy, {ControlPlane: cp, PodNamespaces: []string{"coder", "more-0", "work"}}})
	all := w.wanted()
	if len(all) != maxNamespaces || !all["a"] || !all["coder"] || !all["more-0"] || all["work"] {
		t.Errorf("%d namespaces are watched, the second control plane's are %v", len(all), w.planes[cp])
	}
}

func TestPodsElsewhereDoNotCount(t *testing.T) {
	forged := pod("elsewhere", "ws", waits("ErrImagePull", ""))
	noID := pod("work", "other", waits("ErrImagePull", ""))
	noID.Labels[aggregationv1alpha1.LabelWorkspaceID] = "no id"
	f := newFixture(t, forged, noID, pod("work", "ws", runs()))
	f.run()
	f.eventually("the pod is known", func() bool {
		f.Watcher.mu.Lock()
		defer f.Watcher.mu.Unlock()
		return len(f.pods["work"].pods) == 1
	})
	if got := f.problem(); got != "" {
		t.Errorf("got the problem %s", got)
	}
	// Pods in the namespace of another control plane do not count either.
	if p := f.Problem(types.NamespacedName{Namespace: "other", Name: "coder"}, dev, began, nil); p != nil {
		t.Errorf("got %+v", p)
	}
}

func TestAPodThatIsGone(t *testing.T) {
	p := pod("coder", "ws", runs())
	f := newFixture(t, p)
	f.run()
	f.eventually("the pod is known", func() bool {
		f.Watcher.mu.Lock()
		defer f.Watcher.mu.Unlock()
		return len(f.pods["coder"].pods) == 1
	})
	if err := f.kube.CoreV1().Pods("coder").Delete(t.Context(), "ws", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the change is reported", func() bool { return f.reported(dev) == 1 })
	if got := f.problem(); got != "" || !f.Unsettled(cp, dev, true) {
		t.Errorf("a Deployment has no time to replace the pod: %s", got)
	}
	f.clock.Step(replacedWithin)
	f.becomes("PodGone")
	if p := f.Problem(cp, dev, began.Add(time.Minute), nil); p != nil {
		t.Errorf("a pod that went before the workspace was built: %+v", p)
	}
	if p := f.Problem(cp, dev, time.Time{}, nil); p != nil {
		t.Errorf("the workspace is not running: %+v", p)
	}
	next := pod("coder", "next", runs())
	if _, err := f.kube.CoreV1().Pods("coder").Create(t.Context(), next, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.becomes("")
}

// TestPodsThatAreReplaced covers pods of a Deployment: an evicted pod stays next to its successor,
// and a pod that is being deleted does not count.
func TestPodsThatAreReplaced(t *testing.T) {
	evicted := pod("coder", "a", runs())
	evicted.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
	f := newFixture(t, evicted)
	f.run()
	f.becomes("PodEvicted")
	next := pod("coder", "b", runs())
	next.CreationTimestamp = metav1.NewTime(began)
	if _, err := f.kube.CoreV1().Pods("coder").Create(t.Context(), next, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.becomes("")
	next.Status.ContainerStatuses[0].State = waits("CrashLoopBackOff", "")
	next.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	f.put(next)
	f.becomes("OutOfMemory")
	next.DeletionTimestamp = &metav1.Time{Time: began}
	f.put(next)
	f.becomes("PodEvicted")
}

// TestANodeThatIsLost checks that the node is named: nothing else in the pod says why its agent is gone.
func TestANodeThatIsLost(t *testing.T) {
	lost := pod("coder", "a", runs())
	lost.Spec.NodeName = "node-2"
	lost.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	f := newFixture(t, lost)
	f.run()
	f.becomes("NodeLost")
	lost.Status.Conditions[0].Status = corev1.ConditionTrue
	f.put(lost)
	f.becomes("")
}

func TestAVolumeThatCannotBeMounted(t *testing.T) {
	p := pod("work", "ws", waits("ContainerCreating", ""))
	p.Status.Phase = corev1.PodPending
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "ws.1"}, Reason: "FailedMount",
		Message: `MountVolume.SetUp failed for volume "home" : secret "nothing" not found password=hunter2hunter2`,
	}
	f := newFixture(t, p, event)
	f.run()
	f.eventually("the pod is known", func() bool {
		f.Watcher.mu.Lock()
		defer f.Watcher.mu.Unlock()
		return len(f.pods["work"].pods) == 1
	})
	f.clock.Step(firstLook)
	f.becomes("VolumeMountFailed")
	if got := f.problem(); !strings.Contains(got, `a volume cannot be mounted (FailedMount): MountVolume.SetUp failed for volume "home"`) || strings.Contains(got, "hunter2") {
		t.Errorf("got %s", got)
	}
	f.eventually("the change is reported", func() bool { return f.reported(dev) > 0 })
	// A change of the pod without new information keeps the problem.
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	f.put(p)
	p.Status.Phase, p.Status.ContainerStatuses[0].State = corev1.PodRunning, runs()
	f.put(p)
	f.becomes("")
	reads := 0
	for _, action := range f.kube.Actions() {
		if action.Matches("list", "events") {
			reads++
		}
	}
	f.clock.Step(time.Hour)
	if reads != 1 {
		t.Errorf("%d reads of Events", reads)
	}
}

// TestNoRightToReadPods checks that missing permission costs one request per minute, and that no
// other change is missed.
func TestNoRightToReadPods(t *testing.T) {
	f := newFixture(t, pod("coder", "ws", waits("ErrImagePull", "")))
	var mu sync.Mutex
	forbidden, lists := true, 0
	f.kube.PrependReactor("list", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if action.GetNamespace() != "coder" || !forbidden {
			return false, nil, nil
		}
		lists++
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no right"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Watcher.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.Serve([]connections.Member{{ControlPlane: cp, PodNamespaces: []string{"coder", "work"}}})
	f.eventually("the other namespace is watched", func() bool {
		f.Watcher.mu.Lock()
		defer f.Watcher.mu.Unlock()
		return f.read(cp)
	})
	mu.Lock()
	if lists > 1 {
		t.Errorf("%d requests", lists)
	}
	forbidden = false
	mu.Unlock()
	f.eventually("it is tried again", func() bool {
		f.clock.Step(askAgain)
		return strings.HasPrefix(f.problem(), "ImagePullFailed")
	})
}

// TestUntilThePodsAreRead checks that a workspace keeps its shown problem until the pods are read,
// and that Read is called then.
func TestUntilThePodsAreRead(t *testing.T) {
	f := newFixture(t, pod("coder", "ws", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
	read := make(chan types.NamespacedName, 10)
	f.config.Read = func(controlPlane types.NamespacedName) { read <- controlPlane }
	shown := &Problem{Reason: "ImagePullFailed", Message: "no image"}
	if got := f.Problem(cp, dev, began, shown); got != shown {
		t.Errorf("before it runs: %v", got)
	}
	f.run()
	for range 2 {
		if got := <-read; got != cp {
			t.Errorf("the pods of %s were read", got)
		}
	}
	if got := f.Problem(cp, dev, began, shown); got != nil {
		t.Errorf("with a healthy pod: %v", got)
	}
	gone := &Problem{Reason: "PodGone", Message: "gone"}
	if got := f.Problem(cp, uuid.New(), began, gone); got != gone {
		t.Errorf("of a pod that went before: %v", got)
	}
	if got := f.Problem(cp, uuid.New(), began, shown); got != nil {
		t.Errorf("of a workspace without pods: %v", got)
	}
}

// TestBuiltAt checks that the time of a build is at most the time when it was first seen, and hardly earlier, whatever Coder's clock
// shows.
func TestBuiltAt(t *testing.T) {
	seen := began
	for build, want := range map[time.Time]time.Time{
		seen.Add(-10 * time.Second): seen.Add(-10 * time.Second),
		seen.Add(-10 * time.Minute): seen.Add(-clockDifference),
		seen.Add(10 * time.Minute):  seen,
		seen.AddDate(10, 0, 0):      seen,
		seen.AddDate(-10, 0, 0):     seen.Add(-clockDifference),
		{}:                          seen.Add(-clockDifference),
		time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC): seen,
	} {
		g := &group{build: seen.AddDate(1, 1, 1)}
		for _, now := range []time.Time{seen, seen.Add(time.Hour)} {
			if got := g.builtAt(build, now); !got.Equal(want) {
				t.Errorf("the build of %s, first seen at %s, counts from %s, want %s", build, seen, got, want)
			}
		}
	}
}
