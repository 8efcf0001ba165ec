package callers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const ownToken = "token-of-the-server"

// kubeAPI is a fake API server that records its requests.
type kubeAPI struct {
	*httptest.Server
	answer http.HandlerFunc

	mu   sync.Mutex
	seen []*http.Request
}

func newKubeAPI(t *testing.T, answer http.HandlerFunc) *kubeAPI {
	t.Helper()
	k := &kubeAPI{answer: answer}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.seen = append(k.seen, r)
		k.mu.Unlock()
		k.answer(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *kubeAPI) requests() []*http.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// client returns a client that impersonates callers and has the server's credentials.
func (k *kubeAPI) client(t *testing.T, change ...func(*rest.Config)) *Kube {
	t.Helper()
	cfg := &rest.Config{Host: k.URL, BearerToken: ownToken}
	for _, c := range change {
		c(cfg)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	kube, err := New(cfg, scheme, mapper, "example.com/email")
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func as(ctx context.Context, name string, groups ...string) context.Context {
	return request.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups})
}

// pods responds with an empty list to every request.
func pods(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)
}

func TestRawGet(t *testing.T) {
	api := newKubeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s?%s", r.URL.Path, r.URL.Query().Encode())
	})
	reader, err := api.client(t).Raw(as(t.Context(), "alice"), "/api/v1/namespaces/coder/pods/x/log",
		url.Values{"tailLines": {"200"}, "container": {"coder & more"}, "dryRun": {"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	body, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/namespaces/coder/pods/x/log?container=coder+%26+more&dryRun=a&dryRun=b&tailLines=200"; string(body) != want {
		t.Errorf("the API was asked for %s, want %s", body, want)
	}
}

func TestRawGetFails(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	tests := map[string]struct {
		answer http.HandlerFunc
		is     func(error) bool
		says   string
	}{
		"forbidden": {is: apierrors.IsForbidden, says: `pods "x" is forbidden`,
			answer: status(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"x\" is forbidden","reason":"Forbidden","code":403}`)},
		"not found": {is: apierrors.IsNotFound, says: "not found",
			answer: status(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"x\" not found","reason":"NotFound","code":404}`)},
		"a bad request": {is: apierrors.IsBadRequest, says: "container not found",
			answer: status(400, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"container not found","reason":"BadRequest","code":400}`)},
		"an answer that is no status": {is: apierrors.IsServiceUnavailable, answer: status(503, "no endpoints available")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reader, err := newKubeAPI(t, tc.answer).client(t).Raw(as(t.Context(), "alice"), "/api/v1/namespaces/coder/pods/x/log", nil)
			if err == nil {
				reader.Close()
				t.Fatal("there is no error")
			}
			if !tc.is(err) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestRawGetRefusesPathsThatLeadElsewhere(t *testing.T) {
	api := newKubeAPI(t, pods)
	kube := api.client(t)
	for _, path := range []string{
		"", "version", "/api/v1/namespaces/coder/pods/../secrets/x", "/api//v1", "/api/v1/", "/x?y=z", "/x#y", "/x%2Fy", `/x\y`, "/..",
	} {
		if _, err := kube.Raw(as(t.Context(), "alice"), path, nil); !apierrors.IsBadRequest(err) {
			t.Errorf("%q ended with %v", path, err)
		}
	}
	if seen := api.requests(); len(seen) != 0 {
		t.Errorf("the API server was asked for %s", seen[0].URL)
	}
}

func TestRawReadingEndsWithItsContext(t *testing.T) {
	gone := make(chan struct{})
	api := newKubeAPI(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "first line")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(as(t.Context(), "alice"))
	defer cancel()
	reader, err := api.client(t).Raw(ctx, "/api/v1/namespaces/coder/pods/x/log", url.Values{"follow": {"true"}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := io.ReadFull(reader, make([]byte, len("first line\n"))); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(reader); !errors.Is(err, context.Canceled) {
		t.Errorf("reading ended with %v", err)
	}
	<-gone
}

func TestSubresourcePath(t *testing.T) {
	for want, group := range map[string]schema.GroupVersion{
		"/api/v1/namespaces/coder/pods/x/log":                 {Version: "v1"},
		"/apis/g.example/v1beta1/namespaces/coder/pods/x/log": {Group: "g.example", Version: "v1beta1"},
	} {
		if got := SubresourcePath(group, "coder", "pods", "x", "log"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWhoeverCallsIsToldAtOnceThatAnAPIIsAway(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "x"}}
	for name, do := range map[string]func(ctx context.Context, kube *Kube) error{
		"a get": func(ctx context.Context, kube *Kube) error {
			return kube.Get(ctx, client.ObjectKeyFromObject(pod), pod.DeepCopy())
		},
		"a list": func(ctx context.Context, kube *Kube) error { return kube.List(ctx, &corev1.PodList{}) },
		"a watch": func(ctx context.Context, kube *Kube) error {
			_, err := kube.Watch(ctx, &corev1.PodList{})
			return err
		},
		"a write": func(ctx context.Context, kube *Kube) error { return kube.Create(ctx, pod.DeepCopy()) },
		"a raw get": func(ctx context.Context, kube *Kube) error {
			_, err := kube.Raw(ctx, "/version", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newKubeAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"away","details":{"retryAfterSeconds":7}}`)
			})
			err := do(as(t.Context(), "alice"), api.client(t))
			if delay, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !ok || delay != 7 {
				t.Errorf("it ended with %v, to be tried again after %d s", err, delay)
			}
			if n := len(api.requests()); n != 1 {
				t.Errorf("the API was asked %d times", n)
			}
		})
	}
}
