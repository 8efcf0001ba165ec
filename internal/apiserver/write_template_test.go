package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

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

// TestAForegroundDeletionSaysWhatItWaitsFor checks that a template that is used and is deleted with kubectl delete
// --cascade=foreground, so that the request is only recorded, counts its workspaces until they are gone, without writes at rest.
func TestAForegroundDeletionSaysWhatItWaitsFor(t *testing.T) {
	f := newFixture(t)
	var ids []uuid.UUID
	for _, name := range []string{"web", "app", "dev", "cat"} {
		ids = append(ids, f.addWorkspace(t, name))
	}
	if err := f.tmpl().Delete(t.Context(), "coder.starter", foreground()); err != nil {
		t.Fatal(err)
	}
	const finalizer = "these finalizers are removed: foregroundDeletion"
	all := deletionOf("the template will be deleted in Coder after its 4 workspaces are deleted, and after " + finalizer)
	pending := f.starter(t)
	if !all(pending) {
		t.Errorf("after the request: %v", pending.Object["status"])
	}
	table := f.do(t, http.MethodGet, f.path("codertemplates/coder.starter"), map[string]string{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}, "")
	if !strings.Contains(table.body, `"Deleting"`) || !strings.Contains(table.body, "its 4 workspaces are deleted") {
		t.Errorf("kubectl get shows %s", table.body)
	}
	f.readAgain(t, "GET /api/v2/templates")
	if now := f.starter(t); !all(now) || now.GetResourceVersion() != pending.GetResourceVersion() {
		t.Errorf("it was written at rest (-before +after):\n%s", cmp.Diff(pending.Object, now.Object))
	}
	// The garbage collector removes its finalizer, and is refused.
	_, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("deleting a template that is used: %v, want 409", err)
	}
	f.templateIs(t, all)
	for _, id := range ids[1:] {
		f.coder.RemoveWorkspace(id)
	}
	f.templateIs(t, deletionOf("the template will be deleted in Coder after its workspace is deleted, and after "+finalizer))
	f.coder.RemoveWorkspace(ids[0])
	f.templateIs(t, deletionOf("the template will be deleted in Coder after "+finalizer))
	// A usual deletion does not wait for the garbage collector.
	if err := f.tmpl().Delete(t.Context(), "coder.starter", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.tmpl(), "coder.starter")
}

// foreground returns the options of kubectl delete --cascade=foreground.
func foreground() metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}
}

// deletionOf returns a function that reports whether an object is being deleted, with this message.
func deletionOf(message string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return condition(o, "Ready") == "False Deleting" && condition(o, "Reconciling") == "True Deleting" &&
			slices.ContainsFunc(all, func(c any) bool {
				entry, ok := c.(map[string]any)
				return ok && entry["type"] == "Ready" && entry["message"] == message
			})
	}
}

// readAgain waits until the mirror has read Coder at least twice more with this request.
func (f *fixture) readAgain(t *testing.T, request string) {
	t.Helper()
	before := f.coder.Requests()[request]
	polltest.Eventually(t, "the mirror reads Coder", func() error {
		if n := f.coder.Requests()[request] - before; n < 3 {
			return fmt.Errorf("%d times: %v", n, f.coder.Requests())
		}
		return nil
	})
}

func TestNewFilesArePromotedWhenBuilt(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	before := at(f.starter(t), "spec", "versionID")
	changed := f.patchFiles(t, "# two")
	if at(changed, "spec", "files", mainTF) != "# two" || at(changed, "spec", "versionID") != before ||
		condition(changed, "Ready") != "False BuildPending" {
		t.Errorf("the request did not return at once with what was asked: %v", changed.Object)
	}
	f.coder.FinishBuilds()
	polltest.Eventually(t, "the version is promoted", func() error {
		got := f.starter(t)
		if at(got, "spec", "versionID") == before || condition(got, "Ready") != "True Active" {
			return fmt.Errorf("not promoted: %v", got.Object["status"])
		}
		return nil
	})
	if got := f.starter(t); at(got, "spec", "files", mainTF) != "# two" {
		t.Errorf("files after the promotion: %v", got.Object["spec"])
	}
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

func TestOnlyTheNewestFilesArePromoted(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.patchFiles(t, "# two")
	f.patchFiles(t, "# three")
	f.coder.FinishBuilds()
	polltest.Eventually(t, "the third version is active", func() error {
		got := f.starter(t)
		if condition(got, "Ready") != "True Active" || at(got, "spec", "files", mainTF) != "# three" {
			return fmt.Errorf("%v", got.Object)
		}
		if at(got, "status", "activeVersionID") != at(got, "status", "latestVersionID") {
			return fmt.Errorf("an older version is active")
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

func TestRollBack(t *testing.T) {
	f := newFixture(t)
	first := at(f.starter(t), "spec", "versionID")
	f.patchFiles(t, "# two")
	polltest.Eventually(t, "the version is promoted", func() error {
		if at(f.starter(t), "spec", "versionID") == first {
			return fmt.Errorf("not promoted")
		}
		return nil
	})
	got, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType,
		[]byte(`{"spec":{"versionID":"`+first+`"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at(got, "spec", "versionID") != first || at(got, "spec", "files", mainTF) != "# one" || condition(got, "Ready") != "True Active" {
		t.Errorf("after the roll-back: %v", got.Object)
	}
	other := f.coder.AddTemplate("coder", "other", map[string]string{mainTF: "# x"})
	foreign := f.coder.AddTemplateVersion(other, "", map[string]string{mainTF: "# y"})
	for name, id := range map[string]string{"foreign": foreign.String(), "unknown": "00000000-0000-0000-0000-000000000001", "no": "1"} {
		_, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType,
			[]byte(`{"spec":{"versionID":"`+id+`"}}`), metav1.PatchOptions{})
		t.Run(name, func(t *testing.T) { mustBeInvalid(t, err, "spec.versionID", "") })
	}
}

func TestDisplayFields(t *testing.T) {
	f := newFixture(t)
	f.coder.PatchTemplate(t, f.template, map[string]any{"default_ttl_ms": 7_200_000})
	before := f.coder.TemplateFields(f.template)
	got, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType,
		[]byte(`{"spec":{"displayName":"Starter","description":"to begin with"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at(got, "spec", "displayName") != "Starter" {
		t.Errorf("%v", got.Object["spec"])
	}
	after := f.coder.TemplateFields(f.template)
	for _, changed := range []string{"display_name", "description", "updated_at"} {
		delete(before, changed)
		delete(after, changed)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something else changed (-before +after):\n%s", diff)
	}
}

func TestDeprecatedTemplatesAreListed(t *testing.T) {
	f := newFixture(t)
	f.coder.PatchTemplate(t, f.template, map[string]any{"deprecation_message": "use the other", "deprecated": true})
	f.templateIs(t, func(o *unstructured.Unstructured) bool { return at(o, "status", "deprecated") == "true" })
	list, err := f.tmpl().List(t.Context(), metav1.ListOptions{FieldSelector: "status.deprecated=true"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%v: %v", err, list)
	}
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		ws := workspaceObject("coder.ada.dev", map[string]any{"templateName": "starter"})
		if _, err := f.ws().Create(t.Context(), ws, metav1.CreateOptions{DryRun: dryRun}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "use the other") {
			t.Errorf("a workspace of a deprecated template %v: %v", dryRun, err)
		}
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

func TestSourceThatCannotBeShown(t *testing.T) {
	f := newFixture(t)
	defer f.coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/files/", Status: 404})()
	f.coder.AddTemplate("coder", "hidden", map[string]string{mainTF: "# hidden"})
	until(t, f.tmpl(), "coder.hidden", func(o *unstructured.Unstructured) bool {
		return condition(o, "FilesAvailable") == "False FilesUnreadable"
	})
}
