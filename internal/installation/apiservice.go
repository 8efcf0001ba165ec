package installation

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	certutil "k8s.io/client-go/util/cert"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// authorityKey is the key of the CA certificate in the Secret of the aggregated API.
const authorityKey = "ca.crt"

// apiService checks whether kube-apiserver forwards requests for aggregation.coder.com to
// this installation.
func (c *checker) apiService(ctx context.Context) ([]Problem, error) {
	if !c.want.AggregatedAPI {
		return nil, nil
	}
	service := &apiregistrationv1.APIService{}
	err := c.kube.Get(ctx, client.ObjectKey{Name: apiServiceName}, service)
	switch {
	case apierrors.IsNotFound(err):
		return apiServiceProblem("is missing", applyInstallation), nil
	case err != nil:
		return nil, fmt.Errorf("reading APIService %s: %w", apiServiceName, err)
	}
	ours := c.want.Namespace + "/" + apiServiceService
	taken := ""
	switch ref := service.Spec.Service; {
	case service.DeletionTimestamp != nil:
		p := apiServiceProblem("is being deleted", applyInstallation)
		p[0].Since = &service.DeletionTimestamp.Time
		return p, nil
	case ref == nil:
		taken = "is served by kube-apiserver itself, because the cluster has CRDs of the group " + service.Spec.Group
	case ref.Namespace+"/"+ref.Name != ours:
		taken = fmt.Sprintf("sends requests to Service %s/%s, not to %s", ref.Namespace, ref.Name, ours)
	}
	if taken != "" {
		if who := writerOf(service, "f:service"); who != "" {
			taken += fmt.Sprintf(" (written by %q)", who)
		}
		return apiServiceProblem(taken, "remove the other installation if it is not needed, and then "+applyInstallation), nil
	}
	foreign, err := c.foreignAuthority(ctx, service)
	if foreign != nil {
		return foreign, err
	}
	return unavailable(service), err
}

func apiServiceProblem(what, do string) []Problem {
	return []Problem{{Object: "APIService " + apiServiceName, What: what, Do: do}}
}

// foreignAuthority returns a problem if the APIService trusts another CA than that of the
// certificate that the operator manages. It skips this if the caller may not read the Secret,
// as the account of the chart's test.
func (c *checker) foreignAuthority(ctx context.Context, service *apiregistrationv1.APIService) ([]Problem, error) {
	if service.Spec.InsecureSkipTLSVerify {
		return apiServiceProblem("does not verify the server certificate (insecureSkipTLSVerify)", applyInstallation), nil
	}
	secret := &corev1.Secret{}
	err := c.kube.Get(ctx, client.ObjectKey{Namespace: c.want.Namespace, Name: apiServiceSecret}, secret)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// If it does not exist, the certificate is configured as files.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s/%s: %w", c.want.Namespace, apiServiceSecret, err)
	case secret.Labels[coderv1alpha1.LabelManagedBy] != coderv1alpha1.ManagedBy, sharesAuthority(service.Spec.CABundle, secret.Data[authorityKey]):
		return nil, nil
	}
	what := fmt.Sprintf("trusts another certificate authority than the one in Secret %s/%s", c.want.Namespace, apiServiceSecret)
	if len(service.Spec.CABundle) == 0 {
		what = "trusts no certificate authority yet"
	} else if who := writerOf(service, "f:caBundle"); who != "" {
		what += fmt.Sprintf(" (spec.caBundle is written by %q)", who)
	}
	p := apiServiceProblem(what, "stop other clients from writing spec.caBundle; the operator writes it every 30 seconds while it runs")
	p[0].MayPass = true
	return p, nil
}

// sharesAuthority reports whether two bundles have a certificate in common. During a
// rotation they differ.
func sharesAuthority(a, b []byte) bool {
	first, err := certutil.ParseCertsPEM(a)
	if err != nil {
		return false
	}
	second, err := certutil.ParseCertsPEM(b)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(first, func(one *x509.Certificate) bool { return slices.ContainsFunc(second, one.Equal) })
}

// writerOf returns the field manager that wrote a field of the spec last.
func writerOf(service *apiregistrationv1.APIService, field string) string {
	who := ""
	var last metav1.Time
	for _, entry := range service.ManagedFields {
		if entry.FieldsV1 == nil || !bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"`+field+`"`)) {
			continue
		}
		if who == "" || entry.Time != nil && last.Before(entry.Time) {
			who = entry.Manager
		}
		if entry.Time != nil {
			last = *entry.Time
		}
	}
	return who
}

// unavailable returns a problem if kube-apiserver cannot reach the aggregated API.
func unavailable(service *apiregistrationv1.APIService) []Problem {
	for _, condition := range service.Status.Conditions {
		if condition.Type != apiregistrationv1.Available || condition.Status == apiregistrationv1.ConditionTrue {
			continue
		}
		do := "check the operator's log, and whether the control plane's nodes can reach its pods on port 6443, or that of --secure-port (NetworkPolicies, firewalls; docs/how-to/use-a-private-cluster.md)"
		switch condition.Reason {
		case "ServiceNotFound", "ServicePortError", "ServiceAccessError":
			do = applyInstallation + "; they contain the Service"
		case "MissingEndpoints", "EndpointsNotFound", "EndpointsAccessError":
			do = "check why no pod of the operator is ready: kubectl get pods -l app.kubernetes.io/name=coder-k8s -A"
		}
		p := apiServiceProblem(fmt.Sprintf("is not available (%s: %s)", condition.Reason, condition.Message), do)
		p[0].Since, p[0].MayPass = &condition.LastTransitionTime.Time, true
		return p
	}
	return nil
}

// guard is an admission policy of an installation.
type guard struct {
	// kind is the kind of the policy. That of its binding ends in Binding.
	kind string
	// name is the name of the policy and of its binding.
	name string
	// unbound is the consequence if the binding is missing, and without that if the policy is
	// missing.
	unbound, without string
}

const validating, mutating = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"

func (c *checker) policies(ctx context.Context) ([]Problem, error) {
	const unenforced = "the policy is not enforced"
	var guards []guard
	if c.want.Controllers {
		guards = append(guards, guard{validating, PolicyName, unenforced,
			"the author of spec.rbac is not known for certain, so the operator grants no permissions for it"})
	}
	if c.want.AggregatedAPI {
		guards = append(guards, guard{validating, TokenPolicyName, unenforced, "a compromised component of the operator could act as another one"})
	}
	if c.want.Controllers {
		guards = append(guards, guard{mutating, PolicyName, "the policy records no author",
			"the author of spec.rbac is not recorded, so the operator grants no permissions for it"})
	}
	var problems []Problem
	var errs []error
	for _, g := range guards {
		kind, what, err := c.policy(ctx, g)
		errs = append(errs, err)
		if what == "" {
			continue
		}
		problems = append(problems, Problem{
			Object: kind + " " + g.name, What: what,
			Do: applyInstallation + "; without the policy, " + g.without,
		})
	}
	return problems, errors.Join(errs...)
}

// policy returns what is wrong with a policy or its binding, and the kind of that object.
func (c *checker) policy(ctx context.Context, g guard) (kind, what string, err error) {
	policy, err := c.readGuard(ctx, g.kind, g.name)
	failurePolicy, _, _ := unstructured.NestedString(policy, "spec", "failurePolicy")
	switch {
	case meta.IsNoMatchError(err) && g.kind == mutating:
		// Kubernetes before 1.36 does not have this kind; there, the author sets the annotation.
		return "", "", nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return g.kind, "is missing", nil
	case err != nil:
		return "", "", err
	case g.kind == validating && failurePolicy == string(admissionregistrationv1.Ignore):
		return g.kind, "allows requests that it cannot evaluate (failurePolicy Ignore)", nil
	}
	kind = g.kind + "Binding"
	binding, err := c.readGuard(ctx, kind, g.name)
	bound, _, _ := unstructured.NestedString(binding, "spec", "policyName")
	actions, _, _ := unstructured.NestedStringSlice(binding, "spec", "validationActions")
	switch {
	case apierrors.IsNotFound(err):
		return kind, "is missing, so " + g.unbound, nil
	case err != nil:
		return "", "", err
	case bound != g.name:
		return kind, "binds another policy, " + bound, nil
	case g.kind == validating && !slices.Contains(actions, string(admissionregistrationv1.Deny)):
		return kind, "does not deny requests that violate the policy (validationActions without Deny)", nil
	}
	return "", "", nil
}

func (c *checker) readGuard(ctx context.Context, kind, name string) (map[string]any, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
	if err := c.kube.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	return object.Object, nil
}
