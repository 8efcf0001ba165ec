package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestPolicies checks that a policy and a webhook of the cluster apply to workspaces
// as to any object, in create, patch and dry run, before any request to Coder.
func TestPolicies(t *testing.T) {
	_, ns, coder, _ := coderServed(t)
	polltest.Eventually(t, "a workspace is made", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(environment.client.Create(ctx, workspaceOf(ns, "coder.admin.one", "hello")))
	})
	policy(t, ns)
	webhook(t, ns)
	for message, content := range map[string]string{
		"a workspace may run for a day at most": `{"spec":{"ttlMillis":172800000}}`,
		"the webhook does not like this label":  `{"metadata":{"labels":{"liked":"no"}}}`,
	} {
		t.Run(message, func(t *testing.T) {
			new := workspaceOf(ns, "coder.admin."+strings.ReplaceAll(uuid.NewString()[:8], "-", ""), "hello")
			if err := json.Unmarshal([]byte(content), new); err != nil {
				t.Fatal(err)
			}
			// A new policy takes effect after a moment.
			polltest.Eventually(t, "a dry run is refused", func(ctx context.Context) error {
				return refused(environment.client.Create(ctx, new.DeepCopy(), client.DryRunAll), message)
			})
			writes := coder.Writes()
			if err := refused(environment.client.Create(t.Context(), new.DeepCopy()), message); err != nil {
				t.Error(err)
			}
			ws := workspaceOf(ns, "coder.admin.one", "")
			if err := refused(environment.client.Patch(t.Context(), ws, client.RawPatch(types.MergePatchType, []byte(content))), message); err != nil {
				t.Error(err)
			}
			if now := coder.Writes(); now != writes {
				t.Errorf("Coder was told %d times of what was refused", now-writes)
			}
		})
	}
	ws := workspaceOf(ns, "coder.admin.one", "")
	allowed := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liked":"yes"}},"spec":{"ttlMillis":7200000}}`))
	if err := environment.client.Patch(t.Context(), ws, allowed); err != nil {
		t.Errorf("what nobody objects to is refused: %v", err)
	}
}

func refused(err error, message string) error {
	if err == nil {
		return fmt.Errorf("it was taken, want a refusal with %q", message)
	}
	if !strings.Contains(err.Error(), message) || !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("not a refusal with %q: %w", message, err)
	}
	return nil
}

// policy creates a ValidatingAdmissionPolicy for the workspaces of a namespace.
func policy(t *testing.T, ns string) {
	t.Helper()
	made := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: onlyIn(ns),
				ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: workspaceWrites()}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "!has(object.spec.ttlMillis) || object.spec.ttlMillis <= 86400000",
				Message:    "a workspace may run for a day at most",
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	clusterWide(t, made, binding)
}

// webhook serves a validating webhook for them, and registers it.
func webhook(t *testing.T, ns string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		object := &metav1.PartialObjectMetadata{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil || json.Unmarshal(review.Request.Object.Raw, object) != nil {
			http.Error(w, "not understood", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: object.Labels["liked"] != "no"}
		if !review.Response.Allowed {
			review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Message: "the webhook does not like this label"}
		}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	clusterWide(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "workspaces.example.com", AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: onlyIn(ns), TimeoutSeconds: ptr.To[int32](30),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), Rules: []admissionregistrationv1.RuleWithOperations{workspaceWrites()},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      ptr.To(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
		}},
	})
}

func onlyIn(ns string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}}
}

func workspaceWrites() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"aggregation.coder.com"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"coderworkspaces"},
		},
	}
}

// clusterWide creates objects that are deleted after the test.
func clusterWide(t *testing.T, objects ...client.Object) {
	t.Helper()
	create(t, objects...)
	t.Cleanup(func() {
		for _, object := range objects {
			if err := environment.client.Delete(context.Background(), object); err != nil {
				t.Errorf("removing %s: %v", object.GetName(), err)
			}
		}
	})
}

// TestATenantGetsNoRightsThroughTheOperator: a tenant who may create control planes,
// Roles and RoleBindings requests a Role that reads Secrets. A change of another field
// by an administrator does not grant it; a change of spec.rbac by an administrator
// does.
func TestATenantGetsNoRightsThroughTheOperator(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	startOperator(t, "--app=controller", "--leader-elect=false", "--watch-namespaces="+ns)
	const tenant = "mallory"
	create(t,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: tenant}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coder.com"}, Resources: []string{"codercontrolplanes"}, Verbs: []string{"*"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: tenant},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: tenant},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenant}},
		})
	config := rest.CopyConfig(environment.config)
	config.Impersonate.UserName = tenant
	cp := controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
		withDatabase(cp)
		cp.Annotations = map[string]string{coderv1alpha1.AnnotationRBACAuthor: "boss\nsystem:masters"}
		cp.Spec.RBAC.ExtraRules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	})
	if err := as(t, config).Create(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		is(t, cp, coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionFalse, coderv1alpha1.ReasonAuthorForbidden)
		roles := &rbacv1.RoleList{}
		if err := environment.client.List(t.Context(), roles, client.InNamespace(ns)); err != nil || len(roles.Items) != 1 {
			t.Errorf("the Roles are %+v, error %v: only the tenant's own should be there", roles.Items, err)
		}
	}
	refused()
	patch := func(content string) {
		t.Helper()
		if err := environment.client.Patch(t.Context(), cp, client.RawPatch("application/merge-patch+json", []byte(content))); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"spec":{"replicas":2}}`)
	if author := cp.Annotations[coderv1alpha1.AnnotationRBACAuthor]; !strings.HasPrefix(author, tenant+"\n") || ptr.Deref(cp.Spec.Replicas, 0) != 2 {
		t.Errorf("after a change of an administrator the author is %q", author)
	}
	refused()
	patch(`{"metadata":{"annotations":{"coder.com/rbac-author":"me"}}}`)
	is(t, cp, coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionTrue, coderv1alpha1.ReasonGranted)
}
