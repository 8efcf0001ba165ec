package replication

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// certificateLife is long because nothing but the fingerprint is looked at: the
// certificate ends with the process.
const certificateLife = 10 * 365 * 24 * time.Hour

// makeCertificate makes a key that never leaves the process, and its fingerprint.
func makeCertificate(identity string, now time.Time) (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("making the key of replica %q: %w", identity, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("making the serial number of replica %q: %w", identity, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: identity},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("making the certificate of replica %q: %w", identity, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, fingerprintOf(der), nil
}

func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// pinned is a TLS configuration for both sides. The handshake proves that the other
// side has the key of its certificate, accept decides by the fingerprint. Names,
// dates and issuers say nothing here.
func pinned(own tls.Certificate, accept func(fingerprint string) error) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{own},
		MinVersion:   tls.VersionTLS13,
		ClientAuth:   tls.RequireAnyClientCert,
		// The chain of a self-signed certificate cannot be verified: accept does it.
		InsecureSkipVerify: true,
		// Each connection is judged by what is trusted now.
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the other side shows no certificate")
			}
			return accept(fingerprintOf(state.PeerCertificates[0].Raw))
		},
	}
}
