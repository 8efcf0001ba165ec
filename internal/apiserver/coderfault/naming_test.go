package coderfault_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

func TestName(t *testing.T) {
	const coders = "0f5ef1a0-7b0d-4b6e-8d3c-2c0f6f0a1b2c"
	fault := &coderd.Error{Op: "reading workspace", Message: "no database", StatusCode: 500, RequestID: coders}
	for name, tc := range map[string]struct {
		err  error
		id   string
		want string
	}{
		"a failure of Coder":     {coderfault.Subject{}.Status(fault), "r", "reading workspace: no database (HTTP 500) (request r, in Coder " + coders + ")"},
		"a failure of ours":      {coderfault.Unavailable("not yet", 0), "r", "not yet (request r)"},
		"in no request":          {coderfault.Unavailable("not yet", 0), "", "not yet"},
		"a refusal is no secret": {apierrors.NewBadRequest("no"), "r", "no"},
		"no failure":             {nil, "r", ""},
		"of another package":     {errors.New("x"), "r", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			ctx := log.IntoContext(tracing.WithRequestID(t.Context(), tc.id), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: "get", Resource: "coderworkspaces", Namespace: "n", Name: "coder.ada.dev"})
			err := tc.err
			coderfault.Name(ctx, &err)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			named := strings.Contains(tc.want, "request r")
			if named != (len(lines) == 1) || named && !strings.Contains(lines[0], `"verb"="get" "resource"="coderworkspaces" "subresource"="" "namespace"="n" "name"="coder.ada.dev"`) {
				t.Errorf("the log has %q", lines)
			}
			again := err
			if coderfault.Name(ctx, &again); again != nil && again.Error() != got {
				t.Errorf("named twice: %v", again)
			}
		})
	}
}

// TestNamingLeavesTheRest checks that the original error is not modified, because it may be stored,
// and that the Retry-After is kept.
func TestNamingLeavesTheRest(t *testing.T) {
	before := coderfault.Unavailable("not yet", 0)
	want := before.Status()
	err := error(before)
	coderfault.Name(tracing.WithRequestID(context.Background(), "r"), &err)
	if diff := cmp.Diff(want, before.Status()); diff != "" {
		t.Errorf("the error before has changed:\n%s", diff)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatal(err)
	}
	details := status.Status().Details
	if status.Status().Code != http.StatusServiceUnavailable || details.RetryAfterSeconds != 1 ||
		!cmp.Equal(details.Causes, []metav1.StatusCause{{Type: coderfault.CauseRequestID, Message: "r"}}) {
		t.Errorf("%+v", status.Status())
	}
}
