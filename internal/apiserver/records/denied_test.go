package records

import (
	"context"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// denials are the codes with which the webhook of the test denies the records of these names.
var denials = map[string]int32{"forbidden": 403, "conflict": 409, "absent": 404, "later": 503, "many": 429, "unauthorized": 401}

// webhook is an admission webhook that denies the records of denials.
func webhook(w http.ResponseWriter, r *http.Request) {
	review := admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if code, denied := denials[review.Request.Name]; denied {
		response.Allowed = false
		response.Result = &metav1.Status{Code: code, Message: "not here", Reason: map[int32]metav1.StatusReason{
			404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict,
		}[code]}
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// probe creates and deletes a record.
func probe(ctx context.Context, s *Store, namespace, name string) error {
	record := &Record{Namespace: namespace, Name: name}
	if err := s.config.Cluster.Create(ctx, record); err != nil {
		return err
	}
	return s.config.Cluster.Delete(ctx, namespace, name, record.Revision)
}

// deny makes kube-apiserver ask the webhook, and deny the record "policy" because of a policy, until the test ends.
func deny(t *testing.T, s *Store) {
	t.Helper()
	client, err := kubernetes.NewForConfig(environment(t).Config)
	must := func(err error) {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	must(err)
	ctx, admission := t.Context(), client.AdmissionregistrationV1()
	for _, name := range []string{"team", heartbeats} {
		_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(webhook))
	t.Cleanup(server.Close)
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"internal.coder.com"}, APIVersions: []string{"*"}, Resources: []string{"coderworkspacerecords"},
		},
	}
	meta := metav1.ObjectMeta{Name: "deny.example.com"}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	_, err = admission.ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: meta.Name, Rules: []admissionregistrationv1.RuleWithOperations{rule}, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: certificate},
			SideEffects:  ptr.To(admissionregistrationv1.SideEffectClassNone),
		}},
	}, metav1.CreateOptions{})
	must(err)
	_, err = admission.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: `request.name != "policy"`, Message: "not here", Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}, metav1.CreateOptions{})
	must(err)
	_, err = admission.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: meta.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	must(err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		_ = admission.ValidatingWebhookConfigurations().Delete(ctx, meta.Name, metav1.DeleteOptions{})
		_ = admission.ValidatingAdmissionPolicyBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{})
		_ = admission.ValidatingAdmissionPolicies().Delete(ctx, meta.Name, metav1.DeleteOptions{})
		// A policy reads the namespace, and other tests use namespaces that do not exist.
		for _, name := range []string{"policy", "forbidden"} {
			polltest.Eventually(t, name+" is not denied any more", func() error { return probe(ctx, s, "no-namespace", name) })
		}
	})
	// The policies take effect with a delay.
	for _, name := range []string{"policy", "forbidden"} {
		polltest.Eventually(t, name+" is denied", func() error {
			if err := probe(ctx, s, "team", name); !apierrors.IsForbidden(err) {
				return fmt.Errorf("it ends with %w", err)
			}
			return nil
		})
	}
}

// TestDeniedRecords checks with a real kube-apiserver that records which an admission policy or an admission
// webhook denies, with any code, do not affect the other records of their batch.
func TestDeniedRecords(t *testing.T) {
	s := newRaw(t)
	deny(t, s)
	denied := []string{"policy"}
	for name := range denials {
		denied = append(denied, name)
	}
	var proposals []Proposal
	for _, name := range append([]string{"one", "two"}, denied...) {
		object := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		proposals = append(proposals, Proposal{Key: podPrefix + "team/" + name, Object: object})
	}
	var unwritten *UnwrittenError
	if err := s.Propose(t.Context(), proposals...); !errors.As(err, &unwritten) {
		t.Fatalf("the batch ends with %v", err)
	}
	for _, name := range denied {
		err := unwritten.Reasons[podPrefix+"team/"+name]
		if !IsRefused(err) || !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "not here") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(unwritten.Reasons) != len(denied) || s.Table.Get(podPrefix+"team/one") == nil || s.Table.Get(podPrefix+"team/two") == nil {
		t.Errorf("not written: %v", unwritten)
	}
}

// TestADeniedDeletion checks that a record whose deletion a webhook denies with 404 stays known.
func TestADeniedDeletion(t *testing.T) {
	denied := apierrors.NewNotFound(schema.GroupResource{}, "a")
	denied.ErrStatus.Message = `admission webhook "w" denied the request: not here`
	if isAbsent(denied) || isOutdated(denied, 1) || !IsRefused(failed(t.Context(), "removing a", denied)) {
		t.Error("the record counts as absent")
	}
}
