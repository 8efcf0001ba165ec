package callers

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// doorkeeper is a fake of the SubjectAccessReview API.
type doorkeeper struct {
	mu      sync.Mutex
	allowed bool
	err     error
	asked   []authorizationv1.SubjectAccessReviewSpec
}

func (d *doorkeeper) clientset() *fake.Clientset {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		d.asked = append(d.asked, review.Spec)
		review.Status.Allowed = d.allowed
		return true, review, d.err
	})
	return kube
}

func (d *doorkeeper) reviewer(clk *clocktesting.FakePassiveClock) *Reviewer {
	return NewReviewer(d.clientset(), nil, nil, clk)
}

func testClock() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
}

func TestEntryIsAskedWithTheWholeCaller(t *testing.T) {
	for name, groups := range map[string][]string{
		"of Kubernetes": {"platform", "system:authenticated"},
		"of an issuer":  {"platform"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doorkeeper{allowed: true}
			alice := &user.DefaultInfo{Name: "alice", UID: "1", Groups: groups, Extra: map[string][]string{"k": {"v"}}}
			if ok, err := d.reviewer(testClock()).MayEnter(t.Context(), alice); err != nil || !ok {
				t.Fatalf("%v, %v", ok, err)
			}
			want := []authorizationv1.SubjectAccessReviewSpec{{
				User: "alice", UID: "1", Groups: []string{"platform", "system:authenticated"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/mcp", Verb: "post"},
			}}
			if diff := cmp.Diff(want, d.asked); diff != "" {
				t.Errorf("the reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntryIsRememberedForAShortTime(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed bool
		ttl     time.Duration
	}{"yes for ten seconds": {true, 10 * time.Second}, "no for five": {false, 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			d, clk := &doorkeeper{allowed: tc.allowed}, testClock()
			reviewer, start := d.reviewer(clk), clk.Now()
			for _, step := range []struct {
				at    time.Duration
				asked int
			}{{0, 1}, {tc.ttl - time.Second, 1}, {tc.ttl + time.Second, 2}} {
				clk.SetTime(start.Add(step.at))
				if ok, err := reviewer.MayEnter(t.Context(), &user.DefaultInfo{Name: "alice"}); err != nil || ok != tc.allowed {
					t.Errorf("after %s: %v, %v", step.at, ok, err)
				}
				if len(d.asked) != step.asked {
					t.Errorf("after %s there were %d reviews, want %d", step.at, len(d.asked), step.asked)
				}
			}
		})
	}
}

func TestEntryOfOneIsNotThatOfAnother(t *testing.T) {
	d := &doorkeeper{allowed: true}
	reviewer := d.reviewer(testClock())
	for _, u := range []*user.DefaultInfo{
		{Name: "alice"}, {Name: "bob"}, {Name: "alice", UID: "2"}, {Name: "alice", Groups: []string{"g"}}, {Name: "alice", Extra: map[string][]string{"k": {"v"}}},
	} {
		if _, err := reviewer.MayEnter(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.asked) != 5 {
		t.Errorf("five callers made %d reviews", len(d.asked))
	}
}

func TestAReviewOfEntryThatFailsIsNotRemembered(t *testing.T) {
	d := &doorkeeper{allowed: true, err: errors.New("no answer")}
	reviewer := d.reviewer(testClock())
	if ok, err := reviewer.MayEnter(t.Context(), &user.DefaultInfo{Name: "alice"}); err == nil || ok {
		t.Fatalf("%v, %v", ok, err)
	}
	d.err = nil
	if ok, err := reviewer.MayEnter(t.Context(), &user.DefaultInfo{Name: "alice"}); err != nil || !ok {
		t.Errorf("after it came back: %v, %v", ok, err)
	}
}

func TestTheProcessItselfMayEnter(t *testing.T) {
	d := &doorkeeper{}
	if ok, err := d.reviewer(testClock()).MayEnter(t.Context(), Local{}); err != nil || !ok || len(d.asked) != 0 {
		t.Errorf("%v, %v after %d reviews", ok, err, len(d.asked))
	}
	if ok, _ := d.reviewer(testClock()).MayEnter(t.Context(), &user.DefaultInfo{Name: Local{}.GetName()}); ok {
		t.Error("somebody of the same name may, too")
	}
}
