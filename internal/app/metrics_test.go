package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// reviewer is a fake kube-apiserver that knows the tokens reader and stranger, and allows
// only the reader to get /metrics.
func reviewer(t *testing.T) *rest.Config {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			review := &authenticationv1.TokenReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			known := review.Spec.Token == "reader" || review.Spec.Token == "stranger"
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: review.Spec.Token}}
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(review)
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			review := &authorizationv1.SubjectAccessReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			asked := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "reader" && asked != nil && asked.Path == "/metrics" && asked.Verb == "get"
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(review)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// servedMetrics serves the metrics and returns their address and the CA that verifies the
// certificate.
func servedMetrics(t *testing.T) (address string, authority []byte) {
	t.Helper()
	secrets := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "coder-system", Name: metricsSecret, Annotations: map[string]string{"coder.com/filled-by": "coder-k8s"},
	}}).CoreV1().Secrets("coder-system")
	certificate, err := newSecretCertificate(certificates.Config{
		Secrets: secrets, Namespace: "coder-system", Secret: metricsSecret, Service: metricsService, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	certificate.look(t.Context())
	if err := RegisterBuildInfo(ctrlmetrics.Registry); err != nil {
		t.Fatal(err)
	}
	config := reviewer(t)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	o := MetricsOptions{BindAddress: "127.0.0.1:0"}
	server, err := metricsserver.NewServer(o.server(certificate), config, client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	secret, err := secrets.Get(t.Context(), metricsSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return boundAddress(t, server), secret.Data["ca.crt"]
}

// boundAddress waits until a metrics server listens, and returns its address.
func boundAddress(t *testing.T, server metricsserver.Server) string {
	t.Helper()
	bound, ok := server.(interface{ GetBindAddr() string })
	if !ok {
		t.Fatalf("%T does not say where it listens", server)
	}
	polltest.Eventually(t, "the server of metrics listens", func() bool { return bound.GetBindAddr() != "" })
	return bound.GetBindAddr()
}

// prometheusClient returns a client that verifies the certificate like
// the ServiceMonitor of the chart.
func prometheusClient(t *testing.T, authority []byte) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("ca.crt has no certificate: %q", authority)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "coder-k8s-metrics.coder-system.svc"}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: polltest.Timeout()}
}

// get sends a request with a token, and retries until the server responds.
func get(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	var code int
	var content []byte
	polltest.Eventually(t, "an answer from "+url, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		code = response.StatusCode
		content, err = io.ReadAll(response.Body)
		return err
	})
	return code, string(content)
}

func TestMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	address, authority := servedMetrics(t)
	client := prometheusClient(t, authority)
	for token, want := range map[string]int{
		"":        http.StatusUnauthorized,
		"unknown": http.StatusInternalServerError, // The status of the filter in controller-runtime.

		"stranger": http.StatusForbidden,
		"reader":   http.StatusOK,
	} {
		if code, content := get(t, client, "https://"+address+"/metrics", token); code != want || (code != http.StatusOK && strings.Contains(content, "coder_k8s")) {
			t.Errorf("token %q: status %d, want %d:\n%s", token, code, want, content)
		}
	}
	if code, content := get(t, &http.Client{}, "http://"+address+"/metrics", "reader"); code != http.StatusBadRequest || strings.Contains(content, "coder_k8s") {
		t.Errorf("without TLS: status %d:\n%s", code, content)
	}
	if code, _ := get(t, client, "https://"+address+"/", "reader"); code != http.StatusNotFound {
		t.Errorf("/: status %d, want 404", code)
	}
}

func TestMetricsOfAllRegistriesAreTold(t *testing.T) {
	address, authority := servedMetrics(t)
	_, content := get(t, prometheusClient(t, authority), "https://"+address+"/metrics", "reader")
	for _, want := range []string{
		fmt.Sprintf("coder_k8s_build_info{commit=%q,go_version=%q,version=%q} 1", version.Commit(), version.Go(), version.Version()),
		"process_cpu_seconds_total",
		// A metric of the API server library: the review of the token above.
		`apiserver_delegated_authn_request_total{code="201"}`,
	} {
		if !strings.Contains(content, want) {
			t.Errorf("%s is not told", want)
		}
	}
	if n := strings.Count(content, "# TYPE process_cpu_seconds_total "); n != 1 {
		t.Errorf("process_cpu_seconds_total is told %d times", n)
	}
}

func TestUntilTheSecretHasACertificateNobodyCanVerify(t *testing.T) {
	secrets := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "coder-system", Name: metricsSecret}}).CoreV1().Secrets("coder-system")
	certificate, err := newSecretCertificate(certificates.Config{
		Secrets: secrets, Namespace: "coder-system", Secret: metricsSecret, Service: metricsService, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	// The Secret is managed by cert-manager, and still empty.
	certificate.look(t.Context())
	served, err := certificate.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err := x509.ParseCertificate(served.Certificate[0]); err != nil || leaf.VerifyHostname("coder-k8s-metrics.coder-system.svc") == nil {
		t.Errorf("served: %v, %v", leaf.DNSNames, err)
	}
	// cert-manager fills the Secret.
	chain, key, err := certutil.GenerateSelfSignedCertKey("coder-k8s-metrics.coder-system.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Update(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: metricsSecret}, Data: map[string][]byte{"tls.crt": chain, "tls.key": key},
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	certificate.look(t.Context())
	if served, err = certificate.GetCertificate(nil); err != nil {
		t.Fatal(err)
	}
	if leaf, err := x509.ParseCertificate(served.Certificate[0]); err != nil || leaf.VerifyHostname("coder-k8s-metrics.coder-system.svc") != nil {
		t.Errorf("served: %v, %v", leaf.DNSNames, err)
	}
}

func TestTheCertificateOfTheMetricsFromFiles(t *testing.T) {
	dir := t.TempDir()
	o := MetricsOptions{BindAddress: ":8443", CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	if _, err := o.certificate(&rest.Config{}, "coder-system"); err == nil || !strings.Contains(err.Error(), o.CertFile) || !strings.Contains(err.Error(), "--metrics-tls-cert-file") {
		t.Errorf("without files: %v", err)
	}
	chain, key, err := certutil.GenerateSelfSignedCertKey("metrics.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{o.CertFile: chain, o.KeyFile: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := o.certificate(&rest.Config{}, "coder-system")
	if err != nil {
		t.Fatal(err)
	}
	served, err := certificate.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err := x509.ParseCertificate(served.Certificate[0]); err != nil || leaf.VerifyHostname("metrics.example.com") != nil {
		t.Errorf("served: %v, %v", leaf, err)
	}
	if certificate.NeedLeaderElection() {
		t.Error("only the leader would read the files again")
	}
}

func TestMistakesInTheOptionsOfMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		options MetricsOptions
		want    string
	}{
		"defaults":        {MetricsOptions{BindAddress: ":8443"}, ""},
		"off":             {MetricsOptions{BindAddress: off}, ""},
		"files":           {MetricsOptions{BindAddress: ":8443", CertFile: "a", KeyFile: "b"}, ""},
		"no port":         {MetricsOptions{BindAddress: "localhost"}, `--metrics-bind-address "localhost"`},
		"a key is missed": {MetricsOptions{BindAddress: ":8443", CertFile: "a"}, `--metrics-tls-cert-file ("a") and --metrics-tls-private-key-file ("")`},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			for _, err := range c.options.validate() {
				if err != nil {
					told = append(told, err.Error())
				}
			}
			if got := strings.Join(told, "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheVersionIsRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		if err := RegisterBuildInfo(registry); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, label := range families[0].GetMetric()[0].GetLabel() {
		if label.GetValue() == "" {
			t.Errorf("the label %s is empty", label.GetName())
		}
	}
}
