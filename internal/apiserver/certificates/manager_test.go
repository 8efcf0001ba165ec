package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
)

const podNamespace = "coder-system"

var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// apiServices is a dynamic client of one APIService. The library's fake does not support
// server-side apply for types that it does not know.
type apiServices struct {
	dynamic.ResourceInterface
	object  *unstructured.Unstructured
	applied []*unstructured.Unstructured
	options metav1.ApplyOptions
	broken  error
}

func newAPIServices() *apiServices {
	return &apiServices{object: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}}
}

func (s *apiServices) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	if s.object == nil {
		return nil, apierrors.NewNotFound(APIServices.GroupResource(), name)
	}
	return s.object, nil
}

func (s *apiServices) Apply(
	_ context.Context, _ string, obj *unstructured.Unstructured, options metav1.ApplyOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	s.applied, s.options = append(s.applied, obj), options
	s.object = obj.DeepCopy()
	return s.object, nil
}

// bundle returns the CA bundle that kube-apiserver trusts.
func (s *apiServices) bundle(t *testing.T) []byte {
	t.Helper()
	encoded, _, _ := unstructured.NestedString(s.object.Object, "spec", "caBundle")
	out, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type fixture struct {
	kube     *fake.Clientset
	services *apiServices
	clock    *clocktesting.FakeClock
}

func newFixture() *fixture {
	return &fixture{fake.NewClientset(), newAPIServices(), clocktesting.NewFakeClock(start)}
}

func (w *fixture) manager() *Manager {
	return NewManager(Config{
		Secrets: w.kube.CoreV1().Secrets(podNamespace), Services: w.services, Namespace: podNamespace, Clock: w.clock,
	})
}

func look(t *testing.T, m *Manager) {
	t.Helper()
	if settled, err := m.Look(t.Context()); err != nil || !settled {
		t.Fatalf("settled %v, %v", settled, err)
	}
}

// mustBeTrusted verifies the served certificate as kube-apiserver does.
func mustBeTrusted(t *testing.T, w *fixture, m *Manager) *x509.Certificate {
	t.Helper()
	chain, _ := m.Provider().CurrentCertKeyContent()
	leaf, err := certutil.ParseCertsPEM(chain)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.services.bundle(t))
	if _, err := leaf[0].Verify(x509.VerifyOptions{
		Roots: roots, DNSName: "coder-k8s-apiserver.coder-system.svc", CurrentTime: w.clock.Now(),
	}); err != nil {
		t.Fatalf("at %s: %v", w.clock.Now(), err)
	}
	return leaf[0]
}

func secretWrites(w *fixture) int {
	n := 0
	for _, action := range w.kube.Actions() {
		if action.GetResource().Resource == "secrets" && action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestFirstLook(t *testing.T) {
	w := newFixture()
	m := w.manager()
	look(t, m)
	leaf := mustBeTrusted(t, w, m)
	if got := leaf.NotAfter.Sub(start); got != leafLifetime {
		t.Errorf("the certificate lives %s", got)
	}
	if len(w.services.applied) != 1 || w.services.options.FieldManager != FieldManager {
		t.Fatalf("applied %d times as %q", len(w.services.applied), w.services.options.FieldManager)
	}
	spec, _, _ := unstructured.NestedMap(w.services.applied[0].Object, "spec")
	if len(spec) != 1 {
		t.Errorf("more than caBundle is applied: %v", spec)
	}
	look(t, m)
	if n := secretWrites(w); n != 1 || len(w.services.applied) != 1 {
		t.Errorf("looking again wrote: %d Secrets, %d APIServices", n, len(w.services.applied))
	}
}

// lateSecrets returns NotFound while another replica creates the Secret.
type lateSecrets struct {
	corev1client.SecretInterface
	meanwhile func()
}

func (s *lateSecrets) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Secret, error) {
	if f := s.meanwhile; f != nil {
		s.meanwhile = nil
		f()
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	return s.SecretInterface.Get(ctx, name, options)
}

func TestReplicasServeTheSame(t *testing.T) {
	w := newFixture()
	one, two := w.manager(), w.manager()
	two.Secrets = &lateSecrets{two.Secrets, func() { look(t, one) }}
	look(t, two)
	a, _ := one.Provider().CurrentCertKeyContent()
	b, _ := two.Provider().CurrentCertKeyContent()
	if !bytes.Equal(a, b) {
		t.Error("two replicas serve different certificates")
	}
}

// TestRotation simulates eleven years in steps of a week, with one replica that is always late.
func TestRotation(t *testing.T) {
	w := newFixture()
	prompt, late := w.manager(), w.manager()
	look(t, prompt)
	look(t, late)
	heard := &listener{}
	prompt.Provider().AddListener(heard)
	leaves := map[string]bool{}
	for w.clock.Since(start) < 11*365*24*time.Hour {
		w.clock.Step(7 * 24 * time.Hour)
		look(t, prompt)
		leaves[mustBeTrusted(t, w, prompt).SerialNumber.String()] = true
		mustBeTrusted(t, w, late)
		look(t, late)
		mustBeTrusted(t, w, late)
	}
	if len(leaves) < 16 || len(leaves) > 18 {
		t.Errorf("%d certificates in eleven years", len(leaves))
	}
	if heard.n != len(leaves)-1 {
		t.Errorf("the server was told %d times of %d certificates", heard.n, len(leaves))
	}
	cas, err := certutil.ParseCertsPEM(w.services.bundle(t))
	if err != nil || len(cas) != 1 {
		t.Errorf("%d CAs are trusted after the first one has expired, %v", len(cas), err)
	}
	if len(w.services.applied) != 3 {
		t.Errorf("the APIService was written %d times, want for the first CA, the second, and the end of the first", len(w.services.applied))
	}
}

type listener struct{ n int }

func (l *listener) Enqueue() { l.n++ }

func TestWhatIsLostComesBack(t *testing.T) {
	w := newFixture()
	m := w.manager()
	look(t, m)
	w.services.object = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"caBundle": "bm9uZQ=="}}}
	look(t, m)
	mustBeTrusted(t, w, m)
	if err := w.kube.CoreV1().Secrets(podNamespace).Delete(t.Context(), SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	look(t, m)
	mustBeTrusted(t, w, m)
}

func TestSecretOfSomebodyElse(t *testing.T) {
	w := newFixture()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: podNamespace},
		Data:       map[string][]byte{keyLeaf: []byte("leaf"), keyLeafKey: []byte("key")},
	}
	if _, err := w.kube.CoreV1().Secrets(podNamespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.kube.ClearActions()
	m := w.manager()
	look(t, m)
	if got, _ := m.Provider().CurrentCertKeyContent(); string(got) != "leaf" {
		t.Errorf("served %q", got)
	}
	if n := secretWrites(w); n != 0 || len(w.services.applied) != 0 {
		t.Errorf("wrote %d Secrets, %d APIServices", n, len(w.services.applied))
	}
	secret.Data = nil
	if _, err := w.kube.CoreV1().Secrets(podNamespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "so the operator does not write it") {
		t.Errorf("an empty one: %v", err)
	}
}

// TestNothingUntrustedIsServed deletes the Secret while the APIService cannot be written.
func TestNothingUntrustedIsServed(t *testing.T) {
	w := newFixture()
	m := w.manager()
	look(t, m)
	if err := w.kube.CoreV1().Secrets(podNamespace).Delete(t.Context(), SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.services.broken = errors.New("down")
	if settled, err := m.Look(t.Context()); err == nil || settled {
		t.Errorf("settled %v, %v", settled, err)
	}
	mustBeTrusted(t, w, m)
	w.services.broken = nil
	look(t, m)
	mustBeTrusted(t, w, m)
}

func TestWithoutAPIService(t *testing.T) {
	w := newFixture()
	w.services.object = nil
	m := w.manager()
	if settled, err := m.Look(t.Context()); err != nil || settled {
		t.Errorf("settled %v, %v", settled, err)
	}
	if !m.Provider().filled() {
		t.Error("nothing is served")
	}
}

// TestACertificateOfItsOwnSecretAndService covers a certificate that kube-apiserver does not need
// to trust, like that of the metrics: the installation creates the Secret, empty.
func TestACertificateOfItsOwnSecretAndService(t *testing.T) {
	w := newFixture()
	secrets := w.kube.CoreV1().Secrets(podNamespace)
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "coder-k8s-metrics-tls",
		// As Helm creates it.
		Labels: map[string]string{labelManagedBy: "Helm"}, Annotations: map[string]string{annotationFilledBy: managedBy},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m := NewManager(Config{
		Secrets: secrets, Namespace: podNamespace, Clock: w.clock, Metrics: metrics,
		Secret: "coder-k8s-metrics-tls", Service: "coder-k8s-metrics",
	})
	look(t, m)
	secret, err := secrets.Get(t.Context(), "coder-k8s-metrics-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data[keyCA])
	chain, _ := m.Provider().CurrentCertKeyContent()
	leaf, err := certutil.ParseCertsPEM(chain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf[0].Verify(x509.VerifyOptions{
		Roots: roots, DNSName: "coder-k8s-metrics.coder-system.svc", CurrentTime: w.clock.Now(),
	}); err != nil {
		t.Error(err)
	}
	if len(w.services.applied) != 0 {
		t.Errorf("an APIService was written: %v", w.services.applied)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	series := families[0].GetMetric()[0]
	if secret, at := series.GetLabel()[0].GetValue(), series.GetGauge().GetValue(); secret != "coder-k8s-metrics-tls" || at != float64(leaf[0].NotAfter.Unix()) {
		t.Errorf("the certificate of %s runs out at %v, want %v", secret, at, leaf[0].NotAfter.Unix())
	}
	if name := m.Provider().Name(); name != "Secret coder-k8s-metrics-tls" {
		t.Errorf("the provider is named %q", name)
	}
}
