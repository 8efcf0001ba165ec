package callers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

// Kube is a client of the Kubernetes API that impersonates the caller in the context of
// each call.
type Kube struct {
	// WithWatch reads and writes objects, and watches them.
	client.WithWatch
	// Raw requests a path that is not an object, such as /api/v1/namespaces/coder/pods/x/log.
	// For a response other than success, the error is one of
	// k8s.io/apimachinery/pkg/api/errors. The caller must close the reader, which fails when
	// the context ends.
	Raw func(ctx context.Context, path string, query url.Values) (io.ReadCloser, error)
	// Exec runs a command in a workspace, through the subresource exec.
	Exec Exec
}

// Exec runs a command in a workspace with the caller's permissions. agent may be empty if the
// workspace has only one agent. Errors are those of remoteexec.Run.
type Exec func(ctx context.Context, namespace, workspace, agent string, c remoteexec.Command) error

// New creates the client that all callers share. The credentials in base need only the
// permission to impersonate. The mapper must use another client, because discovery does not
// pass the context on.
func New(base *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper, extra ...string) (*Kube, error) {
	cfg := impersonating(base, extra...)
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the connection that acts as the caller: %w", err)
	}
	objects, err := client.NewWithWatch(cfg, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making the client that acts as the caller: %w", err)
	}
	raw, err := newRaw(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the client that reads logs as the caller: %w", err)
	}
	exec, err := newExec(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client that runs commands as the caller: %w", err)
	}
	return &Kube{WithWatch: objects, Raw: raw, Exec: exec}, nil
}

func impersonating(base *rest.Config, extra ...string) *rest.Config {
	cfg := rest.CopyConfig(base)
	// API Priority and Fairness limits callers on the server side. The default limit of
	// client-go is five requests a second for all callers together.
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	// The context of each call limits its duration; a watch has no fixed duration.
	cfg.Timeout = 0
	// A kubeconfig may itself impersonate a user. That applies only to Local, below; an
	// authenticated caller is impersonated instead.
	as := cfg.Impersonate
	cfg.Impersonate = rest.ImpersonationConfig{}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		local := next
		if as.UserName != "" {
			local = transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig(as), next)
		}
		return &impersonator{next: next, local: local, extra: extra}
	})
	return cfg
}

// newRaw returns the function for Kube.Raw. It rejects paths with invalid characters, because
// a model chose some of the names in them.
func newRaw(cfg *rest.Config, httpClient *http.Client) (func(context.Context, string, url.Values) (io.ReadCloser, error), error) {
	cfg = rest.CopyConfig(cfg)
	// Error responses are decoded as JSON; other responses are not decoded.
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "*/*"
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.UnversionedRESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, apiPath string, query url.Values) (io.ReadCloser, error) {
		if err := checkPath(apiPath); err != nil {
			return nil, err
		}
		req := c.Get().AbsPath(apiPath)
		for name, values := range query {
			for _, value := range values {
				req = req.Param(name, value)
			}
		}
		return req.Stream(ctx)
	}, nil
}

// maxJSON limits the size of a JSON document that is read.
const maxJSON = 4 << 20

// ReadJSON requests a path of the Kubernetes API and decodes the JSON document into into.
func (k *Kube) ReadJSON(ctx context.Context, apiPath string, query url.Values, into any) error {
	body, err := k.Raw(ctx, apiPath, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxJSON)).Decode(into); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

func checkPath(apiPath string) error {
	if !strings.HasPrefix(apiPath, "/") || path.Clean(apiPath) != apiPath || strings.ContainsAny(apiPath, "?#%\\") {
		return apierrors.NewBadRequest(fmt.Sprintf("%q is not a path of the Kubernetes API: a name in it has invalid characters", apiPath))
	}
	return nil
}

// SubresourcePath returns the API path of a subresource, for Kube.Raw. It does not escape
// the names: Raw rejects paths with invalid characters.
func SubresourcePath(group schema.GroupVersion, namespace, resource, name, subresource string) string {
	root := "/apis/" + group.String()
	if group.Group == "" {
		root = "/api/" + group.Version
	}
	return root + "/namespaces/" + namespace + "/" + resource + "/" + name + "/" + subresource
}

// maxExecs is the maximum number of commands that a caller may run at a time, on each
// replica.
const maxExecs = 8

func newExec(cfg *rest.Config) (Exec, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	quota := NewQuota(maxExecs, 0)
	return func(ctx context.Context, namespace, workspace, agent string, c remoteexec.Command) error {
		apiPath := SubresourcePath(aggregationv1alpha1.GroupVersion, namespace, "coderworkspaces", workspace, "exec")
		if err := checkPath(apiPath); err != nil {
			return err
		}
		if strings.Contains(namespace+workspace, "/") {
			return apierrors.NewBadRequest(fmt.Sprintf("%q in namespace %q is not a valid name of a workspace", workspace, namespace))
		}
		end, ok := quota.Begin(NameOf(ctx))
		if !ok {
			return apierrors.NewTooManyRequests(fmt.Sprintf("%d commands of this user are running, which is the limit: wait for one of them, or run a command in the background", maxExecs), 0)
		}
		defer end()
		to := base.JoinPath(apiPath)
		if agent != "" {
			to.RawQuery = url.Values{"agent": {agent}}.Encode()
		}
		// One of the protocols of exec begins with POST.
		return remoteexec.Run(context.WithValue(ctx, readOnlyKey{}, false), cfg, to, c)
	}, nil
}
