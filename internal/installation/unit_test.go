package installation

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestTooOld(t *testing.T) {
	for name, test := range map[string]struct {
		major, minor string
		want         Expectation
		problems     []string
	}{
		"new enough":                    {"1", "36", everything(true), nil},
		"of a vendor":                   {"1", "35+", Expectation{MCP: true}, []string{"Kubernetes 1.35 does not support constrained impersonation"}},
		"without the aggregated API":    {"1", "35", Expectation{Controllers: true}, nil},
		"before mutating policies":      {"1", "35", Expectation{AggregatedAPI: true}, []string{"Kubernetes 1.35 does not serve MutatingAdmissionPolicies"}},
		"before all policies":           {"1", "29", everything(true), []string{"Kubernetes 1.29 is too old: update the cluster to 1.36 or later"}},
		"a version that nobody can say": {"1", "", everything(true), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := tooOld(&version.Info{Major: test.major, Minor: test.minor}, test.want)
			if len(got) != len(test.problems) {
				t.Fatalf("got %v, want %v", got, test.problems)
			}
			for i, want := range test.problems {
				if !strings.HasPrefix(got[i].String(), want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
		})
	}
}

func TestDefectsOfADefinition(t *testing.T) {
	d := controlPlanes()
	condition := func(kind, status string) map[string]any {
		return map[string]any{
			"type": kind, "status": status, "reason": "Reason", "message": "message", "lastTransitionTime": "2030-01-01T00:00:00Z",
		}
	}
	crd := func(kind, served string, conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": d.Name},
			"spec": map[string]any{"names": map[string]any{"kind": kind}, "versions": []any{map[string]any{
				"name": served, "served": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"x-kubernetes-preserve-unknown-fields": true}},
			}}},
			"status": map[string]any{"conditions": conditions},
		}}
	}
	deleted := crd("CoderControlPlane", "v1alpha1")
	deleted.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1893456000, 0)})
	for name, test := range map[string]struct {
		crd  *unstructured.Unstructured
		want string
	}{
		"as it should be":  {crd("CoderControlPlane", "v1alpha1", condition("Established", "True")), ""},
		"another kind":     {crd("Other", "v1alpha1"), "belongs to other software: it defines the kind Other, not CoderControlPlane"},
		"another version":  {crd("CoderControlPlane", "v1"), "does not serve version v1alpha1"},
		"not established":  {crd("CoderControlPlane", "v1alpha1", condition("Established", "False")), "is not established (Reason: message)"},
		"a name is taken":  {crd("CoderControlPlane", "v1alpha1", condition("NamesAccepted", "False")), "shares a name with another definition (message)"},
		"is being deleted": {deleted, "is being deleted, and with it every CoderControlPlane"},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := d.defects(test.crd)
			got := ""
			for _, p := range problems {
				got = p.What
				if !p.Blocks {
					t.Errorf("%s does not block", p)
				}
			}
			if err != nil || got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// TestSchemasAreReadOnce because the document of our group is large and has those of eight kinds. A document that is not published
// yet is asked for again.
func TestSchemasAreReadOnce(t *testing.T) {
	requests, published := map[string]int{}, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests[r.URL.Path]++
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/openapi/v3" && published:
			fmt.Fprint(w, `{"paths": {"apis/coder.com/v1alpha1": {"serverRelativeURL": "/openapi/v3/apis/coder.com/v1alpha1?hash=1"}}}`)
		case r.URL.Path == "/openapi/v3":
			fmt.Fprint(w, `{"paths": {}}`)
		default:
			fmt.Fprint(w, `{"components": {"schemas": {"one": {"type": "object"}}}}`)
		}
	}))
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{discovery: client, openAPI: map[schema.GroupVersion]map[string]map[string]any{}}
	for _, want := range []int{0, 1, 1} {
		schemas, err := c.schemas(coderv1alpha1.GroupVersion)
		if err != nil || len(schemas) != want {
			t.Fatalf("got the schemas %v (%v), want %d", schemas, err, want)
		}
		published = true
	}
	if diff := cmp.Diff(map[string]int{"/openapi/v3": 2, "/openapi/v3/apis/coder.com/v1alpha1": 1}, requests); diff != "" {
		t.Errorf("the requests (-want +got):\n%s", diff)
	}
}

func TestLackingFields(t *testing.T) {
	object := func(properties map[string]any) map[string]any { return map[string]any{"properties": properties} }
	whole := map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	got := lackingFields(reflect.TypeFor[coderv1alpha1.CoderControlPlane](), object(map[string]any{"spec": whole}), "")
	if diff := cmp.Diff([]string{"metadata", "status"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	conditions := map[string]any{"items": object(nil)}
	got = lackingFields(reflect.TypeFor[coderv1alpha1.WorkloadStatus](), object(map[string]any{
		"observedGeneration": whole, "phase": whole, "conditions": conditions, "replicas": whole, "selector": whole,
	}), "")
	if diff := cmp.Diff([]string{"readyReplicas"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSentence(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		single("watch", "", "secrets", ""), single("get", "", "secrets", ""), single("list", "", "secrets", ""), single("get", "", "secrets", ""),
		single("get", "apps", "deployments", "web"), {Verbs: []string{"post"}, NonResourceURLs: []string{"/mcp"}},
	}
	if got, want := sentence(rules), "/mcp (post), deployments.apps web (get), secrets (get, list, watch)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	few := need{namespace: "x", rules: rules}
	if got, want := mayNot(rules[:3], few), "lacks permissions that it needs in namespace x: secrets (get, list, watch)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// With WatchNamespaces, permissions on namespaced resources are checked in these
// namespaces, and the others in the whole cluster.
func TestNeedsOfSomeNamespaces(t *testing.T) {
	want := everything(true)
	want.WatchNamespaces, want.LeaseNamespace = []string{"a", "b"}, "leases"
	where := map[string][]string{}
	for _, n := range needsOf(want) {
		for _, rule := range n.rules {
			permission := rule.Verbs[0] + " " + what(rule)
			where[permission] = append(where[permission], n.namespace)
		}
	}
	for r, namespaces := range map[string][]string{
		"list secrets":                      {"a", "b"},
		"create deployments.apps":           {"a", "b"},
		"list codercontrolplanes.coder.com": {"a", "b", "a", "b"},
		"list namespaces":                   {""},
		"patch apiservices.apiregistration.k8s.io v1alpha1.aggregation.coder.com": {""},
		"update secrets coder-k8s-apiserver-tls":                                  {"coder-system"},
		"update leases.coordination.k8s.io coder-k8s-controller.coder.com":        {"leases"},
		"create tokenreviews.authentication.k8s.io":                               {""},
	} {
		if diff := cmp.Diff(namespaces, where[r]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r, diff)
		}
	}
}

func TestDeploymentThatRunsAPart(t *testing.T) {
	deployment := func(args ...string) appsv1.Deployment {
		return appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: args}}},
		}}}
	}
	for name, test := range map[string]struct {
		d         appsv1.Deployment
		runs      bool
		namespace []string
	}{
		"all":          {deployment("--app=all"), true, nil},
		"nothing said": {deployment(), true, nil},
		"the part":     {deployment("--app=controller", "--watch-namespaces=a,b"), true, []string{"a", "b"}},
		"two words":    {deployment("--app", "controller", "--watch-namespaces", "a"), true, []string{"a"}},
		"another part": {deployment("--app=mcp-http"), false, nil},
		"no process":   {appsv1.Deployment{}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runs(test.d, "controller"); got != test.runs {
				t.Errorf("runs: %v", got)
			}
			if diff := cmp.Diff(test.namespace, watchedBy(test.d)); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
	for _, pair := range [][2][]string{{nil, {"a"}}, {{"a"}, nil}, {{"a", "b"}, {"b"}}} {
		if !overlap(pair[0], pair[1]) {
			t.Errorf("%v do not overlap", pair)
		}
	}
	if overlap([]string{"a"}, []string{"b"}) {
		t.Error("a and b overlap")
	}
}

func TestWhoWroteAField(t *testing.T) {
	entry := func(manager string, at int64, fields string) metav1.ManagedFieldsEntry {
		when := metav1.Unix(at, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &when, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry("injector", 20, `{"f:spec":{"f:caBundle":{}}}`),
		entry("kubectl", 10, `{"f:spec":{"f:caBundle":{},"f:service":{"f:name":{}}}}`),
	}}}
	for field, want := range map[string]string{"f:caBundle": "injector", "f:service": "kubectl", "f:version": ""} {
		if got := writerOf(service, field); got != want {
			t.Errorf("%s was written by %q, want %q", field, got, want)
		}
	}
}

// All objects that the operator creates are found again, whatever their name.
func TestChildResources(t *testing.T) {
	var got []string
	for _, r := range ChildResources() {
		got = append(got, r.String())
	}
	want := []string{
		"deployments.apps", "httproutes.gateway.networking.k8s.io", "ingresses.networking.k8s.io", "jobs.batch",
		"networkpolicies.networking.k8s.io", "persistentvolumeclaims", "poddisruptionbudgets.policy", "pods",
		"rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io", "secrets", "serviceaccounts",
		"servicemonitors.monitoring.coreos.com", "services",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
