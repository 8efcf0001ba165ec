package apiserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/options"
	certutil "k8s.io/client-go/util/cert"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// volume imitates a Secret volume of the kubelet: new content is written to a new directory, a
// symbolic link is changed to it, and the old directory is removed.
type volume struct {
	directory string
	turns     int
}

// hold replaces the files of the volume.
func (v *volume) hold(t *testing.T, files map[string][]byte) {
	t.Helper()
	v.turns++
	content, link := fmt.Sprintf("..content-%d", v.turns), filepath.Join(v.directory, "..data")
	if err := os.Mkdir(filepath.Join(v.directory, content), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(v.directory, content, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(v.directory, name)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(content, link+"_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+"_tmp", link); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(v.directory, fmt.Sprintf("..content-%d", v.turns-1))); err != nil {
		t.Fatal(err)
	}
}

// presented returns the certificate that a listener presents, as PEM.
func presented(t *testing.T, listener net.Listener) string {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // It is compared.
	connection, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		return err.Error()
	}
	defer connection.Close()
	encoded, err := certutil.EncodeCertificates(connection.(*tls.Conn).ConnectionState().PeerCertificates...)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// TestCertificateFiles checks that a certificate that another component manages, such as
// cert-manager, is served from its files, and that its successor is served without a restart.
// Invalid files in between have no effect. The operator does not issue a certificate of its own.
func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	mounted := &volume{directory: t.TempDir()}
	var certificates, keys [2][]byte
	for i := range certificates {
		var err error
		certificates[i], keys[i], err = certutil.GenerateSelfSignedCertKey("coder-k8s-apiserver.coder-system.svc", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	mounted.hold(t, map[string][]byte{"tls.crt": certificates[0], "tls.key": keys[0]})

	s := newSite(t, &journal{})
	s.files = options.CertKey{CertFile: filepath.Join(mounted.directory, "tls.crt"), KeyFile: filepath.Join(mounted.directory, "tls.key")}
	s.run(t)
	polltest.Eventually(t, "the server is ready", func() error { return s.server.Ready(nil) })
	serves := func(want []byte) func() error {
		return func() error {
			if got := presented(t, s.listener); got != string(want) {
				return fmt.Errorf("it presents\n%s, not\n%s", got, want)
			}
			return nil
		}
	}
	polltest.Eventually(t, "the first certificate is presented", serves(certificates[0]))
	mounted.hold(t, map[string][]byte{"tls.crt": certificates[1], "tls.key": keys[0]})
	if err := serves(certificates[0])(); err != nil {
		t.Errorf("with a key of another certificate: %v", err)
	}
	mounted.hold(t, map[string][]byte{"tls.crt": certificates[1], "tls.key": keys[1]})
	polltest.Eventually(t, "the second certificate is presented", serves(certificates[1]))

	secrets, err := s.kube.CoreV1().Secrets(podNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 0 || s.server.certificates != nil {
		t.Errorf("the operator keeps a certificate of its own: %v %v", secrets, err)
	}
}
