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
	path := "/apis/aggregation.coder.com/v1alpha1/namespaces/" + ns + "/coderworkspaces"
	return c.RESTClient().Get().AbsPath(path).MaxRetries(0).Do(ctx).Error()
}

// setHeaders adds headers to each request, as somebody would who tries to pass
// for kube-apiserver.
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
