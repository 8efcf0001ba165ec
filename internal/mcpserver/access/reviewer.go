package access

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheSize bounds the memory that answers of one kind take.
const cacheSize = 4096

// Reviewer says what callers may do.
type Reviewer interface {
	// MayEnter says whether the user may post to /mcp.
	MayEnter(ctx context.Context, u user.Info) (bool, error)
	// Lacks says, for each of the rights, whether the caller of the context surely
	// has it nowhere. What cannot be found out counts as had. Ask for all rights at
	// once: an answer is remembered for the question as a whole.
	// The map belongs to the Reviewer.
	Lacks(ctx context.Context, rights []Right) map[Right]bool
}

// Config is what a Reviewer is made of.
type Config struct {
	// Kube asks about others, with the server's own identity.
	Kube kubernetes.Interface
	// Callers asks as the caller of the context. Its scheme knows
	// authorization.k8s.io/v1.
	Callers client.Client
	// Namespaces are those in which the tools may find something to work on.
	Namespaces func(context.Context) ([]string, error)
	// Clock is the real one unless set.
	Clock clock.PassiveClock
}

type reviewer struct {
	*entryReviewer
	*rightsReviewer
}

// NewReviewer makes the Reviewer that asks the API server.
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
