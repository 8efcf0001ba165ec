//go:build e2e

package argocd

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is a file of testdata, the object in it, and a field that somebody changes.
type object struct {
	file     string
	resource schema.GroupVersionResource
	kind     string
	field    []string
	wanted   any
	changed  any
}

// scenario is a scenario: objects that Argo CD manages, one wave after the other.
type scenario struct {
	namespace string
	objects   []object
	// patience is how long one sync may take.
	patience time.Duration
}

// TestPlainObjects checks the harness with built-in kinds.
func TestPlainObjects(t *testing.T) {
	configMap := func(name, wanted string) object {
		return object{
			file: "configmap-" + name + ".yaml", resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			kind: "ConfigMap", field: []string{"data", "word"}, wanted: wanted, changed: "drifted",
		}
	}
	a := connect(t)
	a.namespaceOf(t, "peers-argo-plain")
	a.keeps(t, scenario{
		namespace: "peers-argo-plain", patience: time.Minute, objects: []object{configMap("one", "wanted"), configMap("two", "other")},
	})
}

// TestObjectsOfCoder needs a CoderControlPlane "coder" in namespace "coder" that is
// Ready, with a user "admin".
func TestObjectsOfCoder(t *testing.T) {
	coderObject := func(file, resource, kind, field string, wanted, changed any) object {
		return object{
			file: file, kind: kind, field: []string{"spec", field}, wanted: wanted, changed: changed,
			resource: schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: resource},
		}
	}
	connect(t).keeps(t, scenario{namespace: "coder", patience: 5 * time.Minute, objects: []object{
		coderObject("template.yaml", "codertemplates", "CoderTemplate", "description", "wanted", "drifted"),
		coderObject("workspace.yaml", "coderworkspaces", "CoderWorkspace", "ttlMillis", int64(3600000), int64(7200000)),
	}})
}

// keeps runs a scenario: objects are synced and healthy, stay in sync, a change is
// seen by the watch and reverted, objects are pruned, and all of that with one list
// per kind.
func (a *argo) keeps(t *testing.T, s scenario) {
	began := time.Now()
	if err := a.cache.EnsureSynced(); err != nil {
		t.Fatal(err)
	}
	info := a.cache.GetClusterInfo()
	t.Logf("the cache is in sync after %s: %d kinds, %d objects", time.Since(began).Round(time.Millisecond), info.APIsCount, info.ResourcesCount)
	a.mustWatch(t, s)
	t.Cleanup(func() { a.deleteAll(t, s) })

	all := load(t, s)
	a.sync(t, s, all...)
	a.healthy(t, s, all)
	for i, obj := range s.objects {
		a.sees(t, s, obj, all[i].GetName(), obj.wanted)
	}
	a.inSync(t, all)
	t.Log("synced, healthy, and no difference is left")

	for i, obj := range s.objects {
		changed := time.Now()
		a.change(t, s, obj, all[i].GetName())
		a.sees(t, s, obj, all[i].GetName(), obj.changed)
		t.Logf("%s %s: written and told by the watch within %s", obj.kind, all[i].GetName(), time.Since(changed).Round(time.Millisecond))
	}
	a.sync(t, s, all...)
	a.healthy(t, s, all)
	for i, obj := range s.objects {
		a.sees(t, s, obj, all[i].GetName(), obj.wanted)
	}
	t.Log("drift corrected")

	last := len(all) - 1
	a.sync(t, s, all[:last]...)
	a.seesNoMore(t, s, s.objects[last], all[last].GetName())
	a.sees(t, s, s.objects[0], all[0].GetName(), s.objects[0].wanted)
	t.Log("pruned")
	a.rest(t)
	for _, obj := range s.objects {
		a.listedOnce(t, obj)
	}
}

// rest waits while the watches are idle: PEERS_REST, 20 s if that is not set.
func (a *argo) rest(t *testing.T) {
	t.Helper()
	long := 20 * time.Second
	if given := os.Getenv("PEERS_REST"); given != "" {
		var err error
		long, err = time.ParseDuration(given)
		must(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	<-ctx.Done()
}
