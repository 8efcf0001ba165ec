package toolset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

func TestErrorsOfKubernetesAreSentencesThatHelp(t *testing.T) {
	const (
		resource = "coderworkspaces.aggregation.coder.com"
		name     = "default.alice.dev"
		object   = resource + " coder/" + name
	)
	workspaces := schema.GroupResource{Group: "aggregation.coder.com", Resource: "coderworkspaces"}
	rbac := errors.New(`User "alice" cannot get resource "coderworkspaces"`)
	tests := map[string]struct {
		err             error
		namespace, name string
		outcome, want   string
	}{
		"not found":             {apierrors.NewNotFound(workspaces, name), "coder", name, OutcomeNotFound, "there is no " + object + "; list them to see which names exist"},
		"no namespace":          {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "coder"), "coder", name, OutcomeNotFound, `there is no namespace "coder"`},
		"forbidden everywhere":  {apierrors.NewForbidden(workspaces, "", rbac), "", "", OutcomeDenied, `user "alice" may not get ` + resource + ` in all namespaces; give a namespace for which the user has permission, or ask an administrator for the permission`},
		"forbidden":             {apierrors.NewForbidden(workspaces, name, rbac), "coder", name, OutcomeDenied, `user "alice" may not get ` + object + `; ask an administrator for the permission`},
		"forbidden by a policy": {apierrors.NewForbidden(workspaces, name, errors.New("only on weekdays")), "coder", name, OutcomeDenied, `user "alice" may not get ` + object + `: ` + resource + ` "default.alice.dev" is forbidden: only on weekdays`},
		"no impersonation":      {apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, "alice", errors.New(`User "system:serviceaccount:coder-system:coder-k8s" cannot impersonate resource "users"`)), "coder", name, OutcomeDenied, `the server cannot act as user "alice": its ClusterRole lacks the permission to impersonate this user; an administrator must add it`},
		"no impersonation on":   {apierrors.NewForbidden(workspaces, name, errors.New(`User "s" cannot impersonate-on:user-info:get resource "coderworkspaces"`)), "coder", name, OutcomeDenied, `the server cannot act as user "alice": its ClusterRole lacks the permission to impersonate this user; an administrator must add it`},
		"conflict":              {apierrors.NewConflict(workspaces, name, errors.New("a build is active")), "coder", name, OutcomeConflict, object + ` was changed by another client, or has a running build: Operation cannot be fulfilled on ` + resource + ` "default.alice.dev": a build is active; read it and call again`},
		"exists":                {apierrors.NewAlreadyExists(workspaces, name), "coder", name, OutcomeConflict, object + " already exists; use another name, or update the existing object"},
		"invalid":               {apierrors.NewInvalid(schema.GroupKind{Kind: "CoderWorkspace"}, name, field.ErrorList{field.Invalid(field.NewPath("spec", "ttlMillis"), -1, "must be positive")}), "coder", name, OutcomeInvalid, "cannot get " + object + ": spec.ttlMillis: Invalid value: -1: must be positive"},
		"bad request":           {apierrors.NewBadRequest("previous terminated container not found."), "coder", name, OutcomeInvalid, "cannot get " + object + ": previous terminated container not found"},
		"unavailable":           {apierrors.NewServiceUnavailable("error trying to reach service: dial tcp 10.1.2.3:6443: connect: connection refused"), "coder", name, OutcomeUnavailable, "cannot get " + object + " now: error trying to reach service: dial tcp (address): connect: connection refused; try again in 5 s"},
		"too many":              {apierrors.NewTooManyRequests("slow down", 7), "coder", name, OutcomeUnavailable, "cannot get " + object + " now: slow down; try again in 7 s"},
		"busy":                  {apierrors.NewServerTimeout(workspaces, "get", 3), "coder", name, OutcomeUnavailable, "cannot get " + object + " now: The get operation against " + resource + " could not be completed at this time, please try again; try again in 3 s"},
		"no connection":         {&url.Error{Op: "Get", URL: "https://10.0.0.1:443/apis", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, "coder", name, OutcomeUnavailable, "cannot get " + object + " now: it does not respond; try again in 5 s"},
		"a lost connection":     {fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), "coder", name, OutcomeUnavailable, "cannot get " + object + " now: it does not respond; try again in 5 s"},
		"old cursor":            {apierrors.NewResourceExpired("too old"), "", "", OutcomeInvalid, "cursor is too old; leave it out to begin at the start"},
		"not served":            {&meta.NoKindMatchError{}, "", "", OutcomeUnavailable, "this cluster does not serve get of " + resource + "; check that coder-k8s is installed completely"},
		"an unknown path":       {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", workspaces, name, "", 0, true), "coder", name, OutcomeUnavailable, "this cluster does not serve get of " + resource + "; check that coder-k8s is installed completely"},
		"an unknown verb":       {apierrors.NewMethodNotSupported(workspaces, "get"), "coder", name, OutcomeUnavailable, "this cluster does not serve get of " + resource + "; check that coder-k8s is installed completely"},
		"too large":             {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), "coder", name, OutcomeInvalid, "cannot get " + object + ": it is too large for the Kubernetes API; send less"},
		"no sense":              {errors.New("Get https://10.0.0.1:443/apis: x509: unknown authority"), "coder", name, OutcomeError, "cannot get " + object + ": the Kubernetes API returned an unexpected response; see the log of the server for details"},
		"a failure inside":      {apierrors.NewInternalError(errors.New("panic: goroutine 1")), "coder", name, OutcomeError, "cannot get " + object + ": the Kubernetes API returned an unexpected response; see the log of the server for details"},
		"too slow":              {context.DeadlineExceeded, "coder", "", OutcomeTimeout, "get of " + resource + " in namespace coder took too long; reduce the result with limit or a namespace, or try again later"},
		"too slow there":        {apierrors.NewTimeoutError("request timed out", 1), "coder", "", OutcomeTimeout, "get of " + resource + " in namespace coder took too long; reduce the result with limit or a namespace, or try again later"},
		"cancelled":             {fmt.Errorf("get: %w", context.Canceled), "coder", name, OutcomeCancelled, "the call was cancelled"},
		"a write that reads":    {callers.ErrReadOnly, "coder", name, OutcomeDenied, "cannot get " + object + ": this tool is read-only; nothing was done"},
		"more than one line":    {apierrors.NewBadRequest("one\n\ttwo"), "coder", name, OutcomeInvalid, "cannot get " + object + ": one two"},
	}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "alice"})
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			err := &CallError{Verb: "get", Resource: resource, Namespace: tc.namespace, Name: tc.name, Err: tc.err}
			outcome, got := explain(ctx, fmt.Errorf("a tool: %w", err))
			if diff := cmp.Diff(tc.want, got.Error()); diff != "" || outcome != tc.outcome {
				t.Errorf("outcome %s, want %s (-want +got):\n%s", outcome, tc.outcome, diff)
			}
			if !errors.Is(err, tc.err) || !strings.HasPrefix(err.Error(), "get "+resource) {
				t.Errorf("the error for the log is %v", err)
			}
		})
	}
}

func TestAWriteWithoutAnAnswerMayHaveBeenMade(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, apierrors.NewTimeoutError("request timed out", 1)} {
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			outcome, got := explain(t.Context(), &CallError{Verb: verb, Resource: "pods", Namespace: "coder", Name: "x", Err: err})
			want := "no answer to " + verb + " of pods coder/x came in time; the change may have been made: read the object before you try again"
			if outcome != OutcomeTimeout || got.Error() != want {
				t.Errorf("%s, %v: outcome %s, %q; want %q", verb, err, outcome, got, want)
			}
		}
	}
}

func TestOtherErrorsAreSentences(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx           context.Context
		err           error
		outcome, want string
	}{
		"a mistake":             {t.Context(), fmt.Errorf("list: %w", UsageError("namespace is required")), OutcomeInvalid, "namespace is required"},
		"a refusal":             {t.Context(), &refusal{OutcomeDeclined, "the user did not agree"}, OutcomeDeclined, "the user did not agree"},
		"nobody waits":          {cancelled, errors.New("stream error: stream ID 3; CANCEL"), OutcomeCancelled, "the call was cancelled"},
		"nobody waits for it":   {cancelled, &CallError{Verb: "get", Resource: "pods", Err: errors.New("CANCEL")}, OutcomeCancelled, "the call was cancelled"},
		"too long":              {t.Context(), context.DeadlineExceeded, OutcomeTimeout, "the call took too long and was stopped; if it changes something, the change may have been made: read the object before you try again; if it only reads, request less data"},
		"what nobody foresaw":   {t.Context(), errors.New("token=abc at 10.0.0.1"), OutcomeError, "internal error; see the log of the server for details"},
		"a status without name": {t.Context(), &apierrors.StatusError{ErrStatus: metav1.Status{Message: "10.0.0.1"}}, OutcomeError, "internal error; see the log of the server for details"},
	}
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			outcome, got := explain(tc.ctx, tc.err)
			if outcome != tc.outcome || got.Error() != tc.want {
				t.Errorf("told is %s, %q; want %s, %q", outcome, got, tc.outcome, tc.want)
			}
		})
	}
}

func TestAddressesAreNotTold(t *testing.T) {
	for given, want := range map[string]string{
		"dial tcp 10.1.2.3:6443: refused":               "dial tcp (address): refused",
		"Get https://api.internal:6443/apis?x=1 failed": "Get (address) failed",
		"dial tcp [fd00::1]:443: no route":              "dial tcp (address): no route",
		"v1.30.2 of 3 pods":                             "v1.30.2 of 3 pods",
	} {
		if got := scrub(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

func TestGap(t *testing.T) {
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "alice"})
	resource := schema.GroupResource{Resource: "pods"}
	for want, err := range map[string]error{
		`user "alice" may not list pods`:                                 apierrors.NewForbidden(resource, "", errors.New("no")),
		"there was no response in time":                                  context.DeadlineExceeded,
		"this cluster does not serve it":                                 apierrors.NewNotFound(resource, "x"),
		"it is not available now: the kitchen at (address) is shut":      apierrors.NewServiceUnavailable("the kitchen\nat 10.0.0.1:80 is shut"),
		`Operation cannot be fulfilled on pods "x": the build is failed`: apierrors.NewConflict(resource, "x", errors.New("the build is failed")),
		"tailLines is negative":                                          apierrors.NewBadRequest("tailLines is negative"),
		"the Kubernetes API returned an unexpected response":             errors.New("dial tcp 10.0.0.1:6443: secret"),
		"the server has no permission to impersonate its caller; an administrator must add it to the ClusterRole of the server": apierrors.NewForbidden(
			resource, "", errors.New(`user "x" cannot impersonate resource "users"`)),
	} {
		got := Gap(ctx, &CallError{Verb: "list", Resource: "pods", Namespace: "coder", Err: err})
		if want := "could not read pods in namespace coder: " + want; got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	got := Gap(t.Context(), &CallError{Verb: "get", Resource: "/version", Err: context.DeadlineExceeded})
	if want := "could not read /version: there was no response in time"; got != want {
		t.Errorf("a path: %q, want %q", got, want)
	}
}
