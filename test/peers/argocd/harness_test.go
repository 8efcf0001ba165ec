//go:build e2e

package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// tracking is the label by which Argo CD identifies its objects.
const tracking = "app.kubernetes.io/instance"

// manager names Argo CD in managed fields.
const manager = "argocd-controller"

// argo is Argo CD's engine for a cluster. The requests of its cache are counted.
type argo struct {
	api     dynamic.Interface
	config  *rest.Config
	kubectl kube.Kubectl
	cache   cache.ClusterCache
	asked   *requests
}

func connect(t *testing.T) *argo {
	t.Helper()
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		t.Fatal("KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	config.QPS, config.Burst = 200, 400
	a := &argo{config: config, kubectl: &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}, asked: &requests{}}
	a.api, err = dynamic.NewForConfig(config)
	must(t, err)
	counted := rest.CopyConfig(config)
	counted.Wrap(a.asked.count)
	a.cache = cache.NewClusterCache(counted,
		cache.SetLogr(logr.Discard()),
		cache.SetSettings(cache.Settings{ResourceHealthOverride: healthByReady{}, ResourcesFilter: cache.NewNoopSettings()}),
		cache.SetPopulateResourceInfoHandler(func(un *unstructured.Unstructured, _ bool) (any, bool) {
			return un.GetLabels()[tracking], un.GetLabels()[tracking] != ""
		}),
	)
	t.Cleanup(func() { a.cache.Invalidate() })
	return a
}

// sync syncs exactly these objects of the scenario to the cluster, based on the
// cache, like Argo CD's application controller.
func (a *argo) sync(t *testing.T, s scenario, wanted ...*unstructured.Unstructured) {
	t.Helper()
	phase, message := common.OperationRunning, ""
	var results []common.ResourceSyncResult
	started := metav1.Now()
	eventually(t, s.patience, "the sync", func() error {
		live, err := a.cache.GetManagedLiveObjs(wanted, keptBy(t))
		must(t, err)
		var targets []*unstructured.Unstructured
		for _, obj := range wanted {
			targets = append(targets, obj.DeepCopy())
		}
		step, cleanup, err := sync.NewSyncContext("main", sync.Reconcile(targets, live, s.namespace, a.cache), a.config, a.config, a.kubectl, s.namespace,
			sync.WithInitialState(phase, message, results, started), sync.WithPrune(true), sync.WithServerSideApply(true),
			sync.WithServerSideApplyManager(manager), sync.WithHealthOverride(healthByReady{}), sync.WithLogr(logr.Discard()))
		must(t, err)
		step.Sync()
		cleanup()
		if phase, message, results = step.GetState(); !phase.Completed() {
			return fmt.Errorf("%s: %s%s", phase, message, told(results))
		}
		return nil
	})
	if phase != common.OperationSucceeded {
		t.Fatalf("the sync ended as %s after %s: %s%s", phase, time.Since(started.Time).Round(time.Millisecond), message, told(results))
	}
	t.Logf("synced in %s%s", time.Since(started.Time).Round(time.Millisecond), told(results))
}

func keptBy(t *testing.T) func(*cache.Resource) bool {
	return func(r *cache.Resource) bool { return r.Info == t.Name() }
}

func told(results []common.ResourceSyncResult) string {
	var all strings.Builder
	for _, r := range results {
		fmt.Fprintf(&all, "; %s %s: %s %s %s", r.ResourceKey.Kind, r.ResourceKey.Name, r.Status, r.HookPhase, r.Message)
	}
	return all.String()
}

// inSync checks with both of Argo CD's diff methods that the objects are as wanted:
// by its own diff, and by a dry run of the API server.
func (a *argo) inSync(t *testing.T, wanted []*unstructured.Unstructured) {
	t.Helper()
	live, err := a.cache.GetManagedLiveObjs(wanted, keptBy(t))
	must(t, err)
	operations, cleanup, err := a.kubectl.ManageServerSideDiffDryRuns(a.config)
	must(t, err)
	defer cleanup()
	byServer := []diff.Option{
		diff.WithServerSideDiff(true), diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(operations)),
		diff.WithManager(manager), diff.WithGVKParser(a.cache.GetGVKParser()),
	}
	for way, options := range map[string][]diff.Option{"by itself": nil, "by a dry run": byServer} {
		for _, target := range wanted {
			result, err := diff.Diff(target.DeepCopy(), live[kube.GetResourceKey(target)].DeepCopy(), append(options, diff.WithLogr(logr.Discard()))...)
			if err != nil {
				t.Errorf("comparing %s %s: %v", target.GetName(), way, err)
				continue
			}
			if result.Modified {
				t.Errorf("%s is out of sync at rest, compared %s:\nlive  %s\nafter %s", target.GetName(), way, result.NormalizedLive, result.PredictedLive)
			}
		}
	}
}

// healthy waits until every object in the cache is healthy. Objects of kinds without
// a health check count as healthy.
func (a *argo) healthy(t *testing.T, s scenario, wanted []*unstructured.Unstructured) {
	t.Helper()
	eventually(t, s.patience, "every object is healthy", func() error {
		live, err := a.cache.GetManagedLiveObjs(wanted, keptBy(t))
		must(t, err)
		for _, target := range wanted {
			obj := live[kube.GetResourceKey(target)]
			if obj == nil {
				return fmt.Errorf("the cache does not know %s", target.GetName())
			}
			state, err := health.GetResourceHealth(obj, healthByReady{})
			must(t, err)
			if state != nil && state.Status != health.HealthStatusHealthy {
				return fmt.Errorf("%s is %s: %s", target.GetName(), state.Status, state.Message)
			}
		}
		return nil
	})
}

// sees waits until the cache has a value in an object's field.
func (a *argo) sees(t *testing.T, s scenario, obj object, name string, want any) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("the cache has %v in %v of %s", want, obj.field, name), func() error {
		seen := a.cached(s, obj, name)
		if seen == nil || seen.Resource == nil {
			return fmt.Errorf("it does not know the object")
		}
		if got, _, _ := unstructured.NestedFieldNoCopy(seen.Resource.Object, obj.field...); got != want {
			return fmt.Errorf("it has %v, at version %s", got, seen.ResourceVersion)
		}
		return nil
	})
}

func (a *argo) seesNoMore(t *testing.T, s scenario, obj object, name string) {
	t.Helper()
	eventually(t, s.patience, "the cache knows "+name+" no more", func() error {
		if seen := a.cached(s, obj, name); seen != nil {
			return fmt.Errorf("it has it at version %s", seen.ResourceVersion)
		}
		return nil
	})
	_, err := a.api.Resource(obj.resource).Namespace(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading %s, which the cache knows no more, ended with %v, want that there is none", name, err)
	}
}

func (a *argo) cached(s scenario, obj object, name string) *cache.Resource {
	found := a.cache.FindResources(s.namespace, func(r *cache.Resource) bool {
		return r.Ref.Name == name && r.Ref.Kind == obj.kind && r.Ref.GroupVersionKind().Group == obj.resource.Group
	})
	for _, r := range found {
		return r
	}
	return nil
}

// change changes an object like a user who does not use Argo CD.
func (a *argo) change(t *testing.T, s scenario, obj object, name string) {
	t.Helper()
	content := map[string]any{}
	must(t, unstructured.SetNestedField(content, obj.changed, obj.field...))
	raw, err := json.Marshal(content)
	must(t, err)
	_, err = a.api.Resource(obj.resource).Namespace(s.namespace).Patch(t.Context(), name, types.MergePatchType, raw,
		metav1.PatchOptions{FieldManager: "somebody"})
	must(t, err)
}

func (a *argo) mustWatch(t *testing.T, s scenario) {
	t.Helper()
	for _, obj := range s.objects {
		eventually(t, 10*time.Second, "the cache watches "+obj.resource.Resource, func() error {
			if lists, watches := a.asked.of(obj.resource.Resource); lists == 0 || watches == 0 {
				return fmt.Errorf("%d lists and %d watches: is it served, with list and watch?", lists, watches)
			}
			return nil
		})
	}
}

// listedOnce checks that there was only one list, and that all changes came by
// watch.
func (a *argo) listedOnce(t *testing.T, obj object) {
	t.Helper()
	lists, watches := a.asked.of(obj.resource.Resource)
	t.Logf("%s: %d lists, %d watches", obj.resource.Resource, lists, watches)
	if lists != 1 || watches > 2 {
		t.Errorf("the cache listed %s %d times and opened %d watches, want one list and at most two watches", obj.resource.Resource, lists, watches)
	}
}

func (a *argo) namespaceOf(t *testing.T, name string) {
	t.Helper()
	api := a.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if _, err := api.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, api.Delete(ctx, name, metav1.DeleteOptions{}))
	})
}

// deleteAll removes objects that a scenario may have left.
func (a *argo) deleteAll(t *testing.T, s scenario) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i, obj := range load(t, s) {
		err := a.api.Resource(s.objects[i].resource).Namespace(s.namespace).Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting %s: %v", obj.GetName(), err)
		}
	}
}
