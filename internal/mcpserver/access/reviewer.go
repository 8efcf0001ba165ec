package access

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheSize is the maximum number of cached results of one kind.
const cacheSize = 4096

// Reviewer checks the permissions of callers.
type Reviewer interface {
	// MayEnter reports whether the user may post to /mcp.
	MayEnter(ctx context.Context, u user.Info) (bool, error)
	// Lacks returns true for each permission that the caller in the context certainly has
	// in no namespace. If a permission cannot be checked, the caller is assumed to have it.
	// Pass all permissions in one call, because the result is cached for the whole list.
	// The returned map must not be modified.
	Lacks(ctx context.Context, rights []Right) map[Right]bool
}

// Config configures a Reviewer.
type Config struct {
	// Kube creates SubjectAccessReviews with the server's own identity.
	Kube kubernetes.Interface
	// Callers impersonates the caller in the context. Its scheme must contain
	// authorization.k8s.io/v1.
	Callers client.Client
	// Namespaces returns the namespaces in which the tools can find objects.
	Namespaces func(context.Context) ([]string, error)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

type reviewer struct {
	*entryReviewer
	*rightsReviewer
}

// NewReviewer returns a Reviewer that sends its checks to the API server.
func NewReviewer(cfg Config) Reviewer {
	clk := cfg.Clock
	if clk == nil {
		clk = clock.RealClock{}
	}
	return reviewer{
		entryReviewer:  newEntryReviewer(cfg.Kube.AuthorizationV1().SubjectAccessReviews(), clk),
		rightsReviewer: newRightsReviewer(cfg.Callers, cfg.Namespaces, clk),
	}
}
