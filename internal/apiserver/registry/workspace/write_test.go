package workspace

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

const devName = "coder.ada.dev"

func TestCreate(t *testing.T) {
	w := newFixture(t)
	made, err := w.create(newWorkspace(devName, labelled("team", "blue"), parameter("size", "2"), func(ws *aggregationv1alpha1.CoderWorkspace) {
		ws.Spec.TTLMillis, ws.Spec.AutomaticUpdates = ptr.To[int64](3_600_500), "always"
		ws.Labels[aggregationv1alpha1.LabelControlPlaneName] = "forged"
	}))
	w.must(err)
	w.mirror()
	ws := w.object(devName)
	if diff := cmp.Diff(made.Spec, ws.Spec); diff != "" {
		t.Errorf("the answer and the log (-answer +log):\n%s", diff)
	}
	want := aggregationv1alpha1.CoderWorkspaceSpec{
		Organization: "coder", TemplateName: "starter", TemplateVersionID: ws.Status.LatestBuild.TemplateVersionID,
		Parameters: []aggregationv1alpha1.WorkspaceParameter{{Name: "size", Value: "2"}},
		Running:    ptr.To(true), TTLMillis: ptr.To[int64](3_600_000), AutomaticUpdates: "always", Dormant: ptr.To(false),
		AutostartSchedule: ptr.To(""),
	}
	if diff := cmp.Diff(want, ws.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ws.Labels["team"] != "blue" || ws.Generation != 1 || ws.Status.ObservedGeneration != 1 || conditionOf(ws, "Ready") != "True Running" {
		t.Errorf("%+v %+v", ws.ObjectMeta, ws.Status)
	}
	if _, err := w.create(newWorkspace(devName)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("again: %v", err)
	}
	if got := w.transitions(ws); got != "start" {
		t.Errorf("builds %s", got)
	}
}

// TestCreateAfterLostAnswer checks that the metadata is kept if Coder completes an earlier attempt
// between the check of the next attempt and its request.
func TestCreateAfterLostAnswer(t *testing.T) {
	w := newFixture(t)
	ada, _ := w.coder.User("ada")
	w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/" + ada.ID.String() + "/workspaces", Processed: true, Status: http.StatusBadGateway, Times: 1})
	if _, err := w.create(newWorkspace(devName, labelled("team", "blue"))); !apierrors.IsTimeout(err) {
		t.Fatalf("without an answer: %v", err)
	}
	remove := w.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/users/ada/workspace/dev", Status: http.StatusNotFound})
	if _, err := w.create(newWorkspace(devName, labelled("team", "blue"))); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("the next attempt: %v", err)
	}
	remove()
	w.mirror()
	if ws := w.object(devName); ws == nil || ws.Labels["team"] != "blue" {
		t.Errorf("the object is %+v", ws)
	}
}

func TestCreateStopped(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	ws, err := w.create(newWorkspace(devName, running(false)))
	w.must(err)
	if *ws.Spec.Running || ws.Status.ObservedGeneration != 0 || conditionOf(ws, "Synced") != "False ChangeWaits" || conditionOf(ws, "Ready") == "True Stopped" {
		t.Errorf("while it is built: running %t, observed %d, %+v", *ws.Spec.Running, ws.Status.ObservedGeneration, ws.Status.Conditions)
	}
	w.mirror()
	if got := w.transitions(ws); got != "start" {
		t.Errorf("builds %s while it is built", got)
	}
	w.coder.FinishBuilds()
	w.mirror()
	w.coder.FinishBuilds()
	w.mirror()
	ws = w.object(devName)
	if w.transitions(ws) != "start stop" || conditionOf(ws, "Ready") != "True Stopped" || ws.Generation != 1 || ws.Status.ObservedGeneration != 1 ||
		conditionOf(ws, "Synced") != "True Synced" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status)
	}
}

func TestCreateDormant(t *testing.T) {
	w := newFixture(t)
	_, err := w.create(newWorkspace(devName, func(ws *aggregationv1alpha1.CoderWorkspace) {
		ws.Spec.Dormant = ptr.To(true)
		ws.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "gitops", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:dormant":{}}}`)}}
	}))
	w.must(err)
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop" || conditionOf(ws, "Ready") != "True Dormant" || !*ws.Spec.Dormant {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status)
	}
	_, err = w.update(t.Context(), devName, running(true))
	wantInvalid(t, err, "spec.running", "dormant")
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) {
		ws.Spec.Dormant, ws.Spec.Running = ptr.To(false), ptr.To(true)
	})
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop start" || conditionOf(ws, "Ready") != "True Running" || *ws.Spec.Dormant {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status)
	}
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.Dormant = ptr.To(true) })
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop start stop" || conditionOf(ws, "Ready") != "True Dormant" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status)
	}
}

func TestPreset(t *testing.T) {
	w := newFixture(t)
	preset := func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionPreset = "big" }
	_, err := w.create(newWorkspace(devName, preset, parameter("note", "mine")))
	w.must(err)
	w.mirror()
	ws := w.object(devName)
	values, err := w.kind.valuesOf(t.Context(), w.provider.connection, w.item(ws))
	w.must(err)
	if values["size"] != "4" || values["note"] != "mine" || ws.Spec.TemplateVersionPreset != "big" || len(ws.Spec.Parameters) != 1 {
		t.Errorf("values %v, spec %+v", values, ws.Spec)
	}
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.Parameters = nil })
	if got := w.transitions(ws); got != "start" {
		t.Errorf("naming a parameter no longer builds: %s", got)
	}
	_, err = w.update(t.Context(), devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionPreset = "none" })
	wantInvalid(t, err, "spec.templateVersionPreset", `"big"`)
}

func TestUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		changes []func(*aggregationv1alpha1.CoderWorkspace)
		builds  string
		check   func(ws *aggregationv1alpha1.CoderWorkspace) bool
	}{
		"stop": {[]func(*aggregationv1alpha1.CoderWorkspace){running(false)}, "start stop",
			func(ws *aggregationv1alpha1.CoderWorkspace) bool {
				return !*ws.Spec.Running && ws.Status.Phase == "Stopped"
			}},
		"stop and start": {[]func(*aggregationv1alpha1.CoderWorkspace){running(false), running(true)}, "start stop start",
			func(ws *aggregationv1alpha1.CoderWorkspace) bool {
				return ws.Status.Phase == "Running" && ws.Generation == 3
			}},
		"life": {[]func(*aggregationv1alpha1.CoderWorkspace){func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TTLMillis = ptr.To[int64](120_000) }}, "start",
			func(ws *aggregationv1alpha1.CoderWorkspace) bool { return *ws.Spec.TTLMillis == 120_000 }},
		"schedule": {[]func(*aggregationv1alpha1.CoderWorkspace){func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.AutostartSchedule = ptr.To("0 9 * * 1-5") }}, "start",
			func(ws *aggregationv1alpha1.CoderWorkspace) bool { return *ws.Spec.AutostartSchedule == "0 9 * * 1-5" }},
		"automatic updates": {[]func(*aggregationv1alpha1.CoderWorkspace){func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.AutomaticUpdates = "always" }}, "start",
			func(ws *aggregationv1alpha1.CoderWorkspace) bool { return ws.Spec.AutomaticUpdates == "always" }},
		"parameter": {[]func(*aggregationv1alpha1.CoderWorkspace){parameter("size", "3")}, "start stop start",
			func(ws *aggregationv1alpha1.CoderWorkspace) bool { return ws.Spec.Parameters[0].Value == "3" }},
		"parameter as it is": {[]func(*aggregationv1alpha1.CoderWorkspace){parameter("note", "none")}, "start",
			func(ws *aggregationv1alpha1.CoderWorkspace) bool { return ws.Spec.Parameters[0].Value == "none" }},
		"all at once": {[]func(*aggregationv1alpha1.CoderWorkspace){func(ws *aggregationv1alpha1.CoderWorkspace) {
			running(false)(ws)
			parameter("size", "3")(ws)
			ws.Spec.TTLMillis = ptr.To[int64](60_000)
		}}, "start stop", func(ws *aggregationv1alpha1.CoderWorkspace) bool {
			return ws.Spec.Parameters[0].Value == "3" && *ws.Spec.TTLMillis == 60_000 && ws.Generation == 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.coder.AddWorkspace("ada", w.template, "dev")
			w.mirror()
			for _, change := range c.changes {
				answer := w.mustUpdate(devName, change)
				if conditionOf(answer, "Synced") == "False ChangeWaits" {
					// It is stopped first.
					w.mirror()
					answer = w.object(devName)
				}
				if answer.Generation != answer.Status.ObservedGeneration {
					t.Errorf("generation %d, observed %d", answer.Generation, answer.Status.ObservedGeneration)
				}
				w.mirror()
			}
			ws := w.object(devName)
			if got := w.transitions(ws); got != c.builds || !c.check(ws) {
				t.Errorf("builds %q, want %q: %+v", got, c.builds, ws.Spec)
			}
			w.coder.ResetRequests()
			w.mustUpdate(devName, c.changes[len(c.changes)-1])
			w.mirror()
			if n := w.coder.Writes(); n != 0 {
				t.Errorf("the same again makes %d writes: %v", n, w.coder.Requests())
			}
		})
	}
}

func TestVersion(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	second := w.coder.AddTemplateVersion(w.template, "second", map[string]string{"main.tf": templateFiles}).String()
	pin := func(id string) func(*aggregationv1alpha1.CoderWorkspace) {
		return func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionID = id }
	}
	w.mustUpdate(devName, pin(second))
	w.mirror()
	if ws := w.object(devName); ws.Spec.TemplateVersionID != second || w.transitions(ws) != "start stop start" || ws.Generation != 2 {
		t.Errorf("builds %s, generation %d, spec %+v", w.transitions(ws), ws.Generation, ws.Spec)
	}
	other := w.coder.AddTemplate("coder", "other", map[string]string{"main.tf": "# x"})
	foreign := w.coder.AddTemplateVersion(other, "", nil).String()
	for id, hint := range map[string]string{"1": "UUID", uuid.NewString(): "no such version", foreign: "no such version"} {
		_, err := w.update(t.Context(), devName, pin(id))
		wantInvalid(t, err, "spec.templateVersionID", hint)
		_, err = w.create(newWorkspace("coder.ada.fresh", pin(id)))
		wantInvalid(t, err, "spec.templateVersionID", hint)
	}
}

func TestWaitingChange(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.mustUpdate(devName, running(false))
	ws := w.mustUpdate(devName, running(true))
	if !*ws.Spec.Running || ws.Generation != 3 || ws.Status.ObservedGeneration != 2 || conditionOf(ws, "Synced") != "False ChangeWaits" {
		t.Errorf("a start while it stops: running %t, generation %d, observed %d, %s", *ws.Spec.Running, ws.Generation, ws.Status.ObservedGeneration, conditionOf(ws, "Synced"))
	}
	ws = w.mustUpdate(devName, parameter("size", "5"))
	if ws.Generation != 4 || ws.Status.ObservedGeneration != 2 || ws.Spec.Parameters[0].Value != "5" {
		t.Errorf("one more: generation %d, observed %d, %+v", ws.Generation, ws.Status.ObservedGeneration, ws.Spec)
	}
	ws = w.mustUpdate(devName, labelled("a", "b"))
	if ws.Status.ObservedGeneration != 2 || conditionOf(ws, "Synced") != "False ChangeWaits" {
		t.Errorf("a label: observed %d, %s", ws.Status.ObservedGeneration, conditionOf(ws, "Synced"))
	}
	w.restart()
	w.mirror()
	if got := w.transitions(ws); got != "start stop" {
		t.Errorf("builds %s while it stops", got)
	}
	w.coder.FinishBuilds()
	w.mirror()
	w.coder.FinishBuilds()
	w.mirror()
	ws = w.object(devName)
	if w.transitions(ws) != "start stop start" || ws.Status.ObservedGeneration != 4 || ws.Generation != 4 || conditionOf(ws, "Ready") != "True Running" {
		t.Errorf("builds %s, generation %d, %+v", w.transitions(ws), ws.Generation, ws.Status)
	}
	// A change that is reverted while it waits is never applied.
	w.mustUpdate(devName, running(false))
	w.mustUpdate(devName, running(true))
	ws = w.mustUpdate(devName, running(false))
	if conditionOf(ws, "Synced") != "True Synced" || ws.Generation != ws.Status.ObservedGeneration {
		t.Errorf("taken back: %s, %d, %d", conditionOf(ws, "Synced"), ws.Generation, ws.Status.ObservedGeneration)
	}
	w.coder.FinishBuilds()
	w.mirror()
	if got := w.transitions(ws); got != "start stop start stop" {
		t.Errorf("builds %s", got)
	}
}

func TestCoderSaysConflict(t *testing.T) {
	w := newFixture(t)
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/workspaces/" + id.String(), Status: http.StatusConflict, Times: 1})
	ws := w.mustUpdate(devName, running(false))
	if conditionOf(ws, "Synced") != "False ChangeWaits" {
		t.Errorf("%+v", ws.Status.Conditions)
	}
	w.mirror()
	if ws = w.object(devName); w.transitions(ws) != "start stop" || conditionOf(ws, "Ready") != "True Stopped" {
		t.Errorf("builds %s", w.transitions(ws))
	}
}

func TestRefusedLater(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.mustUpdate(devName, running(false))
	w.mustUpdate(devName, running(true))
	w.coder.FinishBuilds()
	path := "/api/v2/workspaces/" + id.String() + "/builds"
	lift := w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: path, Status: http.StatusBadRequest, Message: "Not today."})
	w.mirror()
	ws := w.object(devName)
	if conditionOf(ws, "Synced") != "False ChangeRefused" || conditionOf(ws, "Ready") != "False ChangeRefused" || conditionOf(ws, "Stalled") != "True ChangeRefused" ||
		!*ws.Spec.Running || ws.Generation != ws.Status.ObservedGeneration {
		t.Errorf("%+v %+v", ws.Spec, ws.Status)
	}
	lift()
	w.coder.ResetRequests()
	w.mirror()
	w.mustUpdate(devName, labelled("a", "b"))
	if n := w.coder.Writes(); n != 0 {
		t.Errorf("tried again without a change: %v", w.coder.Requests())
	}
	w.mustUpdate(devName, parameter("size", "2"))
	w.coder.FinishBuilds()
	w.mirror()
	if ws = w.object(devName); conditionOf(ws, "Synced") != "True Synced" || ws.Status.Phase != "Running" {
		t.Errorf("%+v", ws.Status)
	}
}

// TestDeletedTokenIsReplaced checks that a waiting change of a mapped user is applied although Coder
// has deleted the user's tokens meanwhile.
func TestDeletedTokenIsReplaced(t *testing.T) {
	for asked, c := range map[action]struct {
		first  func(*aggregationv1alpha1.CoderWorkspace)
		builds string
	}{
		actionStart:   {running(false), "start stop start"},
		actionRestart: {parameter("size", "2"), "start stop start"},
	} {
		t.Run(string(asked), func(t *testing.T) {
			w := newFixture(t, coderdtest.WithManualBuilds())
			w.coder.AddWorkspace("ada", w.template, "dev")
			w.mirror()
			w.mustUpdate(devName, c.first)
			ctx := withAction(w.asAda(), asked)
			_, err := w.update(ctx, devName, func(ws *aggregationv1alpha1.CoderWorkspace) {
				_ = (&actionREST{action: asked}).change(ws, nil)
			})
			w.must(err)
			w.deleteTokensOfAda()
			w.coder.FinishBuilds()
			if _, err := w.look(); !coderd.IsUnauthorized(err) {
				t.Errorf("with the deleted token: %v", err)
			}
			w.must(w.drive())
			if ws := w.object(devName); w.transitions(ws) != c.builds || conditionOf(ws, "Ready") != "True Running" {
				t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
			}
		})
	}
}

// asAda returns the context of a caller who is mapped to the Coder user ada.
func (w *fixture) asAda() context.Context {
	w.provider.connection.Rules = []coderv1alpha1.IdentityRule{{
		Match: coderv1alpha1.IdentityMatch{UserName: "alice"}, CoderUser: &coderv1alpha1.CoderUserReference{Username: "ada"},
	}}
	w.kind.Actors = impersonation.New(impersonation.Config{Sessions: usertokens.NewSessions(w.provider, "replica", w.clock), Clock: w.clock})
	return request.WithUser(w.t.Context(), &user.DefaultInfo{Name: "alice"})
}

// deleteTokensOfAda makes Coder delete the tokens of ada.
func (w *fixture) deleteTokensOfAda() {
	client := w.provider.connection.Client
	ada, err := client.UserByName(w.t.Context(), "ada")
	w.must(err)
	w.must(client.SetPassword(w.t.Context(), ada, "Secret-Passw0rd"))
}

func TestMetadataWithoutCoder(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	defer w.coder.Fail(coderdtest.Fault{DropConnection: true})()
	w.coder.ResetRequests()
	ws := w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) {
		labelled("a", "b")(ws)
		ws.Annotations, ws.Finalizers = map[string]string{"c": "d", actionAnnotation: "stop"}, []string{"x.example.com/y"}
	})
	if diff := cmp.Diff([]string{aggregationv1alpha1.FinalizerWorkspace, "x.example.com/y"}, ws.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if ws.Labels["a"] != "b" || ws.Annotations["c"] != "d" || ws.Generation != 1 {
		t.Errorf("%+v", ws.ObjectMeta)
	}
	_, err := w.update(t.Context(), devName, running(false))
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a change of the spec while Coder is away: %v", err)
	}
	if got := w.coder.Requests(); len(got) != 1 {
		t.Errorf("requests %v", got)
	}
	w.coder.ClearFaults()
	w.mirror()
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Labels, ws.Annotations, ws.Finalizers = nil, nil, nil })
	w.mirror()
	if ws = w.object(devName); ws.Labels["a"] != "" || len(ws.Annotations) > 0 || len(ws.Finalizers) != 1 || len(w.records.All()) != 0 {
		t.Errorf("%+v, records %v", ws.ObjectMeta, w.records.All())
	}
}

func TestChangeInCoder(t *testing.T) {
	w := newFixture(t)
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.mustUpdate(devName, labelled("a", "b"))
	w.coder.BuildWorkspace(id, "stop")
	w.mirror()
	ws := w.object(devName)
	if *ws.Spec.Running || ws.Generation != 2 || ws.Status.ObservedGeneration != 2 {
		t.Errorf("running %t, generation %d, observed %d", *ws.Spec.Running, ws.Generation, ws.Status.ObservedGeneration)
	}
	w.mustUpdate(devName, running(true))
	w.mirror()
	if ws = w.object(devName); ws.Generation != 3 {
		t.Errorf("generation %d", ws.Generation)
	}
}

func TestPartialFailure(t *testing.T) {
	w := newFixture(t)
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/workspaces/" + id.String() + "/builds", Status: http.StatusBadRequest, Message: "No.", Times: 1})
	both := func(ws *aggregationv1alpha1.CoderWorkspace) {
		running(false)(ws)
		ws.Spec.TTLMillis = ptr.To[int64](60_000)
	}
	if _, err := w.update(t.Context(), devName, both); !apierrors.IsInvalid(err) {
		t.Errorf("%v", err)
	}
	w.mirror()
	if ws := w.object(devName); *ws.Spec.TTLMillis != 60_000 || !*ws.Spec.Running {
		t.Errorf("what is shown: %+v", ws.Spec)
	}
	w.mustUpdate(devName, both)
	if ws := w.object(devName); *ws.Spec.Running || w.transitions(ws) != "start stop" {
		t.Errorf("what is shown: %+v", ws.Spec)
	}
}

// TestTTLWithSeconds checks that a TTL that is not whole minutes, which Coder takes from a template, stays
// as it is while other fields change.
func TestTTLWithSeconds(t *testing.T) {
	w := newFixture(t)
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.coder.SetTTL(id, ptr.To(90*time.Second))
	w.mirror()
	w.mustUpdate(devName, running(false))
	if ws := w.object(devName); *ws.Spec.TTLMillis != 90_000 || *ws.Spec.Running || ws.Generation != 2 {
		t.Errorf("generation %d: %+v", ws.Generation, ws.Spec)
	}
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TTLMillis = ptr.To[int64](150_000) })
	if ws := w.object(devName); *ws.Spec.TTLMillis != 120_000 {
		t.Errorf("a new TTL is %d", *ws.Spec.TTLMillis)
	}
}

func TestRefusedSpecs(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	for name, c := range map[string]struct {
		change   func(*aggregationv1alpha1.CoderWorkspace)
		at, hint string
		onlyNew  bool
		onlyOld  bool
	}{
		"unknown parameter": {parameter("color", "red"), "spec.parameters[color]", `"size"`, false, false},
		"no number":         {parameter("size", "much"), "spec.parameters[size]", "number", false, false},
		"too much":          {parameter("size", "9"), "spec.parameters[size]", "at most 8", false, false},
		"too little":        {parameter("size", "0"), "spec.parameters[size]", "at least 1", false, false},
		"no option":         {parameter("region", "mars"), "spec.parameters[region]", `"eu", "us"`, true, false},
		"regex":             {parameter("note", "Big"), "spec.parameters[note]", "small letters", false, false},
		"ephemeral":         {parameter("once", "true"), "spec.parameters[once]", "ephemeral", false, false},
		"fixed":             {parameter("region", "us"), "spec.parameters[region]", "immutable in the template", false, true},
		"twice": {func(ws *aggregationv1alpha1.CoderWorkspace) {
			ws.Spec.Parameters = []aggregationv1alpha1.WorkspaceParameter{{Name: "a"}, {Name: "a"}}
		}, "spec.parameters[1].name", "Duplicate", false, false},
		"without name": {func(ws *aggregationv1alpha1.CoderWorkspace) {
			ws.Spec.Parameters = []aggregationv1alpha1.WorkspaceParameter{{}}
		}, "spec.parameters[0].name", "name", false, false},
		"unknown preset":    {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionPreset = "small" }, "spec.templateVersionPreset", `"big"`, false, false},
		"automatic updates": {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.AutomaticUpdates = "often" }, "spec.automaticUpdates", "always", false, false},
		"short life":        {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TTLMillis = ptr.To[int64](5) }, "spec.ttlMillis", "60000", false, false},
		"long life":         {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TTLMillis = ptr.To[int64](31 * 86_400_000) }, "spec.ttlMillis", "30 days", false, false},
		"bad schedule":      {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.AutostartSchedule = ptr.To("often") }, "spec.autostartSchedule", "5 fields", false, false},
		"bad time zone": {func(ws *aggregationv1alpha1.CoderWorkspace) {
			ws.Spec.AutostartSchedule = ptr.To("CRON_TZ=Mars/Base 30 9 * * *")
		}, "spec.autostartSchedule", "unknown time zone Mars/Base", false, false},
		"another template":  {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateName = "other" }, "spec.templateName", "", false, false},
		"unknown template":  {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateName = "none" }, "spec.templateName", "no such template", true, false},
		"template's object": {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateName = "coder.starter" }, "spec.templateName", `templateName is the name in Coder, without the organization: "starter"`, true, false},
		"no template":       {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateName = "" }, "spec.templateName", "name the template", true, false},
		"organization":      {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.Organization = "acme" }, "spec.organization", `"coder"`, false, false},
		"version":           {func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionID = "7" }, "spec.templateVersionID", "UUID", false, false},
		"dormant and running": {func(ws *aggregationv1alpha1.CoderWorkspace) {
			ws.Spec.Dormant, ws.Spec.Running = ptr.To(true), ptr.To(true)
		}, "spec.running", "dormant", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w.coder.ResetRequests()
			if !c.onlyOld {
				_, err := w.create(newWorkspace("coder.ada.fresh", c.change))
				wantInvalid(t, err, c.at, c.hint)
			}
			if !c.onlyNew {
				_, err := w.update(context.Background(), devName, c.change)
				wantInvalid(t, err, c.at, c.hint)
			}
			if _, ok := w.coder.Requests()["POST /api/v2/users/{user}/workspaces"]; ok {
				t.Errorf("Coder was told: %v", w.coder.Requests())
			}
			if n := len(w.records.All()); n != 0 {
				t.Errorf("%d records are left", n)
			}
		})
	}
	for name, hint := range map[string]string{
		"dev": `must be <organization>.<user>.<workspace>, for example "coder.ada.dev"`, "coder.ada.Dev": "lower case", "coder.bob.fresh": `no user "bob"`,
		"acme.ada.fresh": `no organization "acme"`, "default.ada.fresh": `use "coder"`,
	} {
		_, err := w.create(newWorkspace(name))
		wantInvalid(t, err, "metadata.name", hint)
	}
	for _, name := range []string{"other.coder.ada.fresh"} {
		_, err := w.create(newWorkspace(name))
		wantInvalid(t, err, "metadata.namespace", `"other."`)
	}
}

func TestControlPlaneAway(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.provider.err = errors.New("boom")
	if _, err := w.update(t.Context(), devName, running(false)); err == nil {
		t.Error("a change without a control plane")
	}
	w.must(w.delete(devName))
	if ws := w.object(devName); ws.DeletionTimestamp == nil || conditionOf(ws, "Ready") != "False Deleting" {
		t.Errorf("%+v", ws)
	}
	w.provider.err = nil
	id := w.object(devName)
	w.mirror()
	if got := w.transitions(id); got != "start delete" || w.object(devName) != nil {
		t.Errorf("builds %s", got)
	}
}
