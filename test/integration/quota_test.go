package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	countWorkspaces corev1.ResourceName = "count/coderworkspaces.aggregation.coder.com"
	countTemplates  corev1.ResourceName = "count/codertemplates.aggregation.coder.com"
)

// quota creates a quota for ten workspaces and no template, whose usage is not counted
// yet.
func quota(t *testing.T, ns string) *corev1.ResourceQuota {
	t.Helper()
	made := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "limits"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			countWorkspaces: resource.MustParse("10"), countTemplates: resource.MustParse("0"),
		}},
	}
	create(t, made)
	return made
}

// used returns the number of workspaces that a quota counts.
func used(t *testing.T, ns string) int64 {
	t.Helper()
	count := read(t, &corev1.ResourceQuota{}, ns, "limits").Status.Used[countWorkspaces]
	return count.Value()
}

// unstructuredWorkspace is workspaceOf for a dynamic client.
func unstructuredWorkspace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspace",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"templateName": "hello"},
	}}
}

// TestQuota sends fifty creates to two replicas at the same time, of which a quota
// allows ten.
func TestQuota(t *testing.T) {
	names, proxy := startCoders(t)
	ns := namespace(t)
	controller := startProcess(t, proxy, "--app=controller", "--leader-elect=false", "--watch-namespaces="+ns)
	controller.ready(t)
	coder := controlPlaneReady(t, names, ns, "coder")
	controller.kill()
	coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	all := startReplicas(t, proxy, 2, "--watch-namespaces="+ns)
	all.leader(t)
	polltest.Eventually(t, "the control plane is served", func(ctx context.Context) error {
		_, err := all[1].client.Resource(workspacesGVR).Namespace(ns).Create(ctx, unstructuredWorkspace("coder.admin.free"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	limits := quota(t, ns)
	// As kube-controller-manager would set it.
	limits.Status = corev1.ResourceQuotaStatus{Hard: limits.Spec.Hard, Used: corev1.ResourceList{
		countWorkspaces: resource.MustParse("0"), countTemplates: resource.MustParse("0"),
	}}
	if err := environment.client.Status().Update(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	template := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderTemplate", "metadata": map[string]any{"name": "coder.more"},
		"spec": map[string]any{"files": map[string]any{"main.tf": "# nothing\n"}},
	}}
	templates := workspacesGVR.GroupVersion().WithResource("codertemplates")
	for _, r := range all {
		polltest.Eventually(t, "a template is refused", func(ctx context.Context) error {
			_, err := r.client.Resource(templates).Namespace(ns).Create(ctx, template.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return refused(err, "exceeded quota: limits, requested: count/codertemplates.aggregation.coder.com=1, used: count/codertemplates.aggregation.coder.com=0, limited: count/codertemplates.aggregation.coder.com=0")
		})
	}
	if n := used(t, ns); n != 0 {
		t.Errorf("dry runs count: %d", n)
	}
	coder.ResetRequests()
	created := flood(t, all, ns)
	if n, asked := used(t, ns), coder.Writes(); created != 10 || n != 10 || asked != 10 {
		t.Errorf("%d workspaces are created, the quota counts %d, and Coder was asked for %d; want 10 of each", created, n, asked)
	}
}

// flood creates fifty workspaces at once. All that fail must fail because of the quota.
func flood(t *testing.T, all replicas, ns string) (created int) {
	t.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range 50 {
		running.Go(func() {
			workspaces := all[i%len(all)].client.Resource(workspacesGVR).Namespace(ns)
			// Replicas that count at the same moment get a conflict.
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				_, err := workspaces.Create(t.Context(), unstructuredWorkspace(fmt.Sprintf("coder.admin.ws-%d", i)), metav1.CreateOptions{})
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				created++
			} else if err := refused(err, "exceeded quota: limits"); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	return created
}

// TestQuotaIsCounted uses the real kube-controller-manager: it counts workspaces that
// users create in Coder, and not those that Coder rejected.
func TestQuotaIsCounted(t *testing.T) {
	_, ns, coder, template := coderServed(t)
	coder.AddWorkspace("admin", template, "by-hand")
	polltest.Eventually(t, "a workspace is made", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(environment.client.Create(ctx, workspaceOf(ns, "coder.admin.one", "hello")))
	})
	quota(t, ns)
	startControllerManager(t, "resourcequota-controller", "--resource-quota-sync-period=2s")
	counts := func(want int64) {
		t.Helper()
		polltest.Eventually(t, fmt.Sprintf("%d workspaces are counted", want), func(context.Context) error {
			if n := used(t, ns); n != want {
				return fmt.Errorf("%d are counted", n)
			}
			return nil
		})
	}
	counts(2)
	restore := coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/", Status: 400})
	if err := environment.client.Create(t.Context(), workspaceOf(ns, "coder.admin.refused", "hello")); err == nil {
		t.Error("what Coder refuses is made")
	}
	restore()
	counts(2)
}

// TestPolicyExample applies examples/limits/workspaces-per-owner.yaml.
func TestPolicyExample(t *testing.T) {
	_, ns, coder, _ := coderServed(t)
	coder.AddUser("ada", "member")
	raw, err := os.ReadFile("../../examples/limits/workspaces-per-owner.yaml")
	if err != nil {
		t.Fatal(err)
	}
	one, two, _ := strings.Cut(string(raw), "\n---\n")
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for document, object := range map[string]any{one: policy, two: binding} {
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatal(err)
		}
	}
	binding.Spec.MatchResources.NamespaceSelector = onlyIn(ns)
	clusterWide(t, policy, binding)
	polltest.Eventually(t, "a fourth name is refused", func(ctx context.Context) error {
		return refused(environment.client.Create(ctx, workspaceOf(ns, "coder.ada.ws-4", "hello"), client.DryRunAll),
			`owner "ada" may have three workspaces, called ws-1, ws-2 and ws-3; "ws-4" is none of them`)
	})
	for _, name := range []string{"coder.ada.ws-1", "coder.ada.ws-2", "coder.ada.ws-3", "coder.admin.ws-1"} {
		if err := environment.client.Create(t.Context(), workspaceOf(ns, name, "hello")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := refused(environment.client.Create(t.Context(), workspaceOf(ns, "coder.admin.dev", "hello")), `owner "admin"`); err != nil {
		t.Error(err)
	}
}
