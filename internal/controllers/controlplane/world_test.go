package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
)

// world does the work of Kubernetes' controllers and the kubelet, and reports whether there was
// something to do.
func (f *fixture) world() (busy bool) {
	f.t.Helper()
	f.fault.without(func() {
		busy = f.runJob()
		d := &appsv1.Deployment{}
		if f.gone("coder", "coder", d) || d.DeletionTimestamp != nil {
			return
		}
		n := *d.Spec.Replicas
		status := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		if same(d.Status, status) {
			return
		}
		d.Status, busy = status, true
		if err := f.cluster.SubResource("status").Update(f.t.Context(), d); err != nil {
			f.t.Fatal(err)
		}
	})
	return busy
}

func same(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

// live runs the controller and world until there is nothing left to do. It advances the clock as
// the controller requests. It stops if the process ends.
func (f *fixture) live() ctrl.Result {
	f.t.Helper()
	idle := 0
	for range 60 {
		f.takeWrites()
		result, err := f.try("coder")
		if f.fault.struck() && f.fault.with == nil {
			return result
		}
		if err != nil && (f.fault.at == 0 && f.reads.at == 0 || apierrors.IsConflict(err)) {
			f.t.Fatalf("reconciling: %v", err)
		}
		mustNotSpin(f.t, result)
		if f.isGone() {
			return result
		}
		busy := f.world()
		// Only the short intervals of the controller count, not the recheck of a working Coder.
		after := result.RequeueAfter
		if soon := after > 0 && after <= time.Minute; soon {
			f.clock.SetTime(f.clock.Now().Add(after))
		} else {
			after = 0
		}
		if idle++; busy || len(f.takeWrites()) > 0 || err != nil {
			idle = 0
		}
		if idle == 2 || idle == 1 && after == 0 {
			return result
		}
	}
	f.t.Fatalf("sixty passes, and still something to do: %q", f.takeWrites())
	return ctrl.Result{}
}

func (f *fixture) isGone() bool { return f.gone("coder", "coder", &coderv1alpha1.CoderControlPlane{}) }

// kindsOfPictures returns lists of all kinds of objects that the controller may write.
func kindsOfPictures() []client.ObjectList {
	return []client.ObjectList{
		&coderv1alpha1.CoderControlPlaneList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&corev1.SecretList{}, &batchv1.JobList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{},
		&networkingv1.NetworkPolicyList{}, &networkingv1.IngressList{}, &gatewayv1.HTTPRouteList{}, &monitoringv1.ServiceMonitorList{},
	}
}

// generated matches values that differ in each run: ids, checksums, and times.
var generated = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{64}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// picture returns all objects in the cluster and in Coder without values that differ in each run.
// The given texts replace licenses by their names.
func (f *fixture) picture(licenses map[string]string) string {
	f.t.Helper()
	var out strings.Builder
	for _, list := range kindsOfPictures() {
		if err := f.cluster.List(f.t.Context(), list); err != nil {
			f.t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			text, err := f.portrait(item.(client.Object))
			out.WriteString(text)
			return err
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
	out.WriteString(f.coderPicture(licenses))
	return out.String()
}

// portrait returns one object without values that differ from run to run.
func (f *fixture) portrait(obj client.Object) (string, error) {
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	obj.SetGeneration(0)
	switch typed := obj.(type) {
	case *corev1.Secret:
		// The content of tokens does not matter. coderPicture checks whether Coder accepts them.
		for key := range typed.Data {
			typed.Data[key] = nil
		}
		for key, value := range typed.Annotations {
			if regexp.MustCompile(`coder\.com/.*token-(id|name)`).MatchString(key) && value != "" {
				typed.Annotations[key] = "…"
			}
		}
	case *appsv1.Deployment:
		// The generation counts the writes of the spec.
		typed.Status.ObservedGeneration = 0
	case *coderv1alpha1.CoderControlPlane:
		if typed.Status.ObservedGeneration != 0 {
			typed.Status.ObservedGeneration = 1
		}
		for i := range typed.Status.Conditions {
			typed.Status.Conditions[i].ObservedGeneration = 0
		}
	}
	text, err := yaml.Marshal(obj)
	return fmt.Sprintf("--- %T\n%s", obj, generated.ReplaceAllString(string(text), "…")), err
}

// coderPicture returns the users and licenses in Coder, and whether Coder accepts the token that
// the cluster contains.
func (f *fixture) coderPicture(licenses map[string]string) string {
	f.t.Helper()
	var out strings.Builder
	users := slices.Sorted(slices.Values(f.coder.Usernames()))
	for _, user := range users {
		fmt.Fprintf(&out, "Coder has user %s with %d tokens\n", user, len(f.coder.TokenNames(user)))
	}
	for _, l := range f.coder.Licenses() {
		fmt.Fprintf(&out, "Coder has license %s\n", licenses[l.Text])
	}
	secrets := &corev1.SecretList{}
	if err := f.cluster.List(f.t.Context(), secrets); err != nil {
		f.t.Fatal(err)
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if token := string(secret.Data[coderv1alpha1.SecretKeyToken]); token != "" {
			fmt.Fprintf(&out, "Coder takes the token in %s: %t\n", secret.Name, f.takes(token))
		}
		if email := string(secret.Data["email"]); email != "" {
			fmt.Fprintf(&out, "Coder takes the password in %s: %t\n", secret.Name, f.letsIn(email, string(secret.Data["password"])))
		}
	}
	return out.String()
}

func (f *fixture) takes(token string) bool {
	c, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: token})
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = c.Me(f.t.Context())
	return err == nil
}

func (f *fixture) letsIn(email, password string) bool {
	c, err := coderd.New(coderd.Config{URL: f.coder.URL})
	if err != nil {
		f.t.Fatal(err)
	}
	token, err := c.Login(f.t.Context(), email, password)
	if err != nil {
		return false
	}
	session, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: token})
	if err != nil {
		f.t.Fatal(err)
	}
	return session.Logout(f.t.Context()) == nil
}

// gatewayAndMonitoring adds the optional kinds to the cluster.
func (f *fixture) gatewayAndMonitoring() {
	f.kinds[workload.HTTPRouteKind()] = true
	f.kinds[workload.ServiceMonitorKind()] = true
}

// add creates an object like a user.
func (f *fixture) add(obj client.Object) {
	f.t.Helper()
	f.fault.without(func() {
		if err := f.cluster.Create(f.t.Context(), obj); err != nil {
			f.t.Fatal(err)
		}
	})
}

func secretOf(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name, UID: types.UID(name)}, Data: bytesOf(data)}
}

func bytesOf(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}
	return out
}
