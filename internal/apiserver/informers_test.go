package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// The library's own checks look at the informers.
func TestHealthOfTheAPI(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/readyz/informer-sync"} {
		polltest.Eventually(t, path, func() error {
			if got := f.do(t, http.MethodGet, path, nil, ""); got.status != http.StatusOK {
				return fmt.Errorf("%d %s", got.status, got.body)
			}
			return nil
		})
	}
}

// TestAPolicyReadsItsParameters checks that a ValidatingAdmissionPolicy whose parameters are in a ConfigMap rejects templates,
// until another parameter allows them.
func TestAPolicyReadsItsParameters(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	limits := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "limits", "namespace": "policies"},
		"data": map[string]any{"suffix": "allowed"},
	}}
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	s.untyped = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		certificates.APIServices: "APIServiceList", mirrorStates: "CoderMirrorStateList",
		configMaps: "ConfigMapList",
	}, limits)
	s.kube.Resources = []*metav1.APIResourceList{{
		GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Namespaced: true, Kind: "ConfigMap"}},
	}}
	add := func(object runtime.Object) {
		if err := s.kube.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	add(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: "policies"}, Data: map[string]string{"suffix": "allowed"},
	})
	fail, equivalent, missing := admissionv1.Fail, admissionv1.Equivalent, admissionv1.DenyAction
	everything := &metav1.LabelSelector{}
	add(&admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "names", Generation: 1},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail, ParamKind: &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: &admissionv1.MatchResources{
				MatchPolicy: &equivalent, NamespaceSelector: everything, ObjectSelector: everything,
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{
						APIGroups: []string{"aggregation.coder.com"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"codertemplates"},
					},
				}}},
			},
			Validations: []admissionv1.Validation{{
				Expression:        "object.metadata.name.endsWith(params.data.suffix)",
				MessageExpression: "'must end with ' + params.data.suffix",
			}},
		},
	})
	add(&admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "names"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "names", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			ParamRef: &admissionv1.ParamRef{Name: "limits", Namespace: "policies", ParameterNotFoundAction: &missing},
		},
	})
	s.start(t)
	f := join(t, s)

	create := func(name string) error {
		_, err := f.tmpl().Create(t.Context(), templateObject(name, files("# one")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	polltest.Eventually(t, "the policy rejects a template", func() error {
		if err := create("coder.docker"); err == nil || !strings.Contains(err.Error(), "must end with allowed") {
			return errors.Join(errors.New("the template was not rejected with the message of the policy"), err)
		}
		return nil
	})
	if err := create("coder.docker-allowed"); err != nil {
		t.Errorf("a template that the parameters allow: %v", err)
	}
	limits.Object["data"] = map[string]any{"suffix": "docker"}
	if _, err := s.untyped.Resource(configMaps).Namespace("policies").Update(t.Context(), limits, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the policy has the new parameters", func() error { return create("coder.docker") })
}
