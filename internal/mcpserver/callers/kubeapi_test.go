package callers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
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
