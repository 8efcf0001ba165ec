package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// configureAggregation configures kube-apiserver to forward requests to an
// aggregated API: a client certificate, its CA, and the names of the headers
// with the caller's identity.
func configureAggregation(server *envtest.APIServer, dir string) error {
	caFile := filepath.Join(dir, "front-proxy-ca.crt")
	certFile, keyFile := filepath.Join(dir, "front-proxy.crt"), filepath.Join(dir, "front-proxy.key")
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "front-proxy-ca"}, caKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "front-proxy-client"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotBefore.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for file, block := range map[string]*pem.Block{
		caFile:   {Type: "CERTIFICATE", Bytes: ca.Raw},
		certFile: {Type: "CERTIFICATE", Bytes: leaf},
		keyFile:  {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	server.Configure().
		Set("requestheader-client-ca-file", caFile).
		Set("requestheader-allowed-names", "front-proxy-client").
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		Set("proxy-client-cert-file", certFile).
		Set("proxy-client-key-file", keyFile)
	return nil
}

// restList lists the workspaces of a namespace with one request, without the
// retries of client-go.
func restList(ctx context.Context, config *rest.Config, ns string) error {
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	return c.RESTClient().Get().AbsPath(workspacesPath(ns)).MaxRetries(0).Do(ctx).Error()
}

// restWatch watches the workspaces of a namespace, or of all namespaces if ns is
// empty, for a second.
func restWatch(ctx context.Context, config *rest.Config, ns string) error {
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	stream, err := c.RESTClient().Get().AbsPath(workspacesPath(ns)).Param("watch", "1").Param("timeoutSeconds", "1").MaxRetries(0).Stream(ctx)
	if err != nil {
		return err
	}
	return stream.Close()
}

func workspacesPath(ns string) string {
	if ns == "" {
		return "/apis/aggregation.coder.com/v1alpha1/coderworkspaces"
	}
	return "/apis/aggregation.coder.com/v1alpha1/namespaces/" + ns + "/coderworkspaces"
}

// setHeaders adds headers to each request, as an attacker would who impersonates
// kube-apiserver.
func setHeaders(headers map[string]string) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			return next.RoundTrip(r)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestStaticCoder serves one Coder from the command line, in one namespace, without any control plane in the cluster. Two
// replicas do it.
func TestStaticCoder(t *testing.T) {
	coder := coderdtest.New(t)
	token := coder.AddUser("root", "owner")
	template := coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	coder.AddWorkspace("root", template, "one")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ns := namespace(t)
	for i, r := range startReplicas(t, "", 2, "--coder-url", coder.URL, "--coder-session-token-file", file, "--coder-namespace", ns) {
		serve(t, r.process)
		list := &aggregationv1alpha1.CoderWorkspaceList{}
		if err := environment.client.List(t.Context(), list, client.InNamespace(ns)); err != nil || len(list.Items) != 1 || list.Items[0].Name != "coder.root.one" {
			t.Errorf("replica %d lists %+v, error %v", i, list.Items, err)
		}
		if err := environment.client.List(t.Context(), list, client.InNamespace(namespace(t))); err != nil || len(list.Items) != 0 {
			t.Errorf("replica %d lists in another namespace %+v, error %v", i, list.Items, err)
		}
		if logs := r.logs.String(); strings.Contains(logs, "Could not write the sync status") {
			t.Errorf("replica %d logs:\n%s", i, logs)
		}
	}
}
