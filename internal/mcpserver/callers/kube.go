package callers

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kube is the Kubernetes API as the caller of each call's context sees it.
type Kube struct {
	// WithWatch reads and writes objects, and watches them.
	client.WithWatch
	// Raw reads what is no object: logs and archives.
	Raw Getter
	// Exec runs commands in workspaces.
	Exec Executor
}

// New makes the one client of all callers. The rights of base are those to
// impersonate; they do nothing else. The mapper is given, and must have a client
// of its own, because discovery does not hand the context on.
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
	raw, err := newRawGetter(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the client that reads logs as the caller: %w", err)
	}
	exec, err := newExecutor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client that runs commands as the caller: %w", err)
	}
	return &Kube{WithWatch: objects, Raw: raw, Exec: exec}, nil
}

func impersonating(base *rest.Config, extra ...string) *rest.Config {
	cfg := rest.CopyConfig(base)
	// The API server's own fairness limits callers; client-go's limit would make
	// all of them share five requests a second.
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	// The context of each call ends it; a watch has no time that could be given here.
	cfg.Timeout = 0
	// A kubeconfig may itself act as somebody. That is for Local, below; whoever
	// has a token is impersonated in its place.
	as := cfg.Impersonate
	cfg.Impersonate = rest.ImpersonationConfig{}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &impersonator{next: next, local: actingAs(as, next), extra: extra}
	})
	return cfg
}

func actingAs(as rest.ImpersonationConfig, next http.RoundTripper) http.RoundTripper {
	if as.UserName == "" {
		return next
	}
	return transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig(as), next)
}
