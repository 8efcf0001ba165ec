package template

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

const image = "\x89PNG\x00\xff"

func TestFilesThatAreNotTextStay(t *testing.T) {
	f := newFixture(t)
	f.coder.AddTemplate("coder", "logo", map[string]string{mainTF: "# one", "gone.txt": "x", "logo.png": image})
	f.sync()
	got := f.get("coder.logo")
	if diff := cmp.Diff(map[string]string{mainTF: "# one", "gone.txt": "x"}, got.Spec.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := got.Status.Source; s.Inline || s.FileCount != 3 || s.SizeBytes != 12 || condition(got, "FilesAvailable") != "" {
		t.Errorf("%+v %+v", s, got.Status.Conditions)
	}
	f.must(f.update("coder.logo", files("# two")))
	f.sync()
	f.mustBe("coder.logo", "True Active", "# two")
	archive := f.download("coder.logo", "")
	if diff := cmp.Diff(map[string]string{mainTF: "# two", "logo.png": image}, archive); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFilesThatAreNotTextAreNotDropped checks that a change of the files is refused while the files that are not text cannot be read,
// for whatever reason: the next version would be built without them.
func TestFilesThatAreNotTextAreNotDropped(t *testing.T) {
	for _, status := range []int{404, 403, 400, 502} {
		f := newFixture(t)
		f.coder.AddTemplate("coder", "logo", map[string]string{mainTF: "# one", "logo.png": image})
		f.sync()
		remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/files/", Status: status})
		if err := f.update("coder.logo", files("# two")); err == nil {
			t.Errorf("%d: the change was accepted", status)
		} else if status == 404 && !strings.Contains(err.Error(), "codertemplates/files") {
			t.Errorf("%d: %v", status, err)
		}
		remove()
		f.sync()
		f.mustBe("coder.logo", "True Active", "# one")
		f.must(f.update("coder.logo", files("# three")))
		f.sync()
		if diff := cmp.Diff(map[string]string{mainTF: "# three", "logo.png": image}, f.download("coder.logo", "")); diff != "" {
			t.Errorf("%d (-want +got):\n%s", status, diff)
		}
	}
}

func TestSourcesThatCannotBeShown(t *testing.T) {
	f := newFixture(t)
	large := strings.Repeat("x", 1<<20)
	f.coder.AddTemplate("coder", "large", map[string]string{mainTF: "#", "a.txt": large, "b.txt": large + "y", "logo.png": image})
	f.coder.AddTemplate("coder", "images", map[string]string{"logo.png": image})
	f.sync()
	for name, want := range map[string]string{"coder.large": "False FilesTooLarge", "coder.images": "False FilesUnreadable"} {
		got := f.get(name)
		if condition(got, "FilesAvailable") != want || got.Spec.Files != nil || got.Status.Source.Inline || got.Status.Source.FileCount == 0 {
			t.Errorf("%s: %+v %+v", name, got.Status, got.Spec.Files)
		}
	}
	for _, c := range f.get("coder.large").Status.Conditions {
		if c.Type == "FilesAvailable" && (!strings.Contains(c.Message, `"b.txt" with 1048577 bytes`) || !strings.Contains(c.Message, "codertemplates/files")) {
			t.Errorf("says %q", c.Message)
		}
	}
	// Setting the files replaces the whole source.
	f.must(f.update("coder.large", files("# small")))
	f.sync()
	f.mustBe("coder.large", "True Active", "# small")
	if diff := cmp.Diff(map[string]string{mainTF: "# small"}, f.download("coder.large", "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mustBeInvalid(t, f.update("coder.large", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Files = map[string]string{"a.txt": large, "b.txt": large + "y"}
	}), "spec.files", `the largest is "b.txt" with 1048577 bytes`)
}

func TestASourceThatComesBackIsShown(t *testing.T) {
	f := newFixture(t)
	remove := f.coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/files/", Status: 404})
	f.log = map[string]*aggregationv1alpha1.CoderTemplate{}
	f.sync()
	if got := condition(f.get("coder.starter"), "FilesAvailable"); got != "False FilesUnreadable" {
		t.Errorf("FilesAvailable is %q", got)
	}
	remove()
	f.clock.Step(2 * restAge)
	f.sync()
	f.mustBe("coder.starter", "True Active", "# one")
	if got := condition(f.get("coder.starter"), "FilesAvailable"); got != "" {
		t.Errorf("FilesAvailable is %q", got)
	}
}

func TestACoderThatDoesNotAnswerIsAnError(t *testing.T) {
	for _, path := range []string{"/api/v2/files/", "/api/v2/templates/"} {
		f := newFixture(t)
		items, err := f.watcher.Templates(f.ctx)
		f.must(err)
		f.clock.Step(2 * restAge)
		f.coder.Fail(coderdtest.Fault{PathPrefix: path, Status: 502})
		if obj, err := f.kind.Object(f.ctx, f.connection(), items[0], nil, nil); err == nil {
			t.Errorf("%s: %+v", path, obj)
		}
	}
}

// oneStore is a Store with the objects of the fixture.
type oneStore struct{ f *fixture }

func (s oneStore) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if tmpl, ok := s.f.log[name]; ok {
		return tmpl.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

func (s oneStore) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc,
	_ bool, _ *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	var failed error
	err := s.f.updateIn(ctx, name, func(tmpl *aggregationv1alpha1.CoderTemplate) {
		obj, err := info.UpdatedObject(ctx, s.f.log[name])
		if err != nil {
			failed = err
			return
		}
		obj.(*aggregationv1alpha1.CoderTemplate).DeepCopyInto(tmpl)
	})
	if failed != nil {
		return nil, false, failed
	}
	if err != nil {
		return nil, false, err
	}
	return s.f.log[name], false, nil
}

// answerTo is the response of the subresource: the body, or the object or error.
type answerTo struct {
	*httptest.ResponseRecorder
	obj runtime.Object
	err error
}

func (a *answerTo) Object(_ int, obj runtime.Object) { a.obj = obj }
func (a *answerTo) Error(err error)                  { a.err = err }

// subresource sends a request to codertemplates/files.
func (f *fixture) subresource(method, name, query string, body []byte) *answerTo {
	f.t.Helper()
	answer := &answerTo{ResponseRecorder: httptest.NewRecorder()}
	storage := f.kind.Subresources(oneStore{f})["files"].(rest.Connecter)
	handler, err := storage.Connect(f.ctx, name, nil, answer)
	if err != nil {
		answer.err = err
		return answer
	}
	handler.ServeHTTP(answer, httptest.NewRequest(method, "/files?"+query, bytes.NewReader(body)))
	return answer
}

func (f *fixture) download(name, query string) map[string]string {
	f.t.Helper()
	answer := f.subresource(http.MethodGet, name, query, nil)
	if answer.err != nil || answer.Header().Get("Content-Type") != "application/x-tar" {
		f.t.Fatalf("%v, type %q", answer.err, answer.Header().Get("Content-Type"))
	}
	out := map[string]string{}
	for reader := tar.NewReader(answer.Body); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		f.must(err)
		content, err := io.ReadAll(reader)
		f.must(err)
		if header.Typeflag == tar.TypeReg {
			out[header.Name] = string(content)
		}
	}
}

func TestFilesAreRead(t *testing.T) {
	f := newFixture(t)
	first := f.get("coder.starter").Status.ActiveVersionID
	f.must(f.update("coder.starter", files("# two")))
	f.sync()
	if got := f.download("coder.starter", ""); got[mainTF] != "# two" {
		t.Errorf("%v", got)
	}
	if got := f.download("coder.starter", "version="+first); got[mainTF] != "# one" {
		t.Errorf("%v", got)
	}
	other := f.coder.AddTemplateVersion(f.coder.AddTemplate("coder", "other", nil), "", map[string]string{mainTF: "secret"})
	for query, right := range map[string]func(error) bool{
		"version=no":                apierrors.IsBadRequest,
		"version=" + other.String(): apierrors.IsNotFound,
		"version=00000000-0000-0000-0000-000000000001": apierrors.IsNotFound,
		"format=rar": apierrors.IsBadRequest,
	} {
		if answer := f.subresource(http.MethodGet, "coder.starter", query, nil); !right(answer.err) || answer.Body.Len() > 0 {
			t.Errorf("%s: %v, %q", query, answer.err, answer.Body)
		}
	}
	if answer := f.subresource(http.MethodGet, "coder.none", "", nil); !apierrors.IsNotFound(answer.err) {
		t.Errorf("of a template that is not there: %v", answer.err)
	}
	f.coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/files/", Status: 503})
	if answer := f.subresource(http.MethodGet, "coder.starter", "", nil); !apierrors.IsServiceUnavailable(answer.err) {
		t.Errorf("while Coder does not answer: %v", answer.err)
	}
}

func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, content := range files {
		entry, err := w.Create(name)
		if err == nil {
			_, err = entry.Write([]byte(content))
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

func TestAnArchiveIsPut(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	put := zipOf(t, map[string]string{mainTF: "# put", "dir/logo.png": image})
	answer := f.subresource(http.MethodPut, "coder.starter", "", put)
	if answer.err != nil {
		t.Fatal(answer.err)
	}
	f.mustBe("coder.starter", "False BuildPending", "# put")
	if got := answer.obj.(*aggregationv1alpha1.CoderTemplate); got.Status.Source.FileCount != 2 || got.Status.Source.Inline || got.Generation != 2 {
		t.Errorf("%+v", got)
	}
	f.build()
	f.mustBe("coder.starter", "True Active", "# put")
	if diff := cmp.Diff(map[string]string{mainTF: "# put", "dir/logo.png": image}, f.download("coder.starter", "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	count := f.coder.VersionCount()
	if answer := f.subresource(http.MethodPut, "coder.starter", "", put); answer.err != nil || f.coder.VersionCount() != count {
		t.Errorf("the same again: %v, %d versions after %d", answer.err, f.coder.VersionCount(), count)
	}
	f.coder.ResetRequests()
	if answer := f.subresource(http.MethodPut, "coder.starter", "dryRun=All", zipOf(t, map[string]string{mainTF: "# no"})); answer.err != nil || f.coder.Writes() != 0 {
		t.Errorf("a dry run: %v, %d writes", answer.err, f.coder.Writes())
	}
	for name, body := range map[string][]byte{
		"no archive": []byte("hello"), "nothing": nil, "leads out": zipOf(t, map[string]string{"../x": "y"}), "empty": zipOf(t, nil),
	} {
		answer := f.subresource(http.MethodPut, "coder.starter", "", body)
		t.Run(name, func(t *testing.T) { mustBeInvalid(t, answer.err, "spec.files", "the archive cannot be used") })
	}
	if answer := f.subresource(http.MethodPut, "coder.starter", "", make([]byte, 20<<20+1)); !apierrors.IsRequestEntityTooLargeError(answer.err) {
		t.Errorf("too large: %v", answer.err)
	}
	if n := f.coder.Writes(); n != 0 {
		t.Errorf("%d writes", n)
	}
}
