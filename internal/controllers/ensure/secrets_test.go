package ensure

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// fixture is a cluster with an owner. The owner is a ConfigMap, because any kind can be an owner.
type fixture struct {
	t       *testing.T
	secrets Secrets
	// deleted contains the preconditions of the last deletion.
	deleted *metav1.Preconditions
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			f.deleted = (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	f.secrets = Secrets{
		Client: cluster, Kind: "ConfigMap", Noun: "map", Labels: map[string]string{"app": "a"},
		Owner: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "dev", UID: "now"}},
	}
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get(name string) *corev1.Secret {
	f.t.Helper()
	secret, err := f.secrets.Get(f.t.Context(), name)
	f.must(err)
	return secret
}

func (f *fixture) made(name string) *corev1.Secret {
	f.t.Helper()
	secret, err := f.secrets.New(name)
	f.must(err)
	SetValue(secret, "token", "first")
	f.must(f.secrets.Save(f.t.Context(), secret))
	return secret
}

func TestLife(t *testing.T) {
	f := newFixture(t)
	if f.get("s") != nil {
		t.Fatal("a Secret is there from the beginning")
	}
	f.made("s")
	got := f.get("s")
	if got == nil || !f.secrets.Mine(got) || got.Type != corev1.SecretTypeOpaque {
		t.Fatalf("made %+v", got)
	}
	if diff := cmp.Diff(f.secrets.Labels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	SetValue(got, "token", "second")
	Annotate(got, map[string]string{"keep": "yes", "none": ""})
	f.must(f.secrets.Save(t.Context(), got))
	got = f.get("s")
	Annotate(got, map[string]string{"keep": "", "new": "1"})
	if diff := cmp.Diff(map[string]string{"new": "1"}, got.Annotations); diff != "" || string(got.Data["token"]) != "second" {
		t.Errorf("value %q, annotations (-want +got):\n%s", got.Data["token"], diff)
	}
	f.must(f.secrets.Delete(t.Context(), got))
	if f.get("s") != nil || f.deleted == nil || ptr.Deref(f.deleted.UID, "?") != got.UID {
		t.Errorf("deleted with the preconditions %+v", f.deleted)
	}
	f.must(f.secrets.Delete(t.Context(), got))
}

// A process that was paused must not delete what the next leader stored.
func TestASecretThatChangedIsNotDeleted(t *testing.T) {
	f := newFixture(t)
	f.made("s")
	before := f.get("s")
	next := before.DeepCopy()
	SetValue(next, "token", "second")
	f.must(f.secrets.Save(t.Context(), next))
	if err := f.secrets.Delete(t.Context(), before); !apierrors.IsConflict(err) {
		t.Errorf("the error is %v", err)
	}
	if got := f.get("s"); got == nil || string(got.Data["token"]) != "second" {
		t.Fatalf("the Secret is %+v", got)
	}
	f.must(f.secrets.Delete(t.Context(), next))
}

// TestStale checks that a write based on an outdated state fails.
func TestStale(t *testing.T) {
	f := newFixture(t)
	second, err := f.secrets.New("s")
	f.must(err)
	f.made("s")
	err = f.secrets.Save(t.Context(), second)
	if !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), `creating Secret "s"`) {
		t.Errorf("created twice: %v", err)
	}
	old, fresh := f.get("s"), f.get("s")
	SetValue(fresh, "token", "fresh")
	f.must(f.secrets.Save(t.Context(), fresh))
	SetValue(old, "token", "hidden-value")
	err = f.secrets.Save(t.Context(), old)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `updating Secret "s"`) || strings.Contains(err.Error(), "hidden-value") {
		t.Errorf("written over: %v", err)
	}
}

// TestWhose distinguishes the owner's Secrets from those of others.
func TestWhose(t *testing.T) {
	for name, c := range map[string]struct {
		controller *metav1.OwnerReference
		mine       bool
		leftover   bool
		whose      string
	}{
		"nobody's":        {nil, false, false, "has no owner"},
		"ours":            {&metav1.OwnerReference{Kind: "ConfigMap", Name: "dev", UID: "now"}, true, false, `belongs to ConfigMap "dev"`},
		"of a former one": {&metav1.OwnerReference{Kind: "ConfigMap", Name: "dev", UID: "before"}, false, true, `belongs to ConfigMap "dev"`},
		"another name":    {&metav1.OwnerReference{Kind: "ConfigMap", Name: "prod", UID: "before"}, false, false, `belongs to ConfigMap "prod"`},
		"another kind":    {&metav1.OwnerReference{Kind: "Pod", Name: "dev", UID: "before"}, false, false, `belongs to Pod "dev"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}}
			if c.controller != nil {
				c.controller.Controller = ptr.To(true)
				secret.OwnerReferences = []metav1.OwnerReference{*c.controller}
			}
			f.must(f.secrets.Client.Create(t.Context(), secret))
			mine, err := f.secrets.GetMine(t.Context(), "s")
			f.must(err)
			if (mine != nil) != c.mine || f.secrets.Mine(secret) != c.mine {
				t.Errorf("mine %t, want %t", mine != nil, c.mine)
			}
			want := Fails("NotOwned", time.Minute, `Secret "s" exists and %s, so it was not changed; delete it, or rename it`, c.whose)
			if c.leftover {
				want = Waits("Waiting", 5*time.Second, `Secret "s" belongs to a deleted map of the same name; waiting for the garbage collection to remove it`)
			}
			if diff := cmp.Diff(want, f.secrets.Taken("Secret", f.get("s"), time.Minute, "rename it")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
