package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

var wellTexts = rawTexts{
	"/version":                             `{"major":"1","gitVersion":"v1.37.0"}`,
	"/apis/aggregation.coder.com/v1alpha1": `{"kind":"APIResourceList","groupVersion":"aggregation.coder.com/v1alpha1"}`,
}

func asAlice(ctx context.Context) context.Context {
	return request.WithUser(ctx, &user.DefaultInfo{Name: "alice", Groups: []string{"devs"}})
}

func TestCheckHealth(t *testing.T) {
	broken := newControlPlane("broken")
	settle(broken, metav1.ConditionFalse, "CrashLooping", hostile)
	provisioner := &coderv1alpha1.CoderProvisioner{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "builders"}}
	template := &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder.k8s"}}
	template.Status.LatestVersionStatus = "failed"
	workspace, running := devWorkspace("Failed"), devWorkspace("Running")
	running.Name = "coder.ada.other"
	for _, conditions := range []*[]metav1.Condition{&provisioner.Status.Conditions, &template.Status.Conditions, &workspace.Status.Conditions} {
		*conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Broken", Message: "it is broken"}}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		raw     rawTexts
		want    func(*health)
	}{
		"all is well":   {[]client.Object{newControlPlane("coder")}, wellTexts, func(h *health) { h.ControlPlanes.Seen = 1 }},
		"nothing there": {nil, wellTexts, func(h *health) { h.Status = "unknown" }},
		"one is not ready": {[]client.Object{newControlPlane("coder"), broken}, wellTexts, func(h *health) {
			h.Status, h.ControlPlanes.Seen = "degraded", 2
			h.ControlPlanes.NotReady = 1
			h.Problems = diagnosis.Unhealthy("CoderControlPlane", broken, 0, broken.Status.Conditions)[:1]
		}},
		"others are unhealthy": {[]client.Object{newControlPlane("coder"), provisioner, template, workspace, running}, wellTexts, func(h *health) {
			h.ControlPlanes.Seen = 1
			for _, object := range []string{"CoderProvisioner/builders", "CoderTemplate/coder.k8s", "CoderWorkspace/" + devName} {
				h.Problems = append(h.Problems, diagnosis.Problem{Namespace: "coder", Object: object, Condition: "Ready", Reason: "Broken", Message: "it is broken"})
			}
		}},
		"the aggregated API is not there": {nil, rawTexts{"/version": wellTexts["/version"]}, func(h *health) {
			h.Status, h.Cluster.AggregatedAPI = "degraded", "not installed"
		}},
		"another API answers": {nil, rawTexts{"/version": wellTexts["/version"], aggregatedPath: `{"groupVersion":"other/v1"}`}, func(h *health) {
			h.Status, h.Cluster.AggregatedAPI = "degraded", "unavailable"
		}},
		"something else answers": {nil, rawTexts{"/version": wellTexts["/version"], aggregatedPath: "<html>"}, func(h *health) {
			h.Status, h.Cluster.AggregatedAPI = "degraded", "unavailable"
		}},
	} {
		got, err := checkHealth(asAlice(t.Context()), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, tc.raw, tc.objects...)}, checkHealthInput{})
		want := health{
			Status: "ok", Version: version.Version(), Caller: caller{User: "alice", Groups: []string{"devs"}},
			Cluster:  clusterHealth{Version: "v1.37.0", AggregatedAPI: "available"},
			Problems: []diagnosis.Problem{}, Gaps: []string{},
		}
		if tc.objects == nil {
			want.Gaps = []string{"there is no control plane in any namespace"}
		}
		tc.want(&want)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestCheckHealthNeverFailsAsAWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status string
		api    string
		gap    string
	}{
		"forbidden": {denied("get"), "unknown", "unknown", `user "alice" may not get /version`},
		"not as the caller": {
			apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(`User "system:serviceaccount:coder-system:coder-k8s" cannot impersonate-on:user-info:get path "/version"`)),
			"degraded", "unknown", "has no permission to impersonate its caller",
		},
		"unavailable": {apierrors.NewServiceUnavailable("down"), "degraded", "unavailable", "it is not available now: down"},
		"broken":      {errBroken, "degraded", "unavailable", "returned an unexpected response"},
	} {
		kube := withRaw(fakeKube(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return tc.err
		}}, nil), func(string, url.Values) (io.ReadCloser, error) { return nil, tc.err })
		got, err := checkHealth(asAlice(t.Context()), &toolset.Call{Kube: kube}, checkHealthInput{Namespace: "coder"})
		if err != nil || got.Status != tc.status || got.Cluster.AggregatedAPI != tc.api || got.Caller.User != "alice" ||
			!strings.Contains(strings.Join(got.Gaps, "\n"), `could not read codercontrolplanes in namespace coder: `) || !strings.Contains(got.Gaps[0], tc.gap) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestCheckHealthLooksAtABoundedNumber(t *testing.T) {
	var all []coderv1alpha1.CoderControlPlane
	for i := range 60 {
		all = append(all, *newControlPlane(fmt.Sprint("cp", i)))
	}
	paged := pagedList(all, func(l client.ObjectList) *[]coderv1alpha1.CoderControlPlane {
		return &l.(*coderv1alpha1.CoderControlPlaneList).Items
	})
	kube := fakeKube(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
		if _, ok := l.(*coderv1alpha1.CoderControlPlaneList); ok {
			return paged.List(ctx, c, l, options...)
		}
		return c.List(ctx, l, options...)
	}}, wellTexts)
	got, err := checkHealth(t.Context(), &toolset.Call{Kube: kube}, checkHealthInput{})
	if err != nil || got.ControlPlanes.Seen != 50 || !got.ControlPlanes.Truncated || got.Status != "ok" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCheckHealthEndsWithItsCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := checkHealth(ctx, &toolset.Call{Kube: denyAll(t)}, checkHealthInput{}); err == nil {
		t.Error("a call that was cancelled gets an answer")
	}
}

func TestCheckHealthNamesWhatItLeavesOut(t *testing.T) {
	objects := []client.Object{newControlPlane("coder")}
	for i := range maxProblems + 1 {
		objects = append(objects, &coderv1alpha1.CoderProvisioner{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: fmt.Sprintf("p%d", i)}})
	}
	continued := interceptor.Funcs{List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := kube.List(ctx, list, options...)
		if _, ok := list.(*coderv1alpha1.CoderWorkspaceProxyList); ok {
			list.SetContinue("more")
		}
		return err
	}}
	got, err := checkHealth(asAlice(t.Context()), &toolset.Call{Kube: fakeKube(t, continued, wellTexts, objects...)}, checkHealthInput{})
	want := []string{
		"only the first 50 coderworkspaceproxies were checked, and there are more",
		"only the first 20 of 21 unhealthy objects are listed; try a namespace",
	}
	if diff := cmp.Diff(want, got.Gaps); diff != "" || err != nil || len(got.Problems) != maxProblems {
		t.Errorf("%v, %d problems (-want +got):\n%s", err, len(got.Problems), diff)
	}
}
