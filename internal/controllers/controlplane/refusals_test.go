package controlplane

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

func coderKey() types.NamespacedName { return types.NamespacedName{Namespace: "coder", Name: "coder"} }

// Coder is asked once an hour, whatever the reason for other passes is. Other passes do not restart
// the hour.
func TestAWorkingCoderIsAskedOnceAnHour(t *testing.T) {
	f := readyFixture(t)
	f.Settle()
	f.coder.ResetRequests()
	f.Forward(40 * time.Minute)
	result := f.Reconcile()
	if requests := f.coder.Requests(); len(requests) > 0 {
		t.Errorf("requests after 40 minutes: %v", requests)
	}
	if result.RequeueAfter != 20*time.Minute {
		t.Errorf("after 40 minutes it looks again after %v, want 20m", result.RequeueAfter)
	}
	f.Forward(20 * time.Minute)
	result = f.Reconcile()
	for request, times := range f.coder.Requests() {
		if !strings.HasPrefix(request, "GET ") || times != 1 {
			t.Errorf("%d requests %s after an hour, want one of each that asks", times, request)
		}
	}
	if requests := f.coder.Requests(); requests["GET /api/v2/buildinfo"] != 1 || requests["GET /api/v2/users/{user}"] != 1 {
		t.Errorf("requests after an hour: %v, want one for the version and one for the token", requests)
	}
	if result.RequeueAfter != framework.RestInterval {
		t.Errorf("it looks again after %v, want %v", result.RequeueAfter, framework.RestInterval)
	}
	if writes := f.TakeWrites(); len(writes) > 0 {
		t.Errorf("writes: %q", writes)
	}
}

// A cached answer of Coder is not used after a change of something on which it depends.
func TestAChangeHasCoderAskedAtOnce(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"the spec": func(f *fixture) {
			cp := f.Object()
			cp.Generation++
			f.Update(cp)
		},
		"the token": func(f *fixture) {
			secret := &corev1.Secret{}
			f.Get("coder-operator-token", secret)
			secret.Labels["touched"] = "true"
			f.Update(secret)
		},
		"the process": func(f *fixture) { f.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.coder.ResetRequests()
			change(f)
			f.Reconcile()
			if len(f.coder.Requests()) == 0 {
				t.Error("Coder is not asked")
			}
		})
	}
}

// Another part of the process saw that Coder rejects the token.
func TestARefusalElsewhereRenewsTheTokenAtOnce(t *testing.T) {
	f := readyFixture(t)
	token := &corev1.Secret{}
	f.Get("coder-operator-token", token)
	old := string(token.Data[coderv1alpha1.SecretKeyToken])
	f.coder.RevokeToken(old)

	f.r.Refused(coderKey())
	f.r.Refused(coderKey())
	if waiting := len(f.r.refusals.events); waiting != 1 {
		t.Fatalf("%d events, want one that wakes the controller", waiting)
	}
	if event := <-f.r.refusals.events; event.Object.GetName() != "coder" || event.Object.GetNamespace() != "coder" {
		t.Errorf("the event is about %v", event.Object)
	}
	f.Settle()

	f.Get("coder-operator-token", token)
	if string(token.Data[coderv1alpha1.SecretKeyToken]) == old {
		t.Error("the token that Coder refuses is still there")
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.r.Refused(coderKey())
	if len(f.r.refusals.events) != 1 {
		t.Error("a later refusal wakes nobody")
	}
}

func TestAFullQueueOfRefusalsBlocksNobody(t *testing.T) {
	f := newFixture(t)
	for i := range refusalsAtOnce + 1 {
		f.r.Refused(types.NamespacedName{Name: strings.Repeat("x", i)})
	}
	<-f.r.refusals.events
	last := types.NamespacedName{Name: strings.Repeat("x", refusalsAtOnce)}
	f.r.Refused(last)
	if len(f.r.refusals.events) != refusalsAtOnce {
		t.Error("a refusal that found no place is not told when there is one")
	}
}

func TestTheSecretOfTheDatabaseIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		database *coderv1alpha1.DatabaseSpec
		secret   *corev1.Secret
		message  string
	}{
		"a Secret": {
			database: &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db", Key: "url"}},
			message:  `Secret "db" of spec.database does not exist`,
		},
		"a key": {
			database: &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db", Key: "dsn"}},
			secret:   databaseSecret(), message: `has no key "dsn"`,
		},
		"a cluster": {
			database: &coderv1alpha1.DatabaseSpec{CloudNativePG: &coderv1alpha1.CloudNativePGReference{ClusterName: "pg"}},
			message:  `Secret "pg-app" of the CloudNativePG cluster "pg"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.ExtraEnv, cp.Spec.Database = nil, c.database
			}))
			if c.secret != nil {
				f.Create(c.secret)
			}
			f.Settle()
			condition := f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseSecretMissing)
			if !strings.Contains(condition.Message, c.message) {
				t.Errorf("message %q does not say %q", condition.Message, c.message)
			}
			f.mustNotLeak()
		})
	}
}
