package callers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// rulebook is a fake of the SelfSubjectRulesReview API.
type rulebook struct {
	// rules by namespace; those of "" apply in all namespaces.
	rules      map[string][]authorizationv1.ResourceRule
	incomplete map[string]bool
	err        map[string]error
	// hold blocks responses until it is closed; nil does not block.
	hold chan struct{}

	mu      sync.Mutex
	asked   []string
	atOnce  int
	highest int
}

func (b *rulebook) create(ctx context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
	review := obj.(*authorizationv1.SelfSubjectRulesReview)
	namespace := review.Spec.Namespace
	b.mu.Lock()
	b.asked = append(b.asked, namespace)
	b.atOnce++
	b.highest = max(b.highest, b.atOnce)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.atOnce--
	}()
	if b.hold != nil {
		select {
		case <-b.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	review.Status.ResourceRules = slices.Concat(b.rules[""], b.rules[namespace])
	review.Status.Incomplete = b.incomplete[namespace]
	return b.err[namespace]
}

func (b *rulebook) reviewer(clk *clocktesting.FakePassiveClock, namespaces ...string) *Reviewer {
	callers := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: b.create}).Build()
	return NewReviewer(callers, func(context.Context) ([]string, error) { return namespaces, nil }, clk)
}

func caller(ctx context.Context, name string, groups ...string) context.Context {
	return request.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups})
}

func may(verb string, resources ...string) authorizationv1.ResourceRule {
	return authorizationv1.ResourceRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: resources}
}

func numbered(n int) []string {
	namespaces := make([]string, n)
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("ns-%d", i)
	}
	return namespaces
}

func TestLacks(t *testing.T) {
	readPods, readLogs, deletePods := Right{"get", "", "pods"}, Right{"get", "", "pods/log"}, Right{"delete", "", "pods"}
	rights := []Right{readPods, readLogs, deletePods}
	everything := authorizationv1.ResourceRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	tests := map[string]struct {
		book       *rulebook
		user       user.Info
		namespaces []string
		want       map[Right]bool
		asked      int
	}{
		"everything in the whole cluster is one question": {
			book: &rulebook{rules: map[string][]authorizationv1.ResourceRule{"": {everything}}}, namespaces: numbered(40), asked: 1},
		"a right in one namespace is had": {
			book:       &rulebook{rules: map[string][]authorizationv1.ResourceRule{"ns-3": {may("get", "pods", "pods/log")}}},
			namespaces: numbered(5), asked: 5, want: map[Right]bool{deletePods: true}},
		"rights in several namespaces add up, and nobody asks on": {
			book: &rulebook{rules: map[string][]authorizationv1.ResourceRule{
				"ns-1": {may("get", "pods", "*/log")}, "ns-2": {may("delete", "*")}}},
			namespaces: numbered(30), asked: 9},
		"nothing anywhere": {
			book: &rulebook{}, namespaces: numbered(50), asked: 50, want: map[Right]bool{readPods: true, readLogs: true, deletePods: true}},
		"more namespaces than anybody asks about": {
			book: &rulebook{}, namespaces: numbered(51), asked: 50},
		"rules that are not all": {
			book: &rulebook{incomplete: map[string]bool{"ns-0": true}}, namespaces: numbered(5), asked: 1},
		"a question that fails": {
			book: &rulebook{err: map[string]error{"ns-1": errors.New("no answer")}}, namespaces: numbered(3), asked: 3},
		"nowhere to ask": {
			book: &rulebook{}},
		"a service account in its own namespace": {
			book: &rulebook{rules: map[string][]authorizationv1.ResourceRule{"robots": {everything}}},
			user: &user.DefaultInfo{Name: "system:serviceaccount:robots:r2"}, namespaces: numbered(3), asked: 1},
		"the process itself": {
			book: &rulebook{}, user: Local{}, namespaces: numbered(3)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			u := tc.user
			if u == nil {
				u = &user.DefaultInfo{Name: "alice"}
			}
			got := tc.book.reviewer(testClock(), tc.namespaces...).Lacks(request.WithUser(t.Context(), u), rights)
			for _, right := range rights {
				if got[right] != tc.want[right] {
					t.Errorf("%+v is lacking: %v, want %v", right, got[right], tc.want[right])
				}
			}
			if len(tc.book.asked) != tc.asked {
				t.Errorf("asked %d times (%v), want %d", len(tc.book.asked), tc.book.asked, tc.asked)
			}
			if tc.book.highest > maxReviews {
				t.Errorf("%d questions at once", tc.book.highest)
			}
		})
	}
}

func TestLacksWithoutACallerOrAQuestion(t *testing.T) {
	book := &rulebook{}
	reviewer := book.reviewer(testClock(), "a")
	if got := reviewer.Lacks(t.Context(), []Right{{"get", "", "pods"}}); len(got) != 0 {
		t.Errorf("nobody lacks %v", got)
	}
	if got := reviewer.Lacks(caller(t.Context(), "alice"), nil); len(got) != 0 {
		t.Errorf("of no rights, %v are lacking", got)
	}
	if len(book.asked) != 0 {
		t.Errorf("asked %d times", len(book.asked))
	}
}

func TestLacksWhereNamespacesCannotBeFound(t *testing.T) {
	book := &rulebook{}
	reviewer := book.reviewer(testClock())
	reviewer.namespaces = func(context.Context) ([]string, error) { return nil, errors.New("no answer") }
	if got := reviewer.Lacks(caller(t.Context(), "alice"), []Right{{"get", "", "pods"}}); len(got) != 0 {
		t.Errorf("lacking are %v", got)
	}
}

func TestRightsAreRememberedForAShortTime(t *testing.T) {
	rights := []Right{{"get", "", "pods"}}
	for name, tc := range map[string]struct {
		book *rulebook
		ttl  time.Duration
	}{
		"an answer for thirty seconds":   {&rulebook{}, 30 * time.Second},
		"rules that are not all as well": {&rulebook{incomplete: map[string]bool{"a": true}}, 30 * time.Second},
		"none for five":                  {&rulebook{err: map[string]error{"a": errors.New("no answer")}}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clk := testClock()
			reviewer, start := tc.book.reviewer(clk, "a"), clk.Now()
			for _, step := range []struct {
				at    time.Duration
				asked int
			}{{0, 1}, {tc.ttl - time.Second, 1}, {tc.ttl + time.Second, 2}} {
				clk.SetTime(start.Add(step.at))
				reviewer.Lacks(caller(t.Context(), "alice"), rights)
				if len(tc.book.asked) != step.asked {
					t.Errorf("after %s asked %d times, want %d", step.at, len(tc.book.asked), step.asked)
				}
			}
		})
	}
}

func TestRightsOfOneAreNotThoseOfAnother(t *testing.T) {
	book := &rulebook{}
	reviewer := book.reviewer(testClock(), "a")
	pods, secrets := []Right{{"get", "", "pods"}}, []Right{{"get", "", "secrets"}}
	reviewer.Lacks(caller(t.Context(), "alice"), pods)
	reviewer.Lacks(caller(t.Context(), "bob"), pods)
	reviewer.Lacks(caller(t.Context(), "alice", "platform"), pods)
	reviewer.Lacks(caller(t.Context(), "alice"), secrets)
	if len(book.asked) != 4 {
		t.Errorf("four questions were asked as %d", len(book.asked))
	}
}

func TestQuestionsAboutRightsAreFewAtOnceAndShared(t *testing.T) {
	book := &rulebook{hold: make(chan struct{})}
	reviewer := book.reviewer(testClock(), numbered(30)...)
	rights := []Right{{"get", "", "pods"}}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if lacking := reviewer.Lacks(caller(t.Context(), "alice"), rights); !lacking[rights[0]] {
				t.Error("the right is not lacking")
			}
		})
	}
	close(book.hold)
	group.Wait()
	if len(book.asked) != 30 || book.highest > maxReviews {
		t.Errorf("20 callers asked %d times about 30 namespaces, %d at once", len(book.asked), book.highest)
	}
}

// TestRightsAreAskedForAsTheCaller uses the client that impersonates callers.
func TestRightsAreAskedForAsTheCaller(t *testing.T) {
	type seen struct{ Path, User, Namespace string }
	var requests []seen
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var review authorizationv1.SelfSubjectRulesReview
		if err := json.Unmarshal(body, &review); err != nil {
			t.Errorf("the body is %q: %v", body, err)
		}
		requests = append(requests, seen{r.URL.Path, r.Header.Get("Impersonate-User"), review.Spec.Namespace})
		review.Status.ResourceRules = []authorizationv1.ResourceRule{may("get", "pods")}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer api.Close()
	scheme := runtime.NewScheme()
	if err := authorizationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"), meta.RESTScopeRoot)
	kube, err := New(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, scheme, mapper)
	if err != nil {
		t.Fatal(err)
	}
	reviewer := NewReviewer(kube, func(context.Context) ([]string, error) { return []string{"coder", "other"}, nil }, testClock())
	if lacking := reviewer.Lacks(caller(t.Context(), "alice"), []Right{{"get", "", "pods"}}); len(lacking) != 0 {
		t.Errorf("lacking are %v", lacking)
	}
	want := []seen{{"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "alice", "coder"}}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("the requests (-want +got):\n%s", diff)
	}
}

func TestGrants(t *testing.T) {
	rule := func(verb, group, resource string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: []string{"other", verb}, APIGroups: []string{"other", group}, Resources: []string{"other", resource}}
	}
	logs := Right{Verb: "get", Resource: "pods/log"}
	tests := map[string]struct {
		rule  authorizationv1.ResourceRule
		right Right
		want  bool
	}{
		"the right itself":                  {rule("get", "coder.com", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"another verb":                      {rule("list", "coder.com", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, false},
		"another group":                     {rule("get", "apps", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, false},
		"another resource":                  {rule("get", "coder.com", "coderprovisioners"), Right{"get", "coder.com", "codercontrolplanes"}, false},
		"every verb":                        {rule("*", "coder.com", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"every group":                       {rule("get", "*", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"every resource":                    {rule("get", "coder.com", "*"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"the core group":                    {rule("get", "", "pods"), Right{"get", "", "pods"}, true},
		"the core group is not every group": {rule("get", "", "pods"), Right{"get", "coder.com", "pods"}, false},
		"the subresource itself":            {rule("get", "", "pods/log"), logs, true},
		"the resource is not its parts":     {rule("get", "", "pods"), logs, false},
		"a part is not the resource":        {rule("get", "", "pods/log"), Right{"get", "", "pods"}, false},
		"every resource has its parts":      {rule("get", "", "*"), logs, true},
		"the part of every resource":        {rule("get", "", "*/log"), logs, true},
		"another part of every resource":    {rule("get", "", "*/status"), logs, false},
		"every part of a resource":          {rule("get", "", "pods/*"), logs, false},
		"every part of every resource":      {rule("get", "", "*/*"), logs, false},
		"a part is not one of no resource":  {rule("get", "", "*/log"), Right{"get", "", "pods"}, false},
		"a part without a name is none":     {rule("get", "", "*/"), Right{"get", "", "pods"}, false},
		"for some objects only": {authorizationv1.ResourceRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"x"}},
			Right{"get", "", "pods"}, true},
		"nothing": {authorizationv1.ResourceRule{}, logs, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := grants(tc.rule, tc.right); got != tc.want {
				t.Errorf("%+v grants %+v: %v, want %v", tc.rule, tc.right, got, tc.want)
			}
		})
	}
}
