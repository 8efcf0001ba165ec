package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Expectation describes the installation that the checks expect.
type Expectation struct {
	// Namespace is the namespace of the operator.
	Namespace string
	// WatchNamespaces are the only namespaces that the operator works in; empty means all.
	WatchNamespaces []string
	// Controllers, AggregatedAPI and MCP select the expected parts.
	Controllers, AggregatedAPI, MCP bool
	// LeaseNamespace is the namespace of the controllers' Lease; it defaults to Namespace.
	// NoLeaderElection means that leader election is disabled.
	LeaseNamespace   string
	NoLeaderElection bool
	// OwnRights checks the permissions of the caller itself, as the operator does at
	// startup. If it is unset, the roles of the operator are checked instead.
	OwnRights bool
}

// Check checks the installation and returns all problems, the most severe first. It returns
// an error only if a check could not be made. Checks for which the caller lacks permission
// are skipped.
func Check(ctx context.Context, config *rest.Config, want Expectation) ([]Problem, error) {
	c, err := newChecker(config, want)
	if err != nil {
		return nil, err
	}
	return c.check(ctx)
}

// checker makes one check.
type checker struct {
	kube      client.Client
	discovery discovery.DiscoveryInterface
	want      Expectation
}

func newChecker(config *rest.Config, want Expectation) (*checker, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		admissionregistrationv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if want.OwnRights {
		kube = asking{Client: kube}
	}
	return &checker{kube: kube, discovery: d, want: want}, nil
}

func (c *checker) check(ctx context.Context) ([]Problem, error) {
	checks := []func(context.Context) ([]Problem, error){
		c.kubernetes, c.definitions, c.rights, c.deployments, c.apiService, c.policies,
	}
	var problems []Problem
	var errs []error
	for _, look := range checks {
		found, err := look(ctx)
		problems = append(problems, found...)
		if err != nil && !apierrors.IsForbidden(err) {
			errs = append(errs, err)
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return rank(a) - rank(b) })
	if len(errs) > 0 {
		return problems, fmt.Errorf("looking at the installation: %w", errors.Join(errs...))
	}
	return problems, nil
}

// rank sorts blocking problems first and temporary ones last.
func rank(p Problem) int {
	switch {
	case p.Blocks:
		return 0
	case p.MayPass:
		return 2
	}
	return 1
}
