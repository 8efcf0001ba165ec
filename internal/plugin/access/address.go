package access

import (
	"context"
	"net"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// publicURL returns the URL of a Coder that a browser outside of the cluster can open without a
// port-forward: Coder's access URL, or the address of its load balancer. It returns an empty string
// if there is none.
func publicURL(ctx context.Context, c *session.Cluster, cp *coderv1alpha1.CoderControlPlane) string {
	if u, err := url.Parse(cp.Status.AccessURL); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && !insideCluster(u.Hostname()) {
		return cp.Status.AccessURL
	}
	inside, err := url.Parse(cp.Status.URL)
	if err != nil || inside.Hostname() == "" {
		return ""
	}
	name, _, _ := strings.Cut(inside.Hostname(), ".")
	service := &corev1.Service{}
	if c.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: name}, service) != nil {
		// A user without permission to read the Service uses the port-forward.
		return ""
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		host := ingress.Hostname
		if host == "" {
			host = ingress.IP
		}
		if host == "" {
			continue
		}
		if port := inside.Port(); port != "" && port != "80" && port != "443" {
			return inside.Scheme + "://" + net.JoinHostPort(host, port)
		}
		return (&url.URL{Scheme: inside.Scheme, Host: bracketed(host)}).String()
	}
	return ""
}

// bracketed adds brackets to an IPv6 address, as URLs require.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// insideCluster reports whether a host is only known to the cluster's DNS.
func insideCluster(host string) bool {
	return strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.")
}
