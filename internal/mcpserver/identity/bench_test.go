package identity

import (
	"net/http"
	"net/http/httptest"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
)

// BenchmarkAuthenticated measures a request whose token and permission are cached.
func BenchmarkAuthenticated(b *testing.B) {
	kube := newPeople().clientset()
	kube.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	id, err := New(Config{
		Options: *NewOptions(), BindAddress: ":8090",
		Reviews: kube.AuthenticationV1().TokenReviews(),
		Entry:   access.NewReviewer(access.Config{Kube: kube}),
	})
	if err != nil {
		b.Fatal(err)
	}
	passed := 0
	handler := id.Authenticated(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		handler.ServeHTTP(w, r)
		n++
	}
	if passed != n {
		b.Fatalf("%d of %d requests were let in", passed, n)
	}
}
