package resources

import (
	"fmt"
	"strings"
)

// DefaultClusterDomain is the DNS domain of most clusters.
const DefaultClusterDomain = "cluster.local"

const (
	defaultHTTPPort  = 80
	defaultHTTPSPort = 443

	portHTTP  = "http"
	portHTTPS = "https"
)

// TLSEnabled says whether Coder itself serves TLS.
func TLSEnabled(w Workload) bool {
	return len(tlsSecrets(w)) > 0
}

// HTTPPort is the port on which the Service speaks plain HTTP. There always is
// one: where port 443 is asked for and Coder serves TLS there, it is 80.
func HTTPPort(w Workload) int32 {
	if w.Serving == nil {
		return 0
	}
	port := w.Serving.Spec.Service.Port
	if port == 0 {
		port = defaultHTTPPort
	}
	if TLSEnabled(w) && port == defaultHTTPSPort {
		return defaultHTTPPort
	}
	return port
}

// URL is where the operator, and everything else inside the cluster, calls
// Coder: always plain HTTP to the Service, always with the port. The
// certificates of spec.tls are made for Coder's public name, not for that of
// the Service, so a TLS call from inside would not verify. It is empty where
// there is no Service.
func URL(w Workload) string {
	if !serviceEnabled(w) {
		return ""
	}
	return fmt.Sprintf("http://%s:%d", serviceHost(w), HTTPPort(w))
}

// AccessURL is where Coder is told that it is reached: what spec.extraEnv says,
// or the host of spec.expose, or the Service. It is empty where nobody says it, or
// where a Secret or ConfigMap does.
func AccessURL(w Workload) string {
	if value, given := givenVariable(w, EnvAccessURL); given {
		return value
	}
	return derivedAccessURL(w)
}

// derivedAccessURL is the access URL where the environment of the spec gives
// none.
func derivedAccessURL(w Workload) string {
	if w.Serving == nil {
		return ""
	}
	if url := exposedURL(w.Serving); url != "" {
		return url
	}
	if w.Serving.ClusterAccessURL {
		return ClusterAccessURL(w)
	}
	return ""
}

// exposedURL is where Coder is reached from outside: https where the Ingress has
// a certificate for the host, or what the Gateway is said to serve.
func exposedURL(s *Serving) string {
	expose := s.Spec.Expose
	switch {
	case expose == nil:
		return ""
	case expose.Ingress != nil:
		if tls := expose.Ingress.TLS; tls != nil && tls.SecretName != "" {
			return "https://" + expose.Ingress.Host
		}
		return "http://" + expose.Ingress.Host
	case expose.Gateway != nil:
		scheme := expose.Gateway.Scheme
		if scheme == "" {
			scheme = "https"
		}
		return scheme + "://" + expose.Gateway.Host
	}
	return ""
}

// ClusterAccessURL is the address of the Service as an access URL: with TLS where
// Coder serves it, without a port that is the scheme's own. It is empty where
// there is no Service.
func ClusterAccessURL(w Workload) string {
	switch port := HTTPPort(w); {
	case !serviceEnabled(w):
		return ""
	case TLSEnabled(w):
		return "https://" + serviceHost(w)
	case port != defaultHTTPPort:
		return fmt.Sprintf("http://%s:%d", serviceHost(w), port)
	}
	return "http://" + serviceHost(w)
}

// WildcardAccessURL is the wildcard host of spec.expose as it is written, for
// example *-apps.example.com, or empty.
func WildcardAccessURL(w Workload) string {
	if w.Serving == nil || w.Serving.Spec.Expose == nil {
		return ""
	}
	switch expose := w.Serving.Spec.Expose; {
	case expose.Ingress != nil:
		return expose.Ingress.WildcardHost
	case expose.Gateway != nil:
		return expose.Gateway.WildcardHost
	}
	return ""
}

// routedWildcard is a wildcard host as Ingresses and HTTPRoutes know it: the
// first label is the asterisk alone. Coder sorts out the suffix itself.
func routedWildcard(host string) string {
	_, domain, found := strings.Cut(host, ".")
	if !found || !strings.HasPrefix(host, "*") {
		return host
	}
	return "*." + domain
}

func serviceHost(w Workload) string {
	domain := w.Serving.ClusterDomain
	if domain == "" {
		domain = DefaultClusterDomain
	}
	return w.Name + "." + w.Namespace + ".svc." + domain
}
