package apiserver

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/client-go/metadata"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestPages(t *testing.T) {
	f := newFixture(t)
	want := f.addMany(t, 5)
	first, err := f.ws().List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Items) != 2 || first.GetContinue() == "" || first.GetRemainingItemCount() == nil || *first.GetRemainingItemCount() != 3 {
		t.Fatalf("the first page: %d items, continue %q, %v remain", len(first.Items), first.GetContinue(), first.GetRemainingItemCount())
	}
	// All pages are from the same revision, regardless of later changes.
	f.addWorkspace(t, "aaa")
	f.addWorkspace(t, "zzz")
	got := names(first)
	page := first
	for page.GetContinue() != "" {
		token := page.GetContinue()
		if page, err = f.ws().List(t.Context(), metav1.ListOptions{Limit: 2, Continue: token}); err != nil {
			t.Fatal(err)
		}
		if page.GetResourceVersion() != first.GetResourceVersion() {
			t.Errorf("a page of resourceVersion %s after %s", page.GetResourceVersion(), first.GetResourceVersion())
		}
		got = append(got, names(page)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}
	exact, err := f.ws().List(t.Context(), metav1.ListOptions{
		ResourceVersion: first.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, names(exact)); diff != "" {
		t.Errorf("a list of exactly that moment (-want +got):\n%s", diff)
	}
	_, err = f.ws().List(t.Context(), metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a list of a moment that is forgotten: %v, want 410", err)
	}
}

// TestCachesAreCompared waits until the library has compared the caches with the records. If they
// differ, it panics.
func TestCachesAreCompared(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "compared")
	for _, gvr := range []schema.GroupVersionResource{workspacesGVR, templatesGVR} {
		equal := metrics.StorageConsistencyCheckTotal.WithLabelValues(gvr.Group, gvr.Resource, "success").(prometheus.Metric)
		polltest.Eventually(t, "the cache of "+gvr.Resource+" is compared", func() bool {
			var now dto.Metric
			return equal.Write(&now) == nil && now.GetCounter().GetValue() > 0
		})
	}
}

func TestTables(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "one")
	f.addWorkspace(t, "two")
	asTable := map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
	read := func(path string) metav1.Table {
		t.Helper()
		raw := f.do(t, http.MethodGet, path, asTable, "")
		var table metav1.Table
		if err := json.Unmarshal([]byte(raw.body), &table); err != nil || raw.status != http.StatusOK {
			t.Fatalf("HTTP %d: %v: %s", raw.status, err, raw.body)
		}
		return table
	}
	page := read(f.path("coderworkspaces?limit=1"))
	if len(page.Rows) != 1 || page.Continue == "" || page.RemainingItemCount == nil {
		t.Fatalf("the first page: %d rows, continue %q", len(page.Rows), page.Continue)
	}
	rest := read(f.path("coderworkspaces?limit=1&continue=" + url.QueryEscape(page.Continue)))
	if len(rest.Rows) != 1 || rest.Continue != "" || rest.Rows[0].Cells[0] != "coder.ada.two" {
		t.Errorf("the second page: %+v", rest)
	}
	one := read(f.path("coderworkspaces/coder.ada.one"))
	var row metav1.PartialObjectMetadata
	if err := json.Unmarshal(one.Rows[0].Object.Raw, &row); err != nil {
		t.Fatal(err)
	}
	if row.Kind != "PartialObjectMetadata" || row.Name != "coder.ada.one" || one.ResourceVersion != row.ResourceVersion {
		t.Errorf("the object of a row: %+v in a table of %s", row.TypeMeta, one.ResourceVersion)
	}
	whole := read(f.path("coderworkspaces/coder.ada.one?includeObject=Object"))
	var object struct{ Kind string }
	if err := json.Unmarshal(whole.Rows[0].Object.Raw, &object); err != nil || object.Kind != "CoderWorkspace" {
		t.Errorf("with the whole object: %v %s", err, whole.Rows[0].Object.Raw)
	}
	if bare := read(f.path("coderworkspaces/coder.ada.one?includeObject=None")); len(bare.Rows[0].Object.Raw) > 0 && string(bare.Rows[0].Object.Raw) != "null" {
		t.Errorf("without the object: %s", bare.Rows[0].Object.Raw)
	}
	templates := read(f.path("codertemplates"))
	if len(templates.Rows) != 1 || templates.Rows[0].Cells[0] != "coder.starter" || len(templates.Rows[0].Cells) != len(templates.ColumnDefinitions) {
		t.Errorf("templates: %+v", templates)
	}
}

// TestOnlyMetadata reads with the client of the garbage collector, in both encodings.
func TestOnlyMetadata(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "dev")
	if _, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"x"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := metadata.NewForConfig(f.config)
	if err != nil {
		t.Fatal(err)
	}
	objects := client.Resource(workspacesGVR).Namespace(f.namespace)
	whole, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := objects.List(t.Context(), metav1.ListOptions{LabelSelector: "app=x"})
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != whole.GetUID() {
		t.Fatalf("%v: %+v", err, list)
	}
	one, err := objects.Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if one.ResourceVersion != whole.GetResourceVersion() || one.UID != whole.GetUID() {
		t.Errorf("%s %s, want resourceVersion %s", one.UID, one.ResourceVersion, whole.GetResourceVersion())
	}
	const form = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		got := f.do(t, http.MethodGet, f.path("coderworkspaces/coder.ada.dev"), map[string]string{"Accept": media + form}, "")
		if got.status != http.StatusOK || got.header.Get("Content-Type") != media {
			t.Errorf("%s: HTTP %d %s", media, got.status, got.header.Get("Content-Type"))
		}
	}
	patched, err := objects.Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"y"}}}`), metav1.PatchOptions{})
	if err != nil || patched.Labels["app"] != "y" {
		t.Errorf("a patch by way of metadata: %v %+v", err, patched)
	}
}
