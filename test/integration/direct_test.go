package integration

import (
	"context"
	"net/http"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// restList lists the workspaces of a namespace with one request, without the
// retries of client-go.
func restList(ctx context.Context, config *rest.Config, ns string) error {
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	return c.RESTClient().Get().AbsPath(workspacesPath(ns)).MaxRetries(0).Do(ctx).Error()
}

// restWatch watches the workspaces of a namespace, or of all namespaces if ns is
// empty, for a second.
func restWatch(ctx context.Context, config *rest.Config, ns string) error {
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	stream, err := c.RESTClient().Get().AbsPath(workspacesPath(ns)).Param("watch", "1").Param("timeoutSeconds", "1").MaxRetries(0).Stream(ctx)
	if err != nil {
		return err
	}
	return stream.Close()
}

func workspacesPath(ns string) string {
	if ns == "" {
		return "/apis/aggregation.coder.com/v1alpha1/coderworkspaces"
	}
	return "/apis/aggregation.coder.com/v1alpha1/namespaces/" + ns + "/coderworkspaces"
}

// setHeaders adds headers to each request, as an attacker would who impersonates
// kube-apiserver.
func setHeaders(headers map[string]string) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			return next.RoundTrip(r)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
