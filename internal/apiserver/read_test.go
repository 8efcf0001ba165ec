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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	f.hint(id)

	got := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return condition(ws, "AgentsConnected") == "True AgentsConnected"
	})
	for _, want := range []struct{ path, value string }{
		{"metadata.name", "coder.ada.dev"},
		{"metadata.namespace", f.namespace},
		{"status.id", id.String()},
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
		"aggregation.coder.com/control-plane-name": "coder", "aggregation.coder.com/control-plane-namespace": f.namespace,
	}
	if diff := cmp.Diff(wantLabels, got.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if c := condition(got, "Ready"); c != "True Running" {
		t.Errorf("Ready is %q", c)
	}

	list, err := f.ws().List(t.Context(), metav1.ListOptions{})
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
	get, err := f.tmpl().Get(t.Context(), "coder.starter", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := at(get, "spec", "files", mainTF); got != "# one" {
		t.Errorf("files hold %q", got)
	}
	if c := condition(get, "Ready"); c != "True Active" {
		t.Errorf("Ready is %q", c)
	}
	list, err := f.tmpl().List(t.Context(), metav1.ListOptions{})
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
	f.addWorkspace(t, "Dev")
	for _, name := range []string{"coder.ada.Dev", "default.ada.dev", "coder.me.dev", "dev", "a.b.c.d.e", "other.ada.dev", "coder.coder.ada.dev"} {
		if _, err := f.ws().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("GET %s: %v, want 404", name, err)
		}
	}
	if _, err := f.tmpl().Get(t.Context(), "default.starter", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("GET default.starter: %v, want 404", err)
	}
}

func TestSelectors(t *testing.T) {
	f := newOwnFixture(t)
	f.addWorkspace(t, "one")
	f.addWorkspace(t, "two")
	both := []string{"coder.ada.one", "coder.ada.two"}
	for name, c := range map[string]struct {
		options metav1.ListOptions
		all     bool
		want    []string
	}{
		"name":                {options: metav1.ListOptions{FieldSelector: "metadata.name=coder.ada.two"}, want: both[1:]},
		"name, everywhere":    {options: metav1.ListOptions{FieldSelector: "metadata.name=coder.ada.two"}, all: true, want: both[1:]},
		"name of nothing":     {options: metav1.ListOptions{FieldSelector: "metadata.name=coder.ada.three"}},
		"namespace":           {options: metav1.ListOptions{FieldSelector: "metadata.namespace=" + f.namespace}, all: true, want: both},
		"another namespace":   {options: metav1.ListOptions{FieldSelector: "metadata.namespace=empty"}, all: true},
		"owner":               {options: metav1.ListOptions{FieldSelector: "status.ownerName=ada"}, want: both},
		"owner, everywhere":   {options: metav1.ListOptions{FieldSelector: "status.ownerName=ada"}, all: true, want: both},
		"owner of nothing":    {options: metav1.ListOptions{FieldSelector: "status.ownerName=bob"}},
		"template":            {options: metav1.ListOptions{FieldSelector: "spec.templateName=starter,status.phase=Running"}, want: both},
		"all but one":         {options: metav1.ListOptions{FieldSelector: "metadata.name!=coder.ada.two"}, want: both[:1]},
		"stopped":             {options: metav1.ListOptions{FieldSelector: "spec.running=false"}},
		"label":               {options: metav1.ListOptions{LabelSelector: "aggregation.coder.com/control-plane-name=coder"}, want: both},
		"label of nothing":    {options: metav1.ListOptions{LabelSelector: "app=none"}},
		"limit":               {options: metav1.ListOptions{Limit: 5}, want: both},
		"any version will do": {options: metav1.ListOptions{ResourceVersion: "0"}, want: both},
	} {
		t.Run(name, func(t *testing.T) {
			scope := f.namespace
			if c.all {
				scope = ""
			}
			list, err := f.workspacesIn(scope).List(t.Context(), c.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(list)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, options := range map[string]metav1.ListOptions{
		"a token of nobody": {Continue: "x"},
		"an unknown field":  {FieldSelector: "spec.parameters=1"},
		"no selector":       {LabelSelector: "a b"},
	} {
		if _, err := f.ws().List(t.Context(), options); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v, want 400", name, err)
		}
	}
}

// names returns the names of the items of a list, in order.
func names(list *unstructured.UnstructuredList) []string {
	var out []string
	for _, item := range list.Items {
		out = append(out, item.GetName())
	}
	return out
}

func TestDiscoveryAndForms(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "dev")
	client, err := discovery.NewDiscoveryClientForConfig(f.config)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := client.ServerResourcesForGroupVersion("aggregation.coder.com/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	var reported []string
	for _, r := range resources.APIResources {
		resource, subresource, _ := strings.Cut(r.Name, "/")
		if !slices.Contains(servedResources(), resource) || subresource != "" && !slices.Contains(servedSubresources(), subresource) {
			t.Errorf("requests for %s are not counted: add it to servedResources and servedSubresources", r.Name)
		}
		reported = append(reported, fmt.Sprint(r.Name, " ", r.SingularName, " ", r.Kind, r.ShortNames, r.Categories, r.Verbs))
	}
	want := []string{
		"coderselfreviews coderselfreview CoderSelfReview[] [] [create]",
		"codertemplates codertemplate CoderTemplate[ctpl] [coder] [create delete deletecollection get list patch update watch]",
		"codertemplates/files  CoderTemplate[] [] [get update]",
		"codertemplates/log  CoderTemplate[] [] [get]",
		"codertemplates/parameters  CoderTemplateParameterList[] [] [get]",
		"codertemplates/promote  CoderTemplatePromotion[] [] [create]",
		"codertemplateversions codertemplateversion CoderTemplateVersion[ctv] [] [get list watch]",
		"codertemplateversions/files  CoderTemplateVersion[] [] [get]",
		"coderusers coderuser CoderUser[cusr] [coder] [create delete deletecollection get list patch update watch]",
		"coderworkspaces coderworkspace CoderWorkspace[cws] [coder] [create delete deletecollection get list patch update watch]",
		"coderworkspaces/exec  CoderWorkspace[] [] [create get]",
		"coderworkspaces/log  CoderWorkspace[] [] [get]",
		"coderworkspaces/orphan  CoderWorkspaceAction[] [] [create]",
		"coderworkspaces/portforward  CoderWorkspace[] [] [create get]",
		"coderworkspaces/restart  CoderWorkspaceAction[] [] [create]",
		"coderworkspaces/scale  Scale[] [] [get patch update]",
		"coderworkspaces/start  CoderWorkspaceAction[] [] [create]",
		"coderworkspaces/stop  CoderWorkspaceAction[] [] [create]",
		"coderworkspaces/token  CoderWorkspaceToken[] [] [create delete get]",
	}
	if diff := cmp.Diff(want, reported); diff != "" {
		t.Errorf("discovery (-want +got):\n%s", diff)
	}

	path := f.path("coderworkspaces")
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
		"running is true if the workspace should run", `"x-kubernetes-group-version-kind"`, `"kind":"CoderTemplate"`,
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
	nobody := *f.config
	nobody.BearerToken = ""
	for _, header := range []map[string]string{
		nil,
		{"Authorization": "Bearer wrong"},
		{"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"},
	} {
		got := request(t, &nobody, http.MethodGet, "/apis/aggregation.coder.com/v1alpha1/coderworkspaces", header, "")
		if got.status != http.StatusUnauthorized {
			t.Errorf("with %v: %d, want 401", header, got.status)
		}
	}
}
