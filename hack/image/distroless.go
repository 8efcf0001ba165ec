package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const certificatesPath = "/etc/ssl/certs/ca-certificates.crt"

// distrolessTree returns the files that a static program needs besides itself. The certificates are
// Mozilla's list as the Go project distributes it. Those of this machine are not used, because it
// may trust authorities that users do not trust.
func distrolessTree() (*tree, error) {
	t := newTree()
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // Trusted for some names only, which a PEM file cannot say.
		}
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"/tmp:1777", "/home/nonroot:755", "/root:700"} {
		if err := t.addDir(dir); err != nil {
			return nil, err
		}
	}
	for _, text := range []string{
		"/etc/passwd=root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
		"/etc/group=root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n",
		"/etc/nsswitch.conf=hosts: files dns\n",
		certificatesPath + "=" + certificates.String(),
	} {
		if err := t.addText(text); err != nil {
			return nil, err
		}
	}
	return t, nil
}
