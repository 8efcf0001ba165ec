package admission

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// imitation is what the policy says when it denies a forged author.
const imitation = "ValidatingAdmissionPolicy '" + author.PolicyName + "' with binding '" + author.PolicyName +
	"' denied request: the annotation coder.com/rbac-author names the user"

// TestNothingElsePassesForThePolicy checks that a forged author is refused if the policy is not in
// force in the namespace of the control plane, whatever else denies the probe. The control plane has
// the name of the policy, and its annotations are as long as possible, so kube-apiserver rejects a
// longer author with an error that contains this name. If the policy is in force, it is recognized.
func TestNothingElsePassesForThePolicy(t *testing.T) {
	for _, test := range []struct {
		name string
		// set makes something deny the probe, and returns a part of that denial.
		set func(t *testing.T, ns string) string
		// hides is true if it may also hide that the policy is in force.
		hides bool
	}{
		{name: "nothing denies it"},
		{name: "a full quota with the name of the policy", set: fullQuota},
		{name: "a webhook that says what the policy says", set: denyingWebhook},
		{name: "a policy that says what the policy says", set: denyingPolicy, hides: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := forgedIn(t, noPolicies(t).GetNamespace())
			ns := o.GetNamespace()
			says := "is not in force there"
			if test.set != nil {
				says = test.set(t, ns)
				polltest.Eventually(t, "it denies control planes", func() error {
					err := environment.client.Create(t.Context(), object(t, controlPlane, ns, "denied", "{}"), client.DryRunAll)
					if err == nil || !strings.Contains(err.Error(), says) {
						return fmt.Errorf("not a denial that says %q: %w", says, err)
					}
					return nil
				})
			}
			unknown(t, o, says)
			if test.hides {
				return
			}
			apply(t, "", nil)
			polltest.Eventually(t, "the policy is recognized", func() error { return check(t, o) })
		})
	}
}

// TestThePolicyMustBeInForceInTheNamespace: a policy that does not apply to the namespace of a
// control plane, or only warns, does not protect its author.
func TestThePolicyMustBeInForceInTheNamespace(t *testing.T) {
	t.Run("in another namespace", func(t *testing.T) {
		o := forgedIn(t, noPolicies(t).GetNamespace())
		other := forgedIn(t, namespace(t))
		selector := map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: other.GetNamespace()}}
		apply(t, "", func(policy *unstructured.Unstructured) {
			if policy.GetName() == author.PolicyName && strings.HasSuffix(policy.GetKind(), "Binding") {
				set(t, policy, selector, "spec", "matchResources", "namespaceSelector")
			}
		})
		polltest.Eventually(t, "the policy is in force in the other namespace", func() error { return check(t, other) })
		unknown(t, o, "is not in force there")
	})
	t.Run("only warns", func(t *testing.T) {
		o := forgedIn(t, noPolicies(t).GetNamespace())
		apply(t, "Mutating", func(policy *unstructured.Unstructured) {
			if policy.GetName() == author.PolicyName && strings.HasSuffix(policy.GetKind(), "Binding") {
				set(t, policy, []any{"Warn", "Audit"}, "spec", "validationActions")
			}
		})
		var warnings heard
		config := *environment.config
		config.WarningHandler = &warnings
		warned, err := client.New(&config, client.Options{Scheme: environment.client.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		polltest.Eventually(t, "the policy warns", func() error {
			trial := object(t, controlPlane, o.GetNamespace(), "warned", "{}")
			trial.SetAnnotations(o.GetAnnotations())
			if err := warned.Create(t.Context(), trial, client.DryRunAll); err != nil || !strings.Contains(strings.Join(warnings, ""), "names the user") {
				return fmt.Errorf("the warnings are %q, error %w", warnings, err)
			}
			return nil
		})
		unknown(t, o, "is not in force there")
	})
	t.Run("until it is deleted", func(t *testing.T) {
		o := forgedIn(t, noPolicies(t).GetNamespace())
		var binding *unstructured.Unstructured
		apply(t, "", func(policy *unstructured.Unstructured) {
			if policy.GetName() == author.PolicyName && policy.GetKind() == "ValidatingAdmissionPolicyBinding" {
				binding = policy
			}
		})
		polltest.Eventually(t, "the policy is in force", func() error { return check(t, o) })
		if err := environment.client.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		polltest.Eventually(t, "the policy is no longer in force", func() error {
			var refused *author.RefusedError
			if err := check(t, o); !errors.As(err, &refused) || !refused.Unknown {
				return fmt.Errorf("the answer is %w, not that the author is unknown", err)
			}
			return nil
		})
	})
}

// TestOnlyTheOperatorWritesRecords checks that the policy covers each kind of the internal group.
func TestOnlyTheOperatorWritesRecords(t *testing.T) {
	policies(t, "")
	ns := namespace(t)
	kinds := 0
	for kind, definition := range definitions(t) {
		if definition.Spec.Group != "internal.coder.com" {
			continue
		}
		kinds++
		spec := "{}"
		if kind == "CoderMirrorState" {
			spec = "{state: Ready}"
		}
		o := object(t, kind, ns, "coder.ada.dev", spec)
		o.SetAPIVersion("internal.coder.com/v1alpha1")
		polltest.Eventually(t, kind+" is refused", func() error {
			err := environment.client.Create(t.Context(), o.DeepCopy(), client.DryRunAll)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only the operator writes records") {
				return fmt.Errorf("the answer is %w", err)
			}
			return nil
		})
	}
	if kinds < 5 {
		t.Errorf("%d kinds of the internal group were found", kinds)
	}
}

// forgedIn creates a control plane that names an administrator as its author.
func forgedIn(t *testing.T, ns string) *unstructured.Unstructured {
	t.Helper()
	const key, limit = "example.com/padding", 256 << 10
	o := object(t, controlPlane, ns, author.PolicyName, "{}")
	annotations := map[string]string{coderv1alpha1.AnnotationRBACAuthor: "boss\nsystem:masters"}
	used := len(key) + len(coderv1alpha1.AnnotationRBACAuthor) + len(annotations[coderv1alpha1.AnnotationRBACAuthor])
	annotations[key] = strings.Repeat("x", limit-used)
	o.SetAnnotations(annotations)
	if err := environment.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func check(t *testing.T, o *unstructured.Unstructured) error {
	return author.Checker{Client: environment.client}.Check(t.Context(), o, grantOf(t, o, o.GetNamespace()))
}

// unknown checks that the author of o counts as unknown.
func unknown(t *testing.T, o *unstructured.Unstructured, says string) {
	t.Helper()
	var refused *author.RefusedError
	if err := check(t, o); !errors.As(err, &refused) || !refused.Unknown || !strings.Contains(err.Error(), says) || len(err.Error()) > 2000 {
		t.Errorf("the answer is %v, not that the author is unknown because %q", err, says)
	}
}

func set(t *testing.T, o *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// fullQuota makes a quota deny each further control plane of a namespace.
func fullQuota(t *testing.T, ns string) string {
	t.Helper()
	one := corev1.ResourceList{"count/codercontrolplanes.coder.com": resource.MustParse("1")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: author.PolicyName}, Spec: corev1.ResourceQuotaSpec{Hard: one}}
	untilEnd(t, quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: one, Used: one}
	if err := environment.client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	return "exceeded quota: " + author.PolicyName
}

// denyingPolicy makes another policy deny each control plane of a namespace.
func denyingPolicy(t *testing.T, ns string) string {
	t.Helper()
	untilEnd(t, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
				ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: creations()}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: imitation, Reason: ptr.To(metav1.StatusReasonForbidden)}},
		},
	})
	untilEnd(t, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	return "ValidatingAdmissionPolicy '" + ns + "'"
}

// denyingWebhook makes a webhook deny each control plane of a namespace.
func denyingWebhook(t *testing.T, ns string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, "not understood", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
			Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: imitation,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: imitation}}},
		}}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	untilEnd(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "denies.example.com", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](30),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			SideEffects:       ptr.To(admissionregistrationv1.SideEffectClassNone), Rules: []admissionregistrationv1.RuleWithOperations{creations()},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      ptr.To(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
		}},
	})
	return `admission webhook "denies.example.com" denied the request`
}

func creations() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"coder.com"}, APIVersions: []string{"*"}, Resources: []string{"codercontrolplanes"}},
	}
}
