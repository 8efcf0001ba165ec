package installation

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func everything(own bool) Expectation {
	return Expectation{Namespace: Namespace, Controllers: true, AggregatedAPI: true, MCP: true, OwnRights: own}
}

// startsWith returns a function that reports whether a problem begins with a sentence.
func startsWith(sentence string) func(Problem) bool {
	return func(p Problem) bool { return strings.HasPrefix(p.String(), sentence) }
}

// No pod runs in these tests, which is reported as a problem.
func noPod(p Problem) bool {
	return p.Object == "APIService "+apiServiceName && strings.Contains(p.What, "EndpointsNotFound") ||
		p.Object == "Deployment coder-system/coder-k8s" && p.What == "has none of 2 pods available"
}

func TestManifestsAreAllThatIsNeeded(t *testing.T) {
	c := installed(t)
	c.helmTest(t)
	for name, as := range map[string]struct {
		config *rest.Config
		own    bool
		want   int
	}{
		"administrator": {c.config, false, 2},
		"operator":      {c.as(t, Namespace, Name), true, 1},
		"helm test":     {c.as(t, Namespace, "helm-test"), false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, as.config, everything(as.own), func(found []Problem) bool {
				return len(found) == as.want && !slices.ContainsFunc(found, func(p Problem) bool { return !noPod(p) })
			})
		})
	}
}

// helmTest creates an account with the permissions that the chart's test has.
func (c cluster) helmTest(t *testing.T) {
	t.Helper()
	template, err := os.ReadFile("../../charts/coder-k8s/templates/tests/check.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(template), "\nrules:\n")
	rules, _, _ = strings.Cut(rules, "\n---\n")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "helm-test"}}
	if err := yaml.Unmarshal([]byte(rules), &role.Rules); err != nil || len(role.Rules) == 0 {
		t.Fatalf("%v, rules: %s", err, rules)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: role.Name}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := c.kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// A caller without permissions gets no false problems, and an error that names what was not
// checked.
func TestStrangerIsToldWhatWasNotChecked(t *testing.T) {
	c := installed(t)
	const want = "you have no permission to read the ClusterRoles and their bindings, the Deployments in all namespaces, " +
		"the APIService, the admission policies"
	problems, err := Check(t.Context(), c.as(t, "default", "stranger"), everything(false))
	if err == nil || err.Error() != want || len(problems) > 0 {
		t.Errorf("%v:\n%s", err, lines(problems))
	}
}

func TestWhatIsBrokenIsNamed(t *testing.T) {
	c := installed(t)
	operator := c.as(t, Namespace, Name)
	const (
		rbac      = "rbac.authorization.k8s.io/v1"
		admission = "admissionregistration.k8s.io/v1"
		extension = "apiextensions.k8s.io/v1"
		crd       = "CustomResourceDefinition"
	)
	for name, test := range map[string]struct {
		broken func(*testing.T)
		// administrator and operator are the beginnings of the expected problems. Empty
		// means that the caller cannot find the problem.
		administrator, operator string
		blocks                  bool
	}{
		"no definition": {
			broken: func(t *testing.T) { c.without(t, extension, crd, "", "coderprovisioners.coder.com") },
			administrator: "CustomResourceDefinition coderprovisioners.coder.com is missing: apply the manifests of this version (" +
				"kubectl apply -f install.yaml",
			operator: "CustomResourceDefinition coderprovisioners.coder.com is missing or not established: apply",
			blocks:   true,
		},
		"no definition of records": {
			broken:        func(t *testing.T) { c.without(t, extension, crd, "", "coderworkspacerecords.internal.coder.com") },
			administrator: "CustomResourceDefinition coderworkspacerecords.internal.coder.com is missing: ",
			operator:      "CustomResourceDefinition coderworkspacerecords.internal.coder.com is missing or not established: ",
			blocks:        true,
		},
		"an older definition": {
			broken: func(t *testing.T) { c.olderDefinition(t) },
			administrator: "CustomResourceDefinition codercontrolplanes.coder.com is of another version than this program: " +
				"it has no spec.operatorAccess, spec.licenseSecretRef, spec.rbac: ",
			operator: "CustomResourceDefinition codercontrolplanes.coder.com is of another version than this program: " +
				"it has no spec.operatorAccess, spec.licenseSecretRef, spec.rbac: ",
		},
		"no binding of the controllers": {
			broken:        func(t *testing.T) { c.without(t, rbac, "ClusterRoleBinding", "", "coder-k8s-controller") },
			administrator: "ClusterRole coder-k8s-controller has no binding: apply the manifests",
			operator:      "ServiceAccount coder-system/coder-k8s lacks permissions that it needs: ",
		},
		"no role of the MCP server": {
			broken:        func(t *testing.T) { c.without(t, rbac, "ClusterRole", "", "coder-k8s-mcp") },
			administrator: "ClusterRole coder-k8s-mcp is missing: apply the manifests",
			operator:      "ServiceAccount coder-system/coder-k8s has none of the ",
		},
		"an older role": {
			broken:        func(t *testing.T) { c.olderRole(t) },
			administrator: "ClusterRole coder-k8s-apiserver lacks permissions that this version needs: codermirrorstates.internal.coder.com (create, delete, get, list, update, watch), codertemplaterecords.internal.coder.com (create, delete, get, list, update, watch), codertemplatesources.internal.coder.com (create, delete, get, list, update, watch), coderuserrecords.internal.coder.com (create, delete, get, list, update, watch), coderworkspacerecords.internal.coder.com (create, delete, get, list, update, watch): ",
			// The role of the controllers lets it read codermirrorstates.
			operator: "ServiceAccount coder-system/coder-k8s lacks permissions that it needs: codermirrorstates.internal.coder.com (create, delete, update), codertemplaterecords.internal.coder.com (create, delete, get, list, update, watch), codertemplatesources.internal.coder.com (create, delete, get, list, update, watch), coderuserrecords.internal.coder.com (create, delete, get, list, update, watch), coderworkspacerecords.internal.coder.com (create, delete, get, list, update, watch): apply the manifests",
		},
		"no role in its own namespace": {
			broken:   func(t *testing.T) { c.without(t, rbac, "RoleBinding", Namespace, "coder-k8s-apiserver-replicas") },
			operator: "ServiceAccount coder-system/coder-k8s lacks permissions that it needs in namespace coder-system: leases.coordination.k8s.io ",
		},
		"no APIService": {
			broken:        func(t *testing.T) { c.without(t, "apiregistration.k8s.io/v1", "APIService", "", apiServiceName) },
			administrator: "APIService v1alpha1.aggregation.coder.com is missing: apply the manifests of this version (kubectl apply -f install.yaml, or your variant of it)",
			operator:      "APIService v1alpha1.aggregation.coder.com is missing: ",
		},
		"an APIService of others": {
			broken: func(t *testing.T) {
				c.changed(t, "apiregistration.k8s.io/v1", "APIService", apiServiceName, "elsewhere", "spec", "service", "namespace")
			},
			administrator: "APIService v1alpha1.aggregation.coder.com sends requests to Service elsewhere/coder-k8s-apiserver, not to coder-system/coder-k8s-apiserver (written by \"",
			operator:      "APIService v1alpha1.aggregation.coder.com sends requests to Service elsewhere/coder-k8s-apiserver",
		},
		"nobody verified": {
			broken: func(t *testing.T) {
				c.changed(t, "apiregistration.k8s.io/v1", "APIService", apiServiceName, true, "spec", "insecureSkipTLSVerify")
			},
			administrator: "APIService v1alpha1.aggregation.coder.com does not verify the server certificate",
			operator:      "APIService v1alpha1.aggregation.coder.com does not verify the server certificate",
		},
		"no policy": {
			broken:        func(t *testing.T) { c.without(t, admission, "ValidatingAdmissionPolicy", "", PolicyName) },
			administrator: "ValidatingAdmissionPolicy coder-k8s-workspace-namespaces is missing: apply the manifests",
			operator:      "ValidatingAdmissionPolicy coder-k8s-workspace-namespaces is missing: apply the manifests",
		},
		"no policy that records authors": {
			broken:        func(t *testing.T) { c.without(t, admission, "MutatingAdmissionPolicy", "", PolicyName) },
			administrator: "MutatingAdmissionPolicy coder-k8s-workspace-namespaces is missing: apply the manifests",
			operator:      "MutatingAdmissionPolicy coder-k8s-workspace-namespaces is missing: apply the manifests",
		},
		"no binding of the policy that records authors": {
			broken:        func(t *testing.T) { c.without(t, admission, "MutatingAdmissionPolicyBinding", "", PolicyName) },
			administrator: "MutatingAdmissionPolicyBinding coder-k8s-workspace-namespaces is missing, so the policy records no author: ",
			operator:      "MutatingAdmissionPolicyBinding coder-k8s-workspace-namespaces is missing, so the policy records no author: ",
		},
		"no policy about tokens": {
			broken:        func(t *testing.T) { c.without(t, admission, "ValidatingAdmissionPolicy", "", TokenPolicyName) },
			administrator: "ValidatingAdmissionPolicy coder-k8s-token-secrets is missing: apply the manifests",
			operator:      "ValidatingAdmissionPolicy coder-k8s-token-secrets is missing: apply the manifests",
		},
		"no binding of the policy": {
			broken:        func(t *testing.T) { c.without(t, admission, "ValidatingAdmissionPolicyBinding", "", PolicyName) },
			administrator: "ValidatingAdmissionPolicyBinding coder-k8s-workspace-namespaces is missing, so the policy is not enforced: ",
			operator:      "ValidatingAdmissionPolicyBinding coder-k8s-workspace-namespaces is missing, so the policy is not enforced: ",
		},
		"a policy that only warns": {
			broken: func(t *testing.T) {
				c.changed(t, admission, "ValidatingAdmissionPolicyBinding", PolicyName, []any{"Warn"}, "spec", "validationActions")
			},
			administrator: "ValidatingAdmissionPolicyBinding coder-k8s-workspace-namespaces does not deny",
			operator:      "ValidatingAdmissionPolicyBinding coder-k8s-workspace-namespaces does not deny",
		},
		"no Deployment": {
			broken:        func(t *testing.T) { c.without(t, "apps/v1", "Deployment", Namespace, Name) },
			administrator: "Namespace coder-system has no Deployment that runs the MCP server: ",
		},
		"another operator": {
			broken: func(t *testing.T) { c.anotherOperator(t) },
			administrator: "Deployment coder-elsewhere/coder-k8s runs the controllers for the same namespaces as namespace coder-system does, " +
				"and both write the same objects: remove one of the two",
			operator: "Deployment coder-elsewhere/coder-k8s runs the controllers for the same namespaces",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.broken(t)
			told := func(sentence string) func([]Problem) bool {
				return func(found []Problem) bool {
					i := slices.IndexFunc(found, startsWith(sentence))
					return i >= 0 && found[i].Blocks == test.blocks && (!test.blocks || i == 0)
				}
			}
			if test.administrator != "" {
				eventually(t, c.config, everything(false), told(test.administrator))
			}
			if test.operator != "" {
				eventually(t, operator, everything(true), told(test.operator))
			}
		})
	}
}

// olderDefinition removes three fields from a definition.
func (c cluster) olderDefinition(t *testing.T) {
	t.Helper()
	const name = "codercontrolplanes.coder.com"
	versions := c.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name).Object["spec"].(map[string]any)["versions"].([]any)
	schema := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	spec := inner(inner(schema, "properties"), "spec")
	for _, field := range []string{"rbac", "operatorAccess", "licenseSecretRef"} {
		delete(inner(spec, "properties"), field)
	}
	// The validation rules refer to those fields.
	delete(spec, "x-kubernetes-validations")
	delete(schema, "x-kubernetes-validations")
	c.changed(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", name, versions, "spec", "versions")
}

// olderRole removes the last rule from the role of the aggregated API.
func (c cluster) olderRole(t *testing.T) {
	t.Helper()
	rules := c.get(t, "rbac.authorization.k8s.io/v1", "ClusterRole", "", "coder-k8s-apiserver").Object["rules"].([]any)
	rules = slices.DeleteFunc(rules, func(rule any) bool {
		return rule.(map[string]any)["apiGroups"].([]any)[0] == "internal.coder.com"
	})
	c.changed(t, "rbac.authorization.k8s.io/v1", "ClusterRole", "coder-k8s-apiserver", rules, "rules")
}

// anotherOperator creates a second Deployment of the operator in another namespace.
func (c cluster) anotherOperator(t *testing.T) {
	t.Helper()
	const elsewhere = "coder-elsewhere"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}
	if err := c.kube.Create(t.Context(), ns); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	second := c.get(t, "apps/v1", "Deployment", Namespace, Name)
	second.SetNamespace(elsewhere)
	second.SetResourceVersion("")
	second.SetUID("")
	if err := c.kube.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.kube.Delete(context.Background(), second); err != nil {
			t.Error(err)
		}
	})
}
