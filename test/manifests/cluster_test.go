package manifests

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/app"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// environment is the API server of all tests, and the rendered installations.
var environment struct {
	config        *rest.Config
	client        client.Client
	installations map[string]rendering
}

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: the tests of the manifests are skipped; make test runs them")
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	server := kubetest.Environment(chartDir + "/files/crds")
	config, err := server.Start()
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping kube-apiserver:", err)
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting etcd and kube-apiserver with our definitions:", err)
		return 1
	}
	if environment.installations, err = renderAll(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config.QPS = -1
	environment.config = config
	if environment.client, err = newClient(config); err != nil {
		fmt.Fprintln(os.Stderr, "making a client:", err)
		return 1
	}
	return m.Run()
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// ensureNamespaces creates the namespaces of the objects, with their labels.
func ensureNamespaces(t *testing.T, objects rendering) {
	t.Helper()
	for _, object := range objects {
		if name := object.GetNamespace(); name != "" && name != operatorNamespace {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := environment.client.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
				t.Fatal(err)
			}
		}
	}
	for _, namespace := range ofKind[corev1.Namespace](t, objects, "Namespace") {
		// The first installation, in any order, creates it for all. The level of one with pods in
		// the node's network would apply to the others; TestPodSecurity compares the level of each.
		namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
		if err := environment.client.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

// TestKubeAPIServerTakesIt checks that no object has an unknown field, or an invalid value.
func TestKubeAPIServerTakesIt(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		ensureNamespaces(t, objects)
		for _, object := range objects {
			switch group, _, _ := strings.Cut(object.GetAPIVersion(), "/"); group {
			case "cert-manager.io", "monitoring.coreos.com":
				continue // Not known here. test/peers/certmanager.sh applies the former.
			}
			err := environment.client.Create(t.Context(), object.DeepCopy(),
				client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if client.IgnoreAlreadyExists(err) != nil {
				t.Errorf("%s: %v", describe(object), err)
			}
		}
	})
}

// podOf returns a pod of a Deployment, as its controller would create it.
func podOf(deployment *appsv1.Deployment) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: deployment.Name, Labels: deployment.Spec.Template.Labels},
		Spec:       *deployment.Spec.Template.Spec.DeepCopy(),
	}
	// Only the level privileged allows this, which namespaceLevel checks; the rest of the pod must
	// still be restricted.
	pod.Spec.HostNetwork, pod.Spec.DNSPolicy = false, ""
	// The ServiceAccount and the PriorityClass do not exist in a dry run.
	pod.Spec.ServiceAccountName, pod.Spec.PriorityClassName = "", ""
	return pod
}

// namespaceLevel checks the level of Pod Security in the operator's namespace: restricted, unless a
// pod uses the network of its node.
func namespaceLevel(t *testing.T, objects rendering) {
	t.Helper()
	want := "restricted"
	for _, deployment := range deployments(t, objects) {
		if deployment.Spec.Template.Spec.HostNetwork {
			want = "privileged"
		}
	}
	for _, namespace := range ofKind[corev1.Namespace](t, objects, "Namespace") {
		if level := namespace.Labels["pod-security.kubernetes.io/enforce"]; level != want {
			t.Errorf("namespace %s enforces %q, not %s", namespace.Name, level, want)
		}
	}
}

// TestPodSecurity checks that Pod Security admits the pods to the operator's namespace, whose level
// is restricted.
func TestPodSecurity(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		namespaceLevel(t, objects)
		ensureNamespaces(t, objects)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "default"}}
		if err := environment.client.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		for _, deployment := range deployments(t, objects) {
			if err := environment.client.Create(t.Context(), podOf(deployment), client.DryRunAll); err != nil {
				t.Errorf("%s: %v", deployment.Name, err)
			}
			loose := podOf(deployment)
			loose.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
			if err := environment.client.Create(t.Context(), loose, client.DryRunAll); !apierrors.IsForbidden(err) {
				t.Errorf("%s: a pod that is not restricted is let in: %v", deployment.Name, err)
			}
			for _, container := range deployment.Spec.Template.Spec.Containers {
				if security := container.SecurityContext; security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
					t.Errorf("%s may write to its own image", deployment.Name)
				}
			}
		}
	})
}

// TestProgramTakesTheArguments checks that the program accepts the arguments of each Deployment,
// and serves the container's ports.
func TestProgramTakesTheArguments(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		for _, deployment := range deployments(t, objects) {
			options := app.NewOptions()
			sections := options.FlagSets()
			given := map[string]bool{}
			for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
				flag, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				given[flag] = true
				known := false
				for _, set := range sections.FlagSets {
					if set.Lookup(flag) != nil {
						known = true
						if err := set.Set(flag, value); err != nil {
							t.Errorf("%s: %s: %v", deployment.Name, arg, err)
						}
					}
				}
				if !known {
					t.Errorf("%s: the program has no flag --%s", deployment.Name, flag)
				}
			}
			if err := options.Validate(func(flag string) bool { return given[flag] }); err != nil {
				t.Errorf("%s: %v", deployment.Name, err)
			}
		}
	})
}

// TestTokenSecrets checks that the operator can create Secrets, but not token Secrets of other
// ServiceAccounts.
func TestTokenSecrets(t *testing.T) {
	objects := environment.installations["default"]
	ensureNamespaces(t, objects)
	for _, object := range objects {
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole", "ClusterRoleBinding":
			if err := environment.client.Create(t.Context(), object.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: program}}
	if err := environment.client.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(environment.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + operatorNamespace + ":" + program,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace, "system:authenticated"},
	}
	operator, err := newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(as client.Client, kind corev1.SecretType) error {
		return as.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: operatorNamespace, GenerateName: "test-",
				Annotations: map[string]string{corev1.ServiceAccountNameKey: program},
			},
			Type: kind,
		}, client.DryRunAll)
	}
	// kube-apiserver applies a policy after a moment, and also the operator's permissions, without
	// which the request is refused for another reason.
	polltest.Eventually(t, "the operator is refused a Secret with the token of an account", func() error {
		err := create(operator, corev1.SecretTypeServiceAccountToken)
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "creates no Secret that holds the token") {
			return nil
		}
		return fmt.Errorf("the answer is %w", err)
	})
	if err := create(operator, corev1.SecretTypeOpaque); err != nil {
		t.Errorf("another Secret: %v", err)
	}
	if err := create(environment.client, corev1.SecretTypeServiceAccountToken); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}
