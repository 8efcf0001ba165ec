package docs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const examplesDir = root + "/examples"

// foreign are the kinds of other projects that examples may use.
var foreign = []schema.GroupVersionKind{
	{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"},
	{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"},
	{Group: "cert-manager.io", Version: "v1", Kind: "Issuer"},
	{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
	{Group: "postgresql.cnpg.io", Version: "v1", Kind: "Cluster"},
	{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"},
}

// notObjects are files that are not Kubernetes objects themselves: a patch, and values of our chart.
var notObjects = []string{"argocd/health.yaml", "grafana/values.yaml"}

func TestManifestsAreAccepted(t *testing.T) {
	api := newAPI(t)
	for _, file := range exampleManifests(t) {
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(examplesDir, file))
			if err != nil {
				t.Fatal(err)
			}
			api.accepts(t, objects(t, raw))
		})
	}
	for _, directory := range kustomizations(t) {
		t.Run("kubectl kustomize "+directory, func(t *testing.T) {
			objects, err := kubetest.Kustomize(t.Context(), filepath.Join(examplesDir, directory))
			if err != nil {
				t.Fatal(err)
			}
			api.accepts(t, objects)
		})
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestManifestsInDocsAreAccepted checks that the examples in the docs and the samples have no
// unknown fields.
func TestManifestsInDocsAreAccepted(t *testing.T) {
	texts := map[string][]string{}
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.path, "docs/") {
			continue
		}
		for _, match := range yamlBlock.FindAllStringSubmatch(read(t, p.path), -1) {
			texts[p.path] = append(texts[p.path], match[1])
		}
	}
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range samples {
		texts[sample] = []string{read(t, "config/samples/"+filepath.Base(sample))}
	}
	api, tried := newAPI(t), 0
	for file, list := range texts {
		for _, text := range list {
			for _, o := range objects(t, []byte(text)) {
				if o.GetAPIVersion() != coderv1alpha1.GroupVersion.String() {
					continue
				}
				tried++
				o.SetNamespace(metav1.NamespaceDefault)
				if err := api.accept(t, o); err != nil {
					t.Errorf("%s: %s %s: %v", file, o.GetKind(), o.GetName(), err)
				}
			}
		}
	}
	if tried < 4 {
		t.Errorf("only %d objects were found", tried)
	}
}

// ageKey matches a public key of age, also one with a typo. A definition cannot check its checksum.
var ageKey = regexp.MustCompile(`\bage1[0-9a-z]{40,}`)

func TestKeysOfAgeAreValid(t *testing.T) {
	texts := map[string]string{"config/samples/coderbackup-s3.yaml": read(t, "config/samples/coderbackup-s3.yaml")}
	for _, p := range pages(t) {
		texts[p.path] = read(t, p.path)
	}
	found := 0
	for file, text := range texts {
		for _, key := range ageKey.FindAllString(text, -1) {
			found++
			if _, err := age.ParseX25519Recipient(key); err != nil {
				t.Errorf("%s: %s: %v", file, key, err)
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d keys were found", found)
	}
}

// TestREADMEs checks that each example has a README, and is in the list.
func TestREADMEs(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(examplesDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(examplesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		readme := entry.Name() + "/README.md"
		text, err := os.ReadFile(filepath.Join(examplesDir, readme))
		if err != nil {
			t.Error(err)
		}
		if !bytes.Contains(text, []byte("```sh\n")) && entry.Name() != "fleet" {
			t.Errorf("%s has no commands", readme)
		}
		if !bytes.Contains(list, []byte("("+readme+")")) {
			t.Errorf("examples/README.md does not list %s", readme)
		}
	}
}

// TestTemplatesAreTerraform checks that the templates are formatted like terraform fmt,
// and therefore valid syntax.
func TestTemplatesAreTerraform(t *testing.T) {
	terraform := program(t, "terraform")
	cmd := exec.CommandContext(t.Context(), terraform, "fmt", "-check", "-diff", "-recursive", filepath.Join(examplesDir, "templates"))
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestHealth checks that each of our kinds has a health script for Argo CD.
func TestHealth(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(examplesDir, "argocd/health.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var patch struct {
		Data map[string]string `json:"data"`
	}
	if err := sigsyaml.UnmarshalStrict(raw, &patch); err != nil {
		t.Fatal(err)
	}
	kinds := []string{
		"aggregation.coder.com_CoderTemplate", "aggregation.coder.com_CoderUser", "aggregation.coder.com_CoderWorkspace",
		"coder.com_CoderBackup", "coder.com_CoderBackupSchedule", "coder.com_CoderControlPlane", "coder.com_CoderProvisioner", "coder.com_CoderTemplateTest", "coder.com_CoderWorkspaceProxy",
	}
	for _, kind := range kinds {
		health := patch.Data["resource.customizations.health."+kind]
		for _, part := range []string{`c.type == "Ready"`, `c.type == "Stalled"`, "obj.status.observedGeneration ~= obj.metadata.generation"} {
			if !strings.Contains(health, part) {
				t.Errorf("the health of %s does not look at %s", kind, part)
			}
		}
	}
	if len(patch.Data) != len(kinds) {
		t.Errorf("there are %d scripts for %d kinds", len(patch.Data), len(kinds))
	}
}

// api is a kube-apiserver with our definitions, and the available ones of other
// projects.
type api struct{ client client.Client }

func newAPI(t *testing.T) api {
	t.Helper()
	program(t, "kube-apiserver")
	definitions := []string{"../../charts/coder-k8s/files/crds"}
	if schemas := os.Getenv("PEER_SCHEMAS"); schemas != "" {
		definitions = append(definitions, schemas)
	}
	made, err := client.New(kubetest.Shared(t, definitions...), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"coder", "coder-system", "flux-system", "argocd"} {
		if err := made.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	return api{made}
}

// accepts applies each object as a dry run.
func (a api) accepts(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		if err := a.accept(t, o); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	if len(all) == 0 {
		t.Error("there is no object in it")
	}
}

// objects decodes a YAML stream.
func objects(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	all, err := kubetest.Objects(text)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return all
}

func (a api) accept(t *testing.T, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	if kind.Group == aggregationv1alpha1.GroupVersion.Group {
		return acceptAggregated(o)
	}
	if namespaced, err := a.client.IsObjectNamespaced(o); err == nil && namespaced && o.GetNamespace() == "" {
		// The user chooses the namespace.
		o.SetNamespace(metav1.NamespaceDefault)
	}
	err := a.client.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	switch {
	case apierrors.IsAlreadyExists(err) && kind.Kind == "Namespace":
		return nil
	case err != nil && (apierrors.IsNotFound(err) || isNoMatch(err)) && slices.Contains(foreign, kind):
		t.Logf("%s %s was read only: no definition in PEER_SCHEMAS", kind.Kind, o.GetName())
		return nil
	}
	return err
}

func isNoMatch(err error) bool { return strings.Contains(err.Error(), "no matches for kind") }

// acceptAggregated decodes an object of the aggregated API into its type.
func acceptAggregated(o *unstructured.Unstructured) error {
	raw, err := sigsyaml.Marshal(o.Object)
	if err != nil {
		return err
	}
	parts := 2
	var into any = &aggregationv1alpha1.CoderTemplate{}
	switch o.GetKind() {
	case "CoderTemplate":
	case "CoderWorkspace":
		parts, into = 3, &aggregationv1alpha1.CoderWorkspace{}
	default:
		return fmt.Errorf("%s has no kind %s", o.GetAPIVersion(), o.GetKind())
	}
	if got := strings.Count(o.GetName(), ".") + 1; got != parts {
		return fmt.Errorf("the name has %d parts, and needs %d", got, parts)
	}
	return sigsyaml.UnmarshalStrict(raw, into)
}

// exampleManifests are the files of objects below examples, without that directory.
func exampleManifests(t *testing.T) []string {
	t.Helper()
	return findExamples(t, func(file string) bool {
		return strings.HasSuffix(file, ".yaml") && filepath.Base(file) != "kustomization.yaml" && !slices.Contains(notObjects, file)
	})
}

// kustomizations are the directories of examples that have one.
func kustomizations(t *testing.T) []string {
	t.Helper()
	files := findExamples(t, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" })
	for i, file := range files {
		files[i] = filepath.Dir(file)
	}
	return files
}

func findExamples(t *testing.T, wanted func(file string) bool) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(examplesDir), ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && wanted(file) {
			files = append(files, file)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	return files
}

// program returns the path of a program in the directory of kube-apiserver.
func program(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name)
	if _, err := os.Stat(file); os.Getenv("KUBEBUILDER_ASSETS") == "" || err != nil {
		t.Skipf("KUBEBUILDER_ASSETS has no %s; make test sets it", name)
	}
	return file
}
