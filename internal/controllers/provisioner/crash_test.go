package provisioner

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// scenario is a state of a provisioner that needs further steps.
type scenario struct {
	prepare func(f *fixture)
	// deletes reports that nothing remains in the end, and held that the pods are stopped for an upgrade.
	deletes, held bool
}

func scenarios() map[string]scenario {
	edited := func(change func(cr *coderv1alpha1.CoderProvisioner)) func(f *fixture) {
		return func(f *fixture) {
			f.Settle()
			f.Edit(change)
		}
	}
	return map[string]scenario{
		"create": {prepare: func(*fixture) {}},
		"rotate": {prepare: edited(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = map[string]string{"zone": "b"} })},
		"everything changed": {prepare: edited(func(cr *coderv1alpha1.CoderProvisioner) {
			cr.Spec.Tags, cr.Spec.Replicas, cr.Spec.Image = nil, ptr.To[int32](1), "registry.example.com/other"
			cr.Spec.Key.Name = "new"
		})},
		"own key": {prepare: edited(func(cr *coderv1alpha1.CoderProvisioner) {
			cr.Spec.Tags, cr.Spec.Key.SecretRef = nil, &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
		})},
		"held": {held: true, prepare: func(f *fixture) {
			f.Settle()
			f.upgrades(coderv1alpha1.UpgradeStoppingProvisioners)
		}},
		"no longer held": {prepare: func(f *fixture) {
			f.upgrades(coderv1alpha1.UpgradeMigrating)
			f.Settle()
			f.upgrades(coderv1alpha1.UpgradeCompleted)
		}},
		"delete": {deletes: true, prepare: func(f *fixture) {
			f.Settle()
			f.Delete()
			f.TakeWrites()
		}},
	}
}

// TestCrashEverywhere kills the process after each single write to the cluster or to Coder, and
// continues with a new process. The result must be that of an undisturbed run.
func TestCrashEverywhere(t *testing.T) {
	for what, s := range scenarios() {
		t.Run(what, func(t *testing.T) {
			undisturbed, _ := runWithCrash(t, s, 0)
			kubetest.EachStep(t, 3, func(at int) bool {
				end, struck := runWithCrash(t, s, at)
				if end != undisturbed {
					t.Fatalf("after a crash at write %d:\n%s\nundisturbed:\n%s", at, end, undisturbed)
				}
				return struck
			})
		})
	}
}

func (s scenario) start(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, newProvisioner(), newControlPlane(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Data: map[string][]byte{"key": []byte("one")},
	})
	s.prepare(f)
	return f
}

func runWithCrash(t *testing.T, s scenario, at int) (end string, struck bool) {
	t.Helper()
	f := s.start(t)
	f.Fault.Set(at, true)
	for range 8 {
		_, err := f.Try()
		if f.Fault.Dead() {
			break
		}
		f.Must(err)
		f.roll()
	}
	struck = f.Fault.Dead()
	f.restart()
	if s.deletes {
		for range 4 {
			f.roll()
			f.Reconcile()
		}
	} else {
		f.Settle()
		s.mustBeReady(f)
	}
	return f.picture(), struck
}

func (s scenario) mustBeReady(f *fixture) {
	f.T.Helper()
	reason := coderv1alpha1.ReasonReady
	if s.held {
		reason = coderv1alpha1.ReasonScaledToZero
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, reason)
}

// TestTroubleEverywhere makes each single write to the cluster and each request to Coder fail once,
// in the same process.
func TestTroubleEverywhere(t *testing.T) {
	resource := schema.GroupResource{Resource: "things"}
	for trouble, err := range map[string]error{
		"conflict":        apierrors.NewConflict(resource, "thing", errors.New("it was changed")),
		"API server gone": apierrors.NewServiceUnavailable("it starts"),
	} {
		for _, what := range []string{"create", "rotate", "delete"} {
			t.Run(trouble+"/"+what, func(t *testing.T) {
				s := scenarios()[what]
				undisturbed, _ := runWithCrash(t, s, 0)
				kubetest.EachStep(t, 0, func(at int) bool {
					end, struck := runWithTrouble(t, s, at, err)
					if end != undisturbed {
						t.Fatalf("after trouble at call %d:\n%s\nundisturbed:\n%s", at, end, undisturbed)
					}
					return struck
				})
			})
		}
	}
}

func runWithTrouble(t *testing.T, s scenario, at int, err error) (end string, struck bool) {
	t.Helper()
	f := s.start(t)
	f.everyRequest = true
	f.Fault.SetError(at, false, err)
	for range 9 {
		result, passErr := f.Try()
		if passErr != nil && apierrors.IsConflict(passErr) {
			t.Errorf("a conflict at call %d is an error: %v", at, passErr)
		}
		if passErr == nil && result.RequeueAfter > 0 && result.RequeueAfter <= time.Minute {
			f.Forward(result.RequeueAfter)
		}
		f.roll()
	}
	struck = f.Fault.Struck()
	f.Fault.Set(0, false)
	if !s.deletes {
		f.Settle()
	}
	return f.picture(), struck
}

// picture returns all keys, objects and the status, without values that differ from run to run.
func (f *fixture) picture() string {
	f.T.Helper()
	var out strings.Builder
	held := map[string]string{}
	for _, organization := range []string{"coder", "sales"} {
		for _, k := range f.coder.ProvisionerKeys(organization) {
			fmt.Fprintf(&out, "key %s of %s %v\n", anyTurn(k.Name), organization, k.Tags)
			held[k.ID.String()] = "the key in " + organization
		}
	}
	if f.Gone() {
		out.WriteString("the provisioner is gone\n")
	} else {
		status := f.Object().Status
		// The conditions are compared without their times.
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime = metav1.Time{}
			status.Conditions[i].Message = anyTurn(status.Conditions[i].Message)
		}
		status.ProvisionerKeyID, status.OrganizationID = held[status.ProvisionerKeyID], ""
		status.ProvisionerKeyName = anyTurn(status.ProvisionerKeyName)
		raw, err := json.Marshal(status)
		f.Must(err)
		fmt.Fprintf(&out, "status %s\n", raw)
		d := f.Deployment()
		pod := d.Spec.Template
		fmt.Fprintf(&out, "pods hold %q\n", held[pod.Annotations[coderv1alpha1.AnnotationProvisionerKeyID]])
		pod.Annotations = nil
		raw, err = json.Marshal(pod)
		f.Must(err)
		fmt.Fprintf(&out, "deployment %d %s\n", *d.Spec.Replicas, raw)
	}
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{}, &corev1.ServiceList{}} {
		f.List(list)
		names, err := json.Marshal(namesOf(f, list))
		f.Must(err)
		fmt.Fprintf(&out, "%T %s\n", list, names)
	}
	return out.String()
}

// anyTurn replaces the alternating names of keys by one name, because a crash may change which name
// is next.
func anyTurn(text string) string {
	for n := 2; n <= 4; n++ {
		text = strings.ReplaceAll(text, fmt.Sprintf("gpu-%d", n), "gpu")
		text = strings.ReplaceAll(text, fmt.Sprintf("new-%d", n), "new")
	}
	return text
}

func namesOf(f *fixture, list client.ObjectList) []string {
	var names []string
	f.Must(eachItem(list, func(obj client.Object) {
		names = append(names, obj.GetNamespace()+"/"+obj.GetName())
	}))
	return names
}
