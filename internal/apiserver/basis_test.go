package apiserver

import (
	"archive/tar"
	"bytes"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// twoFiles waits until coder.starter is active with two files, and returns it.
func (f *fixture) twoFiles(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	f.patchBasis(t, "codertemplates/coder.starter", types.MergePatchType, `{"spec":{"files":{"main.tf":"# one","a.tf":"# one"}}}`)
	return f.templateIs(t, func(o *unstructured.Unstructured) bool {
		return condition(o, "Ready") == "True Active" && at(o, "spec", "files", "a.tf") == "# one" &&
			at(o, "status", "activeVersionID") == at(o, "spec", "versionID")
	})
}

// activate makes a new version with these files active in Coder, as a CI job does.
func (f *fixture) activate(t *testing.T, files map[string]string) {
	t.Helper()
	version := f.coder.AddTemplateVersion(f.template, "from CI", files)
	f.coder.PatchTemplate(t, f.template, map[string]any{"active_version_id": version})
}

// patchBasis sends a patch without a resourceVersion.
func (f *fixture) patchBasis(t *testing.T, path string, kind types.PatchType, body string) {
	t.Helper()
	if got := f.do(t, http.MethodPatch, f.path(path), map[string]string{"Content-Type": string(kind)}, body); got.status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, got.status, got.body)
	}
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestAFileIsPatchedAfterANewVersion covers a patch of one file while Coder has a newer version that the mirror may not
// have read. With a resourceVersion it is a conflict, and without one it is applied to the newer version.
func TestAFileIsPatchedAfterANewVersion(t *testing.T) {
	f := newFixture(t)
	was := f.twoFiles(t)
	f.activate(t, map[string]string{mainTF: "# two", "a.tf": "# two"})
	mine := was.DeepCopy()
	_ = unstructured.SetNestedField(mine.Object, "# mine", "spec", "files", "a.tf")
	if _, err := f.tmpl().Update(t.Context(), mine, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of the version before: %v, want 409", err)
	}
	f.activate(t, map[string]string{mainTF: "# three", "a.tf": "# three"})
	f.patchBasis(t, "codertemplates/coder.starter", types.JSONPatchType, `[{"op":"replace","path":"/spec/files/a.tf","value":"# patched"}]`)
	got := f.templateIs(t, func(o *unstructured.Unstructured) bool {
		return condition(o, "Ready") == "True Active" && at(o, "spec", "files", "a.tf") == "# patched"
	})
	if text := at(got, "spec", "files", mainTF); text != "# three" {
		t.Errorf("the other file is %q, want that of the newest version", text)
	}
	// An archive replaces all files of the newest version. It can require the version on which it is based.
	f.activate(t, map[string]string{mainTF: "# four", "b.tf": "# four"})
	header := map[string]string{"Content-Type": "application/x-tar"}
	body := string(tarOf(t, map[string]string{mainTF: "# put"}))
	path := f.path("codertemplates/coder.starter/files")
	if got := f.do(t, http.MethodPut, path+"?resourceVersion="+got.GetResourceVersion(), header, body); got.status != http.StatusConflict {
		t.Errorf("an archive that is based on an older version: %d %s", got.status, got.body)
	}
	if got := f.do(t, http.MethodPut, path, header, body); got.status != http.StatusOK {
		t.Errorf("an archive: %d %s", got.status, got.body)
	}
	got = f.templateIs(t, func(o *unstructured.Unstructured) bool {
		return condition(o, "Ready") == "True Active" && at(o, "spec", "files", mainTF) == "# put"
	})
	files, _, _ := unstructured.NestedStringMap(got.Object, "spec", "files")
	if diff := cmp.Diff(map[string]string{mainTF: "# put"}, files); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
}

// TestARoleIsAddedAfterAnother covers a patch of a list of roles, which Coder replaces as a whole.
func TestARoleIsAddedAfterAnother(t *testing.T) {
	f := newFixture(t)
	f.coder.EditUser("ada", "Ada", false, "auditor")
	was := until(t, f.users(), "ada", func(o *unstructured.Unstructured) bool { return len(rolesOf(o)) == 1 })
	f.coder.EditUser("ada", "Ada", false, "auditor", "template-admin")
	mine := was.DeepCopy()
	_ = unstructured.SetNestedStringSlice(mine.Object, []string{"user-admin"}, "spec", "roles")
	if _, err := f.users().Update(t.Context(), mine, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of the roles before: %v, want 409", err)
	}
	f.coder.EditUser("ada", "Ada", false, "template-admin")
	// Some clients delete an object and create it again if a dry run returns 409.
	if _, err := f.users().Patch(t.Context(), "ada", types.MergePatchType, []byte(`{"spec":{"roles":["user-admin"]}}`),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	f.patchBasis(t, "coderusers/ada", types.JSONPatchType, `[{"op":"add","path":"/spec/roles/-","value":"user-admin"}]`)
	f.userIs(t, "ada", "the role is added to those in Coder", func(u coderdtest.UserState) bool {
		slices.Sort(u.Roles)
		return slices.Equal(u.Roles, []string{"template-admin", "user-admin"})
	})
}

func rolesOf(o *unstructured.Unstructured) []string {
	roles, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "roles")
	return roles
}

// TestOneFieldOfAWorkspaceIsPatchedAfterOthers covers a patch of a workspace whose other fields have just changed in
// Coder: only the patched field is sent.
func TestOneFieldOfAWorkspaceIsPatchedAfterOthers(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	ttl := 2 * time.Hour
	f.coder.SetTTL(id, &ttl)
	f.patchBasis(t, "coderworkspaces/coder.ada.dev", types.MergePatchType, `{"spec":{"autostartSchedule":"30 9 * * 1-5"}}`)
	f.workspace(t, "coder.ada.dev", func(o *unstructured.Unstructured) bool {
		now, _, _ := unstructured.NestedInt64(o.Object, "spec", "ttlMillis")
		return now == ttl.Milliseconds() && at(o, "spec", "autostartSchedule") == "30 9 * * 1-5"
	})
}
