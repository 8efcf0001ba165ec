package certificates

import (
	"bytes"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

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
