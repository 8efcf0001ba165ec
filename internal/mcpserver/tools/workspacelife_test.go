package tools

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestSetWorkspaceRunning(t *testing.T) {
	for name, tt := range map[string]struct {
		phase       string
		in          setWorkspaceRunningInput
		after       []func(client.Object)
		refuse      error
		wantStarted []string
		wantUpdated bool
		wantPhase   string
		wantError   string
	}{
		"starts a stopped one":             {phase: "Stopped", in: setWorkspaceRunningInput{Running: true}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending"},
		"leaves one that runs":             {phase: "Running", in: setWorkspaceRunningInput{Running: true}, wantPhase: "Running"},
		"leaves one that is stopped":       {phase: "Stopped", in: setWorkspaceRunningInput{}, wantPhase: "Stopped"},
		"leaves one that is starting":      {phase: "Starting", in: setWorkspaceRunningInput{Running: true}, wantPhase: "Starting"},
		"builds again what failed":         {phase: "Failed", in: setWorkspaceRunningInput{Running: true}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending"},
		"builds again what was canceled":   {phase: "Canceled", in: setWorkspaceRunningInput{Running: true}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending"},
		"stops when told to":               {phase: "Running", in: setWorkspaceRunningInput{Confirm: devName}, wantStarted: []string{"stop"}, wantUpdated: true, wantPhase: "Pending"},
		"stops nothing unasked":            {phase: "Running", in: setWorkspaceRunningInput{}, wantError: "nothing was done yet: ask the user"},
		"stops nothing for another":        {phase: "Running", in: setWorkspaceRunningInput{Confirm: "coder.ada.other"}, wantError: "nothing was done: confirm is"},
		"says that it is forbidden":        {phase: "Stopped", in: setWorkspaceRunningInput{Running: true}, refuse: forbidden("coderworkspaces/start"), wantError: "create coderworkspaces/start.aggregation.coder.com coder/coder.ada.dev"},
		"asks nobody what is forbidden":    {phase: "Running", in: setWorkspaceRunningInput{}, refuse: forbidden("coderworkspaces/stop"), wantError: "create coderworkspaces/stop.aggregation.coder.com coder/coder.ada.dev"},
		"passes a conflict on":             {phase: "Stopped", in: setWorkspaceRunningInput{Running: true}, refuse: conflict("coderworkspaces"), wantError: "somebody else has changed it"},
		"waits until it runs":              {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){inPhase("Starting", ""), inPhase("Running", "")}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Running"},
		"waits for what is under way":      {phase: "Starting", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){inPhase("Running", "")}, wantPhase: "Running"},
		"waits until it is stopped":        {phase: "Running", in: setWorkspaceRunningInput{Confirm: devName, Wait: true}, after: []func(client.Object){inPhase("Stopping", ""), inPhase("Stopped", "")}, wantStarted: []string{"stop"}, wantUpdated: true, wantPhase: "Stopped"},
		"says why the build failed":        {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){inPhase("Starting", ""), inPhase("Failed", "no quota")}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Failed", wantError: "the start build failed: no quota; get_build_logs shows the whole log"},
		"says that it vanished meanwhile":  {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){nil}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending", wantError: "workspace coder.ada.dev was deleted in the meantime; list_workspaces shows"},
		"ends when it is deleted":          {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){inPhase("Deleting", "")}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Deleting", wantError: "workspace coder.ada.dev is being deleted; get_workspace"},
		"ends when an agent does not come": {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){agentTimeout}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Running", wantError: `agent "main" did not connect in time; diagnose_workspace`},
		"says how far it is":               {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true, TimeoutSeconds: 1}, wantStarted: []string{"start"}, wantError: "last seen: Pending: the build is in progress"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &steps{t: t, after: tt.after, refuse: tt.refuse}
			tt.in.Namespace, tt.in.Name = "coder", devName
			if tt.in.TimeoutSeconds == 0 {
				tt.in.TimeoutSeconds = 10
			}
			out, err := setWorkspaceRunning(t.Context(), &toolset.Call{Kube: fakeKube(t, api.funcs(), nil, devWorkspace(tt.phase))}, tt.in)
			if !slices.Equal(api.started, tt.wantStarted) {
				t.Errorf("the API is asked to %v, want %v", api.started, tt.wantStarted)
			}
			if tt.wantError != "" {
				wantError(t, err, tt.wantError)
			} else if err != nil {
				t.Fatal(err)
			}
			if tt.wantPhase == "" {
				return
			}
			if out.Updated != tt.wantUpdated || out.Workspace.Phase != tt.wantPhase || out.Message != "" || out.Workspace.Running != tt.in.Running {
				t.Errorf("the answer is %+v", out)
			}
		})
	}
	_, err := setWorkspaceRunning(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil)}, setWorkspaceRunningInput{Namespace: "coder", Name: devName})
	wantError(t, err, `"coder.ada.dev" not found`)
}

// A start or stop that Coder refused is requested again, although spec.running has the value.
func TestSetWorkspaceRunningAgainAfterARefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		phase       string
		running     bool
		wantStarted []string
	}{
		"a refused start":             {"Stopped", true, []string{"start"}},
		"a refused stop":              {"Running", false, []string{"stop"}},
		"another change of a running": {"Running", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ws := devWorkspace(tt.phase)
			ws.Spec.Running = ptr.To(tt.running)
			setCondition(&ws.Status.Conditions, aggregationv1alpha1.ConditionStalled, metav1.ConditionTrue, aggregationv1alpha1.ReasonChangeRefused, "no quota")
			api := &steps{t: t}
			in := setWorkspaceRunningInput{Namespace: "coder", Name: devName, Running: tt.running, Confirm: devName}
			out, err := setWorkspaceRunning(t.Context(), &toolset.Call{Kube: fakeKube(t, api.funcs(), nil, ws)}, in)
			if err != nil || !slices.Equal(api.started, tt.wantStarted) || out.Updated != (tt.wantStarted != nil) {
				t.Errorf("the API is asked to %v, want %v; the answer is %+v, %v", api.started, tt.wantStarted, out, err)
			}
		})
	}
}

// agentTimeout is the state of a workspace that was built, and whose agent never connected.
func agentTimeout(obj client.Object) {
	inPhase("Running", "")(obj)
	status := &obj.(*aggregationv1alpha1.CoderWorkspace).Status
	status.Agents = []aggregationv1alpha1.WorkspaceAgent{{Name: "main", Status: "timeout"}}
	setCondition(&status.Conditions, aggregationv1alpha1.ConditionReady, metav1.ConditionFalse, "AgentsUnavailable", `agent "main" is not connected (timeout)`)
}

// The client gets the reason, the next tool, and the state of the workspace.
func TestABuildThatFailsIsAnError(t *testing.T) {
	for tool, arguments := range map[string]map[string]any{
		"set_workspace_running": {"name": devName, "running": true},
		"create_workspace":      {"owner": "ada", "name": "new", "template": dockerName},
	} {
		api := &steps{t: t, after: []func(client.Object){inPhase("Failed", "no quota")}}
		s := connectTools(t, toolset.Env{Kube: fakeKube(t, api.funcs(), nil, devWorkspace("Stopped"))})
		arguments["namespace"], arguments["wait"] = "coder", true
		result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		said, answer := result.Content[0].(*mcp.TextContent).Text, asJSON(t, result.StructuredContent)
		if !result.IsError || said != "the start build failed: no quota; get_build_logs shows the whole log" ||
			!strings.Contains(answer, `"phase":"Failed"`) || !strings.Contains(answer, `"updated":true`) {
			t.Errorf("%s: error %t: %s, %s", tool, result.IsError, said, answer)
		}
	}
}

func TestSetWorkspaceRunningTellsItsProgress(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	api := &steps{t: t, clock: clk, after: []func(client.Object){inPhase("Starting", ""), inPhase("Running", "")}}
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, api.funcs(), nil, devWorkspace("Stopped")), Clock: clk})
	answer, isError := s.say(t, "set_workspace_running", map[string]any{"namespace": "coder", "name": devName, "running": true, "wait": true})
	want := `,"workspace":{"name":"coder.ada.dev","namespace":"coder","running":true,"phase":"Running","owner":"ada","organization":"coder","template":"docker"},"updated":true}`
	if isError || !strings.HasSuffix(answer, want) {
		t.Fatalf("the answer is %s\nwant %s", answer, want)
	}
	s.wantProgress(t, "Pending: the build is in progress", "Starting: the build is in progress")
}

// The response to an action is the workspace and not the request's body. The fake client
// does not reproduce that.
func TestStartIsARequestThatTheAPITakes(t *testing.T) {
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		phase := "Stopped"
		if len(asked) > 1 {
			phase = "Starting"
		}
		body := `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"namespace":"coder","name":"coder.ada.dev"},"spec":{"running":false},"status":{"phase":"` + phase + `"}}`
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	out, err := setWorkspaceRunning(t.Context(), &toolset.Call{Kube: realKube(t, api.URL)}, setWorkspaceRunningInput{Namespace: "coder", Name: devName, Running: true})
	if err != nil || out.Workspace.Phase != "Starting" {
		t.Errorf("the answer is %+v, %v", out, err)
	}
	want := strings.Split(strings.ReplaceAll("GET PATH|POST PATH/start|GET PATH", "PATH", devPath), "|")
	wantEqual(t, want, asked)
}

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
	wantEqual(t, workspaceResult{Workspace: workspace{Name: devName, Namespace: "coder"}, Updated: true}, out)
	want := aggregationv1alpha1.CoderWorkspaceSpec{
		TemplateName: "docker", TemplateVersionID: newID, TemplateVersionPreset: "large", Running: ptr.To(false),
		TTLMillis: ptr.To[int64](8 * 3600_000), AutostartSchedule: ptr.To("30 9 * * 1-5"),
		Parameters: []aggregationv1alpha1.WorkspaceParameter{{Name: "cpu", Value: "4"}, {Name: "region", Value: "eu"}},
	}
	wantEqual(t, want, served(t, kube, devName, &aggregationv1alpha1.CoderWorkspace{}).Spec)
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

// An object keeps its first name, in lower case, and the API resolves the current names in
// Coder.
func TestCreateWorkspaceUsesTheCurrentNamesInCoder(t *testing.T) {
	for name, tt := range map[string]struct {
		template, organization, nameInCoder string
		unreadable                          error
		wantName, wantTemplate, wantError   string
	}{
		"after a rename":                  {dockerName, "coder", "podman", nil, devName, "podman", ""},
		"after the organization's rename": {dockerName, "Acme", "docker", nil, "acme.ada.dev", "docker", ""},
		"with capital letters":            {dockerName, "coder", "Docker", nil, devName, "Docker", ""},
		"of an object in capital letters": {"Coder.Docker", "coder", "Docker", nil, devName, "Docker", ""},
		"of another control plane":        {"two.coder.docker", "Acme", "Docker", nil, "two.acme.ada.dev", "Docker", ""},
		"of no object":                    {"coder.Podman", "coder", "docker", nil, devName, "Podman", ""},
		"of one that nobody may read":     {dockerName, "coder", "podman", forbidden("codertemplates"), devName, "docker", ""},
		"of one that cannot be read":      {dockerName, "coder", "podman", conflict("codertemplates"), "", "", "get codertemplates.aggregation.coder.com coder/coder.docker"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := dockerTemplate()
			if strings.HasSuffix(tt.template, dockerName) {
				tmpl.Name = tt.template
			}
			tmpl.Status.OrganizationName, tmpl.Status.TemplateName = tt.organization, tt.nameInCoder
			in := newDev()
			in.Template = tt.template
			created := &aggregationv1alpha1.CoderWorkspace{}
			kube := fakeKube(t, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					return cmp.Or(tt.unreadable, c.Get(ctx, key, obj, opts...))
				},
				Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
					created = obj.(*aggregationv1alpha1.CoderWorkspace)
					return nil
				},
			}, nil, tmpl)
			_, err := createWorkspace(t.Context(), &toolset.Call{Kube: kube}, in)
			if tt.wantError != "" {
				wantError(t, err, tt.wantError)
			} else if err != nil {
				t.Error(err)
			}
			if created.Name != tt.wantName || created.Spec.TemplateName != tt.wantTemplate {
				t.Errorf("%s of %s is created, want %s of %s", created.Name, created.Spec.TemplateName, tt.wantName, tt.wantTemplate)
			}
		})
	}
}

func TestCreateWorkspaceRefusesWhatCannotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*createWorkspaceInput)
		want   string
	}{
		"no namespace":      {func(in *createWorkspaceInput) { in.Namespace = "" }, "namespace is required"},
		"no name":           {func(in *createWorkspaceInput) { in.Name = "" }, "name is required"},
		"the object's name": {func(in *createWorkspaceInput) { in.Name = devName }, "give only the workspace's own name"},
		"no owner":          {func(in *createWorkspaceInput) { in.Owner = "" }, `owner "" is not a valid user name`},
		"a parameter as it was read": {func(in *createWorkspaceInput) { in.Parameters = map[string]string{"password": "[redacted]"} },
			`the value of parameter "password" contains [redacted]`},
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
	if err != nil || out.Updated || !strings.HasPrefix(out.Message, wouldBeAccepted("")) || out.Workspace.Name != devName {
		t.Errorf("the answer is %+v, %v", out, err)
	}
}

func TestCreateWorkspaceWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		running   *bool
		after     []func(client.Object)
		wantPhase string
		wantError string
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
			if tt.wantError != "" {
				wantError(t, err, tt.wantError)
			} else if err != nil {
				t.Error(err)
			}
			if out.Workspace.Phase != tt.wantPhase || out.Message != "" || !out.Updated {
				t.Errorf("the answer is %+v, %v", out, err)
			}
		})
	}
}

func deletionFailed(obj client.Object) {
	ws := obj.(*aggregationv1alpha1.CoderWorkspace)
	setCondition(&ws.Status.Conditions, aggregationv1alpha1.ConditionDeletionFailed, metav1.ConditionTrue, "DeletionFailed", "the disk is in use; the deletion is retried")
}

func TestDeleteWorkspace(t *testing.T) {
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, Confirm: devName}
	waiting := in
	waiting.Wait, waiting.TimeoutSeconds = true, 10
	for name, tt := range map[string]struct {
		in       deleteWorkspaceInput
		deleting bool
		after    []func(client.Object)
		want     deleteWorkspaceOutput
		wantErr  string
		wantKept bool
	}{
		"when told to":           {in: in, want: deleteWorkspaceOutput{Updated: true}},
		"not unasked":            {in: deleteWorkspaceInput{Namespace: "coder", Name: devName}, wantErr: "nothing was done yet: ask the user", wantKept: true},
		"not for another":        {in: deleteWorkspaceInput{Namespace: "coder", Name: devName, Confirm: "dev"}, wantErr: `confirm is "dev" and must be "coder.ada.dev"`, wantKept: true},
		"that is being deleted":  {in: deleteWorkspaceInput{Namespace: "coder", Name: devName}, deleting: true, want: deleteWorkspaceOutput{}},
		"and waits for the end":  {in: waiting, after: []func(client.Object){inPhase("Deleting", ""), nil}, want: deleteWorkspaceOutput{Updated: true, Gone: true}},
		"and says why it failed": {in: waiting, after: []func(client.Object){inPhase("Deleting", ""), deletionFailed}, wantErr: "the deletion failed: the disk is in use; the deletion is retried; get_build_logs shows the whole log"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := devWorkspace("Running")
			ws.Finalizers = []string{aggregationv1alpha1.FinalizerWorkspace}
			if tt.deleting {
				ws.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Rfc3339Copy().Time}
			}
			api := &steps{t: t, after: tt.after}
			kube := fakeKube(t, api.funcs(), nil, ws)
			out, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: kube}, tt.in)
			if tt.wantErr != "" {
				wantError(t, err, tt.wantErr)
			} else if err != nil || out.Updated != tt.want.Updated || out.Gone != tt.want.Gone || out.Message != tt.want.Message || out.Workspace.Name != devName {
				t.Errorf("the answer is %+v, %v", out, err)
			}
			now := &aggregationv1alpha1.CoderWorkspace{}
			getErr := kube.Get(t.Context(), client.ObjectKeyFromObject(ws), now)
			if kept := getErr == nil && now.DeletionTimestamp == nil; kept != tt.wantKept {
				t.Errorf("it is kept: %v, want %v", kept, tt.wantKept)
			}
			if apierrors.IsNotFound(getErr) != tt.want.Gone {
				t.Errorf("the answer says gone: %v, and reading it says %v", tt.want.Gone, getErr)
			}
		})
	}
}

func TestDeleteWorkspaceTriesOnly(t *testing.T) {
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, DryRun: true, Wait: true}
	out, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil, devWorkspace("Running"))}, in)
	if err != nil || out.Updated || out.Gone || !strings.HasPrefix(out.Message, wouldBeAccepted("")) {
		t.Errorf("the answer is %+v, %v", out, err)
	}
	_, err = deleteWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil)}, in)
	wantError(t, err, `"coder.ada.dev" not found`)
}

// A workspace of the same name that was created during the confirmation must not be
// deleted.
func TestDeleteWorkspaceDeletesTheOneThatWasAskedAbout(t *testing.T) {
	var asked client.DeleteOptions
	funcs := interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
		asked.ApplyOptions(opts)
		return conflict("coderworkspaces")
	}}
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, Confirm: devName}
	_, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, funcs, nil, devWorkspace("Running"))}, in)
	wantError(t, err, "delete coderworkspaces.aggregation.coder.com coder/coder.ada.dev")
	if asked.Preconditions == nil || asked.Preconditions.UID == nil || *asked.Preconditions.UID != "dev" {
		t.Errorf("the preconditions are %+v", asked.Preconditions)
	}
}

// A caller without permission gets an error and is not asked for confirmation.
func TestDeleteWorkspaceAsksNobodyWhatIsForbidden(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return forbidden("coderworkspaces")
	}}, nil, devWorkspace("Running"))
	_, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: kube}, deleteWorkspaceInput{Namespace: "coder", Name: devName})
	wantError(t, err, "delete coderworkspaces.aggregation.coder.com coder/coder.ada.dev")
}

// TestOrphanWorkspace checks the deletion without a build: the question names what stays, and the
// workspace that is confirmed is the one that is deleted.
func TestOrphanWorkspace(t *testing.T) {
	ws := devWorkspace("Pending")
	ws.Status.ID = "11111111-0000-4000-8000-000000000000"
	ws.Status.LatestBuild.UnmatchedTags = "region=mars"
	labels := map[string]string{aggregationv1alpha1.LabelWorkspaceID: ws.Status.ID}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "dev-0", Labels: labels}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "home", Labels: labels}}
	api := &steps{t: t, after: []func(client.Object){nil}}
	funcs := api.funcs()
	var uids []types.UID
	create := funcs.SubResourceCreate
	funcs.SubResourceCreate = func(ctx context.Context, c client.Client, action string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
		uids = append(uids, body.GetUID())
		return create(ctx, c, action, obj, body, opts...)
	}
	call := &toolset.Call{Kube: fakeKube(t, funcs, nil, ws, pod, claim)}
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, Orphan: true}
	_, err := deleteWorkspace(t.Context(), call, in)
	wantError(t, err, "What its template created stays, in this cluster: Pod other/dev-0, PersistentVolumeClaim coder/home.")
	if len(api.started) > 0 {
		t.Errorf("without a confirmation: %v", api.started)
	}
	in.Confirm, in.Wait, in.TimeoutSeconds = devName, true, 10
	out, err := deleteWorkspace(t.Context(), call, in)
	if err != nil || !out.Updated || !out.Gone || len(out.Left) != 2 || !slices.Equal(api.started, []string{"orphan"}) {
		t.Errorf("the answer is %+v, %v, actions %v", out, err, api.started)
	}
	if slices.ContainsFunc(uids, func(uid types.UID) bool { return uid != "dev" }) {
		t.Errorf("the UIDs are %q", uids)
	}
}

// TestDeleteWorkspaceWithoutProvisioner checks that the wait ends if no provisioner takes the build.
func TestDeleteWorkspaceWithoutProvisioner(t *testing.T) {
	ws := devWorkspace("Running")
	ws.Finalizers = []string{aggregationv1alpha1.FinalizerWorkspace}
	api := &steps{t: t, after: []func(client.Object){func(obj client.Object) {
		ws := obj.(*aggregationv1alpha1.CoderWorkspace)
		ws.Status.LatestBuild.UnmatchedTags = "region=mars"
		setCondition(&ws.Status.Conditions, aggregationv1alpha1.ConditionStalled, metav1.ConditionTrue, aggregationv1alpha1.ReasonNoProvisioner, "no provisioner has region=mars")
	}}}
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, Confirm: devName, Wait: true, TimeoutSeconds: 10}
	_, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, api.funcs(), nil, ws)}, in)
	wantError(t, err, "the deletion failed: no provisioner has region=mars")
}
