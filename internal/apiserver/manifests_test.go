package apiserver

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/export"
)

// exportedTemplate uses one of each feature of a template.
const exportedTemplate = `
variable "region" {
  type    = string
  default = "eu"
}
variable "api_token" {
  type      = string
  default   = ""
  sensitive = true
}
data "coder_parameter" "size" {
  name    = "size"
  default = "small"
  mutable = true
}
`

// runExport runs the command and returns its output.
func runExport(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	code = cli.Execute(t.Context(), export.NewCommand(streams), args, streams)
	return out.String(), errs.String(), code
}

// kubeconfig writes a kubeconfig for the site and returns its path.
func (f *fixture) kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["site"] = &clientcmdapi.Cluster{
		Server: f.config.Host, CertificateAuthorityData: f.config.CAData, TLSServerName: f.config.ServerName,
	}
	config.AuthInfos["tester"] = &clientcmdapi.AuthInfo{Token: testToken}
	config.Contexts["site"] = &clientcmdapi.Context{Cluster: "site", AuthInfo: "tester", Namespace: f.namespace}
	config.CurrentContext = "site"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// applyAll applies manifests, retrying each until its template exists.
func (f *fixture) applyAll(t *testing.T, text string, options metav1.ApplyOptions) {
	t.Helper()
	for _, object := range objectsIn(t, text) {
		object.SetNamespace(f.namespace)
		resource := f.ws()
		if object.GetKind() == "CoderTemplate" {
			resource = f.tmpl()
		}
		if object.GetAPIVersion() != workspacesGVR.GroupVersion().String() {
			t.Errorf("apiVersion is %s", object.GetAPIVersion())
		}
		if _, err := resource.Apply(context.Background(), object.GetName(), object, options); err != nil {
			t.Fatalf("applying %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func objectsIn(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var out []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); err != nil {
			return out
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}

// specs returns the exported spec of each object of the fixture.
func (f *fixture) specs(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, resource := range []schema.GroupVersionResource{templatesGVR, workspacesGVR} {
		list, err := f.client.Resource(resource).Namespace(f.namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			out[item.GetKind()+"/"+item.GetName()] = map[string]any{"spec": item.Object["spec"], "generation": item.GetGeneration()}
		}
	}
	return out
}

// fillForExport creates one of each kind of object in the fixture.
func fillForExport(t *testing.T, f *fixture) {
	t.Helper()
	tmpl := templateObject("coder.full", map[string]any{
		"displayName": "Full", "description": "One of everything", "defaultTTLMillis": int64(7200000),
		"files":                      map[string]any{mainTF: exportedTemplate, "README.md": "# Full\n\n\"quoted\" and: colons\n"},
		"variables":                  []any{map[string]any{"name": "region", "value": "us"}},
		"versionName":                "first",
		"failedVersionsHistoryLimit": int64(5),
	})
	tmpl.SetLabels(map[string]string{"team": "platform"})
	tmpl.SetAnnotations(map[string]string{"example.com/owner": "Ada"})
	if _, err := f.tmpl().Create(context.Background(), tmpl, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, f.tmpl(), "coder.full", func(u *unstructured.Unstructured) bool { return condition(u, "Ready") == "True Active" })
	ws := workspaceObject("coder.ada.dev", map[string]any{
		"templateName": "full", "running": true, "autostartSchedule": "CRON_TZ=Europe/Berlin 30 9 * * 1-5", "ttlMillis": int64(3600000),
		"automaticUpdates": "always", "parameters": []any{map[string]any{"name": "size", "value": "large"}},
	})
	ws.SetLabels(map[string]string{"team": "platform"})
	if _, err := f.ws().Create(context.Background(), ws, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", func(u *unstructured.Unstructured) bool {
		return at(u, "status", "phase") == "Running" && condition(u, "Synced") == "True Synced"
	})
}

// TestExportedManifestsApplyWithoutAChange applies exported manifests to their origin, in each way
// that users apply manifests.
func TestExportedManifestsApplyWithoutAChange(t *testing.T) {
	f := newFixture(t)
	fillForExport(t, f)
	f.addWorkspace(t, "plain")
	config := f.kubeconfig(t)
	text, stderr, code := runExport(t, "--kubeconfig", config)
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, unwanted := range []string{"uid:", "status:", "resourceVersion", "managedFields", "versionID", "VersionID", "finalizers", "control-plane"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("the manifests have %q:\n%s", unwanted, text)
		}
	}
	if n := len(objectsIn(t, text)); n != 4 {
		t.Errorf("%d manifests, want two templates and two workspaces:\n%s", n, text)
	}
	before, versions := f.specs(t), f.coder.VersionCount()

	f.applyAll(t, text, metav1.ApplyOptions{FieldManager: "kubectl", Force: true, DryRun: []string{metav1.DryRunAll}})
	f.applyAll(t, text, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
	for _, object := range objectsIn(t, text) {
		// kubectl apply and kubectl diff send this if the object has no last-applied annotation.
		patch, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		resource := f.ws()
		if object.GetKind() == "CoderTemplate" {
			resource = f.tmpl()
		}
		if _, err := resource.Patch(context.Background(), object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("patching %s: %v", object.GetName(), err)
		}
	}
	if diff := cmp.Diff(before, f.specs(t)); diff != "" {
		t.Errorf("applying what was exported changed it (-before +after):\n%s", diff)
	}
	if after := f.coder.VersionCount(); after != versions {
		t.Errorf("applying what was exported made %d versions", after-versions)
	}
	again, _, _ := runExport(t, "--kubeconfig", config)
	if diff := cmp.Diff(text, again); diff != "" {
		t.Errorf("a second export differs:\n%s", diff)
	}
}

// moveOver applies manifests, templates first, until all objects are ready.
func (f *fixture) moveOver(t *testing.T, text string) {
	t.Helper()
	options := metav1.ApplyOptions{FieldManager: "kubectl", Force: true}
	var templates, workspaces []string
	for document := range strings.SplitSeq(text, "---\n") {
		if strings.Contains(document, "kind: CoderTemplate") {
			templates = append(templates, document)
		} else {
			workspaces = append(workspaces, document)
		}
	}
	f.applyAll(t, strings.Join(templates, "---\n"), options)
	for _, object := range objectsIn(t, strings.Join(templates, "---\n")) {
		until(t, f.tmpl(), object.GetName(), func(u *unstructured.Unstructured) bool { return condition(u, "Ready") == "True Active" })
	}
	f.applyAll(t, strings.Join(workspaces, "---\n"), options)
	for _, object := range objectsIn(t, strings.Join(workspaces, "---\n")) {
		f.workspace(t, object.GetName(), func(u *unstructured.Unstructured) bool { return condition(u, "Synced") == "True Synced" })
	}
}

// comparable removes the lines that depend on the origin: namespaces and comments.
func comparable(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "  namespace: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestExportedManifestsMakeTheSameElsewhere applies exported manifests to a second Coder, and
// compares its export.
func TestExportedManifestsMakeTheSameElsewhere(t *testing.T) {
	from := newFixture(t)
	to := join(t, from.site)
	fillForExport(t, from)
	from.addWorkspace(t, "made-in-coder")
	first, stderr, code := runExport(t, "--kubeconfig", from.kubeconfig(t))
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	to.moveOver(t, first)
	second, _, _ := runExport(t, "--kubeconfig", to.kubeconfig(t))
	if diff := cmp.Diff(comparable(first), comparable(second)); diff != "" {
		t.Errorf("what was made elsewhere differs (-first +second):\n%s", diff)
	}
}
