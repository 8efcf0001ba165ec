package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guard is an admission policy of an installation.
type guard struct {
	// name is the name of the policy and of its binding.
	name string
	// without describes the consequence if the policy is missing.
	without string
}

func (c *checker) guards() []guard {
	var guards []guard
	if c.want.Controllers {
		guards = append(guards, guard{PolicyName, "nobody can know who wrote spec.rbac, so the operator grants nothing for it"})
	}
	if c.want.AggregatedAPI {
		guards = append(guards, guard{TokenPolicyName, "a part of the operator that was taken over could act as another"})
	}
	return guards
}

func (g guard) problem(kind, what string) []Problem {
	return []Problem{{
		Object: kind + " " + g.name, What: what,
		Do: "apply the policy of this version: kubectl apply -k config/policy, or upgrade the Helm release; without it, " + g.without,
	}}
}

// policies checks the admission policies and their bindings.
func (c *checker) policies(ctx context.Context) ([]Problem, error) {
	var problems []Problem
	var errs []error
	for _, g := range c.guards() {
		found, err := c.policy(ctx, g)
		problems, errs = append(problems, found...), append(errs, err)
	}
	if c.want.Controllers {
		found, err := c.authorPolicy(ctx)
		problems, errs = append(problems, found...), append(errs, err)
	}
	return problems, errors.Join(errs...)
}

func (c *checker) policy(ctx context.Context, g guard) ([]Problem, error) {
	const policyKind, bindingKind = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	problems, err := c.readGuard(ctx, g, policyKind, policy, "is missing")
	switch {
	case meta.IsNoMatchError(err):
		return g.problem(policyKind, "is missing"), nil
	case err != nil || problems != nil:
		return problems, err
	case policy.Spec.FailurePolicy != nil && *policy.Spec.FailurePolicy == admissionregistrationv1.Ignore:
		return g.problem(policyKind, "lets pass what it cannot judge (failurePolicy Ignore)"), nil
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if problems, err := c.readGuard(ctx, g, bindingKind, binding, "is missing, so the policy guards nothing"); err != nil || problems != nil {
		return problems, err
	}
	switch {
	case binding.Spec.PolicyName != g.name:
		return g.problem(bindingKind, "binds another policy, "+binding.Spec.PolicyName), nil
	case !slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny):
		return g.problem(bindingKind, "does not deny what the policy refuses"), nil
	}
	return nil, nil
}

// authorPolicy checks the policy that records the author of spec.rbac. Kubernetes before
// 1.36 does not have this kind; there, the author sets the annotation.
func (c *checker) authorPolicy(ctx context.Context) ([]Problem, error) {
	const policyKind, bindingKind = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"
	g := guard{PolicyName, "nobody is recorded as the author of spec.rbac, so the operator grants nothing for it"}
	problems, err := c.readGuard(ctx, g, policyKind, &admissionregistrationv1.MutatingAdmissionPolicy{}, "is missing")
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil
	case err != nil || problems != nil:
		return problems, err
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	if problems, err := c.readGuard(ctx, g, bindingKind, binding, "is missing, so the policy records nobody"); err != nil || problems != nil {
		return problems, err
	}
	if binding.Spec.PolicyName != g.name {
		return g.problem(bindingKind, "binds another policy, "+binding.Spec.PolicyName), nil
	}
	return nil, nil
}

// readGuard reads a policy or a binding. It returns a problem if the object does not exist.
func (c *checker) readGuard(ctx context.Context, g guard, kind string, object client.Object, what string) ([]Problem, error) {
	err := c.kube.Get(ctx, client.ObjectKey{Name: g.name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return g.problem(kind, what), nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", kind, g.name, err)
	}
	return nil, nil
}
