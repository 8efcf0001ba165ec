package apiserver

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestActivationAfterTest covers a candidate whose test succeeds and one whose test fails, through the API: the CoderTemplateTest that
// is created, the activation, and one Event.
func TestActivationAfterTest(t *testing.T) {
	f := newOwnFixture(t)
	tests := f.untyped.Resource(coderv1alpha1.GroupVersion.WithResource("codertemplatetests")).Namespace(f.namespace)
	push := func(text string) {
		t.Helper()
		body := fmt.Sprintf(`{"spec":{"activation":"AfterTest","tests":[{"name":"smoke","checks":{"commands":[{"name":"tools","command":["true"]}]}}],"files":{"main.tf":%q}}}`, text)
		if _, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finish := func(status map[string]any) {
		t.Helper()
		candidate := f.templateIs(t, func(o *unstructured.Unstructured) bool {
			return condition(o, "Ready") == "False TestsRunning" && condition(o, "Reconciling") == "True TestsRunning" && len(candidateTests(o)) == 1
		})
		name := fmt.Sprint(candidateTests(candidate)[0].(map[string]any)["testName"])
		test, err := tests.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := at(test, "spec", "version", "id"), at(candidate, "status", "candidate", "id"); got != want || at(test, "spec", "template") != "coder.starter" {
			t.Errorf("the test of version %s is %v", want, test.Object)
		}
		test.Object["status"] = status
		if _, err := tests.Update(t.Context(), test, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first := at(f.starter(t), "status", "activeVersionID")
	push("# two")
	finish(map[string]any{"phase": "Succeeded"})
	promoted := f.templateIs(t, func(o *unstructured.Unstructured) bool { return condition(o, "Ready") == "True Active" })
	second := at(promoted, "status", "activeVersionID")
	if second == first || at(promoted, "status", "candidate", "id") != "" {
		t.Errorf("after the test: %v", promoted.Object["status"])
	}
	push("# three")
	finish(map[string]any{"phase": "Failed", "failedCheck": "Command/tools"})
	failed := f.templateIs(t, func(o *unstructured.Unstructured) bool { return condition(o, "Stalled") == "True TestsFailed" })
	if at(failed, "status", "activeVersionID") != second {
		t.Errorf("after the failure: %v", failed.Object["status"])
	}
	f.restart(t)
	polltest.Eventually(t, "one Event reports the failure", func() error {
		list, err := f.kube.EventsV1().Events(f.namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		n := 0
		for _, event := range list.Items {
			if event.Reason == "TestsFailed" {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d Events", n)
		}
		return nil
	})
}

func candidateTests(o *unstructured.Unstructured) []any {
	tests, _, _ := unstructured.NestedSlice(o.Object, "status", "candidate", "tests")
	return tests
}
