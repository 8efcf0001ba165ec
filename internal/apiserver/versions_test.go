package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func (f *fixture) versions() dynamic.ResourceInterface {
	return f.client.Resource(aggregationv1alpha1.GroupVersion.WithResource("codertemplateversions")).Namespace(f.namespace)
}

// addVersion adds a version in Coder, and waits until it is served.
func (f *fixture) addVersion(t *testing.T, message string) *unstructured.Unstructured {
	t.Helper()
	id := f.coder.AddTemplateVersion(f.template, message, map[string]string{mainTF: "# of " + message})
	// The fake Coder has no job of this version.
	f.server.storage.templates.Built(f.controlPlane(), f.template)
	var list *unstructured.UnstructuredList
	polltest.Eventually(t, "version "+message+" is served", func() (err error) {
		list, err = f.versions().List(t.Context(), metav1.ListOptions{FieldSelector: "status.jobStatus=succeeded,status.id=" + id.String()})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d versions", len(list.Items))
		}
		return err
	})
	return &list.Items[0]
}

func TestVersionsAreServed(t *testing.T) {
	f := newFixture(t)
	tmpl := f.starter(t)
	for _, message := range []string{"two", "three"} {
		f.addVersion(t, message)
	}
	all, err := f.versions().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	owner := metav1.GetControllerOf(&all.Items[0])
	if owner == nil || owner.Name != "coder.starter" || owner.UID != tmpl.GetUID() {
		t.Errorf("the owner is %+v", owner)
	}
	second := all.Items[slices.IndexFunc(all.Items, func(v unstructured.Unstructured) bool { return at(&v, "status", "message") == "two" })]
	one, err := f.versions().Get(t.Context(), second.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(second.Object["status"], one.Object["status"]); diff != "" || one.GetUID() != second.GetUID() {
		t.Errorf("a get (-list +get):\n%s", diff)
	}
	for selector, want := range map[metav1.ListOptions]int{
		{FieldSelector: "status.active=true"}:                                      1,
		{FieldSelector: "metadata.name=" + one.GetName()}:                          1,
		{FieldSelector: "status.template=coder.starter"}:                           3,
		{FieldSelector: "status.template=coder.start"}:                             0,
		{LabelSelector: aggregationv1alpha1.LabelTemplate + "=starter"}:            3,
		{LabelSelector: aggregationv1alpha1.LabelTemplate + "=other"}:              0,
		{ResourceVersion: "0"}:                                                     3,
		{ResourceVersion: all.GetResourceVersion(), ResourceVersionMatch: "Exact"}: 3,
	} {
		if list, err := f.versions().List(t.Context(), selector); err != nil || len(list.Items) != want {
			t.Errorf("%+v: %d items, %v; want %d", selector, len(list.Items), err, want)
		}
	}
	first, err := f.versions().List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(first.Items) != 2 || *first.GetRemainingItemCount() != 1 {
		t.Fatalf("the first page: %+v, %v", first, err)
	}
	f.addVersion(t, "four")
	rest, err := f.versions().List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.GetContinue()})
	if err != nil || rest.GetContinue() != "" || rest.GetResourceVersion() != first.GetResourceVersion() {
		t.Fatalf("the second page: %+v, %v", rest, err)
	}
	if diff := cmp.Diff(names(all), append(names(first), names(rest)...)); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}
	source := f.do(t, http.MethodGet, f.path("codertemplateversions/"+one.GetName()+"/files"), nil, "")
	if archive, err := coderd.ReadArchive([]byte(source.body)); err != nil || archive.TextFiles()[mainTF] != "# of two" {
		t.Errorf("the files of the second version: HTTP %d %+v, %v", source.status, archive, err)
	}
	for path, want := range map[string]int{
		"codertemplateversions/coder.starter.none/files": http.StatusNotFound, "codertemplateversions/" + one.GetName() + "/files?format=rar": http.StatusBadRequest,
		"codertemplateversions/coder.starter.none": http.StatusNotFound, "codertemplateversions/none": http.StatusNotFound,
		"codertemplateversions?fieldSelector=status.x%3Dy": http.StatusBadRequest, "codertemplateversions?resourceVersion=x": http.StatusBadRequest,
	} {
		if got := f.do(t, http.MethodGet, f.path(path), nil, ""); got.status != want {
			t.Errorf("%s: HTTP %d %s", path, got.status, got.body)
		}
	}
	for _, method := range []string{http.MethodDelete, http.MethodPut, http.MethodPatch} {
		if got := f.do(t, method, f.path("codertemplateversions/"+one.GetName()), map[string]string{"Content-Type": mergeMIME}, "{}"); got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: HTTP %d %s", method, got.status, got.body)
		}
	}
	table := f.do(t, http.MethodGet, f.path("codertemplateversions"), map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, "")
	if table.status != http.StatusOK || !strings.Contains(table.body, `"succeeded",true,`) {
		t.Errorf("the table: HTTP %d %s", table.status, table.body)
	}
	if strings.Contains(f.do(t, http.MethodGet, f.path("codertemplates/coder.starter"), nil, "").body, `"versions"`) {
		t.Error("the template shows its versions")
	}
}

// TestWatchOfVersions: each change of a template's record is an event of each version that it changes.
func TestWatchOfVersions(t *testing.T) {
	f := newFixture(t)
	f.starter(t)
	before, err := f.versions().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from := metav1.ListOptions{ResourceVersion: before.GetResourceVersion()}
	w := watching(t, f.versions(), from)
	active := watching(t, f.versions(), metav1.ListOptions{ResourceVersion: from.ResourceVersion, FieldSelector: "status.active=true"})
	two := f.addVersion(t, "two")
	if e := next(t, w, nil); reported(e) != "ADDED "+two.GetName() {
		t.Errorf("a new version: %s", reported(e))
	}
	id := at(two, "status", "id")
	if _, err := f.tmpl().Patch(t.Context(), "coder.starter", "application/merge-patch+json", []byte(`{"spec":{"versionID":"`+id+`"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	var events []watch.Event
	for range 2 {
		events = append(events, next(t, w, nil))
	}
	flags := map[string]any{}
	for _, e := range events {
		v := e.Object.(*unstructured.Unstructured)
		flags[at(v, "status", "id")], _, _ = unstructured.NestedBool(v.Object, "status", "active")
	}
	if events[0].Type != watch.Modified || len(flags) != 2 || flags[id] != true {
		t.Errorf("the activation: %s, %s: %v", reported(events[0]), reported(events[1]), flags)
	}
	// A client that has received only the first of the two events receives the second one.
	resumed := watching(t, f.versions(), metav1.ListOptions{ResourceVersion: events[0].Object.(*unstructured.Unstructured).GetResourceVersion()})
	if e := next(t, resumed, nil); reported(e) != reported(events[1]) {
		t.Errorf("after the first event: %s, want %s", reported(e), reported(events[1]))
	}
	kinds := map[watch.EventType]bool{}
	for range 2 {
		kinds[next(t, active, nil).Type] = true
	}
	if !kinds[watch.Added] || !kinds[watch.Deleted] {
		t.Errorf("of the active one: %v", kinds)
	}
	one := watching(t, f.versions(), metav1.ListOptions{FieldSelector: "metadata.name=" + two.GetName()})
	if e := next(t, one, nil); reported(e) != "ADDED "+two.GetName() {
		t.Errorf("of one: %s", reported(e))
	}
	marks := watching(t, f.versions(), metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true,
	})
	initial := 0
	for e := next(t, marks, nil); ; e = next(t, marks, nil) {
		if e.Type == watch.Bookmark {
			if e.Object.(*unstructured.Unstructured).GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("a bookmark: %+v", e.Object)
			}
			break
		}
		initial++
	}
	if initial != 2 {
		t.Errorf("%d initial events", initial)
	}
	// The cache of the templates does not know the name of a version.
	if _, err := f.tmpl().Patch(t.Context(), "coder.starter", "application/merge-patch+json", []byte(`{"spec":{"versionID":"`+
		at(&before.Items[0], "status", "id")+`"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := next(t, one, nil); reported(e) != "MODIFIED "+two.GetName() {
		t.Errorf("a change of one: %s", reported(e))
	}
	for _, version := range []string{"1", fmt.Sprint(5 << 10), "9" + strconv.Itoa(1<<50)} {
		w, err := f.versions().Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if err == nil {
			err = apierrors.FromObject((<-w.ResultChan()).Object)
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Errorf("from %s: %v, want 410", version, err)
		}
	}
}
