package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
	// skew is how far the clocks of clients may be behind.
	skew = time.Hour
)

// pair is a certificate with its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newCA(now time.Time) (pair, error) {
	return issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s-ca-%d", ServiceName, now.Unix())},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}, nil)
}

func newLeaf(now time.Time, names []string, ca pair) (pair, error) {
	end := now.Add(leafLifetime)
	if end.After(ca.certificate.NotAfter) {
		end = ca.certificate.NotAfter
	}
	return issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		NotBefore:   now.Add(-skew),
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &ca)
}

// issue returns a certificate with a new key, signed by the CA, or self-signed if ca is nil.
func issue(wanted *x509.Certificate, ca *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("generating a private key: %w", err)
	}
	if wanted.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair{}, fmt.Errorf("generating a serial number: %w", err)
	}
	parent, signer := wanted, key
	if ca != nil {
		parent, signer = ca.certificate, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, wanted, parent, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("signing a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return pair{certificate, key}, err
}

// decodePair decodes a certificate chain and the key of its first certificate.
func decodePair(certificatePEM, keyPEM []byte) (pair, error) {
	chain, err := certutil.ParseCertsPEM(certificatePEM)
	if err != nil {
		return pair{}, err
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return pair{}, errors.New("the key cannot be read")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(chain[0].PublicKey) {
		return pair{}, errors.New("the key does not belong to the certificate")
	}
	return pair{chain[0], key}, nil
}
