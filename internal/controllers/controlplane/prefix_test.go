package controlplane

import (
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func named(name string, age time.Duration, changes ...func(*coderv1alpha1.CoderControlPlane)) coderv1alpha1.CoderControlPlane {
	cp := newControlPlane(changes...)
	cp.Name, cp.UID = name, types.UID(name)
	cp.CreationTimestamp = metav1.NewTime(time.Unix(10000, 0).Add(-age))
	return *cp
}

func withPrefix(prefix string) func(*coderv1alpha1.CoderControlPlane) {
	return func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.ObjectNamePrefix = &prefix }
}

func TestFirstOf(t *testing.T) {
	deleting := func(cp *coderv1alpha1.CoderControlPlane) { cp.DeletionTimestamp = ptr.To(metav1.Now()) }
	disabled := func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = true }
	for name, c := range map[string]struct {
		others []coderv1alpha1.CoderControlPlane
		want   string
	}{
		"alone":                            {nil, ""},
		"another is the first already":     {[]coderv1alpha1.CoderControlPlane{named("new", 0, withPrefix(""))}, "b."},
		"the other has a prefix":           {[]coderv1alpha1.CoderControlPlane{named("old", time.Hour, withPrefix("old."))}, ""},
		"an older one is undecided":        {[]coderv1alpha1.CoderControlPlane{named("old", time.Hour)}, "b."},
		"a younger one is undecided":       {[]coderv1alpha1.CoderControlPlane{named("new", 0)}, ""},
		"as old, earlier name":             {[]coderv1alpha1.CoderControlPlane{named("a", time.Minute)}, "b."},
		"as old, later name":               {[]coderv1alpha1.CoderControlPlane{named("c", time.Minute)}, ""},
		"the older one is being deleted":   {[]coderv1alpha1.CoderControlPlane{named("old", time.Hour, deleting)}, ""},
		"the older one is disabled":        {[]coderv1alpha1.CoderControlPlane{named("old", time.Hour, disabled)}, ""},
		"the older one cannot be served":   {[]coderv1alpha1.CoderControlPlane{named("old.one", time.Hour)}, ""},
		"the first is still being deleted": {[]coderv1alpha1.CoderControlPlane{named("old", time.Hour, deleting, withPrefix(""))}, "b."},
	} {
		cp := named("b", time.Minute)
		got := cp.Name + "."
		if firstOf(&cp, append(c.others, cp)).UID == cp.UID {
			got = ""
		}
		if got != c.want {
			t.Errorf("%s: prefix is %q, want %q", name, got, c.want)
		}
	}
}

// Many at once, and the same ones twice: exactly one is the first.
func TestOnlyOneControlPlaneIsTheFirst(t *testing.T) {
	f := newFixture(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		cp := named(name, time.Minute)
		if err := f.cluster.Create(t.Context(), &cp); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 2 {
		for _, name := range names {
			all.Go(func() {
				// A conflict is the outcome for the second of the same name.
				_, _ = f.try(name)
			})
		}
	}
	all.Wait()
	for _, name := range names {
		cp := &coderv1alpha1.CoderControlPlane{}
		f.get("coder", name, cp)
		want := name + "."
		if name == "a" {
			want = ""
		}
		if got := ptr.Deref(cp.Status.ObjectNamePrefix, "undecided"); got != want {
			t.Errorf("prefix of %q is %q, want %q", name, got, want)
		}
	}
}
