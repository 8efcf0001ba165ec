package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestWorkspaceLifecycle(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	created, err := f.ws().Create(ctx, workspaceObject("coder.ada.dev", map[string]any{
		"templateName": "starter", "organization": "default", "ttlMillis": int64(3_600_000),
	}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := at(created, "spec", "ttlMillis"); got != "3600000" {
		t.Errorf("ttlMillis is %s", got)
	}
	if _, err := f.ws().Create(ctx, workspaceObject("coder.ada.dev", map[string]any{"templateName": "starter"}),
		metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating it again: %v", err)
	}

	running := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })
	_ = unstructured.SetNestedField(running.Object, false, "spec", "running")
	stopped, err := f.ws().Update(ctx, running, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stopped.GetResourceVersion() == running.GetResourceVersion() {
		t.Error("the resourceVersion did not change with the object")
	}
	_ = unstructured.SetNestedField(running.Object, "0 9 * * 1-5", "spec", "autostartSchedule")
	if _, err := f.ws().Update(ctx, running, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old resourceVersion: %v, want 409", err)
	}
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return at(ws, "status", "phase") == "Stopped" && condition(ws, "Ready") == "True Stopped" &&
			at(ws, "status", "observedGeneration") == at(ws, "metadata", "generation")
	})

	if err := f.ws().Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.ws(), "coder.ada.dev")
	polltest.Eventually(t, "the records are gone", func() error {
		if left := f.kept(); len(left) > 0 {
			return fmt.Errorf("records are left: %v", left)
		}
		return nil
	})
}

// TestPrebuiltWorkspace creates a workspace for which Coder renames one that it has built in advance. The
// new object replaces that of the prebuilt workspace.
func TestPrebuiltWorkspace(t *testing.T) {
	f := newOwnFixture(t)
	f.coder.AddUser("prebuilds")
	id := f.coder.AddWorkspace("prebuilds", f.template, "one")
	f.hint(id)
	f.workspace(t, "coder.prebuilds.one", func(*unstructured.Unstructured) bool { return true })
	// Until then nothing of it can be changed, except by deleting it, after which Coder builds another one.
	before := f.coder.Writes()
	for _, change := range []string{`{"spec":{"running":false}}`, `{"spec":{"ttlMillis":3600000}}`, `{"spec":{"dormant":true}}`} {
		_, err := f.ws().Patch(t.Context(), "coder.prebuilds.one", types.MergePatchType, []byte(change), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "create a workspace with the preset") {
			t.Errorf("%s: %v", change, err)
		}
	}
	if n := f.coder.Writes() - before; n > 0 {
		t.Errorf("%d requests changed the prebuilt workspace", n)
	}
	spare := f.coder.AddWorkspace("prebuilds", f.template, "two")
	f.hint(spare)
	f.workspace(t, "coder.prebuilds.two", func(*unstructured.Unstructured) bool { return true })
	if err := f.ws().Delete(t.Context(), "coder.prebuilds.two", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	gone(t, f.ws(), "coder.prebuilds.two")
	events := watching(t, f.ws(), metav1.ListOptions{})
	wanted := workspaceObject("coder.ada.dev", spec())
	wanted.SetLabels(map[string]string{"team": "blue"})
	created, err := f.ws().Create(t.Context(), wanted, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if idIn(created) != id.String() {
		t.Errorf("the fake Coder has created %s", idIn(created))
	}
	next(t, events, func(e watch.Event) bool { return reported(e) == "DELETED coder.prebuilds.one" })
	onlyOne := func() {
		t.Helper()
		list, err := f.ws().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"coder.ada.dev"}, names(list)); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	}
	onlyOne()
	f.restart(t)
	f.becomes(t, syncstatus.Ready)
	onlyOne()
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return ws.GetUID() == created.GetUID() && at(ws, "metadata", "labels", "team") == "blue" && condition(ws, "Synced") == "True Synced"
	})
}

func TestWorkspacePatches(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "dev")
	ctx := t.Context()
	for _, c := range []struct {
		kind types.PatchType
		body string
		want string
	}{
		{types.MergePatchType, `{"spec":{"running":false}}`, "Stopped"},
		{types.JSONPatchType, `[{"op":"test","path":"/spec/running","value":false},{"op":"replace","path":"/spec/running","value":true}]`, "Running"},
		{types.ApplyYAMLPatchType, `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","spec":{"running":false}}`, "Stopped"},
	} {
		got, err := f.ws().Patch(ctx, "coder.ada.dev", c.kind, []byte(c.body), metav1.PatchOptions{FieldManager: "tester", Force: force(c.kind)})
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		f.workspace(t, got.GetName(), func(ws *unstructured.Unstructured) bool { return at(ws, "status", "phase") == c.want })
	}
	for name, c := range map[string]struct {
		kind   types.PatchType
		body   string
		status int32
	}{
		"a test that fails":     {types.JSONPatchType, `[{"op":"test","path":"/spec/running","value":true}]`, http.StatusUnprocessableEntity},
		"no JSON":               {types.MergePatchType, `{`, http.StatusBadRequest},
		"no list":               {types.JSONPatchType, `{}`, http.StatusBadRequest},
		"a strategic one":       {types.StrategicMergePatchType, `{"spec":{"running":false}}`, 0},
		"a wrong type":          {types.MergePatchType, `{"spec":{"running":"yes"}}`, http.StatusUnprocessableEntity},
		"another UID":           {types.MergePatchType, `{"metadata":{"uid":"00000000-0000-0000-0000-000000000000"}}`, http.StatusUnprocessableEntity},
		"an old version":        {types.MergePatchType, `{"metadata":{"resourceVersion":"1"},"spec":{"running":true}}`, http.StatusConflict},
		"another name":          {types.MergePatchType, `{"metadata":{"name":"coder.ada.other"}}`, http.StatusBadRequest},
		"the status, and no op": {types.MergePatchType, `{"status":{"phase":"Running"}}`, 0},
	} {
		_, err := f.ws().Patch(ctx, "coder.ada.dev", c.kind, []byte(c.body), metav1.PatchOptions{})
		if code := codeOf(err); code != c.status {
			t.Errorf("%s: %v, want HTTP %d", name, err, c.status)
		}
	}
}

func force(kind types.PatchType) *bool {
	if kind != types.ApplyYAMLPatchType {
		return nil
	}
	return ptr.To(true)
}

// codeOf returns the HTTP status code of an API error, or 0 if there is none.
func codeOf(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

func TestWorkspaceDeletionTakesTime(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	id := f.addWorkspace(t, "dev")
	ctx := t.Context()
	uid := types.UID("00000000-0000-0000-0000-000000000000")
	err := f.ws().Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if !apierrors.IsConflict(err) {
		t.Errorf("deleting another one of that name: %v, want 409", err)
	}
	for range 2 {
		if err := f.ws().Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"start", "delete"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
	got, err := f.ws().Get(ctx, "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetDeletionTimestamp() == nil || at(got, "status", "phase") != "Deleting" || condition(got, "Ready") != "False Deleting" {
		t.Errorf("while it is being deleted: %v", got.Object)
	}
	f.coder.FinishBuilds()
	gone(t, f.ws(), "coder.ada.dev")
}

func TestWorkspaceDeletionThatFails(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	f.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "terraform cannot destroy"})
	if err := f.ws().Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return condition(ws, "DeletionFailed") == "True DeletionFailed"
	})
	if got.GetDeletionTimestamp() == nil || condition(got, "Ready") != "False Deleting" {
		t.Errorf("after a deletion that failed: %v", got.Object)
	}
	if diff := cmp.Diff([]string{"start", "delete"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("it is not tried again at once (-want +got):\n%s", diff)
	}
}

// TestDeletionDuringADeletionInCoder checks that a deletion is not lost that is requested while one runs that a user
// started in Coder: if that fails, the workspace is still being deleted.
func TestDeletionDuringADeletionInCoder(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	id := f.addWorkspace(t, "dev")
	f.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "terraform cannot destroy"})
	client, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: f.coder.AddUser("root", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Build(t.Context(), id, coderd.BuildRequest{Transition: coderd.TransitionDelete}); err != nil {
		t.Fatal(err)
	}
	f.hint(id)
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return ws.GetDeletionTimestamp() != nil })
	if err := f.ws().Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil || len(f.kept()) > 0 {
		t.Errorf("a dry run: %v, %v", err, f.kept())
	}
	for range 2 {
		if err := f.ws().Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.coder.FinishBuilds()
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return ws.GetDeletionTimestamp() != nil && condition(ws, "DeletionFailed") == "True DeletionFailed"
	})
}

func TestChangeDuringABuildIsDoneAfterIt(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	created, err := f.ws().Create(t.Context(), workspaceObject("coder.ada.dev", spec()), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(`{"spec":{"running":false}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at(got, "spec", "running") != "false" || at(got, "metadata", "generation") != "2" || at(got, "status", "observedGeneration") != "1" ||
		condition(got, "Synced") != "False ChangeWaits" {
		t.Errorf("while it starts: %v", got.Object)
	}
	f.coder.FinishBuilds()
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return at(ws, "status", "latestBuild", "transition") == "stop"
	})
	f.coder.FinishBuilds()
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return condition(ws, "Ready") == "True Stopped" && condition(ws, "Synced") == "True Synced" &&
			at(ws, "status", "observedGeneration") == at(ws, "metadata", "generation")
	})
	id := uuid.MustParse(idIn(created))
	if diff := cmp.Diff([]string{"start", "stop"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

func TestStoppedFromTheBeginning(t *testing.T) {
	f := newFixture(t)
	created, err := f.ws().Create(t.Context(), workspaceObject("coder.ada.dev", spec("running", false)), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at(created, "spec", "running") != "false" {
		t.Errorf("created %v", created.Object["spec"])
	}
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return condition(ws, "Ready") == "True Stopped" && condition(ws, "Synced") == "True Synced"
	})
	if diff := cmp.Diff([]string{"start", "stop"}, f.coder.Transitions(uuid.MustParse(idIn(created)))); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	ctx, dry := t.Context(), []string{metav1.DryRunAll}
	f.coder.AddTemplate("coder", "unused", map[string]string{mainTF: "#"})
	ws, tmpl := f.ws(), f.tmpl()
	until(t, tmpl, "coder.unused", func(*unstructured.Unstructured) bool { return true })
	before, err := ws.Get(ctx, "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.coder.ResetRequests()
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
		"update a workspace": func() error {
			changed := before.DeepCopy()
			_ = unstructured.SetNestedField(changed.Object, false, "spec", "running")
			_, err := ws.Update(ctx, changed, metav1.UpdateOptions{DryRun: dry})
			return err
		},
		"label and finalizer": func() error {
			_, err := ws.Patch(ctx, "coder.ada.dev", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/hold"]}}`),
				metav1.PatchOptions{DryRun: dry})
			return err
		},
		"scale to nothing": func() error {
			_, err := ws.Patch(ctx, "coder.ada.dev", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{DryRun: dry}, "scale")
			return err
		},
		"stop": func() error {
			return f.act(t, "coder.ada.dev", "stop?dryRun=All", http.StatusCreated)
		},
		"restart": func() error {
			return f.act(t, "coder.ada.dev", "restart?dryRun=All", http.StatusCreated)
		},
		"orphan": func() error {
			return f.act(t, "coder.ada.dev", "orphan?dryRun=All", http.StatusCreated)
		},
		"change the version of one that runs": func() error {
			_, err := ws.Patch(ctx, "coder.ada.dev", types.MergePatchType, []byte(`{"spec":{"templateVersionID":"`+f.coder.AddTemplateVersion(f.template, "", map[string]string{mainTF: "#"}).String()+`"}}`),
				metav1.PatchOptions{DryRun: dry})
			return err
		},
		"delete a workspace": func() error { return ws.Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{DryRun: dry}) },
		"delete workspaces":  func() error { return ws.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{}) },
		"delete a template":  func() error { return tmpl.Delete(ctx, "coder.unused", metav1.DeleteOptions{DryRun: dry}) },
		"delete a template with a workspace": func() error {
			err := tmpl.Delete(ctx, "coder.starter", metav1.DeleteOptions{DryRun: dry})
			if apierrors.IsConflict(err) {
				return nil
			}
			return errors.Join(errors.New("want a conflict"), err)
		},
		"change template files": func() error {
			_, err := tmpl.Patch(ctx, "coder.starter", types.MergePatchType, []byte(`{"spec":{"files":{"main.tf":"# two"}}}`), metav1.PatchOptions{DryRun: dry})
			return err
		},
		"create a template": func() error {
			_, err := tmpl.Create(ctx, templateObject("coder.fresh", map[string]any{"files": map[string]any{mainTF: "#"}}), metav1.CreateOptions{DryRun: dry})
			return err
		},
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := f.coder.Writes(); n != 0 {
			t.Fatalf("%s: %d writes to Coder: %v", name, n, f.coder.Requests())
		}
		if kept := f.kept(); len(kept) > 0 {
			t.Fatalf("%s: something was recorded: %v", name, kept)
		}
	}
	after, err := ws.Get(ctx, "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object, after.Object); diff != "" {
		t.Errorf("the dry runs changed the workspace %s (-before +after):\n%s", id, diff)
	}
	_, err = ws.Create(ctx, workspaceObject("coder.ada.fresh", map[string]any{"templateName": "none"}), metav1.CreateOptions{DryRun: dry})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a dry run with a template that does not exist: %v, want 422", err)
	}
	defer f.coder.Fail(coderdtest.Fault{Status: http.StatusInternalServerError})()
	if got := f.do(t, http.MethodPost, f.path("coderworkspaces?dryRun=All"),
		map[string]string{"Content-Type": "application/json"}, encode(t, workspaceObject("coder.ada.fresh", map[string]any{"templateName": "starter"}))); got.status != http.StatusServiceUnavailable {
		t.Errorf("a dry run while Coder is down: %d, want 503", got.status)
	}
}

// act sends a POST to a subresource of a workspace.
func (f *fixture) act(t *testing.T, name, action string, want int) error {
	t.Helper()
	got := f.do(t, http.MethodPost, f.path("coderworkspaces/"+name+"/"+action), map[string]string{"Content-Type": "application/json"},
		`{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspaceAction"}`)
	if got.status != want {
		return fmt.Errorf("HTTP %d: %s, want %d", got.status, got.body, want)
	}
	return nil
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
	f.addWorkspace(t, "dev")
	second := f.coder.AddTemplate("coder", "second", map[string]string{mainTF: "# x"})
	for name, c := range map[string]struct {
		namespace, name string
		spec            map[string]any
		field, hint     string
	}{
		"one part":             {"", "dev", spec(), "metadata.name", `must be <organization>.<user>.<workspace>, for example "coder.ada.dev"`},
		"upper case":           {"", "coder.ada.Dev", spec(), "metadata.name", "lower case"},
		"another organization": {"", "coder.ada.fresh", spec("organization", "x"), "spec.organization", `must be "coder"`},
		"no template":          {"", "coder.ada.fresh", map[string]any{}, "spec.templateName", "name the template"},
		"dormant, and running": {"", "coder.ada.fresh", spec("running", true, "dormant", true), "spec.running", "a dormant workspace is stopped"},
		"version, no UUID":     {"", "coder.ada.fresh", spec("templateVersionID", "1"), "spec.templateVersionID", "UUID"},
		"version of another":   {"", "coder.ada.fresh", spec("templateVersionID", f.coder.AddTemplateVersion(second, "", nil).String()), "spec.templateVersionID", "no such version"},
		"short life":           {"", "coder.ada.fresh", spec("ttlMillis", int64(5)), "spec.ttlMillis", "60000"},
		"unknown template":     {"", "coder.ada.fresh", map[string]any{"templateName": "none"}, "spec.templateName", "no such template"},
		"template's object":    {"", "coder.ada.fresh", map[string]any{"templateName": "coder.starter"}, "spec.templateName", `templateName is the name in Coder, without the organization: "starter"`},
		"unknown user":         {"", "coder.bob.fresh", spec(), "metadata.name", `no user "bob"`},
		"unknown organization": {"", "acme.ada.fresh", spec(), "metadata.name", `no organization "acme"`},
		"alias":                {"", "default.ada.fresh", spec(), "metadata.name", `use "coder"`},
		"bad schedule":         {"", "coder.ada.fresh", spec("autostartSchedule", "often"), "spec.autostartSchedule", ""},
		"no control plane":     {"empty", "coder.ada.fresh", spec(), "metadata.namespace", "no CoderControlPlane"},
		"unknown prefix":       {"", "other.coder.ada.fresh", spec(), "metadata.namespace", `"other."`},
	} {
		t.Run(name, func(t *testing.T) {
			ns := f.namespace
			if c.namespace != "" {
				ns = c.namespace
			}
			_, err := f.workspacesIn(ns).Create(t.Context(), workspaceObject(c.name, c.spec), metav1.CreateOptions{})
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
			_, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
			mustBeInvalid(t, err, c.field, "")
		})
	}
}

// TestTheNameInCoderIsNotThatOfTheObject checks that the error for a name in the wrong form
// contains the right form.
func TestTheNameInCoderIsNotThatOfTheObject(t *testing.T) {
	f := newFixture(t)
	for resource, want := range map[string]string{
		"codertemplates":  `"starter" not found; its name must be <organization>.<template>, for example "coder.starter"`,
		"coderworkspaces": `"starter" not found; its name must be <organization>.<user>.<workspace>, for example "coder.ada.starter"`,
	} {
		got := f.do(t, http.MethodGet, f.path(resource+"/starter"), nil, "")
		var said metav1.Status
		if err := json.Unmarshal([]byte(got.body), &said); err != nil || got.status != http.StatusNotFound || !strings.Contains(said.Message, want) {
			t.Errorf("%s: HTTP %d, %q (%v), want 404 with %s", resource, got.status, said.Message, err, want)
		}
	}
}

func spec(pairs ...any) map[string]any {
	out := map[string]any{"templateName": "starter"}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

// mustBeInvalid checks that err is 422 with a cause at the field.
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

func TestNamespaceDeletionReleases(t *testing.T) {
	f := newOwnFixture(t)
	id := f.addWorkspace(t, "dev")
	f.coder.ResetRequests()
	ctx := t.Context()
	terminating := namespace(f.namespace)
	now := metav1.Now()
	terminating.DeletionTimestamp, terminating.Finalizers = &now, []string{"kubernetes"}
	// The server's cache is updated only later, as it may happen in a cluster.
	blind := &namespaces{cache: f.server.informers.Core().V1().Namespaces().Lister(), client: f.kube}
	if blind.Released(f.namespace) {
		t.Fatal("released too early")
	}
	if _, err := f.kube.CoreV1().Namespaces().Update(ctx, terminating, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.ws().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("delete collection: %v", err)
	}
	if err := f.ws().Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("delete: %v, want 404", err)
	}
	if err := f.tmpl().Delete(ctx, "coder.starter", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("delete of a template: %v, want 404", err)
	}
	polltest.Eventually(t, "the workspaces are gone", func() error {
		for _, scope := range []string{f.namespace, ""} {
			list, err := f.workspacesIn(scope).List(ctx, metav1.ListOptions{})
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

func TestDeletionOfACollection(t *testing.T) {
	f := newFixture(t)
	keep, drop := f.addWorkspace(t, "keep"), f.addWorkspace(t, "drop")
	ctx := t.Context()
	if _, err := f.ws().Patch(ctx, "coder.ada.drop", types.MergePatchType, []byte(`{"metadata":{"labels":{"drop":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]metav1.ListOptions{"no such label": {LabelSelector: "a=b"}, "no such owner": {FieldSelector: "status.ownerName=bob"}} {
		if err := f.ws().DeleteCollection(ctx, metav1.DeleteOptions{}, c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if n := len(f.coder.Transitions(drop)); n != 1 {
		t.Fatalf("a collection without it: %d builds", n)
	}
	if err := f.ws().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "drop"}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.ws(), "coder.ada.drop")
	if diff := cmp.Diff([]string{"start"}, f.coder.Transitions(keep)); diff != "" {
		t.Errorf("the other one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"start", "delete"}, f.coder.Transitions(drop)); diff != "" {
		t.Errorf("the one that was chosen (-want +got):\n%s", diff)
	}
	if err := f.ws().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.ws(), "coder.ada.keep")
}
