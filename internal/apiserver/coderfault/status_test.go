package coderfault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

func TestStatus(t *testing.T) {
	subject := Subject{
		Kind: schema.GroupKind{Kind: "CoderWorkspace"}, Resource: schema.GroupResource{Resource: "coderworkspaces"}, Name: "n",
		Fields: map[string]*field.Path{"ttl_ms": field.NewPath("spec", "ttlMillis")},
	}
	coder := func(status int) *coderd.Error { return &coderd.Error{Op: "asking", StatusCode: status, Message: "No."} }
	invalid := coder(http.StatusBadRequest)
	invalid.Fields = []coderd.FieldError{{Field: "ttl_ms", Detail: "too short"}}
	limited := coder(http.StatusTooManyRequests)
	limited.RetryAfter = 7 * time.Second
	taken := coder(http.StatusConflict)
	taken.Message = `Workspace "dev" already exists.`
	externalAuth := refusedForExternalAuth(t)
	acting := func(status int) *coderd.Error {
		err := coder(status)
		err.ActedAs = "ada"
		return err
	}
	late := &coderd.Error{Op: "asking", Message: "late", Err: context.DeadlineExceeded}
	for name, c := range map[string]struct {
		err    error
		code   int32
		reason metav1.StatusReason
		retry  int32
		field  string
	}{
		"hidden from one": {acting(http.StatusNotFound), 403, metav1.StatusReasonForbidden, 0, ""},
		"gone for all":    {acting(http.StatusGone), 404, metav1.StatusReasonNotFound, 0, ""},
		"refused to one":  {acting(http.StatusForbidden), 403, metav1.StatusReasonForbidden, 0, ""},
		"one's token":     {acting(http.StatusUnauthorized), 403, metav1.StatusReasonForbidden, 0, ""},
		"gone":            {coder(http.StatusNotFound), 404, metav1.StatusReasonNotFound, 0, ""},
		"external auth":   {externalAuth, 403, metav1.StatusReasonForbidden, 0, ""},
		"too large":       {coder(http.StatusRequestEntityTooLarge), 413, metav1.StatusReasonRequestEntityTooLarge, 0, ""},
		"forbidden":       {coder(http.StatusForbidden), 403, metav1.StatusReasonForbidden, 0, ""},
		"name taken":      {taken, 409, metav1.StatusReasonAlreadyExists, 0, ""},
		"busy":            {coder(http.StatusConflict), 409, metav1.StatusReasonConflict, 0, ""},
		"invalid":         {invalid, 422, metav1.StatusReasonInvalid, 0, "spec.ttlMillis"},
		"invalid somehow": {coder(http.StatusUnprocessableEntity), 422, metav1.StatusReasonInvalid, 0, "spec"},
		"our token":       {coder(http.StatusUnauthorized), 503, metav1.StatusReasonServiceUnavailable, 1, ""},
		"too many":        {limited, 429, metav1.StatusReasonTooManyRequests, 7, ""},
		"broken":          {coder(http.StatusInternalServerError), 503, metav1.StatusReasonServiceUnavailable, 1, ""},
		"no answer":       {&coderd.Error{Op: "asking", Err: errors.New("refused")}, 503, metav1.StatusReasonServiceUnavailable, 1, ""},
		"late":            {late, 504, metav1.StatusReasonTimeout, 1, ""},
		"not ready": {fmt.Errorf("x: %w", &connections.UnavailableError{ControlPlanes: []string{"a/b: no token"}, RetryAfter: 1500 * time.Millisecond}),
			503, metav1.StatusReasonServiceUnavailable, 2, ""},
		"ours already": {apierrors.NewResourceExpired("x"), 410, metav1.StatusReasonExpired, 0, ""},
		"a bug":        {errors.New("x"), 500, metav1.StatusReasonInternalError, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var status apierrors.APIStatus
			if !errors.As(subject.Status(c.err), &status) {
				t.Fatal("no status")
			}
			got := status.Status()
			if got.Code != c.code || got.Reason != c.reason {
				t.Errorf("%d %s, want %d %s", got.Code, got.Reason, c.code, c.reason)
			}
			if got.Details != nil && got.Details.RetryAfterSeconds != c.retry || got.Details == nil && c.retry != 0 {
				t.Errorf("details %+v, want a retry after %d", got.Details, c.retry)
			}
			if c.field != "" && (len(got.Details.Causes) != 1 || got.Details.Causes[0].Field != c.field) {
				t.Errorf("causes %+v, want %s", got.Details.Causes, c.field)
			}
		})
	}
	if subject.Status(nil) != nil {
		t.Error("nil is an error")
	}
}

// refusedForExternalAuth returns the error for a workspace whose owner has not signed in to the
// external provider of its template.
func refusedForExternalAuth(t *testing.T) error {
	t.Helper()
	server := coderdtest.New(t, coderdtest.WithRelease(coderdtest.Release234))
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	template := server.AddTemplate("coder", "small", nil)
	server.RequireExternalAuth(template, "github")
	_, err = client.CreateWorkspace(t.Context(), "ada", coderd.NewWorkspace{Name: "dev", TemplateID: template})
	return err
}

func TestExternalAuthIsNoMissingRight(t *testing.T) {
	err := Subject{}.Status(refusedForExternalAuth(t))
	if !apierrors.HasStatusCause(err, CauseExternalAuthRequired) || !strings.Contains(err.Error(), `"github"`) ||
		strings.Contains(err.Error(), "not allowed") {
		t.Errorf("%v", err)
	}
}
