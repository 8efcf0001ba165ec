package tools

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestListWorkspacesHasTheAPISelect(t *testing.T) {
	for name, tt := range map[string]struct {
		in                  listWorkspacesInput
		wantFields, wantSet string
	}{
		"everything":             {listWorkspacesInput{}, "", ""},
		"a user's":               {listWorkspacesInput{Owner: "ada"}, "status.ownerName=ada", ""},
		"of a template":          {listWorkspacesInput{Template: "docker"}, "status.templateName=docker", ""},
		"of a listed template":   {listWorkspacesInput{Template: "acme.docker"}, "status.organizationName=acme,status.templateName=docker", ""},
		"of another Coder's":     {listWorkspacesInput{Template: "two.acme.docker"}, "status.organizationName=acme,status.templateName=docker", "aggregation.coder.com/control-plane-name=two"},
		"with capital letters":   {listWorkspacesInput{Namespace: "coder", Template: dockerName}, "status.organizationName=Coder,status.templateName=Docker", ""},
		"that was renamed":       {listWorkspacesInput{Namespace: "coder", Template: "coder.first"}, "status.organizationName=Coder,status.templateName=Docker", ""},
		"of no listed template":  {listWorkspacesInput{Namespace: "coder", Template: "coder.Other"}, "status.organizationName=coder,status.templateName=Other", ""},
		"in a phase":             {listWorkspacesInput{Phase: "failed"}, "status.phase=Failed", ""},
		"that run":               {listWorkspacesInput{Running: ptr.To(true)}, "spec.running=true", ""},
		"that do not":            {listWorkspacesInput{Running: ptr.To(false), Owner: "ada"}, "spec.running=false,status.ownerName=ada", ""},
		"what breaks a selector": {listWorkspacesInput{Owner: "a,b=c"}, `status.ownerName=a\,b\=c`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var fieldsAsked, labelsAsked string
			docker := dockerTemplate()
			docker.Status.OrganizationName, docker.Status.TemplateName = "Coder", "Docker"
			renamed := docker.DeepCopy()
			renamed.Name = "coder.first"
			kube := fakeKube(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) error {
				var o client.ListOptions
				o.ApplyOptions(opts)
				if o.FieldSelector != nil {
					fieldsAsked = o.FieldSelector.String()
				}
				if o.LabelSelector != nil {
					labelsAsked = o.LabelSelector.String()
				}
				if o.Limit != 50 {
					t.Errorf("the API is asked for %d", o.Limit)
				}
				return nil
			}}, nil, docker, renamed)
			if _, err := listWorkspaces(t.Context(), &toolset.Call{Kube: kube}, tt.in); err != nil {
				t.Fatal(err)
			}
			if fieldsAsked != tt.wantFields || labelsAsked != tt.wantSet {
				t.Errorf("the API selects %q and %q, want %q and %q", fieldsAsked, labelsAsked, tt.wantFields, tt.wantSet)
			}
		})
	}
	_, err := listWorkspaces(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil)}, listWorkspacesInput{Phase: "Broken"})
	wantError(t, err, `phase "Broken" is not one of Pending, Starting, Running`)
}

func TestListWorkspacesDescribesThem(t *testing.T) {
	when := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.FixedZone("CEST", 7200)))
	ws := devWorkspace("Running")
	inPhase("Failed", "no quota")(ws)
	ws.Status.Outdated, ws.Status.AutoShutdown, ws.Status.LastUsedAt = true, &when, &when
	ws.Status.WorkspaceName = "renamed"
	out, err := listWorkspaces(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, ws)}, listWorkspacesInput{Namespace: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := listOutput[workspace]{Items: []workspace{{
		Name: devName, Namespace: "coder", Running: true, Phase: "Failed", Reason: "Failed", WorkspaceName: "renamed", Owner: "ada", Organization: "coder",
		Template: "docker", Outdated: true, AutoShutdown: "2026-05-01T10:00:00Z", LastUsedAt: "2026-05-01T10:00:00Z", BuildError: "no quota",
	}}}
	wantEqual(t, want, out)
}

// pagedWorkspaces serves a list in pages, as the API does.
func pagedWorkspaces(all []string) interceptor.Funcs {
	return interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		o.ApplyOptions(opts)
		start := 0
		if o.Continue != "" {
			if _, err := fmt.Sscan(o.Continue, &start); err != nil {
				return apierrors.NewBadRequest("continue is wrong")
			}
		}
		out, end := list.(*aggregationv1alpha1.CoderWorkspaceList), min(start+int(o.Limit), len(all))
		if end < len(all) {
			out.Continue = fmt.Sprint(end)
		}
		for _, name := range all[start:end] {
			out.Items = append(out.Items, aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name}})
		}
		return nil
	}}
}

func TestListWorkspacesPagesHoldEachOnce(t *testing.T) {
	var all, got []string
	for i := range 23 {
		all = append(all, fmt.Sprintf("coder.ada.ws%02d", i))
	}
	call := &toolset.Call{Kube: fakeKube(t, pagedWorkspaces(all), nil)}
	in := listWorkspacesInput{Limit: 5}
	for calls := 1; ; calls++ {
		out, err := listWorkspaces(t.Context(), call, in)
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
	wantEqual(t, all, got)
}

func TestGetWorkspaceTellsItAll(t *testing.T) {
	when := metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC))
	ws := devWorkspace("Running")
	ws.Spec.TTLMillis, ws.Spec.AutostartSchedule = ptr.To[int64](8*3600_000), ptr.To("30 9 * * 1-5")
	ws.Spec.Parameters = []aggregationv1alpha1.WorkspaceParameter{{Name: "cpu", Value: "4"}, {Name: "note", Value: "ghp_0123456789abcdefghijABCDEFGHIJ012345"}, {Name: "db_password", Value: "hunter2x"}, {Name: "token"}}
	ws.Spec.TemplateVersionPreset = "large"
	ws.Status.Agents = []aggregationv1alpha1.WorkspaceAgent{{Name: "main", Status: "connected", LifecycleState: "ready"}}
	ws.Status.LatestBuild.CreatedAt, ws.Status.LatestBuild.Reason = &when, "initiator"
	ws.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Running", Message: "the workspace is running", LastTransitionTime: when}}
	out, err := getWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, ws)}, objectInput{Namespace: "coder", Name: devName})
	if err != nil {
		t.Fatal(err)
	}
	want := workspaceDetails{
		workspace:    workspace{Name: devName, Namespace: "coder", Running: true, Phase: "Running", Owner: "ada", Organization: "coder", Template: "docker"},
		ControlPlane: "coder",
		Conditions:   []condition{{Type: "Ready", Status: "True", Reason: "Running", Message: "the workspace is running", LastTransitionTime: "2026-05-01T10:00:00Z"}},
		Build: &workspaceBuild{Number: 3, Transition: "start", Status: "running", Reason: "initiator", Version: "v1", VersionID: activeID,
			CreatedAt: "2026-05-01T10:00:00Z"},
		Agents:     []workspaceAgent{{Name: "main", Status: "connected", LifecycleState: "ready"}},
		Parameters: map[string]string{"cpu": "4", "note": "ghp_[redacted]", "db_password": "[redacted]", "token": ""},
		Preset:     "large",
		Schedule:   workspaceSchedule{TTL: "8h0m0s", Autostart: "30 9 * * 1-5", AutomaticUpdates: "never"},
	}
	wantEqual(t, want, out.Workspace, cmp.AllowUnexported(workspaceDetails{}))
}

func TestGetWorkspaceOfAnUnbuiltOneHasNoNull(t *testing.T) {
	ws := &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: devName}}
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, interceptor.Funcs{}, nil, ws)})
	answer, isError := s.say(t, "get_workspace", map[string]any{"namespace": "coder", "name": devName})
	want := `,"workspace":{"name":"coder.ada.dev","namespace":"coder","running":false,"conditions":[],"agents":[],"parameters":{},` +
		`"schedule":{"ttl":"never","autostart":"never","dormant":false}}}`
	if !strings.HasSuffix(answer, want) || isError {
		t.Errorf("the answer is %s\nwant %s", answer, want)
	}
}

func TestExcerptsAreShortAndWhole(t *testing.T) {
	for name, s := range map[string]string{
		"short":                      "all of it",
		"as long as fits":            strings.Repeat("x", maxExcerpt),
		"longer":                     strings.Repeat("x", maxExcerpt+1),
		"characters of three bytes":  strings.Repeat("€", maxExcerpt),
		"with a terminal's sequence": "\x1b[31mred\x1b[0m",
	} {
		got := excerpt(s)
		kept := strings.TrimSuffix(got, "…")
		if len(kept) > maxExcerpt || !strings.HasPrefix(strings.ReplaceAll(strings.ReplaceAll(s, "\x1b[31m", ""), "\x1b[0m", ""), kept) {
			t.Errorf("%s: %d bytes: %q", name, len(got), got)
		}
		if cut := len(s) > maxExcerpt; cut != strings.HasSuffix(got, "…") {
			t.Errorf("%s: %q does not say whether it was cut", name, got)
		}
	}
}
