package callers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Getter reads paths of the Kubernetes API without decoding the response.
type Getter interface {
	// Get requests path, for example /api/v1/namespaces/coder/pods/x/log. For a response
	// other than success, the error is one of k8s.io/apimachinery/pkg/api/errors. The
	// caller must close the reader, which fails when the context ends.
	Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error)
}

type rawGetter struct{ client rest.Interface }

func newRawGetter(cfg *rest.Config, httpClient *http.Client) (Getter, error) {
	cfg = rest.CopyConfig(cfg)
	// Error responses are decoded as JSON; other responses are not decoded.
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "*/*"
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.UnversionedRESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	return &rawGetter{client: c}, nil
}

// Get implements Getter. It rejects paths with invalid characters, because a model chose
// some of the names in them.
func (g *rawGetter) Get(ctx context.Context, apiPath string, query url.Values) (io.ReadCloser, error) {
	if err := checkPath(apiPath); err != nil {
		return nil, err
	}
	req := g.client.Get().AbsPath(apiPath)
	for name, values := range query {
		for _, value := range values {
			req = req.Param(name, value)
		}
	}
	return req.Stream(ctx)
}

func checkPath(apiPath string) error {
	if !strings.HasPrefix(apiPath, "/") || path.Clean(apiPath) != apiPath || strings.ContainsAny(apiPath, "?#%\\") {
		return apierrors.NewBadRequest(fmt.Sprintf("%q is no path of the Kubernetes API: a name in it has characters that names cannot have", apiPath))
	}
	return nil
}
