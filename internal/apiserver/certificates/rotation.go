package certificates

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Keys of the Secret.
const (
	keyCA      = "ca.crt"
	keyCAKey   = "ca.key"
	keyLeaf    = "tls.crt"
	keyLeafKey = "tls.key"
)

// renew returns the required data of the Secret, and a description of the changes, which is empty
// if nothing changed. Data that cannot be decoded is replaced, because it is of no use.
func renew(data map[string][]byte, names []string, now time.Time) (map[string][]byte, string, error) {
	trusted := trustedAt(data[keyCA], now)
	ca, err := decodePair(data[keyCA], data[keyCAKey])
	done := ""
	out := maps.Clone(data)
	if out == nil {
		out = map[string][]byte{}
	}
	if err != nil || due(ca.certificate, now) {
		if ca, err = newCA(now); err != nil {
			return nil, "", err
		}
		trusted = append([]*x509.Certificate{ca.certificate}, trusted...)
		if out[keyCAKey], err = keyutil.MarshalPrivateKeyToPEM(ca.key); err != nil {
			return nil, "", err
		}
		done = "created a CA"
	}
	if out[keyCA], err = certutil.EncodeCertificates(trusted...); err != nil {
		return nil, "", err
	}
	if done == "" && !slices.Equal(out[keyCA], data[keyCA]) {
		done = "removed an expired CA"
	}
	leaf, err := decodePair(data[keyLeaf], data[keyLeafKey])
	if err == nil && !due(leaf.certificate, now) && serves(leaf.certificate, trusted, names, now) {
		return out, done, nil
	}
	if leaf, err = newLeaf(now, names, ca); err != nil {
		return nil, "", err
	}
	if out[keyLeaf], err = certutil.EncodeCertificates(leaf.certificate); err != nil {
		return nil, "", err
	}
	if out[keyLeafKey], err = keyutil.MarshalPrivateKeyToPEM(leaf.key); err != nil {
		return nil, "", err
	}
	if done != "" {
		done += ", "
	}
	return out, done + "created a serving certificate", nil
}

// due reports whether two thirds of the certificate's lifetime have passed.
func due(certificate *x509.Certificate, now time.Time) bool {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	return now.After(certificate.NotBefore.Add(life * 2 / 3))
}

// trustedAt returns the CAs of a bundle that have not expired.
func trustedAt(bundle []byte, now time.Time) []*x509.Certificate {
	all, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
}

// serves reports whether a certificate is valid for all names.
func serves(leaf *x509.Certificate, trusted []*x509.Certificate, names []string, now time.Time) bool {
	roots := x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	for _, name := range names {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
		if err != nil {
			return false
		}
	}
	return true
}
