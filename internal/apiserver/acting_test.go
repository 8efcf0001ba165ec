package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const gc = "system:serviceaccount:kube-system:generic-garbage-collector"

// configOf returns the client configuration of a caller.
func (f *fixture) configOf(caller string) *restclient.Config {
	config := restclient.CopyConfig(f.config)
	config.BearerToken = personToken + caller
	return config
}

// as returns a client of a caller for a resource in the fixture's namespace.
func (f *fixture) as(t *testing.T, caller string, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(f.configOf(caller))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(resource).Namespace(f.namespace)
}

// patch changes a workspace as a caller.
func (f *fixture) patch(t *testing.T, caller, name, body string) error {
	t.Helper()
	_, err := f.as(t, caller, workspacesGVR).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

func (f *fixture) createAs(t *testing.T, caller, name string, spec map[string]any) error {
	t.Helper()
	_, err := f.as(t, caller, workspacesGVR).Create(t.Context(), workspaceObject(name, spec), metav1.CreateOptions{})
	return err
}

// builds waits until a workspace has these builds.
func (f *fixture) builds(t *testing.T, name string, want ...string) {
	t.Helper()
	ws := f.workspace(t, name, func(*unstructured.Unstructured) bool { return true })
	id := uuid.MustParse(idIn(ws))
	polltest.Eventually(t, "the builds of "+name, func() error {
		if got := f.coder.Initiators(id); !slices.Equal(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
}

// tokens waits until a user has this number of tokens from the operator.
func (f *fixture) tokens(t *testing.T, username string, want int) {
	t.Helper()
	polltest.Eventually(t, "the tokens of "+username, func() error {
		names := slices.DeleteFunc(f.coder.TokenNames(username), func(name string) bool { return !strings.HasPrefix(name, usertokens.SessionPrefix) })
		if len(names) != want {
			return fmt.Errorf("%v, want %d", names, want)
		}
		return nil
	})
}

func mustForbid(t *testing.T, err error, says ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%v, want 403", err)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
}

// newPeople creates the users boss, an Owner, and bob, and maps alice to ada.
func newPeople(t *testing.T, f *fixture) {
	t.Helper()
	f.coder.AddUser("boss", "owner")
	f.coder.AddUser("bob", "member")
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}]`)
}

func TestMappedCallersActAsThemselves(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	f.addWorkspace(t, "dev")
	if err := f.patch(t, "person:alice", "coder.ada.dev", `{"spec":{"running":false}}`); err != nil {
		t.Fatal(err)
	}
	f.builds(t, "coder.ada.dev", "start ada", "stop ada")
	// The same applies to operations that are done later.
	if err := f.createAs(t, "person:alice", "coder.ada.two", map[string]any{"templateName": "starter", "running": false}); err != nil {
		t.Fatal(err)
	}
	f.builds(t, "coder.ada.two", "start ada", "stop ada")
	// The operator's own requests still work.
	if err := f.patch(t, "person:king", "coder.ada.two", `{"spec":{"running":true}}`); err != nil {
		t.Fatal(err)
	}
	f.builds(t, "coder.ada.two", "start ada", "stop ada", "start operator")
	f.tokens(t, "ada", 1)
	// Coder decides what a user may do for other users.
	mustForbid(t, f.createAs(t, "person:alice", "coder.boss.mine", map[string]any{"templateName": "starter"}), "Unauthorized to create workspace", `user "ada"`)
	_, err := f.as(t, "person:alice", workspacesGVR).Create(t.Context(), workspaceObject("coder.bob.mine", map[string]any{"templateName": "starter"}),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	mustForbid(t, err, "you act as user")
	f.coder.AddWorkspace("bob", f.template, "his")
	f.workspace(t, "coder.bob.his", func(*unstructured.Unstructured) bool { return true })
	mustForbid(t, f.patch(t, "person:alice", "coder.bob.his", `{"spec":{"running":false}}`), "ada")
	mustForbid(t, f.patch(t, "person:alice", "coder.bob.his", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"1"}]}}`), "ada")
	// The garbage collector deletes an object whose owner has another name just like one without an owner.
	owner := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"%s","uid":"1"%s}]}}`
	if err := f.patch(t, "person:king", "coder.bob.his", fmt.Sprintf(owner, "there", "")); err != nil {
		t.Fatal(err)
	}
	mustForbid(t, f.patch(t, "person:alice", "coder.bob.his", fmt.Sprintf(owner, "gone", "")), "ada")
	if err := f.patch(t, "person:alice", "coder.bob.his", fmt.Sprintf(owner, "there", `,"blockOwnerDeletion":true`)); err != nil {
		t.Errorf("the same owner: %v", err)
	}
	mustForbid(t, f.as(t, "person:alice", workspacesGVR).Delete(t.Context(), "coder.bob.his", metav1.DeleteOptions{}), "ada")
	if err := f.patch(t, "person:alice", "coder.bob.his", `{"metadata":{"labels":{"of":"kubernetes"}}}`); err != nil {
		t.Errorf("a label, of which Coder is not told: %v", err)
	}
	f.builds(t, "coder.bob.his", "start bob")
	if err := f.as(t, "person:alice", workspacesGVR).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.ws(), "coder.ada.dev")
}

// TestAChangeThatWaitsIsThePersons checks that a change during a build is recorded with its
// initiator, after the permission was checked in Coder.
func TestAChangeThatWaitsIsThePersons(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	newPeople(t, f)
	for _, owner := range []string{"ada", "bob"} {
		if err := f.createAs(t, "person:king", "coder."+owner+".dev", map[string]any{"templateName": "starter"}); err != nil {
			t.Fatal(err)
		}
	}
	mustForbid(t, f.patch(t, "person:alice", "coder.bob.dev", `{"spec":{"running":false}}`), "ada")
	if err := f.patch(t, "person:alice", "coder.ada.dev", `{"spec":{"running":false}}`); err != nil {
		t.Fatal(err)
	}
	f.coder.FinishBuilds()
	f.builds(t, "coder.ada.dev", "start operator", "stop ada")
	f.builds(t, "coder.bob.dev", "start operator")
}

// TestAChangeThatWaitsKeepsItsPerson checks that a change of a field that needs no build does not change the initiator of
// a build that another caller requested.
func TestAChangeThatWaitsKeepsItsPerson(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	newPeople(t, f)
	for _, c := range []struct{ name, first, second, initiator string }{
		{"coder.ada.one", "person:alice", "person:king", "ada"},
		{"coder.ada.two", "person:king", "person:alice", "operator"},
	} {
		if err := f.createAs(t, "person:king", c.name, map[string]any{"templateName": "starter"}); err != nil {
			t.Fatal(err)
		}
		if err := f.patch(t, c.first, c.name, `{"spec":{"running":false}}`); err != nil {
			t.Fatal(err)
		}
		if err := f.patch(t, c.second, c.name, `{"spec":{"ttlMillis":3600000}}`); err != nil {
			t.Fatal(err)
		}
		f.coder.FinishBuilds()
		f.builds(t, c.name, "start operator", "stop "+c.initiator)
	}
}

// sizedTemplate has two parameters, and a preset with both.
const sizedTemplate = `
data "coder_parameter" "size" {
  name    = "size"
  default = "1"
  mutable = true
}
data "coder_parameter" "note" {
  name    = "note"
  default = "none"
  mutable = true
}
data "coder_workspace_preset" "big" {
  name = "big"
  parameters = {
    "size" = "4"
    "note" = "large"
  }
}
`

// TestEveryDifferenceNeedsAPermission checks that a caller who may not change a workspace cannot change what only the record
// holds either: the parameters and the preset that a manifest sets, and a change that waits for the end of a build.
func TestEveryDifferenceNeedsAPermission(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	newPeople(t, f)
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}, {match: {userName: "person:nobody"}, nobody: true}]`)
	f.coder.AddTemplate("coder", "sized", map[string]string{mainTF: sizedTemplate})
	const name = "coder.bob.dev"
	if err := f.createAs(t, "person:king", name, map[string]any{
		"templateName": "sized", "templateVersionPreset": "big", "parameters": []any{map[string]any{"name": "size", "value": "2"}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := f.patch(t, "person:king", name, `{"spec":{"running":false,"parameters":[{"name":"size","value":"4"}]}}`); err != nil {
		t.Fatal(err)
	}
	before := f.workspace(t, name, func(*unstructured.Unstructured) bool { return true })
	for _, caller := range []string{"person:alice", "person:nobody", "person:carol"} {
		for what, body := range map[string]string{
			"removes the parameters":      `{"spec":{"parameters":null}}`,
			"clears the preset":           `{"spec":{"templateVersionPreset":null}}`,
			"takes back the stop":         `{"spec":{"running":true}}`,
			"adds a value that Coder has": `{"spec":{"parameters":[{"name":"size","value":"4"},{"name":"note","value":"large"}]}}`,
			"does the same with a label":  `{"metadata":{"labels":{"a":"b"}},"spec":{"parameters":null}}`,
		} {
			for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
				_, err := f.as(t, caller, workspacesGVR).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun})
				if !apierrors.IsForbidden(err) {
					t.Errorf("%s %s (dry run %v): %v, want 403", caller, what, dryRun, err)
				}
			}
		}
		manifest := workspaceObject(name, map[string]any{"templateName": "sized"})
		if _, err := f.as(t, caller, workspacesGVR).Apply(t.Context(), name, manifest, metav1.ApplyOptions{FieldManager: "other", Force: true}); err != nil {
			t.Errorf("%s applies what is there already: %v", caller, err)
		}
	}
	after := f.workspace(t, name, func(*unstructured.Unstructured) bool { return true })
	if at(after, "spec") != at(before, "spec") || after.GetGeneration() != before.GetGeneration() {
		t.Errorf("the spec is %s, was %s", at(after, "spec"), at(before, "spec"))
	}
	f.coder.FinishBuilds()
	f.builds(t, name, "start operator", "stop operator")
	// Everybody who may change the workspace may remove them.
	if err := f.patch(t, "person:king", name, `{"spec":{"parameters":null,"templateVersionPreset":null}}`); err != nil {
		t.Error(err)
	}
}

// TestAnotherUserTakesOver checks that what a Coder user requested is refused after the user was suspended or deleted in
// Coder, and that a caller who may delete the workspace can request its deletion again.
func TestAnotherUserTakesOver(t *testing.T) {
	for name, leave := range map[string]func(*coderdtest.Server){
		"suspended":        func(c *coderdtest.Server) { c.SuspendUser("ada") },
		"no longer exists": func(c *coderdtest.Server) { c.RemoveUser("ada") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, coderdtest.WithManualBuilds())
			newPeople(t, f)
			for _, name := range []string{"coder.ada.dev", "coder.ada.two"} {
				if err := f.createAs(t, "person:king", name, map[string]any{"templateName": "starter"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.as(t, "person:alice", workspacesGVR).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := f.patch(t, "person:alice", "coder.ada.two", `{"spec":{"running":false}}`); err != nil {
				t.Fatal(err)
			}
			leave(f.coder)
			f.coder.FinishBuilds()
			f.workspace(t, "coder.ada.two", func(ws *unstructured.Unstructured) bool {
				return condition(ws, "Stalled") == "True ChangeRefused" && strings.Contains(at(ws, "status"), name)
			})
			f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
				return condition(ws, "DeletionFailed") == "True DeletionFailed" && strings.Contains(at(ws, "status"), name)
			})
			mustForbid(t, f.as(t, "person:carol", workspacesGVR).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}), `coderusers "ada"`)
			dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
			mustForbid(t, f.as(t, "person:carol", workspacesGVR).Delete(t.Context(), "coder.ada.dev", dry), `coderusers "ada"`)
			mustForbid(t, f.as(t, "person:carol", workspacesGVR).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}), `coderusers "ada"`)
			f.builds(t, "coder.ada.dev", "start operator")
			if err := f.as(t, "person:king", workspacesGVR).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			f.builds(t, "coder.ada.dev", "start operator", "delete operator")
			f.coder.FinishBuilds()
			gone(t, f.ws(), "coder.ada.dev")
		})
	}
}

// TestAnotherUserTakesOverTemplatesAndUsers checks that the deletion of a template or a user with a finalizer is done as the
// last caller who requested it.
func TestAnotherUserTakesOverTemplatesAndUsers(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	f.coder.AddUser("tess", "template-admin", "user-admin")
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}, {match: {userName: "person:tess"}, coderUser: {username: tess}}]`)
	objects := map[string]schema.GroupVersionResource{"coder.starter": templatesGVR, "bob": usersGVR}
	finalizers := func(name, finalizers string) error {
		_, err := f.as(t, "person:carol", objects[name]).Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":[`+finalizers+`]}}`), metav1.PatchOptions{})
		return err
	}
	for name, resource := range objects {
		until(t, f.as(t, "person:king", resource), name, func(*unstructured.Unstructured) bool { return true })
		if err := finalizers(name, `"example.com/x"`); err != nil {
			t.Fatal(err)
		}
		if err := f.as(t, "person:tess", resource).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.coder.RemoveUser("tess")
	for name, resource := range objects {
		mustForbid(t, finalizers(name, ""), `user "tess", who requested the change, no longer exists in Coder`)
		mustForbid(t, f.as(t, "person:alice", resource).Delete(t.Context(), name, metav1.DeleteOptions{}), `user "ada"`)
		if err := f.as(t, "person:king", resource).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := finalizers(name, ""); err != nil {
			t.Error(err)
		}
	}
	gone(t, f.tmpl(), "coder.starter")
	f.userIs(t, "bob", "suspended", func(u coderdtest.UserState) bool { return u.Suspended })
}

func TestUnmappedCallersNeedAPermission(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	f.addWorkspace(t, "dev")
	starter := map[string]any{"templateName": "starter"}
	mustForbid(t, f.createAs(t, "person:carol", "coder.ada.other", starter), "impersonate", `coderusers "ada"`, "no rule of spec.identity.rules of CoderControlPlane")
	mustForbid(t, f.createAs(t, "person:ada", "coder.ada.other", starter), "impersonate")
	mustForbid(t, f.patch(t, "person:carol", "coder.ada.dev", `{"spec":{"running":false}}`), `coderusers "ada"`)
	mustForbid(t, f.as(t, "person:carol", workspacesGVR).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}), `coderusers "ada"`)
	mustForbid(t, f.patch(t, "person:carol", "coder.ada.dev", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"1"}]}}`), `coderusers "ada"`)
	if err := f.patch(t, "person:carol", "coder.ada.dev", `{"metadata":{"labels":{"a":"b"}}}`); err != nil {
		t.Error(err)
	}
	_, err := f.as(t, "person:carol", templatesGVR).Create(t.Context(), templateObject("coder.mine", map[string]any{"files": map[string]any{mainTF: "# x"}}), metav1.CreateOptions{})
	mustForbid(t, err, `coderusers/operator "coder"`)
	_, err = f.as(t, "person:carol", templatesGVR).Patch(t.Context(), "coder.starter", types.MergePatchType, []byte(`{"spec":{"displayName":"x"}}`), metav1.PatchOptions{})
	mustForbid(t, err, `coderusers/operator "coder"`)
	mustForbid(t, f.as(t, "person:carol", templatesGVR).Delete(t.Context(), "coder.starter", metav1.DeleteOptions{}), `coderusers/operator "coder"`)
	put := request(t, f.configOf("person:carol"), http.MethodPut, f.path("codertemplates/coder.starter/files"), nil, "no archive")
	if put.status != http.StatusForbidden || !strings.Contains(put.body, "coderusers/operator") {
		t.Errorf("files: %d %s", put.status, put.body)
	}
	if writes := f.coder.Requests()["POST /api/v2/workspaces/{workspace}/builds"]; writes != 0 {
		t.Errorf("%d builds", writes)
	}
	if err := f.createAs(t, "person:chief", "coder.ada.other", starter); err != nil {
		t.Error(err)
	}
	mustForbid(t, f.createAs(t, "person:chief", "coder.boss.other", starter), `coderusers/owner "boss"`, "is an Owner in Coder")
	if err := f.createAs(t, "person:king", "coder.boss.other", starter); err != nil {
		t.Error(err)
	}
	if err := f.as(t, gc, workspacesGVR).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the garbage collector: %v", err)
	}
}

// TestDryRunsNeedAPermission checks that a dry run of an unmapped caller is refused if the write would be.
func TestDryRunsNeedAPermission(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	f.addWorkspace(t, "dev")
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	mustForbid(t, f.as(t, "person:carol", workspacesGVR).Delete(t.Context(), "coder.ada.dev", dry), `coderusers "ada"`)
	mustForbid(t, f.as(t, "person:carol", workspacesGVR).DeleteCollection(t.Context(), dry, metav1.ListOptions{}), `coderusers "ada"`)
	mustForbid(t, f.as(t, "person:carol", templatesGVR).Delete(t.Context(), "coder.starter", dry), `coderusers/operator "coder"`)
	mustForbid(t, f.as(t, "person:carol", usersGVR).Delete(t.Context(), "ada", dry), `coderusers/operator "coder"`)
	mustForbid(t, f.as(t, "person:alice", templatesGVR).Delete(t.Context(), "coder.starter", dry), `user "ada"`)
	for _, action := range []string{"restart", "start"} {
		// The workspace runs, so that neither action changes its spec.
		got := request(t, f.configOf("person:carol"), http.MethodPost, f.path("coderworkspaces/coder.ada.dev/"+action+"?dryRun=All"), nil, "{}")
		if got.status != http.StatusForbidden || !strings.Contains(got.body, "impersonate") {
			t.Errorf("%s: %d %s", action, got.status, got.body)
		}
	}
}

func TestRulesThatLeadNowhere(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	f.coder.AddUser("gone")
	f.coder.SuspendUser("gone")
	f.coder.AddUser("twin")
	f.coder.SetEmail("twin", "bob@example.com")
	f.addWorkspace(t, "dev")
	before := f.coder.Requests()["POST /api/v2/workspaces/{workspace}/builds"]
	for name, c := range map[string]struct{ rules, says string }{
		"suspended":      {`[{match: {userName: "person:*"}, coderUser: {username: gone}}]`, "is suspended in Coder"},
		"renamed":        {`[{match: {userName: "person:*"}, coderUser: {username: was-ada}}]`, "there is no user"},
		"another case":   {`[{match: {userName: "person:*"}, coderUser: {username: ADA}}]`, "there is no user"},
		"a shared email": {`[{match: {userName: "person:*"}, coderUser: {email: bob@example.com}}]`, "2 users in Coder have the email"},
		"no such email":  {`[{match: {userName: "person:*"}, coderUser: {email: nobody@example.com}}]`, "no user in Coder has the email"},
		"an Owner":       {`[{match: {userName: "person:*"}, coderUser: {username: boss}}]`, `coderusers/owner "boss"`},
		"nobody":         {`[{match: {userName: "person:*"}, nobody: true}, {match: {userName: "*"}, operator: true}]`, "denies all changes and all sessions"},
		"no username":    {`[{match: {userName: "*"}, coderUser: {username: "{name}"}}]`, "cannot be a username"},
	} {
		t.Run(name, func(t *testing.T) {
			f.rules(t, c.rules)
			mustForbid(t, f.patch(t, "person:chief", "coder.ada.dev", `{"spec":{"running":false}}`), c.says)
		})
	}
	f.rules(t, `[{match: {userName: "person:chief"}, coderUser: {username: ada}}, {match: {userName: "person:king"}, coderUser: {username: boss}}]`)
	remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/", Status: http.StatusForbidden, Message: "No tokens here."})
	mustForbid(t, f.patch(t, "person:chief", "coder.ada.dev", `{"spec":{"running":false}}`), "does not let the operator create a token", "No tokens here")
	remove()
	if n := f.coder.Requests()["POST /api/v2/workspaces/{workspace}/builds"] - before; n != 0 {
		t.Errorf("%d builds", n)
	}
	if err := f.patch(t, "person:king", "coder.ada.dev", `{"spec":{"running":false}}`); err != nil {
		t.Error(err)
	}
	f.builds(t, "coder.ada.dev", "start ada", "stop boss")
	// Coder refuses a user who is suspended during the lifetime of the token.
	f.rules(t, `[{match: {userName: "person:*"}, coderUser: {username: ada}}]`)
	if err := f.patch(t, "person:chief", "coder.ada.dev", `{"spec":{"ttlMillis":3600000}}`); err != nil {
		t.Fatal(err)
	}
	f.coder.SuspendUser("ada")
	mustForbid(t, f.patch(t, "person:chief", "coder.ada.dev", `{"spec":{"running":true}}`), "suspended")
	f.builds(t, "coder.ada.dev", "start ada", "stop boss")
}

func TestTokensEnd(t *testing.T) {
	f := newOwnFixture(t)
	newPeople(t, f)
	f.addWorkspace(t, "dev")
	ttl := 3600000
	use := func() {
		t.Helper()
		ttl += 60000
		if err := f.patch(t, "person:alice", "coder.ada.dev", fmt.Sprintf(`{"spec":{"ttlMillis":%d}}`, ttl)); err != nil {
			t.Fatal(err)
		}
	}
	use()
	use()
	f.tokens(t, "ada", 1)
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: bob}}]`)
	f.server.storage.sessions.Sweep(t.Context())
	f.tokens(t, "ada", 0)
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}]`)
	use()
	f.tokens(t, "ada", 1)
	f.stop()
	f.tokens(t, "ada", 0)
}

func TestMappedCallersEnterTheirOwn(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	enterable(t, f)
	id := f.coder.AddWorkspace("bob", f.template, "his")
	f.coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "ready"})
	f.workspace(t, "coder.bob.his", func(*unstructured.Unstructured) bool { return true })
	var stdout bytes.Buffer
	executor := f.executors(t, f.configOf("person:alice"), execQuery("echo", "hello"))["WebSocket"]
	if err := executor.StreamWithContext(polltest.Context(t), remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: io.Discard}); err != nil || stdout.String() != "hello\n" {
		t.Errorf("%q: %v", stdout.String(), err)
	}
	if as := f.agent.DialedAs(); !slices.Contains(as, "ada") {
		t.Errorf("the agent was entered as %q", as)
	}
	for _, path := range []string{"exec?stdout=true", "log"} {
		got := request(t, f.configOf("person:alice"), http.MethodGet, f.path("coderworkspaces/coder.bob.his/"+path), nil, "")
		if got.status != http.StatusForbidden || !strings.Contains(got.body, "ada") {
			t.Errorf("%s answers %d %s", path, got.status, got.body)
		}
	}
	if got := request(t, f.configOf("person:alice"), http.MethodGet, f.path("coderworkspaces/coder.ada.dev/log"), nil, ""); got.status != http.StatusOK {
		t.Errorf("the own log answers %d %s", got.status, got.body)
	}
}

func TestMappedCallersWriteTemplates(t *testing.T) {
	f := newFixture(t)
	f.coder.AddUser("tess", "template-admin")
	f.coder.AddUser("eddy", "template-editor")
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}, {match: {userName: "person:tess"}, coderUser: {username: tess}},
		{match: {userName: "person:eddy"}, coderUser: {username: eddy}}]`)
	spec := func(text string) map[string]any { return map[string]any{"files": map[string]any{mainTF: text}} }
	create := func(caller, name string) error {
		_, err := f.as(t, caller, templatesGVR).Create(t.Context(), templateObject(name, spec("# one")), metav1.CreateOptions{})
		return err
	}
	mustForbid(t, create("person:alice", "coder.mine"), "ada")
	if err := create("person:tess", "coder.mine"); err != nil {
		t.Fatal(err)
	}
	patch := func(caller string) error {
		_, err := f.as(t, caller, templatesGVR).Patch(t.Context(), "coder.mine", types.MergePatchType, []byte(`{"spec":{"files":{"main.tf":"# two"}}}`), metav1.PatchOptions{})
		return err
	}
	mustForbid(t, patch("person:alice"), "ada")
	if err := patch("person:tess"); err != nil {
		t.Fatal(err)
	}
	until(t, f.tmpl(), "coder.mine", func(tmpl *unstructured.Unstructured) bool { return condition(tmpl, "Ready") == "True Active" })
	polltest.Eventually(t, "two versions by tess", func() error {
		got := request(t, f.configOf("person:tess"), http.MethodGet, f.path("codertemplateversions")+"?labelSelector="+aggregationv1alpha1.LabelTemplate+"%3Dmine", nil, "")
		var list struct {
			Items []aggregationv1alpha1.CoderTemplateVersion
		}
		if err := json.Unmarshal([]byte(got.body), &list); err != nil {
			return err
		}
		if len(list.Items) != 2 || list.Items[0].Status.CreatedBy != "tess" || list.Items[1].Status.CreatedBy != "tess" {
			return errors.New(got.body)
		}
		return nil
	})
	mustForbid(t, f.as(t, "person:alice", templatesGVR).Delete(t.Context(), "coder.mine", metav1.DeleteOptions{}), "ada")
	// The garbage collector would delete the template.
	owner := `"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"1"}]}`
	message := `"spec":{"versionMessage":"by eddy"}`
	edit := func(body string, dryRun ...string) error {
		_, err := f.as(t, "person:eddy", templatesGVR).Patch(t.Context(), "coder.mine", types.MergePatchType, []byte("{"+body+"}"), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
	for _, body := range []string{owner, owner + "," + message} {
		mustForbid(t, edit(body, metav1.DryRunAll), "eddy")
		mustForbid(t, edit(body), "eddy")
	}
	if err := edit(message); err != nil {
		t.Error(err)
	}
	if err := f.as(t, "person:tess", templatesGVR).Delete(context.Background(), "coder.mine", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
