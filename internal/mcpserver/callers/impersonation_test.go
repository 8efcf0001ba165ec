package callers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// impersonation returns the impersonation headers of a request.
func impersonation(r *http.Request) map[string][]string {
	found := map[string][]string{}
	for name, values := range r.Header {
		if strings.HasPrefix(strings.ToLower(name), "impersonate-") {
			found[name] = values
		}
	}
	return found
}

func TestNothingIsSentWithoutACaller(t *testing.T) {
	api := newKubeAPI(t, pods)
	kube := api.client(t)
	for name, ctx := range map[string]context.Context{
		"no caller":                      t.Context(),
		"no caller but a nil":            request.WithUser(t.Context(), nil),
		"a caller without a name":        as(t.Context(), ""),
		"a part of Kubernetes":           as(t.Context(), "system:kube-controller-manager"),
		"a member of system:masters":     as(t.Context(), "alice", "a", "system:masters"),
		"a name with a line in it":       as(t.Context(), "alice\r\nImpersonate-Group: system:masters"),
		"a service account with no name": as(t.Context(), "system:serviceaccount:coder:"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := kube.List(ctx, &corev1.PodList{}); !errors.Is(err, errNoCaller) {
				t.Errorf("List ended with %v", err)
			}
			if err := kube.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "x"}}); !errors.Is(err, errNoCaller) {
				t.Errorf("Create ended with %v", err)
			}
			if _, err := kube.Watch(ctx, &corev1.PodList{}); !errors.Is(err, errNoCaller) {
				t.Errorf("Watch ended with %v", err)
			}
			if _, err := kube.Raw(ctx, "/version", nil); !errors.Is(err, errNoCaller) {
				t.Errorf("a raw get ended with %v", err)
			}
		})
	}
	if n := len(api.requests()); n != 0 {
		t.Errorf("the API server saw %d requests", n)
	}
}

// TestAReadOnlyCallSendsOnlyReads checks every kind of write, also one that only tries.
func TestAReadOnlyCallSendsOnlyReads(t *testing.T) {
	api := newKubeAPI(t, pods)
	kube := api.client(t)
	ctx := ReadOnly(as(t.Context(), "alice"))
	for _, ctx := range []context.Context{ctx, log.IntoContext(ctx, log.Log)} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "x", ResourceVersion: "1"}}
		scale := &autoscalingv1.Scale{}
		patch := client.RawPatch(types.MergePatchType, []byte("{}"))
		for what, err := range map[string]error{
			"create": kube.Create(ctx, pod.DeepCopy(), client.DryRunAll), "update": kube.Update(ctx, pod.DeepCopy()), "patch": kube.Patch(ctx, pod.DeepCopy(), patch),
			"delete": kube.Delete(ctx, pod.DeepCopy()), "delete all": kube.DeleteAllOf(ctx, pod.DeepCopy(), client.InNamespace("coder")),
			"apply":         kube.Apply(ctx, corev1apply.Pod("x", "coder")),
			"update status": kube.Status().Update(ctx, pod.DeepCopy()), "patch status": kube.Status().Patch(ctx, pod.DeepCopy(), patch),
			"create a subresource": kube.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{}),
			"update a subresource": kube.SubResource("scale").Update(ctx, pod.DeepCopy(), client.WithSubResourceBody(scale)),
		} {
			if !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s answers %v, want that it only reads", what, err)
			}
		}
	}
	if n := len(api.requests()); n != 0 {
		t.Errorf("the API server saw %d requests", n)
	}
	if err := kube.List(ctx, &corev1.PodList{}); err != nil {
		t.Error(err)
	}
	if _, err := kube.Raw(ctx, "/version", nil); err != nil {
		t.Error(err)
	}
}

func TestEachRequestIsSentAsItsCaller(t *testing.T) {
	tests := map[string]struct {
		ctx  func(context.Context) context.Context
		want map[string][]string
	}{
		"a person with groups": {
			ctx:  func(ctx context.Context) context.Context { return as(ctx, "alice", "b", "system:authenticated", "a") },
			want: map[string][]string{"Impersonate-User": {"alice"}, "Impersonate-Group": {"b", "a"}},
		},
		"a service account by its name alone": {
			ctx: func(ctx context.Context) context.Context {
				return as(ctx, "system:serviceaccount:coder:robot", "system:serviceaccounts", "others")
			},
			want: map[string][]string{"Impersonate-User": {"system:serviceaccount:coder:robot"}},
		},
		"only the extra attributes that are passed on": {
			ctx: func(ctx context.Context) context.Context {
				return request.WithUser(ctx, &user.DefaultInfo{Name: "alice", Extra: map[string][]string{"example.com/email": {"a@b.c", "d@e.f"}, "other": {"x"}}})
			},
			want: map[string][]string{"Impersonate-User": {"alice"}, "Impersonate-Extra-Example.com%2femail": {"a@b.c", "d@e.f"}},
		},
		"no extra attribute of a service account": {
			ctx: func(ctx context.Context) context.Context {
				return request.WithUser(ctx, &user.DefaultInfo{Name: "system:serviceaccount:coder:robot", Extra: map[string][]string{"example.com/email": {"a@b.c"}}})
			},
			want: map[string][]string{"Impersonate-User": {"system:serviceaccount:coder:robot"}},
		},
		"the process itself": {
			ctx:  func(ctx context.Context) context.Context { return request.WithUser(ctx, Local{}) },
			want: map[string][]string{},
		},
		"somebody called like the process itself": {
			ctx:  func(ctx context.Context) context.Context { return as(ctx, Local{}.GetName()) },
			want: map[string][]string{"Impersonate-User": {"local"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			api := newKubeAPI(t, pods)
			kube := api.client(t)
			ctx := tc.ctx(t.Context())
			if err := kube.List(ctx, &corev1.PodList{}); err != nil {
				t.Fatal(err)
			}
			raw, err := kube.Raw(ctx, "/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			raw.Close()
			for _, r := range api.requests() {
				if diff := cmp.Diff(tc.want, impersonation(r)); diff != "" {
					t.Errorf("%s was sent as somebody else (-want +got):\n%s", r.URL.Path, diff)
				}
				if got := r.Header.Get("Authorization"); got != "Bearer "+ownToken {
					t.Errorf("%s was sent with the credentials %q", r.URL.Path, got)
				}
			}
		})
	}
}

func TestAKubeconfigThatActsAsSomebody(t *testing.T) {
	api := newKubeAPI(t, pods)
	kube := api.client(t, func(cfg *rest.Config) {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "deputy", Groups: []string{"deputies"}}
	})
	for _, ctx := range []context.Context{request.WithUser(t.Context(), Local{}), as(t.Context(), "alice")} {
		if err := kube.List(ctx, &corev1.PodList{}); err != nil {
			t.Fatal(err)
		}
	}
	want := []map[string][]string{
		{"Impersonate-User": {"deputy"}, "Impersonate-Group": {"deputies"}},
		{"Impersonate-User": {"alice"}},
	}
	for i, r := range api.requests() {
		if diff := cmp.Diff(want[i], impersonation(r)); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestHeadersThatWereThereBeforeAreRemoved(t *testing.T) {
	api := newKubeAPI(t, pods)
	transport := &impersonator{next: http.DefaultTransport, local: http.DefaultTransport}
	for _, caller := range []context.Context{as(t.Context(), "alice"), request.WithUser(t.Context(), Local{})} {
		r, err := http.NewRequestWithContext(caller, http.MethodGet, api.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Impersonate-User"] = []string{"system:admin"}
		r.Header["impersonate-group"] = []string{"system:masters"}
		r.Header["Impersonate-Uid"] = []string{"0"}
		r.Header["Impersonate-Extra-Scopes"] = []string{"all"}
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if r.Header.Get("Impersonate-User") != "system:admin" {
			t.Error("the request itself was changed, which a transport must not do")
		}
	}
	seen := api.requests()
	if diff := cmp.Diff(map[string][]string{"Impersonate-User": {"alice"}}, impersonation(seen[0])); diff != "" {
		t.Errorf("as a person (-want +got):\n%s", diff)
	}
	if got := impersonation(seen[1]); len(got) != 0 {
		t.Errorf("as the process itself there are %v", got)
	}
}

func TestCallersAtTheSameTimeStayApart(t *testing.T) {
	api := newKubeAPI(t, pods)
	kube := api.client(t)
	people := map[string][]string{"alice": {"platform"}, "bob": {"sales", "staff"}}
	var group sync.WaitGroup
	for i := range 200 {
		name := []string{"alice", "bob"}[i%2]
		group.Go(func() {
			ctx := as(t.Context(), name, people[name]...)
			raw, err := kube.Raw(ctx, "/api/v1/namespaces/"+name, nil)
			if err != nil {
				t.Error(err)
				return
			}
			raw.Close()
		})
	}
	group.Wait()
	seen := api.requests()
	if len(seen) != 200 {
		t.Fatalf("the API server saw %d requests, want 200", len(seen))
	}
	for _, r := range seen {
		name := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/")
		if got := r.Header.Values("Impersonate-User"); !slices.Equal(got, []string{name}) {
			t.Fatalf("what %s asked was sent as %v", name, got)
		}
		if got := r.Header.Values("Impersonate-Group"); !slices.Equal(got, people[name]) {
			t.Fatalf("what %s asked was sent with the groups %v", name, got)
		}
	}
}

func TestCallersDoNotShareALimitOfTheClient(t *testing.T) {
	cfg := impersonating(&rest.Config{QPS: 5, Burst: 10, Timeout: 1})
	if cfg.QPS >= 0 || cfg.RateLimiter != nil || cfg.Timeout != 0 {
		t.Errorf("the client has QPS %v, limiter %v, timeout %v", cfg.QPS, cfg.RateLimiter, cfg.Timeout)
	}
}

func TestRefused(t *testing.T) {
	tests := map[string]struct {
		user   string
		groups []string
		// says is a part of the reason; empty means that the user is accepted.
		says string
	}{
		"a person":                                    {user: "alice", groups: []string{"platform", "system:authenticated"}},
		"a person of an issuer":                       {user: "https://login.example.com#7f3c"},
		"a name with a space in it":                   {user: "Alice Smith", groups: []string{"Platform Team"}},
		"a service account":                           {user: "system:serviceaccount:coder:robot", groups: []string{"system:serviceaccounts", "system:serviceaccounts:coder"}},
		"a service account with dots":                 {user: "system:serviceaccount:coder:robot.v2"},
		"nobody":                                      {says: "names no user"},
		"the anonymous user":                          {user: "system:anonymous", says: "is a system user of Kubernetes"},
		"a node":                                      {user: "system:node:a", says: "is a system user of Kubernetes"},
		"the scheduler":                               {user: "system:kube-scheduler", says: "is a system user of Kubernetes"},
		"the administrator of the cluster":            {user: "system:admin", says: "is a system user of Kubernetes"},
		"the prefix alone":                            {user: "system:", says: "is a system user of Kubernetes"},
		"a service account without anything":          {user: "system:serviceaccount:", says: "is a system user of Kubernetes"},
		"a service account without a name":            {user: "system:serviceaccount:coder:", says: "is a system user of Kubernetes"},
		"a service account without a namespace":       {user: "system:serviceaccount::robot", says: "is a system user of Kubernetes"},
		"a service account with a third part":         {user: "system:serviceaccount:coder:robot:x", says: "is a system user of Kubernetes"},
		"a service account that cannot exist":         {user: "system:serviceaccount:coder:Robot/x", says: "is a system user of Kubernetes"},
		"the groups of service accounts as a user":    {user: "system:serviceaccounts:coder", says: "is a system user of Kubernetes"},
		"system:masters":                              {user: "alice", groups: []string{"system:masters"}, says: `"system:masters"`},
		"system:masters after others":                 {user: "alice", groups: []string{"a", "b", "system:masters"}, says: `"system:masters"`},
		"system:masters before others":                {user: "alice", groups: []string{"system:masters", "a"}, says: `"system:masters"`},
		"a service account in system:masters":         {user: "system:serviceaccount:coder:robot", groups: []string{"system:masters"}, says: `"system:masters"`},
		"system:nodes":                                {user: "alice", groups: []string{"system:nodes"}, says: `"system:nodes"`},
		"system:unauthenticated":                      {user: "alice", groups: []string{"system:unauthenticated"}, says: `"system:unauthenticated"`},
		"system:masters that is trimmed on the way":   {user: "alice", groups: []string{" system:masters"}, says: "plain ASCII"},
		"another that is":                             {user: "alice", groups: []string{"system:masters\t"}, says: "plain ASCII"},
		"a name that becomes another one on the way":  {user: "alice ", says: "plain ASCII"},
		"a system name hidden behind a space":         {user: " system:admin", says: "plain ASCII"},
		"a name with a line of its own":               {user: "alice\r\nImpersonate-Group: system:masters", says: "plain ASCII"},
		"a name with a zero byte":                     {user: "alice\x00", says: "plain ASCII"},
		"a name that is not ASCII":                    {user: "jürgen", says: "plain ASCII"},
		"a group that is not ASCII":                   {user: "alice", groups: []string{"команда"}, says: "plain ASCII"},
		"a group with a line of its own":              {user: "alice", groups: []string{"a\nImpersonate-User: bob"}, says: "plain ASCII"},
		"an empty group":                              {user: "alice", groups: []string{""}, says: "plain ASCII"},
		"a name that only looks like one of a system": {user: "systematic"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Refused(&user.DefaultInfo{Name: tc.user, Groups: tc.groups})
			if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
				t.Errorf("the reason is %q, want %q in it", got, tc.says)
			}
			if strings.ContainsAny(got, "\r\n") {
				t.Errorf("the reason has more than one line: %q", got)
			}
		})
	}
	if Refused(nil) == "" {
		t.Error("a missing user is not refused")
	}
	if why := Refused(Local{}); why != "" {
		t.Errorf("the process itself is refused: %s", why)
	}
}

// FuzzRefused checks that the API server receives the names of accepted users unchanged.
func FuzzRefused(f *testing.F) {
	for _, seed := range []string{"alice", "system:serviceaccount:a:b", "system:admin", " a", "a\n", "", "ü"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, name, group string) {
		if Refused(&user.DefaultInfo{Name: name, Groups: []string{"first", group}}) != "" {
			return
		}
		for _, s := range []string{name, group} {
			if s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q goes into a header", s)
			}
		}
		if strings.HasPrefix(name, "system:") && strings.Count(name, ":") != 3 {
			t.Errorf("%q is let through", name)
		}
		if group == "system:masters" {
			t.Error("system:masters is let through")
		}
	})
}
