package mcpserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	ownToken   = "token-of-the-server"
	aliceToken = "token-of-alice"
	bobToken   = "token-of-bob"
	robotToken = "token-of-robot"
	eveToken   = "token-of-eve"

	controlPlanesPath = "/apis/coder.com/v1alpha1/codercontrolplanes"
	workspacesPath    = "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces"
)

// kubeAPI is a fake API server. It authenticates some tokens, allows everything to all
// users except eve, and responds to other requests with the test's
// handlers.
type kubeAPI struct {
	*httptest.Server

	mu       sync.Mutex
	seen     []*http.Request
	handlers map[string]http.HandlerFunc
	// otherwise handles requests without a handler, if it is not nil.
	otherwise http.HandlerFunc
	users     map[string]authenticationv1.UserInfo
	// down makes all requests fail.
	down bool
}

func newKubeAPI(t testing.TB) *kubeAPI {
	t.Helper()
	k := &kubeAPI{
		handlers: map[string]http.HandlerFunc{},
		users: map[string]authenticationv1.UserInfo{
			aliceToken: {Username: "alice", UID: "1", Groups: []string{"platform", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
			bobToken:   {Username: "bob"},
			robotToken: {Username: "system:serviceaccount:ns:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}},
			eveToken:   {Username: "eve"},
		},
	}
	k.handle("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"major": "1"})
	})
	k.handle("POST /apis/authentication.k8s.io/v1/tokenreviews", k.reviewToken)
	k.handle("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", reviewAccess)
	k.answer("GET "+controlPlanesPath, http.StatusOK, controlPlaneList(3))
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	return k
}

func (k *kubeAPI) serve(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.seen = append(k.seen, r)
	handler, down := k.handlers[r.Method+" "+r.URL.Path], k.down
	if handler == nil {
		handler = k.otherwise
	}
	k.mu.Unlock()
	switch {
	case down:
		writeStatus(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	case r.URL.Query().Get("watch") != "":
		// A watch without events.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case handler == nil:
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	default:
		handler(w, r)
	}
}

func (k *kubeAPI) reviewToken(w http.ResponseWriter, r *http.Request) {
	review := &authenticationv1.TokenReview{}
	_ = json.NewDecoder(r.Body).Decode(review)
	k.mu.Lock()
	info, ok := k.users[review.Spec.Token]
	k.mu.Unlock()
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: info, Audiences: review.Spec.Audiences}
	writeJSON(w, http.StatusCreated, review)
}

func reviewAccess(w http.ResponseWriter, r *http.Request) {
	review := &authorizationv1.SubjectAccessReview{}
	_ = json.NewDecoder(r.Body).Decode(review)
	review.Status.Allowed = review.Spec.User != "eve"
	writeJSON(w, http.StatusCreated, review)
}

func (k *kubeAPI) set(change func(*kubeAPI)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

func (k *kubeAPI) handle(methodAndPath string, handler http.HandlerFunc) {
	k.set(func(k *kubeAPI) { k.handlers[methodAndPath] = handler })
}

func (k *kubeAPI) answer(methodAndPath string, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	k.handle(methodAndPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(raw)
	})
}

// requests returns the requests for a path. If method is "", it returns those of all
// methods.
func (k *kubeAPI) requests(method, path string) []*http.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []*http.Request
	for _, r := range k.seen {
		if r.URL.Path == path && (method == "" || r.Method == method) {
			found = append(found, r)
		}
	}
	return found
}

// all returns all requests.
func (k *kubeAPI) all() []*http.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.seen)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func writeStatus(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	writeJSON(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: code, Reason: reason,
	})
}

// drain reads the rest of a response, so that its connection can be reused.
func drain(response *http.Response) {
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

func workspaceObject() *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "aggregation.coder.com/v1alpha1", Kind: "CoderWorkspace"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "default.alice.dev", ResourceVersion: "1"},
		Spec:       aggregationv1alpha1.CoderWorkspaceSpec{Running: ptr.To(true)},
	}
}

func workspaceList(items ...*aggregationv1alpha1.CoderWorkspace) *aggregationv1alpha1.CoderWorkspaceList {
	list := &aggregationv1alpha1.CoderWorkspaceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "aggregation.coder.com/v1alpha1", Kind: "CoderWorkspaceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	for _, item := range items {
		list.Items = append(list.Items, *item)
	}
	return list
}

func controlPlaneList(n int) *coderv1alpha1.CoderControlPlaneList {
	list := &coderv1alpha1.CoderControlPlaneList{
		TypeMeta: metav1.TypeMeta{APIVersion: "coder.com/v1alpha1", Kind: "CoderControlPlaneList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	for i := range n {
		list.Items = append(list.Items, coderv1alpha1.CoderControlPlane{
			TypeMeta:   metav1.TypeMeta{APIVersion: "coder.com/v1alpha1", Kind: "CoderControlPlane"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", i), Name: "coder", ResourceVersion: "1"},
			Status:     coderv1alpha1.CoderControlPlaneStatus{URL: fmt.Sprintf("https://coder-%02d.example.com", i)},
		})
	}
	return list
}
