package integration

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restList lists the workspaces of a namespace with a client of its own, which
// asks for nothing else before.
func restList(ctx context.Context, config *rest.Config, ns string) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "coderworkspaces"}
	_, err = c.Resource(resource).Namespace(ns).List(ctx, metav1.ListOptions{})
	return err
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
