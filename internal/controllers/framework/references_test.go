package framework

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func (f *fixture) checksum() string {
	f.T.Helper()
	return f.Deployment().Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]
}

func TestAChangeOfWhatThePodsUseRollsThem(t *testing.T) {
	secret := secretOf("db", map[string]string{"url": "postgres://a", "other": "x"})
	f := newFixture(t, secret, newControlPlane(withSecretVariable("db", "url")))
	f.Settle()
	first := f.checksum()
	if len(first) != 64 {
		t.Fatalf("checksum is %q", first)
	}

	f.Get("db", secret)
	secret.Data["other"] = []byte("y")
	f.Update(secret)
	f.Settle()
	if f.checksum() != first {
		t.Error("a key that no container uses rolls the pods")
	}

	secret.Data["url"] = []byte("postgres://b")
	f.Update(secret)
	f.Settle()
	second := f.checksum()
	if second == first {
		t.Error("a change of a key that a container uses does not roll the pods")
	}
	f.restart()
	f.Settle()
	if f.checksum() != second {
		t.Error("a new process comes to another checksum")
	}
}

func TestWhatIsRefersToInThePodTemplateCounts(t *testing.T) {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "settings"}, Data: map[string]string{"a": "1"}}
	f := newFixture(t, settings, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{
			Name: "prepare", Image: "busybox",
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		}}}}
	}))
	f.Settle()
	first := f.checksum()
	f.Get("settings", settings)
	settings.Data["b"] = "2"
	f.Update(settings)
	f.Settle()
	if first == "" || f.checksum() == first {
		t.Errorf("checksum stays %q when a ConfigMap of an init container gets another key", first)
	}
}

// The API server is not asked as long as nothing changes. If the metadata of one Secret changes,
// only that Secret is read.
func TestAPassAtRestReadsNothingLive(t *testing.T) {
	secret := secretOf("db", map[string]string{"url": "postgres://a"})
	f := newFixture(t, secret, newControlPlane(withSecretVariable("db", "url"), func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.ExtraEnv = append(cp.Spec.ExtraEnv, corev1.EnvVar{Name: "PERHAPS", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "perhaps"}, Key: "x", Optional: ptr.To(true)},
		}})
	}))
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.takeReads()

	f.Reconcile()
	if reads, writes := f.takeReads(), f.TakeWrites(); len(reads)+len(writes) > 0 {
		t.Errorf("reads %q and writes %q at rest", reads, writes)
	}

	f.Get("db", secret)
	secret.Labels = map[string]string{"touched": "true"}
	f.Update(secret)
	f.Reconcile()
	if reads := f.takeReads(); len(reads) != 1 || !strings.Contains(reads[0], "coder/db") {
		t.Errorf("reads %q after a change of one Secret", reads)
	}
	f.Reconcile()
	if reads := f.takeReads(); len(reads) > 0 {
		t.Errorf("reads %q again", reads)
	}
}

func TestMissingReferencesAreToldBeforeTheKubeletDoes(t *testing.T) {
	f := newFixture(t, newControlPlane(withSecretVariable("db", "url")))
	f.Settle()
	condition := f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
	if !strings.Contains(condition.Message, `Secret "db"`) {
		t.Errorf("message %q does not name the Secret", condition.Message)
	}
	f.MustHave(coderv1alpha1.ConditionReconciling, metav1.ConditionTrue, coderv1alpha1.ReasonSecretMissing)
	missing := f.checksum()

	f.Create(secretOf("db", map[string]string{"uri": "x"}))
	f.Settle()
	condition = f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
	if !strings.Contains(condition.Message, `no key "url"`) {
		t.Errorf("message %q does not name the key", condition.Message)
	}

	secret := &corev1.Secret{}
	f.Get("db", secret)
	secret.Data["url"] = []byte("postgres://a")
	f.Update(secret)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonProgressing)
	if missing == "" || f.checksum() == missing {
		t.Errorf("the checksum stays %q when the Secret is complete", missing)
	}
}

// Pods that start without a required object fail, so the running ones must stay, also with the
// strategy Recreate.
func TestAMissingReferenceDoesNotRollRunningPods(t *testing.T) {
	settings := secretOf("db", map[string]string{"url": "postgres://a", "CODER_ACCESS_URL": "https://coder.example.com"})
	for name, objects := range map[string][]client.Object{
		"a variable": {settings, newControlPlane(withSecretVariable("db", "url"))},
		"envFrom": {settings, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}}}
		})},
		"taken over": {settings, newControlPlane(withDatabase), chartDeployment("CoderControlPlane/coder")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, objects...)
			f.Settle()
			f.PodsReady(1)
			f.Settle()
			before := f.Deployment()
			f.Remove(secretOf("db", nil))
			for range 2 {
				f.Settle()
				d := f.Deployment()
				if diff := cmp.Diff(before.Spec, d.Spec) + cmp.Diff(before.Annotations, d.Annotations); diff != "" {
					t.Errorf("without the Secret the Deployment changes (-before +after):\n%s", diff)
				}
				f.restart()
			}
			condition := f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionTrue, coderv1alpha1.ReasonSecretMissing)
			if !strings.Contains(condition.Message, `Secret "db"`) || f.Events.Count("Warning SecretMissing") != 1 {
				t.Errorf("message %q, Events %q", condition.Message, f.Events.All())
			}
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)

			f.Create(secretOf("db", map[string]string{"url": "postgres://b", "CODER_ACCESS_URL": "https://coder.example.com"}))
			f.Settle()
			if f.checksum() == before.Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum] {
				t.Error("other content does not roll the pods")
			}
			f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionTrue, coderv1alpha1.ReasonAvailable)
		})
	}
}

// Pods start without an optional object, so the operator sets the variable that it provided.
func TestAMissingOptionalReferenceRollsThePods(t *testing.T) {
	f := newFixture(t, secretOf("settings", map[string]string{"CODER_ACCESS_URL": "https://coder.example.com"}),
		newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Optional: new(true),
			}}}
		}))
	accessURL := func() bool {
		return slices.ContainsFunc(f.Deployment().Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "CODER_ACCESS_URL" })
	}
	f.Settle()
	before, given := f.checksum(), !accessURL()
	f.Remove(secretOf("settings", nil))
	f.Settle()
	if !given || !accessURL() || f.checksum() == before {
		t.Errorf("from the Secret: %v, then from the operator: %v", given, accessURL())
	}
}

func TestContentsAreForgottenWithTheirLastUser(t *testing.T) {
	f := newFixture(t, secretOf("db", map[string]string{"url": "x"}), secretOf("db2", map[string]string{"url": "x"}),
		newControlPlane(withSecretVariable("db", "url")))
	f.Settle()
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.ExtraEnv = nil
		withSecretVariable("db2", "url")(cp)
	})
	f.Settle()
	known, _ := f.kit.contents.Load(f.Object().UID)
	if all := known.(contents); len(all) != 1 || all["Secret/db2"].missing() {
		t.Errorf("the contents %v are remembered, want those of one Secret", all)
	}
	uid := f.Object().UID
	f.Remove(f.Object())
	f.Reconcile()
	if known, found := f.kit.contents.Load(uid); found {
		t.Errorf("the contents %v are remembered of an object that is gone", known)
	}
}

func TestSecretsWakeWhoeverRefersToThem(t *testing.T) {
	f := newFixture(t, newControlPlane(withSecretVariable("db", "url")))
	r := Registration{Kind: planeKind(), For: &coderv1alpha1.CoderControlPlane{}}
	owned := secretOf("token", nil)
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(newControlPlane(), coderv1alpha1.GroupVersion.WithKind("CoderControlPlane"))}
	foreign := secretOf("theirs", nil)
	foreign.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(newControlPlane(), coderv1alpha1.GroupVersion.WithKind("CoderProvisioner"))}
	elsewhere := secretOf("db", nil)
	elsewhere.Namespace = "other"
	for name, c := range map[string]struct {
		secret *corev1.Secret
		kind   string
		want   int
	}{
		"referred to":          {secretOf("db", nil), "Secret", 1},
		"of another kind":      {secretOf("db", nil), "ConfigMap", 0},
		"of another owner":     {foreign, "Secret", 0},
		"its own":              {owned, "Secret", 1},
		"not referred to":      {secretOf("unknown", nil), "Secret", 0},
		"in another namespace": {elsewhere, "Secret", 0},
	} {
		if got := f.kit.whoseContent(r, c.kind)(t.Context(), c.secret); len(got) != c.want {
			t.Errorf("%s: %v are looked at, want %d", name, got, c.want)
		}
	}
}

// A watch handler cannot return an error. Dropped without a word, a change would go unnoticed for an
// hour, and nobody would know why.
func TestAFailedLookupOfAWatchIsLogged(t *testing.T) {
	f := newFixture(t, newControlPlane(withSecretVariable("db", "url")))
	f.kit.Client = interceptor.NewClient(f.Cluster, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no index")
		},
	})
	r := Registration{Kind: planeKind(), For: &coderv1alpha1.CoderControlPlane{}}
	for name, handle := range map[string]handler.MapFunc{
		`"kind"="Secret" "name"="db"`: f.kit.whoseContent(r, "Secret"),
		`"controlPlane"="db"`:         f.kit.OfControlPlane(r),
	} {
		var logged []string
		logger := funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
		if got := handle(log.IntoContext(t.Context(), logger), secretOf("db", nil)); len(got) > 0 {
			t.Errorf("%s: %v are looked at", name, got)
		}
		if len(logged) != 1 || !strings.Contains(logged[0], name) || !strings.Contains(logged[0], "no index") {
			t.Errorf("logged %q, want one line with %s", logged, name)
		}
	}
}

func TestTheCacheHoldsNoContent(t *testing.T) {
	full := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "db", Namespace: "coder", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
		Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"x"}}`},
		OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	out, err := stripMetadata(full)
	if err != nil {
		t.Fatal(err)
	}
	kept := out.(*metav1.PartialObjectMetadata)
	if len(kept.Annotations)+len(kept.ManagedFields) > 0 {
		t.Errorf("the cache holds %+v", kept)
	}
	if kept.Name != "db" || kept.Namespace != "coder" || kept.UID != "u" || kept.ResourceVersion != "7" || len(kept.Labels) != 1 || len(kept.OwnerReferences) != 1 {
		t.Errorf("what identifies the object is gone: %+v", kept)
	}
}
