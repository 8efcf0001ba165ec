package integration

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const checksumAnnotation = "coder.com/config-checksum"

// three has one workload of each kind, with the names of their Deployments.
type three struct {
	ns      string
	cp      *coderv1alpha1.CoderControlPlane
	runner  *coderv1alpha1.CoderProvisioner
	near    *coderv1alpha1.CoderWorkspaceProxy
	objects map[string]client.Object
}

// TestOthersChangesStay checks for each kind that changes of others on a Deployment are
// kept by later reconciles and after a restart of the operator, and that the operator
// writes nothing if nothing changes, not even after its restart.
func TestOthersChangesStay(t *testing.T) {
	t.Parallel()
	names, proxy := startCoders(t)
	ns := namespace(t)
	licensedCoder(t, names, ns, "coder")
	metrics := kubetest.FreePort(t)
	args := []string{"--app=controller", "--leader-elect=false", "--watch-namespaces=" + ns, "--metrics-bind-address=127.0.0.1:" + metrics}
	p := startProcess(t, proxy, args...)
	startStandIn(t, ns)
	w := newThree(t, ns)

	w.contentRolls(t)
	before := map[string]string{}
	for deployment := range w.objects {
		w.touch(t, deployment)
		before[deployment] = w.annotation(t, deployment, checksumAnnotation)
	}
	w.scale(t)
	for name, object := range w.objects {
		patch(t, object, "kubectl", `{"spec":{"extraEnv":[{"name":"LATER","value":"pass"},{"name":"SHARED","valueFrom":{"secretKeyRef":{"name":"shared","key":"value"}}}]}}`)
		isReady(t, object)
		w.unchanged(t, name, before[name])
	}

	w.settled(t, metrics)
	p.kill()
	stored := contents(t, ns)
	p = startProcess(t, proxy, args...)
	p.ready(t)
	w.settled(t, metrics)
	if diff := cmp.Diff(stored, contents(t, ns)); diff != "" {
		t.Errorf("something was changed because the operator has started anew:\n%s", diff)
	}
	from := auditSize(t)
	for name, object := range w.objects {
		// An event for each object, and for a child, that requires no write. (An
		// annotation of a Deployment increases its generation, which changes the
		// status.)
		patch(t, object, "somebody", `{"metadata":{"annotations":{"example.com/seen":"yes"}}}`)
		account := read(t, &appsv1.Deployment{}, ns, name).Spec.Template.Spec.ServiceAccountName
		child := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}
		patch(t, child, "somebody", `{"metadata":{"annotations":{"example.com/seen":"yes"}}}`)
	}
	w.settled(t, metrics)
	for _, r := range changesBy(t, from, p) {
		t.Errorf("at rest the operator changes something: %s", r)
	}
	for name := range w.objects {
		w.unchanged(t, name, before[name])
	}
}

func newThree(t *testing.T, ns string) *three {
	t.Helper()
	w := &three{ns: ns, runner: provisioner(ns, "runner"), near: workspaceProxy(ns, "near")}
	w.cp = controlPlane(ns, "coder", withDatabase)
	env := corev1.EnvVar{Name: "SHARED", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "shared"}, Key: "value",
	}}}
	w.cp.Spec.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "shared", Key: "database"}}
	w.cp.Spec.ExtraEnv = []corev1.EnvVar{env}
	w.runner.Spec.ExtraEnv, w.near.Spec.ExtraEnv = []corev1.EnvVar{env}, []corev1.EnvVar{env}
	create(t, secret(ns, "shared", map[string]string{"value": "one", "database": "postgres://db.invalid/coder"}), w.cp, w.runner, w.near)
	w.objects = map[string]client.Object{"coder": w.cp, "provisioner-runner": w.runner, "wsproxy-near": w.near}
	isReady(t, w.cp, w.runner, w.near)
	return w
}

func (w *three) annotation(t *testing.T, deployment, name string) string {
	t.Helper()
	return read(t, &appsv1.Deployment{}, w.ns, deployment).Spec.Template.Annotations[name]
}

// contentRolls changes the content of a Secret to which all refer.
func (w *three) contentRolls(t *testing.T) {
	t.Helper()
	before := map[string]string{}
	for name := range w.objects {
		before[name] = w.annotation(t, name, checksumAnnotation)
	}
	patch(t, secret(w.ns, "shared", nil), "kubectl", `{"stringData":{"value":"two"}}`)
	for name := range w.objects {
		polltest.Eventually(t, "the pods of "+name+" are replaced", func(context.Context) error {
			if now := w.annotation(t, name, checksumAnnotation); now == before[name] || now == "" {
				return fmt.Errorf("the checksum is %q", now)
			}
			return nil
		})
	}
	isReady(t, w.cp, w.runner, w.near)
}

// touch does what kubectl rollout restart, kubectl annotate and an injector of
// sidecars do.
func (w *three) touch(t *testing.T, name string) {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	patch(t, deployment, "kubectl-rollout", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-11-21"}}}}}`)
	patch(t, deployment, "kubectl-annotate", `{"metadata":{"annotations":{"example.com/owner":"team-a"}}}`)
	sidecar := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q},
		"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"sidecar.invalid/image:1"}]}}}}`, w.ns, name)
	err := environment.client.Patch(t.Context(), deployment, client.RawPatch("application/apply-patch+yaml", sidecar), client.FieldOwner("injector"))
	if err != nil {
		t.Fatalf("adding a sidecar to %s: %v", name, err)
	}
}

// scale scales the control plane and the proxy through their own scale subresource, and
// the provisioners through their Deployment.
func (w *three) scale(t *testing.T) {
	t.Helper()
	setScale(t, w.cp, 2)
	setScale(t, w.near, 4)
	setScale(t, read(t, &appsv1.Deployment{}, w.ns, "provisioner-runner"), 3)
	for name, wanted := range map[string]int32{"coder": 2, "wsproxy-near": 4, "provisioner-runner": 3} {
		polltest.Eventually(t, name+" is scaled", func(context.Context) error {
			if now := *read(t, &appsv1.Deployment{}, w.ns, name).Spec.Replicas; now != wanted {
				return fmt.Errorf("it has %d replicas", now)
			}
			return nil
		})
	}
	for _, object := range w.objects {
		isReady(t, object)
	}
}

func setScale(t *testing.T, object client.Object, replicas int32) {
	t.Helper()
	content := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	// The response, which is a Scale, is decoded into this object.
	answer := object.DeepCopyObject().(client.Object)
	if err := environment.client.SubResource("scale").Patch(t.Context(), answer, content, client.FieldOwner("kubectl-scale")); err != nil {
		t.Fatalf("scaling %s: %v", object.GetName(), err)
	}
}

// unchanged checks that the changes of others still exist, and that the rest of the pod
// template is the operator's.
func (w *three) unchanged(t *testing.T, name, checksum string) {
	t.Helper()
	d := read(t, &appsv1.Deployment{}, w.ns, name)
	template := d.Spec.Template
	if template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || d.Annotations["example.com/owner"] != "team-a" {
		t.Errorf("%s lost an annotation: %v, %v", name, template.Annotations, d.Annotations)
	}
	if !slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "sidecar" }) {
		t.Errorf("%s lost its sidecar", name)
	}
	if template.Annotations[checksumAnnotation] != checksum {
		t.Errorf("the checksum of %s is another one though no content changed", name)
	}
	if !slices.ContainsFunc(template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "LATER" }) {
		t.Errorf("%s has not got what the spec asked for last", name)
	}
	wanted := map[string]int32{"coder": 2, "wsproxy-near": 4, "provisioner-runner": 3}[name]
	if got := ptr.Deref(d.Spec.Replicas, 1); got != wanted {
		t.Errorf("%s has %d replicas, not %d", name, got, wanted)
	}
	if got := statusOf(t, w.objects[name]).Replicas; got != wanted {
		t.Errorf("the status of %s tells of %d replicas, not %d", name, got, wanted)
	}
}

// settled waits until a process has reconciled each kind and is idle.
func (w *three) settled(t *testing.T, metrics string) {
	t.Helper()
	last := ""
	polltest.Eventually(t, "the operator is at rest", func(context.Context) error {
		content := metricsOf(t, metrics)
		now := ""
		for _, controller := range []string{"codercontrolplane", "coderprovisioner", "coderworkspaceproxy"} {
			passes := metric(t, content, `controller_runtime_reconcile_total{controller="`+controller+`",result="requeue_after"}`)
			if passes == 0 || metric(t, content, `controller_runtime_active_workers{controller="`+controller+`"}`) > 0 ||
				metric(t, content, `workqueue_depth{controller="`+controller+`",name="`+controller+`",priority="0"}`) > 0 {
				last = ""
				return fmt.Errorf("%s is at work after %v passes", controller, passes)
			}
			now += fmt.Sprintln(controller, passes)
		}
		// Two equal readings: no write was in progress.
		before := last
		if last = now; before != now {
			return fmt.Errorf("it has just worked: %s", now)
		}
		return nil
	})
}

// metric returns the value of one series, or 0 if there is none.
func metric(t *testing.T, content, series string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(content)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatalf("%s: %v", series, err)
	}
	return value
}

func byName(list *unstructured.UnstructuredList) map[string]*unstructured.Unstructured {
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetName()] = &list.Items[i]
	}
	return all
}

func ttlOf(object *unstructured.Unstructured) *time.Duration {
	millis, _, _ := unstructured.NestedInt64(object.Object, "spec", "ttlMillis")
	if millis == 0 {
		return nil
	}
	ttl := time.Duration(millis) * time.Millisecond
	return &ttl
}

func describe(build string, ttl *time.Duration) string {
	if ttl == nil {
		return build
	}
	return build + " stops after " + ttl.String()
}

func revisionsOf(objects map[string]*unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for name, object := range maps.All(objects) {
		all[name] = object.GetResourceVersion()
	}
	return all
}

func revisionsIn(store cache.Store) map[string]string {
	all := map[string]string{}
	for _, item := range store.List() {
		object := item.(*unstructured.Unstructured)
		all[object.GetName()] = object.GetResourceVersion()
	}
	return all
}

// every calls a function periodically until the context is done.
func every(ctx context.Context, period time.Duration, do func()) {
	for ctx.Err() == nil {
		pause(ctx, period)
		do()
	}
}
