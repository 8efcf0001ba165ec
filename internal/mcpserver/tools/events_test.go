package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
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
	want := getEventsOutput{Items: []event{
		{
			Type: "Warning", Reason: "CrashLooping", Message: "again", Count: 12, LastTimestamp: "2026-11-21T12:01:00Z", FirstTimestamp: noonUTC,
			Kind: "CoderControlPlane", Name: "coder", Source: "coder-k8s",
		},
		{
			Type: "Warning", Reason: "BackOff", Message: hostileClean, Count: 7, LastTimestamp: noonUTC, FirstTimestamp: "2026-11-21T11:00:00Z",
			Kind: "Pod", Name: "coder-1", Source: "kubelet",
		},
		{Count: 1, LastTimestamp: "2026-11-21T11:59:00Z", FirstTimestamp: "2026-11-21T11:59:00Z"},
	}}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGetEventsSelects(t *testing.T) {
	warning, other := newEvent("warning", 1), newEvent("other", 2)
	warning.Type = "Warning"
	other.InvolvedObject = corev1.ObjectReference{Kind: "Deployment", Name: "coder"}
	elsewhere := newEvent("elsewhere", 3)
	elsewhere.Namespace = "other"
	call := &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, newEvent("normal", 0), warning, other, elsewhere)}
	for want, in := range map[string]getEventsInput{
		"other warning normal": {},
		"warning normal":       {Kind: "Pod", Name: "coder-1"},
		"warning":              {Kind: "pod", Type: "Warning"},
		"other":                {Name: "coder"},
		"":                     {Name: "a,type=Normal"},
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
