package apiserver

import (
	"bufio"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestScale(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	read := func() autoscalingv1.Scale {
		t.Helper()
		raw, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{}, "scale")
		if err != nil {
			t.Fatal(err)
		}
		var scale autoscalingv1.Scale
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &scale); err != nil {
			t.Fatal(err)
		}
		return scale
	}
	if s := read(); s.Kind != "Scale" || s.APIVersion != "autoscaling/v1" || s.Spec.Replicas != 1 || s.Status.Replicas != 1 {
		t.Errorf("running: %+v", s)
	}
	for _, replicas := range []string{"0", "1"} {
		if _, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(`{"spec":{"replicas":`+replicas+`}}`), metav1.PatchOptions{}, "scale"); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"0": "Stopped", "1": "Running"}[replicas]
		f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "status", "phase") == want })
		if s := read(); s.Spec.Replicas != s.Status.Replicas || s.Status.Replicas != map[string]int32{"0": 0, "1": 1}[replicas] {
			t.Errorf("with %s replicas: %+v", replicas, s)
		}
	}
	_, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}, "scale")
	if !apierrors.IsInvalid(err) {
		t.Errorf("two of them: %v, want 422", err)
	}
	raw, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	raw.SetResourceVersion("1")
	if _, err := f.ws().Update(t.Context(), raw, metav1.UpdateOptions{}, "scale"); !apierrors.IsConflict(err) {
		t.Errorf("an old Scale: %v, want 409", err)
	}
	if diff := cmp.Diff([]string{"start", "stop", "start"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

func TestActions(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	for _, c := range []struct{ action, phase string }{{"stop", "Stopped"}, {"start", "Running"}, {"stop", "Stopped"}} {
		if err := f.act(t, "coder.ada.dev", c.action, http.StatusCreated); err != nil {
			t.Fatalf("%s: %v", c.action, err)
		}
		got := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "status", "phase") == c.phase })
		if len(got.GetAnnotations()) > 0 {
			t.Errorf("%s left something: %v", c.action, got.GetAnnotations())
		}
	}
	if err := f.act(t, "coder.ada.dev", "start", http.StatusCreated); err != nil {
		t.Fatal(err)
	}
	if err := f.act(t, "coder.ada.dev", "restart", http.StatusCreated); err != nil {
		t.Fatal(err)
	}
	want := []string{"start", "stop", "start", "stop", "start", "stop", "start"}
	polltest.Eventually(t, "Coder has the transitions", func() error {
		if diff := cmp.Diff(want, f.coder.Transitions(id)); diff != "" {
			return &diffError{diff}
		}
		return nil
	})
	if err := f.act(t, "coder.ada.none", "stop", http.StatusNotFound); err != nil {
		t.Error(err)
	}
	if got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/stop"), nil, ""); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET of an action: HTTP %d", got.status)
	}
	if got := f.do(t, http.MethodPost, f.path("coderworkspaces/coder.ada.dev/stop"), map[string]string{"Content-Type": "application/json"},
		`{"apiVersion":"v1","kind":"Pod"}`); got.status != http.StatusBadRequest {
		t.Errorf("a body of another kind: HTTP %d %s", got.status, got.body)
	}
}

// TestOrphan deletes a workspace without a build, after a deletion whose build no provisioner takes.
func TestOrphan(t *testing.T) {
	f := newFixture(t)
	f.coder.RequireTags(f.template, map[string]string{"region": "mars"})
	id := f.addWorkspace(t, "dev")
	if err := f.ws().Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return at(ws, "status", "latestBuild", "unmatchedTags") == "region=mars,scope=organization"
	})
	got := f.do(t, http.MethodPost, f.path("coderworkspaces/coder.ada.dev/orphan"), map[string]string{"Content-Type": "application/json"}, `{}`)
	if got.status != http.StatusCreated || !strings.Contains(got.header.Get("Warning"), "com.coder.workspace.id="+id.String()) {
		t.Fatalf("HTTP %d %s, %s", got.status, got.header, got.body)
	}
	gone(t, f.ws(), "coder.ada.dev")
	if diff := cmp.Diff([]string{"start", "delete", "delete"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

// diffError is an error with a difference.
type diffError struct{ diff string }

func (e *diffError) Error() string { return "(-want +got):\n" + e.diff }

func TestLog(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	created, err := f.ws().Create(t.Context(), workspaceObject("coder.ada.dev", spec()), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	build := latestBuild(t, created)
	f.coder.WriteLog(build, "Plan", "first line", "second line")
	got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/log"), nil, "")
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") ||
		!strings.Contains(got.body, "[Plan] first line\n") || !strings.Contains(got.body, "[Plan] second line\n") {
		t.Fatalf("HTTP %d %s: %s", got.status, got.header.Get("Content-Type"), got.body)
	}

	client, err := restclient.HTTPClientFor(f.config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(polltest.Context(t), http.MethodGet, f.config.Host+f.path("coderworkspaces/coder.ada.dev/log?follow=true"), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	wait := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the log ended without %q: %v", text, lines.Err())
	}
	wait("second line")
	f.coder.WriteLog(build, "Apply", "third line")
	wait("[Apply] third line")
	f.coder.FinishBuilds()
	for lines.Scan() {
		// The stream ends with the build.
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the log of a build that has ended: %v", err)
	}

	for query, want := range map[string]int{"follow=perhaps": http.StatusBadRequest, "build=x": http.StatusBadRequest, "build=7": http.StatusBadRequest, "after=1": http.StatusOK} {
		if got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev/log?"+query), nil, ""); got.status != want {
			t.Errorf("?%s: HTTP %d %s, want %d", query, got.status, got.body, want)
		}
	}
	if got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.none/log"), nil, ""); got.status != http.StatusNotFound {
		t.Errorf("of nothing: HTTP %d", got.status)
	}
}

func TestFiles(t *testing.T) {
	f := newFixture(t)
	got := f.do(t, http.MethodGet, f.path("codertemplates/coder.starter/files"), nil, "")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/x-tar" {
		t.Fatalf("HTTP %d %s", got.status, got.header.Get("Content-Type"))
	}
	archive, err := coderd.ReadArchive([]byte(got.body))
	if err != nil || archive.Summary().Files != 1 {
		t.Errorf("%v: %+v", err, archive)
	}
	asZip := f.do(t, http.MethodGet, f.path("codertemplates/coder.starter/files?format=zip"), nil, "")
	if asZip.status != http.StatusOK || asZip.header.Get("Content-Type") != "application/zip" {
		t.Fatalf("HTTP %d %s", asZip.status, asZip.header.Get("Content-Type"))
	}
	before := f.templateIs(t, func(o *unstructured.Unstructured) bool { return true })
	f.coder.PatchTemplate(t, f.template, map[string]any{"icon": "/x.png"})
	f.patchFiles(t, "# two")
	f.templateIs(t, func(o *unstructured.Unstructured) bool {
		return at(o, "spec", "files", mainTF) == "# two" && condition(o, "Ready") == "True Active"
	})
	versions := f.coder.VersionCount()
	f.coder.ResetRequests()
	dry := f.do(t, http.MethodPut, f.path("codertemplates/coder.starter/files?dryRun=All"), nil, asZip.body)
	if dry.status != http.StatusBadRequest || f.coder.Writes() != 0 {
		t.Errorf("a dry run, which the library does not know of CONNECT: HTTP %d %s, %v", dry.status, dry.body, f.coder.Requests())
	}
	put := f.do(t, http.MethodPut, f.path("codertemplates/coder.starter/files"), nil, asZip.body)
	if put.status != http.StatusOK {
		t.Fatalf("HTTP %d %s", put.status, put.body)
	}
	f.templateIs(t, func(o *unstructured.Unstructured) bool {
		return at(o, "spec", "files", mainTF) == "# one" && condition(o, "Ready") == "True Active" &&
			at(o, "spec", "versionID") != at(before, "spec", "versionID")
	})
	if n := f.coder.VersionCount(); n != versions+1 {
		t.Errorf("%d versions after %d", n, versions)
	}
	for name, c := range map[string]struct {
		method, path, body string
		want               int
	}{
		"no archive":       {http.MethodPut, "coder.starter/files", "what", http.StatusUnprocessableEntity},
		"no such format":   {http.MethodGet, "coder.starter/files?format=rar", "", http.StatusBadRequest},
		"no such version":  {http.MethodGet, "coder.starter/files?version=1", "", http.StatusBadRequest},
		"no such template": {http.MethodGet, "coder.none/files", "", http.StatusNotFound},
		"another method":   {http.MethodPost, "coder.starter/files", "", http.StatusMethodNotAllowed},
	} {
		if got := f.do(t, c.method, f.path("codertemplates/"+c.path), nil, c.body); got.status != c.want {
			t.Errorf("%s: HTTP %d %s, want %d", name, got.status, got.body, c.want)
		}
	}
}

func TestWhatIsReadOfATemplate(t *testing.T) {
	f := newFixture(t)
	first := at(f.starter(t), "status", "activeVersionID")
	newest := f.coder.AddTemplateVersion(f.template, "draft", map[string]string{mainTF: "# draft"})
	f.coder.WriteLog(newest, "Plan", "of the draft")
	f.coder.WriteLog(uuid.MustParse(first), "Plan", "of the first")
	other := f.coder.AddTemplateVersion(f.coder.AddTemplate("coder", "other", nil), "", nil)

	var parameters aggregationv1alpha1.CoderTemplateParameterList
	f.getJSON(t, "codertemplates/coder.starter/parameters", &parameters)
	if parameters.VersionID != first || parameters.Items == nil {
		t.Errorf("parameters: %+v", parameters)
	}
	for query, want := range map[string]string{"": "of the draft", "?version=" + first + "&follow=true": "of the first"} {
		got := f.do(t, http.MethodGet, f.path("codertemplates/coder.starter/log"+query), nil, "")
		if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") || !strings.HasSuffix(got.body, "[Plan] "+want+"\n") {
			t.Errorf("log%s: HTTP %d %s: %s", query, got.status, got.header.Get("Content-Type"), got.body)
		}
	}
	for path, want := range map[string]int{
		"coder.starter/parameters?version=" + other.String(): http.StatusNotFound,
		"coder.starter/log?version=" + other.String():        http.StatusNotFound,
		"coder.starter/log?version=" + uuid.NewString():      http.StatusNotFound,
		"coder.starter/log?follow=perhaps":                   http.StatusBadRequest,
		"coder.none/parameters":                              http.StatusNotFound,
	} {
		if got := f.do(t, http.MethodGet, f.path("codertemplates/"+path), nil, ""); got.status != want || !strings.Contains(got.body, `"kind":"Status"`) {
			t.Errorf("%s: HTTP %d %s, want %d", path, got.status, got.body, want)
		}
	}
}

// getJSON reads an object, whose kind must be set.
func (f *fixture) getJSON(t *testing.T, path string, into runtime.Object) {
	t.Helper()
	got := f.do(t, http.MethodGet, f.path(path), nil, "")
	if got.status != http.StatusOK {
		t.Fatalf("%s: HTTP %d %s", path, got.status, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	want := reflect.TypeOf(into).Elem().Name()
	if gvk := into.GetObjectKind().GroupVersionKind(); gvk != aggregationv1alpha1.GroupVersion.WithKind(want) {
		t.Errorf("%s is a %s, want %s", path, gvk, want)
	}
}

// latestBuild returns the ID of the newest build of a workspace.
func latestBuild(t *testing.T, ws *unstructured.Unstructured) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(at(ws, "status", "latestBuildID"))
	if err != nil {
		t.Fatalf("%s has build %v", ws.GetName(), err)
	}
	return id
}
