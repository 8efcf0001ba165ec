package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func TestReadWorkspace(t *testing.T) {
	f := newFixture(t)
	id := f.coder.AddWorkspace("ada", f.template, "dev")
	f.coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "ready"})

	got, err := f.workspaces(testNamespace).Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ path, value string }{
		{"metadata.name", "coder.ada.dev"},
		{"metadata.namespace", testNamespace},
		{"metadata.uid", id.String()},
		{"spec.organization", "coder"},
		{"spec.templateName", "starter"},
		{"spec.running", "true"},
		{"status.phase", "Running"},
		{"status.ownerName", "ada"},
	} {
		if value := at(got, strings.Split(want.path, ".")...); value != want.value {
			t.Errorf("%s is %q, want %q", want.path, value, want.value)
		}
	}
	wantLabels := map[string]string{
		"aggregation.coder.com/control-plane-name": "coder", "aggregation.coder.com/control-plane-namespace": testNamespace,
	}
	if diff := cmp.Diff(wantLabels, got.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if c := condition(got, "Ready"); c != "True Running" {
		t.Errorf("Ready is %q", c)
	}

	list, err := f.workspaces(testNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d items", len(list.Items))
	}
	if diff := cmp.Diff(got.Object, list.Items[0].Object); diff != "" {
		t.Errorf("LIST shows something else than GET (-get +list):\n%s", diff)
	}
	if list.GetResourceVersion() == "" || list.GetResourceVersion() == "0" {
		t.Errorf("the list has resourceVersion %q", list.GetResourceVersion())
	}
}

func TestReadTemplate(t *testing.T) {
	f := newFixture(t)
	get, err := f.templates(testNamespace).Get(t.Context(), "coder.starter", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := at(get, "spec", "files", mainTF); got != "# one" {
		t.Errorf("files hold %q", got)
	}
	if c := condition(get, "Ready"); c != "True Active" {
		t.Errorf("Ready is %q", c)
	}
	list, err := f.templates("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(get.Object, list.Items[0].Object); diff != "" {
		t.Errorf("LIST shows something else than GET (-get +list):\n%s", diff)
	}
	if n := f.coder.Requests()["GET /api/v2/files/{fileID}"] + f.coder.Requests()["GET /api/v2/files/{file}"]; n > 1 {
		t.Errorf("the archive was read %d times", n)
	}
}

func TestNamesThatAreNone(t *testing.T) {
	f := newFixture(t)
	f.coder.AddWorkspace("ada", f.template, "Dev")
	if _, err := f.workspaces(testNamespace).Get(t.Context(), "coder.ada.dev", metav1.GetOptions{}); err != nil {
		t.Errorf("upper case in Coder: %v", err)
	}
	for _, name := range []string{"coder.ada.Dev", "default.ada.dev", "coder.me.dev", "dev", "a.b.c.d.e", "other.ada.dev", "coder.coder.ada.dev"} {
		if _, err := f.workspaces(testNamespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("GET %s: %v, want 404", name, err)
		}
	}
	if _, err := f.templates(testNamespace).Get(t.Context(), "default.starter", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("GET default.starter: %v, want 404", err)
	}
}

func TestSelectors(t *testing.T) {
	f := newFixture(t)
	f.coder.AddWorkspace("ada", f.template, "one")
	f.coder.AddWorkspace("ada", f.template, "two")
	for name, c := range map[string]struct {
		options metav1.ListOptions
		all     bool
		want    []string
	}{
		"name":                {options: metav1.ListOptions{FieldSelector: "metadata.name=coder.ada.two"}, want: []string{"coder.ada.two"}},
		"name, everywhere":    {options: metav1.ListOptions{FieldSelector: "metadata.name=coder.ada.two"}, all: true, want: []string{"coder.ada.two"}},
		"name of nothing":     {options: metav1.ListOptions{FieldSelector: "metadata.name=coder.ada.three"}},
		"namespace":           {options: metav1.ListOptions{FieldSelector: "metadata.namespace=coder"}, all: true, want: []string{"coder.ada.one", "coder.ada.two"}},
		"another namespace":   {options: metav1.ListOptions{FieldSelector: "metadata.namespace=empty"}, all: true},
		"label":               {options: metav1.ListOptions{LabelSelector: "aggregation.coder.com/control-plane-name=coder"}, want: []string{"coder.ada.one", "coder.ada.two"}},
		"label of nothing":    {options: metav1.ListOptions{LabelSelector: "app=none"}},
		"limit":               {options: metav1.ListOptions{Limit: 1}, want: []string{"coder.ada.one", "coder.ada.two"}},
		"any version will do": {options: metav1.ListOptions{ResourceVersion: "0"}, want: []string{"coder.ada.one", "coder.ada.two"}},
	} {
		t.Run(name, func(t *testing.T) {
			scope := testNamespace
			if c.all {
				scope = ""
			}
			list, err := f.workspaces(scope).List(t.Context(), c.options)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.Items {
				got = append(got, item.GetName())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := f.workspaces(testNamespace).List(t.Context(), metav1.ListOptions{Continue: "x"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a continue token: %v, want 410", err)
	}
}

func TestControlPlanesThatCannotBeAsked(t *testing.T) {
	f := newFixture(t)
	f.coder.AddWorkspace("ada", f.template, "dev")
	f.provider.unavailable = []string{"pending"}
	const path = "/apis/aggregation.coder.com/v1alpha1"

	empty := f.do(t, http.MethodGet, path+"/namespaces/empty/coderworkspaces", nil, "")
	if empty.status != http.StatusOK || !strings.Contains(empty.body, `"items":[]`) {
		t.Errorf("a namespace without control plane: %d %s", empty.status, empty.body)
	}
	for _, target := range []string{"coderworkspaces", "coderworkspaces/coder.ada.dev", "codertemplates", "codertemplates/coder.starter"} {
		got := f.do(t, http.MethodGet, path+"/namespaces/pending/"+target, nil, "")
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "3" {
			t.Errorf("GET %s where the control plane is not ready: %d, Retry-After %q", target, got.status, got.header.Get("Retry-After"))
		}
	}
	everywhere := f.do(t, http.MethodGet, path+"/coderworkspaces", nil, "")
	if everywhere.status != http.StatusOK || !strings.Contains(everywhere.body, "coder.ada.dev") {
		t.Errorf("all namespaces: %d %s", everywhere.status, everywhere.body)
	}
	if w := everywhere.header.Get("Warning"); !strings.Contains(w, "pending/coder") {
		t.Errorf("the one that is missing is not told: Warning %q", w)
	}

	remove := f.coder.Fail(coderdtest.Fault{Status: http.StatusBadGateway, HTML: true})
	for _, target := range []string{"/namespaces/coder/coderworkspaces", "/namespaces/coder/coderworkspaces/coder.ada.dev", "/coderworkspaces"} {
		got := f.do(t, http.MethodGet, path+target, nil, "")
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("GET %s while Coder is down: %d, Retry-After %q", target, got.status, got.header.Get("Retry-After"))
		}
	}
	remove()
	for status, want := range map[int]int{
		http.StatusUnauthorized: http.StatusServiceUnavailable, http.StatusTooManyRequests: http.StatusTooManyRequests,
		http.StatusForbidden: http.StatusForbidden,
	} {
		remove := f.coder.Fail(coderdtest.Fault{Status: status})
		if got := f.do(t, http.MethodGet, path+"/namespaces/coder/coderworkspaces/coder.ada.dev", nil, ""); got.status != want {
			t.Errorf("Coder says %d, we say %d, want %d", status, got.status, want)
		}
		remove()
	}
}

func TestDiscoveryAndForms(t *testing.T) {
	f := newFixture(t)
	f.coder.AddWorkspace("ada", f.template, "dev")
	client, err := discovery.NewDiscoveryClientForConfig(f.config)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := client.ServerResourcesForGroupVersion("aggregation.coder.com/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, r := range resources.APIResources {
		if slices.Contains(r.Verbs, "watch") {
			t.Errorf("%s offers watch", r.Name)
		}
		told = append(told, fmt.Sprint(r.Name, r.SingularName, r.ShortNames, r.Categories, r.Verbs))
	}
	want := []string{
		"codertemplatescodertemplate[ctpl] [coder] [create delete deletecollection get list patch update]",
		"coderworkspacescoderworkspace[cws] [coder] [create delete deletecollection get list patch update]",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("discovery (-want +got):\n%s", diff)
	}

	const path = "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces"
	for name, c := range map[string]struct {
		accept, contentType string
		status              int
	}{
		"table":             {"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json", http.StatusOK},
		"protobuf, or JSON": {"application/vnd.kubernetes.protobuf,application/json", "application/json", http.StatusOK},
		"metadata":          {"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/vnd.kubernetes.protobuf", http.StatusOK},
		"protobuf alone":    {"application/vnd.kubernetes.protobuf", "application/json", http.StatusNotAcceptable},
		"yaml":              {"application/yaml", "application/yaml", http.StatusOK},
	} {
		got := f.do(t, http.MethodGet, path, map[string]string{"Accept": c.accept}, "")
		if got.status != c.status || (c.status == http.StatusOK && got.header.Get("Content-Type") != c.contentType) {
			t.Errorf("%s: %d %q, want %d %q", name, got.status, got.header.Get("Content-Type"), c.status, c.contentType)
		}
	}
	var table metav1.Table
	raw := f.do(t, http.MethodGet, path, map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, "")
	if err := json.Unmarshal([]byte(raw.body), &table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			names = append(names, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Owner", "Template", "Status", "Health", "Outdated", "Age"}, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "coder.ada.dev" || table.Rows[0].Cells[3] != "Running" {
		t.Errorf("rows: %+v", table.Rows)
	}
}

func TestOpenAPI(t *testing.T) {
	f := newFixture(t)
	got := f.do(t, http.MethodGet, "/openapi/v3/apis/aggregation.coder.com/v1alpha1", map[string]string{"Accept": "application/json"}, "")
	for _, want := range []string{
		"running says whether the workspace shall run", `"x-kubernetes-group-version-kind"`, `"kind":"CoderTemplate"`,
		"files are the source of the template",
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("OpenAPI v3 (HTTP %d) lacks %q", got.status, want)
		}
	}
	if v2 := f.do(t, http.MethodGet, "/openapi/v2", map[string]string{"Accept": "application/json"}, ""); !strings.Contains(v2.body, "CoderWorkspace") {
		t.Errorf("OpenAPI v2 lacks our types: HTTP %d", v2.status)
	}
}

func TestNobodyIsAnonymous(t *testing.T) {
	f := newFixture(t)
	f.config.BearerToken = ""
	for _, header := range []map[string]string{
		nil,
		{"Authorization": "Bearer wrong"},
		{"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"},
	} {
		got := f.do(t, http.MethodGet, "/apis/aggregation.coder.com/v1alpha1/coderworkspaces", header, "")
		if got.status != http.StatusUnauthorized {
			t.Errorf("with %v: %d, want 401", header, got.status)
		}
	}
}
