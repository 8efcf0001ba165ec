package apiserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestEachChangeOfATemplateIsAuthorized covers changes of a template of which nothing is sent to Coder, by callers
// whom Coder does not let change the template: nothing is stored, and the change that waits stays. Labels are free.
func TestEachChangeOfATemplateIsAuthorized(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.coder.AddUser("tess", "template-admin")
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}, {match: {userName: "person:tess"}, coderUser: {username: tess}},
		{match: {userName: "person:nobody"}, nobody: true}]`)
	patch := func(caller, body string, dryRun ...string) error {
		_, err := f.as(t, caller, templatesGVR).Patch(t.Context(), "coder.starter", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
	own := func(caller string, dryRun ...string) error {
		manifest := templateObject("coder.starter", map[string]any{"files": map[string]any{mainTF: "# two"}})
		_, err := f.as(t, caller, templatesGVR).Apply(t.Context(), "coder.starter", manifest, metav1.ApplyOptions{FieldManager: caller, Force: true, DryRun: dryRun})
		return err
	}
	if err := patch("person:tess", `{"spec":{"files":{"main.tf":"# two"},"variables":[{"name":"region","value":"north"}]}}`); err != nil {
		t.Fatal(err)
	}
	was := f.templateIs(t, func(o *unstructured.Unstructured) bool { return condition(o, "Ready") == "False BuildPending" })
	for _, caller := range []string{"person:alice", "person:nobody"} {
		for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
			for what, err := range map[string]error{
				"the old files, which cancels the change that waits": patch(caller, `{"spec":{"files":{"main.tf":"# one"}}}`, dryRun...),
				"without the variables":                              patch(caller, `{"spec":{"variables":null}}`, dryRun...),
				"the limit of failed versions":                       patch(caller, `{"spec":{"failedVersionsHistoryLimit":9}}`, dryRun...),
				"the owner of a field":                               own(caller, dryRun...),
				"no owner of any field":                              patch(caller, `{"metadata":{"managedFields":[{}]}}`, dryRun...),
			} {
				if !apierrors.IsForbidden(err) {
					t.Errorf("%s of %s %v: %v, want 403", what, caller, dryRun, err)
				}
			}
		}
	}
	now := f.starter(t)
	if diff := cmp.Diff(was.Object["spec"], now.Object["spec"]); diff != "" || now.GetGeneration() != was.GetGeneration() {
		t.Errorf("it is changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(was.GetManagedFields(), now.GetManagedFields()); diff != "" {
		t.Errorf("its owners are changed (-before +after):\n%s", diff)
	}
	if err := patch("person:alice", `{"metadata":{"labels":{"team":"a"}}}`); err != nil {
		t.Errorf("a label: %v", err)
	}
	labels := templateObject("coder.starter", nil)
	delete(labels.Object, "spec")
	labels.SetLabels(map[string]string{"team": "b"})
	if _, err := f.as(t, "person:alice", templatesGVR).Apply(t.Context(), "coder.starter", labels, metav1.ApplyOptions{FieldManager: "labels", Force: true}); err != nil {
		t.Errorf("an applied label: %v", err)
	}
	if err := own("person:tess"); err != nil {
		t.Errorf("the owner of a field, by an administrator of templates: %v", err)
	}
	f.coder.FinishBuilds()
	f.templateIs(t, func(o *unstructured.Unstructured) bool {
		return condition(o, "Ready") == "True Active" && at(o, "spec", "files", mainTF) == "# two"
	})
}
