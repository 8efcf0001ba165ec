//go:build e2e

package flux

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// scenario is a scenario: objects that Flux manages, each in a Kustomization that
// depends on the previous one: Flux dry-runs all objects of one Kustomization before
// it applies any, and a workspace needs its template.
type scenario struct {
	files []object
	// patience is how long one step of Flux may take.
	patience time.Duration
}

// object is a file of testdata, the object in it, and a field that somebody changes.
type object struct {
	file      string
	resource  schema.GroupVersionResource
	namespace string
	name      string
	field     []string
	wanted    any
	changed   any
}

func configMap(name, wanted string) object {
	return object{
		file: "configmap-" + name + ".yaml", resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		namespace: "peers-flux-plain", name: "peer-" + name,
		field: []string{"data", "word"}, wanted: wanted, changed: "drifted",
	}
}

func coderObject(file, resource, name, field string, wanted, changed any) object {
	return object{
		file: file, resource: schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: resource},
		namespace: "coder", name: name, field: []string{"spec", field}, wanted: wanted, changed: changed,
	}
}

// TestPlainObjects checks the harness with built-in kinds.
func TestPlainObjects(t *testing.T) {
	f := start(t)
	f.namespaceOf(t, "peers-flux-plain")
	f.keeps(t, "plain", scenario{files: []object{configMap("one", "wanted"), configMap("two", "other")}, patience: time.Minute})
}

// TestObjectsOfCoder needs a CoderControlPlane "coder" in namespace "coder" that is
// Ready, with a user "admin".
func TestObjectsOfCoder(t *testing.T) {
	f := start(t)
	f.mustServe(t, schema.GroupVersion{Group: "aggregation.coder.com", Version: "v1alpha1"}, "codertemplates", "coderworkspaces")
	f.keeps(t, "coder", scenario{patience: 5 * time.Minute, files: []object{
		coderObject("template.yaml", "codertemplates", "coder.flux", "description", "wanted", "drifted"),
		coderObject("workspace.yaml", "coderworkspaces", "coder.admin.flux", "ttlMillis", int64(3600000), int64(7200000)),
	}})
}

// keeps runs a scenario: objects are applied and Ready, are not written when nothing
// changes, drift is corrected, and objects are pruned until all are deleted.
func (f *fluxed) keeps(t *testing.T, name string, s scenario) {
	source := f.source(t, name)
	all := map[string]string{}
	for i, obj := range s.files {
		all[fmt.Sprintf("%d/%s", i, obj.file)] = read(t, obj.file)
	}
	source.publish(all)
	for i := range s.files {
		source.kustomize(i)
	}
	for i, obj := range s.files {
		source.becomesReady(i, s.patience)
		f.holds(t, obj, time.Second)
	}
	t.Logf("%s: applied and Ready", name)
	source.restsAt(s.files)
	t.Logf("%s: at rest nothing is written", name)
	for i, obj := range s.files {
		f.drift(t, obj)
		f.holds(t, obj, s.patience)
		source.becomesReady(i, s.patience)
	}
	t.Logf("%s: drift corrected", name)

	// Remove the last object from its source, and keep the others.
	last := len(s.files) - 1
	rest := map[string]string{fmt.Sprintf("%d/kustomization.yaml", last): "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"}
	for file, content := range all {
		if file != fmt.Sprintf("%d/%s", last, s.files[last].file) {
			rest[file] = content
		}
	}
	source.publish(rest)
	f.vanishes(t, s.files[last], s.patience)
	source.becomesReady(last, s.patience)
	f.holds(t, s.files[0], time.Second)
	t.Logf("%s: pruned", name)
	for i := range s.files {
		source.unkustomize(i, s.patience)
	}
	f.vanishes(t, s.files[0], s.patience)
	t.Logf("%s: gone with its Kustomization", name)
}
