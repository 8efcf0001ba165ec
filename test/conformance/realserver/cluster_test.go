//go:build conformance

package realserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const operatorNamespace = "coder-system"

// cluster is a real etcd and kube-apiserver, without nodes and controllers.
type cluster struct {
	config *rest.Config // An administrator.
	client client.Client
}

// startCluster starts a cluster with the CRDs and the roles that users apply.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	setting(t, "KUBEBUILDER_ASSETS") // The library reads it.
	ctrl.SetLogger(logr.Discard())
	server := kubetest.Environment("../../../charts/coder-k8s/files/crds")
	configureAggregation(t, server.ControlPlane.GetAPIServer())
	config, err := server.Start()
	// If kube-apiserver fails to start, etcd may be running.
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping kube-apiserver: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("starting etcd and kube-apiserver: %v", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{config: config}
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}})
	c.applyRoles(t)
	return c
}

// configureAggregation configures the self-signed client certificate with which
// kube-apiserver forwards requests to an aggregated API.
func configureAggregation(t *testing.T, server *envtest.APIServer) {
	t.Helper()
	const name = "front-proxy"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile := writeFile(t, "front-proxy.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
	keyFile := writeFile(t, "front-proxy.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
	server.Configure().
		Set("requestheader-client-ca-file", certFile).
		Set("requestheader-allowed-names", name).
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		Set("proxy-client-cert-file", certFile).
		Set("proxy-client-key-file", keyFile)
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// applyRoles creates the operator's ServiceAccount, its roles and their bindings.
func (c *cluster) applyRoles(t *testing.T) {
	t.Helper()
	objects, err := kubetest.Installation(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "Secret":
			c.create(t, object)
		}
	}
}

func (c *cluster) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.client.Create(t.Context(), object); err != nil {
		t.Fatalf("making %T %s: %v", object, object.GetName(), err)
	}
}

// createServed creates an object of the aggregated API. It retries, because the API
// sees a new control plane with a delay, and kube-apiserver may not reach the API for
// a moment.
func (c *cluster) createServed(t *testing.T, object client.Object) {
	t.Helper()
	polltest.Eventually(t, "the aggregated API makes "+object.GetName(), func() error {
		// If the response was lost, the object exists already.
		return client.IgnoreAlreadyExists(c.client.Create(t.Context(), object))
	})
}

// token returns a token of a ServiceAccount for an audience; "" means that of
// kube-apiserver.
func (c *cluster) token(t *testing.T, ns, name, audience string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	if err := c.client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatalf("asking for a token of %s/%s: %v", ns, name, err)
	}
	return request.Status.Token
}

// bind grants a ServiceAccount some roles in the whole cluster.
func (c *cluster) bind(t *testing.T, ns, account string, roles ...string) {
	t.Helper()
	for _, role := range roles {
		c.create(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
		})
	}
}

// aggregate configures kube-apiserver to forward the aggregated API to a port of this
// machine, and waits until it does.
func (c *cluster) aggregate(t *testing.T, port string) {
	t.Helper()
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "coder-k8s-apiserver"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	c.create(t, service)
	version := aggregationv1alpha1.GroupVersion
	c.create(t, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version.Version + "." + version.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: version.Group, Version: version.Version, GroupPriorityMinimum: 1000, VersionPriority: 100,
			Service: &apiregistrationv1.ServiceReference{Namespace: service.Namespace, Name: service.Name, Port: ptr.To(int32(number))},
		},
	})
	polltest.Eventually(t, "the aggregated API answers", func() error {
		return c.client.List(t.Context(), &aggregationv1alpha1.CoderWorkspaceList{})
	})
}
