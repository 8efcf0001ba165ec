package tools

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestUpdateWorkspace(t *testing.T) {
	type spec = aggregationv1alpha1.CoderWorkspaceSpec
	before := func() spec {
		s := devWorkspace("Running").Spec
		s.Parameters = []aggregationv1alpha1.WorkspaceParameter{{Name: "cpu", Value: "2"}}
		s.TTLMillis, s.AutostartSchedule = ptr.To[int64](3600_000), ptr.To("30 9 * * *")
		return s
	}
	unconfirmed := "nothing was done yet: ask the user"
	for name, tt := range map[string]struct {
		in        updateWorkspaceInput
		change    func(*spec)
		wantError string
	}{
		"nothing":                    {in: updateWorkspaceInput{}},
		"what it is already":         {in: updateWorkspaceInput{VersionID: activeID, TTL: "60m", Autostart: "30 9 * * *", AutomaticUpdates: "never", Dormant: ptr.To(false), Parameters: map[string]string{"cpu": "2"}}},
		"the active version it has":  {in: updateWorkspaceInput{VersionID: "active"}},
		"the ttl, unasked":           {in: updateWorkspaceInput{TTL: "8h"}, change: func(s *spec) { s.TTLMillis = ptr.To[int64](8 * 3600_000) }},
		"no ttl any more":            {in: updateWorkspaceInput{TTL: "never"}, change: func(s *spec) { s.TTLMillis = ptr.To[int64](0) }},
		"the autostart, unasked":     {in: updateWorkspaceInput{Autostart: "0 8 * * *"}, change: func(s *spec) { s.AutostartSchedule = ptr.To("0 8 * * *") }},
		"no autostart any more":      {in: updateWorkspaceInput{Autostart: "never"}, change: func(s *spec) { s.AutostartSchedule = ptr.To("") }},
		"automatic updates, unasked": {in: updateWorkspaceInput{AutomaticUpdates: "always"}, change: func(s *spec) { s.AutomaticUpdates = "always" }},
		"the version, unasked":       {in: updateWorkspaceInput{VersionID: newID}, wantError: unconfirmed},
		"the version":                {in: updateWorkspaceInput{VersionID: newID, Confirm: devName}, change: func(s *spec) { s.TemplateVersionID = newID }},
		"a parameter, unasked":       {in: updateWorkspaceInput{Parameters: map[string]string{"cpu": "4"}}, wantError: unconfirmed},
		"a parameter, and a new one": {in: updateWorkspaceInput{Parameters: map[string]string{"cpu": "4", "disk": "9"}, Confirm: devName}, change: func(s *spec) {
			s.Parameters = []aggregationv1alpha1.WorkspaceParameter{{Name: "cpu", Value: "4"}, {Name: "disk", Value: "9"}}
		}},
		"to sleep, unasked": {in: updateWorkspaceInput{Dormant: ptr.To(true)}, wantError: unconfirmed},
		"to sleep":          {in: updateWorkspaceInput{Dormant: ptr.To(true), Confirm: devName}, change: func(s *spec) { s.Dormant, s.Running = ptr.To(true), ptr.To(false) }},
		"a parameter as it was read": {in: updateWorkspaceInput{Parameters: map[string]string{"password": "[redacted]"}},
			wantError: `the value of parameter "password" contains [redacted]`},
		"a ttl that is none": {in: updateWorkspaceInput{TTL: "soon"}, wantError: `ttl "soon"`},
	} {
		t.Run(name, func(t *testing.T) {
			ws := devWorkspace("Running")
			ws.Spec = before()
			writes := 0
			kube := fakeKube(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				if len((&client.UpdateOptions{}).ApplyOptions(opts).DryRun) == 0 {
					writes++
				}
				return c.Update(ctx, obj, opts...)
			}}, nil, ws, dockerTemplate())
			tt.in.Namespace, tt.in.Name = "coder", devName
			out, err := updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, tt.in)
			want := before()
			if tt.change != nil {
				tt.change(&want)
			}
			wantEqual(t, want, served(t, kube, devName, &aggregationv1alpha1.CoderWorkspace{}).Spec)
			changed := tt.change != nil
			if changed != (writes == 1) || writes > 1 {
				t.Errorf("it is written %d times", writes)
			}
			if tt.wantError != "" {
				wantError(t, err, tt.wantError)
				return
			}
			if err != nil || out.Updated != changed || changed == (out.Message != "") || out.Workspace.Phase != "Running" {
				t.Errorf("the answer is %+v, %v", out, err)
			}
		})
	}
}

func TestUpdateWorkspaceToTheActiveVersion(t *testing.T) {
	tmpl := dockerTemplate()
	tmpl.Status.ActiveVersionID = newID
	kube := fakeKube(t, interceptor.Funcs{}, nil, devWorkspace("Running"), tmpl)
	in := updateWorkspaceInput{Namespace: "coder", Name: devName, VersionID: "active", Confirm: devName}
	if out, err := updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, in); err != nil || !out.Updated {
		t.Fatalf("the answer is %+v, %v", out, err)
	}
	if got := served(t, kube, devName, &aggregationv1alpha1.CoderWorkspace{}).Spec.TemplateVersionID; got != newID {
		t.Errorf("the version is %s", got)
	}
	_, err := updateWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, devWorkspace("Running"))}, in)
	wantError(t, err, `no template "docker" in organization "coder"`)

	// The template was renamed, and the workspace was made after that. Another template got its
	// first name.
	ws, other := devWorkspace("Running"), dockerTemplate()
	ws.Spec.TemplateName, ws.Status.TemplateName, tmpl.Status.TemplateName = "podman", "podman", "podman"
	other.Name = "coder.docker--1a2b3c4d"
	kube = fakeKube(t, interceptor.Funcs{}, nil, ws, tmpl, other)
	if out, err := updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, in); err != nil || !out.Updated {
		t.Fatalf("the answer is %+v, %v", out, err)
	}
	if got := served(t, kube, devName, &aggregationv1alpha1.CoderWorkspace{}).Spec.TemplateVersionID; got != newID {
		t.Errorf("the version is %s", got)
	}
}

func TestUpdateWorkspaceAgainWhereSomebodyElseWrote(t *testing.T) {
	other := func(obj client.Object) { obj.(*aggregationv1alpha1.CoderWorkspace).Spec.TTLMillis = nil }
	ws := devWorkspace("Stopped")
	ws.Spec.TTLMillis = ptr.To[int64](3600_000)
	kube := fakeKube(t, failingUpdates(other, conflict("coderworkspaces")), nil, ws)
	out, err := updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, updateWorkspaceInput{Namespace: "coder", Name: devName, AutomaticUpdates: "always"})
	if err != nil || !out.Updated {
		t.Fatalf("the answer is %+v, %v", out, err)
	}
	spec := served(t, kube, devName, &aggregationv1alpha1.CoderWorkspace{}).Spec
	if spec.AutomaticUpdates != "always" || spec.TTLMillis != nil {
		t.Errorf("the spec is %+v", spec)
	}
	conflicts := []error{}
	for range 10 {
		conflicts = append(conflicts, conflict("coderworkspaces"))
	}
	kube = fakeKube(t, failingUpdates(nil, conflicts...), nil, devWorkspace("Stopped"))
	_, err = updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, updateWorkspaceInput{Namespace: "coder", Name: devName, TTL: "8h"})
	wantError(t, err, "somebody else has changed it")
}

func TestUpdateWorkspaceTriesOnly(t *testing.T) {
	kube := fakeKube(t, refuseWrites(t), nil, devWorkspace("Running"))
	in := updateWorkspaceInput{Namespace: "coder", Name: devName, VersionID: newID, DryRun: true, Wait: true}
	out, err := updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, in)
	if err != nil || out.Updated || !strings.HasPrefix(out.Message, wouldBeAccepted("")) {
		t.Errorf("the answer is %+v, %v", out, err)
	}
}

func TestUpdateWorkspaceSaysWhatIsWrong(t *testing.T) {
	refused := apierrors.NewInvalid(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace").GroupKind(), devName, field.ErrorList{
		field.Invalid(field.NewPath("spec", "autostartSchedule"), "often", "is no schedule"),
	})
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, failingUpdates(nil, refused), nil, devWorkspace("Running"))})
	answer, isError := s.say(t, "update_workspace", map[string]any{"namespace": "coder", "name": devName, "autostart": "often"})
	want := `cannot update coderworkspaces.aggregation.coder.com coder/coder.ada.dev: spec.autostartSchedule: Invalid value: "often": is no schedule`
	if !isError || answer != want {
		t.Errorf("the answer is %s\nwant %s", answer, want)
	}
}

func TestUpdateWorkspaceWaits(t *testing.T) {
	api := &steps{t: t, after: []func(client.Object){inPhase("Starting", ""), inPhase("Running", "")}}
	funcs := api.funcs()
	funcs.Update = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
		if err := c.Update(ctx, obj, opts...); err != nil {
			return err
		}
		inPhase("Pending", "")(obj)
		return c.Status().Update(ctx, obj)
	}
	kube := fakeKube(t, funcs, nil, devWorkspace("Running"))
	in := updateWorkspaceInput{Namespace: "coder", Name: devName, VersionID: newID, Confirm: devName, Wait: true, TimeoutSeconds: 10}
	out, err := updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, in)
	if err != nil || out.Workspace.Phase != "Running" || !out.Updated {
		t.Errorf("the answer is %+v, %v", out, err)
	}
	api.after = []func(client.Object){inPhase("Failed", "no quota")}
	in.VersionID = activeID
	out, err = updateWorkspace(t.Context(), &toolset.Call{Kube: kube}, in)
	wantError(t, err, "the start build failed: no quota; get_build_logs shows the whole log")
	if out.Workspace.Phase != "Failed" || !out.Updated {
		t.Errorf("the answer is %+v, %v", out, err)
	}
}

func TestUpdateWorkspaceShowsNothingThatIsNoMore(t *testing.T) {
	const begin = `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"namespace":"coder","name":"coder.ada.dev"},`
	kube := answering(t,
		begin+`"spec":{"autostartSchedule":"0 8 * * *"},"status":{"phase":"Failed","latestBuildError":"no quota"}}`,
		conflictAnswer,
		begin+`"spec":{},"status":{"phase":"Failed","latestBuildError":"no quota"}}`,
		begin+`"spec":{"automaticUpdates":"always"},"status":{"phase":"Running"}}`)
	ws, err := readWorkspace(t.Context(), kube, "coder", devName)
	if err != nil {
		t.Fatal(err)
	}
	updated, err := updateWorkspaceInput{AutomaticUpdates: "always"}.write(t.Context(), &toolset.Call{Kube: kube}, ws, false)
	if err != nil || !updated || ws.Status.LatestBuildError != "" || ws.Spec.AutostartSchedule != nil {
		t.Errorf("updated %v, %v: %+v", updated, err, ws)
	}
}
