package resources

import (
	"cmp"
	"fmt"
	"strings"
)

const (
	defaultHTTPPort  = 80
	defaultHTTPSPort = 443

	portHTTP  = "http"
	portHTTPS = "https"
)

// TLSEnabled reports whether Coder itself serves TLS.
func TLSEnabled(w Workload) bool {
	return len(tlsSecrets(w)) > 0
}

// HTTPPort returns the port of the Service that serves plain HTTP. If the spec asks for port 443
// and Coder serves TLS there, it is 80. It is 0 if the workload serves nothing.
func HTTPPort(w Workload) int32 {
	if w.Serving == nil {
		return 0
	}
	port := cmp.Or(w.Serving.Spec.Service.Port, defaultHTTPPort)
	if TLSEnabled(w) && port == defaultHTTPSPort {
		return defaultHTTPPort
	}
	return port
}

// URL returns the URL at which the operator and other clients inside the cluster call Coder. It is
// always plain HTTP to the Service, with the port. The certificates of spec.tls are issued for
// Coder's public name and not for that of the Service, so TLS verification would fail inside the
// cluster. The result is empty if there is no Service.
func URL(w Workload) string {
	if !serviceEnabled(w) {
		return ""
	}
	return fmt.Sprintf("http://%s:%d", serviceHost(w), HTTPPort(w))
}

// AccessURL returns the access URL with which Coder is configured: that of spec.extraEnv, or the
// host of spec.expose, or the Service. The result is empty if none is set, or if a Secret or
// ConfigMap sets it.
func AccessURL(w Workload) string {
	if value, given := givenVariable(w, EnvAccessURL); given {
		return value
	}
	return derivedAccessURL(w)
}

// derivedAccessURL returns the access URL for a spec whose environment does not set one: that of
// spec.expose, or the address of the Service.
func derivedAccessURL(w Workload) string {
	if w.Serving == nil {
		return ""
	}
	switch expose := w.Serving.Spec.Expose; {
	case expose == nil:
	case expose.Ingress != nil:
		if tls := expose.Ingress.TLS; tls != nil && tls.SecretName != "" {
			return "https://" + expose.Ingress.Host
		}
		return "http://" + expose.Ingress.Host
	case expose.Gateway != nil:
		return cmp.Or(expose.Gateway.Scheme, "https") + "://" + expose.Gateway.Host
	}
	switch port := HTTPPort(w); {
	case !w.Serving.ClusterAccessURL, !serviceEnabled(w):
		return ""
	case TLSEnabled(w):
		return "https://" + serviceHost(w)
	case port != defaultHTTPPort:
		return fmt.Sprintf("http://%s:%d", serviceHost(w), port)
	}
	return "http://" + serviceHost(w)
}

// routedWildcard returns a wildcard host in the form that Ingress and HTTPRoute require: the first
// label is only an asterisk. Coder itself checks the rest of the label.
func routedWildcard(host string) string {
	_, domain, found := strings.Cut(host, ".")
	if !found || !strings.HasPrefix(host, "*") {
		return host
	}
	return "*." + domain
}

func serviceHost(w Workload) string {
	return w.Name + "." + w.Namespace + ".svc." + cmp.Or(w.ClusterDomain, "cluster.local")
}
