package certificates

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

const (
	// SecretName is the name of the Secret with the CA and the certificate.
	SecretName = "coder-k8s-apiserver-tls"
	// ServiceName is the name of the Service through which kube-apiserver connects.
	ServiceName = "coder-k8s-apiserver"
	// FieldManager owns spec.caBundle of the APIService.
	FieldManager = "coder-k8s-apiserver-cert"

	apiServiceName = "v1alpha1.aggregation.coder.com"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "coder-k8s"
	// annotationFilledBy has the meaning of the label, on a Secret that Helm installs: Helm sets
	// that label to its own name on everything it creates.
	annotationFilledBy = "coder.com/filled-by"

	// interval is the interval between two checks of Secret and APIService.
	interval = 30 * time.Second
	// unsettledInterval is the interval while kube-apiserver does not trust the certificate yet.
	unsettledInterval = 2 * time.Second
	// attempts limits how often one check starts again because another replica wrote the Secret.
	attempts = 5
)

// APIServices is the resource of the APIService.
var APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Config configures a Manager.
type Config struct {
	// Secrets accesses the Secrets in the pod's namespace, uncached.
	Secrets corev1client.SecretInterface
	// Services accesses the APIServices, uncached. It is nil for a certificate that kube-apiserver
	// does not need to trust.
	Services dynamic.ResourceInterface
	// Namespace is the namespace of the pod and of the Service.
	Namespace string
	// Secret is the name of the Secret with the CA and the certificate. The default is SecretName.
	Secret string
	// Service is the Service whose DNS names the certificate has. The default is ServiceName.
	Service string
	Clock   clock.WithTicker
	// Metrics may be nil.
	Metrics *Metrics
}

// Manager maintains the certificate.
type Manager struct {
	Config
	provider Provider
}

// NewManager returns a Manager. It has no certificate until Look is called.
func NewManager(config Config) *Manager {
	config.Secret = cmp.Or(config.Secret, SecretName)
	config.Service = cmp.Or(config.Service, ServiceName)
	return &Manager{Config: config, provider: Provider{secret: config.Secret}}
}

// Provider returns the provider of the served certificate.
func (m *Manager) Provider() *Provider { return &m.provider }

// WaitForFirst waits until there is a certificate to serve.
func (m *Manager) WaitForFirst(ctx context.Context) error {
	for {
		_, err := m.Look(ctx)
		if m.provider.filled() {
			if err != nil {
				log.FromContext(ctx).Error(err, "Serving, but kube-apiserver may not trust the certificate yet")
			}
			return nil
		}
		log.FromContext(ctx).Error(err, "There is no serving certificate yet; retrying")
		if !m.wait(ctx, unsettledInterval) {
			return fmt.Errorf("there is no serving certificate: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// Run calls Look periodically until the context is canceled.
func (m *Manager) Run(ctx context.Context) {
	for {
		settled, err := m.Look(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Could not renew the serving certificate")
		}
		pause := interval
		if !settled {
			pause = unsettledInterval
		}
		if !m.wait(ctx, pause) {
			return
		}
	}
}

// wait waits, and returns false if the context is canceled.
func (m *Manager) wait(ctx context.Context, d time.Duration) bool {
	timer := m.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// Look repairs the Secret if necessary, applies the CA, and serves the certificate. It is settled
// when kube-apiserver trusts the served certificate.
func (m *Manager) Look(ctx context.Context) (settled bool, err error) {
	data, err := m.ensureSecret(ctx)
	if err != nil {
		return false, fmt.Errorf("updating Secret %s/%s: %w", m.Namespace, m.Secret, err)
	}
	err = m.applyCA(ctx, data[keyCA])
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		err = fmt.Errorf("setting spec.caBundle of APIService %s: %w", apiServiceName, err)
		if m.provider.filled() {
			// The currently served certificate is trusted. The new one may not be.
			return false, err
		}
	}
	if m.provider.set(data[keyLeaf], data[keyLeafKey]) {
		m.Metrics.serving(m.Secret, data[keyLeaf])
		log.FromContext(ctx).Info("Serving with a new certificate", "secret", m.Namespace+"/"+m.Secret)
	}
	if absent {
		// The APIService is part of the installation, and may be created a moment later.
		return false, nil
	}
	return err == nil, err
}

// ensureSecret returns the Secret's data, after renewing it if necessary.
func (m *Manager) ensureSecret(ctx context.Context) (map[string][]byte, error) {
	service := m.Service + "." + m.Namespace + ".svc"
	names := []string{service, service + ".cluster.local"}
	for range attempts {
		secret, err := m.Secrets.Get(ctx, m.Secret, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		switch {
		case missing:
			secret = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Name: m.Secret, Namespace: m.Namespace, Labels: map[string]string{labelManagedBy: managedBy},
				},
				Type: corev1.SecretTypeTLS,
			}
		case err != nil:
			return nil, err
		case secret.Labels[labelManagedBy] != managedBy && secret.Annotations[annotationFilledBy] != managedBy:
			// Another component manages it.
			if len(secret.Data[keyLeaf]) == 0 || len(secret.Data[keyLeafKey]) == 0 {
				return nil, fmt.Errorf("it has no label %s=%s, so the operator does not write it, and %s or %s is empty; delete it, or add the certificate and its key",
					labelManagedBy, managedBy, keyLeaf, keyLeafKey)
			}
			return secret.Data, nil
		}
		data, done, err := renew(secret.Data, names, m.Clock.Now())
		if err != nil || done == "" {
			return data, err
		}
		secret.Data = data
		if missing {
			_, err = m.Secrets.Create(ctx, secret, metav1.CreateOptions{})
		} else {
			_, err = m.Secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			// Another replica wrote it first.
			continue
		}
		if err != nil {
			return nil, err
		}
		log.FromContext(ctx).Info("Renewed the serving certificate", "secret", m.Namespace+"/"+m.Secret, "done", done)
		return data, nil
	}
	return nil, errors.New("other clients keep changing it; retrying later")
}

// applyCA sets the CA that kube-apiserver trusts, if it differs.
func (m *Manager) applyCA(ctx context.Context, bundle []byte) error {
	if len(bundle) == 0 || m.Services == nil {
		return nil
	}
	current, err := m.Services.Get(ctx, apiServiceName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	encoded, _, err := unstructured.NestedString(current.Object, "spec", "caBundle")
	if err != nil {
		return err
	}
	if known, err := base64.StdEncoding.DecodeString(encoded); err == nil && bytes.Equal(known, bundle) {
		return nil
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": APIServices.GroupVersion().String(),
		"kind":       "APIService",
		"metadata":   map[string]any{"name": apiServiceName},
		"spec":       map[string]any{"caBundle": base64.StdEncoding.EncodeToString(bundle)},
	}}
	if _, err = m.Services.Apply(ctx, apiServiceName, wanted, metav1.ApplyOptions{FieldManager: FieldManager, Force: true}); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Wrote the CA to the APIService", "apiService", apiServiceName)
	return nil
}

// Provider provides the certificate to the server, and notifies it of changes.
type Provider struct {
	secret    string
	mu        sync.RWMutex
	leaf, key []byte
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*Provider)(nil)

// Name implements dynamiccertificates.CertKeyContentProvider.
func (p *Provider) Name() string { return "Secret " + p.secret }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (p *Provider) CurrentCertKeyContent() (certificate, key []byte) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.leaf, p.key
}

// AddListener implements dynamiccertificates.Notifier.
func (p *Provider) AddListener(listener dynamiccertificates.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, listener)
}

func (p *Provider) filled() bool {
	certificate, _ := p.CurrentCertKeyContent()
	return len(certificate) > 0
}

// set replaces the certificate, and reports whether it has changed.
func (p *Provider) set(certificate, key []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Equal(p.leaf, certificate) && bytes.Equal(p.key, key) {
		return false
	}
	p.leaf, p.key = certificate, key
	for _, listener := range p.listeners {
		listener.Enqueue()
	}
	return true
}

// Metrics exports the expiry of the serving certificates. A nil Metrics does nothing.
type Metrics struct {
	expiry *prometheus.GaugeVec
}

// NewMetrics returns registered Metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "coder_k8s_certificate_expiry_timestamp_seconds",
		Help: "Expiry time of the serving certificate, by the Secret that holds it. A certificate that is read from files has no series.",
	}, []string{"secret"})}
	return m, collector.Register(registerer, &m.expiry)
}

// serving sets the expiry of the certificate that is served from a Secret.
func (m *Metrics) serving(secret string, chain []byte) {
	if m == nil {
		return
	}
	certificates, err := certutil.ParseCertsPEM(chain)
	if err != nil {
		m.expiry.DeleteLabelValues(secret)
		return
	}
	m.expiry.WithLabelValues(secret).Set(float64(certificates[0].NotAfter.Unix()))
}
