package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// by returns the apply options of a manager.
func by(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }

// apply applies workspace coder.ada.dev and fails the test on an error.
func apply(t *testing.T, objects dynamic.ResourceInterface, options metav1.ApplyOptions, spec map[string]any, labels map[string]string) *unstructured.Unstructured {
	t.Helper()
	wanted := workspaceObject("coder.ada.dev", spec)
	wanted.SetLabels(labels)
	got, err := objects.Apply(t.Context(), "coder.ada.dev", wanted, options)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// managers returns the managers of an object, each with the paths below spec and labels that it
// owns.
func managers(t *testing.T, obj *unstructured.Unstructured) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, entry := range obj.GetManagedFields() {
		var owned struct {
			Spec     map[string]any `json:"f:spec"`
			Metadata struct {
				Labels map[string]any `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil {
			t.Fatal(err)
		}
		key := entry.Manager + " " + string(entry.Operation)
		for _, fields := range []map[string]any{owned.Spec, owned.Metadata.Labels} {
			for field := range fields {
				if field != "." {
					out[key] = append(out[key], strings.TrimPrefix(field, "f:"))
				}
			}
		}
		slices.Sort(out[key])
	}
	return out
}

func TestServerSideApply(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	wanted := spec("ttlMillis", int64(3_600_000))
	created := apply(t, f.ws(), by("gitops"), wanted, map[string]string{"app": "x"})
	if at(created, "status", "ownerName") != "ada" || created.GetLabels()["app"] != "x" {
		t.Fatalf("created %v", created.Object)
	}
	settled := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })

	f.coder.ResetRequests()
	for range 3 {
		again := apply(t, f.ws(), by("gitops"), wanted, map[string]string{"app": "x"})
		if diff := cmp.Diff(settled.Object, again.Object); diff != "" {
			t.Fatalf("the same again changed it (-before +after):\n%s", diff)
		}
	}
	if n := f.coder.Writes(); n != 0 {
		t.Errorf("the same again wrote to Coder: %v", f.coder.Requests())
	}

	other := workspaceObject("coder.ada.dev", map[string]any{"ttlMillis": int64(7_200_000)})
	_, err := f.ws().Apply(ctx, "coder.ada.dev", other, by("somebody"))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "gitops") || !strings.Contains(err.Error(), ".spec.ttlMillis") {
		t.Errorf("what another one owns: %v, want a conflict that names both", err)
	}
	forced := apply(t, f.ws(), metav1.ApplyOptions{FieldManager: "somebody", Force: true}, map[string]any{"ttlMillis": int64(7_200_000)}, nil)
	if got := at(forced, "spec", "ttlMillis"); got != "7200000" {
		t.Errorf("by force: ttlMillis is %s", got)
	}
	want := map[string][]string{"gitops Apply": {"app", "templateName"}, "somebody Apply": {"ttlMillis"}}
	if diff := cmp.Diff(want, managers(t, forced)); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "spec", "ttlMillis") == "7200000" })
}

// TestApplyOfNoTTL checks that a manifest that removes the TTL and the schedule of a workspace equals the
// object from then on.
func TestApplyOfNoTTL(t *testing.T) {
	f := newFixture(t)
	apply(t, f.ws(), by("gitops"), spec("ttlMillis", int64(3_600_000), "autostartSchedule", "0 9 * * 1-5"), nil)
	wanted := spec("ttlMillis", int64(0), "autostartSchedule", "")
	apply(t, f.ws(), by("gitops"), wanted, nil)
	settled := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })
	for path, want := range wanted {
		if got, found, err := unstructured.NestedFieldNoCopy(settled.Object, "spec", path); !found || got != want {
			t.Errorf("spec.%s is %v, want %v: %v", path, got, want, err)
		}
	}
	if again := apply(t, f.ws(), by("gitops"), wanted, nil); again.GetResourceVersion() != settled.GetResourceVersion() {
		t.Errorf("the same again wrote %v, was %v", again.Object, settled.Object)
	}
}

// TestApplyOfSharing checks that an applied list replaces the one in Coder as a whole, that an empty list is not
// the same as none, and that the same again writes nothing.
func TestApplyOfSharing(t *testing.T) {
	f := newFixture(t, coderdtest.WithRelease(coderdtest.Release236))
	f.coder.AddUser("bo")
	f.coder.AddUser("cy")
	bo := []any{map[string]any{"user": "bo", "role": "use"}}
	settled := func(want []any) *unstructured.Unstructured {
		t.Helper()
		return f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
			got, found, _ := unstructured.NestedSlice(ws.Object, "spec", "sharedWith")
			shown, _, _ := unstructured.NestedSlice(ws.Object, "status", "sharedWith")
			return found && cmp.Equal(got, want) && cmp.Equal(shown, want, cmpopts.EquateEmpty()) && condition(ws, "Ready") == "True Running"
		})
	}
	apply(t, f.ws(), by("gitops"), spec("sharedWith", bo), nil)
	id := uuid.MustParse(idIn(settled(bo)))
	f.coder.ShareWorkspace(id, "cy", "admin")
	settled(append([]any{bo[0]}, map[string]any{"user": "cy", "role": "admin"}))
	apply(t, f.ws(), by("gitops"), spec("sharedWith", bo), nil)
	settled(bo)
	apply(t, f.ws(), by("gitops"), spec("running", true), nil)
	settled(bo)
	apply(t, f.ws(), by("gitops"), spec("sharedWith", []any{}), nil)
	before := settled([]any{})
	if again := apply(t, f.ws(), by("gitops"), spec("sharedWith", []any{}), nil); again.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the same again wrote %v, was %v", again.Object, before.Object)
	}
}

// TestApplyAfterCoderMadeItDormant checks that a manifest with running: true starts a workspace that Coder made dormant,
// unless a client has set dormant, or sends it.
func TestApplyAfterCoderMadeItDormant(t *testing.T) {
	f := newFixture(t)
	wanted := spec("running", true)
	id := uuid.MustParse(idIn(apply(t, f.ws(), by("gitops"), wanted, nil)))
	asleep := func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Dormant" }
	awake := func(ws *unstructured.Unstructured) bool {
		return condition(ws, "Ready") == "True Running" && at(ws, "spec", "dormant") == "false"
	}
	sleep := func() *unstructured.Unstructured {
		f.coder.SetDormant(id, true)
		f.coder.BuildWorkspace(id, "stop")
		return f.workspace(t, "coder.ada.dev", asleep)
	}
	patch := func(body string) error {
		_, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	f.workspace(t, "coder.ada.dev", awake)

	whole := sleep()
	if err := unstructured.SetNestedField(whole.Object, true, "spec", "running"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ws().Update(t.Context(), whole, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a PUT with dormant: true: %v, want 422", err)
	}
	dry := by("gitops")
	dry.DryRun = []string{metav1.DryRunAll}
	if got := apply(t, f.ws(), dry, wanted, nil); at(got, "spec", "dormant") != "false" || at(got, "spec", "running") != "true" {
		t.Errorf("a dry run returns %v", got.Object["spec"])
	}
	f.workspace(t, "coder.ada.dev", asleep)
	apply(t, f.ws(), by("gitops"), wanted, nil)
	f.workspace(t, "coder.ada.dev", awake)

	sleep()
	if err := patch(`{"spec":{"running":true}}`); err != nil {
		t.Error(err)
	}
	f.workspace(t, "coder.ada.dev", awake)

	if err := patch(`{"spec":{"dormant":true}}`); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", asleep)
	_, err := f.ws().Apply(t.Context(), "coder.ada.dev", workspaceObject("coder.ada.dev", wanted), metav1.ApplyOptions{FieldManager: "gitops", Force: true})
	if !apierrors.IsInvalid(err) {
		t.Errorf("after a client set dormant: %v, want 422", err)
	}
}

// TestChangeOfADormantWorkspaceThatRuns checks that other fields can be changed.
func TestChangeOfADormantWorkspaceThatRuns(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	f.coder.SetDormant(id, true)
	f.hint(id)
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "spec", "dormant") == "true" })
	_, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(`{"spec":{"ttlMillis":3600000}}`), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
}

// TestApplyOfATemplateNameInAnotherCase checks that the object shows the name in Coder, and that the same manifest can be
// applied again.
func TestApplyOfATemplateNameInAnotherCase(t *testing.T) {
	f := newFixture(t)
	f.coder.AddTemplate("coder", "Docker", map[string]string{mainTF: "# docker"})
	wanted := map[string]any{"templateName": "docker"}
	if created := apply(t, f.ws(), by("gitops"), wanted, nil); at(created, "spec", "templateName") != "Docker" {
		t.Fatalf("created %v", created.Object)
	}
	settled := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })
	for _, dryRun := range [][]string{nil, {metav1.DryRunAll}} {
		again := apply(t, f.ws(), metav1.ApplyOptions{FieldManager: "gitops", DryRun: dryRun}, wanted, nil)
		if diff := cmp.Diff(settled.Object["spec"], again.Object["spec"]); diff != "" || again.GetGeneration() != settled.GetGeneration() {
			t.Errorf("the same again, with the dry run %v, changed generation %d to %d and the spec (-before +after):\n%s",
				dryRun, settled.GetGeneration(), again.GetGeneration(), diff)
		}
	}
}

func TestApplyTakesAwayWhatIsNotAppliedAnyMore(t *testing.T) {
	f := newFixture(t)
	apply(t, f.ws(), by("gitops"), spec("autostartSchedule", "0 9 * * 1-5"), map[string]string{"app": "x", "team": "y"})
	less := apply(t, f.ws(), by("gitops"), spec(), map[string]string{"team": "y"})
	if _, has := less.GetLabels()["app"]; has || less.GetLabels()["team"] != "y" {
		t.Errorf("labels: %v", less.GetLabels())
	}
	want := map[string][]string{"gitops Apply": {"team", "templateName"}}
	if diff := cmp.Diff(want, managers(t, less)); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
	// A spec field without an owner keeps its value in Coder.
	if got := at(less, "spec", "autostartSchedule"); !strings.Contains(got, "0 9 * * 1-5") {
		t.Errorf("autostartSchedule is %q", got)
	}
	seen := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })
	if diff := cmp.Diff(less.GetLabels(), seen.GetLabels()); diff != "" {
		t.Errorf("labels that are read (-applied +read):\n%s", diff)
	}
}

func TestApplyOfATemplate(t *testing.T) {
	f := newFixture(t)
	wanted := templateObject("coder.docker", files("# first"))
	if _, err := f.tmpl().Apply(t.Context(), "coder.docker", wanted, by("gitops")); err != nil {
		t.Fatal(err)
	}
	settled := until(t, f.tmpl(), "coder.docker", func(o *unstructured.Unstructured) bool { return condition(o, "Ready") == "True Active" })
	versions := f.coder.VersionCount()
	for range 2 {
		again, err := f.tmpl().Apply(t.Context(), "coder.docker", wanted, by("gitops"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(settled.Object, again.Object); diff != "" {
			t.Fatalf("the same again changed it (-before +after):\n%s", diff)
		}
	}
	if n := f.coder.VersionCount(); n != versions {
		t.Errorf("%d versions after %d", n, versions)
	}
}

// TestApplyOfFilesAndAnotherVersion checks that a manifest with files and the version of other files is refused. Each
// apply would make the other of the two active.
func TestApplyOfFilesAndAnotherVersion(t *testing.T) {
	for name, applied := range map[string]func(*fixture, *unstructured.Unstructured) error{
		"server-side": func(f *fixture, wanted *unstructured.Unstructured) error {
			_, err := f.tmpl().Apply(t.Context(), wanted.GetName(), wanted, metav1.ApplyOptions{FieldManager: "gitops", Force: true})
			return err
		},
		"client-side": func(f *fixture, wanted *unstructured.Unstructured) error {
			manifest, err := wanted.MarshalJSON()
			if err != nil {
				return err
			}
			wanted.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: string(manifest)})
			patch, err := wanted.MarshalJSON()
			if err != nil {
				return err
			}
			_, err = f.tmpl().Patch(t.Context(), wanted.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-client-side-apply"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			first := at(f.starter(t), "spec", "versionID")
			apply := func(text string) error {
				spec := files(text)
				spec["versionID"] = first
				return applied(f, templateObject("coder.starter", spec))
			}
			if err := apply("# one"); err != nil {
				t.Fatalf("the files of the version: %v", err)
			}
			f.patchFiles(t, "# two")
			f.templateIs(t, func(o *unstructured.Unstructured) bool { return at(o, "spec", "versionID") != first })
			if err := apply("# two"); err != nil {
				t.Fatalf("a roll-back: %v", err)
			}
			mustBeInvalid(t, apply("# two"), "spec.versionID", "remove spec.files")
			if now := f.starter(t); at(now, "spec", "versionID") != first || at(now, "spec", "files", mainTF) != "# one" {
				t.Errorf("after the refused manifest: %v", now.Object)
			}
			// The manifest does not prevent other changes.
			f.patchFiles(t, "# three")
			f.templateIs(t, func(o *unstructured.Unstructured) bool { return at(o, "spec", "versionID") != first })
			// With Manual, both are accepted: the files are those of the candidate.
			count := f.coder.VersionCount() + 1
			for range 2 {
				spec := files("# four")
				spec["versionID"], spec["activation"] = first, "Manual"
				if err := applied(f, templateObject("coder.starter", spec)); err != nil {
					t.Fatalf("with Manual: %v", err)
				}
				f.templateIs(t, func(o *unstructured.Unstructured) bool {
					return condition(o, "Ready") == "True AwaitingPromotion" && at(o, "spec", "versionID") == first && at(o, "spec", "files", mainTF) == "# four"
				})
			}
			if now := f.coder.VersionCount(); now != count {
				t.Errorf("there are %d versions, want %d", now, count)
			}
		})
	}
}

// TestManagersOutliveTheServer restarts the only server: data that Coder cannot store is read from
// the records.
func TestManagersOutliveTheServer(t *testing.T) {
	f := newOwnFixture(t)
	created := apply(t, f.ws(), by("gitops"), spec(), map[string]string{"app": "x"})
	if _, err := f.ws().Patch(t.Context(), "coder.ada.dev", "application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"note":"by hand"},"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{FieldManager: "hand"}); err != nil {
		t.Fatal(err)
	}
	before := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })
	f.restart(t)
	after := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })
	if before.GetResourceVersion() > after.GetResourceVersion() {
		t.Errorf("resourceVersion %s after %s", after.GetResourceVersion(), before.GetResourceVersion())
	}
	// The transition times of conditions are not stored.
	forget := cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "resourceVersion" || key == "lastTransitionTime" })
	if diff := cmp.Diff(before.Object, after.Object, forget); diff != "" {
		t.Errorf("(-before +after the restart):\n%s", diff)
	}
	if after.GetUID() != created.GetUID() {
		t.Errorf("UID %s was %s", after.GetUID(), created.GetUID())
	}
	read, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again := apply(t, f.ws(), by("gitops"), spec(), map[string]string{"app": "x"})
	if again.GetResourceVersion() != read.GetResourceVersion() {
		t.Errorf("the same apply after a restart changed resourceVersion %s to %s", read.GetResourceVersion(), again.GetResourceVersion())
	}
	less := apply(t, f.ws(), by("gitops"), spec(), nil)
	if _, has := less.GetLabels()["app"]; has {
		t.Errorf("the label is not given up after a restart: %v", less.Object["metadata"])
	}
	_, err = f.ws().Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err != nil && !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before the restart: %v", err)
	}
}

// TestApplyInTwoPlacesAtOnce applies one label per manager concurrently. No label gets lost.
func TestApplyInTwoPlacesAtOnce(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "dev")
	names := []string{"a", "b", "c", "d", "e", "f"}
	ended := make(chan error, len(names))
	for _, name := range names {
		go func() {
			wanted := workspaceObject("coder.ada.dev", map[string]any{})
			wanted.SetLabels(map[string]string{name: "yes"})
			_, err := f.ws().Apply(context.Background(), "coder.ada.dev", wanted, by(name))
			ended <- err
		}()
	}
	for range names {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	got, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got.GetLabels()[name] != "yes" {
			t.Errorf("label %s is lost: %v", name, got.GetLabels())
		}
	}
}

// TestApplyThatIsRefused sends bodies that are not valid objects of the kind.
func TestApplyThatIsRefused(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		query, body string
		status      int
	}{
		"no manager":     {"", `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"name":"coder.ada.dev"}}`, http.StatusUnprocessableEntity},
		"another kind":   {"?fieldManager=x", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"coder.ada.dev"}}`, http.StatusBadRequest},
		"another name":   {"?fieldManager=x", `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"name":"coder.ada.other"}}`, http.StatusBadRequest},
		"managed fields": {"?fieldManager=x", `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"name":"coder.ada.dev","managedFields":[{"manager":"y"}]},"spec":{"templateName":"starter"}}`, http.StatusBadRequest},
	} {
		got := f.do(t, http.MethodPatch, f.path("coderworkspaces/coder.ada.dev"+c.query), map[string]string{"Content-Type": "application/apply-patch+yaml"}, c.body)
		if got.status != c.status {
			t.Errorf("%s: HTTP %d %s, want %d", name, got.status, got.body, c.status)
		}
	}
	if n := f.coder.Writes(); n > 0 {
		if _, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("something was created: %v", err)
		}
	}
}
