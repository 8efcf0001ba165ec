package toolset

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestGap(t *testing.T) {
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "alice"})
	resource := schema.GroupResource{Resource: "pods"}
	for want, err := range map[string]error{
		`user "alice" may not list pods`:                           apierrors.NewForbidden(resource, "", errors.New("no")),
		"no answer came in time":                                   context.DeadlineExceeded,
		"this cluster does not serve it":                           apierrors.NewNotFound(resource, "x"),
		"it cannot be asked now: the kitchen at (address) is shut": apierrors.NewServiceUnavailable("the kitchen\nat 10.0.0.1:80 is shut"),
		"the Kubernetes API did not answer as expected":            errors.New("dial tcp 10.0.0.1:6443: secret"),
		"the server may not act as its caller; an administrator must add that to its ClusterRole": apierrors.NewForbidden(
			resource, "", errors.New(`user "x" cannot impersonate resource "users"`)),
	} {
		got := Gap(ctx, &CallError{Verb: "list", Resource: "pods", Namespace: "coder", Err: err})
		if want := "could not read pods in namespace coder: " + want; got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	got := Gap(t.Context(), &CallError{Verb: "get", Resource: "/version", Err: context.DeadlineExceeded})
	if want := "could not read /version: no answer came in time"; got != want {
		t.Errorf("a path: %q, want %q", got, want)
	}
}
