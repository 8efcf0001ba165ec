package ensure

import (
	"context"
	"strings"
	"testing"

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

// world is a cluster with an owner. The owner is a ConfigMap, because any kind can be an owner.
type world struct {
	t       *testing.T
	secrets Secrets
	// deleted contains the preconditions of the last deletion.
	deleted *metav1.Preconditions
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			w.deleted = (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	w.secrets = Secrets{
		Client: cluster, Kind: "ConfigMap", Noun: "map", Labels: map[string]string{"app": "a"},
		Owner: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "dev", UID: "now"}},
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string) *corev1.Secret {
	w.t.Helper()
	secret, err := w.secrets.Get(w.t.Context(), name)
	w.must(err)
	return secret
}

func (w *world) made(name string) *corev1.Secret {
	w.t.Helper()
	secret, err := w.secrets.New(name)
	w.must(err)
	SetValue(secret, "token", "first")
	w.must(w.secrets.Save(w.t.Context(), secret))
	return secret
}

func TestLife(t *testing.T) {
	w := newWorld(t)
	if w.get("s") != nil {
		t.Fatal("a Secret is there from the beginning")
	}
	w.made("s")
	got := w.get("s")
	if got == nil || !w.secrets.Mine(got) || got.Type != corev1.SecretTypeOpaque {
		t.Fatalf("made %+v", got)
	}
	if diff := cmp.Diff(w.secrets.Labels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	SetValue(got, "token", "second")
	Annotate(got, map[string]string{"keep": "yes", "none": ""})
	w.must(w.secrets.Save(t.Context(), got))
	got = w.get("s")
	Annotate(got, map[string]string{"keep": "", "new": "1"})
	if diff := cmp.Diff(map[string]string{"new": "1"}, got.Annotations); diff != "" || string(got.Data["token"]) != "second" {
		t.Errorf("value %q, annotations (-want +got):\n%s", got.Data["token"], diff)
	}
	w.must(w.secrets.Delete(t.Context(), got))
	if w.get("s") != nil || w.deleted == nil || ptr.Deref(w.deleted.UID, "?") != got.UID {
		t.Errorf("deleted with the preconditions %+v", w.deleted)
	}
	w.must(w.secrets.Delete(t.Context(), got))
}

// TestStale checks that a write based on an outdated state fails.
func TestStale(t *testing.T) {
	w := newWorld(t)
	second, err := w.secrets.New("s")
	w.must(err)
	w.made("s")
	err = w.secrets.Save(t.Context(), second)
	if !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), `creating Secret "s"`) {
		t.Errorf("created twice: %v", err)
	}
	old, fresh := w.get("s"), w.get("s")
	SetValue(fresh, "token", "fresh")
	w.must(w.secrets.Save(t.Context(), fresh))
	SetValue(old, "token", "hidden-value")
	err = w.secrets.Save(t.Context(), old)
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
		"nobody's":        {nil, false, false, "nobody's"},
		"ours":            {&metav1.OwnerReference{Kind: "ConfigMap", Name: "dev", UID: "now"}, true, false, `of ConfigMap "dev"`},
		"of a former one": {&metav1.OwnerReference{Kind: "ConfigMap", Name: "dev", UID: "before"}, false, true, `of ConfigMap "dev"`},
		"another name":    {&metav1.OwnerReference{Kind: "ConfigMap", Name: "prod", UID: "before"}, false, false, `of ConfigMap "prod"`},
		"another kind":    {&metav1.OwnerReference{Kind: "Pod", Name: "dev", UID: "before"}, false, false, `of Pod "dev"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}}
			if c.controller != nil {
				c.controller.Controller = ptr.To(true)
				secret.OwnerReferences = []metav1.OwnerReference{*c.controller}
			}
			w.must(w.secrets.Client.Create(t.Context(), secret))
			mine, err := w.secrets.GetMine(t.Context(), "s")
			w.must(err)
			message, leftover := w.secrets.Leftover("Secret", w.get("s"))
			if (mine != nil) != c.mine || w.secrets.Mine(secret) != c.mine || leftover != c.leftover || OwnerOf(secret) != c.whose {
				t.Errorf("mine %t, leftover %t, %s; want %+v", mine != nil, leftover, OwnerOf(secret), c)
			}
			want := ""
			if c.leftover {
				want = `Secret "s" belongs to a deleted map of the same name; waiting for the garbage collection to remove it`
			}
			if message != want {
				t.Errorf("told %q, want %q", message, want)
			}
		})
	}
}
