package resources

import (
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	defaultHTTPPort  = 80
	defaultHTTPSPort = 443

	containerHTTPPort  = 8080
	containerHTTPSPort = 8443

	portHTTP  = "http"
	portHTTPS = "https"
)

// TLSEnabled says whether coderd itself serves TLS.
func TLSEnabled(cp *coderv1alpha1.CoderControlPlane) bool {
	return len(tlsSecrets(cp)) > 0
}

// HTTPPort is the port on which the Service speaks plain HTTP. There always is
// one: where port 443 is asked for and coderd serves TLS there, it is 80.
func HTTPPort(cp *coderv1alpha1.CoderControlPlane) int32 {
	port := cp.Spec.Service.Port
	if port == 0 {
		port = defaultHTTPPort
	}
	if TLSEnabled(cp) && port == defaultHTTPSPort {
		return defaultHTTPPort
	}
	return port
}

// URL is where the operator, and everything else inside the cluster, calls
// coderd: always plain HTTP to the Service, always with the port. The
// certificates of spec.tls are made for Coder's public name, not for that of
// the Service, so a TLS call from inside would not verify.
func URL(cp *coderv1alpha1.CoderControlPlane, in Inputs) string {
	return fmt.Sprintf("http://%s:%d", serviceHost(cp, in), HTTPPort(cp))
}

// AccessURL is the CODER_ACCESS_URL that is set where the spec gives none: the
// Service, with TLS where coderd serves it, without a port that is the scheme's
// own.
func AccessURL(cp *coderv1alpha1.CoderControlPlane, in Inputs) string {
	if TLSEnabled(cp) {
		return "https://" + serviceHost(cp, in)
	}
	if port := HTTPPort(cp); port != defaultHTTPPort {
		return fmt.Sprintf("http://%s:%d", serviceHost(cp, in), port)
	}
	return "http://" + serviceHost(cp, in)
}

func serviceHost(cp *coderv1alpha1.CoderControlPlane, in Inputs) string {
	return cp.Name + "." + cp.Namespace + ".svc." + in.clusterDomain()
}
