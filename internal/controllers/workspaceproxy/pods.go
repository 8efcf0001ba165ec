package workspaceproxy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// followRunning builds the Workload for the current Deployment. An adopted one keeps its port, which
// the NetworkPolicy needs even while describePods waits.
func (r *Reconciler) followRunning(_ context.Context, s *scope) error {
	s.inputs.Adopted, s.inputs.Live = s.Workload.Adopted, s.Workload.Live
	s.Workload = resources.WorkspaceProxy(s.proxy, s.inputs)
	return nil
}

// describePods completes the Workload with the token, the URL of Coder and the image. If one of
// them is missing, it waits, and running pods are not changed.
func (r *Reconciler) describePods(ctx context.Context, s *scope) error {
	if s.registration == nil {
		return waits("the registration in Coder")
	}
	spec := s.proxy.Spec
	if s.controlPlane != nil {
		s.inputs.Image = s.controlPlane.Status.Image
	}
	if spec.ControlPlaneRef != nil && spec.Image == "" && s.inputs.Image == "" {
		return waits("the control plane to run, because the pods use its image")
	}
	s.inputs.PrimaryAccessURL = s.accessURL()
	if s.inputs.PrimaryAccessURL == "" {
		return waits("the address of Coder")
	}
	token := s.registration.TokenRef
	if token == nil {
		running, err := s.OwnDeployment(ctx, r.kit.Client)
		if err != nil {
			return err
		}
		if running != nil && !s.registration.SecretForeign {
			// The Secret is lost and Coder is unreachable. Running pods keep their reference to the Secret, so that other
			// changes of the spec still reach them.
			token = &coderv1alpha1.TokenSecretReference{Name: resources.ProxyTokenSecretName(s.proxy), Key: coderv1alpha1.SecretKeyToken}
		}
	}
	if token == nil {
		return waits("a session token from Coder")
	}
	s.inputs.Token = *token
	s.Workload = resources.WorkspaceProxy(s.proxy, s.inputs)
	return nil
}

func waits(what string) error {
	return ensure.Waits(coderv1alpha1.ReasonWaiting, 0, "waiting for %s", what)
}

// cannotRegister returns a problem if the proxy exits because Coder is unreachable or rejects it.
func (s *scope) cannotRegister(words string) *framework.Problem {
	for _, line := range slices.Backward(podproblem.LogLines(words)) {
		_, cause, found := strings.Cut(line, "register proxy: ")
		if !found {
			continue
		}
		reason, remedy := coderv1alpha1.ReasonUnreachable, "check spec.primaryAccessURL, and whether pods may connect there"
		if strings.Contains(cause, "unexpected status code") {
			reason, remedy = coderv1alpha1.ReasonCoderRefused, "see the condition Registered, which reports whether Coder accepts the token"
		}
		return &framework.Problem{Reason: reason, Message: fmt.Sprintf("the proxy cannot register with Coder at %s: %s; %s",
			s.inputs.PrimaryAccessURL, framework.Quote(registration.Stable(cause)), remedy)}
	}
	return nil
}

// missingToken returns a problem if the missing Secret is the one of
// spec.proxySessionTokenSecretRef.
func (s *scope) missingToken(reference resources.Reference, key string) *framework.Problem {
	ref := s.proxy.Spec.ProxySessionTokenSecretRef
	if ref == nil || reference.Kind != resources.KindSecret || reference.Name != ref.Name {
		return nil
	}
	what := "does not exist"
	if key != "" {
		what = fmt.Sprintf("has no key %q", key)
	}
	return &framework.Problem{Reason: coderv1alpha1.ReasonTokenSecretMissing, Message: fmt.Sprintf(
		"Secret %q of spec.proxySessionTokenSecretRef %s; put the session token of the proxy there", reference.Name, what)}
}
