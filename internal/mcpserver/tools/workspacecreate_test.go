package tools

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func newDev() createWorkspaceInput {
	return createWorkspaceInput{Namespace: "coder", Owner: "Ada", Name: "dev", Template: dockerName}
}

func TestCreateWorkspaceAsksForWhatWasGiven(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{}, nil)
	in := newDev()
	in.VersionID, in.Preset, in.TTL, in.Autostart, in.Running = newID, "large", "8h", "30 9 * * 1-5", ptr.To(false)
	in.Parameters = map[string]string{"region": "eu", "cpu": "4"}
	out, err := createWorkspace(t.Context(), &toolset.Call{Kube: kube}, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(workspaceResult{Workspace: workspace{Name: devName, Namespace: "coder"}, Updated: true}, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := aggregationv1alpha1.CoderWorkspaceSpec{
		TemplateName: "docker", TemplateVersionID: newID, TemplateVersionPreset: "large", Running: ptr.To(false),
		TTLMillis: ptr.To[int64](8 * 3600_000), AutostartSchedule: ptr.To("30 9 * * 1-5"),
		Parameters: []aggregationv1alpha1.WorkspaceParameter{{Name: "cpu", Value: "4"}, {Name: "region", Value: "eu"}},
	}
	if diff := cmp.Diff(want, served(t, kube, devName, &aggregationv1alpha1.CoderWorkspace{}).Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCreateWorkspaceNamesItLikeItsTemplate(t *testing.T) {
	for template, want := range map[string]string{"coder.docker": "coder.ada.dev", "two.acme.docker": "two.acme.ada.dev"} {
		in := newDev()
		in.Template = template
		if out, err := createWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil)}, in); err != nil || out.Workspace.Name != want {
			t.Errorf("of %s it is called %q, %v; want %q", template, out.Workspace.Name, err, want)
		}
	}
}

func TestCreateWorkspaceRefusesWhatCannotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*createWorkspaceInput)
		want   string
	}{
		"no namespace":           {func(in *createWorkspaceInput) { in.Namespace = "" }, "namespace is required"},
		"no name":                {func(in *createWorkspaceInput) { in.Name = "" }, "name is required"},
		"the object's name":      {func(in *createWorkspaceInput) { in.Name = devName }, "give only the workspace's own name"},
		"no owner":               {func(in *createWorkspaceInput) { in.Owner = "" }, `owner "" is not a valid user name`},
		"an owner with a dot":    {func(in *createWorkspaceInput) { in.Owner = "coder.ada" }, "is not a valid user name in Coder"},
		"a template alone":       {func(in *createWorkspaceInput) { in.Template = "docker" }, "must be organization.template"},
		"a template without end": {func(in *createWorkspaceInput) { in.Template = "coder." }, "must be organization.template"},
		"a ttl in words":         {func(in *createWorkspaceInput) { in.TTL = "1 day" }, `ttl "1 day" is not a valid duration`},
		"a ttl that is short":    {func(in *createWorkspaceInput) { in.TTL = "59s" }, "give at least 1m"},
		"no ttl":                 {func(in *createWorkspaceInput) { in.TTL = "never" }, "omit ttl"},
	} {
		t.Run(name, func(t *testing.T) {
			in := newDev()
			tt.change(&in)
			_, err := createWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil)}, in)
			wantError(t, err, tt.want)
		})
	}
}

func TestCreateWorkspaceSaysWhatIsMissing(t *testing.T) {
	kind := aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace").GroupKind()
	missing := apierrors.NewInvalid(kind, devName, field.ErrorList{
		field.Required(field.NewPath("spec", "parameters").Key("region"), `the template has no default for this parameter: give a string, one of "eu", "us"`),
	})
	create := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err }}
	}
	arguments := map[string]any{"namespace": "coder", "owner": "ada", "name": "dev", "template": dockerName}
	const object = "coderworkspaces.aggregation.coder.com coder/coder.ada.dev"
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"a parameter": {missing, "cannot create " + object + `: spec.parameters[region]: Required value: the template has no default for this parameter: give a string, one of "eu", "us"`},
		"the right":   {forbidden("coderworkspaces"), `user "alice" may not create ` + object + "; ask an administrator for the permission"},
		"a free name": {apierrors.NewAlreadyExists(aggregationv1alpha1.Resource("coderworkspaces"), devName), object + " already exists; use another name, or update the existing object"},
	} {
		t.Run(name, func(t *testing.T) {
			s := connectTools(t, toolset.Env{Kube: fakeKube(t, create(tt.err), nil)})
			if answer, isError := s.say(t, "create_workspace", arguments); !isError || answer != tt.want {
				t.Errorf("the answer is %s\nwant %s", answer, tt.want)
			}
		})
	}
}

func TestCreateWorkspaceTriesOnly(t *testing.T) {
	in := newDev()
	in.DryRun, in.Wait = true, true
	out, err := createWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil)}, in)
	if err != nil || out.Updated || out.Message != wouldBeAccepted || out.Workspace.Name != devName {
		t.Errorf("the answer is %+v, %v", out, err)
	}
}

func TestCreateWorkspaceWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		running     *bool
		after       []func(client.Object)
		wantPhase   string
		wantMessage string
	}{
		"until it runs":       {nil, []func(client.Object){inPhase("Starting", ""), inPhase("Running", "")}, "Running", ""},
		"until it is stopped": {ptr.To(false), []func(client.Object){inPhase("Running", ""), inPhase("Stopping", ""), inPhase("Stopped", "")}, "Stopped", ""},
		"until it has failed": {nil, []func(client.Object){inPhase("Failed", "no quota")}, "Failed", "the start build failed: no quota; get_build_logs shows the whole log"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &steps{t: t, after: tt.after}
			in := newDev()
			in.Running, in.Wait, in.TimeoutSeconds = tt.running, true, 10
			// The fake client keeps the status only for kinds with a status subresource.
			other := devWorkspace("Running")
			other.Name = "coder.ada.other"
			kube := fakeKube(t, api.funcs(), nil, other)
			out, err := createWorkspace(t.Context(), &toolset.Call{Kube: kube}, in)
			if err != nil || out.Workspace.Phase != tt.wantPhase || out.Message != tt.wantMessage || !out.Updated {
				t.Errorf("the answer is %+v, %v", out, err)
			}
		})
	}
}
