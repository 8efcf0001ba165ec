package kubetest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFault writes three times and checks which writes were executed, and which of them the process
// knows.
func TestFault(t *testing.T) {
	for name, c := range map[string]struct {
		at         int
		lost       bool
		done, told []int
	}{
		"never":                {0, true, []int{1, 2, 3}, []int{1, 2, 3}},
		"before it is done":    {2, false, []int{1}, []int{1}},
		"after it is done":     {2, true, []int{1, 2}, []int{1}},
		"later than all steps": {4, false, []int{1, 2, 3}, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Fault{}
			f.Set(c.at, c.lost)
			var done, told []int
			for i := 1; i <= 3; i++ {
				err := f.Around(func() error { done = append(done, i); return nil })
				if err == nil {
					told = append(told, i)
				} else if !errors.Is(err, errDead) {
					t.Error(err)
				}
			}
			if diff := cmp.Diff([][]int{c.done, c.told}, [][]int{done, told}); diff != "" {
				t.Errorf("done and told (-want +got):\n%s", diff)
			}
			if want := c.at == 2; f.Struck() != want || f.Steps() != 3 {
				t.Errorf("struck %t, want %t; %d steps", f.Struck(), want, f.Steps())
			}
		})
	}
}

// TestOneFailure makes one write fail in a process that continues.
func TestOneFailure(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "thing", errors.New("it was changed"))
	f, done := &Fault{}, 0
	write := func() error { done++; return nil }
	for _, lost := range []bool{false, true} {
		done = 0
		f.SetError(2, lost, conflict)
		errs := []error{f.Around(write), f.Around(write), f.Around(write)}
		if errs[0] != nil || !apierrors.IsConflict(errs[1]) || errs[2] != nil || !f.Struck() || f.Dead() {
			t.Errorf("lost %t: errors %v, dead %t", lost, errs, f.Dead())
		}
		if want := map[bool]int{false: 2, true: 3}[lost]; done != want {
			t.Errorf("lost %t: %d writes were executed, want %d", lost, done, want)
		}
	}
	version := client.Preconditions{ResourceVersion: ptr.To("1")}
	for name, c := range map[string]struct {
		opts []client.DeleteOption
		want bool
	}{"of a version": {[]client.DeleteOption{version}, true}, "of any version": {nil, false}} {
		f.SetError(1, false, conflict)
		if err := f.AroundDeletion(write, c.opts...); apierrors.IsConflict(err) != c.want {
			t.Errorf("the deletion %s ends with %v", name, err)
		}
	}
	f.Set(1, false)
	f.Without(func() { f.Without(func() {}); _ = f.Around(write) })
	if f.Struck() || !f.Active() {
		t.Error("a write that is not the process's is disturbed")
	}
}

// TestBothSides checks that writes to the cluster and requests are counted as one sequence of
// steps.
func TestBothSides(t *testing.T) {
	heard := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard++ }))
	defer server.Close()
	fixture := NewFixture(t, "team", time.Now())
	fixture.Build(KindsOf(corev1.AddToScheme).Cluster(t))
	f, cluster := fixture.Fault, fixture.Cluster
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}}
	f.Set(3, true)
	if err := errors.Join(cluster.Create(t.Context(), secret), cluster.Update(t.Context(), secret)); err != nil || secret.UID == "" {
		t.Fatalf("error %v, uid %q", err, secret.UID)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := f.RoundTrip(req)
	if err == nil {
		defer res.Body.Close()
	}
	if !errors.Is(err, errDead) || heard != 1 {
		t.Errorf("the request: %v, heard %d times", err, heard)
	}
	if err := cluster.Delete(t.Context(), secret); !errors.Is(err, errDead) || fixture.Writes() != 3 {
		t.Errorf("the deletion by the dead: %v, after %d writes", err, fixture.Writes())
	}
}

func TestEachStep(t *testing.T) {
	var at []int
	EachStep(t, 3, func(n int) bool { at = append(at, n); return n <= 3 })
	if diff := cmp.Diff([]int{1, 2, 3, 4}, at); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
