package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// newEvent returns an event about a pod, this number of minutes after noon.
func newEvent(name string, minutes int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "coder", Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "coder-1"},
		Type:           "Normal", Reason: "Pulled", Message: "about " + name, Count: 1,
		LastTimestamp: metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)),
	}
}

// Addresses in messages of pods and Events can contain secrets that do not look like one.
func TestPodsAndEventsShowNoQueries(t *testing.T) {
	const message, want = "pulling https://ada@x.example/v2?scope=x failed", "pulling https://[redacted]@x.example/v2?[redacted] failed"
	e := newEvent("a", 0)
	e.Message = message
	if got := describeEvent(e).Message; got != want {
		t.Errorf("an Event: %q", got)
	}
	p := newPod("coder", "coder-1")
	p.Status = corev1.PodStatus{Reason: "Evicted", Message: message, ContainerStatuses: []corev1.ContainerStatus{{
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: message}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}},
	}}}
	got := DescribePod(p)
	if got.Message != want || got.Containers[0].Message != want || got.Containers[0].Last.Message != want {
		t.Errorf("a pod: %+v", got)
	}
	p.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}}
	if got := DescribePod(p).Message; got != want {
		t.Errorf("a pod without a node: %q", got)
	}
}

func eventMessages(out getEventsOutput) string {
	var all []string
	for _, e := range out.Items {
		all = append(all, strings.TrimPrefix(e.Message, "about "))
	}
	return strings.Join(all, " ")
}

func TestGetEventsDescribesBothKinds(t *testing.T) {
	old := newEvent("old", 0)
	old.Type, old.Reason, old.Message, old.Count = "Warning", "BackOff", hostile, 7
	old.FirstTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	old.Source.Component = "kubelet"
	series := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "coder", Name: "series"},
		InvolvedObject: corev1.ObjectReference{Kind: "CoderControlPlane", Name: "coder"},
		Type:           "Warning", Reason: "CrashLooping", Message: "again", ReportingController: "coder-k8s",
		EventTime: metav1.NewMicroTime(noon.Time),
		Series:    &corev1.EventSeries{Count: 12, LastObservedTime: metav1.NewMicroTime(noon.Add(time.Minute))},
	}
	created := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "created", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute))}}
	out, err := getEvents(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, old, series, created)}, getEventsInput{Namespace: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := getEventsOutput{listOutput: listOutput[event]{Items: []event{
		{
			Type: "Warning", Reason: "CrashLooping", Message: "again", Count: 12, LastTimestamp: "2026-11-21T12:01:00Z", FirstTimestamp: noonUTC,
			Kind: "CoderControlPlane", Name: "coder", Source: "coder-k8s",
		},
		{
			Type: "Warning", Reason: "BackOff", Message: hostileMessage, Count: 7, LastTimestamp: noonUTC, FirstTimestamp: "2026-11-21T11:00:00Z",
			Kind: "Pod", Name: "coder-1", Source: "kubelet",
		},
		{Count: 1, LastTimestamp: "2026-11-21T11:59:00Z", FirstTimestamp: "2026-11-21T11:59:00Z"},
	}}}
	wantEqual(t, want, out, cmp.AllowUnexported(getEventsOutput{}))
}

func TestGetEventsSelects(t *testing.T) {
	warning, other := newEvent("warning", 1), newEvent("other", 2)
	warning.Type = "Warning"
	other.InvolvedObject = corev1.ObjectReference{Kind: "Deployment", Name: "coder"}
	elsewhere, compound, foreign := newEvent("elsewhere", 3), newEvent("compound", 4), newEvent("foreign", 5)
	elsewhere.Namespace = "other"
	compound.InvolvedObject = corev1.ObjectReference{Kind: "ReplicaSet", Name: "coder-2"}
	foreign.InvolvedObject = corev1.ObjectReference{Kind: "Cluster", Name: "database"}
	call := &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, newEvent("normal", 0), warning, other, elsewhere, compound, foreign)}
	for want, in := range map[string]getEventsInput{
		"foreign compound other warning normal": {},
		"warning normal":                        {Kind: "Pod", Name: "coder-1"},
		"warning":                               {Kind: "pod", Type: "Warning"},
		"compound":                              {Kind: "replicaset"},
		"foreign":                               {Kind: "cluster"},
		"other":                                 {Name: "coder"},
		"":                                      {Name: "a,type=Normal"},
	} {
		in.Namespace = "coder"
		out, err := getEvents(t.Context(), call, in)
		if err != nil || eventMessages(out) != want {
			t.Errorf("%+v: %q, %v; want %q", in, eventMessages(out), err, want)
		}
	}
}

// pagedEvents serves events sorted by name, as the API does; every second one is recent.
func pagedEvents(count int, message string) interceptor.Funcs {
	all := make([]corev1.Event, 0, count)
	for i := range count {
		e := newEvent(fmt.Sprintf("%04d", i), i%2*10000-i)
		e.Message += message
		all = append(all, *e)
	}
	return pagedList(all, func(l client.ObjectList) *[]corev1.Event { return &l.(*corev1.EventList).Items })
}

func TestGetEventsPagesHoldEachOnceNewestFirst(t *testing.T) {
	const count = 1300
	call := &toolset.Call{Kube: fakeKube(t, pagedEvents(count, ""), nil)}
	pages := everyPage(t, func(cursor string) (getEventsOutput, error) {
		return getEvents(t.Context(), call, getEventsInput{Namespace: "coder", Limit: 200, Continue: cursor})
	}, func(out getEventsOutput) string { return out.Continue })
	seen := map[string]bool{}
	last := ""
	for i, page := range pages {
		if page.Truncated != (i < len(pages)-1) || page.Note != "" || len(page.Items) > 200 {
			t.Errorf("page %d has %d items, truncated %v, note %q", i, len(page.Items), page.Truncated, page.Note)
		}
		for _, e := range page.Items {
			if seen[e.Message] || last != "" && e.LastTimestamp > last {
				t.Errorf("%s (%s) comes after %s", e.Message, e.LastTimestamp, last)
			}
			seen[e.Message], last = true, e.LastTimestamp
		}
	}
	if len(seen) != count {
		t.Errorf("%d of %d events were shown", len(seen), count)
	}
}

func TestGetEventsReadsABoundedNumber(t *testing.T) {
	reads := 0
	funcs := pagedEvents(5000, "")
	list := funcs.List
	funcs.List = func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		reads++
		return list(ctx, c, l, opts...)
	}
	call := &toolset.Call{Kube: fakeKube(t, funcs, nil)}
	out, err := getEvents(t.Context(), call, getEventsInput{Namespace: "coder", Limit: 3})
	if err != nil || eventMessages(out) != "0001 0003 0005" || !out.Truncated || reads != 4 || !strings.HasPrefix(out.Note, "2000 events were read") {
		t.Errorf("%d reads, %q, %+v, %v", reads, eventMessages(out), out, err)
	}
	// After the last page of the first 2000 events, the cursor leads to the rest.
	seen := map[string]bool{}
	for _, page := range everyPage(t, func(cursor string) (getEventsOutput, error) {
		return getEvents(t.Context(), call, getEventsInput{Namespace: "coder", Limit: 1000, Continue: cursor})
	}, func(out getEventsOutput) string { return out.Continue }) {
		for _, e := range page.Items {
			seen[e.Message] = true
		}
	}
	if len(seen) != 5000 {
		t.Errorf("%d of 5000 events were shown", len(seen))
	}
}

func TestGetEventsAnswersAreSmall(t *testing.T) {
	call := &toolset.Call{Kube: fakeKube(t, pagedEvents(300, strings.Repeat(" long", 400)), nil)}
	seen := 0
	for _, page := range everyPage(t, func(cursor string) (getEventsOutput, error) {
		return getEvents(t.Context(), call, getEventsInput{Namespace: "coder", Limit: 1000, Continue: cursor})
	}, func(out getEventsOutput) string { return out.Continue }) {
		raw, err := json.Marshal(page)
		if err != nil || len(raw) > maxEventsBytes+1000 {
			t.Errorf("an answer has %d bytes, %v", len(raw), err)
		}
		seen += len(page.Items)
	}
	if seen != 300 {
		t.Errorf("%d of 300 events were shown", seen)
	}
}

func TestGetEventsErrors(t *testing.T) {
	for name, broken := range map[string]error{"an old cursor": apierrors.NewResourceExpired("old"), "broken": errBroken} {
		call := &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return broken
		}}, nil)}
		_, err := getEvents(t.Context(), call, getEventsInput{Namespace: "coder"})
		wantError(t, err, "list events in namespace coder: "+broken.Error())
		if _, err := getEvents(t.Context(), call, getEventsInput{Namespace: "coder", Continue: "made up"}); err == nil || !strings.Contains(err.Error(), "cursor") {
			t.Errorf("%s: a cursor that was made up gives %v", name, err)
		}
	}
}

const logPath = "/api/v1/namespaces/coder/pods/coder-1/log"

// podWith returns a pod with these containers.
func podWith(names ...string) *corev1.Pod {
	p := newPod("coder", "coder-1")
	p.Spec.Containers = nil
	for _, name := range names {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	return p
}

func TestGetPodLogsAsksForWhatIsWanted(t *testing.T) {
	annotated := podWith("a", "b")
	annotated.Annotations = map[string]string{defaultContainerAnnotation: "b"}
	in := getPodLogsInput{Namespace: "coder", Name: "coder-1"}
	with := func(change func(*getPodLogsInput)) getPodLogsInput {
		changed := in
		change(&changed)
		return changed
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		in   getPodLogsInput
		want string
	}{
		"the only container": {podWith("coder"), in, "container=coder&tailLines=201"},
		"the pod's choice":   {annotated, in, "container=b&tailLines=201"},
		"the caller's":       {annotated, with(func(in *getPodLogsInput) { in.Container = "a" }), "container=a&tailLines=201"},
		"previous":           {podWith("coder"), with(func(in *getPodLogsInput) { in.Previous = true }), "container=coder&previous=true&tailLines=201"},
		"since":              {podWith("coder"), with(func(in *getPodLogsInput) { in.SinceSeconds = 60 }), "container=coder&sinceSeconds=60&tailLines=201"},
		"lines":              {podWith("coder"), with(func(in *getPodLogsInput) { in.TailLines = 3 }), "container=coder&tailLines=4"},
		"too many lines":     {podWith("coder"), with(func(in *getPodLogsInput) { in.TailLines = 1 << 40 }), "container=coder&tailLines=5001"},
	} {
		var asked string
		kube := withRaw(fakeKube(t, interceptor.Funcs{}, nil, tc.pod), func(path string, query url.Values) (io.ReadCloser, error) {
			if path != logPath {
				t.Errorf("%s: the path is %s", name, path)
			}
			asked = query.Encode()
			return io.NopCloser(strings.NewReader("hello\n")), nil
		})
		out, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, tc.in)
		if err != nil || asked != tc.want || out.Logs != "hello\n" || out.Truncated || out.Note != "" {
			t.Errorf("%s: asked for %s, want %s; %+v, %v", name, asked, tc.want, out, err)
		}
	}
}

func TestGetPodLogsKeepsTheNewestCleaned(t *testing.T) {
	log := strings.Repeat("an old line\n", 500) + hostile + "\nlast\n"
	for name, tc := range map[string]struct {
		in   getPodLogsInput
		want string
		cut  bool
	}{
		"lines": {getPodLogsInput{TailLines: 2}, hostileClean + "\nlast\n", true},
		"bytes": {getPodLogsInput{TailLines: 5000, LimitBytes: 7}, "last\n", true},
		"all":   {getPodLogsInput{TailLines: 5000, LimitBytes: 1 << 30}, strings.Repeat("an old line\n", 500) + hostileClean + "\nlast\n", false},
		"usual": {getPodLogsInput{}, strings.Repeat("an old line\n", 198) + hostileClean + "\nlast\n", true},
	} {
		tc.in.Namespace, tc.in.Name = "coder", "coder-1"
		kube := fakeKube(t, interceptor.Funcs{}, rawTexts{logPath: log}, podWith("coder"))
		out, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, tc.in)
		if err != nil || out.Logs != tc.want || out.Truncated != tc.cut || (out.Note != "") != tc.cut || out.Container != "coder" {
			t.Errorf("%s: %d bytes, want %d; truncated %v, note %q, %v", name, len(out.Logs), len(tc.want), out.Truncated, out.Note, err)
		}
	}
}

func TestGetPodLogsHasABound(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{logPath: strings.Repeat(strings.Repeat("x", 1023)+"\n", 1024)}, podWith("coder"))
	out, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, getPodLogsInput{Namespace: "coder", Name: "coder-1", TailLines: 5000, LimitBytes: 1 << 30})
	if err != nil || len(out.Logs) != 256<<10 || !out.Truncated || !strings.Contains(out.Note, "limitBytes up to 262144") {
		t.Errorf("%d bytes, truncated %v, note %q, %v", len(out.Logs), out.Truncated, out.Note, err)
	}
}

func TestGetPodLogsStaysWithinItsBytesWhenCleaned(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{logPath: strings.Repeat("token=x\n", 1000)}, podWith("coder"))
	out, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, getPodLogsInput{Namespace: "coder", Name: "coder-1", TailLines: 5000, LimitBytes: 8000})
	if err != nil || len(out.Logs) > 8000 || !out.Truncated || strings.Contains(out.Logs, "=x") {
		t.Errorf("%d bytes, truncated %v, %v", len(out.Logs), out.Truncated, err)
	}
}

func TestGetPodLogsNamesTheContainersToChooseFrom(t *testing.T) {
	p := podWith("coder", "sidecar")
	p.Annotations = map[string]string{defaultContainerAnnotation: "gone"}
	p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	_, err := getPodLogs(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, p)}, getPodLogsInput{Namespace: "coder", Name: "coder-1"})
	wantError(t, err, "pod coder/coder-1 has several containers; give container: one of coder, sidecar, init, debug")
}

func TestGetPodLogsWithoutTheRightToReadPods(t *testing.T) {
	kube := withRaw(denyAll(t), func(_ string, query url.Values) (io.ReadCloser, error) {
		if query.Has("container") {
			t.Errorf("the API is asked for %s", query.Encode())
		}
		return nil, apierrors.NewBadRequest("a container name must be specified for pod coder-1, choose one of: [a b]")
	})
	_, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, getPodLogsInput{Namespace: "coder", Name: "coder-1"})
	wantError(t, err, "choose one of: [a b]")
}

func TestGetPodLogsThatBreakOff(t *testing.T) {
	kube := withRaw(fakeKube(t, interceptor.Funcs{}, nil, podWith("coder")), func(string, url.Values) (io.ReadCloser, error) {
		return io.NopCloser(iotest.ErrReader(errBroken)), nil
	})
	_, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, getPodLogsInput{Namespace: "coder", Name: "coder-1"})
	var call *toolset.CallError
	if !errors.As(err, &call) || !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

func TestGetPodLogsTakesNoPaths(t *testing.T) {
	kube := withRaw(fakeKube(t, interceptor.Funcs{}, nil), func(path string, _ url.Values) (io.ReadCloser, error) {
		t.Errorf("%s is read", path)
		return nil, errBroken
	})
	for _, name := range []string{"..", ".", "a/b", "../../secrets/x", "a%2fb"} {
		for _, in := range []getPodLogsInput{{Namespace: "coder", Name: name, Container: "c"}, {Namespace: name, Name: "coder", Container: "c"}} {
			_, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, in)
			wantError(t, err, " cannot be ")
		}
	}
}
