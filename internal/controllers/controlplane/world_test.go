package controlplane

import (
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
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

// world does the work of Kubernetes' controllers and the kubelet, and reports whether there was
// something to do.
func (f *fixture) world() (busy bool) {
	f.T.Helper()
	f.Fault.Without(func() {
		busy = f.runJob()
		busy = f.endSchemaJobs("412") || busy
		busy = f.endJobs("-image-", "") || busy
		busy = f.endBackups(coderv1alpha1.BackupCompleted) || busy
		pod := &corev1.Pod{}
		if u := f.upgrade(); u != nil && u.Phase == coderv1alpha1.UpgradeStoppingProvisioners && f.Has("mine", pod) {
			f.Remove(pod)
			busy = true
		}
	})
	d := &appsv1.Deployment{}
	if !f.Has("coder", d) || d.DeletionTimestamp != nil {
		return busy
	}
	switch pod := (&corev1.Pod{}); d.Spec.Template.Spec.Containers[0].Image {
	case image236:
		f.coder.SetRelease(coderdtest.Release236)
	case imageMissing:
		there := f.Has("coder-rs9-abcde", pod)
		f.Fault.Without(func() {
			switch {
			case there && *d.Spec.Replicas == 0:
				f.Remove(pod)
			case !there && *d.Spec.Replicas > 0:
				f.addPod("9", waitingContainer("ImagePullBackOff", "not found"))
				f.Forward(upgradePatience)
			}
		})
		return f.PodsReady(0) || busy
	}
	return f.PodsReady(*d.Spec.Replicas) || busy
}

// upgrade returns the upgrade in the status, or nil.
func (f *fixture) upgrade() *coderv1alpha1.UpgradeStatus {
	cp := &coderv1alpha1.CoderControlPlane{}
	if !f.Has("coder", cp) {
		return nil
	}
	return cp.Status.Upgrade
}

// live runs the controller and world until there is nothing left to do. It advances the clock as
// the controller requests. It stops if the process ends.
func (f *fixture) live() ctrl.Result {
	f.T.Helper()
	idle := 0
	for range 60 {
		f.TakeWrites()
		result, err := f.Try()
		if f.Fault.Dead() {
			return result
		}
		if err != nil && (!f.Fault.Active() && !f.reads.Active() || apierrors.IsConflict(err)) {
			f.T.Fatalf("reconciling: %v", err)
		}
		mustNotSpin(f.T, result)
		if f.Gone() {
			return result
		}
		busy := f.world()
		// Only the short intervals of the controller count, not the recheck of a working Coder.
		after := result.RequeueAfter
		if soon := after > 0 && after <= time.Minute; soon {
			f.Forward(after)
		} else {
			after = 0
		}
		if idle++; busy || len(f.TakeWrites()) > 0 || err != nil {
			idle = 0
		}
		if idle == 2 || idle == 1 && after == 0 {
			return result
		}
	}
	f.T.Fatalf("sixty passes, and still something to do: %q", f.TakeWrites())
	return ctrl.Result{}
}

// kindsOfPictures returns lists of all kinds of objects that the controller may write.
func kindsOfPictures() []client.ObjectList {
	return []client.ObjectList{
		&coderv1alpha1.CoderControlPlaneList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&corev1.SecretList{}, &batchv1.JobList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{},
		&coderv1alpha1.CoderBackupList{}, &coderv1alpha1.CoderBackupScheduleList{},
		&networkingv1.NetworkPolicyList{}, &networkingv1.IngressList{}, &gatewayv1.HTTPRouteList{}, &monitoringv1.ServiceMonitorList{},
	}
}

// generated matches values that differ in each run: ids, checksums, and times.
var generated = regexp.MustCompile(`-\d{10}\b|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{64}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// picture returns all objects in the cluster and in Coder without values that differ in each run.
// The given texts replace licenses by their names.
func (f *fixture) picture(licenses map[string]string) string {
	f.T.Helper()
	var out strings.Builder
	for _, list := range kindsOfPictures() {
		f.List(list)
		err := meta.EachListItem(list, func(item runtime.Object) error {
			text, err := f.portrait(item.(client.Object))
			out.WriteString(text)
			return err
		})
		if err != nil {
			f.T.Fatal(err)
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
	f.T.Helper()
	var out strings.Builder
	users := slices.Sorted(slices.Values(f.coder.Usernames()))
	for _, user := range users {
		fmt.Fprintf(&out, "Coder has user %s with %d tokens\n", user, len(f.coder.TokenNames(user)))
	}
	for _, l := range f.coder.Licenses() {
		fmt.Fprintf(&out, "Coder has license %s\n", licenses[l.Text])
	}
	secrets := &corev1.SecretList{}
	f.List(secrets)
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
		f.T.Fatal(err)
	}
	_, err = c.Me(f.T.Context())
	return err == nil
}

func (f *fixture) letsIn(email, password string) bool {
	c, err := coderd.New(coderd.Config{URL: f.coder.URL})
	if err != nil {
		f.T.Fatal(err)
	}
	token, err := c.Login(f.T.Context(), email, password)
	if err != nil {
		return false
	}
	session, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: token})
	if err != nil {
		f.T.Fatal(err)
	}
	return session.Logout(f.T.Context()) == nil
}

// gatewayAndMonitoring adds the optional kinds to the cluster.
func (f *fixture) gatewayAndMonitoring() {
	f.kinds[framework.HTTPRouteKind()] = true
	f.kinds[framework.ServiceMonitorKind()] = true
}

func secretOf(name string, data map[string]string) *corev1.Secret {
	return controllertest.Secret("coder", name, data)
}
