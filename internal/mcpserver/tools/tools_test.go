package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func fakeClient(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func namedWorkspace(name string) *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name}}
}

func TestListControlPlanesTellsWhyOneIsNotReady(t *testing.T) {
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder"},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			WorkloadStatus: coderv1alpha1.WorkloadStatus{
				Phase: coderv1alpha1.PhasePending, Replicas: 2, ReadyReplicas: 1,
				Conditions: []metav1.Condition{{Type: coderv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "DatabaseUnreachable", Message: "the database does not answer"}},
			},
			URL: "http://coder.coder.svc", Version: "v2.30.0",
		},
	}
	out, err := controlPlanes{client: fakeClient(t, interceptor.Funcs{}, cp)}.list(t.Context(), listControlPlanesInput{})
	if err != nil {
		t.Fatal(err)
	}
	want := listControlPlanesOutput{Items: []controlPlane{{
		Name: "coder", Namespace: "coder", Phase: "Pending", Replicas: 2, ReadyReplicas: 1, URL: "http://coder.coder.svc", Version: "v2.30.0",
		Reason: "DatabaseUnreachable", Message: "the database does not answer",
	}}}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListWorkspacesDescribesThem(t *testing.T) {
	when := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.FixedZone("CEST", 7200)))
	ws := namedWorkspace("default.alice.dev")
	ws.Spec.Running = ptr.To(true)
	ws.Status = aggregationv1alpha1.CoderWorkspaceStatus{Phase: "Failed", OwnerName: "alice", TemplateName: "pod", Outdated: true,
		AutoShutdown: &when, LastUsedAt: &when, LatestBuildError: "no quota"}
	out, err := workspaces{client: fakeClient(t, interceptor.Funcs{}, ws)}.list(t.Context(), listWorkspacesInput{Namespace: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := []workspace{{Name: "default.alice.dev", Namespace: "coder", Running: true, Phase: "Failed", Owner: "alice", Template: "pod", Outdated: true,
		AutoShutdown: "2026-05-01T10:00:00Z", LastUsedAt: "2026-05-01T10:00:00Z", BuildError: "no quota"}}
	if diff := cmp.Diff(want, out.Items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnEmptyListIsNotNull(t *testing.T) {
	session := connect(t, func(s *mcp.Server) { Register(s, fakeClient(t, interceptor.Funcs{})) })
	for _, tool := range []string{"list_control_planes", "list_workspaces"} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Content[0].(*mcp.TextContent).Text; got != `{"items":[],"truncated":false}` {
			t.Errorf("%s answers %s", tool, got)
		}
	}
}

// pagedLists answers lists as the API server does, in pages, or as a server that
// knows no pages does, with everything.
func pagedLists(all []string, paged bool) interceptor.Funcs {
	return interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		o.ApplyOptions(opts)
		out := list.(*aggregationv1alpha1.CoderWorkspaceList)
		start, end := 0, len(all)
		if paged {
			if o.Continue != "" {
				if _, err := fmt.Sscan(o.Continue, &start); err != nil {
					return apierrors.NewBadRequest("continue is wrong")
				}
			}
			if o.Limit > 0 && start+int(o.Limit) < end {
				end = start + int(o.Limit)
				out.Continue = fmt.Sprint(end)
			}
		}
		for _, name := range all[start:end] {
			out.Items = append(out.Items, *namedWorkspace(name))
		}
		return nil
	}}
}

func TestPagesHoldEachItemOnce(t *testing.T) {
	var all []string
	for i := range 23 {
		all = append(all, fmt.Sprintf("default.alice.ws%02d", i))
	}
	for name, paged := range map[string]bool{"a server with pages": true, "a server without pages": false} {
		t.Run(name, func(t *testing.T) {
			ws := workspaces{client: fakeClient(t, pagedLists(all, paged))}
			var got []string
			in := listWorkspacesInput{Limit: 5}
			for calls := 1; ; calls++ {
				out, err := ws.list(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				if len(out.Items) > 5 || out.Truncated != (out.NextCursor != "") {
					t.Fatalf("a page has %d items, truncated %v, cursor %q", len(out.Items), out.Truncated, out.NextCursor)
				}
				for _, item := range out.Items {
					got = append(got, item.Name)
				}
				if !out.Truncated {
					break
				}
				if in.Cursor = out.NextCursor; calls > len(all) {
					t.Fatal("the pages have no end")
				}
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitsHaveBounds(t *testing.T) {
	for limit, want := range map[int]int{0: defaultLimit, -1: defaultLimit, 7: 7, 100000: maxLimit} {
		if p, err := newPage(limit, ""); err != nil || p.limit != want {
			t.Errorf("limit %d becomes %d, %v; want %d", limit, p.limit, err, want)
		}
	}
	for _, cursor := range []string{"x", "eyJvIjotMX0", "e30="} {
		if _, err := newPage(1, cursor); err == nil {
			t.Errorf("the made-up cursor %q is taken", cursor)
		}
	}
}

func TestErrorsAreSentencesThatHelp(t *testing.T) {
	resource := schema.GroupResource{Group: "aggregation.coder.com", Resource: "coderworkspaces"}
	const name = "default.alice.dev"
	tests := map[string]struct {
		err       error
		namespace string
		name      string
		want      string
	}{
		"not found":            {apierrors.NewNotFound(resource, name), "coder", name, "there is no coderworkspaces.aggregation.coder.com coder/default.alice.dev; list them to see which names exist"},
		"forbidden everywhere": {apierrors.NewForbidden(resource, "", errors.New("no")), "", "", `user "alice" may not get coderworkspaces.aggregation.coder.com in all namespaces; give a namespace in which they may, or ask an administrator for the right`},
		"forbidden":            {apierrors.NewForbidden(resource, name, errors.New("no")), "coder", name, `user "alice" may not get coderworkspaces.aggregation.coder.com coder/default.alice.dev; ask an administrator for the right`},
		"no impersonation":     {apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, "alice", errors.New(`User "system:serviceaccount:coder-system:coder-k8s" cannot impersonate resource "users"`)), "coder", name, `the server may not act as user "alice": its own ClusterRole lacks the right to impersonate them; an administrator must add it`},
		"conflict":             {apierrors.NewConflict(resource, name, errors.New("a build is active")), "coder", name, `coderworkspaces.aggregation.coder.com coder/default.alice.dev is being changed by others or by a build that is not finished: Operation cannot be fulfilled on coderworkspaces.aggregation.coder.com "default.alice.dev": a build is active; look at it and call again`},
		"invalid":              {apierrors.NewInvalid(schema.GroupKind{Kind: "CoderWorkspace"}, name, field.ErrorList{field.Invalid(field.NewPath("spec", "ttlMillis"), -1, "must be positive")}), "coder", name, "cannot get coderworkspaces.aggregation.coder.com coder/default.alice.dev: spec.ttlMillis: Invalid value: -1: must be positive"},
		"unavailable":          {apierrors.NewServiceUnavailable("error trying to reach service: dial tcp 10.1.2.3:6443: connect: connection refused"), "coder", name, "cannot get coderworkspaces.aggregation.coder.com coder/default.alice.dev now: error trying to reach service: dial tcp (address): connect: connection refused; try again in 5 s"},
		"too many":             {apierrors.NewTooManyRequests("slow down", 7), "coder", name, "cannot get coderworkspaces.aggregation.coder.com coder/default.alice.dev now: slow down; try again in 7 s"},
		"old cursor":           {apierrors.NewResourceExpired("too old"), "", "", "cursor is too old; leave it out to begin at the start"},
		"not served":           {&meta.NoKindMatchError{}, "", "", "this cluster does not serve coderworkspaces.aggregation.coder.com; is all of coder-k8s installed?"},
		"no answer":            {errors.New("Get https://10.0.0.1:443/apis: dial tcp: no route"), "coder", name, "cannot get coderworkspaces.aggregation.coder.com coder/default.alice.dev: the Kubernetes API did not answer as expected; the log of the server has the details"},
		"too slow":             {context.DeadlineExceeded, "coder", "", "get of coderworkspaces.aggregation.coder.com in namespace coder took too long; ask for less with limit or a namespace, or try again later"},
	}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "alice"})
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			got := sentence(ctx, &callError{verb: "get", resource: workspaceResource, namespace: tc.namespace, name: tc.name, err: tc.err})
			if diff := cmp.Diff(tc.want, got.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongArgumentsAreErrorsThatAModelSees(t *testing.T) {
	session := connect(t, func(s *mcp.Server) { Register(s, fakeClient(t, interceptor.Funcs{})) })
	tests := map[string]struct {
		tool string
		args map[string]any
		says string
	}{
		"an empty name":    {"set_workspace_running", map[string]any{"namespace": "coder", "name": "", "running": true}, "name is required"},
		"an empty place":   {"set_workspace_running", map[string]any{"namespace": "", "name": "x", "running": true}, "namespace is required"},
		"a missing name":   {"set_workspace_running", map[string]any{"namespace": "coder", "running": true}, `"name"`},
		"a wrong type":     {"set_workspace_running", map[string]any{"namespace": "coder", "name": "x", "running": "yes"}, "running"},
		"an unknown one":   {"list_workspaces", map[string]any{"owner": "alice"}, "owner"},
		"a limit too high": {"list_workspaces", map[string]any{"limit": 5000}, "200"},
		"a made-up cursor": {"list_workspaces", map[string]any{"cursor": "next"}, "cursor is not one that this tool gave"},
		"what is not there": {"set_workspace_running", map[string]any{"namespace": "coder", "name": "a.b.c", "running": true},
			"there is no coderworkspaces.aggregation.coder.com coder/a.b.c"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tc.tool, Arguments: tc.args})
			if err != nil {
				t.Fatal(err)
			}
			got := result.Content[0].(*mcp.TextContent).Text
			if !result.IsError || !strings.Contains(got, tc.says) || strings.Contains(got, "\n") {
				t.Errorf("the answer is %q, error %v; want one line with %q", got, result.IsError, tc.says)
			}
		})
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "drop_everything"}); err == nil || !strings.Contains(err.Error(), "drop_everything") {
		t.Errorf("an unknown tool gives %v", err)
	}
}

func TestAConflictThatStaysIsTold(t *testing.T) {
	resource := schema.GroupResource{Resource: "coderworkspaces"}
	updates := 0
	ws := workspaces{client: fakeClient(t, interceptor.Funcs{Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
		updates++
		return apierrors.NewConflict(resource, "x", errors.New("changed"))
	}}, namedWorkspace("default.alice.dev"))}
	_, err := ws.setRunning(t.Context(), setWorkspaceRunningInput{Namespace: "coder", Name: "default.alice.dev", Running: true})
	if !apierrors.IsConflict(err) || updates < 2 {
		t.Errorf("after %d updates the error is %v, want a conflict after several", updates, err)
	}
}
