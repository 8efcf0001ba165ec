package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const operatorNamespace = "coder-system"

// install applies the RBAC and the policy that users apply, once, so that the program has the
// same permissions as in a cluster.
var install = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}
	if err := environment.client.Create(ctx, ns); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	objects, err := kubetest.Installation(ctx, "default")
	if err != nil {
		return err
	}
	for _, object := range objects {
		if !isRightOrAuthorPolicy(object) {
			continue
		}
		if err := environment.client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("making %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return authorsAreRecorded(ctx)
})

// isRightOrAuthorPolicy reports whether an object grants permissions, holds the certificate of the metrics, or belongs to
// the policies that record the author of spec.rbac.
func isRightOrAuthorPolicy(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "Secret":
		return true
	}
	return strings.Contains(object.GetKind(), "AdmissionPolicy") && object.GetName() == author.PolicyName
}

// authorsAreRecorded waits until the policies are in force, which takes a moment. The one that records
// the author leaves that of the operator's probe to the one that denies forged authors.
func authorsAreRecorded(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		trial := controlPlane("default", "trial", nil)
		err := environment.client.Create(ctx, trial, client.DryRunAll)
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || trial.Annotations[coderv1alpha1.AnnotationRBACAuthor] == "" {
			return false, nil
		}
		probe := controlPlane("default", "trial", nil)
		probe.Annotations = map[string]string{coderv1alpha1.AnnotationRBACAuthor: "coder-k8s:policy-probe"}
		return apierrors.IsForbidden(environment.client.Create(ctx, probe, client.DryRunAll)), nil
	})
}

// operatorConfig returns the client configuration of ServiceAccount coder-k8s.
func operatorConfig(t *testing.T) *rest.Config {
	t.Helper()
	if err := install(); err != nil {
		t.Fatalf("installing the RBAC: %v", err)
	}
	return serviceAccountConfig(t, operatorNamespace, "coder-k8s")
}

// serviceAccountConfig returns the client configuration of a ServiceAccount, which it creates
// if it does not exist.
func serviceAccountConfig(t *testing.T, ns, name string) *rest.Config {
	t.Helper()
	config := rest.AnonymousClientConfig(environment.config)
	config.BearerToken = serviceAccountToken(t, ns, name, "")
	config.QPS = -1
	return config
}

// serviceAccountToken requests a token for an audience; "" means that of kube-apiserver.
func serviceAccountToken(t *testing.T, ns, name, audience string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	if err := environment.client.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(environment.config)
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	answer, err := clientset.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking for a token of %s/%s: %v", ns, name, err)
	}
	return answer.Status.Token
}

// grant binds a ClusterRole to a ServiceAccount in a namespace.
func grant(t *testing.T, ns, role, account string) {
	t.Helper()
	err := environment.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// serve configures kube-apiserver to forward the aggregated group to a program on this
// machine, and waits until it does.
func serve(t *testing.T, p *process) {
	t.Helper()
	port, err := strconv.Atoi(p.apiPort)
	if err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "coder-k8s-apiserver"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if err := environment.client.Create(t.Context(), service); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	const name = "v1alpha1.aggregation.coder.com"
	spec := apiregistrationv1.APIServiceSpec{
		Group: "aggregation.coder.com", Version: "v1alpha1", GroupPriorityMinimum: 1000, VersionPriority: 100,
		Service: &apiregistrationv1.ServiceReference{Namespace: operatorNamespace, Name: service.Name, Port: ptr.To(int32(port))},
	}
	polltest.Eventually(t, "the APIService names this program", func(ctx context.Context) error {
		registration := &apiregistrationv1.APIService{}
		err := environment.client.Get(ctx, client.ObjectKey{Name: name}, registration)
		if apierrors.IsNotFound(err) {
			registration.Name, registration.Spec = name, spec
			return environment.client.Create(ctx, registration)
		}
		if err != nil {
			return err
		}
		registration.Spec.Service = spec.Service
		return environment.client.Update(ctx, registration)
	})
	polltest.Eventually(t, "the APIService is available", func(ctx context.Context) error {
		registration := &apiregistrationv1.APIService{}
		if err := environment.client.Get(ctx, client.ObjectKey{Name: name}, registration); err != nil {
			return err
		}
		for _, c := range registration.Status.Conditions {
			if c.Type == apiregistrationv1.Available && c.Status == apiregistrationv1.ConditionTrue {
				// The condition may be about the previous program, so send a request.
				return environment.client.List(ctx, &unstructured.UnstructuredList{Object: map[string]any{
					"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspaceList",
				}}, client.InNamespace("default"))
			}
		}
		return fmt.Errorf("its conditions are %v", registration.Status.Conditions)
	})
}

// makeAvailable sets the status of a control plane's Deployment as a cluster with nodes would.
func makeAvailable(t *testing.T, ns, name string) {
	t.Helper()
	polltest.Eventually(t, "the Deployment can be made available", func(ctx context.Context) error {
		deployment := &appsv1.Deployment{}
		if err := environment.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, deployment); err != nil {
			return err
		}
		deployment.Status = rolledOut(deployment)
		return environment.client.Status().Update(ctx, deployment)
	})
}

// waitCondition waits until a condition of a control plane has a status, and a reason if it is
// not empty.
func waitCondition(t *testing.T, ns, name, conditionType string, status metav1.ConditionStatus, reason string) *coderv1alpha1.CoderControlPlane {
	t.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	polltest.Eventually(t, strings.Join([]string{ns, name, conditionType, string(status), reason}, " "), func(ctx context.Context) error {
		if err := environment.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, cp); err != nil {
			return err
		}
		c := meta.FindStatusCondition(cp.Status.Conditions, conditionType)
		if c == nil || c.Status != status || (reason != "" && c.Reason != reason) {
			return fmt.Errorf("the conditions are %+v", cp.Status.Conditions)
		}
		return nil
	})
	return cp
}
