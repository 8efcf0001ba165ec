package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// promote sends a request to the subresource promote of coder.starter as a caller, and returns the status and the body.
func (f *fixture) promote(t *testing.T, caller, body, query string) (status int, text string) {
	t.Helper()
	got := request(t, f.configOf(caller), http.MethodPost, f.path("codertemplates/coder.starter/promote"+query),
		map[string]string{"Content-Type": "application/json"}, body)
	return got.status, got.body
}

// candidate returns the built candidate of coder.starter.
func (f *fixture) candidate(t *testing.T, text string) string {
	t.Helper()
	o := f.templateIs(t, func(o *unstructured.Unstructured) bool {
		return condition(o, "Ready") == "True AwaitingPromotion" && at(o, "spec", "files", mainTF) == text && at(o, "status", "candidate", "status") == "succeeded"
	})
	return at(o, "status", "candidate", "id")
}

// TestManualActivation covers the life of a candidate through the API: a manifest that is applied server-side and has both the
// files and the active version, the permission to promote, a dry run, a restart of the server, and the history.
func TestManualActivation(t *testing.T) {
	f := newOwnFixture(t, coderdtest.WithManualBuilds())
	f.coder.AddUser("tess", "template-admin")
	f.coder.AddUser("rita", "template-admin")
	f.rules(t, `[{match: {userName: "person:author"}, coderUser: {username: tess}}, {match: {userName: "person:lead"}, coderUser: {username: rita}},
		{match: {userName: "person:alice"}, coderUser: {username: ada}}]`)
	first := at(f.starter(t), "status", "activeVersionID")
	apply := func(caller, text, version string) error {
		spec := files(text)
		spec["activation"], spec["versionID"] = "Manual", version
		_, err := f.as(t, caller, templatesGVR).Apply(t.Context(), "coder.starter", templateObject("coder.starter", spec), metav1.ApplyOptions{FieldManager: "gitops", Force: true})
		return err
	}
	for range 2 {
		if err := apply("person:author", "# two", first); err != nil {
			t.Fatal(err)
		}
		f.coder.FinishBuilds()
		f.candidate(t, "# two")
	}
	f.restart(t)
	second := f.candidate(t, "# two")
	if got := f.starter(t); at(got, "status", "activeVersionID") != first || f.coder.VersionCount() != 2 {
		t.Fatalf("%d versions, and the template is %v", f.coder.VersionCount(), got.Object)
	}

	// Nobody promotes without both permissions.
	mustForbid(t, apply("person:author", "# two", second), "codertemplates/promote")
	if status, text := f.promote(t, "person:author", `{}`, ""); status != http.StatusForbidden {
		t.Errorf("a caller without the verb: %d %s", status, text)
	}
	if status, text := f.promote(t, "person:alice", `{}`, ""); status != http.StatusForbidden || !strings.Contains(text, "ada") {
		t.Errorf("a member: %d %s", status, text)
	}
	for query, want := range map[string]int{"?dryRun=All": http.StatusCreated, "": http.StatusConflict} {
		body := `{}`
		if query == "" {
			body = `{"activeVersionID":"` + second + `"}`
		}
		if status, text := f.promote(t, "person:lead", body, query); status != want {
			t.Errorf("promote%s: %d %s, want %d", query, status, text, want)
		}
	}
	if now := f.coder.TemplateFields(f.template)["active_version_id"]; fmt.Sprint(now) != first {
		t.Errorf("version %v is active in Coder, want %s", now, first)
	}

	if status, text := f.promote(t, "person:lead", `{"versionID":"`+second+`","activeVersionID":"`+first+`"}`, ""); status != http.StatusCreated || !strings.Contains(text, `"kind":"CoderTemplate"`) {
		t.Fatalf("promoting: %d %s", status, text)
	}
	// The manifest in Git follows, and changes nothing.
	if err := apply("person:author", "# two", second); err != nil {
		t.Fatal(err)
	}
	promoted := f.templateIs(t, func(o *unstructured.Unstructured) bool { return condition(o, "Ready") == "True Active" })
	if at(promoted, "status", "candidate", "id") != "" || at(promoted, "spec", "files", mainTF) != "# two" || f.coder.VersionCount() != 2 {
		t.Errorf("after the promotion: %v", promoted.Object)
	}
	// GitOps promotes back by the version alone.
	if err := apply("person:lead", "# two", first); err != nil {
		t.Fatal(err)
	}
	f.candidate(t, "# two")
	f.restart(t)
	now := f.starter(t)
	history, _, _ := unstructured.NestedSlice(now.Object, "status", "history")
	var entries []string
	for _, entry := range history {
		a := entry.(map[string]any)
		entries = append(entries, fmt.Sprintf("%v %v", a["versionID"], a["by"]))
	}
	if got, want := strings.Join(entries, ", "), fmt.Sprintf("%s rita, %s rita, %s <nil>", first, second, first); got != want {
		t.Errorf("the history is %s, want %s", got, want)
	}
	_, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType, []byte(`{"spec":{"activation":"Never"}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("an unknown activation: %v", err)
	}
}
