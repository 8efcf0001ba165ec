package controlplane

import (
	"slices"
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

// Many control planes are reconciled concurrently, some of them twice. Exactly one becomes the
// first.
func TestOnlyOneControlPlaneIsTheFirst(t *testing.T) {
	f := newFixture(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		cp := named(name, time.Minute)
		f.Create(&cp)
	}
	var all sync.WaitGroup
	for range 2 {
		for _, name := range names {
			all.Go(func() {
				// The second pass over the same name may end with a conflict.
				_, _ = f.Try(name)
			})
		}
	}
	all.Wait()
	for _, name := range names {
		cp := &coderv1alpha1.CoderControlPlane{}
		f.Get(name, cp)
		want := name + "."
		if name == "a" {
			want = ""
		}
		if got := ptr.Deref(cp.Status.ObjectNamePrefix, "undecided"); got != want {
			t.Errorf("prefix of %q is %q, want %q", name, got, want)
		}
	}
}

// Many control planes in one namespace cause one list, not one list each.
func TestTheFirstIsLookedForOncePerNamespace(t *testing.T) {
	f := newFixture(t)
	names := []string{"c", "b", "a"}
	for _, name := range names {
		cp := named(name, time.Minute)
		f.Create(&cp)
	}
	prefixOf := func(name string) string {
		cp := &coderv1alpha1.CoderControlPlane{}
		f.Get(name, cp)
		return ptr.Deref(cp.Status.ObjectNamePrefix, "undecided")
	}
	for _, name := range names {
		if _, err := f.Try(name); err != nil {
			t.Fatal(err)
		}
	}
	if f.lists.Load() != 1 {
		t.Errorf("%d lists of control planes, want 1", f.lists.Load())
	}
	if got := []string{prefixOf("a"), prefixOf("b"), prefixOf("c")}; !slices.Equal(got, []string{"", "b.", "c."}) {
		t.Errorf("prefixes are %q", got)
	}

	f.restart()
	for _, name := range names {
		if _, err := f.Try(name); err != nil {
			t.Fatal(err)
		}
	}
	if f.lists.Load() != 1 {
		t.Error("a new process lists control planes although all is decided")
	}
}

// If the first control plane goes away before it was recorded, the next one can become the first,
// also one with the same name.
func TestTheFirstThatGoesFreesItsPlace(t *testing.T) {
	for how, leave := range map[string]func(f *fixture, cp *coderv1alpha1.CoderControlPlane) error{
		"deleted": func(f *fixture, cp *coderv1alpha1.CoderControlPlane) error {
			cp.Finalizers = nil
			if err := f.Cluster.Update(f.T.Context(), cp); err != nil {
				return err
			}
			return f.Cluster.Delete(f.T.Context(), cp)
		},
		"disabled before it was written": func(f *fixture, cp *coderv1alpha1.CoderControlPlane) error {
			cp.Spec.OperatorAccess.Disabled = true
			return f.Cluster.Update(f.T.Context(), cp)
		},
	} {
		t.Run(how, func(t *testing.T) {
			f := newFixture(t)
			old, young := named("old", time.Hour), named("young", time.Minute)
			for _, cp := range []*coderv1alpha1.CoderControlPlane{&old, &young} {
				f.Create(cp)
			}
			// The younger one is reconciled first, but the older one becomes the first.
			if _, err := f.Try("young"); err != nil {
				t.Fatal(err)
			}
			if err := leave(f, &old); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Try("old"); err != nil {
				t.Fatal(err)
			}
			next := named("next", 0)
			f.Create(&next)
			if _, err := f.Try("next"); err != nil {
				t.Fatal(err)
			}
			f.Get("next", &next)
			if got := ptr.Deref(next.Status.ObjectNamePrefix, "undecided"); got != "" {
				t.Errorf("prefix is %q although nobody is the first", got)
			}
		})
	}
}

// The first control plane was deleted and created again, and no pass saw the time between.
func TestTheFirstThatIsMadeAnewIsTheFirst(t *testing.T) {
	f := newFixture(t)
	cp := named("a", time.Minute)
	f.Create(&cp)
	if _, err := f.Try("a"); err != nil {
		t.Fatal(err)
	}
	f.Get("a", &cp)
	cp.Finalizers = nil
	f.Update(&cp)
	f.Remove(&cp)
	anew := named("a", 0)
	anew.UID = "another"
	f.Create(&anew)
	if _, err := f.Try("a"); err != nil {
		t.Fatal(err)
	}
	f.Get("a", &anew)
	if got := ptr.Deref(anew.Status.ObjectNamePrefix, "undecided"); got != "" {
		t.Errorf("prefix is %q although nobody else is there", got)
	}
}
