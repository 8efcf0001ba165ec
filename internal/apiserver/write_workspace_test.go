package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestWorkspaceLifecycle(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	created, err := f.workspaces(testNamespace).Create(ctx, workspaceObject("coder.ada.dev", map[string]any{
		"templateName": "starter", "organization": "default", "ttlMillis": int64(3_600_500),
	}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := at(created, "spec", "ttlMillis"); got != "3600000" {
		t.Errorf("ttlMillis is %s", got)
	}
	if _, err := f.workspaces(testNamespace).Create(ctx, workspaceObject("coder.ada.dev", map[string]any{"templateName": "starter"}),
		metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating it again: %v", err)
	}

	running, err := f.workspaces(testNamespace).Get(ctx, "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(running.Object, false, "spec", "running")
	stopped, err := f.workspaces(testNamespace).Update(ctx, running, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stopped.GetResourceVersion() == running.GetResourceVersion() {
		t.Error("the resourceVersion did not change with the object")
	}
	_ = unstructured.SetNestedField(running.Object, "0 9 * * 1-5", "spec", "autostartSchedule")
	if _, err := f.workspaces(testNamespace).Update(ctx, running, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old resourceVersion: %v, want 409", err)
	}
	stopped, err = f.workspaces(testNamespace).Get(ctx, "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at(stopped, "status", "phase") != "Stopped" || condition(stopped, "Ready") != "True Stopped" {
		t.Errorf("after running: false: %v", stopped.Object["status"])
	}

	if err := f.workspaces(testNamespace).Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.workspaces(testNamespace).Get(ctx, "coder.ada.dev", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestWorkspacePatches(t *testing.T) {
	f := newFixture(t)
	f.coder.AddWorkspace("ada", f.template, "dev")
	ctx := t.Context()
	for _, c := range []struct {
		kind types.PatchType
		body string
		want string
	}{
		{types.MergePatchType, `{"spec":{"running":false}}`, "Stopped"},
		{types.JSONPatchType, `[{"op":"replace","path":"/spec/running","value":true}]`, "Running"},
	} {
		got, err := f.workspaces(testNamespace).Patch(ctx, "coder.ada.dev", c.kind, []byte(c.body), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		got, err = f.workspaces(testNamespace).Get(ctx, got.GetName(), metav1.GetOptions{})
		if err != nil || at(got, "status", "phase") != c.want {
			t.Errorf("%s: %v, phase %q, want %q", c.kind, err, at(got, "status", "phase"), c.want)
		}
	}
	applied := workspaceObject("coder.ada.dev", map[string]any{"templateName": "starter", "running": false})
	first, err := f.workspaces(testNamespace).Apply(ctx, "coder.ada.dev", applied, metav1.ApplyOptions{FieldManager: "gitops"})
	if err != nil {
		t.Fatalf("server-side apply of a change: %v", err)
	}
	f.coder.ResetRequests()
	again, err := f.workspaces(testNamespace).Apply(ctx, "coder.ada.dev", applied, metav1.ApplyOptions{FieldManager: "gitops"})
	if err != nil {
		t.Fatal(err)
	}
	if f.coder.Writes() != 0 {
		t.Errorf("the same again wrote to Coder: %v", f.coder.Requests())
	}
	_ = first
	if at(again, "status", "phase") != "Stopped" {
		t.Errorf("phase %q", at(again, "status", "phase"))
	}
	made, err := f.workspaces(testNamespace).Apply(ctx, "coder.ada.fresh",
		workspaceObject("coder.ada.fresh", map[string]any{"templateName": "starter"}), metav1.ApplyOptions{FieldManager: "gitops"})
	if err != nil {
		t.Fatalf("server-side apply of a new object: %v", err)
	}
	if at(made, "status", "ownerName") != "ada" {
		t.Errorf("created %v", made.Object)
	}
}

func TestWorkspaceDeletionTakesTime(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	id := f.coder.AddWorkspace("ada", f.template, "dev")
	ctx := t.Context()
	uid := types.UID("00000000-0000-0000-0000-000000000000")
	err := f.workspaces(testNamespace).Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if !apierrors.IsConflict(err) {
		t.Errorf("deleting another one of that name: %v, want 409", err)
	}
	for range 2 {
		if err := f.workspaces(testNamespace).Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"start", "delete"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
	got, err := f.workspaces(testNamespace).Get(ctx, "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetDeletionTimestamp() == nil || at(got, "status", "phase") != "Deleting" || condition(got, "Ready") != "False Deleting" {
		t.Errorf("while it is being deleted: %v", got.Object)
	}
	f.coder.FinishBuilds()
	if _, err := f.workspaces(testNamespace).Get(ctx, "coder.ada.dev", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("when it is gone: %v", err)
	}
}

func TestWorkspaceDeletionThatFails(t *testing.T) {
	f := newFixture(t)
	id := f.coder.AddWorkspace("ada", f.template, "dev")
	f.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "terraform cannot destroy"})
	if err := f.workspaces(testNamespace).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := f.workspaces(testNamespace).Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetDeletionTimestamp() != nil || condition(got, "Stalled") != "True BuildFailed" {
		t.Errorf("after a deletion that failed: %v", got.Object)
	}
	f.coder.SetBuildResult("dev", coderdtest.BuildResult{})
	if err := f.workspaces(testNamespace).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"start", "delete", "delete"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

func TestActiveBuildIsAConflict(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	if _, err := f.workspaces(testNamespace).Create(t.Context(), workspaceObject("coder.ada.dev",
		map[string]any{"templateName": "starter"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := f.workspaces(testNamespace).Patch(t.Context(), "coder.ada.dev", types.MergePatchType,
		[]byte(`{"spec":{"running":false}}`), metav1.PatchOptions{})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "another build of it is under way") {
		t.Errorf("stopping while it starts: %v", err)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	f := newFixture(t)
	f.coder.AddWorkspace("ada", f.template, "dev")
	ctx, dry := t.Context(), []string{metav1.DryRunAll}
	ws, tmpl := f.workspaces(testNamespace), f.templates(testNamespace)
	for name, try := range map[string]func() error{
		"create a workspace": func() error {
			_, err := ws.Create(ctx, workspaceObject("coder.ada.fresh", map[string]any{"templateName": "starter"}), metav1.CreateOptions{DryRun: dry})
			return err
		},
		"stop a workspace": func() error {
			_, err := ws.Patch(ctx, "coder.ada.dev", types.MergePatchType, []byte(`{"spec":{"running":false,"ttlMillis":60000}}`), metav1.PatchOptions{DryRun: dry})
			return err
		},
		"apply a workspace": func() error {
			_, err := ws.Apply(ctx, "coder.ada.fresh2", workspaceObject("coder.ada.fresh2", map[string]any{"templateName": "starter"}),
				metav1.ApplyOptions{FieldManager: "x", DryRun: dry})
			return err
		},
		"delete a workspace": func() error { return ws.Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{DryRun: dry}) },
		"delete workspaces":  func() error { return ws.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{}) },
		"delete a template":  func() error { return tmpl.Delete(ctx, "coder.starter", metav1.DeleteOptions{DryRun: dry}) },
		"change template files": func() error {
			_, err := tmpl.Patch(ctx, "coder.starter", types.MergePatchType, []byte(`{"spec":{"files":{"main.tf":"# two"}}}`), metav1.PatchOptions{DryRun: dry})
			return err
		},
		"create a template": func() error {
			_, err := tmpl.Create(ctx, templateObject("coder.new", map[string]any{"files": map[string]any{mainTF: "#"}}), metav1.CreateOptions{DryRun: dry})
			return err
		},
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := f.coder.Writes(); n != 0 {
			t.Fatalf("%s: %d writes to Coder: %v", name, n, f.coder.Requests())
		}
	}
	_, err := ws.Create(ctx, workspaceObject("coder.ada.fresh", map[string]any{"templateName": "none"}), metav1.CreateOptions{DryRun: dry})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a dry run with a template that does not exist: %v, want 422", err)
	}
	defer f.coder.Fail(coderdtest.Fault{Status: http.StatusInternalServerError})()
	if got := f.do(t, http.MethodPost, "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces?dryRun=All",
		map[string]string{"Content-Type": "application/json"}, encode(t, workspaceObject("coder.ada.fresh", map[string]any{"templateName": "starter"}))); got.status != http.StatusServiceUnavailable {
		t.Errorf("a dry run while Coder is down: %d, want 503", got.status)
	}
}

func encode(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWorkspacesThatAreRefused(t *testing.T) {
	f := newFixture(t)
	f.coder.AddWorkspace("ada", f.template, "dev")
	second := f.coder.AddTemplate("coder", "second", map[string]string{mainTF: "# x"})
	for name, c := range map[string]struct {
		namespace, name string
		spec            map[string]any
		field, hint     string
	}{
		"one part":             {"", "dev", spec(), "metadata.name", "<organization>.<user>.<workspace>"},
		"upper case":           {"", "coder.ada.Dev", spec(), "metadata.name", "lower case"},
		"another organization": {"", "coder.ada.fresh", spec("organization", "x"), "spec.organization", `must be "coder"`},
		"no template":          {"", "coder.ada.fresh", map[string]any{}, "spec.templateName", "name the template"},
		"stopped":              {"", "coder.ada.fresh", spec("running", false), "spec.running", "starts when it is created"},
		"version, no UUID":     {"", "coder.ada.fresh", spec("templateVersionID", "1"), "spec.templateVersionID", "UUID"},
		"version of another":   {"", "coder.ada.fresh", spec("templateVersionID", f.coder.AddTemplateVersion(second, "", nil).String()), "spec.templateVersionID", "no such version"},
		"short life":           {"", "coder.ada.fresh", spec("ttlMillis", int64(5)), "spec.ttlMillis", "60000"},
		"unknown template":     {"", "coder.ada.fresh", map[string]any{"templateName": "none"}, "spec.templateName", "no such template"},
		"unknown user":         {"", "coder.bob.new", spec(), "metadata.name", `no user "bob"`},
		"unknown organization": {"", "acme.ada.fresh", spec(), "metadata.name", `no organization "acme"`},
		"alias":                {"", "default.ada.fresh", spec(), "metadata.name", `use "coder"`},
		"bad schedule":         {"", "coder.ada.fresh", spec("autostartSchedule", "often"), "spec.autostartSchedule", ""},
		"no control plane":     {"empty", "coder.ada.fresh", spec(), "metadata.namespace", "no CoderControlPlane"},
		"unknown prefix":       {"", "other.coder.ada.fresh", spec(), "metadata.namespace", `"other."`},
	} {
		t.Run(name, func(t *testing.T) {
			ns := testNamespace
			if c.namespace != "" {
				ns = c.namespace
			}
			_, err := f.workspaces(ns).Create(t.Context(), workspaceObject(c.name, c.spec), metav1.CreateOptions{})
			mustBeInvalid(t, err, c.field, c.hint)
		})
	}
	for name, c := range map[string]struct{ patch, field string }{
		"template": {`{"spec":{"templateName":"second"}}`, "spec.templateName"},
		"version":  {`{"spec":{"templateVersionID":"00000000-0000-0000-0000-000000000001"}}`, "spec.templateVersionID"},
		"life":     {`{"spec":{"ttlMillis":1}}`, "spec.ttlMillis"},
		"schedule": {`{"spec":{"autostartSchedule":"often"}}`, "spec.autostartSchedule"},
	} {
		t.Run("change of "+name, func(t *testing.T) {
			_, err := f.workspaces(testNamespace).Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
			mustBeInvalid(t, err, c.field, "")
		})
	}
}

func spec(pairs ...any) map[string]any {
	out := map[string]any{"templateName": "starter"}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

// mustBeInvalid wants 422 with a cause at the field.
func mustBeInvalid(t *testing.T, err error, field, hint string) {
	t.Helper()
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatalf("%v, want 422", err)
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == field && strings.Contains(cause.Message, hint) {
			return
		}
	}
	t.Errorf("%v does not name %s with %q", err, field, hint)
}

func TestMetadataThatIsNotKept(t *testing.T) {
	f := newFixture(t)
	warnings := &recorder{}
	config := restclient.CopyConfig(f.config)
	config.WarningHandlerWithContext = warnings
	f.config = config
	post := func(ctx context.Context, meta string) answer {
		return f.do(t, http.MethodPost, "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces",
			map[string]string{"Content-Type": "application/json"},
			fmt.Sprintf(`{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{%s},"spec":{"templateName":"starter"}}`, meta))
	}
	got := post(t.Context(), `"name":"coder.ada.one","labels":{"a":"b"},"finalizers":["x.example.com/y"]`)
	if w := got.header.Get("Warning"); got.status != http.StatusCreated || !strings.Contains(w, "labels, finalizers are not kept") {
		t.Errorf("%d, Warning %q", got.status, w)
	}
	if strings.Contains(got.body, `"a":"b"`) {
		t.Error("the answer shows labels that are not kept")
	}
	got = post(t.Context(), `"name":"coder.ada.two","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}`)
	if w := got.header.Get("Warning"); got.status != http.StatusCreated || w != "" {
		t.Errorf("kubectl apply is warned: %d, Warning %q", got.status, w)
	}
}

type recorder struct{}

func (*recorder) HandleWarningHeaderWithContext(context.Context, int, string, string) {}

func TestNamespaceDeletionReleases(t *testing.T) {
	f := newFixture(t)
	id := f.coder.AddWorkspace("ada", f.template, "dev")
	ctx := t.Context()
	terminating := namespace(testNamespace)
	now := metav1.Now()
	terminating.DeletionTimestamp, terminating.Finalizers = &now, []string{"kubernetes"}
	// The cache of the server learns of it only later, as it may in a cluster.
	blind := &namespaces{cache: f.server.informers.Core().V1().Namespaces().Lister(), client: f.kube}
	if blind.Released(testNamespace) {
		t.Fatal("released too early")
	}
	if _, err := f.kube.CoreV1().Namespaces().Update(ctx, terminating, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.workspaces(testNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("delete collection: %v", err)
	}
	if err := f.workspaces(testNamespace).Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("delete: %v, want 404", err)
	}
	if err := f.templates(testNamespace).Delete(ctx, "coder.starter", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("delete of a template: %v, want 404", err)
	}
	eventually(t, func() error {
		for _, scope := range []string{testNamespace, ""} {
			list, err := f.workspaces(scope).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if len(list.Items) > 0 {
				return fmt.Errorf("%d workspaces in %q", len(list.Items), scope)
			}
		}
		return nil
	})
	if diff := cmp.Diff([]string{"start"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("the workspace was touched (-want +got):\n%s", diff)
	}
	if f.coder.Writes() != 0 {
		t.Errorf("writes to Coder: %v", f.coder.Requests())
	}
}

func TestDeletionNeedsToKnowTheNamespace(t *testing.T) {
	f := newFixture(t)
	id := f.coder.AddWorkspace("ada", f.template, "dev")
	if err := f.workspaces(testNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "a=b"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"start"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("a collection without it (-want +got):\n%s", diff)
	}
	if err := f.workspaces(testNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"start", "delete"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("the collection (-want +got):\n%s", diff)
	}
}
