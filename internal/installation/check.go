package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
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
// an error if a check could not be made, in addition to the problems that the others found.
// The operator skips checks for which it lacks permission, because its missing permissions
// are problems themselves.
func Check(ctx context.Context, config *rest.Config, want Expectation) ([]Problem, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme,
		authorizationv1.AddToScheme, admissionregistrationv1.AddToScheme, apiregistrationv1.AddToScheme)
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering types: %w", err)
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
	c := &checker{kube: kube, discovery: d, want: want, openAPI: map[schema.GroupVersion]map[string]map[string]any{}}
	var problems []Problem
	var errs []error
	var unread []string
	for _, part := range []struct {
		name  string
		check func(context.Context) ([]Problem, error)
	}{
		{"the version of Kubernetes", c.kubernetes},
		{"the CustomResourceDefinitions", c.definitions},
		{"the ClusterRoles and their bindings", c.rights},
		{"the Deployments in all namespaces", c.deployments},
		{"the APIService", c.apiService},
		{"the admission policies", c.policies},
	} {
		found, err := part.check(ctx)
		problems = append(problems, found...)
		switch {
		case err != nil && !apierrors.IsForbidden(err):
			errs = append(errs, err)
		case err != nil && !want.OwnRights:
			unread = append(unread, part.name)
		}
	}
	if len(unread) > 0 {
		errs = append(errs, fmt.Errorf("you have no permission to read %s", strings.Join(unread, ", ")))
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return rank(a) - rank(b) })
	return problems, errors.Join(errs...)
}

// checker makes one check.
type checker struct {
	kube      client.Client
	discovery discovery.DiscoveryInterface
	want      Expectation
	// openAPI has the schemas that were read, by group version and name.
	openAPI map[schema.GroupVersion]map[string]map[string]any
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

// Problem is a defect of an installation.
type Problem struct {
	// Object is the object with the defect, for example "CustomResourceDefinition
	// codercontrolplanes.coder.com".
	Object string `json:"object"`
	// What describes the defect, without a period, for example "is missing".
	What string `json:"what"`
	// Do is the next step for the user.
	Do string `json:"do"`
	// Since is when the problem began, if known.
	Since *time.Time `json:"since,omitempty"`
	// Blocks reports that nothing works before this problem is solved.
	Blocks bool `json:"blocks,omitempty"`
	// MayPass reports that the problem may also exist temporarily while an operator starts.
	MayPass bool `json:"-"`
}

// String returns the problem and the next step in one line.
func (p Problem) String() string { return fmt.Sprintf("%s %s: %s", p.Object, p.What, p.Do) }

// asking is a client that checks its permission before each read. So a missing permission
// does not cause a forbidden request in the cluster's audit log, which would look like a
// misconfiguration.
type asking struct{ client.Client }

// Get implements client.Reader.
func (a asking) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if err := a.may(ctx, "get", key, obj); err != nil {
		return err
	}
	return a.Client.Get(ctx, key, obj, options...)
}

// List implements client.Reader.
func (a asking) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var given client.ListOptions
	given.ApplyOptions(options)
	if err := a.may(ctx, "list", client.ObjectKey{Namespace: given.Namespace}, list); err != nil {
		return err
	}
	return a.Client.List(ctx, list, options...)
}

// may returns the same error as kube-apiserver if the caller has no permission.
func (a asking) may(ctx context.Context, verb string, key client.ObjectKey, obj runtime.Object) error {
	kind, err := a.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	mapping, err := a.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		// The request itself returns the error for a kind that the cluster does not serve.
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the resource of %s: %w", kind, err)
	}
	if ok, err := allowed(ctx, a, key.Namespace, single(verb, mapping.Resource.Group, mapping.Resource.Resource, key.Name)); err != nil || ok {
		// If the permission cannot be checked, send the request.
		return nil //nolint:nilerr // The question is a courtesy.
	}
	return apierrors.NewForbidden(mapping.Resource.GroupResource(), key.Name, errors.New("you do not have this permission"))
}

// The oldest minor versions of Kubernetes 1.x that are supported.
const (
	// oldestMinor is for the controllers alone, which need ValidatingAdmissionPolicy.
	oldestMinor = 34
	// oldestMinorAggregatedAPI is the first version with MutatingAdmissionPolicy, which the
	// aggregated API evaluates for every write.
	oldestMinorAggregatedAPI = 36
	// oldestMinorMCP is the first version with constrained impersonation.
	oldestMinorMCP = 36
)

// kubernetes checks the version of the cluster.
func (c *checker) kubernetes(context.Context) ([]Problem, error) {
	v, err := c.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for its version: %w", err)
	}
	return tooOld(v, c.want), nil
}

func tooOld(v *version.Info, want Expectation) []Problem {
	// Some vendors append a plus sign to the minor version.
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil || v.Major != "1" {
		return nil
	}
	object := fmt.Sprintf("Kubernetes 1.%d", minor)
	var problems []Problem
	add := func(what, do string) {
		problems = append(problems, Problem{Object: object, What: what, Do: do})
	}
	if minor < oldestMinor {
		add("is too old", fmt.Sprintf("update the cluster to 1.%d or later", oldestMinorAggregatedAPI))
		return problems
	}
	if want.AggregatedAPI && minor < oldestMinorAggregatedAPI {
		add("does not serve MutatingAdmissionPolicies, without which the aggregated API accepts no writes",
			fmt.Sprintf("update the cluster to 1.%d or later, or start the operator with --disable-admission-plugins=MutatingAdmissionPolicy",
				oldestMinorAggregatedAPI))
	}
	if want.MCP && minor < oldestMinorMCP {
		add("does not support constrained impersonation, which the MCP server needs to act as its callers",
			fmt.Sprintf("update the cluster to 1.%d or later, or install with legacy-impersonation.yaml of charts/coder-k8s/installations after reading what it grants", oldestMinorMCP))
	}
	return problems
}
