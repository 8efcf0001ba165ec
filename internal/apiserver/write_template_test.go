package apiserver

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func files(text string) map[string]any {
	return map[string]any{"files": map[string]any{mainTF: text}}
}

// patchFiles changes the source of coder.starter.
func (f *fixture) patchFiles(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	got, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType,
		[]byte(fmt.Sprintf(`{"spec":{"files":{"main.tf":%q}}}`, text)), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (f *fixture) starter(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	got, err := f.tmpl().Get(t.Context(), "coder.starter", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTemplateLifecycle(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	ctx := t.Context()
	wanted := templateObject("coder.docker", files("# first"))
	_ = unstructured.SetNestedField(wanted.Object, "Docker", "spec", "displayName")
	created, err := f.tmpl().Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at(created, "spec", "files", mainTF) != "# first" || condition(created, "Ready") != "False BuildPending" ||
		condition(created, "Reconciling") != "True BuildPending" {
		t.Errorf("while the first version is built: %v", created.Object)
	}
	f.coder.FinishBuilds()
	until(t, f.tmpl(), "coder.docker", func(o *unstructured.Unstructured) bool { return condition(o, "Ready") == "True Active" })

	f.addWorkspace(t, "dev")
	if err := f.tmpl().Delete(ctx, "coder.starter", metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("deleting a template that is used: %v, want 409", err)
	}
	if err := f.tmpl().Delete(ctx, "coder.docker", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.tmpl(), "coder.docker")
}

func TestFilesThatDoNotBuild(t *testing.T) {
	f := newFixture(t)
	before := at(f.starter(t), "spec", "versionID")
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "terraform: bad syntax"})
	f.patchFiles(t, "broken {")
	polltest.Eventually(t, "the build has failed", func() error {
		got := f.starter(t)
		if condition(got, "Stalled") != "True BuildFailed" || at(got, "spec", "versionID") != before {
			return fmt.Errorf("%v", got.Object["status"])
		}
		return nil
	})
	count := f.coder.VersionCount()
	f.patchFiles(t, "broken {")
	applied := templateObject("coder.starter", files("broken {"))
	if _, err := f.tmpl().Apply(t.Context(), "coder.starter", applied, metav1.ApplyOptions{FieldManager: "gitops"}); err != nil {
		t.Fatal(err)
	}
	if f.coder.VersionCount() != count {
		t.Error("the same files were made a version again")
	}
	f.coder.SetBuildResult("", coderdtest.BuildResult{})
	f.patchFiles(t, "# mended")
	polltest.Eventually(t, "the mended version is active", func() error {
		if got := f.starter(t); condition(got, "Ready") != "True Active" || at(got, "spec", "files", mainTF) != "# mended" {
			return fmt.Errorf("%v", got.Object["status"])
		}
		return nil
	})
}

func TestPromotionSurvivesARestart(t *testing.T) {
	f := newOwnFixture(t, coderdtest.WithManualBuilds())
	before := at(f.starter(t), "status", "activeVersionID")
	f.patchFiles(t, "# two")
	until(t, f.tmpl(), "coder.starter", func(o *unstructured.Unstructured) bool { return at(o, "status", "latestVersionID") != before })
	f.restart(t)
	f.coder.FinishBuilds()
	until(t, f.tmpl(), "coder.starter", func(o *unstructured.Unstructured) bool {
		return at(o, "status", "activeVersionID") != before && condition(o, "Ready") == "True Active" && at(o, "spec", "files", mainTF) == "# two"
	})
}

func TestDeprecatedTemplatesAreListed(t *testing.T) {
	f := newFixture(t)
	f.coder.PatchTemplate(t, f.template, map[string]any{"deprecation_message": "use the other", "deprecated": true})
	f.templateIs(t, func(o *unstructured.Unstructured) bool { return at(o, "status", "deprecated") == "true" })
	list, err := f.tmpl().List(t.Context(), metav1.ListOptions{FieldSelector: "status.deprecated=true"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%v: %v", err, list)
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		name  string
		spec  map[string]any
		field string
	}{
		"one part":        {"docker", files("#"), "metadata.name"},
		"alias":           {"default.docker", files("#"), "metadata.name"},
		"no source":       {"coder.docker", map[string]any{}, "spec.files"},
		"two sources":     {"coder.docker", map[string]any{"versionID": "00000000-0000-0000-0000-000000000001", "files": map[string]any{"a": "b"}}, "spec.versionID"},
		"no such version": {"coder.docker", map[string]any{"versionID": "00000000-0000-0000-0000-000000000001"}, "spec.versionID"},
		"path":            {"coder.docker", map[string]any{"files": map[string]any{"../x": "b"}}, "spec.files[../x]"},
		"organization":    {"coder.docker", map[string]any{"organization": "x", "files": map[string]any{"a": "b"}}, "spec.organization"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.tmpl().Create(t.Context(), templateObject(c.name, c.spec), metav1.CreateOptions{})
			mustBeInvalid(t, err, c.field, "")
		})
	}
	if n := f.coder.VersionCount(); n != 1 {
		t.Errorf("%d versions after requests that were refused", n)
	}
}
